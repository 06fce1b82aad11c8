"""Why a conflict stands as it does and what a decision would change, in sentences for its page.

Sentences are plain text: templates escape them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from .domain.policy import Rule
from .domain.settlement import Change, Settlement, Status
from .queries.claims import MemoryRow
from .queries.conflicts import ConflictRow

_SETTLED: Mapping[str, str] = {
    Rule.AUTHORITY: "The writer with the most authority for this category was followed, whatever the times.",
    Rule.SAME_WRITER: "A writer corrected itself, so its later word was followed.",
    Rule.RECENCY: "The writers have equal authority; the tenant lets the later observation win for this key.",
    Rule.CONFIDENCE: "Authority and time are equal, so the higher confidence was followed.",
    Rule.AGREEMENT: "The writers that are left agree.",
    Rule.UNOPPOSED: "One value is left.",
    Rule.TAKEN_BACK: "The other values were taken back.",
}
_FAILED: Mapping[str, str] = {
    "no_normal_form": "A value cannot be read as what its key holds, so it could not be compared with the others.",
    "detection_failed": "The claims could not be compared: the check itself failed. It is made again when something"
    " about the key changes.",
}


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that would change. ``kind`` is a word for its hue: active, kept, archived, opens, closes, moved."""

    kind: str
    label: str
    text: str


def why(conflict: ConflictRow) -> str:
    params = conflict.explanation.get("params") or {}
    match conflict.rule:
        case Rule.EQUAL_AUTHORITY:
            return (
                f"Writers of equal authority ({params.get('authority', 0)} for {conflict.category}) disagree,"
                " so a person decides."
            )
        case Rule.EXACT_TIE:
            return "Authority, time and confidence of the sides are equal, so a person decides. Ids never break a tie."
        case Rule.AFTER_DECISION:
            actor = params.get("actor", "a person")
            return f"New evidence stands against what {actor} decided. The decision holds meanwhile."
        case Rule.PERSON:
            actor = params.get("actor", "a person")
            return f"Decided by {actor}. A decision stands above every policy until it is undone."
        case "similar_text":
            return (
                f"A text without a key is {round(100 * float(params.get('likeness', 0)))} % alike to an active claim."
                " Likeness proves nothing: this is no more than a suggestion to look."
            )
        case rule if rule in _FAILED:
            return _FAILED[rule]
        case rule:
            return _SETTLED.get(rule, f"Settled by the rule {rule}.")


def effects(settlement: Settlement, claims: Mapping[UUID, MemoryRow], correction: str | None) -> tuple[Effect, ...]:
    """What would change, most important first."""

    def name(claim: UUID) -> str:
        known = claims.get(claim)
        if known is None:
            return "the corrected value" if correction is None else correction
        return f"{known.display}, from {known.writer}"

    return (*_activated(settlement, name), *_given_up(settlement, name), *_conflicts(settlement))


def _activated(settlement: Settlement, name: Any) -> Iterator[Effect]:
    before = {(holding.claim, holding.period) for holding in settlement.before.holdings}
    after = {(holding.claim, holding.period) for holding in settlement.after.holdings}
    for holding in settlement.activated:
        if (holding.claim, holding.period) not in before:
            yield Effect("active", "active", f"{name(holding.claim)}{_period(holding)}")
    kept = [one for one in settlement.after.holdings if (one.claim, one.period) in before]
    for holding in kept:
        yield Effect("active", "stays active", f"{name(holding.claim)}{_period(holding)}")
    for holding in settlement.released:
        if (holding.claim, holding.period) not in after:
            yield Effect("closes", "no longer active", f"{name(holding.claim)}{_period(holding)}")


def _period(holding: Any) -> str:
    start, end = holding.period.start, holding.period.end
    if start is None and end is None:
        return ""
    if end is None:
        return f", from {start:%Y-%m-%d %H:%M} UTC on"
    if start is None:
        return f", until {end:%Y-%m-%d %H:%M} UTC"
    return f", from {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"


def _given_up(settlement: Settlement, name: Any) -> Iterator[Effect]:
    for claim, place in settlement.given_up:
        if place.status is Status.ARCHIVED:
            yield Effect("kept", "archived, readable in history", name(claim))
        else:
            yield Effect("kept", "superseded, readable in history", name(claim))
    for one in settlement.corroborations:
        yield Effect("kept", "corroborates", f"{name(one.claim)} stands for {name(one.of)}")


_CONFLICT_WORDS = {
    Change.OPENED: ("opens", "another conflict opens"),
    Change.DECIDED: ("closes", "this conflict is decided"),
    Change.EXTENDED: ("opens", "a conflict gets more claims"),
    Change.REOPENED: ("opens", "a conflict is open again"),
    Change.DISSOLVED: ("closes", "this conflict dissolves"),
}


def _conflicts(settlement: Settlement) -> Iterator[Effect]:
    for change in settlement.conflicts:
        kind, label = _CONFLICT_WORDS[change.change]
        count = len(change.after.claims) if change.after else sum(len(one.claims) for one in change.before)
        yield Effect(kind, label, f"{count} claim{'' if count == 1 else 's'} were weighed")
