"""What people decide about a conflict, and which of their decisions are in force.

A decision is never changed. Undoing it is another decision; undoing that one brings it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from ledger.domain.claims import Claim, Slot
from ledger.domain.errors import LedgerError
from ledger.domain.periods import Period, aware
from ledger.domain.scopes import Scope


class Verdict(StrEnum):
    CHOOSE = "choose"
    BOTH = "both"
    NEITHER = "neither"
    CORRECT = "correct"
    UNDO = "undo"


class DecisionError(LedgerError):
    """A decision that cannot be made."""


class UnknownClaim(DecisionError):
    """It speaks of a claim that is not part of the conflict."""


class MissingPart(DecisionError):
    """The verdict needs something that was not given, or was given something that it has no use for."""


class StillCompeting(DecisionError):
    """`both` leaves two different values in one scope at one time."""


class NotOpen(DecisionError):
    """A person has decided the conflict already."""

    code = "conflict"


class NothingToUndo(DecisionError):
    """The decision is unknown, or has been undone."""

    code = "conflict"


class AmbiguousOrder(DecisionError):
    """Two decisions about one key with the same ordinal."""


class StaleDecision(DecisionError):
    """It was based on a revision of the conflict that is no longer the latest."""

    code = "conflict"

    def __init__(self, seen: int, latest: int) -> None:
        super().__init__(f"the decision saw revision {seen}, the conflict is at {latest}", field="revision")
        self.seen = seen
        self.latest = latest


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a claim that is kept belongs from now on; None leaves that as it was."""

    claim: UUID
    scope: Scope | None = None
    valid: Period | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """`ordinal` counts the decisions about one key of a subject, in the order in which they were made. `considered` are
    the claims of the conflict, a corrected value among them; `kept` is the one that was chosen or made. `follows` is
    the earlier decision that the conflict came after. `revision` is the conflict's, as the person saw it."""

    id: UUID
    ordinal: int
    verdict: Verdict
    considered: frozenset[UUID]
    actor: str
    decided_at: datetime
    kept: UUID | None = None
    placements: tuple[Placement, ...] = ()
    undoes: UUID | None = None
    follows: UUID | None = None
    reason: str = ""
    revision: int = 1

    def __post_init__(self) -> None:
        aware(self.decided_at, "decided_at")

    @property
    def all_kept(self) -> frozenset[UUID]:
        kept = {placement.claim for placement in self.placements}
        return frozenset(kept | {self.kept} if self.kept else kept)


def in_force(decisions: Iterable[Decision]) -> list[Decision]:
    """Without what was undone, and without the undoing. Earliest first."""
    by_id = {decision.id: decision for decision in decisions}
    ordered = sorted(by_id.values(), key=lambda decision: decision.ordinal)
    if len({decision.ordinal for decision in ordered}) < len(ordered):
        raise AmbiguousOrder("two decisions have the same ordinal")
    undone: set[UUID | None] = set()
    standing: list[Decision] = []
    for decision in reversed(ordered):
        if decision.id in undone:
            continue
        if decision.verdict is Verdict.UNDO:
            undone.add(decision.undoes)
        else:
            standing.append(decision)
    return standing[::-1]


@dataclass(frozen=True, slots=True)
class Word:
    """What a person said about one claim; `kept` are the claims that the same decision kept."""

    decision: Decision
    keeps: bool
    kept: frozenset[UUID]

    def counts_among(self, present: Set[UUID]) -> bool:
        """What lost to a chosen claim lost only where that one is; what was refused for itself, or got no place when
        others did, is refused everywhere."""
        is_for_itself = self.decision.verdict in (Verdict.NEITHER, Verdict.BOTH)
        return self.keeps or is_for_itself or not self.kept.isdisjoint(present)


@dataclass(frozen=True, slots=True)
class Rulings:
    """The decisions in force, laid over the claims they speak of."""

    claims: tuple[Claim, ...]
    words: Mapping[UUID, Word] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()


def apply(claims: Iterable[Claim], decisions: Iterable[Decision]) -> Rulings:
    """Claims in the places that decisions gave them, without corrections that were undone. A later decision's word on a
    claim takes the place of an earlier one's."""
    standing = in_force(decisions)
    known = frozenset(decision.id for decision in standing)
    placed = {claim.id: claim for claim in claims if claim.decision is None or claim.decision in known}
    words: dict[UUID, Word] = {}
    for decision in standing:
        moves = _moves(decision, placed)
        placed |= moves
        words |= _words(decision, placed, frozenset(moves))
    return Rulings(tuple(placed.values()), words, tuple(standing))


def _moves(decision: Decision, claims: Mapping[UUID, Claim]) -> dict[UUID, Claim]:
    """A kept claim takes those with it that say the same in the same place: a side moves as one."""
    moved: dict[UUID, Claim] = {}
    for placement in decision.placements:
        kept = claims.get(placement.claim)
        if kept is None:
            continue
        for claim_id in decision.considered & claims.keys():
            claim = claims[claim_id]
            if (claim.slot, claim.value.normal) == (kept.slot, kept.value.normal):
                moved[claim_id] = replace(
                    claim, scope=placement.scope or claim.scope, valid=placement.valid or claim.valid
                )
    return moved


def _words(decision: Decision, claims: Mapping[UUID, Claim], moved: frozenset[UUID]) -> dict[UUID, Word]:
    named = [claims[claim_id] for claim_id in decision.all_kept & claims.keys()]
    said = {(claim.slot, claim.value.normal) for claim in named}
    kept = frozenset(
        claim_id for claim_id in decision.considered if claim_id in moved or _says(claims.get(claim_id), said)
    )
    return {claim_id: Word(decision, claim_id in kept, kept) for claim_id in decision.considered}


def _says(claim: Claim | None, said: set[tuple[Slot, str | None]]) -> bool:
    return claim is not None and (claim.slot, claim.value.normal) in said
