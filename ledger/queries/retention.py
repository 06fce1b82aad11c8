"""What is due to be taken away, and what was: by whom, when, and how much of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from runs.domain.storable import original

from ..policies import LedgerPolicy
from .paging import PAGE, Order, Row, moment, page_of, rows_of, uuid


@dataclass(frozen=True, slots=True)
class Tombstone:
    """``counts`` say how much of what went. ``entry`` is the address (host, memory ref, memory id) of an entry that was
    erased; of a subject the hash of its name is all there is."""

    id: UUID
    kind: str
    at: datetime
    actor: str
    counts: Mapping[str, int]
    before: str | None
    entry: tuple[str, str, str] | None
    subject_hash: str | None


@dataclass(frozen=True, slots=True)
class TombstoneList:
    rows: tuple[Tombstone, ...]
    total: int
    newer: str | None
    older: str | None


@dataclass(frozen=True, slots=True)
class DueRun:
    host: str
    run_id: str
    events: int
    last_received_at: datetime


@dataclass(frozen=True, slots=True)
class ErasedItemRow:
    kind: str
    item: str
    digest: str | None


_BY_TIME = Order(
    columns=(("e.at", "timestamptz"), ("e.id", "uuid")),
    write=lambda row: [row[2].isoformat(), str(row[0])],
    read=lambda place: (moment(place[0]), uuid(place[1])),
)


def tombstones(
    tenant_id: int, *, before: str | None = None, after: str | None = None, limit: int = PAGE
) -> TombstoneList:
    """The last one first. Raises BrokenCursor."""
    page, found = page_of(
        lambda page: rows_of(
            f"""
            SELECT e.id, e.kind, e.at, e.actor, e.counts::text, encode(e.subject_hash, 'hex'), h.slug, m.memory_ref,
                m.memory_id
            FROM ledger_erasure e
            LEFT JOIN ledger_memoryentry m ON m.tenant_id = e.tenant_id AND m.id = e.entry_id
            LEFT JOIN runs_host h ON h.tenant_id = m.tenant_id AND h.id = m.host_id
            WHERE e.tenant_id = %(tenant)s {page.condition} {page.order} LIMIT %(most)s
            """,  # noqa: S608 - constants
            {**page.values, "tenant": tenant_id},
        ),
        _BY_TIME,
        limit,
        before=before,
        after=after,
    )
    shown, newer, older = page.cut(found)
    ((total,),) = rows_of("SELECT count(*) FROM ledger_erasure WHERE tenant_id = %s", [tenant_id])
    return TombstoneList(tuple(map(_tombstone, shown)), total, newer, older)


def find_tombstone(tenant_id: int, erasure: UUID) -> Tombstone | None:
    found = rows_of(
        """
        SELECT e.id, e.kind, e.at, e.actor, e.counts::text, encode(e.subject_hash, 'hex'), h.slug, m.memory_ref,
            m.memory_id
        FROM ledger_erasure e
        LEFT JOIN ledger_memoryentry m ON m.tenant_id = e.tenant_id AND m.id = e.entry_id
        LEFT JOIN runs_host h ON h.tenant_id = m.tenant_id AND h.id = m.host_id
        WHERE e.tenant_id = %s AND e.id = %s
        """,
        [tenant_id, erasure],
    )
    return _tombstone(found[0]) if found else None


def _tombstone(row: Row) -> Tombstone:
    pk, kind, at, actor, counts, subject, host, ref, memory_id = row
    told = json.loads(counts)
    before = told.pop("before", None)
    return Tombstone(
        id=pk,
        kind=kind,
        at=at,
        actor=original(actor),
        counts=told,
        before=before,
        entry=(host, original(ref), original(memory_id)) if host is not None else None,
        subject_hash=subject,
    )


def erased_items(tenant_id: int, erasure: UUID, *, most: int = 1000) -> tuple[ErasedItemRow, ...]:
    found = rows_of(
        "SELECT kind, item, encode(digest, 'hex') FROM ledger_eraseditem"
        " WHERE tenant_id = %s AND erasure_id = %s ORDER BY kind, item LIMIT %s",
        [tenant_id, erasure, most],
    )
    return tuple(ErasedItemRow(*row) for row in found)


def payloads_due(tenant_id: int, policy: LedgerPolicy, *, now: datetime) -> int:
    """Source events whose payload is to be taken away: not before they have been read."""
    if policy.payload_days is None:
        return 0
    ((count,),) = rows_of(
        "SELECT count(*) FROM ledger_sourceevent e JOIN ledger_job j"
        " ON j.tenant_id = e.tenant_id AND j.source_event_id = e.id"
        " WHERE e.tenant_id = %s AND e.payload IS NOT NULL AND e.received_at < %s AND j.status IN ('done', 'failed')",
        [tenant_id, now - timedelta(days=policy.payload_days)],
    )
    return int(count)


def runs_due(tenant_id: int, policy: LedgerPolicy, *, now: datetime, most: int | None = 20) -> tuple[DueRun, ...]:
    """Runs whose events' payloads are to be taken away, counted from the last event that came: the oldest first."""
    if policy.event_days is None:
        return ()
    found = rows_of(
        """
        SELECT h.slug, r.run_id, r.event_count, r.last_received_at FROM runs_run r
        JOIN runs_host h ON h.tenant_id = r.tenant_id AND h.id = r.host_id
        LEFT JOIN ledger_withheldrun w ON w.tenant_id = r.tenant_id AND w.run_id = r.id
        WHERE r.tenant_id = %s AND r.last_received_at < %s AND r.event_count > 0
            AND (w.run_id IS NULL OR NOT w.is_done OR w.event_count <> r.event_count)
        ORDER BY r.last_received_at, r.id LIMIT %s
        """,
        [tenant_id, now - timedelta(days=policy.event_days), most],
    )
    return tuple(DueRun(host, original(run), events, at) for host, run, events, at in found)
