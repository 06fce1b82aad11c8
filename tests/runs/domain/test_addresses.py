"""Which addresses a host may have."""

from __future__ import annotations

from typing import get_args

import pytest

from runs.domain.addresses import Allowed, Reason, Refused, judge, judge_origin, reason_against

ORIGIN = "https://host.example"

ADDRESSES = {
    "8.8.8.8": None,
    "2606:4700:4700::1111": None,
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "::1": "loopback",
    "10.1.2.3": "private",
    "172.16.0.1": "private",
    "172.32.0.1": None,
    "192.168.1.1": "private",
    "100.64.0.1": "private",
    "fc00::1": "private",
    "fdff::1": "private",
    "fec0::1": "private",
    "169.254.1.1": "link_local",
    "fe80::1": "link_local",
    "fe80::1%eth0": "link_local",
    "169.254.169.254": "metadata",
    "169.254.170.2": "metadata",
    "168.63.129.16": "metadata",
    "fd00:ec2::254": "metadata",
    "224.0.0.1": "multicast",
    "ff02::1": "multicast",
    "0.0.0.0": "unspecified",
    "::": "unspecified",
    "0.1.2.3": "reserved",
    "192.0.2.1": "reserved",
    "240.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "2001:db8::1": "reserved",
    # IPv4 inside IPv6
    "::ffff:127.0.0.1": "loopback",
    "::ffff:169.254.169.254": "metadata",
    "::FFFF:0A00:0001": "private",
    "::ffff:8.8.8.8": None,
    "::127.0.0.1": "loopback",
    "2002:7f00:1::": "loopback",
    "2002:a9fe:a9fe::1": "metadata",
    "2002:0808:0808::1": None,
    "64:ff9b::10.0.0.1": "private",
    "64:ff9b::8.8.8.8": None,
    "64:ff9b:1::10.0.0.1": "private",
    "2001:0:4136:e378:8000:63bf:f5ff:fffe": "private",  # Teredo, of 10.0.0.1
    "not an address": "malformed",
    "": "malformed",
}


@pytest.mark.parametrize(("address", "reason"), ADDRESSES.items())
def test_address(address: str, reason: str | None) -> None:
    assert reason_against(address) == reason
    told = judge(ORIGIN, [address])
    assert told == (Allowed((address,)) if reason is None else Refused(reason, address))


@pytest.mark.parametrize(
    ("address", "is_open"),
    [
        ("127.0.0.1", True),
        ("10.0.0.1", True),
        ("fe80::1", True),
        ("::ffff:192.168.0.1", True),
        ("169.254.169.254", False),
        ("::ffff:169.254.169.254", False),
        ("224.0.0.1", False),
        ("0.0.0.0", False),
        ("240.0.0.1", False),
        ("8.8.8.8", True),
    ],
)
def test_what_an_operator_may_open(address: str, is_open: bool) -> None:
    assert isinstance(judge(ORIGIN, [address], allow_private=True), Allowed) == is_open


def test_one_bad_address_condemns_the_name() -> None:
    assert judge(ORIGIN, ["8.8.8.8", "10.0.0.1"]) == Refused("private", "10.0.0.1")
    assert judge(ORIGIN, ["8.8.8.8", "2606:4700::1"]) == Allowed(("8.8.8.8", "2606:4700::1"))
    assert judge(ORIGIN, []) == Refused("no_address", "host.example")


ORIGINS = {
    "https://host.example": None,
    "http://host.example:8080/prefix": None,
    "HTTPS://HOST.example": None,
    "https://[2606:4700::1]:8443": None,
    "ftp://host.example": "scheme",
    "file:///etc/passwd": "scheme",
    "gopher://127.0.0.1": "scheme",
    "host.example": "scheme",
    "": "scheme",
    "https://": "malformed",
    "https://host.example:99999": "malformed",
    "https://[::1": "malformed",
    "https://host .example": "malformed",
    "https://host\u2028.example": "malformed",
    "https://host\u200b.example": "malformed",
    "https://user:secret@host.example": "userinfo",
    "https://user@host.example": "userinfo",
    "https://@host.example": "userinfo",
    "https://good.example\\@evil.example": "userinfo",
    "https://host.example?x=1": "query",
    "https://host.example/#x": "query",
    "http://localhost:8000": "loopback",
    "http://LOCALHOST.": "loopback",
    "http://api.localhost": "loopback",
    "http://127.0.0.1": "loopback",
    "http://[::ffff:10.0.0.1]": "private",
    "http://metadata.google.internal/computeMetadata/v1": "metadata",
    "http://metadata": "metadata",
    "http://metadata.goog.": "metadata",
    "http://instance-data/latest": "metadata",
    "http://169.254.169.254": "metadata",
}


@pytest.mark.parametrize(("origin", "reason"), ORIGINS.items())
def test_origin(origin: str, reason: str | None) -> None:
    told = judge_origin(origin)
    assert (None if told is None else told.reason) == reason
    if reason is not None:
        assert isinstance(judge(origin, ["8.8.8.8"]), Refused)


@pytest.mark.parametrize("origin", ["http://localhost:8000", "http://127.0.0.1", "http://[fe80::1]"])
def test_origins_that_an_operator_may_open(origin: str) -> None:
    assert judge_origin(origin, allow_private=True) is None


def test_metadata_stays_closed_by_name() -> None:
    told = judge_origin("http://metadata.google.internal", allow_private=True)
    assert told is not None and told.reason == "metadata"


def test_a_number_for_a_name_is_judged_by_what_it_leads_to() -> None:
    assert judge("http://2130706433", ["127.0.0.1"]) == Refused("loopback", "127.0.0.1")


def test_a_refusal_tells_no_password() -> None:
    told = judge_origin("https://user:hunter2@host.example")
    assert told is not None
    assert str(told) == "a name or password in the address of host.example"
    assert str(judge(ORIGIN, ["10.0.0.1"])) == "10.0.0.1 is on a private network"


@pytest.mark.parametrize("reason", get_args(Reason))
def test_every_reason_has_words(reason: Reason) -> None:
    told = str(Refused(reason, "host.example"))
    assert "host.example" in told and len(told) > len("host.example") + 8
