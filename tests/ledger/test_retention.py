"""What a tenant keeps no longer: payloads go after their time, in batches, and keep their hash and their place."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.utils import timezone

from ledger import retention
from ledger.domain.redaction import Policy
from ledger.domain.sources import hash_payload
from ledger.housekeeping import keep_house_of
from ledger.models import Erasure, LedgerSettings, Receipt, RunSecret, SourceEvent
from ledger.policies import LedgerPolicy, lay_down, policy_of
from ledger.rebuild import rebuild
from ledger.retention import retain
from ledger.store import read_backlog
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.models import Event, EventCopy, Host, Run
from tests.factories import make_event, make_log, make_tenant, take
from tests.ledger.canary import places_of
from tests.ledger.claims import NOON, body, make_writer, plan, say, shown
from tests.ledger.ledger_rows import ledger_rows

CANARY = "k4n4ry-garden-gate"
OLD = timezone.now() - timedelta(days=40)
YOUNG = timezone.now() - timedelta(days=20)


def keep(tenant: Tenant, *, payloads: int | None = None, events: int | None = None) -> None:
    lay_down(
        tenant_id=tenant.pk, secrets=Policy.REWRITE, max_entry_bytes=65536, payload_days=payloads, event_days=events
    )


def days_after(received: float) -> Any:
    return NOON + timedelta(hours=received)


# --- Payloads of source events ---


def test_a_payload_goes_after_its_time_and_its_hash_stays(tenant: Tenant) -> None:
    make_writer(tenant, "billing")
    old = body("old", claims=[plan(CANARY)], evidence=[{"url": "https://x.test"}])
    say(tenant, old, received=0)
    say(tenant, body("young", subject="user-2", claims=[plan("Growth")]), received=24 * 20)
    with tenant_scope(tenant.pk):
        digest = bytes(SourceEvent.objects.get(event_id="old").payload_hash)
    keep(tenant, payloads=30)
    at = days_after(24 * 30)
    assert retain(tenant.pk, now=at - timedelta(seconds=1)).payloads == 0
    assert retain(tenant.pk, now=at + timedelta(seconds=1), dry_run=True).payloads == 1
    assert retain(tenant.pk, now=at + timedelta(seconds=1)).payloads == 1
    with tenant_scope(tenant.pk):
        gone, stays = (SourceEvent.objects.get(event_id=name) for name in ("old", "young"))
    assert (gone.payload, gone.payload_redacted_at) == (None, at + timedelta(seconds=1))
    assert bytes(gone.payload_hash) == digest == bytes.fromhex(hash_payload(old))
    assert stays.payload is not None
    # The claims stand, and the event is known by its hash: the same again is a repeat, another one is refused.
    assert ("user-1", CANARY) in shown(tenant)
    assert say(tenant, old)[0].is_repeat
    assert say(tenant, body("old", claims=[plan("other")]))[0].refused is not None


def test_nothing_goes_where_no_period_is_set(tenant: Tenant, host: Host) -> None:
    make_writer(tenant, "billing")
    say(tenant, body("old", claims=[plan(CANARY)]), received=0)
    take(host, make_log(), received_at=OLD)
    far = timezone.now() + timedelta(days=10_000)
    assert retain(tenant.pk, now=far) == retain(tenant.pk, now=far, dry_run=True) == retention.Retained()
    with tenant_scope(tenant.pk):
        assert not Erasure.objects.exists()


# --- Events ---


def log(run: str = "run-1") -> list[dict[str, Any]]:
    return [
        make_event(0, "run.started", run=run, payload={"workflowId": "w", "inputs": {"q": CANARY}}),
        make_event(1, "node.started", run=run, node="a", payload={"nodeId": "a"}),
        make_event(2, "agent.toolCalled", run=run, node="a", payload={
            "agentId": "writer", "toolName": "remember", "callId": "c1", "inputs": {"content": CANARY}}),
        make_event(3, "agent.toolReturned", run=run, node="a", payload={
            "agentId": "writer", "toolName": "remember", "callId": "c1", "status": "ok", "outcome": {"id": CANARY}}),
        make_event(4, "memory.written", run=run, node="a", payload={
            "memoryRef": "notes", "memoryId": "m1", "nodeId": "a", "tags": ["t"]}),
        make_event(5, "node.failed", run=run, node="a", payload={
            "nodeId": "a", "error": {"code": "E7", "message": CANARY}}),
        make_event(6, "vendor.acme.said", run=run, payload={"text": [CANARY]}, surprise={"x": CANARY}),
        make_event(7, "variable.changed", run=run, payload={"name": "v", "value": CANARY}),
        make_event(8, "run.failed", run=run, payload={"error": {"code": "E7", "message": CANARY}}),
    ]  # fmt: skip


def read_all(tenant: Tenant) -> None:
    while read_backlog(tenant.pk, now=timezone.now() + timedelta(minutes=1)):
        pass


def test_payloads_of_events_go_and_envelope_identity_and_digest_stay(tenant: Tenant, host: Host) -> None:
    take(host, log(), received_at=OLD)
    take(host, [log()[2] | {"payload": {"inputs": {"other": CANARY}}}], received_at=OLD)  # kept beside it as a copy
    take(host, log("run-2"), received_at=YOUNG)
    read_all(tenant)
    columns = ("run_id", "sequence", "type", "node_id", "agent_id", "event_id", "occurred_at", "received_at", "digest")
    with tenant_scope(tenant.pk):
        before = list(Event.objects.order_by("run_id", "sequence").values_list(*columns))
        assert EventCopy.objects.count() == 1
    rows = ledger_rows(tenant)
    assert "runs_event.body" in places_of(tenant, CANARY)
    keep(tenant, events=30)
    assert retain(tenant.pk, dry_run=True).events == 9
    assert retain(tenant.pk).events == 7
    with tenant_scope(tenant.pk):
        assert list(Event.objects.order_by("run_id", "sequence").values_list(*columns)) == before
        bodies = [json.loads(one.body) for one in Event.objects.filter(run_id=before[0][0]).order_by("sequence")]
        young = Event.objects.filter(run_id=before[-1][0], body__contains=CANARY).count()
        assert not EventCopy.objects.filter(body__contains=CANARY).exists()
    assert young == 7
    for said, event in zip(bodies, log(), strict=True):
        for name in ("eventId", "runId", "type", "sequence", "timestamp"):
            assert said[name] == event[name]
    digest = hashlib.sha256(CANARY.encode()).hexdigest()
    assert bodies[5]["payload"]["error"] == {
        "code": "E7", "message": {"$withheld": {"sha256": digest, "bytes": len(CANARY)}},
    }  # fmt: skip
    assert bodies[4]["payload"] == log()[4]["payload"]
    assert bodies[2]["payload"]["toolName"] == "remember"
    read_all(tenant)
    after = ledger_rows(tenant)
    assert {name: after[name] for name in ("entries", "writes", "scopes")} == {
        name: rows[name] for name in ("entries", "writes", "scopes")
    }
    assert [one for one in rebuild(tenant.pk, check=True) if one.lost or one.gained] == []


def test_the_canary_of_an_old_run_is_nowhere(tenant: Tenant, host: Host) -> None:
    take(host, log(), received_at=OLD)
    read_all(tenant)
    keep(tenant, events=30)
    retain(tenant.pk)
    read_all(tenant)
    assert places_of(tenant, CANARY) == set()
    with tenant_scope(tenant.pk):
        assert Receipt.objects.get().tool == "remember"


def test_the_same_events_again_are_repeats_and_bring_nothing_back(tenant: Tenant, host: Host) -> None:
    take(host, log(), received_at=OLD)
    keep(tenant, events=30)
    retain(tenant.pk)
    receipt = take(host, log())
    assert (receipt.accepted, receipt.repeated, receipt.incidents) == (0, 9, [])
    assert places_of(tenant, CANARY) == set()


def test_a_late_event_of_an_old_run_goes_in_its_time(tenant: Tenant, host: Host) -> None:
    take(host, log()[1:], received_at=OLD)
    keep(tenant, events=30)
    retain(tenant.pk)
    take(host, log()[:1], received_at=YOUNG)
    assert retain(tenant.pk).events == 0
    assert "runs_event.body" in places_of(tenant, CANARY)
    assert retain(tenant.pk, now=timezone.now() + timedelta(days=15)).events == 1
    assert places_of(tenant, CANARY) == set()


def test_it_goes_in_batches_and_ends(tenant: Tenant, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "EVENTS_AT_ONCE", 4)
    for number in range(3):
        take(host, log(f"run-{number}"), received_at=OLD + timedelta(minutes=number))
    keep(tenant, events=30)
    assert retain(tenant.pk).events == 21
    assert retain(tenant.pk).events == 0
    with tenant_scope(tenant.pk):
        (stone,) = Erasure.objects.all()
    assert (stone.kind, stone.actor, stone.counts["events"]) == ("events", "retention", 21)


# --- Who does it ---


def test_the_worker_keeps_house_for_every_tenant(tenant: Tenant, host: Host) -> None:
    take(host, log(), received_at=OLD)
    keep(tenant, events=30)
    with tenant_scope(tenant.pk):
        RunSecret.objects.create(
            tenant_id=tenant.pk, run_key="0" * 32, secret_id="a", host_id=host.pk, run_id="run-1", sealed="x",
            registered_at=timezone.now(),
        )  # fmt: skip
    for one in (make_tenant("other"), tenant):
        keep_house_of(one.pk, lambda: False)
    assert places_of(tenant, CANARY) == set()
    with tenant_scope(tenant.pk):
        assert Run.objects.get().status == "failed"
        assert not RunSecret.objects.exists()


def test_the_command_says_what_it_does(tenant: Tenant, host: Host) -> None:
    def told(*options: str) -> str:
        out = StringIO()
        call_command("retain", "--tenant", "acme", *options, stdout=out)
        return out.getvalue()

    assert told() == "This tenant keeps everything: no period is set.\n"
    take(host, log(), received_at=OLD)
    keep(tenant, events=30, payloads=30)
    assert told("--dry-run") == "0 payloads of source events and 9 of runs' events are due.\n"
    assert places_of(tenant, CANARY)
    assert told() == "0 payloads of source events and 7 of runs' events were taken away.\n"
    assert told() == "0 payloads of source events and 0 of runs' events were taken away.\n"


# --- What is laid down ---


def test_a_tenant_that_laid_down_nothing_has_what_is_usual(tenant: Tenant) -> None:
    assert policy_of(tenant.pk) == LedgerPolicy(Policy.REWRITE, 65536, None, None, None)
    keep(tenant, payloads=30, events=90)
    assert policy_of(tenant.pk) == LedgerPolicy(Policy.REWRITE, 65536, 30, 90, None)
    other = make_tenant("other")
    assert policy_of(other.pk) == LedgerPolicy()
    with tenant_scope(other.pk):
        assert not LedgerSettings.objects.exists()


@pytest.mark.parametrize(
    "wrong", [{"payload_days": 0}, {"event_days": -1}, {"event_days": 36_501}, {"max_entry_bytes": 255},
              {"max_entry_bytes": 1024 * 1024 + 1}],
)  # fmt: skip
def test_what_can_not_be_is_not_laid_down(tenant: Tenant, wrong: dict[str, int]) -> None:
    told: dict[str, Any] = {"max_entry_bytes": 65536, "payload_days": None, "event_days": None} | wrong
    with pytest.raises(ValidationError):
        lay_down(tenant_id=tenant.pk, secrets=Policy.REWRITE, **told)
    assert policy_of(tenant.pk) == LedgerPolicy()
