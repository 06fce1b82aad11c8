"""What holds in one slot throughout one period: by the policy, or by the word of a person, which stands above it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from ledger.domain.claims import Claim, Slot, order
from ledger.domain.decisions import Decision, Word
from ledger.domain.key_registry import KeyRule
from ledger.domain.periods import Period
from ledger.domain.policy import (
    Explanation,
    Loss,
    Outcome,
    Position,
    Rule,
    Standing,
    standing,
    survey,
    weigh,
)
from ledger.domain.writers import Authorities


@dataclass(frozen=True, slots=True)
class Finding:
    """`contest` are the claims that cannot all be active; it came after the decision `follows`, if after any."""

    slot: Slot
    period: Period
    outcome: Outcome
    contest: frozenset[UUID] = frozenset()
    follows: UUID | None = None


@dataclass(frozen=True, slots=True)
class Judge:
    """`words` are what people said on single claims, `rule` is that of the slot's key."""

    words: Mapping[UUID, Word]
    authorities: Authorities
    rule: KeyRule

    def find(self, slot: Slot, period: Period, members: Sequence[Claim]) -> Finding:
        """`members` hold throughout the period and have a normal form."""
        told = self._told(members)
        words = self._words(members, told)
        if words:
            hearing = _Hearing(self, slot, period, members, words)
            return hearing.kept() if hearing.is_any_kept else hearing.none_kept()
        contest = _contest(members)
        follows = self.words[told[-1].id].decision.id if told and contest else None
        return Finding(slot, period, self._weigh(standing(members)), contest, follows)

    def _told(self, members: Iterable[Claim]) -> list[Claim]:
        """The claims that people spoke of, by when they did."""
        told = (claim for claim in members if claim.id in self.words)
        return sorted(told, key=lambda claim: self.words[claim.id].decision.ordinal)

    def _words(self, members: Iterable[Claim], told: Sequence[Claim]) -> dict[UUID, Word]:
        """The words that count here. The word on a claim is the word on its value from its writer, as far as that was
        observed up to then. Where values stand side by side, a choice is about nothing but the value itself."""
        present = {claim.id for claim in told}
        is_alone = self.rule.cardinality == "many"
        words = {
            claim.id: self.words[claim.id] for claim in told if is_alone or self.words[claim.id].counts_among(present)
        }
        on_statement = {(claim.writer, claim.value.normal): words[claim.id] for claim in told if claim.id in words}
        for claim in members:
            word = on_statement.get((claim.writer, claim.value.normal))
            if word is not None and claim.observed_at <= word.decision.decided_at:
                words.setdefault(claim.id, word)
        return words

    def _weigh(self, said: Standing) -> Outcome:
        recency = self.rule.recency_between_equals
        return weigh(said, authorities=self.authorities, recency_between_equals=recency)


class _Hearing:
    """One period in which a person's word meets what was said before and since."""

    def __init__(
        self, judge: Judge, slot: Slot, period: Period, members: Sequence[Claim], words: Mapping[UUID, Word]
    ) -> None:
        self.judge = judge
        self.slot = slot
        self.period = period
        self.words = words
        self.told = sorted((claim for claim in members if claim.id in words and not claim.withdrawn), key=order)
        self.fresh, given_up = _news(members, words)
        said = standing(self.fresh)
        self.said = replace(said, losses=(*given_up, *said.losses))

    @property
    def is_any_kept(self) -> bool:
        return any(self.words[claim.id].keeps for claim in self.told)

    def kept(self) -> Finding:
        kept = [claim for claim in self.told if self.words[claim.id].keeps]
        decision = max((self.words[claim.id].decision for claim in kept), key=_ordinal)
        own = [claim for claim in kept if self.words[claim.id].decision is decision]
        head = next((claim for claim in own if claim.id == decision.kept), own[0])
        agreeing = [claim for claim in kept if claim.value.normal == head.value.normal and claim is not head]
        opposing = [position for position in self.said.positions if position.value != head.value.normal]
        fresh = [claim for one in self.said.positions if one not in opposing for claim in one.claims]
        side = Position(head, (head, *agreeing, *fresh), head.observed_at, head.confidence)
        overruled = [claim for claim in self.told if claim.value.normal != head.value.normal or claim not in kept]
        losses = (*self.said.losses, *(Loss(claim.id, Rule.PERSON, head.id) for claim in overruled))
        if opposing:
            return self._after(decision, [side, *opposing], losses, active=head.id)
        return self._finding(self._outcome(Rule.PERSON, decision, [side], losses, winner=head.id, active=head.id))

    def none_kept(self) -> Finding:
        decision = max((word.decision for word in self.words.values()), key=_ordinal)
        refused = {claim.value.normal for claim in self.told}
        repeated = [position for position in self.said.positions if position.value in refused]
        losses = (*self.said.losses, *(Loss(claim.id, Rule.PERSON, None) for claim in self.told))
        said = Standing(tuple(one for one in self.said.positions if one not in repeated), losses)
        outcome = self.judge._weigh(said)
        if repeated:
            return self._after(decision, self.said.positions, losses, active=outcome.active)
        if not said.positions:
            return self._finding(self._outcome(Rule.PERSON, decision, (), losses))
        return self._finding(outcome, _contest(self.fresh), decision.id)

    def _after(
        self,
        decision: Decision,
        positions: Sequence[Position],
        losses: tuple[Loss, ...],
        active: UUID | None,
    ) -> Finding:
        """Something new stands against the decision."""
        outcome = self._outcome(Rule.AFTER_DECISION, decision, positions, losses, active=active)
        contest = frozenset(claim.id for position in positions for claim in position.claims)
        return self._finding(outcome, contest, decision.id)

    def _outcome(
        self,
        rule: Rule,
        decision: Decision,
        positions: Sequence[Position],
        losses: tuple[Loss, ...],
        *,
        winner: UUID | None = None,
        active: UUID | None = None,
    ) -> Outcome:
        sides, inputs = survey(positions, self.judge.authorities)
        return Outcome(
            winner=winner,
            active=active,
            rule=rule,
            explanation=Explanation(rule, (("decision", str(decision.id)), ("actor", decision.actor))),
            sides=sides,
            contenders=tuple(side.head for side in sides) if rule is Rule.AFTER_DECISION else (),
            losses=losses,
            inputs=inputs,
            decision=decision.id,
        )

    def _finding(
        self, outcome: Outcome, contest: frozenset[UUID] = frozenset(), follows: UUID | None = None
    ) -> Finding:
        return Finding(self.slot, self.period, outcome, contest, follows if contest else None)


def _ordinal(decision: Decision) -> int:
    return decision.ordinal


def _contest(claims: Iterable[Claim]) -> frozenset[UUID]:
    live = [claim for claim in claims if not claim.withdrawn]
    is_contested = len({claim.value.normal for claim in live}) > 1
    return frozenset(claim.id for claim in live) if is_contested else frozenset()


def _news(members: Iterable[Claim], words: Mapping[UUID, Word]) -> tuple[list[Claim], list[Loss]]:
    """What nobody has spoken on yet; without what its own writer had moved on from before a person spoke."""
    ordered = sorted(members, key=order)
    last = {claim.writer: claim for claim in ordered if claim.id in words}
    fresh: list[Claim] = []
    given_up: list[Loss] = []
    for claim in (claim for claim in ordered if claim.id not in words):
        later = last.get(claim.writer)
        if later is not None and claim.observed_at < later.observed_at:
            given_up.append(Loss(claim.id, Rule.SAME_WRITER, later.id))
        else:
            fresh.append(claim)
    return fresh, given_up
