"""How much of the ledger is attributed: by host, by node and agent, by writer, over time; and what is not, one by one.

Only what events and sources say counts. What has no attribution is listed for those who can hand it in later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any

from runs.domain.storable import original
from runs.queries import percent

from .paging import PAGE, Keyset, Order, Row, moment, page_of, rows_of, uuid, whole_number
from .rows import maybe
from .writes import BY_TIME, find_writes, write_row

NEWEST = 100_000
"""Nodes, agents and days are told of so many of the newest writes."""
COUNTED = 100_000
SHOWN = 20
MOST_WRITERS = 200
DAYS = 30


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the ledger with how much of it is attributed. ``name`` is None for what names nobody."""

    name: str | None
    total: int
    attributed: int

    @property
    def percent(self) -> int | None:
        return percent(self.attributed, self.total)

    @property
    def missing(self) -> int:
        return self.total - self.attributed


@dataclass(frozen=True, slots=True)
class DayShare:
    day: date
    total: int
    attributed: int


@dataclass(frozen=True, slots=True)
class WriterShare:
    """A writer's claims, and its source events among the newest: those of which it says itself when it observed them,
    and those that can still be held against their hash."""

    writer: str
    claims: int
    events: int
    observed: int
    kept: int
    is_registered: bool

    @property
    def percent(self) -> int | None:
        return percent(self.observed, self.events)


class Gap(StrEnum):
    """What may be without provenance."""

    NODE = "node"
    ENTRY = "entry"
    WRITE = "write"
    SOURCES = "sources"


@dataclass(frozen=True, slots=True)
class GapCount:
    gap: Gap
    count: int
    is_estimate: bool


@dataclass(frozen=True, slots=True)
class Coverage:
    """``nodes``, ``agents`` and ``days`` are of the ``looked_at`` newest writes; the rest is of all of them."""

    writes: Share
    hosts: tuple[Share, ...]
    nodes: tuple[Share, ...]
    agents: tuple[Share, ...]
    nodes_total: int
    agents_total: int
    days: tuple[DayShare, ...]
    looked_at: int
    entries: Share
    merges: Share
    claims: int
    writers: tuple[WriterShare, ...]
    gaps: tuple[GapCount, ...]

    def gap(self, gap: str) -> GapCount:
        return next(one for one in self.gaps if one.gap == gap)


def coverage(tenant_id: int) -> Coverage:
    hosts = _hosts(tenant_id)
    newest = _newest(tenant_id)
    writers = _writers(tenant_id)
    writes = Share(None, sum(host.total for host in hosts), sum(host.attributed for host in hosts))
    entries, merges, unnamed = _rest(tenant_id)
    return Coverage(
        writes=writes,
        hosts=hosts,
        nodes=_named(newest, "node"),
        agents=_named(newest, "agent"),
        nodes_total=sum(1 for kind, name, *_ in newest if kind == "node" and name is not None),
        agents_total=sum(1 for kind, name, *_ in newest if kind == "agent" and name is not None),
        days=tuple(sorted((DayShare(day, *counts) for kind, _, day, *counts in newest if kind == "day"), key=_day)),
        looked_at=sum(total for kind, _, _, total, _ in newest if kind == "node"),
        entries=entries,
        merges=merges,
        claims=sum(one.claims for one in writers),
        writers=writers,
        gaps=(
            GapCount(Gap.NODE, writes.missing, is_estimate=False),
            GapCount(Gap.ENTRY, min(unnamed, COUNTED), is_estimate=unnamed > COUNTED),
            GapCount(Gap.WRITE, entries.missing, is_estimate=False),
            GapCount(Gap.SOURCES, merges.missing, is_estimate=False),
        ),
    )


def _day(one: DayShare) -> date:
    return one.day


def _hosts(tenant_id: int) -> tuple[Share, ...]:
    found = rows_of(
        """
        SELECT h.slug, coalesce(sum(r.write_count), 0)::bigint, coalesce(sum(r.attributed_count), 0)::bigint
        FROM runs_host h LEFT JOIN runs_run r ON r.tenant_id = h.tenant_id AND r.host_id = h.id
        WHERE h.tenant_id = %s GROUP BY h.slug ORDER BY 2 DESC, 1
        """,
        [tenant_id],
    )
    return tuple(Share(*row) for row in found)


_OF_NEWEST = """
    WITH newest AS MATERIALIZED (
        SELECT node_id, agent_id, (occurred_at AT TIME ZONE 'UTC')::date AS day FROM ledger_memorywrite
        WHERE tenant_id = %(tenant)s ORDER BY occurred_at DESC LIMIT %(newest)s)
    SELECT 'node', node_id, NULL::date, count(*), count(*) FILTER (WHERE node_id IS NOT NULL)
    FROM newest GROUP BY node_id
    UNION ALL
    SELECT 'agent', agent_id, NULL, count(*), count(*) FILTER (WHERE node_id IS NOT NULL) FROM newest GROUP BY agent_id
    UNION ALL
    (SELECT 'day', NULL, day, count(*), count(*) FILTER (WHERE node_id IS NOT NULL)
    FROM newest GROUP BY day ORDER BY day DESC LIMIT %(days)s)
"""


def _newest(tenant_id: int) -> list[Row]:
    return rows_of(_OF_NEWEST, {"tenant": tenant_id, "newest": NEWEST, "days": DAYS})


def _named(newest: Iterable[Row], kind: str) -> tuple[Share, ...]:
    """The most frequent ones, and what names nobody, in any case."""
    shares = [Share(maybe(name), total, attributed) for found, name, _, total, attributed in newest if found == kind]
    shares.sort(key=lambda one: (-one.total, one.name or ""))
    named = [one for one in shares if one.name is not None][:SHOWN]
    return (*named, *(one for one in shares if one.name is None))


def _rest(tenant_id: int) -> tuple[Share, Share, int]:
    """Entries and whether a write names them, merges and whether they name their sources, writes that name no entry."""
    ((entries, unwritten, merges, named, unnamed),) = rows_of(
        """
        SELECT (SELECT coalesce(sum(entry_count), 0) FROM ledger_memoryscope WHERE tenant_id = %(tenant)s)::bigint,
            (SELECT count(*) FROM ledger_memoryentry WHERE tenant_id = %(tenant)s AND write_count = 0),
            (SELECT count(*) FROM ledger_merge WHERE tenant_id = %(tenant)s),
            (SELECT count(*) FROM ledger_merge WHERE tenant_id = %(tenant)s AND sources_named),
            (SELECT count(*) FROM (SELECT FROM ledger_memorywrite
                WHERE tenant_id = %(tenant)s AND entry_id IS NULL LIMIT %(counted)s) AS unnamed)
        """,
        {"tenant": tenant_id, "counted": COUNTED + 1},
    )
    return Share(None, entries, entries - unwritten), Share(None, merges, named), unnamed


def _writers(tenant_id: int) -> tuple[WriterShare, ...]:
    found = rows_of(
        """
        WITH claims AS (
            SELECT writer, count(*) AS count FROM ledger_claimrow WHERE tenant_id = %(tenant)s GROUP BY writer),
        events AS (
            SELECT writer, count(*) AS count, count(*) FILTER (WHERE is_observed) AS observed,
                count(*) FILTER (WHERE payload IS NOT NULL OR entry_id IS NOT NULL) AS kept
            FROM (SELECT writer, is_observed, payload, entry_id FROM ledger_sourceevent
                WHERE tenant_id = %(tenant)s ORDER BY received_at DESC, id DESC LIMIT %(newest)s) AS newest
            GROUP BY writer)
        SELECT writer, coalesce(c.count, 0), coalesce(e.count, 0), coalesce(e.observed, 0), coalesce(e.kept, 0),
            w.service_key IS NOT NULL
        FROM claims c FULL JOIN events e USING (writer)
        LEFT JOIN ledger_servicewriter w ON w.tenant_id = %(tenant)s AND w.service_key = writer
        ORDER BY 2 DESC, 3 DESC, 1 LIMIT %(most)s
        """,
        {"tenant": tenant_id, "newest": NEWEST, "most": MOST_WRITERS},
    )
    return tuple(WriterShare(original(writer), *rest) for writer, *rest in found)


# --- What is not attributed ---


@dataclass(frozen=True, slots=True)
class GapRow:
    """One thing without provenance. Of a run it has the run and the sequence; an entry that was only seen has none."""

    key: str
    host: str
    run_id: str | None
    sequence: int | None
    at: Any
    node: str | None
    agent: str | None
    memory_ref: str | None
    memory_id: str | None
    what: str


@dataclass(frozen=True, slots=True)
class GapList:
    rows: tuple[GapRow, ...]
    newer: str | None
    older: str | None


def gap_list(
    tenant_id: int, gap: Gap, *, before: str | None = None, after: str | None = None, limit: int = PAGE
) -> GapList:
    """Newest first. Raises BrokenCursor."""
    find, order, read = _GAPS[gap]
    page, found = page_of(lambda page: find({"tenant": tenant_id}, page), order, limit, before=before, after=after)
    shown, newer, older = page.cut(found)
    return GapList(tuple(map(read, shown)), newer, older)


def _without_node(values: Mapping[str, Any], page: Keyset) -> list[Row]:
    return find_writes("w.node_id IS NULL", values, page)


def _without_entry(values: Mapping[str, Any], page: Keyset) -> list[Row]:
    return find_writes("w.entry_id IS NULL", values, page)


def _of_write(row: Sequence[Any]) -> GapRow:
    write = write_row(row)
    return GapRow(
        key=write.key,
        host=write.host,
        run_id=write.run_id,
        sequence=write.sequence,
        at=write.at,
        node=write.node,
        agent=write.agent,
        memory_ref=write.memory_ref or None,
        memory_id=write.memory_id or None,
        what="write",
    )


_ENTRIES = Order(
    columns=(("e.last_at", "timestamptz"), ("e.id", "uuid")),
    write=lambda row: [row[1].isoformat(), str(row[0])],
    read=lambda place: (moment(place[0]), uuid(place[1])),
)
_MERGES = Order(
    columns=(("m.occurred_at", "timestamptz"), ("m.run_id", "bigint"), ("m.sequence", "bigint")),
    write=lambda row: [row[3].isoformat(), row[0], row[2]],
    read=lambda place: (moment(place[0]), whole_number(place[1]), whole_number(place[2])),
)


def _without_write(values: Mapping[str, Any], page: Keyset) -> list[Row]:
    return rows_of(
        f"""
        SELECT e.id, e.last_at, h.slug, e.memory_ref, e.memory_id, s.outcome
        FROM (SELECT e.* FROM ledger_memoryentry e WHERE e.tenant_id = %(tenant)s AND e.write_count = 0
            {page.condition} {page.order} LIMIT %(most)s) AS e
        JOIN runs_host h ON h.tenant_id = e.tenant_id AND h.id = e.host_id
        LEFT JOIN ledger_contentstate s ON s.tenant_id = e.tenant_id AND s.entry_id = e.id
        {page.order}
        """,  # noqa: S608 - constants
        {**values, **page.values},
    )


def _of_entry(row: Sequence[Any]) -> GapRow:
    pk, at, host, ref, memory_id, outcome = row
    return GapRow(
        key=str(pk),
        host=host,
        run_id=None,
        sequence=None,
        at=at,
        node=None,
        agent=None,
        memory_ref=original(ref),
        memory_id=original(memory_id),
        what="named by a merge" if outcome is None else "seen",
    )


def _without_sources(values: Mapping[str, Any], page: Keyset) -> list[Row]:
    return rows_of(
        f"""
        SELECT m.run_id, r.run_id, m.sequence, m.occurred_at, h.slug, m.memory_ref, o.memory_id, m.kind, m.source_count
        FROM (SELECT m.* FROM ledger_merge m WHERE m.tenant_id = %(tenant)s AND NOT m.sources_named
            {page.condition} {page.order} LIMIT %(most)s) AS m
        JOIN runs_run r ON r.tenant_id = m.tenant_id AND r.id = m.run_id
        JOIN runs_host h ON h.tenant_id = r.tenant_id AND h.id = r.host_id
        LEFT JOIN ledger_memoryentry o ON o.tenant_id = m.tenant_id AND o.id = m.output_id
        {page.order}
        """,  # noqa: S608 - constants
        {**values, **page.values},
    )


def _of_merge(row: Sequence[Any]) -> GapRow:
    run, run_id, sequence, at, host, ref, output, kind, count = row
    return GapRow(
        key=f"{run}-{sequence}",
        host=host,
        run_id=original(run_id),
        sequence=sequence,
        at=at,
        node=None,
        agent=None,
        memory_ref=original(ref) or None,
        memory_id=maybe(output),
        what=f"{kind} of {'an unknown number of' if count is None else count} entries",
    )


_GAPS: Mapping[Gap, tuple[Any, Order, Any]] = {
    Gap.NODE: (_without_node, BY_TIME, _of_write),
    Gap.ENTRY: (_without_entry, BY_TIME, _of_write),
    Gap.WRITE: (_without_write, _ENTRIES, _of_entry),
    Gap.SOURCES: (_without_sources, _MERGES, _of_merge),
}
