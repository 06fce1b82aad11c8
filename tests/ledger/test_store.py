"""Reading the log on: every fact once, in whatever order its event came, and nothing left out."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count, pairwise
from typing import Any

import psycopg
import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger import store
from ledger.domain.reading import READER, Merged, Written, read_fact
from ledger.models import MemoryEntry, MemoryWrite, ReadingCursor
from ledger.store import read_backlog
from openwop_ui.live.announce import CHANNEL
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.models import Host
from tests.factories import BEGINNING, make_event, make_host, make_tenant, take
from tests.ledger.ledger_rows import ledger_rows

ARRIVED = datetime.fromisoformat("2026-03-02T00:00:00Z")
"""When events are received here. Whether a gap has stood too long is told by ``now``."""
SOON = ARRIVED + timedelta(seconds=1)
LATER = ARRIVED + timedelta(seconds=60)


def at(second: float) -> datetime:
    return BEGINNING + timedelta(seconds=second)


def write(
    sequence: int, memory_id: str = "m1", *, run: str = "run-1", ref: str = "notes", **told: Any
) -> dict[str, Any]:
    members = {name: told.pop(name) for name in ("node", "at") if name in told}
    return make_event(
        sequence, "memory.written", run=run, payload={"memoryRef": ref, "memoryId": memory_id} | told, **members
    )


def compaction(sequence: int, output: str = "all", *, run: str = "run-1", **told: Any) -> dict[str, Any]:
    return make_event(sequence, "memory.compacted", run=run, payload={"memoryRef": "notes", "outputId": output} | told)


def arrive(host: Host, *events: dict[str, Any], received_at: datetime = ARRIVED) -> None:
    assert take(host, events, received_at=received_at).refused_total == 0


def read_all(tenant: Tenant, *, now: datetime = SOON) -> int:
    """How many parts it took."""
    for parts in count(1):
        if not read_backlog(tenant.pk, now=now):
            return parts
    raise AssertionError("unreachable")


def written(tenant: Tenant) -> list[tuple[str, int]]:
    """The writes that have been read."""
    return [(row[0], row[1]) for row in ledger_rows(tenant)["writes"]]


# --- What is read ---


def test_a_write_becomes_a_write_and_an_entry(tenant: Tenant, host: Host) -> None:
    arrive(host, make_event(0, "run.started"), write(1, node="sum", agentId="writer", tags=["a", "b"]))
    read_all(tenant)
    assert ledger_rows(tenant) == {
        "scopes": [("notes", 1)],
        "entries": [("notes", "m1", 1, 1, at(1), at(1), "run-1", 1)],
        "writes": [("run-1", 1, ("notes", "m1"), "sum", "writer", ("a", "b"), at(1))],
        "merges": [],
        "sources": [],
        "tagged": [],
    }


def test_an_entry_adds_up_its_writes_in_all_runs_of_its_host(tenant: Tenant, host: Host) -> None:
    arrive(
        host,
        write(0, node="sum", at=at(50)),
        write(1, at=at(10)),
        write(0, run="run-2", node="other", at=at(30)),
        write(1, "m2", run="run-2", ref="other", at=at(31)),
    )
    read_all(tenant)
    rows = ledger_rows(tenant)
    assert rows["entries"] == [
        ("notes", "m1", 3, 2, at(10), at(50), "run-1", 0),
        ("other", "m2", 1, 0, at(31), at(31), "run-2", 1),
    ]
    assert rows["scopes"] == [("notes", 1), ("other", 1)]


def test_the_same_address_on_two_hosts_is_two_entries(tenant: Tenant, host: Host) -> None:
    arrive(host, write(0))
    arrive(make_host(tenant, "beta"), write(0), write(1, "m2"))
    read_all(tenant)
    assert [row[:3] for row in ledger_rows(tenant)["entries"]] == [
        ("notes", "m1", 1),
        ("notes", "m1", 1),
        ("notes", "m2", 1),
    ]
    assert ledger_rows(tenant)["scopes"] == [("notes", 1), ("notes", 2)]


def test_a_write_without_an_address_is_kept_as_one(tenant: Tenant, host: Host) -> None:
    arrive(host, make_event(0, "memory.written", node="sum", payload={"memoryRef": "notes"}))
    read_all(tenant)
    rows = ledger_rows(tenant)
    assert rows["writes"] == [("run-1", 0, (), "sum", None, (), at(0))]
    assert rows["entries"] == rows["scopes"] == []


def test_merges_are_facts_and_mention_entries_without_counting_as_writes(tenant: Tenant, host: Host) -> None:
    arrive(
        host,
        write(0),
        compaction(1, sourceIds=["m1", "m2"], sourceCount=2, byteSize=10, trigger="both"),
        make_event(
            2,
            "agent.memory.consolidated",
            payload={"memoryRef": "notes", "inputCount": 3, "outputCount": 2, "mergedIds": ["m2"]},
        ),
        compaction(3, "more", sourceCount=200),
    )
    read_all(tenant)
    rows = ledger_rows(tenant)
    assert rows["merges"] == [
        ("run-1", 1, "compaction", "notes", ("notes", "all"), 2, 1, 10, "both", True, at(1)),
        ("run-1", 2, "consolidation", "notes", (), 3, 2, None, "", True, at(2)),
        ("run-1", 3, "compaction", "notes", ("notes", "more"), 200, 1, None, "", False, at(3)),
    ]
    assert rows["sources"] == [
        ("run-1", 1, ("notes", "m1")),
        ("run-1", 1, ("notes", "m2")),
        ("run-1", 2, ("notes", "m2")),
    ]
    assert rows["entries"] == [
        ("notes", "all", 0, 0, at(1), at(1), "run-1", 1),
        ("notes", "m1", 1, 0, at(0), at(1), "run-1", 1),
        ("notes", "m2", 0, 0, at(1), at(2), "run-1", 2),
        ("notes", "more", 0, 0, at(3), at(3), "run-1", 3),
    ]
    assert rows["scopes"] == [("notes", 4)]


def test_a_source_that_only_a_tag_names_is_a_hint_and_no_entry(tenant: Tenant, host: Host) -> None:
    arrive(host, write(0), write(1, "all", tags=["compacted-from:m1", "compacted-from:never-seen"]))
    read_all(tenant)
    rows = ledger_rows(tenant)
    assert rows["tagged"] == [("run-1", 1, ("notes", "m1")), ("run-1", 1, ("unknown",))]
    assert [row[1] for row in rows["entries"]] == ["all", "m1"]


def test_the_second_majors_names_are_read_too(tenant: Tenant, host: Host) -> None:
    arrive(host, make_event(0, "agent.memory-consolidated", payload={"memoryRef": "notes", "mergedIds": ["m1"]}))
    read_all(tenant)
    assert [row[2] for row in ledger_rows(tenant)["merges"]] == ["consolidation"]


def test_odd_text_is_stored_and_found_again_by_the_same_ids(tenant: Tenant, host: Host) -> None:
    odd = {
        "memoryRef": "a\0\ue000",
        "memoryId": "\ud800",
        "nodeId": "n\0",
        "agentId": "\udfff",
        "tags": ["\0", "\ud83d"],
    }
    arrive(host, make_event(0, "memory.written", payload=odd), make_event(1, "memory.written", payload=odd))
    read_all(tenant)
    with tenant_scope(tenant.pk):
        (entry,) = MemoryEntry.objects.filter(tenant_id=tenant.pk)
        assert (entry.memory_ref, entry.memory_id, entry.write_count) == ("a\ue0000000\ue000e000", "\ue000d800", 2)
        found = MemoryWrite.objects.filter(tenant_id=tenant.pk).first()
        assert found is not None
        assert (found.node_id, found.agent_id, found.tags) == (
            "n\ue0000000",
            "\ue000dfff",
            ["\ue0000000", "\ue000d83d"],
        )


def test_an_event_that_no_parser_can_hold_does_not_stop_the_reader(tenant: Tenant, host: Host) -> None:
    body = (
        '{"runId":"run-1","sequence":0,"type":"memory.written","timestamp":"2026-03-01T09:00:00Z",'
        '"payload":{"memoryRef":"notes","memoryId":"m1","odd":' + "7" * 5000 + "}}"
    )
    assert take(host, [body]).accepted == 1
    arrive(host, write(1))
    read_all(tenant)
    assert written(tenant) == [("run-1", 0), ("run-1", 1)]


# --- Once ---


def test_reading_twice_gives_the_same_rows(tenant: Tenant, host: Host) -> None:
    events = [write(0), compaction(1, sourceIds=["m1"]), write(2, "all", tags=["compacted-from:m1"])]
    arrive(host, *events)
    read_all(tenant)
    before = ledger_rows(tenant)
    arrive(host, *events)
    assert read_all(tenant) == 1
    with tenant_scope(tenant.pk):
        ReadingCursor.objects.filter(tenant_id=tenant.pk).delete()
    read_all(tenant)
    assert ledger_rows(tenant) == before


def test_a_partial_copy_is_read_once_it_is_complete(tenant: Tenant, host: Host) -> None:
    whole = write(1, node="sum", agentId="writer")
    # A delivery that leaves out the payload, and writes the time in its own way.
    partial = make_event(1, "memory.written", at=at(1.5))
    del partial["payload"]
    arrive(host, make_event(0), partial)
    read_all(tenant)
    assert written(tenant) == []
    arrive(host, whole)
    read_all(tenant)
    completed = ledger_rows(tenant)
    assert completed["writes"] == [("run-1", 1, ("notes", "m1"), "sum", "writer", (), at(1))]

    straight = make_host(tenant, "beta")
    arrive(straight, make_event(0), whole, partial)
    read_all(tenant)
    assert ledger_rows(tenant, host=straight) == completed


def test_what_another_version_read_is_read_again(tenant: Tenant, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    arrive(host, write(0), write(1, "m2"))
    read_all(tenant)
    before = ledger_rows(tenant)
    with tenant_scope(tenant.pk):
        MemoryWrite.objects.filter(tenant_id=tenant.pk, sequence=1).update(node_id="as version 1 read it")
    monkeypatch.setattr(store, "READER", READER + 1)
    read_all(tenant)
    assert ledger_rows(tenant) == before


# --- Gaps ---


def test_reading_stops_before_a_gap_and_goes_on_when_it_closes(tenant: Tenant, host: Host) -> None:
    arrive(host, write(0), write(1), write(3), write(4))
    read_all(tenant)
    assert written(tenant) == [("run-1", 0), ("run-1", 1)]
    arrive(host, write(2))
    read_all(tenant)
    assert written(tenant) == [("run-1", sequence) for sequence in range(5)]


def test_a_gap_that_stands_too_long_is_read_past(tenant: Tenant, host: Host) -> None:
    arrive(host, write(0), write(2))
    read_all(tenant, now=ARRIVED + timedelta(seconds=14))
    assert written(tenant) == [("run-1", 0)]
    read_all(tenant, now=ARRIVED + timedelta(seconds=16))
    assert written(tenant) == [("run-1", 0), ("run-1", 2)]


def test_a_gap_is_as_old_as_the_first_event_behind_it_however_busy_the_run(tenant: Tenant, host: Host) -> None:
    arrive(host, write(0), write(2))
    for sequence in range(3, 9):
        arrive(host, write(sequence), received_at=ARRIVED + timedelta(seconds=5 * sequence))
        read_all(tenant, now=ARRIVED + timedelta(seconds=5 * sequence))
    assert written(tenant) == [("run-1", 0), *(("run-1", sequence) for sequence in range(2, 9))]


def test_a_log_without_its_beginning_is_read_after_a_while(tenant: Tenant, host: Host) -> None:
    arrive(host, write(7))
    read_all(tenant)
    assert written(tenant) == []
    read_all(tenant, now=LATER)
    assert written(tenant) == [("run-1", 7)]


def test_what_comes_late_into_what_was_read_past_a_gap_is_read(tenant: Tenant, host: Host) -> None:
    arrive(host, write(0), write(2), write(6))
    read_all(tenant, now=LATER)
    assert written(tenant) == [("run-1", 0), ("run-1", 2), ("run-1", 6)]
    arrive(host, write(4))  # the gap at 1 stays open
    read_all(tenant, now=LATER)
    assert written(tenant) == [("run-1", sequence) for sequence in (0, 2, 4, 6)]
    arrive(host, write(1))
    read_all(tenant, now=SOON)
    arrive(host, write(5), write(3))
    read_all(tenant, now=SOON)
    assert written(tenant) == [("run-1", sequence) for sequence in range(7)]


def test_behind_an_open_gap_only_what_is_new_is_read(
    tenant: Tenant, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrive(host, write(0), *(write(sequence) for sequence in range(2, 40)))
    read_all(tenant, now=LATER)
    arrive(host, write(40))
    looked_at: list[str] = []

    def look(type: str, body: str) -> Written | Merged | None:
        looked_at.append(body)
        return read_fact(type, body)

    monkeypatch.setattr(store, "read_fact", look)
    read_all(tenant, now=LATER)
    assert len(looked_at) == 1
    assert len(written(tenant)) == 40


def test_a_sequence_that_starts_at_one_has_no_gap(tenant: Tenant, host: Host) -> None:
    arrive(host, write(1), write(2))
    read_all(tenant)
    assert written(tenant) == [("run-1", 1), ("run-1", 2)]


# --- Any order, any batches, any moment ---

_names = count()


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[list[dict[str, Any]]], list[bool]]:
    """A log of three runs, some of it missing for good; the same events shuffled, repeated and cut into batches;
    and after which batches it is read, patiently or not."""
    log: list[dict[str, Any]] = []
    for run in ("a", "b", "c"):
        for sequence in range(draw(st.integers(2, 9))):
            moment = at(1000 * "abc".index(run) + 10 * sequence + draw(st.integers(0, 9)))
            kind = draw(st.sampled_from(["write", "write", "masked", "tagged", "compaction", "other"]))
            memory_id = draw(st.sampled_from(["m1", "m2", "m3"]))
            log.append(_event(kind, sequence, run, memory_id, moment))
    missing = draw(st.sets(st.integers(0, len(log) - 1), max_size=3))
    log = [event for place, event in enumerate(log) if place not in missing]
    arriving = draw(st.permutations(log)) + draw(st.lists(st.sampled_from(log), max_size=4))
    cuts = sorted(draw(st.sets(st.integers(1, len(arriving) - 1), max_size=6)))
    batches = [list(arriving[start:end]) for start, end in pairwise([0, *cuts, len(arriving)])]
    return log, batches, draw(st.lists(st.booleans(), min_size=len(batches), max_size=len(batches)))


def _event(kind: str, sequence: int, run: str, memory_id: str, moment: datetime) -> dict[str, Any]:
    if kind == "other":
        return make_event(sequence, run=run, node="sum", at=moment)
    if kind == "compaction":
        told: dict[str, Any] = {"memoryRef": "notes", "outputId": "all", "sourceIds": [memory_id]}
        return make_event(sequence, "memory.compacted", run=run, payload=told, at=moment)
    told = {"memoryRef": "notes", "memoryId": None if kind == "masked" else memory_id}
    tags = {"tags": ["compacted-from:m1"]} if kind == "tagged" else {}
    return make_event(sequence, "memory.written", run=run, node="sum", payload=told | tags, at=moment)


@settings(max_examples=30, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arrivals(), st.integers(1, 5))
def test_any_order_any_batches_and_any_moments_give_the_same_ledger(
    tenant: Tenant,
    told: tuple[list[dict[str, Any]], list[list[dict[str, Any]]], list[bool]],
    at_once: int,
) -> None:
    log, batches, patience = told
    number = next(_names)
    straight, mixed = make_host(tenant, f"straight-{number}"), make_host(tenant, f"mixed-{number}")
    arrive(straight, *log)
    read_all(tenant, now=LATER)
    expected = ledger_rows(tenant, host=straight)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "EVENTS_AT_ONCE", at_once)
        patch.setattr(store, "RUNS_AT_ONCE", 2)
        for batch, is_patient in zip(batches, patience, strict=True):
            arrive(mixed, *batch)
            if is_patient:
                read_all(tenant, now=SOON)
            else:
                read_backlog(tenant.pk, now=LATER)
        read_all(tenant, now=LATER)
    assert ledger_rows(tenant, host=mixed) == expected
    assert len(expected["writes"]) == sum(event["type"] == "memory.written" for event in log)


# --- Cut readings ---


@pytest.mark.parametrize("limit, value", [("EVENTS_AT_ONCE", 3), ("BYTES_AT_ONCE", 600), ("RUNS_AT_ONCE", 1)])
def test_a_reading_that_is_cut_goes_on_where_it_stopped(
    tenant: Tenant, host: Host, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    events = [write(sequence, f"m{sequence % 3}", run=run) for run in ("a", "b", "c") for sequence in range(7)]
    arrive(host, *events)
    whole = make_host(tenant, "whole")
    monkeypatch.setattr(store, limit, value)
    assert read_all(tenant) > 2
    monkeypatch.undo()
    arrive(whole, *events)
    read_all(tenant)
    assert ledger_rows(tenant, host=host) == ledger_rows(tenant, host=whole)


def test_a_single_event_larger_than_a_reading_is_read(
    tenant: Tenant, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrive(host, write(0, tags=["x" * 5000]), write(1))
    monkeypatch.setattr(store, "BYTES_AT_ONCE", 100)
    read_all(tenant)
    assert written(tenant) == [("run-1", 0), ("run-1", 1)]


def test_an_event_that_comes_late_between_two_parts_is_read(
    tenant: Tenant, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "EVENTS_AT_ONCE", 2)
    arrive(host, write(0), write(2), write(4), write(6), write(8))
    assert read_backlog(tenant.pk, now=LATER)
    assert written(tenant) == [("run-1", 0), ("run-1", 2)]
    assert read_backlog(tenant.pk, now=LATER)
    arrive(host, write(3))
    read_all(tenant, now=LATER)
    assert written(tenant) == [("run-1", sequence) for sequence in (0, 2, 3, 4, 6, 8)]


def test_a_run_that_is_always_busy_does_not_keep_others_from_being_read(
    tenant: Tenant, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "RUNS_AT_ONCE", 1)
    arrive(host, write(0, run="busy"))
    arrive(host, write(0, run="patient"), received_at=SOON)
    for sequence in range(1, 4):
        arrive(host, write(sequence, run="busy"), received_at=SOON + timedelta(seconds=sequence))
        read_backlog(tenant.pk, now=SOON + timedelta(seconds=sequence))
    assert ("patient", 0) in written(tenant)


def test_a_look_at_recent_runs_leaves_the_others(tenant: Tenant, host: Host) -> None:
    arrive(host, write(0, run="old"))
    arrive(host, write(0, run="new"), received_at=LATER)
    now = LATER + timedelta(seconds=119)
    assert read_backlog(tenant.pk, now=now, recent=True) is False
    assert written(tenant) == [("new", 0)]
    read_backlog(tenant.pk, now=now)
    assert written(tenant) == [("new", 0), ("old", 0)]


# --- Company ---


def test_two_readers_at_once_read_everything_once(committed: None) -> None:
    tenant = make_tenant()
    host = make_host(tenant)
    events = [write(sequence, f"m{sequence % 5}", run=run) for run in ("a", "b") for sequence in range(60)]
    problems: list[BaseException] = []

    def read_on() -> None:
        try:
            for _ in range(30):
                read_backlog(tenant.pk)
        except BaseException as exc:
            problems.append(exc)
        finally:
            connection.close()

    readers = [threading.Thread(target=read_on) for _ in range(3)]
    for reader in readers:
        reader.start()
    for start in range(0, len(events), 10):
        take(host, events[start : start + 10])
    for reader in readers:
        reader.join()
    read_all(tenant)
    assert not problems
    rows = ledger_rows(tenant)
    assert len(rows["writes"]) == 120
    assert [row[1:3] for row in rows["entries"]] == [(f"m{number}", 24) for number in range(5)]


def test_a_reader_leaves_a_tenant_that_another_one_reads(committed: None) -> None:
    tenant = make_tenant()
    arrive(make_host(tenant), write(0))
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with tenant_scope(tenant.pk, durable=True):
                store.hold_reading(tenant.pk)
                held.set()
                done.wait(5)
        finally:
            connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(5)
    assert read_backlog(tenant.pk) is False
    assert written(tenant) == []
    done.set()
    holder.join()
    read_backlog(tenant.pk)
    assert written(tenant) == [("run-1", 0)]


def test_a_tenants_reading_shows_nothing_to_another(tenant: Tenant, host: Host) -> None:
    other = make_tenant("globex")
    arrive(host, write(0))
    arrive(make_host(other), write(0), write(1))
    read_all(tenant)
    assert ledger_rows(other) == {name: [] for name in ledger_rows(other)}
    read_all(other)
    assert [row[2] for row in ledger_rows(tenant)["entries"]] == [1]
    assert [row[2] for row in ledger_rows(other)["entries"]] == [2]


def test_a_reading_is_announced_when_it_held_something(committed: None) -> None:
    tenant = make_tenant()
    host = make_host(tenant)

    def read(*events: dict[str, Any]) -> Callable[[], int]:
        arrive(host, *events)
        return lambda: read_all(tenant)

    assert heard(read(make_event(0))) == []
    assert heard(read(write(1))) == [{"tenant": tenant.pk, "topics": {"ledger": None}}]


def heard(act: Callable[[], object]) -> list[Any]:
    """What is announced of ledgers meanwhile."""
    params = connection.get_connection_params()
    kept = {key: params[key] for key in ("host", "port", "user", "password", "dbname") if params.get(key)}
    with psycopg.connect(**kept, autocommit=True) as listener:
        listener.execute(f"LISTEN {CHANNEL}")
        act()
        notices = [json.loads(notice.payload) for notice in listener.notifies(timeout=0.2)]
    return [notice for notice in notices if "ledger" in notice["topics"]]
