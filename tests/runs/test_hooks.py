"""POST /hooks/{id}: recorded deliveries of four hosts as they were sent, and ones signed here by the recipes.

=====================================================  ========================================================
webhook-signed-delivery, sig-algorithm                 test_recorded_*, test_an_unknown_algorithm_*
webhook-cross-tenant-isolation                         test_a_run_of_another_tenant_*
webhook-unregister-stops-delivery                      test_after_its_end_*
v2-webhook-durable-delivery                            test_five_times_and_out_of_order_*
dead-letter-read-carries-no-payload, payload left out  test_what_came_without_its_payload_*
every subscribed event, late fan-out                   test_a_gap_*, test_a_memory_write_after_the_end_*
workspaceId with and without                           test_wrapped_bodies_*
invented header names (one dialect a subscription)     test_a_delivery_in_another_dialect_*
=====================================================  ========================================================
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.conf import LazySettings
from django.core.handlers.asgi import ASGIRequest
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from openwop_ui import vault
from openwop_ui.tenancy.models import Role, Tenant
from openwop_ui.tenancy.scope import operator_scope, tenant_scope
from runs import hooks
from runs.follow_store import _followed, _resume_point
from runs.models import Delivery, Event, EventCopy, Follow, Host, Incident, Run, Subscription
from runs.store import ref
from runs.store import subscriptions as store
from runs.store.subscriptions import add_secret, end_subscription, open_subscription, remove_secret
from tests.factories import make_event, make_host, make_member, make_tenant, take
from tests.runs.domain.examples import RECORDINGS

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 29, 19, 0, tzinfo=UTC)
SECRET = "a-secret-of-32-characters-at-least"
OTHER = "another-secret-of-32-characters-at"
KEY = bytes(range(32))
WHSEC = "whsec_" + base64.b64encode(KEY).decode()


@pytest.fixture(autouse=True)
def at(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(hooks, "refusal_notes", hooks.RefusalNotes())
    clock = Clock()
    monkeypatch.setattr(hooks, "clock", clock)
    return clock


class Clock:
    now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def host(tenant: Tenant) -> Host:
    return make_host(tenant)


def subscribe(host: Host, dialect: str = "openwop-1", secret: str = SECRET, remote_id: str = "") -> Subscription:
    return open_subscription(ref(host), dialect=dialect, secret=secret, remote_id=remote_id)


def post(hook: UUID, body: bytes, headers: dict[str, str]) -> Any:
    told = {name: value for name, value in headers.items() if name.lower() != "content-type"}
    return Client(enforce_csrf_checks=True).generic(
        "POST", f"/hooks/{hook}", body, content_type="application/json", headers=told
    )


def mac(body: bytes, secret: str = SECRET, *, at: datetime = NOW) -> str:
    return hmac.new(secret.encode(), f"{int(at.timestamp())}.".encode() + body, hashlib.sha256).hexdigest()


def first_major(body: bytes, secret: str = SECRET, *, at: datetime = NOW) -> dict[str, str]:
    return {
        "X-openwop-Signature": f"sha256={mac(body, secret, at=at)}",
        "X-openwop-Timestamp": str(int(at.timestamp())),
    }


def standard(body: bytes, *keys: bytes, id: str = "msg_0123456789abcdef") -> dict[str, str]:
    signed = f"{id}.{int(NOW.timestamp())}.".encode() + body
    macs = [base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode() for key in keys or (KEY,)]
    return {
        "webhook-id": id,
        "webhook-timestamp": str(int(NOW.timestamp())),
        "webhook-signature": " ".join(f"v1,{mac}" for mac in macs),
    }


def deliver(hook: Subscription, event: dict[str, Any] | str, secret: str = SECRET) -> Any:
    body = event.encode() if isinstance(event, str) else json.dumps(event).encode()
    return post(hook.pk, body, first_major(body, secret))


def stub(sequence: int = 0, *, run: str = "run-1") -> dict[str, Any]:
    return {name: value for name, value in make_event(sequence, run=run).items() if name != "payload"}


def bodies(tenant: Tenant) -> dict[tuple[str, int], str]:
    with tenant_scope(tenant.pk), connection.cursor() as cursor:
        cursor.execute(
            "SELECT r.run_id, e.sequence, e.body FROM runs_event e JOIN runs_run r ON r.id = e.run_id"
            " WHERE e.tenant_id = %s ORDER BY 1, 2",
            [tenant.pk],
        )
        return {(run, sequence): body for run, sequence, body in cursor.fetchall()}


def stored(tenant: Tenant) -> list[tuple[str, int]]:
    return list(bodies(tenant))


def outcomes(tenant: Tenant) -> list[str]:
    with tenant_scope(tenant.pk):
        return list(Delivery.objects.filter(tenant_id=tenant.pk).order_by("id").values_list("outcome", flat=True))


def again(hook: Subscription) -> Subscription:
    with tenant_scope(hook.tenant_id):
        return Subscription.objects.get(tenant_id=hook.tenant_id, pk=hook.pk)


def through(tenant: Tenant, run: str = "run-1") -> int:
    with tenant_scope(tenant.pk):
        return Run.objects.get(tenant_id=tenant.pk, run_id=run).contiguous_through


# --- as recorded ---


@dataclass(frozen=True)
class Recorded:
    headers: dict[str, str]
    body: bytes
    at: datetime
    subscription: str

    @property
    def event(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.body)
        return told

    @property
    def identity(self) -> tuple[str, int]:
        event = self.event
        return event["runId"], int(event["sequence"] if "sequence" in event else event["seq"])


def recorded(name: str) -> Iterator[Recorded]:
    for line in (RECORDINGS / "webhooks" / name / "deliveries.jsonl").read_text().splitlines():
        told = json.loads(line)
        lowered = {header.lower(): value for header, value in told["headers"].items()}
        yield Recorded(
            told["headers"],
            told["body"].encode(),
            datetime.fromisoformat(told["receivedAt"]),
            lowered.get("openwop-subscription-id") or lowered["x-openwop-subscription-id"],
        )


def secrets_of(name: str) -> dict[str, str]:
    told: dict[str, str] = json.loads((RECORDINGS / "webhooks" / name / "secrets.json").read_text())
    return told


def hooks_of(name: str, host: Host) -> dict[str, UUID]:
    dialect = "openwop-app" if name == "openwop-app" else "reference-hosts"
    return {remote: subscribe(host, dialect, secret).pk for remote, secret in secrets_of(name).items()}


KNOWN = {"openwop-app": 70, "sqlite": 20, "postgres": 32, "python": 26}
"""Deliveries whose secret is known."""


@pytest.mark.parametrize("name", KNOWN)
def test_recorded_deliveries_are_accepted_once(tenant: Tenant, host: Host, at: Clock, name: str) -> None:
    known = hooks_of(name, host)
    deliveries = [one for one in recorded(name) if one.subscription in known]
    assert len(deliveries) == KNOWN[name]
    seen: dict[tuple[str, int], str] = {}
    for one in deliveries:
        at.now = one.at
        answer = post(known[one.subscription], one.body, one.headers)
        expected = "test" if one.event["type"] == "webhook.test" else "repeated" if one.identity in seen else "accepted"
        assert (answer.status_code, answer.json()["outcome"]) == (200, expected)
        if expected == "accepted":
            seen[one.identity] = one.body.decode()
    assert bodies(tenant) == seen
    for one in deliveries:
        at.now = one.at
        answer = post(known[one.subscription], one.body, one.headers)
        assert answer.json()["outcome"] == ("test" if one.event["type"] == "webhook.test" else "repeated")
    assert bodies(tenant) == seen


@pytest.mark.parametrize("name", KNOWN)
def test_recorded_deliveries_with_one_byte_flipped_are_refused(
    tenant: Tenant, host: Host, at: Clock, name: str
) -> None:
    known = hooks_of(name, host)
    for one in recorded(name):
        if one.subscription in known:
            at.now = one.at
            place = len(one.body) // 2
            flipped = one.body[:place] + bytes([one.body[place] ^ 1]) + one.body[place + 1 :]
            assert post(known[one.subscription], flipped, one.headers).status_code == 401
    assert stored(tenant) == []


def signed_at(one: Recorded) -> datetime:
    lowered = {header.lower(): value for header, value in one.headers.items()}
    if "openwop-signature" in lowered:
        return datetime.fromtimestamp(int(lowered["openwop-signature"].removeprefix("t=").partition(",")[0]), UTC)
    return datetime.fromtimestamp(int(lowered["x-openwop-signature-timestamp"]), UTC)


@pytest.mark.parametrize("name", KNOWN)
def test_recorded_deliveries_301_seconds_later_are_refused(tenant: Tenant, host: Host, at: Clock, name: str) -> None:
    known = hooks_of(name, host)
    for one in recorded(name):
        if one.subscription in known:
            at.now = signed_at(one) + timedelta(seconds=301)
            assert post(known[one.subscription], one.body, one.headers).status_code == 401
    assert stored(tenant) == []


@pytest.mark.parametrize(("seconds", "status"), [(-301, 401), (-300, 200), (300, 200), (301, 401)])
def test_a_delivery_is_good_for_five_minutes_both_ways(host: Host, at: Clock, seconds: int, status: int) -> None:
    hook = subscribe(host)
    at.now = NOW + timedelta(seconds=seconds)
    assert deliver(hook, make_event(0)).status_code == status


def test_recorded_deliveries_of_an_unknown_subscription_are_refused(tenant: Tenant, host: Host, at: Clock) -> None:
    known = hooks_of("python", host)
    unknown = [one for one in recorded("python") if one.subscription not in known]
    assert len(unknown) == 4
    for one in unknown:
        at.now = one.at
        lost = post(uuid4(), one.body, one.headers)
        assert (lost.status_code, lost.json()["error"]) == (404, "not_found")
        assert post(next(iter(known.values())), one.body, one.headers).status_code == 401
    assert stored(tenant) == []


# --- who signed it ---


def test_several_secrets_are_live_while_one_is_rotated(tenant: Tenant, host: Host) -> None:
    hook = subscribe(host)
    add_secret(tenant.pk, hook.pk, OTHER)
    assert deliver(hook, make_event(0), SECRET).status_code == 200
    assert deliver(hook, make_event(1), OTHER).status_code == 200
    remove_secret(tenant.pk, hook.pk, hashlib.sha256(SECRET.encode()).hexdigest()[:8])
    assert deliver(hook, make_event(2), SECRET).status_code == 401
    assert deliver(hook, make_event(3), OTHER).status_code == 200
    assert stored(tenant) == [("run-1", 0), ("run-1", 1), ("run-1", 3)]


def test_the_last_secret_can_not_be_removed(tenant: Tenant, host: Host) -> None:
    hook = subscribe(host)
    with pytest.raises(store.NotPossible):
        remove_secret(tenant.pk, hook.pk, hashlib.sha256(SECRET.encode()).hexdigest()[:8])
    assert deliver(hook, make_event(0)).status_code == 200


def test_secrets_do_not_pile_up(tenant: Tenant, host: Host) -> None:
    hook = subscribe(host)
    for number in range(4):
        add_secret(tenant.pk, hook.pk, f"{number}{OTHER}")
    with pytest.raises(store.NotPossible):
        add_secret(tenant.pk, hook.pk, OTHER)
    add_secret(tenant.pk, hook.pk, f"0{OTHER}")  # known already


def test_a_delivery_in_another_dialect_is_not_tried(tenant: Tenant, host: Host) -> None:
    body = json.dumps(make_event(0)).encode()
    signed = first_major(body)
    assert post(subscribe(host, "openwop-app").pk, body, signed).status_code == 400
    assert post(subscribe(host, "reference-hosts").pk, body, signed).status_code == 400
    assert post(subscribe(host, "openwop-2").pk, body, signed).status_code == 200  # takes the first major's names too


def test_an_unknown_algorithm_is_refused(tenant: Tenant, host: Host) -> None:
    body = json.dumps(make_event(0)).encode()
    hook = subscribe(host)
    answer = post(hook.pk, body, first_major(body) | {"X-openwop-Signature-Algorithm": "ed25519"})
    assert (answer.status_code, answer.json()["error"]) == (400, "signature_refused")
    assert post(hook.pk, body, first_major(body) | {"X-openwop-Signature-Algorithm": "v1"}).status_code == 200


def test_without_a_secret_nothing_is_accepted(tenant: Tenant, host: Host) -> None:
    hook = subscribe(host, secret="")
    assert deliver(hook, make_event(0)).status_code == 404
    assert deliver(hook, make_event(0), "").status_code == 404
    add_secret(tenant.pk, hook.pk, SECRET)
    assert deliver(hook, make_event(0)).status_code == 200


def test_a_subscription_of_another_tenant_takes_nothing_from_this_one(tenant: Tenant, host: Host) -> None:
    other = make_tenant("globex")
    theirs = subscribe(make_host(other, "alpha"), secret=OTHER)
    assert deliver(theirs, make_event(0), OTHER).status_code == 200
    assert deliver(theirs, make_event(1), SECRET).status_code == 401
    assert (stored(tenant), stored(other)) == ([], [("run-1", 0)])


def test_standard_webhooks_by_either_secret(tenant: Tenant, host: Host) -> None:
    hook = subscribe(host, "standard-webhooks", WHSEC)
    body = json.dumps(make_event(0)).encode()
    assert post(hook.pk, body, standard(body, KEY[::-1], KEY)).status_code == 200
    assert post(hook.pk, body, standard(body, KEY[::-1])).status_code == 401


def test_a_challenge_is_echoed_to_who_signed_it(host: Host, tenant: Tenant) -> None:
    hook = subscribe(host, "standard-webhooks", WHSEC)
    challenge = "dGhpcyBpcyBhIGNoYWxsZW5nZQ"
    body = json.dumps({"type": "openwop.webhook.verification", "challenge": challenge}).encode()
    answer = post(hook.pk, body, standard(body))
    assert (answer.status_code, answer.json()) == (200, {"challenge": challenge})
    refused = post(hook.pk, body, standard(body, KEY[::-1]))
    assert refused.status_code == 401
    assert challenge not in refused.content.decode()
    assert outcomes(tenant) == ["test", "refused"]


def test_a_challenge_that_nobody_opted_into_is_not_echoed(host: Host) -> None:
    challenge = "dGhpcyBpcyBhIGNoYWxsZW5nZQ"
    answer = deliver(subscribe(host), {"type": "openwop.webhook.verification", "challenge": challenge})
    assert answer.status_code == 422
    assert challenge not in answer.content.decode()


# --- what is in it ---


def test_wrapped_bodies_with_and_without_a_workspace(tenant: Tenant, host: Host) -> None:
    hook = subscribe(host)
    assert deliver(hook, {"runId": "run-1", "workspaceId": "w", "event": make_event(0)}).status_code == 200
    assert deliver(hook, {"runId": "run-1", "event": make_event(1)}).status_code == 200
    nameless = {name: value for name, value in make_event(2).items() if name != "runId"}
    answer = deliver(hook, {"runId": "run-1", "event": nameless})
    assert answer.json() == {"outcome": "accepted", "runId": "run-1", "sequence": 2}
    assert stored(tenant) == [("run-1", 0), ("run-1", 1), ("run-1", 2)]


def test_five_times_and_out_of_order_is_one_row_each(tenant: Tenant, host: Host) -> None:
    hook = subscribe(host)
    told = [deliver(hook, make_event(n)).json()["outcome"] for n in (2, 0, 2, 1, 2, 2, 0, 2)]
    assert told == ["accepted", "accepted", "repeated", "accepted", *["repeated"] * 4]
    assert stored(tenant) == [("run-1", 0), ("run-1", 1), ("run-1", 2)]


def test_a_gap_shows_and_closes(tenant: Tenant, host: Host) -> None:
    hook = subscribe(host)
    seen = []
    for number in (0, 3, 1, 5, 2, 4):
        deliver(hook, make_event(number))
        seen.append(through(tenant))
    assert seen == [0, 0, 1, 1, 3, 5]


def test_recorded_disorder_ends_without_a_gap(tenant: Tenant, host: Host, at: Clock) -> None:
    known = hooks_of("sqlite", host)
    order: dict[str, list[int]] = {}
    for one in recorded("sqlite"):
        at.now = one.at
        post(known[one.subscription], one.body, one.headers)
        run, sequence = one.identity
        if sequence not in order.setdefault(run, []):
            order[run].append(sequence)
        known_so_far = set(order[run])
        reached = -1
        while reached + 1 in known_so_far:
            reached += 1
        assert through(tenant, run) == reached
    assert any(sequences != sorted(sequences) for sequences in order.values())


def test_a_memory_write_after_the_end_is_stored(tenant: Tenant, host: Host) -> None:
    hook = subscribe(host)
    deliver(hook, make_event(0, "run.completed"))
    late = make_event(1, "memory.written", payload={"memoryRef": "notes", "memoryId": "m"})
    assert deliver(hook, late).json()["outcome"] == "accepted"
    assert stored(tenant) == [("run-1", 0), ("run-1", 1)]


def test_a_test_delivery_is_acknowledged_and_no_run(tenant: Tenant, host: Host, at: Clock) -> None:
    known = hooks_of("openwop-app", host)
    (one,) = [one for one in recorded("openwop-app") if one.event["type"] == "webhook.test"]
    at.now = one.at
    assert post(known[one.subscription], one.body, one.headers).status_code == 200
    with tenant_scope(tenant.pk):
        assert not Run.objects.filter(tenant_id=tenant.pk).exists()
    assert outcomes(tenant) == ["test"]


def test_a_live_notification_takes_no_place_in_a_log(tenant: Tenant, host: Host) -> None:
    answer = deliver(subscribe(host), {"runId": "run-1", "event": {"type": "run.annotated", "payload": {}}})
    assert answer.status_code == 200
    assert stored(tenant) == []


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ("{", 400, "not_a_delivery"),
        ("", 400, "not_a_delivery"),
        ('"text"', 400, "not_a_delivery"),
        ('{"runId": "run-1"}', 400, "not_a_delivery"),
        (json.dumps({"runId": "run-2", "event": make_event(0)}), 400, "not_a_delivery"),
        (json.dumps({"runId": "run-1", "event": make_event(0) | {"sequence": -1}}), 422, "event_refused"),
        (json.dumps({"event": {"type": "run.started"}}), 422, "event_refused"),
    ],
)
def test_what_is_no_event_is_refused_and_noted(tenant: Tenant, host: Host, body: str, status: int, code: str) -> None:
    answer = deliver(subscribe(host), body)
    assert (answer.status_code, answer.json()["error"]) == (status, code)
    assert answer.json()["message"]
    with tenant_scope(tenant.pk):
        (noted,) = Delivery.objects.filter(tenant_id=tenant.pk)
    assert (noted.outcome, bool(noted.reason), noted.run_id) == ("refused", True, "")
    assert stored(tenant) == []


def test_a_changed_event_is_an_incident_and_no_error(tenant: Tenant, host: Host) -> None:
    hook = subscribe(host)
    deliver(hook, make_event(0))
    assert deliver(hook, make_event(0, payload={"other": True})).json()["outcome"] == "repeated"
    with tenant_scope(tenant.pk):
        assert [one.kind for one in Incident.objects.filter(tenant_id=tenant.pk)] == ["changed_event"]


# --- without its payload ---


def test_what_came_without_its_payload_is_completed_by_a_later_delivery(tenant: Tenant, host: Host) -> None:
    hook = subscribe(host)
    assert deliver(hook, stub(0)).json()["outcome"] == "accepted"
    assert deliver(hook, make_event(0)).json()["outcome"] == "repeated"
    assert deliver(hook, stub(0)).json()["outcome"] == "repeated"
    with tenant_scope(tenant.pk):
        (kept,) = Event.objects.filter(tenant_id=tenant.pk)
        (copy,) = EventCopy.objects.filter(tenant_id=tenant.pk)
        assert not Incident.objects.filter(tenant_id=tenant.pk).exists()
    assert (kept.has_payload, copy.kind) == (False, "completion")
    assert json.loads(copy.body) == make_event(0)


def test_what_came_without_its_payload_is_read_from_the_host(tenant: Tenant) -> None:
    host = make_host(tenant, origin="https://host.example")
    hook = subscribe(host)
    deliver(hook, make_event(0))
    deliver(hook, stub(1))
    deliver(hook, make_event(2, "run.completed"))
    with tenant_scope(tenant.pk):
        (follow,) = Follow.objects.filter(tenant_id=tenant.pk)
    assert (follow.run_id, follow.phase, follow.finished_at) == ("run-1", "waiting", None)
    resume = _resume_point(_followed(host), "run-1")
    assert (resume.through, resume.ended) == (0, False)
    deliver(hook, make_event(1))
    resume = _resume_point(_followed(host), "run-1")
    assert (resume.through, resume.ended) == (2, True)


def test_a_run_that_had_ended_is_read_again_when_something_new_is_told(tenant: Tenant) -> None:
    hook = subscribe(make_host(tenant, origin="https://host.example"))
    deliver(hook, make_event(0, "run.completed"))
    with tenant_scope(tenant.pk):
        Follow.objects.update(finished_at=NOW, phase="finished")
    deliver(hook, make_event(0, "run.completed"))
    with tenant_scope(tenant.pk):
        assert Follow.objects.get().phase == "finished"
    deliver(hook, stub(1))
    with tenant_scope(tenant.pk):
        assert (Follow.objects.get().phase, Follow.objects.get().finished_at) == ("waiting", None)


def test_a_host_without_an_origin_is_not_read(tenant: Tenant, host: Host) -> None:
    deliver(subscribe(host), stub(0))
    with tenant_scope(tenant.pk):
        assert not Follow.objects.exists()


# --- whose run it is ---

OURS = "acme/r-0123456789abcdef"
THEIRS = "globex/r-0123456789abcdef"


def wrapped(run: str, sequence: int = 0, *, inside: str | None = None) -> dict[str, Any]:
    return {"runId": run, "event": make_event(sequence, run=inside or run)}


def foreign_incidents(tenant: Tenant) -> list[Incident]:
    with tenant_scope(tenant.pk):
        return list(Incident.objects.filter(tenant_id=tenant.pk, kind="foreign_tenant"))


def refuses_theirs(tenant: Tenant, hook: Subscription) -> None:
    for number in range(3):
        answer = deliver(hook, wrapped(THEIRS, number))
        assert (answer.status_code, answer.json()["error"]) == (403, "foreign_tenant")
    (incident,) = foreign_incidents(tenant)
    assert incident.detail["tenant"] == "acme"
    assert "globex" not in json.dumps(incident.detail)
    assert (THEIRS, 0) not in stored(tenant)
    assert deliver(hook, wrapped(OURS, 9)).status_code == 200


def test_a_run_of_another_tenant_than_the_subscriptions_own_id_is_refused(tenant: Tenant, host: Host) -> None:
    refuses_theirs(tenant, subscribe(host, "openwop-2", remote_id="acme/h-0123456789abcdef"))


def test_a_run_of_another_tenant_than_the_first_delivered_one_is_refused(tenant: Tenant, host: Host) -> None:
    hook = subscribe(host, "openwop-2")
    assert deliver(hook, wrapped(OURS)).status_code == 200
    refuses_theirs(tenant, hook)


def test_a_run_of_another_tenant_than_the_hosts_runs_is_refused(tenant: Tenant, host: Host) -> None:
    take(host, [make_event(0, run=OURS), make_event(0, run="bare")])
    refuses_theirs(tenant, subscribe(host, "openwop-2"))


def test_a_run_of_another_tenant_in_the_wrapper_alone_is_refused(tenant: Tenant, host: Host) -> None:
    hook = subscribe(host, "openwop-2", remote_id="acme/h-0123456789abcdef")
    assert deliver(hook, wrapped(THEIRS, inside="r-0123456789abcdef")).status_code == 403
    assert deliver(hook, "\ufeff " + json.dumps(wrapped(THEIRS, inside="r-0123456789abcdef"))).status_code == 403
    assert deliver(hook, wrapped(OURS, inside="r-0123456789abcdef")).status_code == 200
    assert stored(tenant) == [("r-0123456789abcdef", 0)]


def test_where_nothing_says_which_tenant_it_is_nothing_is_refused(tenant: Tenant, host: Host) -> None:
    take(host, [make_event(0, run=OURS), make_event(0, run=THEIRS)])
    assert deliver(subscribe(host, "openwop-2"), wrapped(THEIRS, 1)).status_code == 200
    assert foreign_incidents(tenant) == []


def test_a_first_majors_name_of_the_tenant_is_not_held_against_run_ids(tenant: Tenant, host: Host) -> None:
    hook = subscribe(host, "reference-hosts", remote_id="tenant:default/wh-0123456789abcdef")
    body = json.dumps(make_event(0, run=OURS)).encode()
    headers = {"X-openwop-Signature": mac(body), "X-openwop-Signature-Timestamp": str(int(NOW.timestamp()))}
    assert post(hook.pk, body, headers).status_code == 200


# --- the address ---


def test_after_its_end_an_address_answers_as_one_that_never_was(tenant: Tenant, host: Host) -> None:
    hook = subscribe(host)
    deliver(hook, make_event(0))
    end_subscription(tenant.pk, hook.pk)
    ended, unknown = deliver(hook, make_event(1)), post(uuid4(), b"{}", {})
    assert (ended.status_code, ended.content) == (unknown.status_code, unknown.content)
    assert ended.json() == {"error": "not_found", "message": "There is no such webhook."}
    assert stored(tenant) == [("run-1", 0)]
    assert (again(hook).state, again(hook).sealed_secrets) == ("ended", "")


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_only_post_is_served(host: Host, method: str) -> None:
    answer = Client().generic(method, f"/hooks/{subscribe(host).pk}")
    assert (answer.status_code, answer["Allow"]) == (405, "POST")


def test_a_body_that_says_that_it_is_too_large_is_not_read(tenant: Tenant, host: Host, settings: LazySettings) -> None:
    settings.MAX_EVENT_BYTES = 1000
    answer = deliver(subscribe(host), make_event(0, payload={"text": "x" * 1000}))
    assert (answer.status_code, answer.json()["error"]) == (413, "too_large")
    assert answer.json()["details"] == {"limit": "MAX_EVENT_BYTES", "bytes": 1000}
    assert outcomes(tenant) == ["refused"]


def test_a_body_that_turns_out_too_large_is_read_up_to_the_limit(host: Host, settings: LazySettings) -> None:
    """One that comes in pieces says nothing of its size beforehand."""
    settings.MAX_EVENT_BYTES = 100_000
    hook = subscribe(host)
    sent = io.BytesIO(b"x" * 1_000_000)
    request = ASGIRequest({"type": "http", "method": "POST", "path": f"/hooks/{hook.pk}", "headers": []}, sent)
    answer = hooks.receive(request, hook.pk)
    assert (answer.status_code, json.loads(answer.content)["error"]) == (413, "too_large")
    assert sent.tell() < 200_000


def test_the_database_away_asks_the_host_to_come_again(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise OperationalError("gone")

    hook = subscribe(host)
    with monkeypatch.context() as patched:
        patched.setattr(hooks, "add_events", broken)
        answer = deliver(hook, make_event(0))
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    assert deliver(hook, make_event(0)).json()["outcome"] == "accepted"


def test_secrets_that_no_key_opens_ask_the_host_to_come_again(
    tenant: Tenant, host: Host, settings: LazySettings
) -> None:
    hook = subscribe(host)
    before, settings.CREDENTIALS_KEY = settings.CREDENTIALS_KEY, "another key of at least thirty-two characters"
    answer = deliver(hook, make_event(0))
    assert answer.status_code == 503
    settings.CREDENTIALS_KEY = before
    assert deliver(hook, make_event(0)).status_code == 200
    assert outcomes(tenant) == ["refused", "accepted"]


# --- what is kept of it ---


def test_deliveries_are_counted(tenant: Tenant, host: Host, at: Clock) -> None:
    hook = subscribe(host)
    deliver(hook, make_event(0))
    at.now = NOW + timedelta(seconds=5)
    deliver(hook, make_event(0))
    deliver(hook, make_event(0) | {"type": "webhook.test"})
    at.now = NOW + timedelta(seconds=9)
    deliver(hook, make_event(1), OTHER)
    counted = again(hook)
    assert (counted.accepted_count, counted.refused_count) == (3, 1)
    assert counted.last_delivery_at == NOW + timedelta(seconds=5)
    assert outcomes(tenant) == ["accepted", "repeated", "test", "refused"]


def test_only_the_newest_deliveries_are_kept(tenant: Tenant, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "KEPT_DELIVERIES", 10)
    monkeypatch.setattr(store, "TRIM_EVERY", 4)
    hook, other = subscribe(host), subscribe(host)
    deliver(other, make_event(99))
    for number in range(40):
        deliver(hook, make_event(number))
        with tenant_scope(tenant.pk):
            assert Delivery.objects.filter(subscription=hook).count() <= 10 + 4
    with tenant_scope(tenant.pk):
        kept = list(Delivery.objects.filter(subscription=hook).order_by("id").values_list("sequence", flat=True))
        assert Delivery.objects.filter(subscription=other).count() == 1
    assert kept == list(range(30, 40))
    assert again(hook).accepted_count == 40


def test_a_flood_of_refusals_is_counted_but_not_kept_one_by_one(tenant: Tenant, host: Host, at: Clock) -> None:
    hook = subscribe(host)
    for _ in range(75):
        assert deliver(hook, make_event(0), OTHER).status_code == 401
    assert len(outcomes(tenant)) == 60
    assert deliver(hook, make_event(0)).status_code == 200
    at.now = NOW + timedelta(seconds=61)
    deliver(hook, make_event(0), OTHER)
    assert again(hook).refused_count == 76
    assert len(outcomes(tenant)) == 62


def everything_stored() -> str:
    """The text of every row of every table."""
    rows: list[str] = []
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        for (table,) in cursor.fetchall():
            cursor.execute(f'SELECT t::text FROM "{table}" t')
            rows += [f"{table} {row[0]}" for row in cursor.fetchall()]
    return "\n".join(rows)


def test_no_secret_and_no_refused_body_is_left_anywhere(
    tenant: Tenant, host: Host, caplog: pytest.LogCaptureFixture, settings: LazySettings
) -> None:
    caplog.set_level(logging.DEBUG)
    hook = subscribe(host)
    add_secret(tenant.pk, hook.pk, OTHER)
    deliver(hook, make_event(0, payload={"mark": "accepted-canary"}))
    deliver(hook, make_event(1, payload={"mark": "refused-canary"}), "a third secret")
    deliver(hook, '{"refused-canary": ')
    deliver(hook, {"type": "refused-canary"})
    settings.MAX_EVENT_BYTES = 100
    deliver(hook, make_event(2, payload={"mark": "refused-canary"}))
    admin, viewer = Client(), Client()
    admin.force_login(make_member(tenant, "ada", Role.ADMIN))
    viewer.force_login(make_member(tenant, "vic"))
    pages = [browser.get("/t/acme/hosts/alpha").content.decode() for browser in (admin, viewer)]
    with tenant_scope(tenant.pk), operator_scope():
        rows = everything_stored()
    assert "accepted-canary" in rows
    for text in (*pages, rows, caplog.text):
        for secret in (SECRET, OTHER, "a third secret", "refused-canary"):
            assert secret not in text
    for page in pages:
        for secret in (SECRET, OTHER):
            assert hashlib.sha256(secret.encode()).hexdigest()[:8] in page
    assert vault.unseal(again(hook).sealed_secrets) == json.dumps([OTHER, SECRET])


# --- what it costs ---


def queries_of(hook: Subscription, event: dict[str, Any]) -> int:
    with CaptureQueriesContext(connection) as seen:
        assert deliver(hook, event).status_code == 200
    return len(seen)


def test_a_delivery_takes_the_same_number_of_queries_in_a_long_log(host: Host) -> None:
    hook = subscribe(host, "openwop-2", remote_id="acme/h-0123456789abcdef")
    deliver(hook, wrapped(OURS, 0))
    short = queries_of(hook, wrapped(OURS, 1))
    take(host, [make_event(n, run=OURS) for n in range(2, 2000)])
    for number in range(2000, 2020):
        deliver(hook, wrapped(OURS, number))
    assert queries_of(hook, wrapped(OURS, 2020)) == short
    assert queries_of(hook, wrapped(OURS, 2020)) <= short + 3  # a known one is compared
