"""Reads logs on for what contradicts itself (``domain.contradictions``), and keeps what is found as incidents.

How far a run's log was read, and what reading has to remember, stands in the run's own row. Reading goes back to the
beginning when something came into what was read already: an event into a gap, a payload, a lower first sequence. Then
an incident that the log no longer bears out is marked as closed. Nothing here touches an event.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any
from uuid import UUID

import psycopg
from django.db import connection
from django.utils import timezone

from openwop_ui.live.announce import announce
from openwop_ui.tenancy.scope import tenant_scope

from ..domain.contradictions import LISTED, Finding, State, advance, dump, load
from ..domain.event import RunEvent
from ..domain.projection import project
from ..domain.storable import original
from ..domain.summary import FIRST_SEQUENCES
from ..models import Incident
from .incidents import CLOSED, Found, keep_incidents

RUNS_AT_ONCE = 200
EVENTS_AT_ONCE = 20_000
"""A part ends with either. One part is one transaction."""

ROWS_AT_ONCE = 20

PATIENCE = timedelta(seconds=15)
"""A gap is one when for so long nothing has come at either end of it. Before that, events may be on their way."""

RECENT = timedelta(minutes=2)
"""How long a run that has received events counts as one of the recent ones; its gaps settle within that."""
QUIET = timedelta(seconds=2)
"""A run that is still receiving is left for a full look: reading along would take the processor from the intake."""


_WATCHING = 0x77746368  # first half of the advisory lock, the tenant is the second

_SEEN_BY_READING = (
    Incident.Kind.GAP,
    Incident.Kind.SECOND_START,
    Incident.Kind.SECOND_TERMINAL,
    Incident.Kind.LATE_EVENTS,
    Incident.Kind.MEMORY_AFTER_TERMINAL,
    Incident.Kind.TIME_REVERSAL,
    Incident.Kind.TWIN_EVENT,
)
_MENDED_BY_EVENTS = (Incident.Kind.EARLY_STATUS, Incident.Kind.TRUNCATED)
"""Noticed elsewhere, and closed when the events come that were lacking."""


@dataclass(frozen=True, slots=True)
class _Unread:
    """A run whose log is to be read: after ``start``, ``most`` events at the most. ``lacks_nothing`` as far as it
    goes."""

    pk: int
    run_id: str
    host: int
    slug: str
    last_sequence: int
    event_count: int
    lacks_nothing: bool
    revision: int
    start: int
    state: State
    read_count: int
    most: int = 0

    @property
    def pending(self) -> int:
        return self.event_count - self.read_count


@dataclass(frozen=True, slots=True)
class _Read:
    """A run behind a part of its reading. ``read_count`` events were read since the beginning."""

    run: _Unread
    state: State
    read_count: int
    is_cut: bool


@dataclass(frozen=True, slots=True)
class _Row:
    """What came of one event for the fold; the body only where it is looked at."""

    run: int
    sequence: int
    type: str
    occurred_at: datetime
    received_at: datetime
    body: str | None


def watch_on(tenant_id: int, *, now: datetime | None = None, recent: bool = False) -> bool:
    """Reads a part of what is new in a tenant's logs. True when there is more to read at once.

    With ``recent`` only runs that have just received events are looked at. One reader works on a tenant at a time; a
    second one finds it taken and leaves.
    """
    now = now or timezone.now()
    with tenant_scope(tenant_id, durable=True):
        if not _is_free(tenant_id):
            return False
        unread = _unread(tenant_id, now, recent=recent)
        if not unread:
            return False
        chosen = _fitting(unread)
        read = _read(tenant_id, chosen, now)
        _save(tenant_id, read, now)
    return bool(read) and (len(chosen) < len(unread) or len(unread) == RUNS_AT_ONCE or any(run.is_cut for run in read))


def _is_free(tenant_id: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            # The planner takes the counting behind a gap for the rule and would compile it each time, for a second.
            "SELECT pg_try_advisory_xact_lock(%s, %s::int), set_config('jit', 'off', true)",
            [_WATCHING, tenant_id % 2**31],
        )
        row = cursor.fetchone()
        return bool(row and row[0])


# `watch_state` begins with how many events were read, as `int8send` writes a number, so that it can be compared here.
_UNREAD = """
SELECT r.id, r.run_id, r.host_id, h.slug, r.last_sequence, r.event_count,
    r.contiguous_through = r.last_sequence, r.revision, goes_on, r.watched_through, r.watch_state
FROM runs_run r
JOIN runs_host h ON h.tenant_id = r.tenant_id AND h.id = r.host_id
CROSS JOIN LATERAL (SELECT r.watched_revision = r.revision AND (r.watched_through < 0
    OR substring(r.watch_state, 1, 8) = int8send(CASE WHEN r.contiguous_through >= r.watched_through
        THEN r.watched_through - r.first_sequence + 1
        ELSE r.event_count - (SELECT count(*) FROM runs_event e
            WHERE e.tenant_id = r.tenant_id AND e.run_id = r.id AND e.sequence > r.watched_through) END)
    ) AS goes_on) reading
WHERE r.tenant_id = %(tenant)s AND r.event_count > 0 {recent}
    AND (NOT goes_on OR r.watched_through < r.contiguous_through OR (r.watched_through < r.last_sequence AND (
        SELECT following.sequence = r.watched_through + 1 OR greatest(following.received_at, (
            SELECT e.received_at FROM runs_event e
            WHERE e.tenant_id = r.tenant_id AND e.run_id = r.id AND e.sequence = r.watched_through)) < %(patient)s
        FROM (SELECT e.sequence, e.received_at FROM runs_event e
            WHERE e.tenant_id = r.tenant_id AND e.run_id = r.id AND e.sequence > r.watched_through
            ORDER BY e.sequence LIMIT 1) following)))
ORDER BY r.last_received_at, r.id LIMIT %(most)s
"""
_COUNT_BYTES = 8


def _unread(tenant_id: int, now: datetime, *, recent: bool) -> list[_Unread]:
    """Whoever has waited longest comes first."""
    values: dict[str, Any] = {
        "tenant": tenant_id,
        "patient": now - PATIENCE,
        "recent": now - RECENT,
        "quiet": now - QUIET,
        "most": RUNS_AT_ONCE,
    }
    with connection.cursor() as cursor:
        cursor.execute(
            _UNREAD.format(recent="AND r.last_received_at BETWEEN %(recent)s AND %(quiet)s" if recent else ""), values
        )
        return [_unread_run(row) for row in cursor.fetchall()]


def _unread_run(row: Sequence[Any]) -> _Unread:
    pk, run_id, host, slug, last, count, lacks_nothing, revision, goes_on, through, remembered = row
    known = bytes(remembered) if goes_on else b""
    return _Unread(
        pk=pk,
        run_id=original(run_id),
        host=host,
        slug=slug,
        last_sequence=last,
        event_count=count,
        lacks_nothing=lacks_nothing,
        revision=revision,
        start=through if known else -1,
        state=load(known[_COUNT_BYTES:]) if known else State(),
        read_count=int.from_bytes(known[:_COUNT_BYTES]),
    )


def _fitting(unread: Sequence[_Unread]) -> list[_Unread]:
    """As many runs as have room in a part, and of the last one as much as has."""
    chosen: list[_Unread] = []
    room = EVENTS_AT_ONCE
    for run in unread:
        if room <= 0:
            break
        chosen.append(replace(run, most=min(run.pending, room)))
        room -= chosen[-1].most
    return chosen


# The event that was read last comes once more, for when it was received. Of most events the body is not looked at.
_EVENTS = """
SELECT s.run_id, e.sequence, e.type, coalesce(c.occurred_at, e.occurred_at), e.received_at,
    CASE WHEN e.type ILIKE '%%memory%%' OR e.type ILIKE '%%commitment%%' THEN coalesce(c.body, e.body) END
FROM unnest(%(runs)s::bigint[], %(starts)s::bigint[], %(most)s::bigint[]) WITH ORDINALITY
    AS s (run_id, start, most, place)
CROSS JOIN LATERAL (
    SELECT * FROM runs_event e
    WHERE e.tenant_id = %(tenant)s AND e.run_id = s.run_id AND e.sequence >= s.start
    ORDER BY e.sequence LIMIT s.most) e
LEFT JOIN runs_eventcopy c ON c.tenant_id = e.tenant_id AND c.run_id = e.run_id
    AND c.sequence = e.sequence AND c.kind = 'completion'
ORDER BY s.place, e.sequence
"""


def _read(tenant_id: int, runs: Sequence[_Unread], now: datetime) -> list[_Read]:
    values: dict[str, Any] = {
        "tenant": tenant_id,
        "runs": [run.pk for run in runs],
        "starts": [run.start for run in runs],
        "most": [run.most + (run.start >= 0) for run in runs],
    }
    by_pk = {run.pk: run for run in runs}
    # Streamed, which Django does not do by itself: a part may hold many large bodies. And in binary, since a time is
    # read from its text ten times as slowly.
    cursor: Any = psycopg.Cursor(connection.connection)
    with cursor, closing(cursor.stream(_EVENTS, values, binary=True, size=ROWS_AT_ONCE)) as rows:
        found = groupby((_Row(*row) for row in rows), key=lambda row: row.run)
        return [_read_run(by_pk[pk], of_run, now) for pk, of_run in found]


def _read_run(run: _Unread, rows: Iterator[_Row], now: datetime) -> _Read:
    settled = _Settled(run, rows, patient=now - PATIENCE)
    state = advance(run.state, settled, run_id=run.run_id)
    return _Read(run, state, run.read_count + settled.count, is_cut=run.most < run.pending)


class _Settled:
    """A run's events up to the first gap that may yet close, counted as they go by."""

    def __init__(self, run: _Unread, rows: Iterator[_Row], *, patient: datetime) -> None:
        self.count = 0
        self._run = run
        self._rows = rows
        self._patient = patient

    def __iter__(self) -> Iterator[RunEvent]:
        last, at = self._run.start, None
        for row in self._rows:
            if row.sequence != self._run.start:
                if _is_gap(last, row.sequence) and max(row.received_at, at or row.received_at) >= self._patient:
                    return
                self.count += 1
                yield _event(self._run.run_id, row)
            last, at = row.sequence, row.received_at


def _is_gap(last: int, sequence: int) -> bool:
    return sequence > last + 1 and not (last < 0 and sequence in FIRST_SEQUENCES)


def _event(run_id: str, row: _Row) -> RunEvent:
    """As much of it as the fold looks at."""
    return RunEvent(
        run_id=run_id,
        sequence=row.sequence,
        type=row.type,
        reported_type=row.type,
        node_id=None,
        agent_id=None,
        event_id=None,
        causation_id=None,
        timestamp=row.occurred_at,
        body=row.body or "{}",
        digest=b"",
        has_payload=True,
    )


def _save(tenant_id: int, read: Sequence[_Read], now: datetime) -> None:
    _lock(tenant_id, read)
    changed, mended = _keep_findings(tenant_id, read, now)
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE runs_run r SET watched_through = n.through, watched_revision = n.revision, watch_state = n.state,
                truncated = CASE WHEN n.is_mended THEN '' ELSE r.truncated END
            FROM unnest(%s::bigint[], %s::bigint[], %s::int[], %s::bytea[], %s::boolean[])
                AS n (id, through, revision, state, is_mended)
            WHERE r.tenant_id = %s AND r.id = n.id
            """,
            [
                [one.run.pk for one in read],
                [one.state.last_sequence for one in read],
                [one.run.revision for one in read],
                [one.read_count.to_bytes(_COUNT_BYTES) + dump(one.state) for one in read],
                [one.run.pk in mended for one in read],
                tenant_id,
            ],
        )
    _announce(tenant_id, [one.run for one in read if one.run.pk in changed])


def _lock(tenant_id: int, read: Sequence[_Read]) -> None:
    """In the order in which the intake locks the runs of a host, so that neither waits for the other for ever."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT FROM runs_run WHERE tenant_id = %s AND id = ANY (%s)"
            ' ORDER BY run_id COLLATE "C", id FOR NO KEY UPDATE',
            [tenant_id, [one.run.pk for one in read]],
        )


def _keep_findings(tenant_id: int, read: Sequence[_Read], now: datetime) -> tuple[set[int], set[int]]:
    """Brings the incidents in line with the findings. The runs of which any changed, and those made whole again."""
    found = {one.fingerprint: one for run in read for one in _found(run)}
    known = _known(tenant_id, read)
    new = [one for fingerprint, one in found.items() if fingerprint not in known]
    by_pk = {one.run.pk: one for one in read}
    altered: dict[int, dict[str, Any]] = {}
    changed, mended = {one.run for one in new if one.run is not None}, set()
    for fingerprint, incident in known.items():
        run = by_pk[incident.run_id or 0]
        detail = _detail_now(incident, found.get(fingerprint), run, now)
        if detail != incident.detail:
            altered[incident.pk] = detail
            changed.add(run.run.pk)
            if incident.kind == Incident.Kind.TRUNCATED:
                mended.add(run.run.pk)
    keep_incidents(tenant_id, new, noticed_at=now)
    _alter(tenant_id, altered)
    return changed, mended


def _known(tenant_id: int, read: Sequence[_Read]) -> dict[UUID, Incident]:
    runs = [one.run.pk for one in read]
    kinds = (*_SEEN_BY_READING, *_MENDED_BY_EVENTS)
    known = Incident.objects.filter(tenant_id=tenant_id, run_id__in=runs, kind__in=kinds).order_by("id")
    return {incident.fingerprint: incident for incident in known}


def _detail_now(incident: Incident, found: Found | None, read: _Read, now: datetime) -> dict[str, Any]:
    if found is not None:
        return found.stored_detail
    told: dict[str, Any] = incident.detail
    if CLOSED in told or not _is_over(incident, read):
        return told
    return told | {CLOSED: now.isoformat()}


def _is_over(incident: Incident, read: _Read) -> bool:
    """Whether an incident that is not among the findings no longer holds. One further on may yet be found again."""
    match incident.kind:
        case Incident.Kind.EARLY_STATUS:
            return read.state.first_terminal is not None
        case Incident.Kind.TRUNCATED:
            whole = incident.detail.get("whole")
            return isinstance(whole, int) and read.run.lacks_nothing and read.run.event_count >= whole
    listed = [finding.sequence for finding in read.state.findings if finding.kind == incident.kind]
    listed_through = listed[-1] if len(listed) == LISTED else read.state.last_sequence
    return incident.sequence is not None and incident.sequence <= listed_through


def _alter(tenant_id: int, details: dict[int, dict[str, Any]]) -> None:
    if not details:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE runs_incident i SET detail = n.detail::jsonb"
            " FROM unnest(%s::bigint[], %s::text[]) AS n (id, detail) WHERE i.tenant_id = %s AND i.id = n.id",
            [list(details), [json.dumps(detail) for detail in details.values()], tenant_id],
        )


def _found(read: _Read) -> Iterator[Found]:
    left = {kind: count for kind, count in read.state.counts.items() if count > LISTED}
    last = {finding.kind: finding for finding in read.state.findings}
    for finding in read.state.findings:
        # What is beyond those that are listed is told with the last of them.
        more = left[finding.kind] - LISTED if finding.kind in left and finding is last[finding.kind] else 0
        yield Found(
            host=read.run.host,
            run=read.run.pk,
            run_id=read.run.run_id,
            kind=Incident.Kind(finding.kind),
            sequence=finding.sequence,
            detail=_detail(finding, more),
            identity=f"{finding.other} {finding.about}",
        )


def _detail(finding: Finding, more: int) -> dict[str, Any]:
    told = {
        "other": finding.other,
        "count": finding.count,
        "about": original(finding.about),
        "seconds": finding.backwards.total_seconds() if finding.backwards else None,
        "more": more,
    }
    return {name: value for name, value in told.items() if value not in (None, "", 0) or name == "other"}


def _announce(tenant_id: int, runs: Sequence[_Unread]) -> None:
    if runs:
        topics: dict[str, int | None] = {f"run:{run.slug}/{project(run.run_id)}": run.last_sequence for run in runs}
        announce(tenant_id, {"hosts": None, "runs": None} | topics)
