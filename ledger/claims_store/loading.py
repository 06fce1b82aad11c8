"""Subjects' keys as they stand, locked: their claims and decisions as the domain knows them, and what is derived."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID, uuid5

from runs.domain.storable import original, storable

from ..domain.claims import Claim
from ..domain.decisions import Decision, Placement, Verdict
from ..domain.key_registry import Key, KeyRegistry
from ..domain.normalisers import Problem, Value, read_value
from ..domain.periods import ALWAYS, Period
from ..domain.scopes import Scope
from ..queries.paging import rows_of
from .rows import insert
from .rules import reading_of

_SUBJECT_KEYS = UUID("c1f0c0de-7a64-4d2b-9e57-0a6f5b3a7d11")


def subject_key_id(subject: str, key: Key) -> UUID:
    return uuid5(_SUBJECT_KEYS, json.dumps([subject, key.category, key.name]))


class StateRow(NamedTuple):
    """As ``ClaimState`` keeps it, in its order."""

    claim_id: UUID
    subject_key_id: UUID
    subject: str
    status: str
    rule: str
    to_claim: UUID | None
    revision: int
    normal: str | None
    normaliser: str
    problem: str
    observed_at: datetime


class HoldingRow(NamedTuple):
    """As ``Holding`` keeps it. ``start`` and ``end`` are the bounds of its period."""

    claim_id: UUID
    start: datetime | None
    end: datetime | None
    lane: UUID
    subject_key_id: UUID
    scope: str
    rule: str
    is_open: bool
    decision_id: UUID | None


@dataclass(slots=True)
class KnownConflict:
    """A row of ``Conflict`` with its claims: side and whether it is a contender."""

    id: UUID
    kind: str
    subject_key_id: UUID
    scope: str
    state: str
    revision: int
    opened_at: datetime
    changed_at: datetime
    decided_at: datetime | None
    follows: UUID | None
    decision_id: UUID | None
    merged_into: UUID | None
    rule: str
    policy: str
    explanation: Any
    inputs: Any
    claims: dict[UUID, tuple[int, bool]]


@dataclass(slots=True)
class KeyLedger:
    """All there is about one key of one subject. ``values`` are the claims' values as they were said."""

    id: UUID
    subject: str
    key: Key
    revision: int = 0
    decision_count: int = 0
    reading: str = ""
    is_due: bool = False
    """Its row is to be written, whether or not settling changes anything: its rules have changed, or its decisions."""
    is_new: bool = False
    claims: list[Claim] = field(default_factory=list)
    values: dict[UUID, str] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    decided: dict[UUID, UUID] = field(default_factory=dict)
    """The conflict of each decision."""
    weighed: dict[UUID, Any] = field(default_factory=dict)
    """What was weighed when each decision was made."""
    states: dict[UUID, StateRow] = field(default_factory=dict)
    holdings: set[HoldingRow] = field(default_factory=set)
    conflicts: list[KnownConflict] = field(default_factory=list)


KEY_COLUMNS = {
    "id": "uuid",
    "subject": "text",
    "category": "text",
    "key": "text",
    "revision": "int",
    "reading": "text",
    "decision_count": "int",
}


def lock_keys(
    tenant_id: int, wanted: Mapping[UUID, tuple[str, Key]], keys: KeyRegistry, *, also: Iterable[UUID] = ()
) -> dict[UUID, KeyLedger]:
    """Makes those that there are none of, and locks all of them, and ``also`` those, in the order of their ids."""
    rows = [
        (key_id, storable(subject), storable(key.category), storable(key.name), 1, reading_of(keys.rule(key)), 0)
        for key_id, (subject, key) in wanted.items()
    ]
    made = insert(
        "ledger_subjectkey", KEY_COLUMNS, rows, tenant_id=tenant_id, then="ON CONFLICT DO NOTHING RETURNING id"
    )
    ledgers = {}
    for (key_id,) in made:
        subject, key = wanted[key_id]
        ledgers[key_id] = KeyLedger(key_id, subject, key, 1, reading=reading_of(keys.rule(key)), is_new=True)
    known = {*wanted, *also} - ledgers.keys()
    return ledgers | lock_known(tenant_id, sorted(known))


def lock_known(tenant_id: int, key_ids: Sequence[UUID], *, lock: bool = True) -> dict[UUID, KeyLedger]:
    """Locks those that there are, in the order of their ids. Without ``lock`` they are only looked at."""
    if not key_ids:
        return {}
    rows = rows_of(
        "SELECT id, subject, category, key, revision, decision_count, reading, stale_since IS NOT NULL"
        " FROM ledger_subjectkey WHERE tenant_id = %s AND id = ANY (%s::uuid[])"
        f" ORDER BY id {'FOR UPDATE' if lock else ''}",
        [tenant_id, list(key_ids)],
    )
    return {
        row[0]: KeyLedger(row[0], original(row[1]), Key(original(row[2]), original(row[3])), *row[4:]) for row in rows
    }


def load(tenant_id: int, ledgers: Mapping[UUID, KeyLedger], keys: KeyRegistry) -> None:
    """Fills in all that is known of the keys, which the caller has locked. Values are read by the rules of now."""
    known = {key_id: ledger for key_id, ledger in ledgers.items() if not ledger.is_new}
    if not known:
        return
    ids = list(known)
    _load_claims(tenant_id, known, ids, keys)
    _load_decisions(tenant_id, known, ids)
    _load_holdings(tenant_id, known, ids)
    _load_conflicts(tenant_id, known, ids)


_CLAIMS = """
    SELECT c.id, c.subject_key_id, c.value, c.display,
        CASE WHEN s.claim_id IS NULL THEN c.normal ELSE s.normal END, coalesce(s.normaliser, c.normaliser),
        coalesce(s.problem, c.problem), c.writer, c.observed_at, c.ordinal, c.source_event_id, c.decision_id,
        coalesce(r.scope, c.scope), coalesce(r.content, c.content),
        CASE WHEN r.claim_id IS NULL THEN c.valid_from ELSE r.valid_from END,
        CASE WHEN r.claim_id IS NULL THEN c.valid_to ELSE r.valid_to END,
        CASE WHEN r.claim_id IS NULL THEN c.confidence ELSE r.confidence END,
        coalesce(r.received_at, c.received_at), coalesce(r.revision, 1), r.revised_by, coalesce(r.withdrawn, false),
        s.subject, s.status, s.rule, s.to_claim, s.revision, s.normal, s.normaliser, s.problem, s.observed_at
    FROM ledger_claimrow c
    LEFT JOIN ledger_claimstate s ON s.tenant_id = c.tenant_id AND s.claim_id = c.id
    LEFT JOIN LATERAL (
        SELECT * FROM ledger_claimrevision v WHERE v.tenant_id = c.tenant_id AND v.claim_id = c.id
        ORDER BY v.revision DESC LIMIT 1) r ON true
    WHERE c.tenant_id = %s AND c.subject_key_id = ANY (%s::uuid[])
"""


def _load_claims(tenant_id: int, known: Mapping[UUID, KeyLedger], ids: list[UUID], keys: KeyRegistry) -> None:
    for row in rows_of(_CLAIMS, [tenant_id, ids]):
        ledger = known[row[1]]
        rule = keys.rule(ledger.key)
        if ledger.reading == reading_of(rule):
            value = stored_value(row[3], row[4], row[5], row[6])
        else:
            value = read_value(json.loads(row[2]), rule.kind, unit=rule.unit)
        ledger.claims.append(
            Claim(
                id=row[0],
                subject=ledger.subject,
                key=ledger.key,
                value=value,
                writer=original(row[7]),
                observed_at=row[8],
                ordinal=row[9],
                source_event=row[10],
                decision=row[11],
                scope=Scope(row[12]),
                content=original(row[13]),
                valid=period(row[14], row[15]),
                confidence=row[16],
                received_at=row[17],
                revision=row[18],
                revised_by=row[19],
                withdrawn=row[20],
            )
        )
        ledger.values[row[0]] = row[2]
        if row[21] is not None:
            ledger.states[row[0]] = StateRow(row[0], row[1], *row[21:])


def stored_value(display: str, normal: str | None, normaliser: str, problem: str) -> Value:
    return Value(
        original(display),
        None if normal is None else original(normal),
        normaliser,
        Problem(problem) if problem in _PROBLEMS else None,
    )


_PROBLEMS = frozenset(Problem)


def period(start: datetime | None, end: datetime | None) -> Period:
    return Period(start, end) if start or end else ALWAYS


def _load_decisions(tenant_id: int, known: Mapping[UUID, KeyLedger], ids: list[UUID]) -> None:
    ids = [key_id for key_id in ids if known[key_id].decision_count]
    if not ids:
        return
    for row in rows_of(
        "SELECT subject_key_id, id, ordinal, verdict, considered, kept, placements, undoes, follows, reason, revision,"
        " actor, decided_at, conflict_id, inputs FROM ledger_decision"
        " WHERE tenant_id = %s AND subject_key_id = ANY (%s::uuid[]) ORDER BY ordinal",
        [tenant_id, ids],
    ):
        ledger = known[row[0]]
        ledger.decisions.append(
            Decision(
                id=row[1],
                ordinal=row[2],
                verdict=Verdict(row[3]),
                considered=frozenset(row[4]),
                kept=row[5],
                placements=tuple(map(placement_of, as_loaded(row[6]))),
                undoes=row[7],
                follows=row[8],
                reason=original(row[9]),
                revision=row[10],
                actor=original(row[11]),
                decided_at=row[12],
            )
        )
        ledger.decided[row[1]] = row[13]
        ledger.weighed[row[1]] = as_loaded(row[14])


def as_loaded(value: Any) -> Any:
    """Django's connection leaves jsonb as text where no model reads it."""
    return json.loads(value) if isinstance(value, str) else value


def placement_of(told: Mapping[str, Any]) -> Placement:
    valid = told.get("valid")
    return Placement(
        UUID(told["claim"]),
        Scope(told["scope"]) if told.get("scope") else None,
        None if valid is None else Period(*(bound and datetime.fromisoformat(bound) for bound in valid)),
    )


def placement_json(placement: Placement) -> dict[str, Any]:
    valid = placement.valid
    return {
        "claim": str(placement.claim),
        "scope": placement.scope.text if placement.scope else None,
        "valid": None if valid is None else [bound and bound.isoformat() for bound in (valid.start, valid.end)],
    }


def _load_holdings(tenant_id: int, known: Mapping[UUID, KeyLedger], ids: list[UUID]) -> None:
    for row in rows_of(
        "SELECT claim_id, lower(valid), upper(valid), lane, subject_key_id, scope, rule, is_open, decision_id"
        " FROM ledger_holding WHERE tenant_id = %s AND subject_key_id = ANY (%s::uuid[])",
        [tenant_id, ids],
    ):
        known[row[4]].holdings.add(HoldingRow(*row))


_CONFLICTS = """
    SELECT f.id, f.kind, f.subject_key_id, f.scope, f.state, f.revision, f.opened_at, f.changed_at, f.decided_at,
        f.follows, f.decision_id, f.merged_into, f.rule, f.policy, f.explanation, f.inputs,
        ARRAY(SELECT json_build_array(m.claim_id, m.side, m.is_contender)::text FROM ledger_conflictclaim m
            WHERE m.tenant_id = f.tenant_id AND m.conflict_id = f.id)
    FROM ledger_conflict f WHERE f.tenant_id = %s AND f.subject_key_id = ANY (%s::uuid[])
    ORDER BY f.opened_at, f.id
"""


def _load_conflicts(tenant_id: int, known: Mapping[UUID, KeyLedger], ids: Iterable[UUID]) -> None:
    for row in rows_of(_CONFLICTS, [tenant_id, list(ids)]):
        members = {UUID(claim): (side, is_contender) for claim, side, is_contender in map(json.loads, row[16])}
        told = [*row[:14], as_loaded(row[14]), as_loaded(row[15]), members]
        known[row[2]].conflicts.append(KnownConflict(*told))
