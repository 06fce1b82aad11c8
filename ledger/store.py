"""Reads the log on, and writes what it says about memory. The only writer of the ledger's derived tables.

Entries come from events that name them, and from observations of entries that no event may have named. Whichever comes
first, the same rows come out.

Reading is idempotent: a row's key is the event it rests on. One reader works on a tenant at a time; a second one
finds the tenant taken and leaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from django.utils import timezone

from openwop_ui.live.announce import announce
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.storable import storable

from . import receipt_store
from .domain.reading import READER, TYPES, Address, Merged, Written, entry_id, read_fact, scope_id
from .models import ContentState

RUNS_AT_ONCE = 200
EVENTS_AT_ONCE = 20_000
BYTES_AT_ONCE = 64 * 1024 * 1024
"""A reading ends before the event that takes it over either, but holds one at least."""

PATIENCE = timedelta(seconds=15)
"""A gap that stands for so long is read past. Should it close, or an event come late, reading goes back to it."""

RECENT = timedelta(minutes=2)
"""How long a run that has received events counts as one of the recent ones."""

DERIVED = (
    # Children before their parents.
    "ledger_receipt",
    "ledger_mergesource",
    "ledger_taggedsource",
    "ledger_merge",
    "ledger_memorywrite",
    "ledger_memoryentry",
    "ledger_memoryscope",
)

_READING = 0x6C656467  # first half of the advisory lock, the tenant is the second
_OBSERVING = 0x6F627376
_KEEPING = 0x6B656570


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a run's log that is to be read: after ``start``, up to and including ``end``.

    ``start_count`` and ``end_count`` are how many events the log has up to there, ``through`` is how far it has no
    gap.
    """

    run: int
    host: int
    start: int
    start_count: int
    end: int
    end_count: int
    through: int
    revision: int


@dataclass(frozen=True, slots=True)
class _Unread:
    """A run whose log says more than has been read of it, and how far reading it went."""

    run: int
    host: int
    first: int
    last: int
    through: int
    event_count: int
    revision: int
    gap_is_old: bool
    read_revision: int | None
    reader: int | None
    read_through: int
    read_beyond: int
    read_count: int
    beyond: int | None
    """How many events the log has behind ``read_beyond``, where that lies behind a gap."""

    @property
    def is_outdated(self) -> bool:
        return self.reader is not None and self.reader != READER

    def stretch(self) -> Stretch:
        start = self._start()
        whole = self.gap_is_old or self.through == self.last
        return Stretch(
            run=self.run,
            host=self.host,
            start=start,
            start_count=self.read_count if start > self.through else self._without_gap(start),
            end=self.last if whole else self.through,
            end_count=self.event_count if whole else self._without_gap(self.through),
            through=self.through,
            revision=self.revision,
        )

    def _start(self) -> int:
        if self.read_revision != self.revision:
            return -1
        # As many events as then: none has come late into what was read behind the gap.
        if self.beyond is not None and self.read_count == self.event_count - self.beyond:
            return self.read_beyond
        return self.read_through

    def _without_gap(self, sequence: int) -> int:
        return sequence - self.first + 1 if sequence >= 0 else 0


@dataclass(frozen=True, slots=True)
class Read:
    """How many facts a reading held, the entries that they are new to, the stretches it read and those it left for the
    next one."""

    facts: int
    entries: tuple[UUID, ...]
    taken: tuple[Stretch, ...]
    left: tuple[Stretch, ...]


@dataclass(slots=True)
class _Rows:
    """What a stretch of the log adds to the ledger."""

    entries: dict[UUID, tuple[int, Address]] = field(default_factory=dict)
    writes: list[tuple[Any, ...]] = field(default_factory=list)
    merges: list[tuple[Any, ...]] = field(default_factory=list)
    sources: list[tuple[int, int, UUID]] = field(default_factory=list)
    tagged: list[tuple[int, int, UUID]] = field(default_factory=list)

    def mention(self, host: int, address: Address) -> UUID:
        entry = entry_id(host, address)
        self.entries.setdefault(entry, (host, address))
        return entry


def read_backlog(tenant_id: int, *, now: datetime | None = None, recent: bool = False) -> bool:
    """Reads what is new in a tenant's logs. True when there may be more to read at once.

    With ``recent`` only runs that have just received events are looked at: what there is to do after an announcement,
    however many runs the tenant has.
    """
    now = now or timezone.now()
    with tenant_scope(tenant_id, durable=True):
        if not _is_free(tenant_id):
            return False
        more = read_on(tenant_id, now, recent=recent)
        has_due = receipt_store.has_due(tenant_id, now)
    if has_due:
        # By itself: no run whose receipts are hard to read keeps the facts from being read.
        with tenant_scope(tenant_id, durable=True):
            more |= _is_free(tenant_id) and receipt_store.read_due(tenant_id, now)
    return more


def read_on(tenant_id: int, now: datetime, *, recent: bool = False) -> bool:
    """The same for who holds the reading already, within their transaction."""
    unread = _unread(tenant_id, now, recent=recent)
    if any(run.is_outdated for run in unread):
        _forget(tenant_id)
        unread = _unread(tenant_id, now, recent=recent)
    read = read_stretches(tenant_id, [run.stretch() for run in unread])
    _move_cursors(tenant_id, read.taken)
    _ask_for_content(tenant_id, read.entries, now)
    if read.facts:
        announce(tenant_id, {"ledger": None})
    return bool(read.left) or len(unread) >= RUNS_AT_ONCE


def hold_reading(tenant_id: int) -> None:
    """Waits until nobody reads this tenant's log, and keeps others from it until the transaction ends."""
    _lock("pg_advisory_xact_lock", _READING, tenant_id)


def hold_observing(tenant_id: int) -> None:
    """Waits until nobody adds observations, and keeps others from it until the transaction ends. To be called before
    rows are locked."""
    _lock("pg_advisory_xact_lock", _OBSERVING, tenant_id)


def share_observing(tenant_id: int) -> None:
    """Those who add observations work beside each other and beside the reader of the log, but not beside a rebuild."""
    _lock("pg_advisory_xact_lock_shared", _OBSERVING, tenant_id)


def share_keeping(tenant_id: int) -> None:
    """Those whose rows a snapshot may hold work beside each other, but not beside the taking of a snapshot."""
    _lock("pg_advisory_xact_lock_shared", _KEEPING, tenant_id)


def hold_keeping(tenant_id: int) -> None:
    """Waits until all that was begun is committed: what comes later has a later time."""
    _lock("pg_advisory_xact_lock", _KEEPING, tenant_id)


def _lock(function: str, lock: int, tenant_id: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}(%s, %s::int)", [lock, tenant_id % 2**31])


def _is_free(tenant_id: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s, %s::int)", [_READING, tenant_id % 2**31])
        row = cursor.fetchone()
        return bool(row and row[0])


def _forget(tenant_id: int) -> None:
    """Takes the tenant's ledger away: rows of another version of the reading would stay beside the new ones."""
    hold_observing(tenant_id)
    with connection.cursor() as cursor:
        for table in (*DERIVED, "ledger_readingcursor"):
            cursor.execute(f"DELETE FROM {table} WHERE tenant_id = %s", [tenant_id])  # noqa: S608 - constants
    bring_back_observed(tenant_id)


def _unread(tenant_id: int, now: datetime, *, recent: bool) -> list[_Unread]:
    """Whoever has waited longest comes first, so that busy runs do not keep the others from being read."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT r.id, r.host_id, r.first_sequence, r.last_sequence, r.contiguous_through, r.event_count,
                r.revision, coalesce(gap.is_old, false), c.revision, c.reader, coalesce(c.read_through, -1),
                coalesce(c.read_beyond, -1), coalesce(c.event_count, 0),
                CASE WHEN c.read_beyond > c.read_through THEN (
                    SELECT count(*) FROM runs_event e
                    WHERE e.tenant_id = r.tenant_id AND e.run_id = r.id AND e.sequence > c.read_beyond) END
            FROM runs_run r
            LEFT JOIN ledger_readingcursor c ON c.tenant_id = r.tenant_id AND c.run_id = r.id
            CROSS JOIN LATERAL (
                SELECT r.contiguous_through < r.last_sequence AND (
                    SELECT e.received_at FROM runs_event e
                    WHERE e.tenant_id = r.tenant_id AND e.run_id = r.id AND e.sequence > r.contiguous_through
                    ORDER BY e.sequence LIMIT 1) < %(patient)s AS is_old
            ) gap
            WHERE r.tenant_id = %(tenant)s {"AND r.last_received_at > %(recent)s" if recent else ""}
                AND (c.run_id IS NULL OR c.event_count < r.event_count OR c.revision <> r.revision
                    OR c.reader <> %(reader)s)
                AND (r.contiguous_through > coalesce(c.read_through, -1) OR c.revision <> r.revision
                    OR c.reader <> %(reader)s OR gap.is_old)
            ORDER BY r.last_received_at, r.id LIMIT %(most)s
            """,  # noqa: S608 - constants
            {
                "tenant": tenant_id,
                "reader": READER,
                "patient": now - PATIENCE,
                "recent": now - RECENT,
                "most": RUNS_AT_ONCE,
            },
        )
        return [_Unread(*row) for row in cursor.fetchall()]


def read_stretches(tenant_id: int, stretches: Sequence[Stretch]) -> Read:
    """Reads the stretches, or as much of them as is read at once."""
    taken, left = _fitting(tenant_id, stretches)
    rows = _Rows()
    for run, host, sequence, type_, at, body in _memory_events(tenant_id, taken):
        _add(rows, run, host, sequence, at, read_fact(type_, body))
    entries = _write_rows(tenant_id, rows)
    receipt_store.note_news(tenant_id, taken)
    return Read(facts=len(rows.writes) + len(rows.merges), entries=entries, taken=taken, left=left)


def _fitting(tenant_id: int, stretches: Sequence[Stretch]) -> tuple[tuple[Stretch, ...], tuple[Stretch, ...]]:
    """Cuts the stretches, in the order of their runs, before the first event that is too much for one reading.

    Events are counted before they are read. One that comes in between may be read and not counted, which has it read
    again; it is never counted and not read.
    """
    ordered = sorted(stretches, key=lambda stretch: stretch.run)
    cut = _first_too_much(tenant_id, ordered)
    if cut is None:
        return tuple(ordered), ()
    run, sequence = cut
    taken = [stretch for stretch in ordered if stretch.run < run]
    left = [stretch for stretch in ordered if stretch.run >= run]
    end = sequence - 1
    if end > left[0].start:
        count = left[0].start_count + _events_within(tenant_id, run, left[0].start, end)
        taken.append(replace(left[0], end=end, end_count=count))
        left[0] = replace(left[0], start=end, start_count=count)
    return tuple(taken), tuple(left)


_KINDS = ", ".join(f"'{kind}'" for kind in TYPES)  # literals, so that the partial index applies
_EVENTS = f"""
    unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[]) AS s (run_id, host_id, start, end_)
    JOIN runs_event e ON e.tenant_id = %s AND e.run_id = s.run_id
        AND e.sequence > s.start AND e.sequence <= s.end_ AND e.type IN ({_KINDS})
    LEFT JOIN runs_eventcopy c ON c.tenant_id = e.tenant_id AND c.run_id = e.run_id
        AND c.sequence = e.sequence AND c.kind = 'completion'
    WHERE e.has_payload OR c.body IS NOT NULL
    ORDER BY s.run_id, e.sequence
"""


def _of(tenant_id: int, stretches: Sequence[Stretch]) -> list[Any]:
    """The parameters of ``_EVENTS``."""
    return [
        [stretch.run for stretch in stretches],
        [stretch.host for stretch in stretches],
        [stretch.start for stretch in stretches],
        [stretch.end for stretch in stretches],
        tenant_id,
    ]


def _first_too_much(tenant_id: int, stretches: Sequence[Stretch]) -> tuple[int, int] | None:
    """Run and sequence of the first memory event that goes beyond what is read at once."""
    if not stretches:
        return None
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT run_id, sequence FROM (
                SELECT run_id, sequence, row_number() OVER (ORDER BY run_id, sequence) AS place,
                    sum(size) OVER (ORDER BY run_id, sequence) AS size
                FROM (SELECT s.run_id, e.sequence, octet_length(coalesce(c.body, e.body)) AS size
                    FROM {_EVENTS} LIMIT %s) AS found
            ) AS measured
            WHERE place > 1 AND (place > %s OR size > %s)
            ORDER BY run_id, sequence LIMIT 1
            """,  # noqa: S608 - constants
            [*_of(tenant_id, stretches), EVENTS_AT_ONCE + 1, EVENTS_AT_ONCE, BYTES_AT_ONCE],
        )
        cut: tuple[int, int] | None = cursor.fetchone()
        return cut


def _events_within(tenant_id: int, run: int, start: int, end: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM runs_event WHERE tenant_id = %s AND run_id = %s AND sequence > %s AND sequence <= %s",
            [tenant_id, run, start, end],
        )
        row = cursor.fetchone()
        return row[0] if row else 0


def _memory_events(tenant_id: int, stretches: Sequence[Stretch]) -> list[tuple[int, int, int, str, datetime, str]]:
    """(run, host, sequence, type, time, body); of an event that came in part, what came of it later."""
    if not stretches:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT s.run_id, s.host_id, e.sequence, e.type, coalesce(c.occurred_at, e.occurred_at),"
            f" coalesce(c.body, e.body) FROM {_EVENTS}",  # noqa: S608 - constants
            _of(tenant_id, stretches),
        )
        found: list[tuple[int, int, int, str, datetime, str]] = cursor.fetchall()
        return found


def _add(rows: _Rows, run: int, host: int, sequence: int, at: datetime, fact: Written | Merged | None) -> None:
    if isinstance(fact, Written):
        address = _storable(fact.address)
        entry = rows.mention(host, address) if address else None
        rows.writes.append(
            (
                run,
                sequence,
                entry,
                fact.node_id and storable(fact.node_id),
                fact.agent_id and storable(fact.agent_id),
                [storable(tag) for tag in fact.tags],
                at,
            )
        )
        rows.tagged += [(run, sequence, entry_id(host, one)) for one in map(_storable, fact.tagged_sources) if one]
    elif isinstance(fact, Merged):
        _add_merge(rows, run, host, sequence, at, fact)


def _add_merge(rows: _Rows, run: int, host: int, sequence: int, at: datetime, fact: Merged) -> None:
    output = _storable(fact.output)
    rows.merges.append(
        (
            run,
            sequence,
            fact.kind,
            storable(fact.memory_ref),
            rows.mention(host, output) if output else None,
            fact.source_count,
            fact.output_count,
            fact.byte_size,
            storable(fact.trigger),
            fact.sources_named,
            at,
        )
    )
    for source in fact.sources:
        address = _storable(source)
        assert address is not None
        rows.sources.append((run, sequence, rows.mention(host, address)))


def _storable(address: Address | None) -> Address | None:
    return address and Address(storable(address.memory_ref), storable(address.memory_id))


def _write_rows(tenant_id: int, rows: _Rows) -> tuple[UUID, ...]:
    """Writes the facts, then counts those that are new in their entries, and returns these entries.

    The facts' keys to their entries are checked at commit: an entry is written after its first write, with its sums.
    """
    new = _copied(tenant_id, "ledger_memorywrite", rows.writes)
    if len(new) < len(rows.writes):
        _name_nodes(tenant_id)
    new |= _copied(tenant_id, "ledger_merge", rows.merges)
    _copied(tenant_id, "ledger_mergesource", rows.sources)
    _copied(tenant_id, "ledger_taggedsource", rows.tagged)
    counted = _count(tenant_id, rows, new)
    _count_scopes(tenant_id, rows, [entry for entry, is_new in counted if is_new])
    return tuple(entry for entry, _ in counted)


_COLUMNS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "ledger_memorywrite": (
        ("run_id", "int8"),
        ("sequence", "int8"),
        ("entry_id", "uuid"),
        ("node_id", "text"),
        ("agent_id", "text"),
        ("tags", "text[]"),
        ("occurred_at", "timestamptz"),
    ),
    "ledger_merge": (
        ("run_id", "int8"),
        ("sequence", "int8"),
        ("kind", "text"),
        ("memory_ref", "text"),
        ("output_id", "uuid"),
        ("source_count", "int8"),
        ("output_count", "int8"),
        ("byte_size", "int8"),
        ("trigger", "text"),
        ("sources_named", "bool"),
        ("occurred_at", "timestamptz"),
    ),
    "ledger_mergesource": (("run_id", "int8"), ("sequence", "int8"), ("entry_id", "uuid")),
    "ledger_taggedsource": (("run_id", "int8"), ("sequence", "int8"), ("entry_id", "uuid")),
}


def _copied(tenant_id: int, table: str, rows: Sequence[tuple[Any, ...]]) -> set[tuple[int, int]]:
    """Inserts the rows that are not there yet, and returns their (run, sequence)."""
    if not rows:
        return set()
    columns = _COLUMNS[table]
    names = ", ".join(name for name, _ in columns)
    declared = ", ".join(f"{name} {type_}" for name, type_ in columns)
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TEMPORARY TABLE IF NOT EXISTS staged_{table} ({declared}) ON COMMIT DELETE ROWS")
        cursor.execute(f"TRUNCATE staged_{table}")
        # psycopg's own cursor: Django has no COPY, and rows can not be copied into a table under row-level security.
        with cursor.cursor.copy(f"COPY staged_{table} FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types([type_ for _, type_ in columns])
            for row in rows:
                copy.write_row(row)
        cursor.execute(
            f"INSERT INTO {table} (tenant_id, {names}) SELECT %s, {names} FROM staged_{table}"  # noqa: S608
            " ON CONFLICT DO NOTHING RETURNING run_id, sequence",
            [tenant_id],
        )
        return set(cursor.fetchall())


def _name_nodes(tenant_id: int) -> None:
    """Writes that were read before, and of which another copy of the event names the node: the staged ones say it."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH named AS (
                UPDATE ledger_memorywrite w SET node_id = s.node_id FROM staged_ledger_memorywrite s
                WHERE w.tenant_id = %(tenant)s AND w.run_id = s.run_id AND w.sequence = s.sequence
                    AND w.node_id IS NULL AND s.node_id IS NOT NULL
                RETURNING w.entry_id),
            counts AS (SELECT entry_id, count(*) AS count FROM named WHERE entry_id IS NOT NULL GROUP BY entry_id)
            UPDATE ledger_memoryentry e SET attributed_count = e.attributed_count + c.count FROM counts c
            WHERE e.tenant_id = %(tenant)s AND e.id = c.entry_id
            """,
            {"tenant": tenant_id},
        )


@dataclass(slots=True)
class _Sum:
    """What new mentions add to an entry. ``latest`` is (time, run, sequence): ties have an order that stays."""

    latest: tuple[datetime, int, int]
    first_at: datetime
    writes: int = 0
    attributed: int = 0

    def add(self, at: datetime, run: int, sequence: int) -> None:
        self.latest = max(self.latest, (at, run, sequence))
        self.first_at = min(self.first_at, at)


def _count(tenant_id: int, rows: _Rows, new: set[tuple[int, int]]) -> list[tuple[UUID, bool]]:
    """Adds the new facts to their entries, and returns these, each with whether there was none of it before.

    The times of an entry that was only observed so far give way to those of the events.
    """
    sums: dict[UUID, _Sum] = {}
    for entry, at, run, sequence, is_write, attributed in _mentions(rows):
        if (run, sequence) not in new:
            continue
        total = sums.setdefault(entry, _Sum((at, run, sequence), at))
        total.add(at, run, sequence)
        total.writes += is_write
        total.attributed += attributed
    if not sums:
        return []
    ordered = sorted(sums.items())
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO ledger_memoryentry AS e (tenant_id, id, scope_id, host_id, memory_ref, memory_id,
                write_count, attributed_count, first_at, last_at, last_run_id, last_sequence)
            SELECT %s, n.* FROM unnest(%s::uuid[], %s::uuid[], %s::bigint[], %s::text[], %s::text[], %s::bigint[],
                %s::bigint[], %s::timestamptz[], %s::timestamptz[], %s::bigint[], %s::bigint[]) AS n
            ON CONFLICT (tenant_id, id) DO UPDATE SET
                write_count = e.write_count + excluded.write_count,
                attributed_count = e.attributed_count + excluded.attributed_count,
                first_at = CASE WHEN e.last_run_id IS NULL THEN excluded.first_at
                    ELSE least(e.first_at, excluded.first_at) END,
                (last_at, last_run_id, last_sequence) = (
                    SELECT x.at, x.run_id, x.sequence
                    FROM (VALUES (e.last_at, e.last_run_id, e.last_sequence),
                        (excluded.last_at, excluded.last_run_id, excluded.last_sequence)) AS x (at, run_id, sequence)
                    WHERE x.run_id IS NOT NULL
                    ORDER BY x.at DESC, x.run_id DESC, x.sequence DESC LIMIT 1)
            RETURNING id, xmax = 0
            """,
            [
                tenant_id,
                [entry for entry, _ in ordered],
                [scope_id(rows.entries[entry][0], rows.entries[entry][1].memory_ref) for entry, _ in ordered],
                [rows.entries[entry][0] for entry, _ in ordered],
                [rows.entries[entry][1].memory_ref for entry, _ in ordered],
                [rows.entries[entry][1].memory_id for entry, _ in ordered],
                [total.writes for _, total in ordered],
                [total.attributed for _, total in ordered],
                [total.first_at for _, total in ordered],
                [total.latest[0] for _, total in ordered],
                [total.latest[1] for _, total in ordered],
                [total.latest[2] for _, total in ordered],
            ],
        )
        counted: list[tuple[UUID, bool]] = cursor.fetchall()
        return counted


def _count_scopes(tenant_id: int, rows: _Rows, new: Sequence[UUID]) -> None:
    counts = Counter((rows.entries[entry][0], rows.entries[entry][1].memory_ref) for entry in new)
    if not counts:
        return
    # In the order in which whoever adds observations locks them, too.
    ordered = sorted((scope_id(host, ref), host, ref, count) for (host, ref), count in counts.items())
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO ledger_memoryscope AS s (tenant_id, id, host_id, memory_ref, entry_count)
            SELECT %s, n.* FROM unnest(%s::uuid[], %s::bigint[], %s::text[], %s::bigint[]) AS n
            ON CONFLICT (tenant_id, id) DO UPDATE SET entry_count = s.entry_count + excluded.entry_count
            """,
            [
                tenant_id,
                [scope for scope, *_ in ordered],
                [host for _, host, _, _ in ordered],
                [ref for _, _, ref, _ in ordered],
                [count for *_, count in ordered],
            ],
        )


@dataclass(frozen=True, slots=True)
class Observed:
    """The address of an entry that was seen, in its stored form, and the time under which it is listed until an event
    names it."""

    host: int
    address: Address
    at: datetime

    @property
    def entry(self) -> UUID:
        return entry_id(self.host, self.address)


_ADD_OBSERVED = """
    WITH added AS (
        INSERT INTO ledger_memoryentry (tenant_id, id, scope_id, host_id, memory_ref, memory_id,
            write_count, attributed_count, first_at, last_at)
        SELECT %(tenant)s, n.id, n.scope_id, n.host_id, n.memory_ref, n.memory_id, 0, 0, n.at, n.at
        FROM {seen} ORDER BY n.id
        ON CONFLICT (tenant_id, id) DO NOTHING
        RETURNING scope_id, host_id, memory_ref)
    INSERT INTO ledger_memoryscope AS s (tenant_id, id, host_id, memory_ref, entry_count)
    SELECT %(tenant)s, a.scope_id, a.host_id, a.memory_ref, count(*) FROM added a
    GROUP BY a.scope_id, a.host_id, a.memory_ref ORDER BY a.scope_id
    ON CONFLICT (tenant_id, id) DO UPDATE SET entry_count = s.entry_count + excluded.entry_count
"""
_SEEN_NOW = """
    unnest(%(ids)s::uuid[], %(scopes)s::uuid[], %(hosts)s::bigint[], %(refs)s::text[], %(memory_ids)s::text[],
        %(times)s::timestamptz[]) AS n (id, scope_id, host_id, memory_ref, memory_id, at)
"""
_SEEN_ONCE = """
    (SELECT o.entry_id AS id, s.scope_id, o.host_id, o.memory_ref, o.memory_id,
        coalesce(o.created_at_reported, o.observed_at) AS at
    FROM ledger_observation o
    JOIN unnest(%(scopes)s::uuid[], %(hosts)s::bigint[], %(refs)s::text[]) AS s (scope_id, host_id, memory_ref)
        ON s.host_id = o.host_id AND s.memory_ref = o.memory_ref
    WHERE o.tenant_id = %(tenant)s AND o.number = 1) AS n
"""


def add_observed(tenant_id: int, seen: Sequence[Observed]) -> None:
    """Adds those of the entries that there are none of yet. The caller shares the observing."""
    with connection.cursor() as cursor:
        cursor.execute(
            _ADD_OBSERVED.format(seen=_SEEN_NOW),
            {
                "tenant": tenant_id,
                "ids": [one.entry for one in seen],
                "scopes": [scope_id(one.host, one.address.memory_ref) for one in seen],
                "hosts": [one.host for one in seen],
                "refs": [one.address.memory_ref for one in seen],
                "memory_ids": [one.address.memory_id for one in seen],
                "times": [one.at for one in seen],
            },
        )


def bring_back_observed(tenant_id: int) -> None:
    """Adds the entries that observations are of, where they are missing. The caller holds the observing."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT host_id, memory_ref FROM ledger_observation WHERE tenant_id = %s AND number = 1",
            [tenant_id],
        )
        places = cursor.fetchall()
        cursor.execute(
            _ADD_OBSERVED.format(seen=_SEEN_ONCE),
            {
                "tenant": tenant_id,
                "scopes": [scope_id(host, ref) for host, ref in places],
                "hosts": [host for host, _ in places],
                "refs": [ref for _, ref in places],
            },
        )


def _ask_for_content(tenant_id: int, entries: Sequence[UUID], now: datetime) -> None:
    """Has the content of entries that events have just spoken of read, on hosts whose memory is read."""
    if not entries:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO ledger_contentstate (tenant_id, entry_id, host_id, number, unchanged, urgency, next_at,
                failures, error)
            SELECT e.tenant_id, e.id, e.host_id, 0, 0, %(written)s, %(now)s, 0, ''
            FROM ledger_memoryentry e
            JOIN runs_host h ON h.tenant_id = e.tenant_id AND h.id = e.host_id AND h.memory_route <> ''
            WHERE e.tenant_id = %(tenant)s AND e.id = ANY (%(entries)s::uuid[]) ORDER BY e.id
            ON CONFLICT (tenant_id, entry_id) DO UPDATE
                SET urgency = excluded.urgency, next_at = excluded.next_at, unchanged = 0
            """,
            {
                "tenant": tenant_id,
                "written": ContentState.Urgency.WRITTEN,
                "now": now,
                "entries": list(entries),
            },
        )


def _mentions(rows: _Rows) -> Iterator[tuple[UUID, datetime, int, int, int, int]]:
    """(entry, time, run, sequence, 1 for a write, 1 for one that names its node) of everything read."""
    for run, sequence, entry, node, _, _, at in rows.writes:
        if entry:
            yield entry, at, run, sequence, 1, int(node is not None)
    times: dict[tuple[int, int], datetime] = {}
    for run, sequence, _, _, output, *_, at in rows.merges:
        times[run, sequence] = at
        if output:
            yield output, at, run, sequence, 0, 0
    for run, sequence, entry in rows.sources:
        yield entry, times[run, sequence], run, sequence, 0, 0


def _move_cursors(tenant_id: int, stretches: Sequence[Stretch]) -> None:
    if not stretches:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO ledger_readingcursor
                (tenant_id, run_id, read_through, read_beyond, event_count, revision, reader)
            SELECT %s, n.*, %s FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::int[]) AS n
            ON CONFLICT (tenant_id, run_id) DO UPDATE SET read_through = excluded.read_through,
                read_beyond = excluded.read_beyond, event_count = excluded.event_count,
                revision = excluded.revision, reader = excluded.reader
            """,
            [
                tenant_id,
                READER,
                [stretch.run for stretch in stretches],
                [min(stretch.end, stretch.through) for stretch in stretches],
                [stretch.end for stretch in stretches],
                [stretch.end_count for stretch in stretches],
                [stretch.revision for stretch in stretches],
            ],
        )
