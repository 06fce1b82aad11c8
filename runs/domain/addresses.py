"""Which addresses a host may have: judged by its origin and by every address that its name leads to.

Whoever may name a host could otherwise send this server to look around inside its own network. An IPv6 address that
carries an IPv4 address is judged by that one, whatever its spelling (core webhooks, section Egress; RFC 0196 B).
"""

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal
from urllib.parse import urlsplit

Reason = Literal[
    "malformed",
    "scheme",
    "userinfo",
    "query",
    "no_address",
    "loopback",
    "private",
    "link_local",
    "metadata",
    "multicast",
    "unspecified",
    "reserved",
]

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

MAY_BE_ALLOWED: frozenset[Reason] = frozenset(("loopback", "private", "link_local"))
"""What an operator may open: a development host, a host in the same network. Nothing good lives at the others."""

# Where clouds hand out credentials to whoever asks from inside; the third is a public address.
_METADATA_ADDRESSES = frozenset(
    map(
        ipaddress.ip_address,
        ("169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254"),
    )
)
_METADATA_NAMES = frozenset(("metadata", "metadata.google.internal", "metadata.goog", "instance-data"))
_LOOPBACK_NAMES = ("localhost", ".localhost")

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_IPV4_COMPATIBLE = ipaddress.IPv6Network("::/96")


@dataclass(frozen=True, slots=True)
class Allowed:
    """`addresses` are the ones to connect to, and no other: a name may lead elsewhere a moment later."""

    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """`what` is the address, the scheme or the name that offends; nothing secret, and no user's name or password."""

    reason: Reason
    what: str

    def __str__(self) -> str:
        return _WORDS[self.reason].format(what=self.what)


_WORDS: Mapping[Reason, str] = MappingProxyType(
    {
        "malformed": "not an address of a host: {what}",
        "scheme": "{what} is not spoken; http and https are",
        "userinfo": "a name or password in the address of {what}",
        "query": "a query or fragment in the address of {what}",
        "no_address": "{what} leads to no address",
        "loopback": "{what} is this machine",
        "private": "{what} is on a private network",
        "link_local": "{what} is on the local link",
        "metadata": "{what} is a cloud's metadata service",
        "multicast": "{what} is a multicast address",
        "unspecified": "{what} is no machine's address",
        "reserved": "{what} is not reachable from everywhere",
    }
)


def judge(origin: str, addresses: Iterable[str], *, allow_private: bool = False) -> Allowed | Refused:
    """`addresses` are all that the origin's name resolves to: one bad one condemns the name.

    `allow_private` opens what MAY_BE_ALLOWED names.
    """
    refused = judge_origin(origin, allow_private=allow_private)
    if refused is not None:
        return refused
    found = tuple(addresses)
    if not found:
        return Refused("no_address", _host_in(origin))
    for address in found:
        reason = reason_against(address)
        if reason is not None and not (allow_private and reason in MAY_BE_ALLOWED):
            return Refused(reason, address)
    return Allowed(found)


def judge_origin(origin: str, *, allow_private: bool = False) -> Refused | None:
    """What can be said before its name is resolved; None when nothing is wrong so far. A path may follow the host."""
    try:
        parts = urlsplit(origin)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return Refused("malformed", "an unreadable one")
    if parts.scheme not in ("http", "https"):
        return Refused("scheme", parts.scheme[:32] or "an address without a scheme")
    if "@" in parts.netloc:
        return Refused("userinfo", host)
    if not host or any(character.isspace() or not character.isprintable() for character in origin):
        return Refused("malformed", host or "an address without a host")
    if parts.query or parts.fragment:
        return Refused("query", host)
    reason = _reason_against_name(host)
    return None if reason is None or (allow_private and reason in MAY_BE_ALLOWED) else Refused(reason, host)


def _host_in(origin: str) -> str:
    return urlsplit(origin).hostname or ""


def _reason_against_name(host: str) -> Reason | None:
    name = host.rstrip(".").lower()
    if name in _METADATA_NAMES:
        return "metadata"
    if name == _LOOPBACK_NAMES[0] or name.endswith(_LOOPBACK_NAMES[1]):
        return "loopback"
    try:
        return _reason_against(ipaddress.ip_address(host))
    except ValueError:
        return None


def reason_against(text: str) -> Reason | None:
    """Why nobody should be sent to this IP address; None for one that everybody can reach."""
    try:
        return _reason_against(ipaddress.ip_address(text))
    except ValueError:
        return "malformed"


def _reason_against(address: IPAddress) -> Reason | None:
    inner = _embedded(address)
    if inner is not None:
        return _reason_against(inner)
    if address in _METADATA_ADDRESSES:
        return "metadata"
    for reason, holds in _KINDS:
        if holds(address):
            return reason
    return None if address.is_global else "reserved"


def _embedded(address: IPAddress) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address in _IPV4_COMPATIBLE and int(address) > 1:  # :: and ::1 are IPv6's own
        return ipaddress.IPv4Address(int(address))
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else None)


def _is_private(address: IPAddress) -> bool:
    return any(address in network for network in _PRIVATE)


# RFC 1918, carrier-grade NAT (RFC 6598), unique local (RFC 4193), site-local (RFC 3879), a site's NAT64 (RFC 8215).
_PRIVATE = tuple(
    map(
        ipaddress.ip_network,
        (
            *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"),
            *("fc00::/7", "fec0::/10", "64:ff9b:1::/48"),
        ),
    )
)

_KINDS: tuple[tuple[Reason, Callable[[IPAddress], bool]], ...] = (
    ("unspecified", lambda address: address.is_unspecified),
    ("loopback", lambda address: address.is_loopback),
    ("link_local", lambda address: address.is_link_local),
    ("multicast", lambda address: address.is_multicast),
    ("private", _is_private),
)
