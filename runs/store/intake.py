"""The one intake: every door ends here.

A batch is one durable transaction. Inside it the runs' rows are locked in the order of their ids, so that what the
batch adds to a run's log and to its summary is seen together, and two intakes can not lock each other out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import OperationalError, connection
from django.utils import timezone

from openwop_ui.live.announce import announce
from openwop_ui.tenancy.scope import tenant_scope

from ..domain.event import Refusal, RunEvent
from ..domain.projection import project
from ..domain.storable import original, storable
from ..domain.summary import RunSummary, contiguous_after
from ..models import EventCopy, Incident
from . import staging
from .folds import fold_nodes
from .hosts import HostRef
from .incidents import Found, keep_incidents
from .receipt import Noticed, Receipt

BATCH_EVENTS = 10_000
BATCH_CHARACTERS = 8 * 1024 * 1024
"""A batch ends with the first event that takes it over either: big enough for set-based SQL, small enough for RAM."""

TRIES = 5
_RETRIED = {
    "40001",
    "40P01",
}  # serialization_failure, deadlock_detected: the transaction did nothing, run it again


@dataclass(slots=True)
class _LockedRun:
    """A run whose row this transaction holds."""

    pk: int
    run_id: str
    contiguous_through: int
    revision: int
    summary: RunSummary
    fresh: list[RunEvent] = field(default_factory=list)
    """What this batch adds to the log."""


@dataclass(slots=True)
class _Outcome:
    accepted: int
    repeated: int
    incidents: list[Noticed]
    runs: dict[str, int]


def take_in(
    host: HostRef,
    items: Iterable[RunEvent | Refusal],
    *,
    received_at: datetime | None = None,
    on_batch: Callable[[Receipt], None] | None = None,
) -> Receipt:
    """Takes events into a host's logs. What the receipt counts as accepted or repeated is committed.

    Refusals among the items are passed on to the receipt. ``on_batch`` hears of each committed batch.
    """
    receipt = Receipt()
    for batch in _batches(items, receipt):
        outcome = _committed(host, batch, received_at or timezone.now())
        receipt.accepted += outcome.accepted
        receipt.repeated += outcome.repeated
        receipt.runs.update(outcome.runs)
        for noticed in outcome.incidents:
            receipt.notice(noticed)
        if on_batch:
            on_batch(receipt)
    return receipt


def _batches(items: Iterable[RunEvent | Refusal], receipt: Receipt) -> Iterator[list[RunEvent]]:
    batch: list[RunEvent] = []
    room = BATCH_CHARACTERS
    for item in items:
        if isinstance(item, Refusal):
            receipt.refuse(item)
            continue
        batch.append(item)
        room -= len(item.body)
        if len(batch) >= BATCH_EVENTS or room <= 0:
            yield batch
            batch, room = [], BATCH_CHARACTERS
    if batch:
        yield batch


def _committed(host: HostRef, batch: Sequence[RunEvent], received_at: datetime) -> _Outcome:
    for attempt in range(1, TRIES + 1):
        try:
            with tenant_scope(host.tenant_id, durable=True):
                return _take_in_batch(host, batch, received_at)
        except OperationalError as exc:
            state = getattr(exc.__cause__, "sqlstate", None)
            if state not in _RETRIED or attempt == TRIES:
                raise
            time.sleep(0.02 * 2**attempt)
    raise AssertionError("unreachable")


def _take_in_batch(host: HostRef, batch: Sequence[RunEvent], received_at: datetime) -> _Outcome:
    runs = _lock_runs(host, {event.run_id for event in batch}, received_at)
    rows = ((ordinal, runs[event.run_id].pk, event) for ordinal, event in enumerate(batch))
    staging.stage(rows)
    incidents: list[tuple[Incident.Kind, int, RunEvent, dict[str, object]]] = []
    completed: list[tuple[int, RunEvent]] = []
    if _all_new(runs, batch):
        staging.insert_all(tenant_id=host.tenant_id, received_at=received_at)
        fresh: Sequence[RunEvent] = batch
    else:
        free = staging.insert_new(tenant_id=host.tenant_id, received_at=received_at)
        fresh = _first_of_each(batch, runs, free)
        completed = _compare(host, batch, runs, received_at, incidents)
    for event in fresh:
        runs[event.run_id].fresh.append(event)
        if event.leaks or event.notes:
            incidents.extend(_told_by(event, runs[event.run_id].pk))
    _advance(host.tenant_id, runs, {run for run, _ in completed}, received_at)
    fold_nodes(
        tenant_id=host.tenant_id,
        fresh={run.pk: run.fresh for run in runs.values() if run.fresh},
        revised=[(run, event.node_id) for run, event in completed if event.node_id],
    )
    noticed = keep_incidents(
        host.tenant_id,
        (Found(host.id, run, event.run_id, kind, event.sequence, detail) for kind, run, event, detail in incidents),
        noticed_at=received_at,
    )
    _announce(host, runs, incidents=bool(noticed))
    return _Outcome(
        accepted=len(fresh),
        repeated=len(batch) - len(fresh),
        incidents=noticed,
        runs={run.run_id: run.contiguous_through for run in runs.values()},
    )


def _lock_runs(host: HostRef, run_ids: set[str], received_at: datetime) -> dict[str, _LockedRun]:
    """Makes missing runs, then locks all of them. Both in one order, so that no two intakes wait for each other."""
    keys = [storable(run_id) for run_id in run_ids]
    scope: dict[str, Any] = {"tenant": host.tenant_id, "host": host.id, "keys": keys, "now": received_at}
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO runs_run (tenant_id, host_id, run_id, workflow_id, status, status_sequence,
                status_is_terminal, last_sequence, contiguous_through, event_count, write_count,
                attributed_count, revision,                first_received_at, last_received_at)
            SELECT %(tenant)s, %(host)s, k, '', 'pending', -1, false, -1, -1, 0, 0, 0, 0, %(now)s, %(now)s
            FROM unnest(%(keys)s::text[]) k
            WHERE NOT EXISTS (
                SELECT FROM runs_run r
                WHERE r.tenant_id = %(tenant)s AND r.host_id = %(host)s AND r.run_id = k)
            ORDER BY k COLLATE "C"
            ON CONFLICT (tenant_id, host_id, run_id) DO NOTHING
            """,
            scope,
        )
        cursor.execute(
            """
            SELECT id, run_id, contiguous_through, revision, workflow_id, status, status_sequence,
                status_is_terminal, started_at, started_sequence, ended_at, first_sequence, last_sequence,
                event_count, write_count, attributed_count
            FROM runs_run
            WHERE tenant_id = %(tenant)s AND host_id = %(host)s AND run_id = ANY (%(keys)s::text[])
            ORDER BY run_id COLLATE "C" FOR NO KEY UPDATE
            """,
            scope,
        )
        locked = (
            _LockedRun(pk, original(key), through, revision, RunSummary(original(workflow), *told))
            for pk, key, through, revision, workflow, *told in cursor.fetchall()
        )
        return {run.run_id: run for run in locked}


def _all_new(runs: dict[str, _LockedRun], batch: Sequence[RunEvent]) -> bool:
    """Whether no place in the log can be taken: the usual case of a log that grows at its end."""
    latest = {run.run_id: run.summary.last_sequence for run in runs.values()}
    for event in batch:
        if event.sequence <= latest[event.run_id]:
            return False
        latest[event.run_id] = event.sequence
    return True


def _first_of_each(
    batch: Sequence[RunEvent], runs: dict[str, _LockedRun], free: set[tuple[int, int]]
) -> list[RunEvent]:
    fresh: list[RunEvent] = []
    for event in batch:
        place = (runs[event.run_id].pk, event.sequence)
        if place in free:
            free.discard(place)
            fresh.append(event)
    return fresh


def _compare(
    host: HostRef,
    batch: Sequence[RunEvent],
    runs: dict[str, _LockedRun],
    received_at: datetime,
    incidents: list[tuple[Incident.Kind, int, RunEvent, dict[str, object]]],
) -> list[tuple[int, RunEvent]]:
    """Sorts out the events that differ from the log. Returns those that complete a partial copy."""
    completions: dict[tuple[int, int], RunEvent] = {}
    copies: list[tuple[int, str, RunEvent]] = []
    for known in staging.differing(host.tenant_id):
        event = batch[known.ordinal]
        place = (runs[event.run_id].pk, event.sequence)
        if not event.has_payload or event.digest == known.first_completion:
            continue  # less than is known, or known already
        if known.known_has_payload or known.first_completion or place in completions:
            if place in completions and completions[place].digest == event.digest:
                continue
            copies.append((place[0], EventCopy.Kind.CONTRADICTION, event))
        else:
            completions[place] = event
            copies.append((place[0], EventCopy.Kind.COMPLETION, event))
    if not copies:
        return []
    kept = staging.keep_copies(tenant_id=host.tenant_id, received_at=received_at, copies=copies)
    for run, kind, event in copies:
        if kind == EventCopy.Kind.CONTRADICTION and (run, event.sequence, event.digest) in kept:
            told: dict[str, object] = {"digest": event.digest.hex()}
            if event.may_be_masked:
                told["masked"] = True
            incidents.append((Incident.Kind.CHANGED_EVENT, run, event, told))
        if event.leaks:
            incidents.extend(_told_by(event, run))
    return [(run, event) for (run, _), event in completions.items()]


def _told_by(event: RunEvent, run: int) -> Iterator[tuple[Incident.Kind, int, RunEvent, dict[str, object]]]:
    for leak in event.leaks:
        kind = Incident.Kind.CREDENTIAL_LEAK if leak.kind == "credential" else Incident.Kind.CONTENT_LEAK
        yield kind, run, event, {"path": leak.path, "sha256": leak.sha256, "bytes": leak.length}
    for note in event.notes:
        yield Incident.Kind.CONFLICTING_MEMBERS, run, event, {"note": note}


def _advance(tenant_id: int, runs: dict[str, _LockedRun], completed: set[int], received_at: datetime) -> None:
    """Moves the runs' summaries and high-water marks."""
    asked: list[_LockedRun] = []
    moved = [run for run in runs.values() if run.fresh or run.pk in completed]
    for run in moved:
        before = run.summary.first_sequence
        run.summary = run.summary.adding(run.fresh)
        lower_start = before is not None and run.fresh and run.summary.first_sequence != before
        # What has been read up to here has to be read again: it means something else now.
        run.revision += int(bool(lower_start) or run.pk in completed)
        through = contiguous_after(
            through=run.contiguous_through,
            first=run.summary.first_sequence,
            last=run.summary.last_sequence,
            added=[event.sequence for event in run.fresh],
        )
        if through is None:
            asked.append(run)
        else:
            run.contiguous_through = through
    _ask_log(tenant_id, asked)
    _write_runs(tenant_id, moved, received_at)


def _ask_log(tenant_id: int, runs: Sequence[_LockedRun]) -> None:
    """Finds, for runs in which a gap may have closed, how far the log reaches now."""
    if not runs:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT a.run_id, (
                SELECT max(island.sequence) FROM (
                    SELECT e.sequence, e.sequence - row_number() OVER (ORDER BY e.sequence) AS offset_
                    FROM runs_event e
                    WHERE e.tenant_id = %s AND e.run_id = a.run_id AND e.sequence >= a.next_
                ) island WHERE island.offset_ = a.next_ - 1)
            FROM unnest(%s::bigint[], %s::bigint[]) AS a (run_id, next_)
            """,
            [
                tenant_id,
                [run.pk for run in runs],
                [max(run.contiguous_through + 1, run.summary.first_sequence or 0) for run in runs],
            ],
        )
        reached = dict(cursor.fetchall())
    for run in runs:
        found = reached[run.pk]
        if found is not None:
            run.contiguous_through = found


def _write_runs(tenant_id: int, runs: Sequence[_LockedRun], received_at: datetime) -> None:
    if not runs:
        return
    told = [run.summary for run in runs]
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE runs_run r SET workflow_id = n.workflow_id, status = n.status,
                status_sequence = n.status_sequence, status_is_terminal = n.status_is_terminal,
                started_at = n.started_at, started_sequence = n.started_sequence, ended_at = n.ended_at,
                first_sequence = n.first_sequence, last_sequence = n.last_sequence, event_count = n.event_count,
                write_count = n.write_count,
                attributed_count = n.attributed_count, contiguous_through = n.contiguous_through, revision = n.revision,
                last_received_at = greatest(r.last_received_at, %s)
            FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::boolean[], %s::timestamptz[],
                %s::bigint[], %s::timestamptz[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[],
                %s::bigint[], %s::bigint[], %s::int[])
                AS n (id, workflow_id, status, status_sequence, status_is_terminal, started_at, started_sequence,
                    ended_at, first_sequence, last_sequence, event_count, write_count, attributed_count,
                    contiguous_through, revision)
            WHERE r.tenant_id = %s AND r.id = n.id
            """,
            [
                received_at,
                [run.pk for run in runs],
                [storable(one.workflow_id) for one in told],
                [one.status for one in told],
                [one.status_sequence for one in told],
                [one.status_is_terminal for one in told],
                [one.started_at for one in told],
                [one.started_sequence for one in told],
                [one.ended_at for one in told],
                [one.first_sequence for one in told],
                [one.last_sequence for one in told],
                [one.event_count for one in told],
                [one.write_count for one in told],
                [one.attributed_count for one in told],
                [run.contiguous_through for run in runs],
                [run.revision for run in runs],
                tenant_id,
            ],
        )


def _announce(host: HostRef, runs: dict[str, _LockedRun], *, incidents: bool) -> None:
    topics: dict[str, int | None] = {
        f"run:{host.slug}/{project(run.run_id)}": run.summary.last_sequence for run in runs.values() if run.fresh
    }
    if topics:
        topics["runs"] = None
    if incidents:
        topics["hosts"] = None
    announce(host.tenant_id, topics)
