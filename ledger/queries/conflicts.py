"""The review queue, and one conflict with all that a person needs to settle it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from runs.domain.storable import original, storable
from runs.queries import like

from ..models import Conflict
from .claims import JOINS, MEMORY, MemoryRow, memory_row
from .paging import PAGE, Keyset, Order, Row, moment, page_of, rows_of, uuid

States = Conflict.State


@dataclass(frozen=True, slots=True)
class ConflictFilter:
    """What is empty does not count; ``query`` is part of a subject or a key."""

    state: str = ""
    subject: str = ""
    category: str = ""
    key: str = ""
    writer: str = ""
    rule: str = ""
    query: str = ""


@dataclass(frozen=True, slots=True)
class SideRow:
    """In a list: one value with its writers."""

    number: int
    value: str
    writers: tuple[str, ...]
    claims: int


@dataclass(frozen=True, slots=True)
class ConflictRow:
    """``explanation`` is {rule, params, active, winner}; ``inputs`` is what was weighed, a finding for each period."""

    id: UUID
    kind: str
    state: str
    revision: int
    subject_key: UUID
    subject: str
    category: str
    key: str
    scope: str
    opened_at: datetime
    changed_at: datetime
    decided_at: datetime | None
    follows: UUID | None
    decision: UUID | None
    merged_into: UUID | None
    rule: str
    policy: str
    explanation: Mapping[str, Any]
    inputs: tuple[Any, ...]
    sides: tuple[SideRow, ...]


@dataclass(frozen=True, slots=True)
class ConflictList:
    rows: tuple[ConflictRow, ...]
    newer: str | None
    older: str | None


@dataclass(frozen=True, slots=True)
class Member:
    """A claim of a conflict in full. ``authority`` is what its writer weighs in the key's category, where it was
    weighed."""

    claim: MemoryRow
    side: int
    is_contender: bool
    authority: int | None


@dataclass(frozen=True, slots=True)
class ChangeRow:
    revision: int
    at: datetime
    change: str
    state: str
    added: tuple[UUID, ...]
    removed: tuple[UUID, ...]
    decision: UUID | None
    actor: str
    rule: str


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """``undone_by`` is the decision that took it back."""

    id: UUID
    ordinal: int
    conflict: UUID
    verdict: str
    kept: UUID | None
    considered: tuple[UUID, ...]
    placements: tuple[Any, ...]
    undoes: UUID | None
    undone_by: UUID | None
    follows: UUID | None
    reason: str
    evidence: str
    revision: int
    actor: str
    actor_kind: str
    decided_at: datetime
    policy: str
    rule: str


@dataclass(frozen=True, slots=True)
class ConflictDetail:
    """``decisions`` are all of those about the key, in the order in which they were made."""

    conflict: ConflictRow
    members: tuple[Member, ...]
    changes: tuple[ChangeRow, ...]
    decisions: tuple[DecisionRow, ...]


BY_OPENED = Order(
    columns=(("f.opened_at", "timestamptz"), ("f.id", "uuid")),
    write=lambda row: [row[9].isoformat(), str(row[0])],
    read=lambda place: (moment(place[0]), uuid(place[1])),
)
_CONFLICT = """
    f.id, f.kind, f.state, f.revision, f.subject_key_id, k.subject, k.category, k.key, f.scope, f.opened_at,
    f.changed_at, f.decided_at, f.follows, f.decision_id, f.merged_into, f.rule, f.policy, f.explanation, f.inputs,
    ARRAY(SELECT json_build_array(m.side, min(c.display), array_agg(DISTINCT c.writer), count(*))::text
        FROM ledger_conflictclaim m JOIN ledger_claimrow c ON c.tenant_id = m.tenant_id AND c.id = m.claim_id
        WHERE m.tenant_id = f.tenant_id AND m.conflict_id = f.id GROUP BY m.side ORDER BY m.side)
"""


def conflict_list(
    tenant_id: int,
    wanted: ConflictFilter,
    *,
    before: str | None = None,
    after: str | None = None,
    limit: int = PAGE,
) -> ConflictList:
    """The last opened first. Raises BrokenCursor."""
    conditions, values = filter_conditions(wanted)
    values["tenant"] = tenant_id
    page, found = page_of(lambda page: _find(conditions, values, page), BY_OPENED, limit, before=before, after=after)
    shown, newer, older = page.cut(found)
    return ConflictList(tuple(map(_conflict, shown)), newer, older)


def _find(conditions: str, values: Mapping[str, Any], page: Keyset) -> list[Row]:
    return rows_of(
        f"""
        SELECT {_CONFLICT} FROM (
            SELECT f.* FROM ledger_conflict f
            JOIN ledger_subjectkey k ON k.tenant_id = f.tenant_id AND k.id = f.subject_key_id
            WHERE f.tenant_id = %(tenant)s {conditions} {page.condition} {page.order} LIMIT %(most)s) AS f
        JOIN ledger_subjectkey k ON k.tenant_id = f.tenant_id AND k.id = f.subject_key_id
        {page.order}
        """,  # noqa: S608 - constants
        {**values, **page.values},
    )


def filter_conditions(wanted: ConflictFilter) -> tuple[str, dict[str, Any]]:
    """About ``ledger_conflict f`` and its ``ledger_subjectkey k``."""
    told = []
    values: dict[str, Any] = {}
    for column, value in (
        ("f.state", wanted.state),
        ("f.rule", wanted.rule),
        ("k.subject", wanted.subject),
        ("k.category", wanted.category),
        ("k.key", wanted.key),
    ):
        if value:
            name = column.partition(".")[2]
            told.append(f"{column} = %({name})s")
            values[name] = storable(value)
    if wanted.writer:
        told.append(
            "EXISTS (SELECT FROM ledger_conflictclaim m"
            " JOIN ledger_claimrow c ON c.tenant_id = m.tenant_id AND c.id = m.claim_id"
            " WHERE m.tenant_id = f.tenant_id AND m.conflict_id = f.id AND c.writer = %(writer)s)"
        )
        values["writer"] = storable(wanted.writer)
    if wanted.query:
        told.append("(k.subject ILIKE %(like)s OR k.key ILIKE %(like)s)")
        values["like"] = like(wanted.query)
    return "".join(f" AND {condition}" for condition in told), values


def conflict_counts(tenant_id: int) -> dict[str, int]:
    """By state; every state is there."""
    rows = rows_of("SELECT state, count(*) FROM ledger_conflict WHERE tenant_id = %s GROUP BY state", [tenant_id])
    found: dict[str, int] = dict(rows)
    return {state: found.get(state, 0) for state in States.values}


def find_conflict(tenant_id: int, conflict: UUID) -> ConflictDetail | None:
    rows = rows_of(
        f"SELECT {_CONFLICT} FROM ledger_conflict f"  # noqa: S608 - constants
        " JOIN ledger_subjectkey k ON k.tenant_id = f.tenant_id AND k.id = f.subject_key_id"
        " WHERE f.tenant_id = %s AND f.id = %s",
        [tenant_id, conflict],
    )
    if not rows:
        return None
    found = _conflict(rows[0])
    return ConflictDetail(
        conflict=found,
        members=_members(tenant_id, found),
        changes=changes_since(tenant_id, conflict, 0),
        decisions=decisions_of_key(tenant_id, found.subject_key),
    )


def _members(tenant_id: int, conflict: ConflictRow) -> tuple[Member, ...]:
    authority = {
        weight["writer"]: weight["authority"] for finding in conflict.inputs for weight in finding.get("weights", ())
    }
    rows = rows_of(
        f"SELECT {MEMORY}, n.side, n.is_contender FROM ledger_conflictclaim n"  # noqa: S608 - constants
        " JOIN ledger_claimstate s ON s.tenant_id = n.tenant_id AND s.claim_id = n.claim_id"
        f" {JOINS} WHERE n.tenant_id = %s AND n.conflict_id = %s ORDER BY n.side, s.observed_at, s.claim_id",
        [tenant_id, conflict.id],
    )
    members = []
    for row in rows:
        claim = memory_row(row[:-2])
        members.append(Member(claim, row[-2], row[-1], authority.get(storable(claim.writer))))
    return tuple(members)


def changes_since(tenant_id: int, conflict: UUID, revision: int) -> tuple[ChangeRow, ...]:
    """What happened to a conflict after somebody saw ``revision`` of it."""
    rows = rows_of(
        "SELECT revision, at, change, state, added, removed, decision_id, actor, rule FROM ledger_conflictchange"
        " WHERE tenant_id = %s AND conflict_id = %s AND revision > %s ORDER BY revision",
        [tenant_id, conflict, revision],
    )
    return tuple(map(_changed, rows))


def _changed(row: Row) -> ChangeRow:
    told = [*row[:4], tuple(row[4]), tuple(row[5]), row[6], original(row[7]), row[8]]
    return ChangeRow(*told)


_DECISION = """
    SELECT d.id, d.ordinal, d.conflict_id, d.verdict, d.kept, d.considered, d.placements, d.undoes, u.id, d.follows,
        d.reason, d.evidence, d.revision, d.actor, d.actor_kind, d.decided_at, d.policy, d.rule
    FROM ledger_decision d LEFT JOIN ledger_decision u ON u.tenant_id = d.tenant_id AND u.undoes = d.id
"""


def decisions_of_key(tenant_id: int, subject_key: UUID) -> tuple[DecisionRow, ...]:
    rows = rows_of(
        f"{_DECISION} WHERE d.tenant_id = %s AND d.subject_key_id = %s ORDER BY d.ordinal", [tenant_id, subject_key]
    )
    return tuple(map(_decision, rows))


def find_decision(tenant_id: int, decision: UUID) -> DecisionRow | None:
    rows = rows_of(f"{_DECISION} WHERE d.tenant_id = %s AND d.id = %s", [tenant_id, decision])
    return _decision(rows[0]) if rows else None


def _decision(row: Row) -> DecisionRow:
    placements = json.loads(row[6]) if isinstance(row[6], str) else row[6]
    told = list(row)
    told[5:7] = tuple(row[5]), tuple(placements)
    for place in (10, 11, 13):
        told[place] = original(told[place])
    return DecisionRow(*told)


def _conflict(row: Row) -> ConflictRow:
    explanation, inputs = (json.loads(one) if isinstance(one, str) else one for one in row[17:19])
    sides = tuple(
        SideRow(number, original(value), tuple(map(original, writers)), count)
        for number, value, writers, count in map(json.loads, row[19])
    )
    told = [*row[:5], *map(original, row[5:8]), *row[8:17], explanation, tuple(inputs), sides]
    return ConflictRow(*told)
