"""Memory entries by their ids, with what is known of their content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from runs.domain.storable import original

from ..domain.observing import state_of
from .paging import rows_of
from .rows import STORED, maybe, originals


@dataclass(frozen=True, slots=True)
class EntryMemory:
    """``content`` is what was seen last of an entry that is there to be read; None of one that is not."""

    id: UUID
    host: str
    memory_ref: str
    memory_id: str
    state: str
    content: str | None
    tags: tuple[str, ...]
    created_at: datetime | None
    expires_at: datetime | None
    first_at: datetime
    last_at: datetime
    writes: int


def entries_by_id(tenant_id: int, ids: Sequence[UUID], *, now: datetime) -> dict[UUID, EntryMemory]:
    found = rows_of(
        """
        SELECT e.id, h.slug, e.memory_ref, e.memory_id, s.outcome, s.expires_at, o.content, o.tags,
            o.created_at_reported, e.first_at, e.last_at, e.write_count
        FROM ledger_memoryentry e
        JOIN runs_host h ON h.tenant_id = e.tenant_id AND h.id = e.host_id
        LEFT JOIN ledger_contentstate s ON s.tenant_id = e.tenant_id AND s.entry_id = e.id
        LEFT JOIN LATERAL (
            SELECT o.content, o.tags, o.created_at_reported FROM ledger_observation o
            WHERE o.tenant_id = e.tenant_id AND o.entry_id = e.id AND o.outcome = 'content'
            ORDER BY o.number DESC LIMIT 1
        ) AS o ON true
        WHERE e.tenant_id = %s AND e.id = ANY (%s::uuid[])
        """,
        [tenant_id, list(ids)],
    )
    known: dict[UUID, EntryMemory] = {}
    for id, host, ref, memory_id, outcome, expires, content, tags, created, first, last, writes in found:
        state = state_of(outcome, expires, now)
        is_there = state == STORED
        known[id] = EntryMemory(
            id=id,
            host=host,
            memory_ref=original(ref),
            memory_id=original(memory_id),
            state=state,
            content=maybe(content) if is_there else None,
            tags=originals(tags) if is_there else (),
            created_at=created,
            expires_at=expires if is_there else None,
            first_at=first,
            last_at=last,
            writes=writes,
        )
    return known
