"""What the conflict queue and a conflict's page show, as one frozen value each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from runs.pages import Page
from runs.queries import Option

from .conflict_words import Effect
from .queries.claims import MemoryRow
from .queries.conflicts import ChangeRow, ConflictDetail, ConflictRow, DecisionRow, Member
from .queries.review import Neighbours, SuggestedText, Written


@dataclass(frozen=True, slots=True)
class SideClaim:
    """One claim of a side. ``authority`` is what was weighed; ``written`` the entry that it was read from."""

    row: MemoryRow
    authority: int | None
    evidence: tuple[str, ...]
    written: Written | None


@dataclass(frozen=True, slots=True)
class Side:
    """The claims with one value, counted from 1 as the keys are. ``head`` speaks for them."""

    number: int
    claims: tuple[SideClaim, ...]
    is_contender: bool

    @property
    def head(self) -> SideClaim:
        return self.claims[0]

    @property
    def is_active(self) -> bool:
        return any(claim.row.status == "active" for claim in self.claims)


def sides_of(found: ConflictDetail, written: Mapping[UUID, Written]) -> tuple[Side, ...]:
    """In the order of who spoke first; of each side, the contender that speaks for it comes first."""
    by_number: dict[int, list[Member]] = defaultdict(list)
    for member in found.members:
        by_number[member.side].append(member)
    return tuple(
        Side(
            number,
            tuple(
                SideClaim(
                    member.claim,
                    member.authority,
                    member.claim.evidence_texts,
                    written.get(member.claim.entry) if member.claim.entry else None,
                )
                for member in sorted(members, key=lambda one: (not one.is_contender, one.claim.status != "active"))
            ),
            any(member.is_contender for member in members),
        )
        for number, (_, members) in enumerate(sorted(by_number.items()), start=1)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePage(Page):
    """``states`` are all states with how many conflicts are in each."""

    tab: str = "conflicts"
    rows: tuple[ConflictRow, ...]
    state: str
    q: str
    writer: str
    states: tuple[Option, ...]
    total: int
    newer: str | None
    older: str | None
    query: str
    may_decide: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one side is to be kept when several are, as a form says it."""

    scope: str
    start: str
    end: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a person has chosen so far, as a form says it, and what it would change.

    ``lacks`` is what it still needs before it can be decided, ``error`` is why it cannot be."""

    outcome: str
    claim: str
    value: str
    evidence: str
    reason: str
    places: tuple[Place, ...]
    effects: tuple[Effect, ...]
    lacks: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictPage(Page):
    """``earlier`` are decisions about the key that are not this conflict's own; ``undoable`` is the one in force here.

    ``missed`` is what happened since the revision that a refused decision had seen.
    """

    tab: str = "conflicts"
    conflict: ConflictRow
    why: str
    sides: tuple[Side, ...]
    suggested: SuggestedText | None
    own: tuple[DecisionRow, ...]
    earlier: tuple[DecisionRow, ...]
    undoable: DecisionRow | None
    changes: tuple[ChangeRow, ...]
    choice: Choice
    missed: tuple[ChangeRow, ...]
    neighbours: Neighbours
    query: str
    may_decide: bool
    is_open: bool
    outcomes: tuple[str, ...]
    last_decided: UUID | None
