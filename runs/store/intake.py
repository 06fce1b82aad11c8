"""The one intake: every door ends here.

A batch is one durable transaction. Inside it the runs' rows are locked in the order of their ids, so that what the
batch adds to a run's log and to its summary is seen together, and two intakes can not lock each other out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from time import perf_counter, sleep
from typing import Literal, TypeVar

import orjson
from django.db import OperationalError, connection
from django.utils import timezone
from msgspec import structs

from openwop_ui import metrics
from openwop_ui.live.announce import announce
from openwop_ui.tenancy.scope import tenant_scope

from ..domain.copies import differ_by_node_alone
from ..domain.event import Refusal, RunEvent
from ..domain.projection import project
from ..domain.storable import original, storable
from ..domain.summary import RunSummary, contiguous_after
from ..models import EventCopy, Incident
from . import staging
from .aliases import known_names
from .batches import batches, read_ahead
from .folds import fold_nodes
from .hosts import HostRef
from .incidents import Found, keep_incidents
from .receipt import Noticed, Receipt

T = TypeVar("T")

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

    def count_attributed(self) -> None:
        """A write that named no node so far."""
        self.summary = replace(self.summary, attributed_count=self.summary.attributed_count + 1)


@dataclass(slots=True)
class Added:
    """What became of events that were added; ``runs`` are as in a receipt. ``fresh`` are those that were accepted."""

    fresh: Sequence[RunEvent]
    repeated: int
    incidents: list[Noticed]
    runs: dict[str, int]

    @property
    def accepted(self) -> int:
        return len(self.fresh)


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
    for batch in read_ahead(batches(items)):
        for refusal in batch.refused:
            receipt.refuse(refusal)
        if not batch.events:
            continue
        began = perf_counter()
        added = _committed(host, batch.events, received_at or timezone.now())
        metrics.batch_seconds.observe(perf_counter() - began)
        receipt.accepted += added.accepted
        receipt.repeated += added.repeated
        receipt.runs.update(added.runs)
        for noticed in added.incidents:
            receipt.notice(noticed)
        if on_batch:
            on_batch(receipt)
    return receipt


def _committed(host: HostRef, batch: Sequence[RunEvent], received_at: datetime) -> Added:
    return in_transaction(host.tenant_id, lambda: add_events(host, batch, received_at))


def in_transaction(tenant_id: int, act: Callable[[], T]) -> T:
    """What ``act`` returns, once it is committed. It is called again when another transaction came in its way."""
    for attempt in range(1, TRIES + 1):
        try:
            with tenant_scope(tenant_id, durable=True):
                return act()
        except OperationalError as exc:
            state = getattr(exc.__cause__, "sqlstate", None)
            if state not in _RETRIED or attempt == TRIES:
                raise
            sleep(0.02 * 2**attempt)
    raise AssertionError("unreachable")


def add_events(host: HostRef, told: Sequence[RunEvent], received_at: datetime, *, topics: Sequence[str] = ()) -> Added:
    """To be called `in_transaction`. ``topics`` are announced together with what the events move."""
    by_run, runs = _lock_runs(host, told, received_at)
    # Run by run, as they are stored then: what is read together lies together, and the indexes grow page by page.
    batch = [event for events in by_run.values() for event in events]
    rows = [(runs[run_id].pk, event) for run_id, events in by_run.items() for event in events]
    incidents: list[tuple[Incident.Kind, int, RunEvent, dict[str, object]]] = []
    completed: list[tuple[int, RunEvent]] = []
    if _all_new(runs, by_run):
        staging.insert_all(rows, tenant_id=host.tenant_id, received_at=received_at)
        fresh: Sequence[RunEvent] = batch
    else:
        staging.stage(rows)
        free = staging.insert_new(tenant_id=host.tenant_id, received_at=received_at)
        fresh = _first_of_each(batch, runs, free)
        completed = _compare(host, batch, runs, received_at, incidents)
    for run_id, events in (by_run if fresh is batch else _by_run(fresh)).items():
        runs[run_id].fresh = events
    for event in fresh:
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
    _announce(host, runs, ("hosts", *topics) if noticed else topics)
    _stored_runs.remember(host, runs)
    return Added(
        fresh=fresh,
        repeated=len(batch) - len(fresh),
        incidents=noticed,
        runs={run.run_id: run.contiguous_through for run in runs.values()},
    )


def _by_run(events: Iterable[RunEvent]) -> dict[str, list[RunEvent]]:
    """Each run's in the order in which they came."""
    by_run: dict[str, list[RunEvent]] = {}
    for event in events:
        of_run = by_run.get(event.run_id)
        if of_run is None:
            by_run[event.run_id] = [event]
        else:
            of_run.append(event)
    return by_run


def _under_known_names(host: HostRef, by_run: dict[str, list[RunEvent]]) -> dict[str, list[RunEvent]]:
    """Under the name of a run that is stored nothing else is meant than that run."""
    unknown = [run_id for run_id in by_run if (host.id, run_id) not in _stored_runs]
    names = known_names(host, unknown) if unknown else {}
    if not names:
        return by_run
    return _by_run(
        structs.replace(event, run_id=names[run_id]) if run_id in names else event
        for run_id, events in by_run.items()
        for event in events
    )


class _StoredRuns(set[tuple[int, str]]):
    """(host, run id) of runs that this process has stored, so that they need not be made. They may be gone again."""

    most = 20_000

    def remember(self, host: HostRef, run_ids: Iterable[str]) -> None:
        if len(self) > self.most:
            self.clear()
        self.update((host.id, run_id) for run_id in run_ids)


_stored_runs = _StoredRuns()


def _lock_runs(
    host: HostRef, told: Sequence[RunEvent], received_at: datetime
) -> tuple[dict[str, list[RunEvent]], dict[str, _LockedRun]]:
    """The events by the names of their runs, and these, all of which are there and locked then.

    They are made in the order in which they are locked, so that no two intakes wait for each other.
    """
    by_run = _under_known_names(host, _by_run(told))
    keys = [storable(run_id) for run_id in by_run]
    if not all((host.id, run_id) in _stored_runs for run_id in by_run):
        _make_runs(host, keys, received_at)
    runs = _locked(host, keys)
    if len(runs) == len(by_run):
        return by_run, runs
    _stored_runs.clear()  # one of them is gone again
    return _lock_runs(host, told, received_at)


def _make_runs(host: HostRef, keys: list[str], received_at: datetime) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO runs_run (tenant_id, host_id, run_id, workflow_id, status, status_sequence,
                status_is_terminal, last_sequence, contiguous_through, event_count, write_count,
                attributed_count, revision, first_received_at, last_received_at)
            SELECT %(tenant)s, %(host)s, k, '', 'pending', -1, false, -1, -1, 0, 0, 0, 0, %(now)s, %(now)s
            FROM unnest(%(keys)s::text[]) k
            WHERE NOT EXISTS (
                SELECT FROM runs_run r
                WHERE r.tenant_id = %(tenant)s AND r.host_id = %(host)s AND r.run_id = k)
            ORDER BY k COLLATE "C"
            ON CONFLICT (tenant_id, host_id, run_id) DO NOTHING
            """,
            {"tenant": host.tenant_id, "host": host.id, "keys": keys, "now": received_at},
        )


def _locked(host: HostRef, keys: list[str]) -> dict[str, _LockedRun]:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT id, run_id, contiguous_through, revision, workflow_id, status, status_sequence,
                status_is_terminal, started_at, started_sequence, ended_at, first_sequence, last_sequence,
                event_count, write_count, attributed_count
            FROM runs_run
            WHERE tenant_id = %(tenant)s AND host_id = %(host)s AND run_id = ANY (%(keys)s::text[])
            ORDER BY run_id COLLATE "C" FOR NO KEY UPDATE
            """,
            {"tenant": host.tenant_id, "host": host.id, "keys": keys},
        )
        locked = (
            _LockedRun(pk, original(key), through, revision, RunSummary(original(workflow), *told))
            for pk, key, through, revision, workflow, *told in cursor.fetchall()
        )
        return {run.run_id: run for run in locked}


def _all_new(runs: dict[str, _LockedRun], by_run: dict[str, list[RunEvent]]) -> bool:
    """Whether no place in the log can be taken: the usual case of a log that grows at its end."""
    for run_id, events in by_run.items():
        latest = runs[run_id].summary.last_sequence
        for event in events:
            if event.sequence <= latest:
                return False
            latest = event.sequence
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
    """Sorts out the events that differ from the log. Returns those that complete a copy that said less."""
    completions: dict[tuple[int, int], RunEvent] = {}
    copies: list[tuple[int, str, RunEvent]] = []
    for known in staging.differing(host.tenant_id):
        event = batch[known.ordinal]
        place = (runs[event.run_id].pk, event.sequence)
        if not event.has_payload or event.digest == known.first_completion:
            continue  # less than is known, or known already
        says = _says(event, known)
        if says == "less" or says == "more" and (known.first_completion or place in completions):
            continue
        if says == "other" and (known.known_has_payload or known.first_completion or place in completions):
            if place in completions and completions[place].digest == event.digest:
                continue
            copies.append((place[0], EventCopy.Kind.CONTRADICTION, event))
        else:
            completions[place] = event
            if event.type == "memory.written" and event.node_id and not known.has_node:
                runs[event.run_id].count_attributed()
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


def _says(event: RunEvent, known: staging.Known) -> Literal["more", "less", "other"]:
    """Of an event with a payload, held against what is known of it. Channels differ in the labels that they leave out.

    "other" completes what is known only where that has no payload.
    """
    if known.is_equal:
        return "more"
    if known.body is None or not differ_by_node_alone(known.body, event.body):
        return "other"
    return "less" if known.has_node else "more"


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
    rows = [
        {
            "id": run.pk,
            "workflow_id": storable(run.summary.workflow_id),
            "status": run.summary.status,
            "status_sequence": run.summary.status_sequence,
            "status_is_terminal": run.summary.status_is_terminal,
            "started_at": run.summary.started_at,
            "started_sequence": run.summary.started_sequence,
            "ended_at": run.summary.ended_at,
            "first_sequence": run.summary.first_sequence,
            "last_sequence": run.summary.last_sequence,
            "event_count": run.summary.event_count,
            "write_count": run.summary.write_count,
            "attributed_count": run.summary.attributed_count,
            "contiguous_through": run.contiguous_through,
            "revision": run.revision,
        }
        for run in runs
    ]
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
            FROM json_to_recordset(%s) AS n (id bigint, workflow_id text, status text, status_sequence bigint,
                status_is_terminal boolean, started_at timestamptz, started_sequence bigint, ended_at timestamptz,
                first_sequence bigint, last_sequence bigint, event_count bigint, write_count bigint,
                attributed_count bigint, contiguous_through bigint, revision int)
            WHERE r.tenant_id = %s AND r.id = n.id
            """,
            [received_at, orjson.dumps(rows).decode(), tenant_id],
        )


def _announce(host: HostRef, runs: dict[str, _LockedRun], also: Sequence[str]) -> None:
    topics: dict[str, int | None] = {
        f"run:{host.slug}/{project(run.run_id)}": run.summary.last_sequence for run in runs.values() if run.fresh
    }
    if topics:
        topics["runs"] = None
    announce(host.tenant_id, topics | dict.fromkeys(also))
