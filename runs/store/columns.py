"""Keeps the logs of runs as columns: chunks in the database, whole runs in this process's memory.

Nothing here is asked of the intake. What is kept is held against the run's own count of events whenever it is read:
the log is never changed in place, so equal counts are equal events. A log that grew at its end is read on from there;
where an event came into the middle, the chunks whose counts differ are built again and no others.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from django.db import connection

from openwop_ui.tenancy.scope import tenant_scope

from ..domain.columns import CHUNK, Chunk, Columns, Row, chunk_of, extended, join, pack, unpack

MOST_BYTES = 128 * 1024 * 1024
"""What a process keeps of the runs that were looked at last."""
ROWS_AT_ONCE = 8 * CHUNK
KEPT_FROM = 256
"""A chunk of fewer events is sooner read from the log than kept."""

# Whether a tool call failed is the one thing that only the payload says.
_FAILED = (
    "e.type = 'agent.toolReturned'"
    """ AND e.body ~ '"status"\\s*:\\s*"(error|forbidden|rate_limited)"|"error"\\s*:\\s*[^n\\s]'"""
)
FAILED_CALL = f"({_FAILED})"

_ROWS = f"""
SELECT e.sequence, (date_part('epoch', e.occurred_at) * 1000000)::bigint, e.node_id, e.type, {FAILED_CALL}
FROM runs_event e WHERE e.tenant_id = %s AND e.run_id = %s AND e.sequence BETWEEN %s AND %s ORDER BY e.sequence
"""


@dataclass(frozen=True, slots=True)
class _Kept:
    chunks: Mapping[int, Chunk]
    columns: Columns


class _Memory:
    """The columns that were asked for last, up to so many bytes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, int], _Kept] = OrderedDict()

    def get(self, key: tuple[int, int]) -> _Kept | None:
        with self._lock:
            found = self._kept.get(key)
            if found:
                self._kept.move_to_end(key)
            return found

    def keep(self, key: tuple[int, int], kept: _Kept) -> None:
        with self._lock:
            self._kept[key] = kept
            self._kept.move_to_end(key)
            total = sum(one.columns.nbytes for one in self._kept.values())
            while total > MOST_BYTES and len(self._kept) > 1:
                _, dropped = self._kept.popitem(last=False)
                total -= dropped.columns.nbytes

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()


_memory = _Memory()


def forget_columns() -> None:
    """Drops what this process keeps; the database's chunks stay."""
    _memory.clear()


def columns_of(tenant_id: int, run: int) -> Columns:
    """The log of a run (primary key) as columns, as of now."""
    key = (tenant_id, run)
    known = _memory.get(key)
    chunks = dict(known.chunks) if known else _stored(tenant_id, run)
    built = _bring_up(tenant_id, run, chunks)
    if known and not built:
        return known.columns
    _store(
        tenant_id, run, {number: chunks[number] for number in built if number in chunks}, last=max(chunks, default=0)
    )
    columns = join(chunks[number] for number in sorted(chunks))
    _memory.keep(key, _Kept(chunks, columns))
    return columns


def _stored(tenant_id: int, run: int) -> dict[int, Chunk]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT number, body FROM runs_eventchunk WHERE tenant_id = %s AND run_id = %s ORDER BY number",
            [tenant_id, run],
        )
        return {number: unpack(bytes(body)) for number, body in cursor.fetchall()}


def _bring_up(tenant_id: int, run: int, chunks: dict[int, Chunk]) -> set[int]:
    """Brings chunks up to the log. Returns the numbers of those that were built."""
    last = max(chunks, default=-1)
    known = sum(len(chunk) for chunk in chunks.values())
    grown = int(chunks[last].sequences[-1]) if last >= 0 else -1
    count, through, added = _told(tenant_id, run, grown)
    if known == count:
        return set()
    if known + added == count:
        return _grow(tenant_id, run, chunks, last, grown, through)
    counts = _counts(tenant_id, run)
    for number in chunks.keys() - counts.keys():
        del chunks[number]
    stale = {number for number, count in counts.items() if number not in chunks or len(chunks[number]) != count}
    return _build(tenant_id, run, chunks, stale)


def _told(tenant_id: int, run: int, after: int) -> tuple[int, int, int]:
    """How many events the run has, its last sequence, and how many of the events follow ``after``: of one moment."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT r.event_count, r.last_sequence, CASE WHEN %(after)s < 0 THEN r.event_count ELSE (
                SELECT count(*) FROM runs_event e
                WHERE e.tenant_id = r.tenant_id AND e.run_id = r.id AND e.sequence > %(after)s) END
            FROM runs_run r WHERE r.tenant_id = %(tenant)s AND r.id = %(run)s
            """,
            {"tenant": tenant_id, "run": run, "after": after},
        )
        row = cursor.fetchone()
    return (row[0], row[1], row[2]) if row else (0, -1, 0)


def _grow(tenant_id: int, run: int, chunks: dict[int, Chunk], last: int, grown: int, through: int) -> set[int]:
    """The log goes on where it ended: its last chunk is added to, others follow."""
    built: set[int] = set()
    if last >= 0:
        rows = _rows(tenant_id, run, grown + 1, (last + 1) * CHUNK - 1)
        if rows:
            chunks[last] = extended(chunks[last], rows)
            built.add(last)
    return built | _build(tenant_id, run, chunks, _numbers_between(tenant_id, run, last + 1, through))


def _numbers_between(tenant_id: int, run: int, first: int, through: int) -> Iterable[int]:
    """The chunks from one on that may have events; sequences may leap, so a long way is asked for."""
    last = through // CHUNK
    return range(first, last + 1) if last - first < 10_000 else sorted(_counts(tenant_id, run).keys())


def _counts(tenant_id: int, run: int) -> dict[int, int]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sequence / %s, count(*) FROM runs_event WHERE tenant_id = %s AND run_id = %s GROUP BY 1",
            [CHUNK, tenant_id, run],
        )
        return dict(cursor.fetchall())


def _build(tenant_id: int, run: int, chunks: dict[int, Chunk], numbers: Iterable[int]) -> set[int]:
    built: set[int] = set()
    for first, last in _stretches(sorted(numbers)):
        rows = _rows(tenant_id, run, first * CHUNK, (last + 1) * CHUNK - 1)
        for number, group in groupby(rows, key=_number):
            chunks[number] = chunk_of(list(group))
            built.add(number)
    return built


def _rows(tenant_id: int, run: int, first: int, last: int) -> list[Row]:
    with connection.cursor() as cursor:
        cursor.execute(_ROWS, [tenant_id, run, first, last])
        rows: list[Row] = cursor.fetchall()
    return rows


def _number(row: Row) -> int:
    return row[0] // CHUNK


def _stretches(numbers: list[int]) -> Iterable[tuple[int, int]]:
    """Numbers that follow each other, in portions that fit into memory."""
    most = ROWS_AT_ONCE // CHUNK
    first = None
    for place, number in enumerate(numbers):
        first = number if first is None else first
        is_last = place + 1 == len(numbers) or numbers[place + 1] != number + 1
        if is_last or number - first + 1 >= most:
            yield first, number
            first = None


def _store(tenant_id: int, run: int, chunks: Mapping[int, Chunk], *, last: int) -> None:
    """Keeps what was built. The last chunk of an open run changes all the time and is kept once it is full."""
    kept = {
        number: chunk
        for number, chunk in chunks.items()
        if len(chunk) >= KEPT_FROM and (number != last or len(chunk) == CHUNK or _has_ended(tenant_id, run))
    }
    if not kept:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO runs_eventchunk AS c (tenant_id, run_id, number, events, body)
            SELECT %s, %s, t.* FROM unnest(%s::bigint[], %s::int[], %s::bytea[]) AS t ORDER BY 1, 2, 3
            ON CONFLICT (tenant_id, run_id, number) DO UPDATE SET events = excluded.events, body = excluded.body
            """,
            [tenant_id, run, list(kept), [len(one) for one in kept.values()], [pack(one) for one in kept.values()]],
        )


def _has_ended(tenant_id: int, run: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT status_is_terminal FROM runs_run WHERE tenant_id = %s AND id = %s", [tenant_id, run])
        row = cursor.fetchone()
    return bool(row and row[0])


LARGE = 4 * CHUNK
"""A run of fewer events is read as columns in no time; larger ones are kept ready."""
QUIET = timedelta(seconds=2)
"""A run that is still receiving is left alone: reading along would take the processor from the intake."""


def large_runs(tenant_id: int, *, since: datetime | None, now: datetime) -> list[int]:
    """Large runs whose chunks lack more than the last one may; ``since`` when they have received events."""
    with tenant_scope(tenant_id), connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT r.id FROM runs_run r
            WHERE r.tenant_id = %(tenant)s AND r.last_received_at < %(quiet)s AND r.event_count >= %(large)s
                AND (%(since)s::timestamptz IS NULL OR r.last_received_at >= %(since)s)
                AND r.event_count - %(chunk)s >= (SELECT coalesce(sum(c.events), 0) FROM runs_eventchunk c
                    WHERE c.tenant_id = r.tenant_id AND c.run_id = r.id)
            ORDER BY r.last_received_at DESC LIMIT 100
            """,
            {"tenant": tenant_id, "since": since, "quiet": now - QUIET, "large": LARGE, "chunk": CHUNK},
        )
        return [row[0] for row in cursor.fetchall()]


def keep_ready(tenant_id: int, run: int) -> None:
    """Builds what a run's chunks lack, for whoever looks at it first."""
    with tenant_scope(tenant_id):
        columns_of(tenant_id, run)
    forget_columns()
