"""Rows of the protocol that no other module decides. The table of all rows stands over all tests."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from ledger import queries
from ledger.store import read_backlog
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.describe import detail_of
from runs.domain.snapshots import Parent
from runs.domain.sse import FrameReader, events_of
from runs.models import Attempt, Event, EventCopy, Host, Incident, Run
from runs.store import keep_parents, ref
from runs.store.subscriptions import open_subscription
from runs.store.watching import watch_on
from tests.factories import make_event, make_host, make_log, make_tenant, take

pytestmark = pytest.mark.django_db

RECORDINGS = Path(__file__).parent.parent / "fixtures" / "recordings"
SECRET = "a-secret-of-32-characters-at-least"
CANARY = "canary-0f1e2d3c"


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def host(tenant: Tenant) -> Host:
    return make_host(tenant)


def deliver(host: Host, *told: dict[str, Any]) -> list[str]:
    """Signs and sends each by the first major's recipe, now; returns what became of each."""
    hook = open_subscription(ref(host), dialect="openwop-1", secret=SECRET)
    outcomes = []
    for body in (json.dumps(one).encode() for one in told):
        now = int(time.time())
        mac = hmac.new(SECRET.encode(), f"{now}.".encode() + body, hashlib.sha256).hexdigest()
        headers = {"X-openwop-Signature": f"sha256={mac}", "X-openwop-Timestamp": str(now)}
        answer = Client().post(f"/hooks/{hook.pk}", body, content_type="application/json", headers=headers)
        assert answer.status_code == 200, answer.content
        outcomes.append(answer.json()["outcome"])
    return outcomes


def incidents(tenant: Tenant) -> list[tuple[str, int | None]]:
    watch_on(tenant.pk)
    with tenant_scope(tenant.pk):
        return list(Incident.objects.filter(tenant_id=tenant.pk).order_by("pk").values_list("kind", "sequence"))


def logs(tenant: Tenant) -> dict[str, list[int]]:
    with tenant_scope(tenant.pk):
        names = dict(Run.objects.filter(tenant_id=tenant.pk).values_list("pk", "run_id"))
        found: dict[str, list[int]] = {name: [] for name in names.values()}
        for run, sequence in Event.objects.filter(tenant_id=tenant.pk).values_list("run_id", "sequence"):
            found[names[run]].append(sequence)
    return {name: sorted(sequences) for name, sequences in found.items()}


# --- invariants ---


@pytest.mark.parametrize("mode", ["replay", "branch"])
def test_what_a_replay_delivers_again_is_the_forks_and_alerts_nobody(tenant: Tenant, host: Host, mode: Any) -> None:
    source = make_log("source", nodes=1)
    again = [event | {"runId": "fork", "eventId": f"new-{event['sequence']}"} for event in source]
    assert deliver(host, *source) == ["accepted"] * 5
    keep_parents(ref(host), {"fork": Parent("source", "fork", "told here", mode=mode, from_sequence=0)})
    assert deliver(host, *again, *again) == ["accepted"] * 5 + ["repeated"] * 5
    assert logs(tenant) == {"source": [0, 1, 2, 3, 4], "fork": [0, 1, 2, 3, 4]}
    assert incidents(tenant) == []
    read_backlog(tenant.pk)
    with tenant_scope(tenant.pk):
        entry = queries.find_entry(tenant.pk, "alpha", "notes", "source-m0")
        assert entry is not None
        assert (entry.writes, entry.runs) == (2, 2), "one entry, told by two runs"


def test_an_annotations_note_is_kept_nowhere(tenant: Tenant, host: Host) -> None:
    note = {"type": "run.annotated", "runId": "run-1", "payload": {"note": f"<b>{CANARY}</b>", "annotationId": "a-1"}}
    deliver(host, make_event(0), {"runId": "run-1", "event": note}, make_event(1))
    assert logs(tenant) == {"run-1": [0, 1]}
    assert incidents(tenant) == []
    with tenant_scope(tenant.pk), connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        for (table,) in cursor.fetchall():
            cursor.execute(f'SELECT count(*) FROM "{table}" t WHERE t::text LIKE %s', [f"%{CANARY}%"])
            assert cursor.fetchone() == (0,), table


def test_a_proposal_is_told_and_writes_nothing_until_it_is_applied(tenant: Tenant, host: Host) -> None:
    proposal = {"proposalId": "p-1", "kind": "memory", "memoryRef": "notes", "memoryId": "m-1"}
    take(host, [make_event(0, "run.started"), make_event(1, "proposal.created", payload=proposal)])
    read_backlog(tenant.pk)
    assert detail_of("proposal.created", proposal) == "memory · p-1"
    with tenant_scope(tenant.pk):
        assert queries.find_entry(tenant.pk, "alpha", "notes", "m-1") is None
    applied = {"memoryRef": "notes", "memoryId": "m-1"}
    activated = make_event(2, "proposal.activated", payload=proposal)
    take(host, [activated, make_event(3, "memory.written", payload=applied)])
    read_backlog(tenant.pk)
    with tenant_scope(tenant.pk):
        entry = queries.find_entry(tenant.pk, "alpha", "notes", "m-1")
    assert entry is not None and entry.writes == 1, "the write counts, the proposal and its activation do not"


# --- irregularities ---


@pytest.mark.parametrize("together", [True, False])
def test_a_payload_of_null_completes_what_came_without_one(tenant: Tenant, host: Host, together: bool) -> None:
    whole = make_event(0) | {"payload": None, "data": None}
    stub = {name: value for name, value in whole.items() if name not in ("payload", "data", "eventId")}
    batches = [[stub, whole]] if together else [[stub], [whole]]
    for batch in [*batches, [whole], [stub]]:
        assert take(host, batch).incidents_total == 0
    with tenant_scope(tenant.pk):
        copies = EventCopy.objects.filter(tenant_id=tenant.pk).values_list("kind", "body")
        assert [(kind, json.loads(body)) for kind, body in copies] == [("completion", whole)]
    assert incidents(tenant) == []
    different = take(host, [make_event(0, payload={"a": 1})])
    assert (different.accepted, different.incidents_total) == (0, 1), "null was said: another payload contradicts it"


@pytest.mark.parametrize("first", ["with", "without"])
def test_a_copy_that_names_no_cause_is_the_same_event(tenant: Tenant, host: Host, first: str) -> None:
    without = make_event(0, "agent.toolReturned", payload={"callId": "c"})
    told = [without | {"causationId": "evt-cause"}, without]
    receipts = [take(host, [event]) for event in (told if first == "with" else told[::-1])]
    assert [(receipt.accepted, receipt.repeated) for receipt in receipts] == [(1, 0), (0, 1)]
    assert incidents(tenant) == []


def test_a_recorded_stream_that_names_fewer_causes_contradicts_nothing(tenant: Tenant, host: Host) -> None:
    run = RECORDINGS / "postgres" / "agents"
    polled = (run / "events.ndjson").read_bytes().splitlines()
    streamed = [event for frame in FrameReader().feed((run / "debug.sse").read_bytes()) for event in events_of(frame)]
    assert sum(b'"causationId"' in event for event in polled) == 1
    assert sum(b'"causationId"' in event for event in streamed) == 0
    assert take(host, streamed).accepted == len(polled)
    assert take(host, polled).repeated == len(polled)
    with tenant_scope(tenant.pk):
        assert not EventCopy.objects.filter(tenant_id=tenant.pk, kind=EventCopy.Kind.CONTRADICTION).exists()


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        ({"originalEventId": "e-1", "replayEventId": "e-2", "divergencePoint": "node b"}, ""),
        ({"expected": {"a": 1}, "actual": {"a": 2}, "divergencePoint": 5}, ""),
        ({"divergenceKind": "output", "sourceRunId": "source", "atSequence": 5}, "output"),
        ("they differ", ""),
    ],
)
def test_a_divergence_is_taken_in_every_shape(tenant: Tenant, host: Host, payload: Any, shown: str) -> None:
    receipt = take(host, [make_event(0, "run.started"), make_event(1, "replay.diverged") | {"payload": payload}])
    assert (receipt.accepted, receipt.refused_total, incidents(tenant)) == (2, 0, [])
    assert detail_of("replay.diverged", payload) == shown
    with tenant_scope(tenant.pk):
        assert json.loads(Event.objects.get(tenant_id=tenant.pk, sequence=1).body)["payload"] == payload


def attempt_of(tenant: Tenant, host: Host, type: str, payload: dict[str, Any]) -> Attempt:
    take(host, [make_event(0, "node.started", node="n"), make_event(1, type, node="n", payload=payload)])
    with tenant_scope(tenant.pk):
        return Attempt.objects.get(tenant_id=tenant.pk, node_id="n")


@pytest.mark.parametrize(
    "payload",
    [
        {"error": {"code": "timeout"}},
        {"error": {"code": "timeout", "message": "took too long"}},
        {"code": "timeout"},
        {"error": "timeout"},
    ],
)
def test_a_failure_is_told_by_its_code_in_every_shape(tenant: Tenant, host: Host, payload: dict[str, Any]) -> None:
    assert detail_of("node.failed", payload) == "timeout"
    attempt = attempt_of(tenant, host, "node.failed", payload)
    assert (attempt.status, attempt.label) == ("fail", "timeout")


@pytest.mark.parametrize("payload", [{}, {"error": None}, {"error": {"message": "took too long"}}])
def test_a_failure_without_a_code_is_a_failure(tenant: Tenant, host: Host, payload: dict[str, Any]) -> None:
    attempt = attempt_of(tenant, host, "node.failed", payload)
    assert (attempt.status, attempt.to_sequence, attempt.label) == ("fail", 1, "")


@pytest.mark.parametrize("payload", [{"output": 1}, {"outputs": {"a": 1}}, {"output": 1, "outputs": {"a": 1}}, {}])
def test_a_result_in_any_shape_ends_its_node(tenant: Tenant, host: Host, payload: dict[str, Any]) -> None:
    attempt = attempt_of(tenant, host, "node.completed", payload)
    assert (attempt.status, attempt.to_sequence) == ("ok", 1)
    assert incidents(tenant) == []
