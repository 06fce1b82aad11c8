"""A person's request about a conflict: whether it can be granted, what decision it becomes, what that would change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import combinations
from uuid import UUID

from ledger.domain.claims import Claim
from ledger.domain.decisions import (
    Decision,
    MissingPart,
    NothingToUndo,
    NotOpen,
    Placement,
    StaleDecision,
    StillCompeting,
    UnknownClaim,
    Verdict,
    in_force,
)
from ledger.domain.normalisers import Value
from ledger.domain.periods import Period, hull
from ledger.domain.settlement import Conflict, ConflictState, Rules, Settlement, compare, resolve


@dataclass(frozen=True, slots=True)
class Request:
    """`revision` is that of the conflict when the person looked at it. `value` with its `evidence` is a corrected one;
    `valid` says when it is true, where that is not all of the time in question."""

    revision: int
    verdict: Verdict
    claim: UUID | None = None
    placements: tuple[Placement, ...] = ()
    value: Value | None = None
    evidence: str = ""
    valid: Period | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Signature:
    """Who decides, when, and under which ids: the store's to give."""

    decision: UUID
    correction: UUID
    ordinal: int
    actor: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision, and the claim that it makes when it corrects the value. Both are stored, or neither."""

    decision: Decision
    correction: Claim | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """What happened to a conflict while somebody was looking at an older revision of it."""

    added: frozenset[UUID]
    removed: frozenset[UUID]
    was_decided: bool
    decision: UUID | None


def decide(
    conflict: Conflict, request: Request, signature: Signature, *, revision: int, claims: Iterable[Claim]
) -> Ruling:
    """`revision` is the conflict's latest, `claims` are at least its own. What a policy settled, a person may settle
    otherwise; what a person settled has to be undone first."""
    if request.revision != revision:
        raise StaleDecision(request.revision, revision)
    if conflict.decision is not None:
        raise NotOpen("a person has decided the conflict")
    own = {claim.id: claim for claim in claims if claim.id in conflict.claims}
    _require_parts(request)
    _require_known(request, own)
    decision = Decision(
        id=signature.decision,
        ordinal=signature.ordinal,
        verdict=request.verdict,
        considered=conflict.claims,
        actor=signature.actor,
        decided_at=signature.at,
        kept=request.claim,
        placements=request.placements,
        follows=conflict.follows,
        reason=request.reason,
        revision=revision,
    )
    if request.verdict is Verdict.BOTH:
        _require_apart(own, request.placements)
    if request.value is None:
        return Ruling(decision)
    correction = _correction(conflict, request, request.value, signature, list(own.values()))
    considered = conflict.claims | {correction.id}
    return Ruling(replace(decision, kept=correction.id, considered=considered), correction)


def undo(target: UUID, signature: Signature, decisions: Iterable[Decision], *, reason: str = "") -> Decision:
    """The decision that takes `target` back. An undoing can be undone in the same way."""
    told = list(decisions)
    found = next((decision for decision in told if decision.id == target), None)
    if found is None or not _is_in_force(found, told):
        raise NothingToUndo("the decision is unknown or has been undone", field="decision")
    return Decision(
        id=signature.decision,
        ordinal=signature.ordinal,
        verdict=Verdict.UNDO,
        considered=frozenset(),
        actor=signature.actor,
        decided_at=signature.at,
        undoes=target,
        reason=reason,
        revision=found.revision,
    )


def preview(
    ruling: Ruling, claims: Iterable[Claim], decisions: Iterable[Decision], rules: Rules | None = None
) -> Settlement:
    """What it would change. Pass all claims and decisions of the subject's key."""
    known, told = list(claims), list(decisions)
    with_correction = [*known, ruling.correction] if ruling.correction else known
    return compare(resolve(known, told, rules), resolve(with_correction, [*told, ruling.decision], rules))


def what_changed(seen: Conflict, now: Conflict) -> Difference:
    return Difference(
        added=now.claims - seen.claims,
        removed=seen.claims - now.claims,
        was_decided=now.state is ConflictState.DECIDED,
        decision=now.decision,
    )


def _is_in_force(decision: Decision, decisions: Sequence[Decision]) -> bool:
    """An undoing is in force as long as it is not undone itself: with it out, its target would come back."""
    if decision.verdict is not Verdict.UNDO:
        return decision in in_force(decisions)
    without = [other for other in decisions if other.id != decision.id]
    return in_force(without) != in_force(decisions)


_NEEDS: Mapping[Verdict, str] = {Verdict.CHOOSE: "claim", Verdict.CORRECT: "value", Verdict.BOTH: "placements"}
_PARTS = ("claim", "value", "placements")


def _require_parts(request: Request) -> None:
    if request.verdict is Verdict.UNDO:
        raise MissingPart("undoing is not an outcome of a conflict", field="outcome")
    needed = _NEEDS.get(request.verdict)
    for part in _PARTS:
        is_given = bool(getattr(request, part))
        if is_given != (part == needed):
            what = "needs" if part == needed else "has no use for"
            raise MissingPart(f"{request.verdict} {what} {part}", field=part)
    if request.value is not None and not request.evidence:
        raise MissingPart("a corrected value needs evidence", field="evidence")


def _require_known(request: Request, own: Mapping[UUID, Claim]) -> None:
    named = {placement.claim for placement in request.placements} | ({request.claim} if request.claim else set())
    for claim_id in sorted(named - own.keys()):
        raise UnknownClaim(f"claim {claim_id} is not part of the conflict", field="claim_id")


def _require_apart(own: Mapping[UUID, Claim], placements: Sequence[Placement]) -> None:
    if len(placements) < 2:
        raise MissingPart("both needs a place for two claims or more", field="placements")
    placed = [
        replace(own[one.claim], scope=one.scope or own[one.claim].scope, valid=one.valid or own[one.claim].valid)
        for one in placements
    ]
    for one, other in combinations(placed, 2):
        differ = one.value.normal != other.value.normal
        if differ and one.scope == other.scope and one.valid.overlaps(other.valid):
            raise StillCompeting(
                "both leaves two values in one scope at one time: give them other scopes or validities",
                field="placements",
            )


def _correction(
    conflict: Conflict, request: Request, value: Value, signature: Signature, own: Sequence[Claim]
) -> Claim:
    return Claim(
        id=signature.correction,
        subject=conflict.slot.subject,
        key=conflict.slot.key,
        scope=conflict.slot.scope,
        value=value,
        content=request.evidence,
        valid=request.valid or hull(claim.valid for claim in own),
        writer=signature.actor,
        observed_at=signature.at,
        received_at=signature.at,
        decision=signature.decision,
    )
