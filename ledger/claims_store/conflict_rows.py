"""Conflicts as rows: which of the conflicts that are found is which of those that are known, and what is new of it.

What is found has no id. It is the same matter as a known conflict when a decision says so, or when the two share a
claim and came after the same decision; of several the oldest goes on and the others end in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.db import connection

from runs.domain.storable import storable

from ..domain import policy
from ..domain.claims import Claim, order
from ..domain.decisions import in_force
from ..domain.findings import Finding
from ..domain.policy import Weight
from ..domain.settlement import Conflict as Found
from ..domain.settlement import ConflictState, State, Status
from ..models import Conflict, ConflictChange
from .loading import KeyLedger, KnownConflict
from .rows import insert, upsert_columns

Kind = Conflict.Kind
States = Conflict.State
Change = ConflictChange.Change

LIVE = frozenset((States.OPEN.value, States.DECIDED.value))

CONFLICT_COLUMNS = {
    "id": "uuid",
    "kind": "text",
    "subject_key_id": "uuid",
    "scope": "text",
    "state": "text",
    "revision": "int",
    "opened_at": "timestamptz",
    "changed_at": "timestamptz",
    "decided_at": "timestamptz",
    "follows": "uuid",
    "decision_id": "uuid",
    "merged_into": "uuid",
    "rule": "text",
    "policy": "text",
    "explanation": "jsonb",
    "inputs": "jsonb",
}
MEMBER_COLUMNS = {"conflict_id": "uuid", "claim_id": "uuid", "side": "int2", "is_contender": "bool"}
CHANGE_COLUMNS = {
    "conflict_id": "uuid",
    "revision": "int",
    "at": "timestamptz",
    "change": "text",
    "state": "text",
    "added": "uuid[]",
    "removed": "uuid[]",
    "decision_id": "uuid",
    "actor": "text",
    "rule": "text",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """Why keys are settled: when, and by whose decision, if by one."""

    at: datetime
    actor: str = ""
    decision: UUID | None = None


@dataclass(slots=True)
class ConflictWrites:
    rows: list[KnownConflict] = field(default_factory=list)
    changes: list[tuple[Any, ...]] = field(default_factory=list)
    members: list[tuple[Any, ...]] = field(default_factory=list)
    removed: list[tuple[UUID, UUID]] = field(default_factory=list)

    def write(self, tenant_id: int) -> None:
        insert(
            "ledger_conflict",
            CONFLICT_COLUMNS,
            [_columns(row) for row in self.rows],
            tenant_id=tenant_id,
            then=upsert_columns(CONFLICT_COLUMNS, keys=("id",)),
        )
        self._remove(tenant_id)
        insert(
            "ledger_conflictclaim",
            MEMBER_COLUMNS,
            self.members,
            tenant_id=tenant_id,
            then=upsert_columns(MEMBER_COLUMNS, keys=("conflict_id", "claim_id")),
        )
        insert("ledger_conflictchange", CHANGE_COLUMNS, self.changes, tenant_id=tenant_id)

    def _remove(self, tenant_id: int) -> None:
        if not self.removed:
            return
        with connection.cursor() as cursor:
            cursor.execute(
                "DELETE FROM ledger_conflictclaim m USING unnest(%s::uuid[], %s::uuid[]) AS n (conflict_id, claim_id)"
                " WHERE m.tenant_id = %s AND m.conflict_id = n.conflict_id AND m.claim_id = n.claim_id",
                [[one for one, _ in self.removed], [claim for _, claim in self.removed], tenant_id],
            )

    def put(self, known: KnownConflict | None, row: KnownConflict, cause: Cause, change: str | None = None) -> None:
        """Takes over what differs from ``known``, as the next revision."""
        if known is not None and _said(known) == _said(row):
            return
        before = known.claims if known else {}
        row.revision = known.revision + 1 if known else 1
        row.changed_at = cause.at
        self.rows.append(row)
        self.members += [(row.id, claim, *place) for claim, place in row.claims.items() if before.get(claim) != place]
        self.removed += [(row.id, claim) for claim in before.keys() - row.claims.keys()]
        self.changes.append(
            (
                row.id,
                row.revision,
                cause.at,
                change or _change(known, row),
                row.state,
                sorted(row.claims.keys() - before.keys()),
                sorted(before.keys() - row.claims.keys()),
                cause.decision,
                storable(cause.actor),
                row.rule,
            )
        )


def _columns(row: KnownConflict) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in CONFLICT_COLUMNS)


def _said(row: KnownConflict) -> tuple[Any, ...]:
    """What of a conflict makes a revision of it."""
    return (
        row.scope,
        row.state,
        row.follows,
        row.decision_id,
        row.merged_into,
        row.rule,
        row.policy,
        row.explanation,
        row.inputs,
        row.claims,
    )


def _change(known: KnownConflict | None, row: KnownConflict) -> str:
    if row.state == States.CHECK_FAILED:
        return Change.CHECK_FAILED.value
    if row.state == States.SUGGESTED:
        return Change.SUGGESTED.value
    if row.state == States.DISSOLVED:
        return Change.DISSOLVED.value
    if row.state == States.DECIDED and (known is None or known.state != row.state):
        return Change.DECIDED.value
    if known is None:
        return Change.OPENED.value
    if known.state != row.state:
        return Change.REOPENED.value
    return (Change.EXTENDED if known.claims.keys() != row.claims.keys() else Change.WEIGHED).value


def conflict_writes(ledger: KeyLedger, state: State, cause: Cause, writes: ConflictWrites, *, failed: str = "") -> None:
    """Adds what differs between the conflicts that are known of the key and those that are found. ``failed`` says that
    nothing could be found, and why: then contests stay as they are."""
    claims = {claim.id: claim for claim in ledger.claims}
    matching = _Matching(ledger)
    _checks(ledger, state, claims, cause, writes, failed, matching.bound)
    if failed:
        return
    for found in state.conflicts:
        known = matching.find(found)
        writes.put(known, _contest(ledger, found, known, claims, cause), cause)
    for known in matching.left():
        writes.put(known, _ended(known, matching.merged(known)), cause)


class _Matching:
    def __init__(self, ledger: KeyLedger) -> None:
        self.ledger = ledger
        self.by_id = {known.id: known for known in ledger.conflicts}
        self.bound = {ledger.decided[decision.id] for decision in in_force(ledger.decisions)}
        self.pool = [
            known
            for known in ledger.conflicts
            if known.kind == Kind.CONTEST and known.merged_into is None and known.id not in self.bound
        ]
        self.taken: dict[UUID, frozenset[UUID]] = {}

    def find(self, found: Found) -> KnownConflict | None:
        if found.decision is not None:
            known = self.by_id.get(self.ledger.decided[found.decision])
        else:
            same = [
                one for one in self.pool if one.follows == found.follows and not found.claims.isdisjoint(one.claims)
            ]
            # Those that stand come before those that ended; the oldest first, as they are loaded.
            known = min(same, key=lambda one: one.state not in LIVE, default=None)
            self.pool = [one for one in self.pool if one is not known]
        if known is not None:
            self.taken[known.id] = found.claims
        return known

    def left(self) -> list[KnownConflict]:
        contests = [known for known in self.pool if known.state in LIVE]
        decided = [
            known
            for known in self.ledger.conflicts
            if known.kind == Kind.SUGGESTION and known.decision_id is not None and known.id not in self.taken
        ]
        return [*contests, *decided]

    def merged(self, known: KnownConflict) -> UUID | None:
        """The conflict that has its claims now."""
        into = (one for one, claims in self.taken.items() if known.claims and claims.issuperset(known.claims))
        return next(into, None)


def _ended(known: KnownConflict, merged_into: UUID | None) -> KnownConflict:
    if known.kind == Kind.SUGGESTION:
        return replace(known, state=States.SUGGESTED.value, decision_id=None, decided_at=None, rule="similar_text")
    return replace(known, state=States.DISSOLVED.value, merged_into=merged_into, decision_id=None, decided_at=None)


def _contest(
    ledger: KeyLedger, found: Found, known: KnownConflict | None, claims: Mapping[UUID, Claim], cause: Cause
) -> KnownConflict:
    is_open = found.state is ConflictState.OPEN
    row = KnownConflict(
        id=known.id if known else uuid4(),
        kind=known.kind if known else Kind.CONTEST.value,
        subject_key_id=ledger.id,
        scope=found.slot.scope.text,
        state=(States.OPEN if is_open else States.DECIDED).value,
        revision=known.revision if known else 0,
        opened_at=known.opened_at if known else cause.at,
        changed_at=cause.at,
        decided_at=None if is_open else (known.decided_at if known and known.decided_at else cause.at),
        follows=found.follows,
        decision_id=found.decision,
        merged_into=None,
        rule=policy.Rule.PERSON.value,
        policy=policy.VERSION,
        explanation={},
        inputs=[],
        claims=_sides(found, claims),
    )
    if found.decision is not None:
        row.inputs = ledger.weighed.get(found.decision, [])
        decision = next(one for one in ledger.decisions if one.id == found.decision)
        row.explanation = {
            "rule": row.rule,
            "params": {"decision": str(decision.id), "actor": storable(decision.actor)},
        }
        return row
    row.inputs = [_finding_json(finding) for finding in found.findings]
    awaiting = (finding for finding in found.findings if finding.outcome.awaits_person)
    primary = next(awaiting, found.findings[0]).outcome
    row.rule = primary.rule.value
    row.explanation = {
        "rule": primary.rule.value,
        "params": {
            name: storable(value) if isinstance(value, str) else value for name, value in primary.explanation.params
        },
        "active": primary.active and str(primary.active),
        "winner": primary.winner and str(primary.winner),
    }
    return row


def _sides(found: Found, claims: Mapping[UUID, Claim]) -> dict[UUID, tuple[int, bool]]:
    """Claims with one value are one side; sides are numbered by who spoke first."""
    members = sorted((claims[claim] for claim in found.claims if claim in claims), key=order)
    numbers: dict[str | None, int] = {}
    for claim in members:
        numbers.setdefault(claim.value.normal, len(numbers))
    contenders = found.contenders
    return {claim.id: (numbers[claim.value.normal], claim.id in contenders) for claim in members}


def _finding_json(finding: Finding) -> dict[str, Any]:
    outcome = finding.outcome
    return {
        "from": _moment(finding.period.start),
        "to": _moment(finding.period.end),
        "rule": outcome.rule.value,
        "winner": outcome.winner and str(outcome.winner),
        "active": outcome.active and str(outcome.active),
        "contenders": [str(claim) for claim in outcome.contenders],
        "sides": [{"head": str(side.head), "value": storable(side.value)} for side in outcome.sides],
        "weights": [_weight_json(weight) for weight in outcome.inputs],
    }


def _weight_json(weight: Weight) -> dict[str, Any]:
    return {
        "claim": str(weight.claim),
        "value": storable(weight.value),
        "writer": storable(weight.writer),
        "authority": weight.authority,
        "since": _moment(weight.since),
        "observed_at": _moment(weight.observed_at),
        "confidence": weight.confidence,
    }


def _moment(at: datetime | None) -> str | None:
    return at.isoformat().replace("+00:00", "Z") if at else None


# --- claims that could not be checked ---


def _checks(
    ledger: KeyLedger,
    state: State,
    claims: Mapping[UUID, Claim],
    cause: Cause,
    writes: ConflictWrites,
    failed: str,
    bound: set[UUID],
) -> None:
    """One conflict for each scope with claims whose values could not be compared; ``bound`` are those that a person
    decided."""
    checks = [known for known in ledger.conflicts if known.kind == Kind.CHECK]
    decided = {claim for known in checks if known.id in bound for claim in known.claims}
    known_ones = {known.scope: known for known in checks if known.id not in bound}
    by_scope: dict[str, set[UUID]] = {}
    for claim_id in state.of_status(Status.UNCHECKED) - decided:
        by_scope.setdefault(claims[claim_id].scope.text, set()).add(claim_id)
    for scope, unchecked in by_scope.items():
        known = known_ones.pop(scope, None)
        writes.put(known, _check(ledger, known, scope, unchecked, claims, cause, failed), cause)
    for known in known_ones.values():
        if known.state != States.DISSOLVED and not failed:
            writes.put(known, replace(known, state=States.DISSOLVED.value, decision_id=None, decided_at=None), cause)


def _check(
    ledger: KeyLedger,
    known: KnownConflict | None,
    scope: str,
    unchecked: Iterable[UUID],
    claims: Mapping[UUID, Claim],
    cause: Cause,
    failed: str,
) -> KnownConflict:
    members = sorted((claims[claim] for claim in unchecked), key=order)
    problems = {str(claim.id): claim.value.problem.value for claim in members if claim.value.problem}
    return KnownConflict(
        id=known.id if known else uuid4(),
        kind=Kind.CHECK.value,
        subject_key_id=ledger.id,
        scope=scope,
        state=States.CHECK_FAILED.value,
        revision=known.revision if known else 0,
        opened_at=known.opened_at if known else cause.at,
        changed_at=cause.at,
        decided_at=None,
        follows=None,
        decision_id=None,
        merged_into=None,
        rule="detection_failed" if failed else "no_normal_form",
        policy=policy.VERSION,
        explanation={"error": failed} if failed else {"problems": problems, "normaliser": members[0].value.normaliser},
        inputs=[],
        claims={claim.id: (number, False) for number, claim in enumerate(members)},
    )
