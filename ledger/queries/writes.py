"""One entry, and the writes of entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from runs.domain.storable import original, storable

from ..domain.observing import state_of
from ..domain.reading import Address, entry_id
from .paging import PAGE, Keyset, Order, Row, moment, page_of, rows_of, whole_number
from .repeats import OF_ENTRY
from .rows import TAGS, EntryFacts, Looks, WriteList, WriteRow, maybe, originals

_OF_ENTRY = "FROM ledger_memorywrite w WHERE w.tenant_id = e.tenant_id AND w.entry_id = e.id"
_SUMMED = f"""
SELECT e.write_count - again.repeats, e.write_count - e.attributed_count - again.unattributed,
    (SELECT count(*) FROM (SELECT DISTINCT w.run_id {_OF_ENTRY}) AS runs),
    (SELECT count(*) FROM (SELECT DISTINCT w.node_id, w.agent_id {_OF_ENTRY}
        AND (w.node_id IS NOT NULL OR w.agent_id IS NOT NULL)) AS pairs),
    (SELECT min(w.occurred_at) {_OF_ENTRY}), (SELECT max(w.occurred_at) {_OF_ENTRY}),
    (SELECT w.tags[1:{TAGS}] {_OF_ENTRY} ORDER BY w.occurred_at DESC, w.run_id DESC, w.sequence DESC LIMIT 1),
    CASE WHEN EXISTS (SELECT FROM ledger_ownput p WHERE p.tenant_id = e.tenant_id AND p.entry_id = e.id) THEN 'kept'
        WHEN e.last_run_id IS NULL THEN 'seen' ELSE 'merged' END, s.outcome, s.expires_at,
    again.repeats, coalesce(s.number, 0), s.seen_at, coalesce(s.error, ''), s.error_at, s.next_at
FROM ledger_memoryentry e
CROSS JOIN LATERAL ({OF_ENTRY}) AS again
LEFT JOIN ledger_contentstate s ON s.tenant_id = e.tenant_id AND s.entry_id = e.id
WHERE e.tenant_id = %s AND e.id = %s
"""  # noqa: S608 - constants


def find_entry(
    tenant_id: int, host: str, memory_ref: str, memory_id: str, *, now: datetime | None = None
) -> EntryFacts | None:
    """None for one that no event names and nobody saw, and for a host of another tenant: nobody can tell which."""
    hosts = rows_of(
        "SELECT id, coalesce(nullif(name, ''), slug), memory_route <> '' FROM runs_host"
        " WHERE tenant_id = %s AND slug = %s",
        [tenant_id, host],
    )
    if not hosts:
        return None
    ((host_pk, host_name, is_read),) = hosts
    pk = entry_id(host_pk, Address(storable(memory_ref), storable(memory_id)))
    summed = rows_of(_SUMMED, [tenant_id, pk])
    if not summed:
        return None
    writes, unattributed, runs, writers, first, last, tags, origin, outcome, expires_at, repeats, *looks = summed[0]
    return EntryFacts(
        pk=pk,
        host_pk=host_pk,
        host=host,
        host_name=host_name,
        memory_ref=memory_ref,
        memory_id=memory_id,
        state=state_of(outcome, expires_at, now or timezone.now()),
        state_reason="" if writes else _REASONS[origin],
        is_read=is_read,
        looks=_looks(*looks),
        tags=originals(tags),
        first_write_at=first,
        last_write_at=last,
        writes=writes,
        writers=writers,
        runs=runs,
        unattributed=unattributed,
        repeats=repeats,
    )


def _looks(
    total: int, seen_at: datetime | None, error: str, error_at: datetime | None, next_at: datetime | None
) -> Looks:
    return Looks(total, seen_at, original(error), error_at, next_at)


# Why there is an entry that no write tells of.
_REASONS = {
    "kept": "Put here; no event names it.",
    "seen": "Seen on its host; no event names it.",
    "merged": "Named by a merge; no write of it has been seen.",
}


BY_TIME = Order(
    columns=(("w.occurred_at", "timestamptz"), ("w.run_id", "bigint"), ("w.sequence", "bigint")),
    write=lambda row: [row[4].isoformat(), row[0], row[3]],
    read=lambda place: (moment(place[0]), whole_number(place[1]), whole_number(place[2])),
)


def entry_writes(
    tenant_id: int,
    entry: UUID,
    *,
    before: str | None = None,
    after: str | None = None,
    limit: int = PAGE,
) -> WriteList:
    """All writes of an entry, in whichever run and by whomever, newest first. Raises BrokenCursor."""
    page, found = page_of(
        lambda page: find_writes("w.entry_id = %(entry)s", {"tenant": tenant_id, "entry": entry}, page),
        BY_TIME,
        limit,
        before=before,
        after=after,
    )
    shown, newer, older = page.cut(found)
    return WriteList(rows=tuple(map(write_row, shown)), newer=newer, older=older)


def latest_writes(tenant_id: int, *, limit: int = 12) -> tuple[WriteRow, ...]:
    """The newest writes of a tenant, by the time that their hosts report."""
    found = find_writes("true", {"tenant": tenant_id}, Keyset(BY_TIME, limit))
    return tuple(map(write_row, found[:limit]))


def find_writes(condition: str, values: Mapping[str, Any], page: Keyset) -> list[Row]:
    """Those of the tenant in ``values`` for which ``condition`` about ``w`` holds."""
    return rows_of(
        f"""
        SELECT w.run_id, h.slug, r.run_id, w.sequence, w.occurred_at, v.received_at, w.node_id, w.agent_id,
            e.memory_ref, e.memory_id, w.tags[1:{TAGS}]
        FROM (SELECT w.* FROM ledger_memorywrite w WHERE w.tenant_id = %(tenant)s AND {condition} {page.condition}
            {page.order} LIMIT %(most)s) AS w
        JOIN runs_run r ON r.tenant_id = w.tenant_id AND r.id = w.run_id
        JOIN runs_host h ON h.tenant_id = r.tenant_id AND h.id = r.host_id
        LEFT JOIN runs_event v ON v.tenant_id = w.tenant_id AND v.run_id = w.run_id AND v.sequence = w.sequence
        LEFT JOIN ledger_memoryentry e ON e.tenant_id = w.tenant_id AND e.id = w.entry_id
        {page.order}
        """,  # noqa: S608 - constants
        {**page.values, **values},
    )


def write_row(row: Sequence[Any]) -> WriteRow:
    run, host, run_id, sequence, at, received_at, node, agent, ref, memory_id, tags = row
    return WriteRow(
        key=f"{run}-{sequence}",
        host=host,
        run_id=original(run_id),
        sequence=sequence,
        at=at,
        received_at=received_at,
        node=maybe(node),
        agent=maybe(agent),
        memory_ref=original(ref or ""),
        memory_id=original(memory_id or ""),
        tags=originals(tags),
    )
