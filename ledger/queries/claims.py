"""Claims, in reading: what is active about a subject, with where it comes from, and each claim with all it went
through."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from runs.domain.storable import original, storable
from runs.queries import like

from ..domain.settlement import Status
from .paging import PAGE, Keyset, Order, Row, cursor_of, moment, page_of, rows_of, uuid

WORDS = 16
"""Of a query, each of which is in a claim's key, value or wording."""


@dataclass(frozen=True, slots=True)
class ClaimFilter:
    """Which claims are wanted; what is empty does not count. Only active ones that hold at ``valid_at``, now by
    default, unless ``statuses`` names others or ``every`` asks for all."""

    subject: str = ""
    query: str = ""
    category: str = ""
    key: str = ""
    writer: str = ""
    statuses: tuple[str, ...] = ()
    every: bool = False
    valid_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """A claim with its origin. ``payload_hash`` is in hex, ``source_scope`` and ``scope`` are canonical JSON; what is
    about a source event is None for a claim that a decision made. ``is_disputed`` says that a person is awaited, and
    ``observations`` counts the claims that say the same, itself among them."""

    id: UUID
    subject: str
    subject_key: UUID
    category: str
    key: str
    value: str
    display: str
    normal: str | None
    problem: str
    content: str
    status: str
    rule: str
    to_claim: UUID | None
    scope: str
    valid_from: datetime | None
    valid_to: datetime | None
    confidence: float | None
    writer: str
    writer_name: str
    observed_at: datetime
    received_at: datetime
    revision: int
    extractor: str
    source_event: UUID | None
    decision: UUID | None
    event_id: str | None
    payload_hash: str | None
    source_scope: str | None
    evidence: str | None
    is_observed: bool | None
    source_kind: str | None
    entry: UUID | None
    is_disputed: bool
    observations: int

    @property
    def evidence_texts(self) -> tuple[str, ...]:
        """Texts as they are, whatever else as JSON."""
        told = json.loads(self.evidence) if self.evidence else []
        return tuple(one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in told)


@dataclass(frozen=True, slots=True)
class MemoryList:
    rows: tuple[MemoryRow, ...]
    newer: str | None
    older: str | None


@dataclass(frozen=True, slots=True)
class RevisionRow:
    """``by`` made it; the first one is the writer's."""

    number: int
    by: str
    by_kind: str
    received_at: datetime
    content: str
    scope: str
    valid_from: datetime | None
    valid_to: datetime | None
    confidence: float | None
    withdrawn: bool
    reason: str


@dataclass(frozen=True, slots=True)
class ClaimDetail:
    """``conflicts`` are (id, state) of those that it is or was part of, newest first; ``corroborating`` the claims that
    say the same."""

    claim: MemoryRow
    revisions: tuple[RevisionRow, ...]
    conflicts: tuple[tuple[UUID, str], ...]
    corroborating: tuple[UUID, ...]
    periods: tuple[tuple[datetime | None, datetime | None], ...]


BY_OBSERVED = Order(
    columns=(("s.observed_at", "timestamptz"), ("s.claim_id", "uuid")),
    write=lambda row: [row[_OBSERVED].isoformat(), str(row[0])],
    read=lambda place: (moment(place[0]), uuid(place[1])),
)

MEMORY = """
    s.claim_id, s.subject, s.subject_key_id, k.category, k.key, c.value, c.display, s.normal, s.problem,
    coalesce(r.content, c.content), s.status, s.rule, s.to_claim, coalesce(r.scope, c.scope),
    CASE WHEN r.claim_id IS NULL THEN c.valid_from ELSE r.valid_from END,
    CASE WHEN r.claim_id IS NULL THEN c.valid_to ELSE r.valid_to END,
    CASE WHEN r.claim_id IS NULL THEN c.confidence ELSE r.confidence END,
    c.writer, coalesce(nullif(w.display_name, ''), c.writer), c.observed_at, c.received_at, s.revision, c.extractor,
    c.source_event_id, c.decision_id, e.event_id, encode(e.payload_hash, 'hex'), e.scope, e.evidence, e.is_observed,
    e.kind, e.entry_id,
    s.status = 'contested'
        OR EXISTS (SELECT FROM ledger_holding h
            WHERE h.tenant_id = s.tenant_id AND h.claim_id = s.claim_id AND h.is_open),
    1 + (SELECT count(*) FROM ledger_claimstate o WHERE o.tenant_id = s.tenant_id
        AND o.subject_key_id = s.subject_key_id AND o.to_claim = s.claim_id AND o.status = 'corroborates')
"""
_OBSERVED = 19
JOINS = """
    JOIN ledger_claimrow c ON c.tenant_id = s.tenant_id AND c.id = s.claim_id
    JOIN ledger_subjectkey k ON k.tenant_id = s.tenant_id AND k.id = s.subject_key_id
    LEFT JOIN ledger_claimrevision r
        ON s.revision > 1 AND r.tenant_id = s.tenant_id AND r.claim_id = s.claim_id AND r.revision = s.revision
    LEFT JOIN ledger_sourceevent e ON e.tenant_id = c.tenant_id AND e.id = c.source_event_id
    LEFT JOIN ledger_servicewriter w ON w.tenant_id = c.tenant_id AND w.service_key = c.writer
"""


def memory_row(row: Row) -> MemoryRow:
    """From the columns of ``MEMORY``."""
    told = list(row)
    for place in (3, 4, 6, 8, 9, 17, 18):
        told[place] = original(told[place])
    for place in (7, 25):
        told[place] = None if told[place] is None else original(told[place])
    return MemoryRow(*told)


def memories(
    tenant_id: int,
    wanted: ClaimFilter,
    *,
    before: str | None = None,
    after: str | None = None,
    limit: int = PAGE,
    now: datetime | None = None,
) -> MemoryList:
    """The last observed first. Raises BrokenCursor."""
    conditions, values = _conditions(wanted, now or timezone.now())
    values["tenant"] = tenant_id
    page, found = page_of(lambda page: _find(conditions, values, page), BY_OBSERVED, limit, before=before, after=after)
    shown, newer, older = page.cut(found)
    return MemoryList(tuple(map(memory_row, shown)), newer, older)


def _find(conditions: str, values: Mapping[str, Any], page: Keyset) -> list[Row]:
    # The page is found first, by an index, and only its rows are told in full.
    return rows_of(
        f"""
        SELECT {MEMORY} FROM (
            SELECT s.* FROM ledger_claimstate s
            JOIN ledger_subjectkey k ON k.tenant_id = s.tenant_id AND k.id = s.subject_key_id
            JOIN ledger_claimrow c ON c.tenant_id = s.tenant_id AND c.id = s.claim_id
            WHERE s.tenant_id = %(tenant)s {conditions} {page.condition}
            {page.order} LIMIT %(most)s) AS s
        {JOINS} {page.order}
        """,  # noqa: S608 - constants
        {**values, **page.values},
    )


def _conditions(wanted: ClaimFilter, now: datetime) -> tuple[str, dict[str, Any]]:
    told: list[str] = []
    values: dict[str, Any] = {}
    for condition, name, value in (
        ("s.subject = %(subject)s", "subject", wanted.subject),
        ("k.category = %(category)s", "category", wanted.category),
        ("k.key = %(key)s", "key", wanted.key),
        ("c.writer = %(writer)s", "writer", wanted.writer),
    ):
        if value:
            told.append(condition)
            values[name] = storable(value)
    for place, word in enumerate(wanted.query.split()[:WORDS]):
        name = f"like{place}"
        told.append(f"concat_ws(' ', k.key, c.display, c.content) ILIKE %({name})s")
        values[name] = like(word)
    if wanted.statuses:
        told.append("s.status = ANY (%(statuses)s)")
        values["statuses"] = list(wanted.statuses)
    elif not wanted.every:
        told.append("s.status = %(active)s")
        values["active"] = Status.ACTIVE.value
    if wanted.valid_at or not (wanted.every or wanted.statuses):
        told.append(
            "EXISTS (SELECT FROM ledger_holding h WHERE h.tenant_id = s.tenant_id AND h.claim_id = s.claim_id"
            " AND h.valid @> %(valid_at)s::timestamptz)"
        )
        values["valid_at"] = wanted.valid_at or now
    return "".join(f" AND {condition}" for condition in told), values


def cursor_at(row: MemoryRow) -> str:
    """As a page gives it that ends with the row."""
    return cursor_of([row.observed_at.isoformat(), str(row.id)])


def memories_by_id(tenant_id: int, ids: Sequence[UUID]) -> dict[UUID, MemoryRow]:
    """However each of them stands."""
    rows = rows_of(
        f"SELECT {MEMORY} FROM ledger_claimstate s {JOINS}"  # noqa: S608 - constants
        " WHERE s.tenant_id = %s AND s.claim_id = ANY (%s::uuid[])",
        [tenant_id, list(ids)],
    )
    return {row[0]: memory_row(row) for row in rows}


def find_claim(tenant_id: int, claim: UUID) -> ClaimDetail | None:
    found = memories_by_id(tenant_id, [claim]).get(claim)
    if found is None:
        return None
    return ClaimDetail(
        claim=found,
        revisions=_revisions(tenant_id, claim),
        conflicts=tuple(
            rows_of(
                "SELECT f.id, f.state FROM ledger_conflictclaim m"
                " JOIN ledger_conflict f ON f.tenant_id = m.tenant_id AND f.id = m.conflict_id"
                " WHERE m.tenant_id = %s AND m.claim_id = %s ORDER BY f.opened_at DESC, f.id",
                [tenant_id, claim],
            )
        ),
        corroborating=tuple(
            claim_id
            for (claim_id,) in rows_of(
                "SELECT claim_id FROM ledger_claimstate WHERE tenant_id = %s AND subject_key_id = %s"
                " AND to_claim = %s AND status = 'corroborates' ORDER BY observed_at, claim_id",
                [tenant_id, found.subject_key, claim],
            )
        ),
        periods=tuple(
            rows_of(
                "SELECT lower(valid), upper(valid) FROM ledger_holding WHERE tenant_id = %s AND claim_id = %s"
                " ORDER BY valid",
                [tenant_id, claim],
            )
        ),
    )


def _revisions(tenant_id: int, claim: UUID) -> tuple[RevisionRow, ...]:
    rows = rows_of(
        """
        SELECT 1, writer, 'writer', received_at, content, scope, valid_from, valid_to, confidence, false, ''
        FROM ledger_claimrow WHERE tenant_id = %(tenant)s AND id = %(claim)s
        UNION ALL
        SELECT revision, revised_by, revised_by_kind, received_at, content, scope, valid_from, valid_to, confidence,
            withdrawn, reason
        FROM ledger_claimrevision WHERE tenant_id = %(tenant)s AND claim_id = %(claim)s
        ORDER BY 1
        """,
        {"tenant": tenant_id, "claim": claim},
    )
    return tuple(map(_revision, rows))


def _revision(row: Row) -> RevisionRow:
    told = list(row)
    for place in (1, 4, 10):
        told[place] = original(told[place])
    return RevisionRow(*told)


@dataclass(frozen=True, slots=True)
class SubjectRow:
    """A subject with how much there is about it. ``open_conflicts`` await a person."""

    subject: str
    active: int
    claims: int
    keys: int
    open_conflicts: int
    last_at: datetime


BY_SUBJECT = Order(columns=(("k.subject", "text"),), write=lambda row: [row[0]], read=lambda place: (str(place[0]),))


@dataclass(frozen=True, slots=True)
class SubjectList:
    rows: tuple[SubjectRow, ...]
    newer: str | None
    older: str | None


def subjects(
    tenant_id: int, *, query: str = "", before: str | None = None, after: str | None = None, limit: int = PAGE
) -> SubjectList:
    """Subjects whose name has ``query`` in it, in the reverse order of their names. Raises BrokenCursor."""
    values = {"tenant": tenant_id, "like": like(query)}
    page, found = page_of(
        lambda page: rows_of(
            f"""
            SELECT k.subject, n.active, n.claims, n.keys, n.conflicts, n.last_at FROM (
                SELECT DISTINCT k.subject FROM ledger_subjectkey k
                WHERE k.tenant_id = %(tenant)s AND k.subject ILIKE %(like)s {page.condition}
                {page.order} LIMIT %(most)s) AS k
            CROSS JOIN LATERAL (
                SELECT count(*) FILTER (WHERE s.status = 'active') AS active, count(*) AS claims,
                    count(DISTINCT s.subject_key_id) AS keys, max(s.observed_at) AS last_at,
                    (SELECT count(*) FROM ledger_subjectkey o
                        JOIN ledger_conflict f ON f.tenant_id = o.tenant_id AND f.subject_key_id = o.id
                        WHERE o.tenant_id = %(tenant)s AND o.subject = k.subject AND f.state = 'open') AS conflicts
                FROM ledger_claimstate s WHERE s.tenant_id = %(tenant)s AND s.subject = k.subject) AS n
            {page.order}
            """,  # noqa: S608 - constants
            {**values, **page.values},
        ),
        BY_SUBJECT,
        limit,
        before=before,
        after=after,
    )
    shown, newer, older = page.cut(found)
    return SubjectList(tuple(SubjectRow(original(row[0]), *row[1:]) for row in shown), newer, older)
