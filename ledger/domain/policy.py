"""The rule that settles which of the claims that compete is the active one.

Policy 1, over claims that all hold at one moment in one slot:

1. A writer's own later claim takes the place of its earlier one; of what it said at one moment, the statement that it
   is surest of counts. A claim taken back leaves its writer without a say: nothing older of that writer comes back.
2. Writers who say the same value are one side. With one side left, it is active.
3. The side with the most authority for the category wins, whatever the times.
4. Sides of equal authority go to a person, unless the tenant allows recency for the key. Then the later `observed_at`
   wins, then the higher confidence; what is still equal goes to a person.

While a person is awaited, the contender that has stood longest by `observed_at` stays active, so that a disagreement
changes nothing by itself; between contenders that have stood equally long, none is. Neither ids nor the order of
arrival decide anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from ledger.domain.claims import Claim, order
from ledger.domain.writers import Authorities

VERSION = "policy-1"


class Rule(StrEnum):
    """What decided, or why a person has to."""

    UNOPPOSED = "unopposed"
    AGREEMENT = "agreement"
    SAME_WRITER = "same_writer"
    AUTHORITY = "authority"
    RECENCY = "recency"
    CONFIDENCE = "confidence"
    PERSON = "person"
    TAKEN_BACK = "taken_back"

    EQUAL_AUTHORITY = "equal_authority"
    EXACT_TIE = "exact_tie"
    AFTER_DECISION = "after_decision"


AWAITS_PERSON = frozenset((Rule.EQUAL_AUTHORITY, Rule.EXACT_TIE, Rule.AFTER_DECISION))


@dataclass(frozen=True, slots=True)
class Position:
    """What one writer says now. It has said so since `since` without a break, last at `observed_at`; `head` is the
    first claim of that row, `claims` all of them."""

    head: Claim
    claims: tuple[Claim, ...]
    observed_at: datetime
    confidence: float | None

    @property
    def since(self) -> datetime:
        return self.head.observed_at

    @property
    def value(self) -> str:
        return self.head.value.normal or ""


@dataclass(frozen=True, slots=True)
class Loss:
    """`to` is the claim that it lost to; None when that is not decided yet."""

    claim: UUID
    rule: Rule
    to: UUID | None


@dataclass(frozen=True, slots=True)
class Weight:
    """One writer's position as it was weighed: an input of the decision."""

    claim: UUID
    value: str
    writer: str
    authority: int
    since: datetime
    observed_at: datetime
    confidence: float | None


@dataclass(frozen=True, slots=True)
class Side:
    """Those who say one value. `head` speaks for them: the writer with most authority, then the one who says so
    longest. `support` are the other claims of the side."""

    head: UUID
    value: str
    support: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The rule and what to put into its sentence; the sentence is the page's."""

    rule: Rule
    params: tuple[tuple[str, str | int | float], ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """`winner` is None when a person has to decide. `active` is the claim that holds meanwhile, if one does."""

    winner: UUID | None
    active: UUID | None
    rule: Rule
    explanation: Explanation
    sides: tuple[Side, ...] = ()
    contenders: tuple[UUID, ...] = ()
    losses: tuple[Loss, ...] = ()
    inputs: tuple[Weight, ...] = ()
    decision: UUID | None = None
    policy: str = VERSION

    @property
    def awaits_person(self) -> bool:
        return self.rule in AWAITS_PERSON


@dataclass(frozen=True, slots=True)
class Standing:
    """What is left once each writer's own claims are read: a position or more for each, and what they gave up."""

    positions: tuple[Position, ...]
    losses: tuple[Loss, ...] = ()


def decide(claims: Iterable[Claim], *, authorities: Authorities, recency_between_equals: bool) -> Outcome:
    """`claims` hold at one moment in one slot and have a normal form. Their order does not matter."""
    return weigh(standing(claims), authorities=authorities, recency_between_equals=recency_between_equals)


def standing(claims: Iterable[Claim]) -> Standing:
    lines: dict[str, _Line] = defaultdict(_Line)
    for claim in sorted(claims, key=order):
        lines[claim.writer].hear(claim)
    read = [line.read() for _, line in sorted(lines.items())]
    return Standing(
        tuple(position for line in read for position in line.positions),
        tuple(loss for line in read for loss in line.losses),
    )


@dataclass(slots=True)
class _Line:
    """One writer's claims, heard in the order of what happened. Several positions are a writer at odds with itself."""

    positions: list[Position] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    moment: list[Claim] = field(default_factory=list)

    def hear(self, claim: Claim) -> None:
        if self.moment and self.moment[0].observed_at != claim.observed_at:
            self._take_in(self.moment)
            self.moment = []
        self.moment.append(claim)

    def read(self) -> _Line:
        self._take_in(self.moment)
        return self

    def _take_in(self, said: list[Claim]) -> None:
        live = [claim for claim in said if not claim.withdrawn]
        if len(live) > 1:  # spares most writers the work
            live = self._surest(self._last_words(live))
        now = _by_value(live)
        known = {position.value: position for position in self.positions}
        to = live[0].id if len(now) == 1 else None
        for value, position in known.items():
            if value not in now:
                self._lose(position.claims, Rule.SAME_WRITER if live else Rule.TAKEN_BACK, to)
        self.positions = [_longer(known.get(value), spoken) for value, spoken in now.items()]

    def _last_words(self, said: list[Claim]) -> list[Claim]:
        """Within one source event, a statement takes the place of those before it."""
        last: dict[tuple[UUID | None, UUID | None], int] = defaultdict(int)
        for claim in said:
            last[_occasion(claim)] = max(last[_occasion(claim)], claim.ordinal)
        final = {(_occasion(claim), _value(claim)) for claim in said if claim.ordinal == last[_occasion(claim)]}
        return self._keep(said, Rule.SAME_WRITER, lambda claim: (_occasion(claim), _value(claim)) in final)

    def _surest(self, said: list[Claim]) -> list[Claim]:
        best = surest({value: [claim.confidence for claim in claims] for value, claims in _by_value(said).items()})
        return self._keep(said, Rule.CONFIDENCE, lambda claim: _value(claim) in best)

    def _keep(self, said: list[Claim], rule: Rule, is_kept: Callable[[Claim], bool]) -> list[Claim]:
        kept = [claim for claim in said if is_kept(claim)]
        to = kept[0].id if len(_by_value(kept)) == 1 else None
        self._lose((claim for claim in said if not is_kept(claim)), rule, to)
        return kept

    def _lose(self, claims: Iterable[Claim], rule: Rule, to: UUID | None) -> None:
        self.losses += [Loss(claim.id, rule, to) for claim in claims]


def surest(confidences: Mapping[str, Iterable[float | None]]) -> frozenset[str]:
    """The values with the highest confidence; all of them where one comes without, since unknown is not low."""
    highest = {value: max(told, key=_known) for value, told in confidences.items()}
    if None in highest.values():
        return frozenset(confidences)
    best = max(_known(told) for told in highest.values())
    return frozenset(value for value, told in highest.items() if told == best)


def _known(confidence: float | None) -> float:
    return -1.0 if confidence is None else confidence


def _occasion(claim: Claim) -> tuple[UUID | None, UUID | None]:
    """Statements of one source event follow each other; whatever else was said at one moment was said at once."""
    return (claim.source_event, None) if claim.source_event and claim.ordinal else (None, claim.id)


def _value(claim: Claim) -> str:
    return claim.value.normal or ""


def _by_value(claims: Iterable[Claim]) -> dict[str, list[Claim]]:
    grouped: dict[str, list[Claim]] = {}
    for claim in claims:
        grouped.setdefault(_value(claim), []).append(claim)
    return grouped


def _longer(known: Position | None, said: Sequence[Claim]) -> Position:
    confidence = max((claim.confidence for claim in said), key=_known)
    if known is None:
        return Position(said[0], tuple(said), said[0].observed_at, confidence)
    return replace(known, claims=(*known.claims, *said), observed_at=said[0].observed_at, confidence=confidence)


@dataclass(frozen=True, slots=True)
class _Camp:
    """A side as it is being weighed. `strongest` are its positions of the most authority, the only ones that are
    compared with those of another side; `head` is the first claim of the one that has stood longest."""

    value: str
    positions: tuple[Position, ...]
    authority: int
    strongest: tuple[Position, ...]
    head: Claim

    @property
    def observed_at(self) -> datetime:
        return max(position.observed_at for position in self.strongest)

    def side(self) -> Side:
        others = sorted(
            (claim for position in self.positions for claim in position.claims if claim is not self.head), key=order
        )
        return Side(self.head.id, self.value, tuple(claim.id for claim in others))


def weigh(standing: Standing, *, authorities: Authorities, recency_between_equals: bool) -> Outcome:
    weights, camps = _weighed(standing.positions, authorities)
    weighing = _Weighing(standing, weights, camps)
    if not camps:
        return weighing.nobody()
    if len(camps) == 1:
        return weighing.won_by(camps[0], _without_opposition(standing), {})
    highest = max(camp.authority for camp in camps)
    contenders = [camp for camp in camps if camp.authority == highest]
    lost = {camp.value: Rule.AUTHORITY for camp in camps if camp.authority < highest}
    if len(contenders) == 1:
        return weighing.won_by(contenders[0], Rule.AUTHORITY, lost)
    if len({position.head.writer for camp in contenders for position in camp.strongest}) == 1:
        return weighing.open_between(contenders, Rule.EXACT_TIE, lost)
    if not recency_between_equals:
        return weighing.open_between(contenders, Rule.EQUAL_AUTHORITY, lost)
    return _between_equals(weighing, contenders, lost)


def survey(positions: Sequence[Position], authorities: Authorities) -> tuple[tuple[Side, ...], tuple[Weight, ...]]:
    """The sides that writers take and what each of them weighs, without deciding."""
    weights, camps = _weighed(positions, authorities)
    return tuple(camp.side() for camp in camps), weights


def _between_equals(weighing: _Weighing, contenders: list[_Camp], lost: dict[str, Rule]) -> Outcome:
    newest = max(camp.observed_at for camp in contenders)
    lost = lost | {camp.value: Rule.RECENCY for camp in contenders if camp.observed_at < newest}
    recent = [camp for camp in contenders if camp.observed_at == newest]
    if len(recent) == 1:
        return weighing.won_by(recent[0], Rule.RECENCY, lost)
    best = surest({camp.value: _confidences(camp, newest) for camp in recent})
    lost |= {camp.value: Rule.CONFIDENCE for camp in recent if camp.value not in best}
    sure = [camp for camp in recent if camp.value in best]
    if len(sure) == 1:
        return weighing.won_by(sure[0], Rule.CONFIDENCE, lost)
    return weighing.open_between(sure, Rule.EXACT_TIE, lost)


def _confidences(camp: _Camp, moment: datetime) -> list[float | None]:
    return [position.confidence for position in camp.strongest if position.observed_at == moment]


def _weight(position: Position, authorities: Authorities) -> Weight:
    head = position.head
    return Weight(
        claim=head.id,
        value=position.value,
        writer=head.writer,
        authority=authorities.of(head.writer, head.key.category),
        since=position.since,
        observed_at=position.observed_at,
        confidence=position.confidence,
    )


def _weighed(positions: Iterable[Position], authorities: Authorities) -> tuple[tuple[Weight, ...], list[_Camp]]:
    weights: list[Weight] = []
    by_value: dict[str, list[tuple[Position, int]]] = {}
    for position in positions:
        weight = _weight(position, authorities)
        weights.append(weight)
        by_value.setdefault(position.value, []).append((position, weight.authority))
    return tuple(weights), [_camp(value, weighed) for value, weighed in sorted(by_value.items())]


def _camp(value: str, weighed: list[tuple[Position, int]]) -> _Camp:
    highest = max(authority for _, authority in weighed)
    strongest = tuple(position for position, authority in weighed if authority == highest)
    head = min((position.head for position in strongest), key=order)
    return _Camp(value, tuple(position for position, _ in weighed), highest, strongest, head)


def _without_opposition(standing: Standing) -> Rule:
    given_up = {loss.rule for loss in standing.losses}
    for rule in (Rule.SAME_WRITER, Rule.CONFIDENCE):
        if rule in given_up:
            return rule
    return Rule.AGREEMENT if len(standing.positions) > 1 else Rule.UNOPPOSED


@dataclass(frozen=True, slots=True)
class _Weighing:
    """What every outcome of one weighing carries."""

    standing: Standing
    weights: tuple[Weight, ...]
    camps: Sequence[_Camp]

    def nobody(self) -> Outcome:
        return self._outcome(None, None, Rule.TAKEN_BACK, {}, ())

    def won_by(self, camp: _Camp, rule: Rule, lost: Mapping[str, Rule]) -> Outcome:
        return self._outcome(camp, camp.head.id, rule, lost, ())

    def open_between(self, contenders: Sequence[_Camp], rule: Rule, lost: Mapping[str, Rule]) -> Outcome:
        first = min(camp.head.observed_at for camp in contenders)
        longest = [camp for camp in contenders if camp.head.observed_at == first]
        active = longest[0].head.id if len(longest) == 1 else None
        return self._outcome(None, active, rule, lost, contenders)

    def _outcome(
        self,
        winner: _Camp | None,
        active: UUID | None,
        rule: Rule,
        lost: Mapping[str, Rule],
        contenders: Sequence[_Camp],
    ) -> Outcome:
        won = winner.head.id if winner else None
        beaten = [
            Loss(claim.id, lost[camp.value], won)
            for camp in self.camps
            if camp.value in lost
            for position in camp.positions
            for claim in position.claims
        ]
        return Outcome(
            winner=won,
            active=active,
            rule=rule,
            explanation=_explain(rule, self.weights, winner, contenders),
            sides=tuple(camp.side() for camp in self.camps),
            contenders=tuple(camp.head.id for camp in contenders),
            losses=(*self.standing.losses, *beaten),
            inputs=self.weights,
        )


def _explain(rule: Rule, weights: Sequence[Weight], winner: _Camp | None, contenders: Sequence[_Camp]) -> Explanation:
    """The winner's weight beside the strongest other one, as far as the rule looked at it."""
    if contenders:
        return Explanation(rule, (("sides", len(contenders)), ("authority", contenders[0].authority)))
    others = [weight for weight in weights if winner and weight.value != winner.value]
    if not others:
        return Explanation(rule, (("writers", len({weight.writer for weight in weights})),))
    strongest, other = max(weights, key=_strength), max(others, key=_strength)
    return Explanation(rule, (*_told("", rule, strongest), *_told("other_", rule, other)))


def _strength(weight: Weight) -> tuple[int, datetime, float, str]:
    return weight.authority, weight.observed_at, _known(weight.confidence), weight.value


def _told(prefix: str, rule: Rule, weight: Weight) -> tuple[tuple[str, str | int | float], ...]:
    measures: Mapping[Rule, tuple[str, str | int | float]] = {
        Rule.RECENCY: ("observed_at", weight.observed_at.isoformat()),
        Rule.CONFIDENCE: ("confidence", _known(weight.confidence)),
    }
    name, measure = measures.get(rule, ("authority", weight.authority))
    return ((f"{prefix}writer", weight.writer), (f"{prefix}{name}", measure))
