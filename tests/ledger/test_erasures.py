"""Erasing an entry or a subject: nothing of it is left anywhere, what belongs to others is, and a tombstone says so."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone
from psycopg import errors

from ledger import queries
from ledger.claims_store import decide_conflict
from ledger.claims_store.actor import Actor
from ledger.claims_store.entries import read_entries
from ledger.claims_store.reviewing import Ask
from ledger.domain.decisions import Verdict
from ledger.domain.observing import Sight
from ledger.domain.reading import Address, entry_id
from ledger.erasures import Erased, erase_entry, erase_subject, plan_entry, plan_subject
from ledger.models import (
    ClaimRow,
    ClaimState,
    Conflict,
    Decision,
    ErasedItem,
    Erasure,
    Holding,
    MemoryWrite,
    Observation,
    OwnPut,
    SourceEvent,
)
from ledger.observations import Kept, Look, Source, claim, observe
from ledger.queries import EntryFilter
from ledger.rebuild import rebuild
from ledger.store import read_backlog
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.models import Event, Host
from tests.factories import bearer, make_event, make_host, make_key, make_tenant, take
from tests.ledger.canary import places_of
from tests.ledger.claims import body, make_writer, say, shown

CANARY = "k4n4ry-garden-gate"
TEXT = f"Your current locker code is {CANARY}"
BY = Actor("person", "person:ada")
JSON = "application/json"


def pk(host: Host, memory_id: str, ref: str = "notes") -> UUID:
    return entry_id(host.pk, Address(ref, memory_id))


def see(host: Host, memory_id: str, content: str, *, ref: str = "notes", tags: tuple[str, ...] = ()) -> Kept:
    sight = Sight("content", content, tags, created_at=timezone.now() - timedelta(hours=1))
    return observe(tenant_id=host.tenant_id, host_id=host.pk, looks=[Look(ref, memory_id, sight)], source=Source.READ)


def written(sequence: int, memory_id: str, *, run: str = "run-1", tags: tuple[str, ...] = ()) -> dict[str, Any]:
    payload = {"memoryRef": "notes", "memoryId": memory_id, "nodeId": "step", "tags": list(tags)}
    return make_event(sequence, "memory.written", run=run, node="step", payload=payload)


def tool(sequence: int, type_: str, *, run: str = "run-1", **payload: Any) -> dict[str, Any]:
    told = {"agentId": "writer", "toolName": "remember", "callId": "c1", **payload}
    return make_event(sequence, type_, run=run, payload=told)


def read_all(tenant: Tenant) -> None:
    while read_backlog(tenant.pk, now=timezone.now() + timedelta(minutes=1)):
        pass
    while read_entries(tenant.pk):
        pass


def erase(tenant: Tenant, entry: UUID) -> Erased:
    found = erase_entry(tenant_id=tenant.pk, entry=entry, actor=BY)
    assert found is not None
    return found


@pytest.fixture
def full(tenant: Tenant, host: Host) -> Host:
    """An entry whose text got into everything that is made of an entry, beside one that nothing of it got into."""
    make_writer(tenant, "billing", 0)
    take(
        host,
        [
            make_event(0, "run.started", payload={"workflowId": "w"}),
            tool(1, "agent.toolCalled", inputs={"content": TEXT, "key": "locker"}),
            tool(2, "agent.toolReturned", status="ok", outcome={"saved": TEXT}),
            written(3, "m1", tags=(CANARY, "locker")),
            written(4, "m2", tags=("tea",)),
            make_event(5, "memory.compacted", payload={
                "memoryRef": "notes", "outputId": "m3", "sourceIds": ["m1", "m2"], "sourceCount": 2,
                "trigger": "both", "byteSize": 9,
            }),
            written(6, "m3"),
            written(7, "m4", tags=("compacted-from:m3",)),
            make_event(8, "log.appended", payload={"message": f"said {CANARY}"}),
            make_event(9, "run.completed"),
        ],
    )  # fmt: skip
    take(host, [make_event(0, "log.appended", run="run-2", payload={"deep": [{"a": f"{TEXT}, indeed"}]})])
    see(host, "m1", f"{TEXT}", tags=(CANARY,))
    see(host, "m2", "User's favourite drink is tea")
    see(host, "m3", f"Summary: likes tea; locker {CANARY}.")
    see(host, "m4", f"Summary of summaries: {CANARY}!")
    see(host, "m5", f"Copied elsewhere: {TEXT}.", ref="other")
    see(host, "m6", f"No source named: {CANARY}")
    read_all(tenant)
    say(
        tenant,
        body("b1", subject="host:alpha/notes", claims=[{"key": "locker_code", "value": "blue"}]),
        body("b2", subject="user-9", messages=[f"They said: {TEXT}"], evidence=[{"note": TEXT}]),
        body("b3", subject="user-9", messages=["My favourite colour is red."]),
    )
    return host


def decide_locker(tenant: Tenant) -> None:
    with tenant_scope(tenant.pk):
        conflict = Conflict.objects.get(tenant_id=tenant.pk, state="open")
    ask = Ask(
        revision=conflict.revision,
        verdict=Verdict.CORRECT,
        value=f"not {CANARY} but green",
        evidence=f"saw {CANARY}",
        reason=f"{CANARY} is old",
    )
    decided = decide_conflict(tenant_id=tenant.pk, conflict=conflict.id, ask=ask, actor=BY)
    assert decided is not None and decided.correction is not None


def test_field_report_m18_erasing_an_entry_leaves_its_canary_nowhere(tenant: Tenant, full: Host) -> None:
    decide_locker(tenant)
    before = places_of(tenant, CANARY)
    assert before >= {
        "ledger_claimrow.value",
        "ledger_claimrow.display",
        "ledger_claimrow.content",
        "ledger_contentstate.excerpt",
        "ledger_decision.evidence",
        "ledger_decision.reason",
        "ledger_decision.inputs",
        "ledger_memorywrite.tags",
        "ledger_observation.content",
        "ledger_observation.tags",
        "ledger_sourceevent.payload",
        "ledger_sourceevent.evidence",
        "runs_event.body",
    }
    erased = erase(tenant, pk(full, "m1"))
    assert places_of(tenant, CANARY) == set()
    assert erased.counts["entries"] == 5
    with tenant_scope(tenant.pk):
        kept = Observation.objects.filter(content__isnull=False)
        assert [one.content for one in kept] == ["User's favourite drink is tea"]
        assert Decision.objects.get().reason == "[erased]"
        states = set(ClaimState.objects.filter(claim_id__in=Holding.objects.values("claim_id")).values_list("subject"))
    assert ("user-9", "red") in shown(tenant)
    assert ("host:alpha/notes", "tea") in shown(tenant)
    assert all(CANARY not in value for _, value in shown(tenant))
    assert states


def test_the_ledger_is_still_a_reading_of_the_log(tenant: Tenant, full: Host) -> None:
    erase(tenant, pk(full, "m1"))
    for _ in range(2):
        assert [one for one in rebuild(tenant.pk, check=True) if one.lost or one.gained] == []
    read_all(tenant)
    rebuild(tenant.pk)
    assert places_of(tenant, CANARY) == set()
    with tenant_scope(tenant.pk):
        facts = queries.find_entry(tenant.pk, "alpha", "notes", "m1")
        assert facts is not None
        assert (facts.state, facts.writes, facts.tags) == (queries.ERASED, 1, ())
        told = queries.lineage(tenant.pk, facts)
    assert [row.kind for row in told.went_into] == ["compaction"]


def test_hashes_and_a_dated_tombstone_with_its_actor_stay(tenant: Tenant, full: Host) -> None:
    with tenant_scope(tenant.pk):
        events = set(Event.objects.values_list("run_id", "sequence", "digest"))
        payload_hash = SourceEvent.objects.get(event_id="b2").payload_hash
        value = ClaimRow.objects.get(display=CANARY, source_event_id__in=SourceEvent.objects.filter(
            entry_id=pk(full, "m1")).values("id")).value  # fmt: skip
    before = timezone.now()
    erased = erase(tenant, pk(full, "m1"))
    with tenant_scope(tenant.pk):
        stone = Erasure.objects.get()
        assert (stone.id, stone.kind, stone.actor, stone.entry_id) == (
            erased.id, "entry", "person:ada", pk(full, "m1"),
        )  # fmt: skip
        assert before <= stone.at <= timezone.now()
        assert stone.counts == erased.counts
        items = {(one.kind, one.item): one.digest for one in ErasedItem.objects.all()}
        assert bytes(items["content", f"{pk(full, 'm1')}/1"] or b"") == hashlib.sha256(TEXT.encode()).digest()
        assert hashlib.sha256(value.encode()).digest() in {
            bytes(d or b"") for (k, _), d in items.items() if k == "claim"
        }
        first = Observation.objects.get(entry_id=pk(full, "m1"), number=1)
        assert (first.content, bytes(first.digest or b"")) == (None, hashlib.sha256(TEXT.encode()).digest())
        source = SourceEvent.objects.get(event_id="b2")
        assert (source.payload, source.evidence, source.payload_hash) == (None, "[]", payload_hash)
        assert set(Event.objects.values_list("run_id", "sequence", "digest")) == events


def test_what_was_erased_does_not_come_back(tenant: Tenant, full: Host) -> None:
    erase(tenant, pk(full, "m1"))
    assert see(full, "m1", TEXT) == Kept(late=1)
    take(full, [written(3, "m1", tags=(CANARY, "locker"))])
    assert say(tenant, body("b2", subject="user-9", messages=[f"They said: {TEXT}"], evidence=[{"note": TEXT}]))[
        0
    ].is_repeat
    read_all(tenant)
    assert places_of(tenant, CANARY) == set()
    with tenant_scope(tenant.pk):
        listed = {row.memory_id: row.state for row in queries.entry_list(tenant.pk, EntryFilter()).rows}
    assert listed == {"m1": "erased", "m2": "stored", "m3": "erased", "m4": "erased", "m5": "erased", "m6": "erased"}


def test_an_erased_entry_is_not_asked_for_again(tenant: Tenant) -> None:
    served = make_host(tenant, "served", memory_route="openwop-app", origin="https://served.test")
    take(served, [written(0, "m1"), written(1, "m2")])
    read_all(tenant)
    erase(tenant, pk(served, "m1"))
    take(served, [written(2, "m1"), written(3, "m2")])
    read_all(tenant)
    now = timezone.now() + timedelta(minutes=5)
    due = claim(tenant_id=tenant.pk, host_id=served.pk, most=10, now=now)
    assert [one.memory_id for one in due] == ["m2"]


def test_what_goes_is_told_before_and_nothing_goes_by_looking(tenant: Tenant, full: Host) -> None:
    with tenant_scope(tenant.pk):
        plan = plan_entry(tenant.pk, pk(full, "m1"))
        assert plan is not None
        reasons = {target.memory_id: target.reason.value for target in plan.targets}
    assert reasons == {"m1": "asked", "m3": "quotes", "m4": "quotes", "m5": "quotes", "m6": "quotes"}
    assert plan.counts["entries"] == 5
    assert places_of(tenant, CANARY)
    erased = erase(tenant, pk(full, "m1"))
    assert erased.counts["claims"] == plan.counts["claims"]


def test_an_entry_made_of_it_goes_even_where_it_repeats_nothing(tenant: Tenant, host: Host) -> None:
    take(host, [written(0, "m1"), written(1, "m2", tags=("compacted-from:m1",)), written(2, "m3")])
    see(host, "m1", TEXT)
    see(host, "m2", "in other words")
    see(host, "m3", "something else")
    read_all(tenant)
    erase(tenant, pk(host, "m1"))
    with tenant_scope(tenant.pk):
        assert [one.content for one in Observation.objects.filter(content__isnull=False)] == ["something else"]
        assert sorted(MemoryWrite.objects.get(sequence=1).tags) == ["compacted-from:m1"]


def test_a_common_word_takes_nothing_else_away(tenant: Tenant, host: Host) -> None:
    see(host, "m1", "uses model gpt-4o-mini")
    for number in range(6):
        see(host, f"other-{number}", f"run {number} used gpt-4o-mini")
    erase(tenant, pk(host, "m1"))
    with tenant_scope(tenant.pk):
        assert Observation.objects.filter(content__isnull=False).count() == 6


def test_an_entry_that_only_events_speak_of_can_be_erased(tenant: Tenant, host: Host) -> None:
    take(host, [written(0, "m1", tags=(CANARY,))])
    read_all(tenant)
    erase(tenant, pk(host, "m1"))
    assert places_of(tenant, CANARY) == set()
    assert see(host, "m1", TEXT) == Kept(late=1)


def test_an_entry_that_is_kept_here_is_erased_for_runs_as_well(tenant: Tenant, host: Host) -> None:
    api = Client(headers=bearer(make_key(tenant, "read", "write", "ingest")))
    put = api.post("/v1/memory", {"memoryRef": "notes", "entry": {"content": TEXT, "tags": [CANARY]}}, JSON)
    memory_id = put.json()["entry"]["id"]
    now = timezone.now()
    take(host, [make_event(0, "run.started", at=now)], received_at=now)
    asked = {"memoryRef": "notes", "run": "run-1"}
    assert [one["id"] for one in api.get("/v1/memory", asked).json()["entries"]] == [memory_id]
    with tenant_scope(tenant.pk):
        entry = OwnPut.objects.get().entry_id
    erase(tenant, entry)
    assert places_of(tenant, CANARY) == set()
    assert api.get("/v1/memory", asked).json()["entries"] == []
    assert api.get(f"/v1/memory/{memory_id}", asked).status_code == 404
    assert api.delete(f"/v1/memory/{memory_id}?memoryRef=notes").json()["removed"] is False


# --- Subjects ---


def locker(event: str, subject: str, value: str, *, service: str = "billing", hour: float = 0) -> dict[str, Any]:
    return body(event, subject=subject, service=service, hour=hour, claims=[{"key": "locker", "value": value}])


@pytest.fixture
def two(tenant: Tenant) -> Tenant:
    for key in ("billing", "crm"):
        make_writer(tenant, key)
    say(
        tenant,
        locker("a1", "ada@example.org", CANARY),
        locker("a2", "ada@example.org", "blue", service="crm", hour=1),
        locker("b1", "bob@example.org", "red"),
        body("a3", subject="ada@example.org", messages=[f"My favourite place is {CANARY}."]),
    )
    decide_locker(tenant)
    return tenant


def test_field_report_m14_erasing_one_subject_leaves_the_other_alone(two: Tenant) -> None:
    assert len({subject for subject, _ in shown(two)}) == 2
    erased = erase_subject(tenant_id=two.pk, subject="ada@example.org", actor=BY)
    assert erased is not None
    assert shown(two) == [("bob@example.org", "red")]
    assert (erased.counts["claims"], erased.counts["sourceEvents"]) == (4, 3)
    assert places_of(two, CANARY) == places_of(two, "ada@example.org") == set()
    assert places_of(two, "bob@example.org")
    assert [one for one in rebuild(two.pk, check=True) if one.lost or one.gained] == []
    with tenant_scope(two.pk):
        stone = Erasure.objects.get()
        assert bytes(stone.subject_hash or b"") == hashlib.sha256(b"ada@example.org").digest()
        assert SourceEvent.objects.get(event_id="b1").payload is not None


def test_a_subject_begins_anew_after_it_was_erased(two: Tenant) -> None:
    first = erase_subject(tenant_id=two.pk, subject="ada@example.org", actor=BY)
    assert say(two, locker("a1", "ada@example.org", CANARY))[0].is_repeat
    assert shown(two) == [("bob@example.org", "red")]
    say(two, locker("a9", "ada@example.org", "yellow"))
    assert ("ada@example.org", "yellow") in shown(two)
    again = erase_subject(tenant_id=two.pk, subject="ada@example.org", actor=BY)
    assert first is not None and again is not None
    assert again.counts["claims"] == 1
    assert shown(two) == [("bob@example.org", "red")]


def test_what_is_not_there_is_not_erased(two: Tenant) -> None:
    assert erase_subject(tenant_id=two.pk, subject="nobody", actor=BY) is None
    assert erase_entry(tenant_id=two.pk, entry=uuid4(), actor=BY) is None
    other = make_tenant("other")
    assert erase_subject(tenant_id=other.pk, subject="ada@example.org", actor=BY) is None
    with tenant_scope(other.pk):
        assert plan_subject(other.pk, "ada@example.org") is None
    with tenant_scope(two.pk):
        assert not Erasure.objects.exists()


def test_another_tenants_entry_of_the_same_address_is_left_alone(tenant: Tenant, full: Host) -> None:
    other = make_tenant("other")
    theirs = make_host(other)
    see(theirs, "m1", TEXT)
    assert erase_entry(tenant_id=other.pk, entry=pk(full, "m1"), actor=BY) is None
    erase(tenant, pk(full, "m1"))
    assert "ledger_observation.content" in places_of(other, CANARY)


def test_the_subject_of_a_hosts_ref_takes_its_entries_along(tenant: Tenant, full: Host) -> None:
    erased = erase_subject(tenant_id=tenant.pk, subject="host:alpha/notes", actor=BY)
    assert erased is not None
    with tenant_scope(tenant.pk):
        left = [one.content for one in Observation.objects.filter(content__isnull=False)]
    assert left == [f"Copied elsewhere: {TEXT}."]


# --- What the database lets through ---


CHANGES = {
    "another content": "UPDATE ledger_observation SET content = 'forged'",
    "another digest": "UPDATE ledger_observation SET content = NULL, digest = '\\x00'",
    "another body": "UPDATE runs_event SET body = '{}x'",
    "another type": "UPDATE runs_event SET type = 'run.failed'",
    "another time": "UPDATE runs_event SET received_at = now()",
    "another value": "UPDATE ledger_claimrow SET value = '\"forged\"'",
    "another writer": "UPDATE ledger_claimrow SET value = '\"[erased]\"', writer = 'crm'",
    "another subject": "UPDATE ledger_sourceevent SET subject = 'forged'",
    "another hash": "UPDATE ledger_sourceevent SET payload = NULL, payload_hash = '\\x00'",
    "a row gone": "DELETE FROM ledger_observation",
    "an event gone": "DELETE FROM runs_event",
    "a claim gone": "DELETE FROM ledger_claimrow",
    "a change of a conflict": "UPDATE ledger_conflictchange SET actor = 'forged'",
}


@pytest.mark.parametrize("mode", ["", "withhold"])
@pytest.mark.parametrize("change", CHANGES)
def test_nothing_but_texts_can_be_taken_away(tenant: Tenant, full: Host, mode: str, change: str) -> None:
    decide_locker(tenant)
    with tenant_scope(tenant.pk), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('openwop.retention', %s, true)", [mode])
        with pytest.raises(Exception) as refused, transaction.atomic():
            cursor.execute(CHANGES[change])
    assert isinstance(refused.value.__cause__, errors.RestrictViolation)


def test_tombstones_stay(tenant: Tenant, full: Host) -> None:
    erase(tenant, pk(full, "m1"))
    for change in ("UPDATE ledger_erasure SET actor = 'x'", "DELETE FROM ledger_erasure",
                   "UPDATE ledger_eraseditem SET item = 'x'", "DELETE FROM ledger_eraseditem"):  # fmt: skip
        with tenant_scope(tenant.pk), pytest.raises(Exception) as refused, transaction.atomic():
            connection.cursor().execute(change)
        assert isinstance(refused.value.__cause__, errors.RestrictViolation)
