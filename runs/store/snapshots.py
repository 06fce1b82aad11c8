"""Keeps states of a run every so often, and gives the state behind any of its events.

A state is folded on from the last one that is kept before it; what is folded on the way and long enough is kept, so
the first look at a long log is the slow one. A kept state holds while the log up to it is the same: as many events,
and no other revision of the run. Up to the first gap the count says itself; behind one the log is counted, once for
each length of the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.db import connection

from openwop_ui.tenancy.scope import tenant_scope

from ..domain.state import STATE_TYPES, State, Step, advance_state, is_telling
from ..domain.state_kept import VERSION, dump, load

EVENTS_APART = 4_096
TELLING_APART = 1_024
"""A state is kept once so many events, or so many of those that change it, were folded since the last one."""

MOST_AT_ONCE = EVENTS_APART
KEPT_AT_ONCE = 100_000
VALIDATED = 4_096
"""Counts of logs behind a gap that are remembered."""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """How far a run's log reaches, as its row says."""

    run: int
    first: int
    last: int
    through: int
    event_count: int
    revision: int


def log_end(tenant_id: int, run: int) -> LogEnd | None:
    """None for a run without events."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, first_sequence, last_sequence, contiguous_through, event_count, revision FROM runs_run"
            " WHERE tenant_id = %s AND id = %s AND event_count > 0",
            [tenant_id, run],
        )
        row = cursor.fetchone()
    return LogEnd(*row) if row else None


def state_at(tenant_id: int, run: int, at: int) -> State:
    """The state behind the last event up to ``at``. What is kept on the way is written: to be called in the scope."""
    end = log_end(tenant_id, run)
    if end is None:
        return State()
    at = min(at, end.last)
    known = _nearest(tenant_id, end, at)
    state, count = (known.state, known.count) if known else (State(), 0)
    since = since_telling = 0
    for part in _parts(tenant_id, end.run, after=state.sequence, through=at):
        advance_state(state, part.steps)
        state.sequence = part.last
        count += part.events
        since += part.events
        since_telling += len(part.steps)
        if since >= EVENTS_APART or since_telling >= max(TELLING_APART, state.entries // 4):
            _keep(tenant_id, end, state, count)
            since = since_telling = 0
    return state


def keep_states(tenant_id: int, run: int) -> None:
    """Keeps the states that a run's log lacks, for whoever looks at it first; in parts, each committed by itself."""
    at = -1
    while True:
        with tenant_scope(tenant_id):
            end = log_end(tenant_id, run)
            if end is None or at >= end.last:
                return
            at = min(at + KEPT_AT_ONCE, end.last)
            state_at(tenant_id, run, at)


@dataclass(slots=True)
class _Known:
    state: State
    count: int


def _nearest(tenant_id: int, end: LogEnd, at: int) -> _Known | None:
    """The last state that is kept up to ``at`` and holds. Those that do not are forgotten."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sequence, version, revision, event_count FROM runs_statesnapshot"
            " WHERE tenant_id = %s AND run_id = %s AND sequence <= %s ORDER BY sequence DESC",
            [tenant_id, end.run, at],
        )
        for sequence, version, revision, count in cursor.fetchall():
            if version == VERSION and revision == end.revision and count == _count(tenant_id, end, sequence):
                return _read(tenant_id, end.run, sequence, count)
            _forget(tenant_id, end.run, sequence)
    return None


def _count(tenant_id: int, end: LogEnd, sequence: int) -> int:
    """How many events the log has up to a sequence."""
    if sequence <= end.through:
        return sequence - end.first + 1
    return _counted(tenant_id, end, sequence)


@lru_cache(VALIDATED)
def _counted(tenant_id: int, end: LogEnd, sequence: int) -> int:
    """Remembered for as long as the log has no other event: ``end`` says so."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM runs_event WHERE tenant_id = %s AND run_id = %s AND sequence <= %s",
            [tenant_id, end.run, sequence],
        )
        row = cursor.fetchone()
    return row[0] if row else 0


def _read(tenant_id: int, run: int, sequence: int, count: int) -> _Known:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT body FROM runs_statesnapshot WHERE tenant_id = %s AND run_id = %s AND sequence = %s",
            [tenant_id, run, sequence],
        )
        row = cursor.fetchone()
    # It may have been forgotten in between by another request, which found the log changed.
    return _Known(load(bytes(row[0])), count) if row else _Known(State(), 0)


def _forget(tenant_id: int, run: int, sequence: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM runs_statesnapshot WHERE tenant_id = %s AND run_id = %s AND sequence = %s",
            [tenant_id, run, sequence],
        )


def _keep(tenant_id: int, end: LogEnd, state: State, count: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO runs_statesnapshot (tenant_id, run_id, sequence, version, revision, event_count, body)
            VALUES (%s, %s, %s, %s, %s, %s, %s)
            ON CONFLICT (tenant_id, run_id, sequence) DO UPDATE SET version = excluded.version,
                revision = excluded.revision, event_count = excluded.event_count, body = excluded.body
            """,
            [tenant_id, end.run, state.sequence, VERSION, end.revision, count, dump(state)],
        )


@dataclass(slots=True)
class _Part:
    """A part of a log: its last sequence, how many events it has, and those that change the state."""

    last: int
    events: int
    steps: Sequence[Step]


_TYPES = ", ".join(f"'{type_}'" for type_ in sorted(STATE_TYPES))
_BODIES = ", ".join(f"'{type_}'" for type_ in sorted(filter(is_telling, STATE_TYPES)))
# One statement tells how many events there are and which of them matter, so that no late one comes in between. Bodies
# are looked up for those that matter only: carried along, they would be sorted too, on disk.
_PART = f"""
SELECT e.sequence, e.type, e.node_id, coalesce(c.occurred_at, e.occurred_at),
    CASE WHEN e.type IN ({_BODIES}) THEN coalesce(c.body, (
        SELECT b.body FROM runs_event b
        WHERE b.tenant_id = %(tenant)s AND b.run_id = %(run)s AND b.sequence = e.sequence)) END, e.place
FROM (SELECT sequence, type, node_id, occurred_at, row_number() OVER (ORDER BY sequence) AS place,
        lead(sequence) OVER (ORDER BY sequence) IS NULL AS is_last
    FROM (SELECT sequence, type, node_id, occurred_at FROM runs_event
        WHERE tenant_id = %(tenant)s AND run_id = %(run)s AND sequence > %(after)s AND sequence <= %(through)s
        ORDER BY sequence LIMIT %(most)s) AS part) AS e
LEFT JOIN runs_eventcopy c ON c.tenant_id = %(tenant)s AND c.run_id = %(run)s AND c.sequence = e.sequence
    AND c.kind = 'completion'
WHERE e.type IN ({_TYPES}) OR e.is_last
ORDER BY e.sequence
"""  # noqa: S608 - constants


def _parts(tenant_id: int, run: int, *, after: int, through: int) -> Iterator[_Part]:
    while True:
        rows = _part(tenant_id, run, after, through)
        if not rows:
            return
        last, events = rows[-1][0], rows[-1][5]
        steps = [Step(*row[:5]) for row in rows if row[1] in STATE_TYPES]
        yield _Part(last, events, steps)
        if events < MOST_AT_ONCE:
            return
        after = last


def _part(tenant_id: int, run: int, after: int, through: int) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(
            _PART,
            {"tenant": tenant_id, "run": run, "after": after, "through": through, "most": MOST_AT_ONCE},
        )
        found: list[tuple[Any, ...]] = cursor.fetchall()
    return found
