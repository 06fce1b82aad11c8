"""Logs read on for contradictions: what becomes an incident, when, how often, and what it costs."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs import queries, watch
from runs.domain.contradictions import LISTED
from runs.models import Event, Host, Incident, Run
from runs.store import watching
from runs.store.watching import PATIENCE, watch_on
from runs.watch import watch_forever
from tests.factories import BEGINNING, make_event, make_host, make_log, make_tenant, take

T = TypeVar("T")
RECORDINGS = Path(__file__).resolve().parents[1] / "fixtures" / "recordings"
RECEIVED = BEGINNING + timedelta(days=1)
LATER = RECEIVED + timedelta(hours=1)
"""All gaps have settled by then."""

Row = tuple[str, int | None, dict[str, Any]]


@pytest.fixture
def tenant(db: None) -> Tenant:
    return make_tenant()


@pytest.fixture
def host(tenant: Tenant) -> Host:
    return make_host(tenant)


def watch_all(tenant: Tenant, *, now: datetime = LATER, recent: bool = False) -> int:
    """Reads to the end. Returns in how many parts."""
    parts = 1
    while watch_on(tenant.pk, now=now, recent=recent):
        parts += 1
        assert parts < 10_000
    return parts


def noticed(tenant: Tenant, run: str | None = None) -> list[Row]:
    """Kind, sequence and detail of all incidents, by place."""
    with tenant_scope(tenant.pk):
        found = Incident.objects.filter(tenant_id=tenant.pk)
        if run is not None:
            found = found.filter(run_id=Run.objects.get(tenant_id=tenant.pk, run_id=run).pk)
        return [(one.kind, one.sequence, one.detail) for one in found.order_by("sequence", "kind", "id")]


def kinds(tenant: Tenant, run: str | None = None) -> list[tuple[str, int | None]]:
    return [(kind, sequence) for kind, sequence, _ in noticed(tenant, run)]


def standing(tenant: Tenant) -> list[Row]:
    return [row for row in noticed(tenant) if "closed_at" not in row[2]]


def recorded(name: str) -> list[bytes]:
    return [line for line in (RECORDINGS / name).read_bytes().splitlines() if line.strip()]


def polled(name: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads((RECORDINGS / name).read_bytes())["events"]
    return events


# --- what the reference hosts were seen to do ---


def test_a_cancelled_run_that_goes_on_is_told_exactly(tenant: Tenant, host: Host) -> None:
    """`run.cancelled` at 6 closed every stream; by the poll 20 s later the log went on to a `run.completed` at 12."""
    take(host, recorded("openwop-app/cancelled/events.ndjson"), received_at=RECEIVED)
    watch_all(tenant)
    assert kinds(tenant) == []
    take(host, polled("openwop-app/cancelled/poll-20s-later.json"), received_at=RECEIVED + timedelta(seconds=20))
    watch_all(tenant)
    found = noticed(tenant)
    assert [(kind, sequence) for kind, sequence, _ in found] == [
        ("late_events", 7),
        ("memory_after_terminal", 9),
        ("memory_after_terminal", 11),
        ("second_terminal", 12),
    ]
    assert found[0][2] == {"other": 6, "count": 6}
    assert found[3][2] == {"other": 6, "count": 1, "about": "run.completed"}
    with tenant_scope(tenant.pk):
        run = Run.objects.get(tenant_id=tenant.pk)
        assert (run.status, run.event_count) == ("cancelled", 12)


def test_a_run_started_again_after_a_crash_is_told_exactly(tenant: Tenant, host: Host) -> None:
    """After SIGKILL the host began from the first node again, in the same log; no end was in it before."""
    take(host, recorded("openwop-app/crash-mid-run/events.ndjson"), received_at=RECEIVED)
    watch_all(tenant)
    assert kinds(tenant) == []
    events = recorded("openwop-app/crash-mid-run/events-after-recovery.ndjson")
    starts = [json.loads(line)["sequence"] for line in events if json.loads(line)["type"] == "run.started"]
    take(host, events, received_at=RECEIVED + timedelta(minutes=12))
    watch_all(tenant)
    assert len(starts) == 2
    assert noticed(tenant) == [("second_start", starts[1], {"other": starts[0], "count": 1})]


def test_a_host_that_resumes_is_no_incident(tenant: Tenant, host: Host) -> None:
    for name in ("events.ndjson", "events-after-recovery.ndjson"):
        file = RECORDINGS / "sqlite" / "crash-mid-run" / name
        if file.exists():
            take(host, recorded(f"sqlite/crash-mid-run/{name}"), received_at=RECEIVED)
    watch_all(tenant)
    with tenant_scope(tenant.pk):
        assert Event.objects.filter(tenant_id=tenant.pk, type="run.resumed").exists()
    assert kinds(tenant) == []


@pytest.mark.parametrize(
    "name",
    sorted(
        str(file.relative_to(RECORDINGS))
        for file in RECORDINGS.rglob("events.ndjson")
        if "fork-branch-" not in str(file)
    ),
)
def test_a_recorded_log_without_a_known_fault_gives_none(tenant: Tenant, host: Host, name: str) -> None:
    take(host, recorded(name), received_at=RECEIVED)
    watch_all(tenant)
    assert noticed(tenant) == []


def test_a_branch_from_the_end_has_the_copied_end_in_its_middle(tenant: Tenant, host: Host) -> None:
    take(host, recorded("openwop-app/forks/fork-branch-end/events.ndjson"), received_at=RECEIVED)
    watch_all(tenant)
    found = kinds(tenant)
    assert ("second_terminal", 36) in found
    assert ("second_start", 19) in found
    assert ("late_events", 19) in found


# --- gaps ---


def gap_incidents(tenant: Tenant) -> list[Row]:
    return [row for row in noticed(tenant) if row[0] == "gap"]


def test_a_gap_is_an_incident_once_nothing_has_come_at_its_ends_for_a_while(tenant: Tenant, host: Host) -> None:
    take(host, [make_event(0), make_event(3)], received_at=RECEIVED)
    watch_all(tenant, now=RECEIVED + PATIENCE)
    assert gap_incidents(tenant) == []
    watch_all(tenant, now=RECEIVED + PATIENCE + timedelta(milliseconds=1))
    assert gap_incidents(tenant) == [("gap", 1, {"other": 2, "count": 2})]


def test_a_gap_that_is_being_filled_from_its_beginning_waits(tenant: Tenant, host: Host) -> None:
    take(host, [make_event(0), make_event(9)], received_at=RECEIVED)
    take(host, [make_event(1)], received_at=RECEIVED + timedelta(seconds=20))
    watch_all(tenant, now=RECEIVED + timedelta(seconds=30))
    assert gap_incidents(tenant) == []
    watch_all(tenant, now=RECEIVED + timedelta(seconds=36))
    assert gap_incidents(tenant) == [("gap", 2, {"other": 8, "count": 7})]


def test_a_young_gap_behind_an_old_one_waits_for_itself(tenant: Tenant, host: Host) -> None:
    take(host, [make_event(0), make_event(2)], received_at=RECEIVED)
    take(host, [make_event(4)], received_at=RECEIVED + timedelta(seconds=20))
    watch_all(tenant, now=RECEIVED + timedelta(seconds=30))
    assert [(kind, at) for kind, at, _ in gap_incidents(tenant)] == [("gap", 1)]
    watch_all(tenant, now=RECEIVED + timedelta(seconds=36))
    assert [(kind, at) for kind, at, _ in gap_incidents(tenant)] == [("gap", 1), ("gap", 3)]


def test_a_log_goes_on_being_read_behind_an_old_gap(tenant: Tenant, host: Host) -> None:
    take(host, [make_event(0, "run.started"), make_event(2)], received_at=RECEIVED)
    watch_all(tenant)
    take(host, [make_event(3, "run.started")], received_at=LATER)
    watch_all(tenant, now=LATER)
    assert kinds(tenant) == [("gap", 1), ("second_start", 3)]


@pytest.mark.parametrize("first", [0, 1])
def test_a_log_may_begin_at_either_of_two_sequences(tenant: Tenant, host: Host, first: int) -> None:
    take(host, make_log(first=first), received_at=RECEIVED)
    watch_all(tenant)
    assert noticed(tenant) == []


def test_a_beginning_that_is_missing_is_a_gap(tenant: Tenant, host: Host) -> None:
    take(host, [make_event(5)], received_at=RECEIVED)
    watch_all(tenant)
    assert noticed(tenant) == [("gap", 0, {"other": 4, "count": 5})]


def test_a_gap_that_closes_is_kept_and_shown_as_closed(tenant: Tenant, host: Host) -> None:
    take(host, [make_event(0), make_event(3)], received_at=RECEIVED)
    watch_all(tenant)
    take(host, [make_event(1), make_event(2)], received_at=LATER)
    closed_at = LATER + timedelta(seconds=1)
    watch_all(tenant, now=closed_at)
    assert gap_incidents(tenant) == [("gap", 1, {"other": 2, "count": 2, "closed_at": closed_at.isoformat()})]
    with tenant_scope(tenant.pk):
        ((row,), total) = queries.incidents(tenant.pk, host="alpha")
        (host_row,) = queries.host_rows(tenant.pk)
        (run_row,) = queries.run_list(tenant.pk).rows
    assert (row.closed_at, total) == (closed_at, 1)
    assert (host_row.incidents, run_row.incidents) == (0, 0)
    # Looking again changes nothing of it.
    watch_all(tenant, now=closed_at + timedelta(days=1))
    assert gap_incidents(tenant)[0][2]["closed_at"] == closed_at.isoformat()


def test_a_gap_that_closes_in_part_makes_room_for_what_is_left_of_it(tenant: Tenant, host: Host) -> None:
    take(host, [make_event(0), make_event(5)], received_at=RECEIVED)
    watch_all(tenant)
    take(host, [make_event(3)], received_at=RECEIVED)
    watch_all(tenant)
    assert [(at, detail["other"]) for _, at, detail in standing(tenant)] == [(1, 2), (4, 4)]
    assert [(at, detail["other"]) for _, at, detail in gap_incidents(tenant) if "closed_at" in detail] == [(1, 4)]


def test_what_no_longer_holds_is_not_closed_before_reading_is_back_there(
    tenant: Tenant, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = [make_event(n) for n in (0, 1, 2, 3, 5, 6, 8)]
    take(host, log, received_at=RECEIVED)
    watch_all(tenant)
    assert kinds(tenant) == [("gap", 4), ("gap", 7)]
    take(host, [make_event(4)], received_at=RECEIVED)
    monkeypatch.setattr(watching, "EVENTS_AT_ONCE", 3)
    assert watch_on(tenant.pk, now=LATER)
    assert len(standing(tenant)) == 2
    watch_all(tenant)
    assert [(kind, at) for kind, at, _ in standing(tenant)] == [("gap", 7)]


# --- late arrivals ---


def test_an_earlier_end_that_comes_late_takes_the_place_of_the_first(tenant: Tenant, host: Host) -> None:
    take(host, [make_event(0), make_event(2, "run.completed"), make_event(3)], received_at=RECEIVED)
    watch_all(tenant)
    assert kinds(tenant) == [("gap", 1), ("late_events", 3)]
    take(host, [make_event(1, "run.failed")], received_at=RECEIVED)
    watch_all(tenant)
    assert standing(tenant) == [
        ("late_events", 2, {"other": 1, "count": 2}),
        ("second_terminal", 2, {"other": 1, "count": 1, "about": "run.completed"}),
    ]
    assert len(noticed(tenant)) == 4, "what was noticed before is still there"


def test_a_lower_beginning_is_read_too(tenant: Tenant, host: Host) -> None:
    take(host, [make_event(1, "run.started")], received_at=RECEIVED)
    watch_all(tenant)
    take(host, [make_event(0, "run.started")], received_at=RECEIVED)
    watch_all(tenant)
    assert kinds(tenant) == [("second_start", 1)]


def test_a_payload_that_comes_late_is_read(tenant: Tenant, host: Host) -> None:
    told = {"memoryRef": "notes", "memoryId": "m-1"}
    whole = make_event(1, "memory.written", payload=told)
    partial = {name: value for name, value in whole.items() if name != "payload"}
    take(host, [make_event(0, "run.completed"), partial], received_at=RECEIVED)
    watch_all(tenant)
    assert ("memory_after_terminal", 1, {"other": 0, "count": 1}) in standing(tenant)
    take(host, [whole], received_at=RECEIVED)
    watch_all(tenant)
    assert ("memory_after_terminal", 1, {"other": 0, "count": 1, "about": "m-1"}) in standing(tenant)


def test_the_count_of_late_events_grows(tenant: Tenant, host: Host) -> None:
    take(host, [make_event(0, "run.failed"), make_event(1)], received_at=RECEIVED)
    watch_all(tenant)
    take(host, [make_event(2), make_event(3)], received_at=RECEIVED)
    watch_all(tenant)
    assert noticed(tenant) == [("late_events", 1, {"other": 0, "count": 3})]


def test_each_kind_is_told(tenant: Tenant, host: Host) -> None:
    ids = {"memoryRef": "notes", "memoryId": "m-1"}
    log = [
        make_event(0, "run.started"),
        make_event(1, "memory.written", payload=ids),
        make_event(2, "x-host-myndhyve-memory-written", payload=ids),
        make_event(3, at=BEGINNING - timedelta(milliseconds=1500)),
        make_event(5, "run.started"),
        make_event(6, "run.completed"),
        make_event(7, "memory.compacted", payload={"memoryRef": "notes", "outputId": "m-2"}),
        make_event(8, "run.failed"),
    ]
    take(host, log, received_at=RECEIVED)
    watch_all(tenant)
    assert noticed(tenant) == [
        ("twin_event", 2, {"other": 1, "count": 1, "about": "m-1"}),
        ("time_reversal", 3, {"other": 2, "count": 1, "seconds": 3.5}),
        ("gap", 4, {"other": 4, "count": 1}),
        ("second_start", 5, {"other": 0, "count": 1}),
        ("late_events", 7, {"other": 6, "count": 2}),
        ("memory_after_terminal", 7, {"other": 6, "count": 1, "about": "m-2"}),
        ("second_terminal", 8, {"other": 6, "count": 1, "about": "run.failed"}),
    ]
    with tenant_scope(tenant.pk):
        assert Event.objects.filter(tenant_id=tenant.pk).count() == len(log)


def test_a_memory_id_that_the_database_can_not_hold_is_told_without_loss(tenant: Tenant, host: Host) -> None:
    ids = {"memoryRef": "notes", "memoryId": "a\x00b\ud800\ue000"}
    take(host, [make_event(0, "run.completed"), make_event(1, "memory.written", payload=ids)], received_at=RECEIVED)
    watch_all(tenant)
    with tenant_scope(tenant.pk):
        rows, _ = queries.incidents(tenant.pk)
    told = [row.text for row in rows if row.kind == "memory-after-terminal"]
    assert told == ["Memory a\x00b\ud800\ue000 was written at #1, behind the run's end at #0."]


def test_of_very_many_findings_a_hundred_are_listed_and_the_others_counted(
    tenant: Tenant, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "EVENTS_AT_ONCE", 64)
    take(host, [make_event(n, "run.started") for n in range(LISTED + 31)], received_at=RECEIVED)
    watch_all(tenant)
    found = noticed(tenant)
    assert len(found) == LISTED
    assert [detail.get("more") for *_, detail in found] == [None] * (LISTED - 1) + [30]
    with tenant_scope(tenant.pk):
        rows, _ = queries.incidents(tenant.pk, limit=1)
    assert rows[0].text.endswith("30 more like it in this run are counted and not listed.")


# --- any order, any batches ---

TYPES = (
    "run.started",
    "node.started",
    "run.completed",
    "run.cancelled",
    "memory.written",
    "x-host-acme-memory-written",
)


@st.composite
def arrivals(draw: st.DrawFn) -> list[list[dict[str, Any]]]:
    """A small log in the order in which it came, in batches."""
    sequences = draw(st.lists(st.integers(0, 12), min_size=1, max_size=12, unique=True))
    log = [
        make_event(
            sequence,
            draw(st.sampled_from(TYPES)),
            at=BEGINNING + timedelta(seconds=draw(st.integers(0, 5))),
            payload={"memoryRef": "notes", "memoryId": draw(st.sampled_from(("m-1", "m-2")))},
        )
        for sequence in sequences
    ]
    cuts = sorted(draw(st.sets(st.integers(1, len(log)), max_size=4)) | {len(log)})
    return [log[start:end] for start, end in zip([0, *cuts], cuts, strict=False)]


NUMBERS = count()


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=arrivals(), at_once=st.integers(1, 5), patient=st.booleans())
def test_read_as_it_comes_and_read_from_scratch_is_the_same(
    tenant: Tenant, host: Host, batches: list[list[dict[str, Any]]], at_once: int, patient: bool
) -> None:
    number = next(NUMBERS)
    piecewise, whole = f"piecewise-{number}", f"whole-{number}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watching, "EVENTS_AT_ONCE", at_once)
        for batch in batches:
            take(host, [event | {"runId": piecewise} for event in batch], received_at=RECEIVED)
            watch_all(tenant, now=LATER if patient else RECEIVED)
        watch_all(tenant)
    take(host, [event | {"runId": whole} for batch in batches for event in batch], received_at=RECEIVED)
    watch_all(tenant)

    def stands(run: str) -> list[Row]:
        return [row for row in noticed(tenant, run) if "closed_at" not in row[2]]

    assert stands(piecewise) == stands(whole)


# --- cost ---


def long_run(host: Host, events: int, *, run: str = "long", first: int = 0, gap: int | None = None) -> None:
    """A run of so many events, straight into the tables. With ``gap`` that sequence is missing."""
    stored: dict[str, Any] = {"tenant": host.tenant_id, "host": host.pk, "run": run, "at": RECEIVED, "begun": BEGINNING}
    stored |= {"first": first, "last": first + events - 1, "gap": -1 if gap is None else gap}
    with tenant_scope(host.tenant_id), connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO runs_run (tenant_id, host_id, run_id, workflow_id, status, status_sequence, status_is_terminal,
                first_sequence, last_sequence, contiguous_through, event_count, write_count, attributed_count, revision,
                first_received_at, last_received_at)
            SELECT %(tenant)s, %(host)s, %(run)s, '', 'running', 0, false, %(first)s, %(last)s,
                CASE WHEN %(gap)s < 0 THEN %(last)s ELSE %(gap)s - 1 END,
                %(last)s - %(first)s + CASE WHEN %(gap)s < 0 THEN 1 ELSE 0 END, 0, 0, 0, %(at)s, %(at)s
            RETURNING id
            """,
            stored,
        )
        (stored["pk"],) = cursor.fetchone()
        cursor.execute(
            """
            INSERT INTO runs_event
                (tenant_id, run_id, sequence, type, occurred_at, received_at, digest, has_payload, body)
            SELECT %(tenant)s, %(pk)s, n, CASE n %% 10 WHEN 0 THEN 'memory.written' ELSE 'node.started' END,
                %(begun)s + n * interval '1 ms', %(at)s, '', true,
                '{"payload":{"memoryRef":"notes","memoryId":"m-' || n || '"}}'
            FROM generate_series(%(first)s::bigint, %(last)s) n WHERE n <> %(gap)s
            """,
            stored,
        )


@contextmanager
def counted_statements() -> Iterator[list[str]]:
    """All statements, those that are streamed included."""
    streamed: list[str] = []
    stream = psycopg.ClientCursor.stream

    def counting(cursor: Any, query: Any, *args: Any, **options: Any) -> Any:
        streamed.append(str(query))
        return stream(cursor, query, *args, **options)

    with pytest.MonkeyPatch.context() as patch, CaptureQueriesContext(connection) as captured:
        patch.setattr(psycopg.ClientCursor, "stream", counting)
        yield streamed
        streamed.extend(query["sql"] for query in captured.captured_queries)


def test_a_part_takes_as_many_statements_for_one_event_as_for_thousands_of_many_runs(
    tenant: Tenant, host: Host
) -> None:
    take(host, [make_event(0, run="small")], received_at=RECEIVED)
    with counted_statements() as few:
        assert not watch_on(tenant.pk, now=LATER)
    for number in range(20):
        long_run(host, 500, run=f"long-{number}")
    with counted_statements() as many:
        assert not watch_on(tenant.pk, now=LATER)
    assert len(many) == len(few) <= 11
    with counted_statements() as none:
        assert not watch_on(tenant.pk, now=LATER)
    # The scope, the lock and the question.
    assert len([one for one in none if "savepoint" not in one.lower()]) == 4


def test_a_run_of_a_hundred_thousand_events_is_read_in_parts_of_flat_cost(tenant: Tenant, host: Host) -> None:
    long_run(host, 100_000, gap=99_990)
    costs = []
    more = True
    while more:
        with counted_statements() as statements:
            more = watch_on(tenant.pk, now=LATER)
        costs.append(len(statements))
    # The last part has an incident to keep and to announce.
    assert (len(costs), set(costs[:-1])) == (5, {costs[0]})
    assert costs[-1] <= costs[0] + 4
    assert noticed(tenant) == [("gap", 99_990, {"other": 99_990, "count": 1})]
    with tenant_scope(tenant.pk):
        run = Run.objects.get(tenant_id=tenant.pk)
        assert (run.watched_through, len(run.watch_state) < 64 * 1024) == (99_999, True)
    late = make_event(99_990, run="long", at=BEGINNING + timedelta(milliseconds=99_990))
    take(host, [late], received_at=RECEIVED)
    assert watch_all(tenant) == 5
    assert standing(tenant) == []


def test_with_recent_only_runs_that_have_just_fallen_quiet_are_looked_at(tenant: Tenant, host: Host) -> None:
    take(host, [make_event(n, "run.started", run="old") for n in range(2)], received_at=RECEIVED)
    now = RECEIVED + timedelta(hours=1)
    take(host, [make_event(n, "run.started", run="new") for n in range(2)], received_at=now)
    watch_all(tenant, now=now + timedelta(seconds=1), recent=True)
    assert kinds(tenant, "new") == []  # still receiving
    watch_all(tenant, now=now + timedelta(seconds=2), recent=True)
    assert kinds(tenant, "new") == [("second_start", 1)]
    assert kinds(tenant, "old") == []
    watch_all(tenant, now=now)
    assert kinds(tenant, "old") == [("second_start", 1)]


def test_the_settling_of_a_gap_falls_within_what_counts_as_recent() -> None:
    assert PATIENCE + 2 * timedelta(seconds=watch.EVERY) < watching.RECENT


def test_only_a_finding_is_announced(tenant: Tenant, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Mapping[str, int | None]] = []
    monkeypatch.setattr(watching, "announce", lambda tenant_id, topics: told.append(topics))
    take(host, make_log("a/b"), received_at=RECEIVED)
    watch_all(tenant)
    assert told == []
    take(host, [make_event(8, run="a/b")], received_at=RECEIVED)
    watch_all(tenant)
    assert told == [{"hosts": None, "runs": None, "run:alpha/a~2Fb": 8}]
    watch_all(tenant)
    assert len(told) == 1


def test_tenants_are_apart(tenant: Tenant, host: Host) -> None:
    other = make_tenant("globex")
    their = make_host(other)
    take(their, [make_event(0, "run.started"), make_event(1, "run.started")], received_at=RECEIVED)
    watch_all(tenant)
    assert kinds(other) == []
    watch_all(other)
    assert (kinds(other), kinds(tenant)) == ([("second_start", 1)], [])


# --- at work ---


@pytest.fixture
async def elsewhere(transactional_db: None) -> AsyncIterator[ThreadPoolExecutor]:
    """A thread with a connection of its own, for what a test does beside the event loop."""
    with ThreadPoolExecutor(1) as thread:
        yield thread
        thread.submit(connections.close_all).result()


async def in_thread(thread: ThreadPoolExecutor, act: Callable[..., T], *args: Any, **options: Any) -> T:
    return await asyncio.get_running_loop().run_in_executor(thread, partial(act, *args, **options))


async def until(thread: ThreadPoolExecutor, holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not await in_thread(thread, holds):
            await asyncio.sleep(0.02)


def restarted(slug: str) -> tuple[Tenant, Host]:
    """A tenant whose run has started twice."""
    tenant = make_tenant(slug)
    host = make_host(tenant)
    take(host, [make_event(0, "run.started"), make_event(1, "run.started")])
    return tenant, host


@asynccontextmanager
async def at_work() -> AsyncIterator[asyncio.Task[None]]:
    stop = asyncio.Event()
    task = asyncio.create_task(watch_forever(stop))
    yield task
    stop.set()
    async with asyncio.timeout(5):
        await task


async def test_what_was_there_and_what_comes_is_watched(
    elsewhere: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "EVERY", 0.05)
    tenant, host = await in_thread(elsewhere, restarted, "acme")
    async with at_work():
        await until(elsewhere, lambda: kinds(tenant) == [("second_start", 1)])
        await in_thread(elsewhere, take, host, [make_event(2, "run.started")])
        await until(elsewhere, lambda: kinds(tenant) == [("second_start", 1), ("second_start", 2)])


async def test_a_tenant_that_can_not_be_read_is_told_and_tried_again_while_others_are_read(
    elsewhere: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watch, "EVERY", 0.05)
    broken, _ = await in_thread(elsewhere, restarted, "acme")
    fine, _ = await in_thread(elsewhere, restarted, "globex")
    failures = 2

    def fail_at_first(tenant_id: int, **options: Any) -> bool:
        nonlocal failures
        if tenant_id == broken.pk and failures:
            failures -= 1
            raise psycopg.OperationalError("the database is away")
        return watch_on(tenant_id, **options)

    monkeypatch.setattr(watch, "watch_on", fail_at_first)
    with caplog.at_level(logging.ERROR, "runs.watch"):
        async with at_work() as task:
            await until(elsewhere, lambda: bool(kinds(fine)))
            await until(elsewhere, lambda: bool(kinds(broken)))
            assert not task.done()
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert f"tenant {broken.pk} could not be watched" in caplog.messages[0]


async def test_a_long_log_does_not_keep_other_tenants_waiting_and_is_left_at_the_end(
    elsewhere: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "EVERY", 3600.0)
    (first, _), (second, _) = [await in_thread(elsewhere, restarted, slug) for slug in ("acme", "globex")]
    parts: list[int] = []

    def endless(tenant_id: int, **options: Any) -> bool:
        parts.append(tenant_id)
        return tenant_id == first.pk

    monkeypatch.setattr(watch, "watch_on", endless)
    async with at_work():
        await until(elsewhere, lambda: len(parts) > 3)
    assert parts[:3] == [first.pk, second.pk, first.pk]


async def test_a_tenant_that_another_worker_reads_is_left_to_it(
    elsewhere: ThreadPoolExecutor,
) -> None:
    tenant, _ = await in_thread(elsewhere, restarted, "acme")

    def held_by_another() -> tuple[bool, list[Row]]:
        with psycopg.connect(**connection.get_connection_params() | {"cursor_factory": psycopg.Cursor}) as other:
            other.execute("SELECT pg_advisory_xact_lock(%s, %s)", [watching._WATCHING, tenant.pk])
            return watch_on(tenant.pk), noticed(tenant)

    assert await in_thread(elsewhere, held_by_another) == (False, [])
    await in_thread(elsewhere, watch_all, tenant)
    assert await in_thread(elsewhere, kinds, tenant) == [("second_start", 1)]


def test_all_runs_are_looked_at_again_now_and_then_and_after_a_failure() -> None:
    rounds = watch.Rounds()
    assert not rounds.recent_is_enough(1, 0.0)
    rounds.has_looked(1, 0.0, recent=False)
    assert rounds.recent_is_enough(1, watch.ROUND - 1)
    rounds.has_looked(1, watch.ROUND - 1, recent=True)
    assert not rounds.recent_is_enough(1, watch.ROUND)
    rounds.has_looked(1, watch.ROUND, recent=False)
    assert [rounds.has_failed(1, 1000.0) for _ in range(6)] == [6.0, 12.0, 24.0, 48.0, 60.0, 60.0]
    assert rounds.due([1, 2], 1059.9) == [2]
    assert rounds.due([1, 2], 1060.0) == [1, 2]
    assert not rounds.recent_is_enough(1, 1060.0)
