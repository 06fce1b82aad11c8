"""What became of attempted memory writes: of a tenant, a run or an entry, and the writes that nothing asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from runs.domain.storable import original, storable
from runs.queries import Option

from ..domain.attempts import Trace
from ..domain.receipt_words import REASONS, TRACES
from ..domain.receipts import Reason, State
from .paging import PAGE, Keyset, Order, Row, moment, page_of, rows_of, whole_number
from .rows import WriteList, maybe
from .writes import BY_TIME, find_writes, write_row

COUNTED = 100_000
"""Attempts that match a filter are counted up to here."""
TOOLS = 50
NEAR = 20_000
"""The tools to choose from are those of so many of the newest attempts."""

STATES = tuple(State)


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """``sequence`` is the event's; None for what the host's memory shows, with the time of that."""

    trace: Trace
    sequence: int | None
    inferred: bool
    at: datetime | None = None

    @property
    def words(self) -> str:
        return TRACES[self.trace]


@dataclass(frozen=True, slots=True)
class AddressRow:
    key: str | None
    scope: str | None
    identity: str


@dataclass(frozen=True, slots=True)
class ReceiptRow:
    """One attempt. ``has_entry``: the ledger has the entry that its address names. ``repeats`` is the sequence of an
    earlier attempt at the same effect."""

    key: str
    host: str
    run_id: str
    sequence: int
    at: datetime
    tool: str
    state: State
    reasons: tuple[str, ...]
    evidence: tuple[EvidenceRow, ...]
    call_id: str | None
    node: str | None
    agent: str | None
    digest: str | None
    asked: AddressRow | None
    returned: AddressRow | None
    memory_ref: str | None
    memory_id: str | None
    has_entry: bool
    write: int | None
    repeat: str
    repeats: int | None
    attempt: int
    claimed_only: bool

    @property
    def why(self) -> tuple[str, ...]:
        return tuple(REASONS[Reason(reason)] for reason in self.reasons)

    @property
    def differs(self) -> bool:
        return self.returned is not None and self.returned != self.asked


@dataclass(frozen=True, slots=True)
class ReceiptList:
    rows: tuple[ReceiptRow, ...]
    newer: str | None
    older: str | None


@dataclass(frozen=True, slots=True)
class ReceiptCounts:
    """Attempts by state; ``claimed_only`` are among them. ``unasked`` are writes that no attempt accounts for.
    ``is_estimate``: there are more attempts than were counted. ``behind`` are runs that are to be read again."""

    states: Mapping[State, int]
    claimed_only: int
    unasked: int
    is_estimate: bool = False
    behind: int = 0

    @property
    def attempts(self) -> int:
        return sum(self.states.values())

    def of(self, state: str) -> int:
        return self.states.get(State(state), 0)

    @property
    def by_state(self) -> tuple[tuple[State, int], ...]:
        return tuple((state, self.states.get(state, 0)) for state in STATES)


@dataclass(frozen=True, slots=True)
class ReceiptFilter:
    """What a list of attempts is narrowed to; "" and None mean any. ``run_pk`` and ``entry`` are our own keys, ``run``
    is the host's id of a run."""

    state: str = ""
    host: str = ""
    tool: str = ""
    run: str = ""
    claimed_only: bool = False
    unproven: bool = False
    run_pk: int | None = None
    entry: UUID | None = None

    def only(self, show: str) -> ReceiptFilter:
        return replace(self, claimed_only=show == "claimed_only")

    def where(self, tenant_id: int, *, state: bool = True) -> tuple[str, dict[str, Any]]:
        """About ``q``; ``state=False`` leaves out what is about the state."""
        conditions = ["q.tenant_id = %(tenant)s"]
        if state and self.state:
            conditions.append("q.state = %(state)s")
        if state and self.claimed_only:
            conditions.append("q.claimed_only")
        if state and self.unproven:
            conditions.append("q.state <> 'confirmed'")
        if self.host:
            conditions.append(_ON_HOST.format("q.host_id"))
        if self.tool:
            conditions.append("q.tool = %(tool)s")
        if self.run:
            conditions.append(_OF_RUNS.format("q.run_id"))
        if self.run_pk is not None:
            conditions.append("q.run_id = %(run_pk)s")
        if self.entry is not None:
            conditions.append("q.entry_id = %(entry)s")
        return " AND ".join(conditions), {
            "tenant": tenant_id,
            "state": self.state,
            "host": storable(self.host),
            "tool": storable(self.tool),
            "run": storable(self.run),
            "run_pk": self.run_pk,
            "entry": self.entry,
        }


_ON_HOST = "{} = (SELECT h.id FROM runs_host h WHERE h.tenant_id = %(tenant)s AND h.slug = %(host)s)"
_OF_RUNS = "{} IN (SELECT r.id FROM runs_run r WHERE r.tenant_id = %(tenant)s AND r.run_id = %(run)s)"

_BY_TIME = Order(
    columns=(("q.occurred_at", "timestamptz"), ("q.run_id", "bigint"), ("q.sequence", "bigint")),
    write=lambda row: [row[4].isoformat(), row[0], row[3]],
    read=lambda place: (moment(place[0]), whole_number(place[1]), whole_number(place[2])),
)
_BY_SEQUENCE = Order(
    columns=(("q.sequence", "bigint"),),
    write=lambda row: [row[3]],
    read=lambda place: (whole_number(place[0]),),
    ascending=True,
)
_WRITES_BY_SEQUENCE = replace(_BY_SEQUENCE, columns=(("w.sequence", "bigint"),))


def receipt_list(
    tenant_id: int,
    filter: ReceiptFilter = ReceiptFilter(),  # noqa: B008 - frozen
    *,
    before: str | None = None,
    after: str | None = None,
    limit: int = PAGE,
) -> ReceiptList:
    """Newest first; within one run (``run_pk``) in the order of its log. Raises BrokenCursor."""
    order = _BY_TIME if filter.run_pk is None else _BY_SEQUENCE
    where, values = filter.where(tenant_id)
    page, found = page_of(lambda page: _rows(where, values, page), order, limit, before=before, after=after)
    shown, newer, older = page.cut(found)
    return ReceiptList(tuple(map(_row, shown)), newer, older)


def entry_receipts(tenant_id: int, entry: UUID) -> tuple[ReceiptRow, ...]:
    """The newest attempts that are about one entry: one more than a page holds, if there are more."""
    return receipt_list(tenant_id, ReceiptFilter(entry=entry), limit=PAGE + 1).rows


def _rows(where: str, values: Mapping[str, Any], page: Keyset) -> list[Row]:
    return rows_of(
        f"""
        SELECT q.run_id, h.slug, r.run_id, q.sequence, q.occurred_at, q.tool, q.state, q.reasons, q.evidence,
            q.call_id, q.node_id, q.agent_id, encode(q.digest, 'hex'), q.asked_key, q.asked_scope, q.asked_identity,
            q.returned_key, q.returned_scope, q.returned_identity, q.memory_ref, q.memory_id, e.id IS NOT NULL,
            q.write_sequence, q.repeat, q.repeats, q.attempt, q.claimed_only, s.seen_at, s.outcome = 'content'
        FROM (SELECT q.* FROM ledger_receipt q WHERE {where} {page.condition} {page.order} LIMIT %(most)s) AS q
        JOIN runs_run r ON r.tenant_id = q.tenant_id AND r.id = q.run_id
        JOIN runs_host h ON h.tenant_id = q.tenant_id AND h.id = q.host_id
        LEFT JOIN ledger_memoryentry e ON e.tenant_id = q.tenant_id AND e.id = q.entry_id
        LEFT JOIN ledger_contentstate s ON s.tenant_id = q.tenant_id AND s.entry_id = q.entry_id
        {page.order}
        """,  # noqa: S608 - constants
        {**values, **page.values},
    )


def _row(row: Sequence[Any]) -> ReceiptRow:
    run, host, run_id, sequence, at, tool, state, reasons, evidence, call, node, agent, digest, *rest = row
    asked, returned, (ref, memory_id, has_entry, write, repeat, repeats, attempt, claimed, seen_at, is_seen) = (
        rest[:3],
        rest[3:6],
        rest[6:],
    )
    return ReceiptRow(
        key=f"{run}-{sequence}",
        host=host,
        run_id=original(run_id),
        sequence=sequence,
        at=at,
        tool=original(tool),
        state=State(state),
        reasons=tuple(reasons),
        evidence=(*_evidence(evidence), *_read_back(seen_at, is_seen=bool(is_seen))),
        call_id=maybe(call),
        node=maybe(node),
        agent=maybe(agent),
        digest=digest,
        asked=_address(*asked),
        returned=_address(*returned),
        memory_ref=maybe(ref),
        memory_id=maybe(memory_id),
        has_entry=has_entry,
        write=write,
        repeat=repeat,
        repeats=repeats,
        attempt=attempt,
        claimed_only=claimed,
    )


def _evidence(told: str) -> list[EvidenceRow]:
    return [EvidenceRow(Trace(trace), sequence, inferred) for trace, sequence, inferred in json.loads(told)]


def _read_back(at: datetime | None, *, is_seen: bool) -> list[EvidenceRow]:
    return [EvidenceRow(Trace.READ_BACK, None, inferred=False, at=at)] if is_seen else []


def _address(key: str | None, scope: str | None, identity: str | None) -> AddressRow | None:
    return None if identity is None else AddressRow(maybe(key), maybe(scope), original(identity))


# --- Counts ---


def receipt_counts(tenant_id: int, filter: ReceiptFilter = ReceiptFilter()) -> ReceiptCounts:  # noqa: B008 - frozen
    """Whatever state the filter names, all states are counted."""
    where, values = filter.where(tenant_id, state=False)
    found = rows_of(
        f"""
        SELECT q.state, count(*), count(*) FILTER (WHERE q.claimed_only)
        FROM (SELECT q.state, q.claimed_only FROM ledger_receipt q WHERE {where} LIMIT %(counted)s) AS q GROUP BY 1
        """,  # noqa: S608 - constants
        {**values, "counted": COUNTED},
    )
    states = {State(state): count for state, count, _ in found}
    unasked, behind = _unasked_count(tenant_id, filter)
    return ReceiptCounts(
        states=states,
        claimed_only=sum(claimed for *_, claimed in found),
        unasked=unasked,
        is_estimate=sum(states.values()) >= COUNTED,
        behind=behind,
    )


def _unasked_count(tenant_id: int, filter: ReceiptFilter) -> tuple[int, int]:
    """How many writes no attempt accounts for, and how many runs have news that no receipt knows of yet."""
    writes, values = ReceiptFilter(host=filter.host, run=filter.run, run_pk=filter.run_pk).where(tenant_id)
    ((unasked, behind),) = rows_of(
        f"""
        SELECT greatest(0, (SELECT coalesce(sum(r.write_count), 0) FROM runs_run r WHERE r.tenant_id = %(tenant)s
                AND {_of_runs(filter)})
            - (SELECT count(*) FROM ledger_receipt q WHERE {writes} AND q.write_sequence IS NOT NULL))::bigint,
            (SELECT count(*) FROM ledger_receiptreading b WHERE b.tenant_id = %(tenant)s AND b.is_stale)
        """,  # noqa: S608 - constants
        values,
    )
    return unasked, behind


def _of_runs(filter: ReceiptFilter) -> str:
    """About ``r``. Writes have no tool."""
    conditions = ["true"]
    if filter.host:
        conditions.append(_ON_HOST.format("r.host_id"))
    if filter.run:
        conditions.append("r.run_id = %(run)s")
    if filter.run_pk is not None:
        conditions.append("r.id = %(run_pk)s")
    return " AND ".join(conditions)


def tool_options(tenant_id: int) -> tuple[Option, ...]:
    """The tools that attempts were made with, the commonest first."""
    found = rows_of(
        """
        SELECT tool, count(*) FROM (
            SELECT tool FROM ledger_receipt WHERE tenant_id = %s
            ORDER BY occurred_at DESC, run_id DESC, sequence DESC LIMIT %s) AS newest
        GROUP BY tool ORDER BY 2 DESC, 1 LIMIT %s
        """,
        [tenant_id, NEAR, TOOLS],
    )
    return tuple(Option(original(tool), original(tool), count) for tool, count in found)


# --- Writes that nothing asked for ---

_UNASKED = """NOT EXISTS (SELECT FROM ledger_receipt q
    WHERE q.tenant_id = w.tenant_id AND q.run_id = w.run_id AND q.write_sequence = w.sequence)"""


def unasked_writes(
    tenant_id: int,
    filter: ReceiptFilter = ReceiptFilter(),  # noqa: B008 - frozen
    *,
    before: str | None = None,
    after: str | None = None,
    limit: int = PAGE,
) -> WriteList:
    """The ``memory.written`` events that no attempt accounts for: a workflow's own, or a tool's that is not known as
    one. In the order of ``receipt_list``. Raises BrokenCursor."""
    conditions = [_UNASKED]
    if filter.host:
        conditions.append(
            "EXISTS (SELECT FROM runs_run r WHERE r.tenant_id = w.tenant_id AND r.id = w.run_id"
            f" AND {_ON_HOST.format('r.host_id')})"
        )
    if filter.run:
        conditions.append(_OF_RUNS.format("w.run_id"))
    if filter.run_pk is not None:
        conditions.append("w.run_id = %(run_pk)s")
    _, values = filter.where(tenant_id)
    page, found = page_of(
        lambda page: find_writes(" AND ".join(conditions), values, page),
        BY_TIME if filter.run_pk is None else _WRITES_BY_SEQUENCE,
        limit,
        before=before,
        after=after,
    )
    shown, newer, older = page.cut(found)
    return WriteList(rows=tuple(map(write_row, shown)), newer=newer, older=older)
