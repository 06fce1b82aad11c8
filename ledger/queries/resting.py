"""What rests on an entry: where it went, what was read from it, and which runs may have read it.

That an entry went into another one and that a claim was read from it is recorded. That a run read it never is: a later
run that used the same memory ref may have, and is told of as no more than that.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from runs.domain.storable import original, storable

from ..domain.observing import state_of
from .paging import rows_of
from .rows import STORED, EntryFacts, maybe

SHOWN = 25
COUNTED = 1_000


@dataclass(frozen=True, slots=True)
class LaterEntry:
    """An entry that it went into, ``depth`` merges on."""

    host: str
    memory_ref: str
    memory_id: str
    depth: int
    at: datetime


@dataclass(frozen=True, slots=True)
class LaterClaim:
    id: UUID
    subject: str
    key: str
    display: str
    status: str
    writer: str


@dataclass(frozen=True, slots=True)
class LaterRun:
    """``relation`` is how it is recorded to come from a run that wrote the entry; "" where reading is only inferred."""

    host: str
    run_id: str
    relation: str
    status: str
    started_at: datetime | None


@dataclass(frozen=True, slots=True)
class Resting:
    """The first SHOWN of each, and how many there are, up to COUNTED."""

    entries: tuple[LaterEntry, ...]
    entries_total: int
    claims: tuple[LaterClaim, ...]
    claims_total: int
    forks: tuple[LaterRun, ...]
    forks_total: int
    readers: tuple[LaterRun, ...]
    readers_total: int

    @property
    def is_nothing(self) -> bool:
        return not (self.entries_total or self.claims_total or self.forks_total or self.readers_total)


def resting(tenant_id: int, entry: EntryFacts) -> Resting:
    values = {"tenant": tenant_id, "entry": entry.pk, "host": entry.host_pk, "most": COUNTED}
    entries = rows_of(_INTO, values)
    claims = rows_of(_CLAIMS, values)
    forks = rows_of(_FORKS, values)
    readers = rows_of(_READERS, {**values, "ref": storable(entry.memory_ref), "since": entry.first_write_at})
    return Resting(
        entries=tuple(
            LaterEntry(host, original(ref), original(id), depth, at) for host, ref, id, depth, at in entries[:SHOWN]
        ),
        entries_total=len(entries),
        claims=tuple(
            LaterClaim(id, original(subject), original(key), original(display), status, original(writer))
            for id, subject, key, display, status, writer in claims[:SHOWN]
        ),
        claims_total=len(claims),
        forks=tuple(LaterRun(host, original(run), how, status, at) for host, run, how, status, at in forks[:SHOWN]),
        forks_total=len(forks),
        readers=tuple(LaterRun(host, original(run), "", status, at) for host, run, status, at in readers[:SHOWN]),
        readers_total=len(readers),
    )


_INTO = """
WITH RECURSIVE later AS (
    SELECT m.output_id AS id, 1 AS depth, m.occurred_at AS at FROM ledger_mergesource s
    JOIN ledger_merge m ON m.tenant_id = s.tenant_id AND m.run_id = s.run_id AND m.sequence = s.sequence
    WHERE s.tenant_id = %(tenant)s AND s.entry_id = %(entry)s AND m.output_id IS NOT NULL
    UNION
    SELECT m.output_id, l.depth + 1, m.occurred_at FROM later l
    JOIN ledger_mergesource s ON s.tenant_id = %(tenant)s AND s.entry_id = l.id
    JOIN ledger_merge m ON m.tenant_id = s.tenant_id AND m.run_id = s.run_id AND m.sequence = s.sequence
    WHERE m.output_id IS NOT NULL AND l.depth < 16
)
SELECT h.slug, e.memory_ref, e.memory_id, min(l.depth) AS depth, min(l.at) AS at
FROM (SELECT * FROM later LIMIT %(most)s) AS l
JOIN ledger_memoryentry e ON e.tenant_id = %(tenant)s AND e.id = l.id
JOIN runs_host h ON h.tenant_id = e.tenant_id AND h.id = e.host_id
GROUP BY h.slug, e.memory_ref, e.memory_id ORDER BY depth, at, e.memory_ref, e.memory_id
"""
_CLAIMS = """
SELECT c.id, x.subject, k.key, c.display, x.status, c.writer FROM ledger_sourceevent s
JOIN ledger_claimrow c ON c.tenant_id = s.tenant_id AND c.source_event_id = s.id
JOIN ledger_claimstate x ON x.tenant_id = c.tenant_id AND x.claim_id = c.id
JOIN ledger_subjectkey k ON k.tenant_id = c.tenant_id AND k.id = c.subject_key_id
WHERE s.tenant_id = %(tenant)s AND s.entry_id = %(entry)s
ORDER BY c.observed_at DESC, c.id LIMIT %(most)s
"""
_FORKS = """
SELECT h.slug, r.run_id, r.relation, r.status, r.started_at FROM (
    SELECT DISTINCT p.host_id, p.run_id FROM ledger_memorywrite w
    JOIN runs_run p ON p.tenant_id = w.tenant_id AND p.id = w.run_id
    WHERE w.tenant_id = %(tenant)s AND w.entry_id = %(entry)s LIMIT %(most)s
) AS p
JOIN runs_run r ON r.tenant_id = %(tenant)s AND r.host_id = p.host_id AND r.parent_run_id = p.run_id
    AND r.relation <> ''
JOIN runs_host h ON h.tenant_id = r.tenant_id AND h.id = r.host_id
ORDER BY r.started_at NULLS LAST, r.id LIMIT %(most)s
"""
_READERS = """
SELECT h.slug, r.run_id, r.status, r.started_at FROM (
    SELECT DISTINCT w.run_id FROM ledger_memoryscope s
    JOIN ledger_memoryentry e ON e.tenant_id = s.tenant_id AND e.scope_id = s.id
    JOIN ledger_memorywrite w ON w.tenant_id = e.tenant_id AND w.entry_id = e.id
    WHERE s.tenant_id = %(tenant)s AND s.host_id = %(host)s AND s.memory_ref = %(ref)s AND w.occurred_at > %(since)s
        AND e.last_at > %(since)s
    LIMIT %(most)s
) AS used
JOIN runs_run r ON r.tenant_id = %(tenant)s AND r.id = used.run_id AND r.started_at > %(since)s
JOIN runs_host h ON h.tenant_id = r.tenant_id AND h.id = r.host_id
WHERE NOT EXISTS (
    SELECT FROM ledger_memorywrite w WHERE w.tenant_id = %(tenant)s AND w.entry_id = %(entry)s AND w.run_id = r.id)
ORDER BY r.started_at, r.id LIMIT %(most)s
"""


@dataclass(frozen=True, slots=True)
class EntryThen:
    """An entry as it was known at a moment. ``state`` is "" before anything was known of it. ``content`` is what was
    seen last by then, None where nothing had been or it may not be shown any more."""

    at: datetime
    state: str
    content: str | None
    seen_at: datetime | None
    writes: int
    run_host: str | None
    run_id: str | None
    sequence: int | None
    node: str | None


def entry_then(tenant_id: int, entry: EntryFacts, at: datetime, *, may_show: bool) -> EntryThen:
    """``may_show`` says whether its content may be shown now: what was erased or has expired is not shown as it was
    either."""
    ((writes, outcome, content, seen, expires, host, run, sequence, node),) = rows_of(
        """
        SELECT (SELECT count(*) FROM ledger_memorywrite w
                WHERE w.tenant_id = %(tenant)s AND w.entry_id = %(entry)s AND w.occurred_at <= %(at)s),
            o.outcome, o.content, o.observed_at, o.expires_at, l.slug, l.run_id, l.sequence, l.node_id
        FROM (SELECT) AS one
        LEFT JOIN LATERAL (
            SELECT * FROM ledger_observation o
            WHERE o.tenant_id = %(tenant)s AND o.entry_id = %(entry)s AND o.observed_at <= %(at)s
            ORDER BY o.number DESC LIMIT 1
        ) AS o ON true
        LEFT JOIN LATERAL (
            SELECT h.slug, r.run_id, w.sequence, w.node_id FROM ledger_memorywrite w
            JOIN runs_run r ON r.tenant_id = w.tenant_id AND r.id = w.run_id
            JOIN runs_host h ON h.tenant_id = r.tenant_id AND h.id = r.host_id
            WHERE w.tenant_id = %(tenant)s AND w.entry_id = %(entry)s AND w.occurred_at <= %(at)s
            ORDER BY w.occurred_at DESC, w.run_id DESC, w.sequence DESC LIMIT 1
        ) AS l ON true
        """,
        {"tenant": tenant_id, "entry": entry.pk, "at": at},
    )
    state = state_of(outcome, expires, at) if outcome or writes else ""
    return EntryThen(
        at=at,
        state=state,
        content=maybe(content) if may_show and state == STORED else None,
        seen_at=seen,
        writes=writes,
        run_host=host,
        run_id=maybe(run),
        sequence=sequence,
        node=maybe(node),
    )
