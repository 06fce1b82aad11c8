"""A claim: what one writer said about a subject under a key, when, and for which time it is meant.

A claim never changes. A new revision of it may say the same thing better (wording, confidence, scope, validity) or take
it back; another value is another claim. The first revision keeps the origin.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID, uuid5

from ledger.domain.canonical import canonical_bytes
from ledger.domain.errors import LedgerError
from ledger.domain.key_registry import Key
from ledger.domain.normalisers import Value
from ledger.domain.periods import ALWAYS, Period, aware
from ledger.domain.scopes import UNSCOPED, Scope

MAX_SUBJECT_LENGTH = 512
_CLAIMS = UUID("5a9b9f7e-8f5d-4f0e-8b0e-2f6f7f1f6c55")


class ClaimError(LedgerError):
    """What a claim says about itself cannot be."""


class ContradictoryRevision(ClaimError):
    """One revision of one claim came in two versions."""


class RevisionChangesMeaning(ClaimError):
    """A revision with another subject, key or value: that is another claim."""


class StaleRevision(ClaimError):
    """An edit was based on a revision that is no longer the latest."""

    def __init__(self, seen: int, latest: int) -> None:
        super().__init__(f"revision {seen} is not the latest, which is {latest}", field="revision")
        self.seen = seen
        self.latest = latest


class Slot(NamedTuple):
    """Where claims compete: a tenant's claims conflict only within one slot."""

    subject: str
    key: Key
    scope: Scope


@dataclass(frozen=True, slots=True)
class Claim:
    """`observed_at` is when it happened according to the writer, `received_at` when this revision was learned.

    `ordinal` is the place of the statement within its source event, where later ones correct earlier ones; statements
    that were made at once share one. `confidence` is None when the writer named none. `decision` is the decision that
    made this claim, for a corrected value. `withdrawn` says that the claim was taken back.
    """

    id: UUID
    subject: str
    key: Key
    value: Value
    writer: str
    observed_at: datetime
    received_at: datetime
    scope: Scope = UNSCOPED
    content: str = ""
    valid: Period = ALWAYS
    confidence: float | None = None
    source_event: UUID | None = None
    ordinal: int = 0
    revision: int = 1
    revised_by: str | None = None
    withdrawn: bool = False
    decision: UUID | None = None

    def __post_init__(self) -> None:
        aware(self.observed_at, "observed_at")
        aware(self.received_at, "received_at")
        if not self.subject or len(self.subject) > MAX_SUBJECT_LENGTH:
            raise ClaimError(f"subject is empty or longer than {MAX_SUBJECT_LENGTH} characters", field="subject")
        if self.confidence is not None and not 0 <= self.confidence <= 1:
            raise ClaimError("confidence is not between 0 and 1", field="confidence")

    @property
    def slot(self) -> Slot:
        return Slot(self.subject, self.key, self.scope)

    @property
    def is_checkable(self) -> bool:
        return self.value.normal is not None


_BEGINNING = datetime.min.replace(tzinfo=UTC)
_END = datetime.max.replace(tzinfo=UTC)


def order(claim: Claim) -> tuple[datetime, int, str, str, datetime, datetime, float, str, datetime, UUID]:
    """The order in which claims are told. Their ids only part claims that agree in everything that is told of them."""
    return (
        claim.observed_at,
        claim.ordinal,
        claim.writer,
        claim.value.normal or "",
        claim.valid.start or _BEGINNING,
        claim.valid.end or _END,
        1.0 if claim.confidence is None else -claim.confidence,
        claim.content,
        claim.received_at,
        claim.id,
    )


def claim_id(source_event: UUID, slot: Slot, value: Value, valid: Period) -> UUID:
    """The same statement of the same source event always has the same id, so that reading it again adds nothing."""
    bounds = [bound.isoformat() if bound else None for bound in (valid.start, valid.end)]
    said = [slot.subject, slot.key.category, slot.key.name, slot.scope.text]
    return uuid5(_CLAIMS, canonical_bytes([str(source_event), *said, value.normal, value.display, *bounds]).decode())


def revise(
    claim: Claim,
    *,
    based_on: int,
    by: str,
    at: datetime,
    content: str | None = None,
    confidence: float | None = None,
    scope: Scope | None = None,
    valid: Period | None = None,
    withdrawn: bool | None = None,
) -> Claim:
    """The next revision; what is None stays. The writer stays too, and `by` is who revised."""
    if based_on != claim.revision:
        raise StaleRevision(based_on, claim.revision)
    return replace(
        claim,
        content=claim.content if content is None else content,
        confidence=claim.confidence if confidence is None else confidence,
        scope=scope or claim.scope,
        valid=valid or claim.valid,
        withdrawn=claim.withdrawn if withdrawn is None else withdrawn,
        received_at=at,
        revision=claim.revision + 1,
        revised_by=by,
    )


def latest(claims: Iterable[Claim]) -> list[Claim]:
    """The latest revision of each claim, in the order of claims; however often each was given."""
    newest: dict[UUID, Claim] = {}
    for claim in claims:
        known = newest.setdefault(claim.id, claim)
        if known is not claim and known != claim:
            newest[claim.id] = _later(known, claim)
    return sorted(newest.values(), key=order)


def _later(one: Claim, other: Claim) -> Claim:
    if one.revision == other.revision:
        raise ContradictoryRevision(f"revision {one.revision} of claim {one.id} came in two versions")
    if (one.subject, one.key, one.value.normal) != (other.subject, other.key, other.value.normal):
        raise RevisionChangesMeaning(f"claim {one.id} has a revision with another subject, key or value")
    return one if one.revision > other.revision else other
