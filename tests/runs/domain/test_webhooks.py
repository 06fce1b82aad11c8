"""Signatures of all six dialects, over recorded deliveries and over ones signed here by the recipes of the spec."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runs.domain.event import RunEvent
from runs.domain.normalise import read_event
from runs.domain.webhooks import (
    DIALECTS,
    BadSecret,
    NotADelivery,
    Refused,
    Verified,
    challenge_in,
    echo,
    fingerprint,
    read_delivery,
    signing_key,
    standard_secret,
    tenant_in,
    verify,
)
from tests.runs.domain.examples import RECORDINGS, compact, event

NOW = datetime.fromtimestamp(1760000000, UTC)
BODY = b'{"runId":"acme/r-0123456789abcdef","event":{"type":"memory.written","sequence":7}}'
SECRET = "test-secret-0123456789abcdef"
VECTOR = "9f2eb5a5f33fcd7d49b0012bb5d126f99466fd84a1b8571f987452ec8f314883"

KEY = bytes(range(32))
WHSEC = "whsec_" + base64.b64encode(KEY).decode()
OTHER_WHSEC = "whsec_" + base64.b64encode(KEY[::-1]).decode()
MESSAGE = "msg_2KWPBgLlAfxdpx2AI54pPJ85"


def standard_signature(secret: str, body: bytes = BODY, *, message: str = MESSAGE, at: int = 1760000000) -> str:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    mac = hmac.new(key, f"{message}.{at}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(mac).decode()


SIGNED: dict[str, tuple[dict[str, str], str]] = {
    "openwop-2": (
        {
            "OpenWOP-Signature": f"sha256={VECTOR}",
            "OpenWOP-Timestamp": "1760000000",
            "OpenWOP-Signature-Algorithm": "v1",
            "OpenWOP-Webhook-Id": "acme/hook",
            "OpenWOP-Event-Type": "memory.written",
        },
        SECRET,
    ),
    "openwop-1": ({"X-openwop-Signature": f"sha256={VECTOR}", "X-openwop-Timestamp": "1760000000"}, SECRET),
    "reference-hosts": (
        {"X-openwop-Signature": VECTOR, "X-openwop-Signature-Timestamp": "1760000000"},
        SECRET,
    ),
    "openwop-app": ({"openwop-signature": f"t=1760000000,v1={VECTOR}"}, SECRET),
    "client-1": (
        {"openwop-Webhook-Signature": f"v1={VECTOR}", "openwop-Webhook-Timestamp": "1760000000"},
        SECRET,
    ),
    "standard-webhooks": (
        {
            "webhook-id": MESSAGE,
            "webhook-timestamp": "1760000000",
            "webhook-signature": standard_signature(WHSEC),
        },
        WHSEC,
    ),
}


def check(
    name: str,
    headers: dict[str, str],
    body: bytes = BODY,
    secrets: tuple[str, ...] | None = None,
    *,
    now: datetime = NOW,
) -> Verified | Refused:
    return verify(DIALECTS[name], headers, body, SIGNED[name][1:] if secrets is None else secrets, now=now)


def refusal(answer: Verified | Refused) -> Refused:
    assert isinstance(answer, Refused), answer
    return answer


@dataclass(frozen=True)
class Recorded:
    host: str
    number: int
    headers: dict[str, str]
    body: bytes
    received_at: datetime
    secret: str | None

    @property
    def dialect(self) -> str:
        return "openwop-app" if self.host == "openwop-app" else "reference-hosts"

    def check(self, *, body: bytes | None = None, later: int = 0) -> Verified | Refused:
        now = self.received_at + timedelta(seconds=later)
        secrets = [self.secret] if self.secret else []
        return verify(DIALECTS[self.dialect], self.headers, body or self.body, secrets, now=now)


def recorded(host: str) -> Iterator[Recorded]:
    folder = RECORDINGS / "webhooks" / host
    secrets = json.loads((folder / "secrets.json").read_text())
    for line in (folder / "deliveries.jsonl").read_text().splitlines():
        told = json.loads(line)
        named = {name.lower(): value for name, value in told["headers"].items()}
        subscription = named.get("openwop-subscription-id") or named["x-openwop-subscription-id"]
        yield Recorded(
            host,
            told["n"],
            told["headers"],
            told["body"].encode(),
            datetime.fromisoformat(told["receivedAt"]),
            secrets.get(subscription),
        )


HOSTS = {"openwop-app": 70, "sqlite": 20, "postgres": 32, "python": 26}
"""Deliveries whose secret is known."""


@pytest.mark.parametrize("host", HOSTS)
def test_recorded_delivery_verifies_with_its_secret_at_its_time(host: str) -> None:
    known = [delivery for delivery in recorded(host) if delivery.secret]
    assert len(known) == HOSTS[host]
    for delivery in known:
        answer = delivery.check()
        assert isinstance(answer, Verified), (delivery.number, answer)
        assert delivery.secret and answer.fingerprint == hashlib.sha256(delivery.secret.encode()).hexdigest()[:8]


@pytest.mark.parametrize("host", HOSTS)
def test_recorded_delivery_with_one_byte_changed_is_refused(host: str) -> None:
    for delivery in recorded(host):
        for place in (0, len(delivery.body) // 2, len(delivery.body) - 1):
            changed = bytearray(delivery.body)
            changed[place] ^= 1
            assert isinstance(delivery.check(body=bytes(changed)), Refused)


@pytest.mark.parametrize("host", HOSTS)
def test_recorded_delivery_of_five_minutes_ago_is_refused(host: str) -> None:
    answers = [delivery.check(later=301) for delivery in recorded(host) if delivery.secret]
    assert {refusal(answer).reason for answer in answers} == {"signed more than five minutes ago"}
    assert {refusal(answer).status for answer in answers} == {401}


def test_recorded_deliveries_of_a_forgotten_subscription_have_no_secret() -> None:
    unknown = [delivery for delivery in recorded("python") if delivery.secret is None]
    assert len(unknown) == 4
    assert {refusal(delivery.check()).status for delivery in unknown} == {404}


@pytest.mark.parametrize("host", ["sqlite", "postgres", "python", "openwop-app"])
def test_another_subscriptions_secret_does_not_verify(host: str) -> None:
    folder = RECORDINGS / "webhooks" / host
    secrets = set(json.loads((folder / "secrets.json").read_text()).values())
    for delivery in recorded(host):
        others = tuple(secrets - {delivery.secret})
        answer = verify(DIALECTS[delivery.dialect], delivery.headers, delivery.body, others, now=delivery.received_at)
        assert refusal(answer).status == 401


def test_fingerprint_is_the_one_that_the_host_told() -> None:
    assert fingerprint("MZn-PwrB_npqpL5t7btoBcyg7wkfb3fc6GkaoymGND8") == "37f5cf40"
    assert fingerprint(SECRET) == "897fe499"


@pytest.mark.parametrize("name", [pytest.param(name, id=f"j16-{name}") for name in SIGNED])
def test_each_dialect_verifies_its_own_and_nothing_else(name: str) -> None:
    headers, secret = SIGNED[name]
    assert isinstance(check(name, headers), Verified)
    for other in SIGNED.keys() - {name}:
        answer = verify(DIALECTS[other], headers, BODY, (SIGNED[other][1],), now=NOW)
        # The second major's receivers take the first one's headers; that is one scheme under two names.
        assert isinstance(answer, Verified) == ((name, other) == ("openwop-1", "openwop-2")), (name, other)


SIGNATURE_TABLE = [
    pytest.param("openwop-2", {}, BODY, 0, True, id="h-webhook-signed-delivery-vector"),
    pytest.param("openwop-2", {}, BODY[:-1] + b" ", 0, False, id="h-webhook-signed-delivery-wrong-byte"),
    pytest.param("openwop-2", {"OpenWOP-Signature-Algorithm": "v2"}, BODY, 0, False, id="h-sig-algorithm-unknown"),
    pytest.param("openwop-2", {"OpenWOP-Signature-Algorithm": ""}, BODY, 0, True, id="h-sig-algorithm-empty-is-v1"),
    pytest.param(
        "openwop-2",
        {"OpenWOP-Signature-Algorithm": "standard-webhooks-1"},
        BODY,
        0,
        False,
        id="h-sig-algorithm-the-other-schemes-name",
    ),
    pytest.param("openwop-2", {}, BODY, 300, True, id="h-webhook-signed-delivery-plus-300s"),
    pytest.param("openwop-2", {}, BODY, -300, True, id="h-webhook-signed-delivery-minus-300s"),
    pytest.param("openwop-2", {}, BODY, 301, False, id="h-webhook-signed-delivery-plus-301s"),
    pytest.param("openwop-2", {}, BODY, -301, False, id="h-webhook-signed-delivery-minus-301s"),
    pytest.param("openwop-1", {}, BODY, 0, True, id="h-sig-algorithm-missing-is-v1"),
    pytest.param("client-1", {}, BODY, 0, True, id="j22-the-v1-form-of-the-first-clients"),
]


@pytest.mark.parametrize(("name", "changed", "body", "late", "is_good"), SIGNATURE_TABLE)
def test_signature_table(name: str, changed: dict[str, str], body: bytes, late: int, is_good: bool) -> None:
    answer = check(name, SIGNED[name][0] | changed, body, now=NOW + timedelta(seconds=late))
    assert isinstance(answer, Verified) == is_good, answer


def test_what_is_known_of_a_verified_delivery() -> None:
    answer = check("openwop-2", SIGNED["openwop-2"][0])
    assert answer == Verified(
        signed_at=NOW,
        fingerprint="897fe499",
        subscription_id="acme/hook",
        event_type="memory.written",
    )
    standard = check("standard-webhooks", SIGNED["standard-webhooks"][0])
    assert isinstance(standard, Verified) and standard.delivery_id == MESSAGE


NAMED = {
    "openwop-app": ("openwop-subscription-id", "openwop-event-type"),
    "sqlite": ("X-openwop-Subscription-Id", None),
    "python": ("X-Openwop-Subscription-Id", None),
}


@pytest.mark.parametrize("host", NAMED)
def test_recorded_names_beside_the_signature(host: str) -> None:
    subscription, event_type = NAMED[host]
    for delivery in recorded(host):
        answer = delivery.check()
        if isinstance(answer, Verified):
            assert answer.subscription_id == delivery.headers[subscription]
            assert answer.event_type == (delivery.headers[event_type] if event_type else None)


@pytest.mark.parametrize("name", ["openwop-1", "standard-webhooks"])
def test_names_beside_the_signature(name: str) -> None:
    prefix = "X-openwop-" if name == "openwop-1" else "OpenWOP-"
    named = {f"{prefix}Webhook-Id": "hook", f"{prefix}Event-Type": "run.started"}
    answer = check(name, SIGNED[name][0] | named)
    assert isinstance(answer, Verified)
    assert (answer.subscription_id, answer.event_type) == ("hook", "run.started")


@pytest.mark.parametrize(
    "name", [pytest.param(name, id=f"h-sig-algorithm-unknown-{name}") for name in ("openwop-1", "reference-hosts")]
)
def test_unknown_algorithm_is_refused_in_every_family(name: str) -> None:
    told = refusal(check(name, SIGNED[name][0] | {"X-openwop-Signature-Algorithm": "ed25519"}))
    assert told == Refused("an unknown signature algorithm", 400)


def test_a_host_that_is_ahead_of_time() -> None:
    told = refusal(check("openwop-2", SIGNED["openwop-2"][0], now=NOW - timedelta(seconds=301)))
    assert told == Refused("signed more than five minutes ahead of this clock", 401)


def test_not_every_signature_of_a_long_list_is_looked_at() -> None:
    good, bad = standard_signature(WHSEC), standard_signature(OTHER_WHSEC)
    for before, is_good in ((15, True), (16, False)):
        headers = SIGNED["standard-webhooks"][0] | {"webhook-signature": " ".join([*[bad] * before, good])}
        assert isinstance(check("standard-webhooks", headers), Verified) == is_good


def test_names_of_headers_are_of_no_case() -> None:
    headers, _ = SIGNED["openwop-2"]
    assert isinstance(check("openwop-2", {name.upper(): value for name, value in headers.items()}), Verified)


def test_second_majors_headers_win_and_are_not_fallen_back_from() -> None:
    first, second = SIGNED["openwop-1"][0], SIGNED["openwop-2"][0]
    assert isinstance(check("openwop-2", first), Verified)
    assert isinstance(check("openwop-2", first | second), Verified)
    broken = second | {"OpenWOP-Signature": "sha256=" + "0" * 64}
    assert refusal(check("openwop-2", first | broken)).status == 401


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "OpenWOP-Signature, OpenWOP-Timestamp, which is missing"),
        ({"OpenWOP-Signature": f"sha256={VECTOR}"}, "OpenWOP-Timestamp, which is missing"),
        ({"OpenWOP-Signature": VECTOR, "OpenWOP-Timestamp": "1760000000"}, "not written as openwop-2"),
        ({"OpenWOP-Signature": f"sha256={VECTOR}00", "OpenWOP-Timestamp": "1760000000"}, "not written as"),
        ({"OpenWOP-Signature": f"sha256={VECTOR}", "OpenWOP-Timestamp": "1.76e9"}, "not a number of seconds"),
        ({"OpenWOP-Signature": f"sha256={VECTOR}", "OpenWOP-Timestamp": "١٧٦٠٠٠٠٠٠٠"}, "not a number of seconds"),
        ({"OpenWOP-Signature": f"sha256={VECTOR}", "OpenWOP-Timestamp": "9" * 40}, "not a number of seconds"),
        ({"OpenWOP-Signature": "x", "openwop-signature": "y", "OpenWOP-Timestamp": "1"}, "came twice"),
    ],
)
def test_malformed_headers_are_refused_with_400(headers: dict[str, str], reason: str) -> None:
    answer = refusal(check("openwop-2", headers))
    assert answer.status == 400
    assert reason in answer.reason


def test_any_live_secret_verifies_and_is_named() -> None:
    headers, secret = SIGNED["openwop-2"]
    answer = check("openwop-2", headers, secrets=("new-secret", secret))
    assert isinstance(answer, Verified) and answer.fingerprint == "897fe499"
    assert isinstance(check("openwop-2", headers, secrets=("new-secret",)), Refused)


def test_h_webhook_unregister_stops_delivery() -> None:
    assert refusal(check("openwop-2", SIGNED["openwop-2"][0], secrets=())) == Refused(
        "no secret of this subscription is live", 404
    )


@pytest.mark.parametrize("secrets", [(WHSEC,), (OTHER_WHSEC,), (WHSEC, OTHER_WHSEC)])
def test_during_rotation_one_of_several_signatures_is_enough(secrets: tuple[str, ...]) -> None:
    signatures = f"v1a,AAAA {standard_signature(OTHER_WHSEC)} {standard_signature(WHSEC)}"
    headers = SIGNED["standard-webhooks"][0] | {"webhook-signature": signatures}
    assert isinstance(check("standard-webhooks", headers, secrets=secrets), Verified)


def test_standard_signature_covers_the_id() -> None:
    headers = SIGNED["standard-webhooks"][0] | {"webhook-id": "msg_another"}
    assert refusal(check("standard-webhooks", headers)).status == 401


def test_an_id_is_needed_where_it_is_signed() -> None:
    headers = {name: value for name, value in SIGNED["standard-webhooks"][0].items() if name != "webhook-id"}
    assert refusal(check("standard-webhooks", headers)).reason.endswith("webhook-id, which is missing")


def test_an_id_whose_end_could_be_read_in_two_ways_is_refused() -> None:
    headers = SIGNED["standard-webhooks"][0] | {
        "webhook-id": "msg_1.1760000000",
        "webhook-signature": standard_signature(WHSEC, message="msg_1.1760000000"),
    }
    assert refusal(check("standard-webhooks", headers)).status == 400


def test_h_v2_webhook_durable_delivery_keeps_its_id_over_attempts() -> None:
    answers = [
        check(
            "standard-webhooks",
            {
                "webhook-id": MESSAGE,
                "webhook-timestamp": str(1760000000 + attempt),
                "webhook-signature": standard_signature(WHSEC, at=1760000000 + attempt),
            },
        )
        for attempt in range(5)
    ]
    assert [answer.delivery_id for answer in answers if isinstance(answer, Verified)] == [MESSAGE] * 5


@pytest.mark.parametrize("length", [24, 64])
def test_standard_secret_holds_24_to_64_bytes(length: int) -> None:
    key = bytes(length)
    assert signing_key(DIALECTS["standard-webhooks"], standard_secret(key)) == key


@pytest.mark.parametrize(
    "secret",
    [
        "whsec_" + base64.b64encode(bytes(23)).decode(),
        "whsec_" + base64.b64encode(bytes(65)).decode(),
        "whsec_***",
        base64.b64encode(KEY).decode(),
        "",
    ],
)
def test_what_can_not_be_a_standard_secret(secret: str) -> None:
    with pytest.raises(BadSecret):
        signing_key(DIALECTS["standard-webhooks"], secret)


def test_a_secret_is_taken_as_it_is_where_the_dialect_says_so() -> None:
    assert signing_key(DIALECTS["openwop-2"], WHSEC) == WHSEC.encode()
    with pytest.raises(BadSecret):
        signing_key(DIALECTS["openwop-1"], "")


CHALLENGE = "c" * 22


def test_challenge_is_echoed() -> None:
    body = json.dumps({"type": "openwop.webhook.verification", "challenge": CHALLENGE}).encode()
    assert challenge_in(body) == CHALLENGE
    assert json.loads(echo(CHALLENGE)) == {"challenge": CHALLENGE}


@pytest.mark.parametrize(
    "told",
    [
        {"type": "run.started", "challenge": CHALLENGE},
        {"type": "openwop.webhook.verification"},
        {"type": "openwop.webhook.verification", "challenge": "short"},
        {"type": "openwop.webhook.verification", "challenge": "<script>alert(1)</script>"},
        {"type": "openwop.webhook.verification", "challenge": 7},
        [],
    ],
)
def test_nothing_else_is_echoed(told: object) -> None:
    assert challenge_in(json.dumps(told).encode()) is None


def body(**members: Any) -> bytes:
    return compact({name: value for name, value in members.items() if value is not ...}).encode()


EVENT = event()

DELIVERIES = [
    pytest.param(body(runId="run-1", workspaceId="w", event=EVENT), ("run-1", "w", False), id="j5-with-workspaceId"),
    pytest.param(body(runId="run-1", event=EVENT), ("run-1", None, False), id="i21-j5-without-workspaceId"),
    pytest.param(body(event=EVENT), ("run-1", None, False), id="run-named-in-the-event-only"),
    pytest.param(body(runId="run-1", event=event(runId=...)), ("run-1", None, False), id="run-named-around-only"),
    pytest.param(body(**EVENT), ("run-1", None, False), id="bare-event"),
    pytest.param(body(runId="run-1", event=event(payload=...)), ("run-1", None, True), id="no-payload-is-a-stub"),
    pytest.param(body(**event(payload=..., data=None)), ("run-1", None, False), id="i1-data-for-payload"),
    pytest.param(
        body(seq=11, runId="run-1", type="memory.written", nodeId=None, timestamp="2026-11-29T19:06:03.371Z"),
        ("run-1", None, True),
        id="i1-seq-for-sequence",
    ),
    pytest.param(body(runId="acme/run-1", event=EVENT), ("run-1", None, False), id="one-run-in-two-spellings"),
]


@pytest.mark.parametrize(("raw", "expected"), DELIVERIES)
def test_delivery_table(raw: bytes, expected: tuple[str | None, str | None, bool]) -> None:
    delivery = read_delivery(raw)
    assert (delivery.run_id, delivery.workspace_id, delivery.is_stub) == expected
    taken = read_event(delivery.event_bytes, index=0, run_id=delivery.run_id)
    assert isinstance(taken, RunEvent), taken
    assert taken.has_payload is not delivery.is_stub


def test_j9_event_of_a_delivery_is_verbatim() -> None:
    text = (
        '{"type":"x","runId":"r","sequence":1,"timestamp":"2026-01-01T00:00:00Z","payload":{"n":1.10},"unheard":[1e5]}'
    )
    assert read_delivery(f'{{"runId":"r" , "event": {text} }}'.encode()).event_bytes == text.encode()
    assert read_delivery(f" {text}\n".encode()).event_bytes == text.encode()


@pytest.mark.parametrize(
    "raw",
    [b"", b"[]", b'"x"', b"{}", b'{"event":null}', b'{"event":{}}', b'{"event":[1]}', b'{"type":7}', b"\xff", b"{"],
)
def test_what_is_no_delivery(raw: bytes) -> None:
    with pytest.raises(NotADelivery):
        read_delivery(raw)


@pytest.mark.parametrize("around", ["run-2", "xrun-1", "run-1/", "run-1x"])
def test_h_memory_attribution_tenant_scoped_wrapper_of_another_run(around: str) -> None:
    with pytest.raises(NotADelivery, match="another run"):
        read_delivery(body(runId=around, event=EVENT))


def test_a_run_that_the_event_spells_longer() -> None:
    assert read_delivery(body(runId="run-1", event=event(runId="acme/run-1"))).run_id == "acme/run-1"


def test_an_empty_name_is_none() -> None:
    delivery = read_delivery(body(runId="", workspaceId="", event=EVENT))
    assert (delivery.run_id, delivery.workspace_id) == ("run-1", None)


@pytest.mark.parametrize(
    ("run_id", "tenant"),
    [
        pytest.param("acme/r-0123456789abcdef", "acme", id="h-webhook-cross-tenant-isolation"),
        pytest.param("anon:acme/r-0123456789abcdef", "anon:acme", id="h-v2-id-grammar-anonymous"),
        pytest.param("run-1", None, id="h-v2-id-grammar-first-major"),
        pytest.param("acme/short", None, id="h-v2-id-grammar-too-short"),
    ],
)
def test_tenant_of_a_run(run_id: str, tenant: str | None) -> None:
    assert tenant_in(run_id) == tenant


def test_trial_delivery_is_recognised() -> None:
    trials = [delivery for delivery in recorded("openwop-app") if read_delivery(delivery.body).is_test]
    assert len(trials) == 1
    assert read_delivery(trials[0].body).run_id == "webhook-test"


def test_h_annotation_delivery_is_no_event_of_a_log() -> None:
    delivery = read_delivery(body(runId="run-1", event={"type": "run.annotated", "payload": {"note": "x"}}))
    assert delivery.is_notification and not delivery.is_test
    assert not read_delivery(body(event=EVENT)).is_notification


STUBS = {"openwop-app": 0, "sqlite": 20, "postgres": 32, "python": 30}


@pytest.mark.parametrize("host", STUBS)
def test_recorded_deliveries_are_read(host: str) -> None:
    deliveries = [read_delivery(delivery.body) for delivery in recorded(host)]
    assert sum(delivery.is_stub for delivery in deliveries) == STUBS[host]
    for delivery in deliveries:
        taken = read_event(delivery.event_bytes, index=0, run_id=delivery.run_id)
        assert isinstance(taken, RunEvent) and taken.run_id == delivery.run_id
