"""One entry, and the writes of entries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from runs.domain.storable import original, storable

from ..domain.observing import state_of
from ..domain.reading import Address, entry_id
from .paging import PAGE, Keyset, Order, Row, moment, page_of, rows_of, whole_number
from .rows import TAGS, EntryFacts, Looks, WriteList, WriteRow, maybe, originals

_OF_ENTRY = "FROM ledger_memorywrite w WHERE w.tenant_id = e.tenant_id AND w.entry_id = e.id"
_SUMMED = f"""
SELECT e.write_count, e.write_count - e.attributed_count,
    (SELECT count(*) FROM (SELECT DISTINCT w.run_id {_OF_ENTRY}) AS runs),
    (SELECT count(*) FROM (SELECT DISTINCT w.node_id, w.agent_id {_OF_ENTRY}
        AND (w.node_id IS NOT NULL OR w.agent_id IS NOT NULL)) AS pairs),
    (SELECT min(w.occurred_at) {_OF_ENTRY}), (SELECT max(w.occurred_at) {_OF_ENTRY}),
    (SELECT w.tags[1:{TAGS}] {_OF_ENTRY} ORDER BY w.occurred_at DESC, w.run_id DESC, w.sequence DESC LIMIT 1),
    e.last_run_id IS NULL, s.outcome, s.expires_at,
    coalesce(s.number, 0), s.seen_at, coalesce(s.error, ''), s.error_at, s.next_at
FROM ledger_memoryentry e
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
    ((writes, unattributed, runs, writers, first, last, tags, is_unnamed, outcome, expires_at, *looks),) = summed
    return EntryFacts(
        pk=pk,
        host_pk=host_pk,
        host=host,
        host_name=host_name,
        memory_ref=memory_ref,
        memory_id=memory_id,
        state=state_of(outcome, expires_at, now or timezone.now()),
        state_reason=_reason(writes, is_unnamed=is_unnamed),
        is_read=is_read,
        looks=_looks(*looks),
        tags=originals(tags),
        first_write_at=first,
        last_write_at=last,
        writes=writes,
        writers=writers,
        runs=runs,
        unattributed=unattributed,
    )


def _looks(
    total: int, seen_at: datetime | None, error: str, error_at: datetime | None, next_at: datetime | None
) -> Looks:
    return Looks(total, seen_at, original(error), error_at, next_at)


def _reason(writes: int, *, is_unnamed: bool) -> str:
    if writes:
        return ""
    return "Seen on its host; no event names it." if is_unnamed else "Named by a merge; no write of it has been seen."


_BY_TIME = Order(
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
        lambda page: _write_rows("w.tenant_id = %(tenant)s AND w.entry_id = %(entry)s", tenant_id, entry, page),
        _BY_TIME,
        limit,
        before=before,
        after=after,
    )
    shown, newer, older = page.cut(found)
    return WriteList(rows=tuple(_write_row(row) for row in shown), newer=newer, older=older)


def latest_writes(tenant_id: int, *, limit: int = 12) -> tuple[WriteRow, ...]:
    """The newest writes of a tenant, by the time that their hosts report."""
    found = _write_rows("w.tenant_id = %(tenant)s", tenant_id, None, Keyset(_BY_TIME, limit))
    return tuple(_write_row(row) for row in found[:limit])


def _write_rows(condition: str, tenant_id: int, entry: UUID | None, page: Keyset) -> list[Row]:
    return rows_of(
        f"""
        SELECT w.run_id, h.slug, r.run_id, w.sequence, w.occurred_at, v.received_at, w.node_id, w.agent_id,
            e.memory_ref, e.memory_id, w.tags[1:{TAGS}]
        FROM (SELECT w.* FROM ledger_memorywrite w WHERE {condition} {page.condition}
            {page.order} LIMIT %(most)s) AS w
        JOIN runs_run r ON r.tenant_id = w.tenant_id AND r.id = w.run_id
        JOIN runs_host h ON h.tenant_id = r.tenant_id AND h.id = r.host_id
        LEFT JOIN runs_event v ON v.tenant_id = w.tenant_id AND v.run_id = w.run_id AND v.sequence = w.sequence
        LEFT JOIN ledger_memoryentry e ON e.tenant_id = w.tenant_id AND e.id = w.entry_id
        {page.order}
        """,  # noqa: S608 - constants
        {**page.values, "tenant": tenant_id, "entry": entry},
    )


def _write_row(row: Sequence[Any]) -> WriteRow:
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
