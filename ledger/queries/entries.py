"""Lists of entries, and what there is to choose from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from runs.domain.storable import original, storable
from runs.queries import Option, like, percent

from ..domain.observing import state_of
from .paging import PAGE, Keyset, Order, Row, moment, page_of, rows_of, uuid
from .repeats import OF_ENTRY, repeated_writes
from .rows import (
    ANNOUNCED,
    DELETED,
    ERASED,
    EXPIRED,
    GONE,
    STATES,
    STORED,
    TAGS,
    EntryList,
    EntryRow,
    maybe,
    originals,
)

COUNTED = 100_000
"""Entries that match a filter are counted up to here, unless their memory refs know their number."""
NEAR = 5_000
"""So many of the next entries are searched before all of them are: what is common is found there."""
REFS = 50


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """What the ledger is narrowed to; "" means any. ``q`` is a part of an id, ref, tag, node or agent, or of the
    beginning of the content."""

    q: str = ""
    host: str = ""
    ref: str = ""
    node: str = ""
    agent: str = ""
    tag: str = ""
    state: str = ""

    @property
    def is_of_scopes(self) -> bool:
        """Whether memory refs alone answer it."""
        return not (self.q or self.node or self.agent or self.tag or self.state)


@dataclass(frozen=True, slots=True)
class Totals:
    """``attributed`` is the share, in per cent, of the writes whose event names a node. What forks tell again of their
    sources' writes is none."""

    entries: int
    writes: int
    attributed: int | None


def totals(tenant_id: int) -> Totals:
    ((entries, writes, attributed),) = rows_of(
        """
        SELECT (SELECT coalesce(sum(entry_count), 0)::bigint FROM ledger_memoryscope WHERE tenant_id = %(tenant)s),
            coalesce(sum(write_count), 0)::bigint, coalesce(sum(attributed_count), 0)::bigint
        FROM runs_run WHERE tenant_id = %(tenant)s
        """,
        {"tenant": tenant_id},
    )
    repeats, attributed_repeats = repeated_writes(tenant_id)
    writes, attributed = writes - repeats, attributed - attributed_repeats
    return Totals(entries=entries, writes=writes, attributed=percent(attributed, writes))


def host_options(tenant_id: int) -> tuple[Option, ...]:
    """Hosts with the number of their entries."""
    found = rows_of(
        """
        SELECT h.slug, coalesce(nullif(h.name, ''), h.slug), coalesce(sum(s.entry_count), 0)::bigint
        FROM runs_host h
        LEFT JOIN ledger_memoryscope s ON s.tenant_id = h.tenant_id AND s.host_id = h.id
        WHERE h.tenant_id = %s GROUP BY h.slug, h.name ORDER BY h.slug
        """,
        [tenant_id],
    )
    return tuple(Option(slug, name, count) for slug, name, count in found)


def ref_options(tenant_id: int) -> tuple[Option, ...]:
    """The memory refs with the most entries."""
    found = rows_of(
        "SELECT memory_ref, sum(entry_count)::bigint FROM ledger_memoryscope WHERE tenant_id = %s"
        " GROUP BY memory_ref ORDER BY 2 DESC, 1 LIMIT %s",
        [tenant_id, REFS],
    )
    return tuple(Option(original(ref), original(ref), count) for ref, count in found)


def state_options(tenant_id: int, total: int, *, now: datetime) -> tuple[Option, ...]:
    """The states an entry can be in, with the number of those in each where few enough were seen to count them."""
    found = rows_of(
        """
        SELECT CASE WHEN s.outcome IN ('deleted', 'erased') THEN s.outcome WHEN s.expires_at <= %(now)s THEN %(expired)s
                WHEN s.outcome = 'gone' THEN %(gone)s ELSE %(stored)s END, count(*)
        FROM (SELECT outcome, expires_at FROM ledger_contentstate
            WHERE tenant_id = %(tenant)s AND outcome IS NOT NULL LIMIT %(most)s) AS s
        GROUP BY 1
        """,
        {"tenant": tenant_id, "now": now, "most": NEAR + 1, "expired": EXPIRED, "gone": GONE, "stored": STORED},
    )
    counts: dict[str, int] = dict(found)
    seen = sum(counts.values())
    if seen > NEAR:
        return tuple(Option(state, state, None) for state in STATES)
    counts[ANNOUNCED] = max(0, total - seen)
    # The last two are only there where something is done with entries here.
    return tuple(
        Option(state, state, counts.get(state, 0))
        for state in STATES
        if state in counts or state not in (DELETED, ERASED)
    )


_BY_LAST_WRITE = Order(
    columns=(("e.last_at", "timestamptz"), ("e.id", "uuid")),
    write=lambda row: [row[1].isoformat(), str(row[0])],
    read=lambda place: (moment(place[0]), uuid(place[1])),
)


def entry_list(
    tenant_id: int,
    filter: EntryFilter = EntryFilter(),  # noqa: B008 - frozen
    *,
    before: str | None = None,
    after: str | None = None,
    limit: int = PAGE,
    now: datetime | None = None,
) -> EntryList:
    """A page of entries: older than ``before``, or newer than ``after``, or the newest. Raises BrokenCursor.

    What has expired by ``now`` is neither shown nor found by its content.
    """
    now = now or timezone.now()
    reading = _reading(tenant_id, filter, now)
    page, found = page_of(reading.rows, _BY_LAST_WRITE, limit, before=before, after=after)
    shown, newer, older = page.cut(found)
    is_all = page.edge is None and older is None
    total, is_estimate = (len(shown), False) if is_all else reading.count()
    return EntryList(
        rows=tuple(_entry_row(row, now) for row in shown),
        total=total,
        total_is_estimate=is_estimate,
        newer=newer,
        older=older,
    )


def _reading(tenant_id: int, filter: EntryFilter, now: datetime) -> _Reading:
    scopes = _scopes(tenant_id, filter)
    where, values = _where(tenant_id, filter, scopes)
    values["now"] = now
    known = sum(scope.entry_count for scope in scopes) if scopes is not None else None
    if filter.q:
        return _Search(filter, where, values | {"likes": _patterns(filter.q)}, known)
    return _Reading(filter, where, values, known)


@dataclass(frozen=True, slots=True)
class _Scope:
    id: UUID
    entry_count: int


def _scopes(tenant_id: int, filter: EntryFilter) -> list[_Scope] | None:
    """The memory refs that the filter admits; None when it says nothing about them."""
    if not filter.ref:
        return None
    found = rows_of(
        """
        SELECT s.id, s.entry_count FROM ledger_memoryscope s
        JOIN runs_host h ON h.tenant_id = s.tenant_id AND h.id = s.host_id
        WHERE s.tenant_id = %(tenant)s AND s.memory_ref = %(ref)s AND (%(host)s = '' OR h.slug = %(host)s)
        ORDER BY s.id
        """,
        {"tenant": tenant_id, "ref": storable(filter.ref), "host": storable(filter.host)},
    )
    return [_Scope(*row) for row in found]


_SEEN = "SELECT FROM ledger_contentstate s WHERE s.tenant_id = %(tenant)s AND s.entry_id = e.id"
_LIVES = "(s.expires_at IS NULL OR s.expires_at > %(now)s)"
_IN_STATE: Mapping[str, str] = {
    # As domain.observing.state_of tells them apart.
    ANNOUNCED: f"NOT EXISTS ({_SEEN} AND s.outcome IS NOT NULL)",
    STORED: f"EXISTS ({_SEEN} AND s.outcome = 'content' AND {_LIVES})",
    EXPIRED: f"EXISTS ({_SEEN} AND s.outcome IN ('content', 'gone') AND s.expires_at <= %(now)s)",
    GONE: f"EXISTS ({_SEEN} AND s.outcome = 'gone' AND {_LIVES})",
    DELETED: f"EXISTS ({_SEEN} AND s.outcome = 'deleted')",
    ERASED: f"EXISTS ({_SEEN} AND s.outcome = 'erased')",
}
_WRITTEN = "SELECT FROM ledger_memorywrite w WHERE w.tenant_id = %(tenant)s AND w.entry_id = e.id"
# Tags of what is kept here are part of it: they are hidden with its content.
_KEPT = f"""
    SELECT FROM ledger_ownput p
    JOIN ledger_contentstate s ON s.tenant_id = p.tenant_id AND s.entry_id = p.entry_id
    WHERE p.tenant_id = %(tenant)s AND p.entry_id = e.id AND s.outcome = 'content' AND {_LIVES}
"""  # noqa: S608 - constants


def _where(tenant_id: int, filter: EntryFilter, scopes: Sequence[_Scope] | None) -> tuple[str, dict[str, Any]]:
    """Everything but ``q``, about ``ledger_memoryentry e``."""
    conditions = ["e.tenant_id = %(tenant)s"]
    if scopes is not None and len(scopes) == 1:
        # One of them can be walked in order; the entries of several have to be gathered and sorted.
        conditions.append("e.scope_id = %(scope)s")
    elif scopes is not None:
        conditions.append("e.scope_id = ANY (%(scopes)s::uuid[])")
    elif filter.host:
        conditions.append(
            "e.host_id = (SELECT h.id FROM runs_host h WHERE h.tenant_id = %(tenant)s AND h.slug = %(host)s)"
        )
    if filter.node:
        conditions.append(f"EXISTS ({_WRITTEN} AND w.node_id = %(node)s)")
    if filter.agent:
        conditions.append(f"EXISTS ({_WRITTEN} AND w.agent_id = %(agent)s)")
    if filter.tag:
        conditions.append(
            f"(EXISTS ({_WRITTEN} AND %(tag)s = ANY (w.tags)) OR EXISTS ({_KEPT} AND %(tag)s = ANY (p.tags)))"
        )
    if filter.state:
        conditions.append(_IN_STATE.get(filter.state, "false"))
    return " AND ".join(conditions), {
        "tenant": tenant_id,
        "scope": scopes[0].id if scopes else None,
        "scopes": [scope.id for scope in scopes or ()],
        "host": storable(filter.host),
        "node": storable(filter.node),
        "agent": storable(filter.agent),
        "tag": storable(filter.tag),
    }


def _patterns(q: str) -> list[str]:
    """ILIKE knows the case of ASCII letters in the collation "C", and is twice as fast there as in any other."""
    return list(dict.fromkeys(map(like, (q,) if q.isascii() else (q, q.lower(), q.upper()))))


_NAMED = """(
    e.memory_id COLLATE "C" ILIKE ANY (%(likes)s)
    OR e.scope_id IN (SELECT s.id FROM ledger_memoryscope s
        WHERE s.tenant_id = %(tenant)s AND s.memory_ref COLLATE "C" ILIKE ANY (%(likes)s)))
"""
_SIGNED = """(
    w.node_id COLLATE "C" ILIKE ANY (%(likes)s) OR w.agent_id COLLATE "C" ILIKE ANY (%(likes)s)
    OR array_to_string(w.tags, chr(10)) COLLATE "C" ILIKE ANY (%(likes)s))
"""


_LABELLED = """array_to_string(p.tags, chr(10)) COLLATE "C" ILIKE ANY (%(likes)s)"""
_READS = f"""s.excerpt COLLATE "C" ILIKE ANY (%(likes)s) AND {_LIVES}"""


@dataclass(slots=True)
class _Reading:
    """One list of entries. ``known`` is how many there are, where the memory refs alone say so."""

    filter: EntryFilter
    where: str
    values: dict[str, Any]
    known: int | None

    def rows(self, page: Keyset) -> list[Row]:
        """One more than the page holds, if there is one."""
        return rows_of(
            _described(
                f"SELECT e.* FROM ledger_memoryentry e WHERE {self.where} {page.condition}"  # noqa: S608
                f" {page.order} LIMIT %(most)s",
                page.order,
            ),
            {**self.values, **page.values},
        )

    def count(self) -> tuple[int, bool]:
        """How many entries there are in the list, and whether that is no more than an estimate."""
        if self.filter.is_of_scopes:
            return self._count_of_scopes(), False
        return self._counted()

    def _count_of_scopes(self) -> int:
        if self.known is not None:
            return self.known
        return _number(
            "SELECT coalesce(sum(s.entry_count), 0) FROM ledger_memoryscope s"
            " JOIN runs_host h ON h.tenant_id = s.tenant_id AND h.id = s.host_id"
            " WHERE s.tenant_id = %(tenant)s AND (%(host)s = '' OR h.slug = %(host)s)",
            self.values,
        )

    def _counted(self) -> tuple[int, bool]:
        count = _number(
            f"SELECT count(*) FROM (SELECT FROM ledger_memoryentry e WHERE {self.where} LIMIT %(counted)s) AS counted",
            {**self.values, "counted": COUNTED + 1},
        )
        return min(count, COUNTED), count > COUNTED


@dataclass(slots=True)
class _Search(_Reading):
    """A list that is searched for a text, which no index helps with under row-level security.

    The next entries are searched one by one: what is common is found there, and how common it is. Only for what is
    rare are all of them searched, once for the page and for the count.
    """

    found: tuple[int, bool] | None = None

    def rows(self, page: Keyset) -> list[Row]:
        near = self._near(page)
        matches, looked_at = near[0][-2:] if near else (0, NEAR)
        if looked_at < NEAR and page.edge is None:
            self.found = matches, False
            return near
        if len(near) > page.limit:
            self.found = self._share(matches, looked_at)
            return near
        return self._everywhere(page)

    def count(self) -> tuple[int, bool]:
        assert self.found is not None  # rows() comes first
        return self.found

    def _near(self, page: Keyset) -> list[Row]:
        # OFFSET keeps the planner from searching all writes for these few entries.
        matching = (
            f"SELECT e.*, count(*) OVER () AS matches FROM near e"  # noqa: S608
            f" WHERE {_NAMED} OR EXISTS ({_WRITTEN} AND {_SIGNED} OFFSET 0) OR EXISTS ({_SEEN} AND {_READS} OFFSET 0)"
            f" OR EXISTS ({_KEPT} AND {_LABELLED} OFFSET 0)"
            f" {page.order} LIMIT %(most)s"
        )
        return rows_of(
            f"""
            WITH near AS MATERIALIZED (
                SELECT e.* FROM ledger_memoryentry e WHERE {self.where} {page.condition} {page.order} LIMIT %(near)s)
            SELECT d.*, (SELECT count(*) FROM near)
            FROM ({_described(matching, page.order, further=", e.matches")}) AS d
            """,  # noqa: S608 - constants
            {**self.values, **page.values, "near": NEAR},
        )

    def _share(self, matches: int, looked_at: int) -> tuple[int, bool]:
        whole = self._count_of_scopes() if self._is_of_scopes else self._counted()[0]
        return max(matches, round(whole * matches / looked_at)), True

    @property
    def _is_of_scopes(self) -> bool:
        return replace(self.filter, q="").is_of_scopes

    def _everywhere(self, page: Keyset) -> list[Row]:
        listed = (
            "SELECT e.* FROM hit JOIN ledger_memoryentry e ON e.tenant_id = %(tenant)s AND e.id = hit.id"
            f" WHERE true {page.condition} {page.order} LIMIT %(most)s"
        )
        rows = rows_of(
            f"""
            WITH hit AS MATERIALIZED (
                SELECT e.id FROM ledger_memoryentry e WHERE {self.where} AND {_NAMED}
                UNION
                SELECT e.id FROM ledger_memorywrite w
                JOIN ledger_memoryentry e ON e.tenant_id = w.tenant_id AND e.id = w.entry_id
                WHERE w.tenant_id = %(tenant)s AND {_SIGNED} AND {self.where}
                UNION
                SELECT e.id FROM ledger_contentstate s
                JOIN ledger_memoryentry e ON e.tenant_id = s.tenant_id AND e.id = s.entry_id
                WHERE s.tenant_id = %(tenant)s AND {_READS} AND {self.where}
                UNION
                SELECT e.id FROM ledger_ownput p
                JOIN ledger_contentstate s ON s.tenant_id = p.tenant_id AND s.entry_id = p.entry_id
                JOIN ledger_memoryentry e ON e.tenant_id = p.tenant_id AND e.id = p.entry_id
                WHERE p.tenant_id = %(tenant)s AND s.outcome = 'content' AND {_LIVES} AND {_LABELLED} AND {self.where}
                LIMIT %(counted)s)
            SELECT d.*, counted.hits FROM (SELECT count(*) AS hits FROM hit) AS counted
            LEFT JOIN ({_described(listed, page.order)}) AS d ON true
            """,  # noqa: S608 - constants
            {**self.values, **page.values, "counted": COUNTED + 1},
        )
        hits = rows[0][-1]
        self.found = min(hits, COUNTED), hits > COUNTED
        return [row for row in rows if row[0] is not None]


def _described(entries: str, order: str, *, further: str = "") -> str:
    """Entries with their host, their last write and how their content stands, in their order."""
    return f"""
        SELECT e.id, e.last_at, h.slug, e.memory_ref, e.memory_id, e.write_count - again.repeats,
            l.node_id, l.agent_id, l.run, l.sequence, l.occurred_at,
            (coalesce(l.tags, CASE WHEN s.outcome = 'content' AND {_LIVES} THEN p.tags END))[1:{TAGS}] AS tags,
            d.writers,
            h.memory_route <> '' AS is_read, s.outcome, s.excerpt, s.expires_at AS content_expires_at,
            p.key_name, p.created_at AS put_at{further}
        FROM ({entries}) AS e
        JOIN runs_host h ON h.tenant_id = e.tenant_id AND h.id = e.host_id
        LEFT JOIN LATERAL (
            SELECT w.*, r.run_id AS run FROM ledger_memorywrite w
            JOIN runs_run r ON r.tenant_id = w.tenant_id AND r.id = w.run_id
            WHERE w.tenant_id = e.tenant_id AND w.entry_id = e.id
            ORDER BY w.occurred_at DESC, w.run_id DESC, w.sequence DESC LIMIT 1
        ) l ON true
        LEFT JOIN LATERAL (
            SELECT count(*) AS writers FROM (
                SELECT DISTINCT w.node_id, w.agent_id FROM ledger_memorywrite w
                WHERE e.write_count > 1 AND w.tenant_id = e.tenant_id AND w.entry_id = e.id
                    AND (w.node_id IS NOT NULL OR w.agent_id IS NOT NULL)) AS pairs
        ) d ON true
        CROSS JOIN LATERAL ({OF_ENTRY}) AS again
        LEFT JOIN ledger_contentstate s ON s.tenant_id = e.tenant_id AND s.entry_id = e.id
        LEFT JOIN ledger_ownput p ON p.tenant_id = e.tenant_id AND p.entry_id = e.id
        {order}
    """  # noqa: S608 - constants


def _entry_row(row: Sequence[Any], now: datetime) -> EntryRow:
    pk, _, host, ref, memory_id, writes, node, agent, run, sequence, at, tags, writers = row[:13]
    is_read, outcome, excerpt, expires_at, put_by, put_at = row[13:19]
    state = state_of(outcome, expires_at, now)
    shown = maybe(excerpt) if state in (STORED, GONE) else None
    return EntryRow(
        key=pk.hex,
        host=host,
        memory_ref=original(ref),
        memory_id=original(memory_id),
        excerpt=shown or None,
        unseen="" if shown else _unseen(state, excerpt, is_read=is_read),
        tags=originals(tags),
        node=maybe(node),
        agent=maybe(agent),
        run_id=maybe(run),
        run_host=host if run is not None else None,
        sequence=sequence,
        writers=writers if writes > 1 else int(node is not None or agent is not None),
        writes=writes,
        last_write_at=at,
        state=state,
        expires_at=expires_at if state == STORED else None,
        put_by=maybe(put_by),
        put_at=put_at,
    )


def _unseen(state: str, excerpt: str | None, *, is_read: bool) -> str:
    """Why a list shows no content."""
    if state == ANNOUNCED:
        return "not read yet" if is_read else "content not known: the host’s memory is not read"
    if state == EXPIRED:
        return "hidden: its time is past"
    if state == GONE:
        return "no longer readable"
    if state in (DELETED, ERASED):
        return f"{state} here"
    return "blank" if excerpt == "" else "not shown in lists: no text, or one that looks like a key"


def _number(sql: str, values: Mapping[str, Any]) -> int:
    return int(rows_of(sql, values)[0][0])
