"""The state of a subject's key: which claims are active when, what is in conflict, and what was given up.

The state is a function of two sets, the claims and the decisions in force, and of nothing else: not of the order in
which claims came, how they were batched, how often each came, or what their ids are. So a rescan changes nothing, and
any sequence of batches ends where one batch with everything in it ends. What a batch changed is the difference between
the state without it and the state with it.

Time of validity is cut at every bound that occurs. Within one piece, the claims that hold compete; pieces with the same
finding are joined again. A claim that lost one piece may hold another that nobody else speaks of.

A person's word stands above every policy. What was considered keeps the word that was given on it, and so does the same
value from the same writer observed up to then, which is nothing new. Anything else that contradicts the word is new
evidence: the value stays as decided, and a new conflict that names the decision awaits a person. What lost to a chosen
claim keeps the time that the chosen one does not speak of, as it does under a policy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from uuid import UUID

from ledger.domain.claims import Claim, Slot, latest, order
from ledger.domain.decisions import Decision, Rulings, apply
from ledger.domain.findings import Finding, Judge
from ledger.domain.key_registry import KeyRegistry
from ledger.domain.periods import Period, pieces
from ledger.domain.policy import Rule, Side
from ledger.domain.writers import Authorities

VERSION = "settlement-1"


@dataclass(frozen=True, slots=True)
class Rules:
    """What a tenant has laid down: its keys and its writers' authority."""

    keys: KeyRegistry = field(default_factory=KeyRegistry)
    authorities: Authorities = field(default_factory=Authorities)


class Status(StrEnum):
    """Of a claim over all of its validity: the first of these that it is in some part of it."""

    ACTIVE = "active"
    CONTESTED = "contested"
    CORROBORATES = "corroborates"
    SUPERSEDED = "superseded"
    ARCHIVED = "archived"
    WITHDRAWN = "withdrawn"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Place:
    """How a claim stands, by which rule, and which claim stands in its place or before it."""

    status: Status
    rule: Rule | None = None
    to: UUID | None = None


@dataclass(frozen=True, slots=True)
class Holding:
    """An active claim and for which time it is. `is_open` says that a person is awaited and may decide otherwise."""

    claim: UUID
    slot: Slot
    period: Period
    rule: Rule
    is_open: bool
    decision: UUID | None = None


class ConflictState(StrEnum):
    OPEN = "open"
    DECIDED = "decided"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Claims that cannot all be active, as far as one leads to another. `decision` is the person's that settled it;
    what a policy found is in `findings`."""

    slot: Slot
    claims: frozenset[UUID]
    state: ConflictState
    findings: tuple[Finding, ...] = ()
    follows: UUID | None = None
    decision: UUID | None = None

    @property
    def contenders(self) -> frozenset[UUID]:
        return frozenset(head for finding in self.findings for head in finding.outcome.contenders)


@dataclass(frozen=True, slots=True)
class State:
    findings: tuple[Finding, ...]
    holdings: tuple[Holding, ...]
    conflicts: tuple[Conflict, ...]
    places: Mapping[UUID, Place]

    @property
    def open_conflicts(self) -> tuple[Conflict, ...]:
        return tuple(conflict for conflict in self.conflicts if conflict.state is ConflictState.OPEN)

    def of_status(self, status: Status) -> frozenset[UUID]:
        return frozenset(claim_id for claim_id, place in self.places.items() if place.status is status)

    def saying_the_same(self, claim_id: UUID) -> frozenset[UUID]:
        """The claim and those that stand for its value beside it. To take back what a memory says, take back these."""
        sides = (side for finding in self.findings for side in finding.outcome.sides)
        same = (frozenset((side.head, *side.support)) for side in sides)
        return frozenset((claim_id,)).union(*(group for group in same if claim_id in group))


def resolve(claims: Iterable[Claim], decisions: Iterable[Decision] = (), rules: Rules | None = None) -> State:
    """The state of any number of keys and subjects. Pass all claims and decisions of a subject's key, or none."""
    rules = rules or Rules()
    told = latest(claims)
    rulings = apply(told, decisions)
    findings = [
        finding for slot, members in _by_slot(rulings.claims) for finding in _find(slot, members, rulings, rules)
    ]
    conflicts = [*_conflicts(findings), *_decided(told, rulings)]
    return State(
        findings=tuple(findings),
        holdings=tuple(_holdings(findings)),
        conflicts=tuple(sorted(conflicts, key=_told_in)),
        places=MappingProxyType(_places(told, findings, rulings)),
    )


def _by_slot(claims: Iterable[Claim]) -> list[tuple[Slot, list[Claim]]]:
    slots: dict[Slot, list[Claim]] = defaultdict(list)
    for claim in claims:
        if claim.is_checkable:
            slots[claim.slot].append(claim)
    return sorted(slots.items(), key=lambda item: _text(item[0]))


def _text(slot: Slot) -> tuple[str, str, str, str]:
    return slot.subject, slot.key.category, slot.key.name, slot.scope.text


def _find(slot: Slot, members: Sequence[Claim], rulings: Rulings, rules: Rules) -> Iterator[Finding]:
    rule = rules.keys.rule(slot.key)
    groups: Iterable[Sequence[Claim]] = (members,)
    if rule.cardinality == "many":
        by_value: dict[str, list[Claim]] = defaultdict(list)
        for claim in members:
            by_value[claim.value.normal or ""].append(claim)
        groups = (group for _, group in sorted(by_value.items()))
    for group in groups:
        yield from _joined(_pieces(slot, group, Judge(rulings.words, rules.authorities, rule)))


def _pieces(slot: Slot, group: Sequence[Claim], judge: Judge) -> Iterator[Finding]:
    for period in pieces(claim.valid for claim in group):
        members = [claim for claim in group if claim.valid.covers(period)]
        if members:
            yield judge.find(slot, period, members)


def _joined(findings: Iterable[Finding]) -> Iterator[Finding]:
    before: Finding | None = None
    for finding in findings:
        if before is not None and _continues(before, finding):
            before = replace(before, period=Period(before.period.start, finding.period.end))
            continue
        if before is not None:
            yield before
        before = finding
    if before is not None:
        yield before


def _continues(before: Finding, finding: Finding) -> bool:
    return _adjoin(before.period, finding.period) and replace(finding, period=before.period) == before


def _adjoin(before: Period, period: Period) -> bool:
    return before.end is not None and before.end == period.start


def _holdings(findings: Iterable[Finding]) -> Iterator[Holding]:
    held = (_holding(finding) for finding in findings)
    before: Holding | None = None
    for holding in (one for one in held if one is not None):
        if before is not None and _extends(before, holding):
            before = replace(before, period=Period(before.period.start, holding.period.end))
            continue
        if before is not None:
            yield before
        before = holding
    if before is not None:
        yield before


def _holding(finding: Finding) -> Holding | None:
    outcome = finding.outcome
    if outcome.active is None:
        return None
    return Holding(outcome.active, finding.slot, finding.period, outcome.rule, outcome.awaits_person, outcome.decision)


def _extends(before: Holding, holding: Holding) -> bool:
    return _adjoin(before.period, holding.period) and replace(holding, period=before.period) == before


def _conflicts(findings: Iterable[Finding]) -> Iterator[Conflict]:
    """One for the findings whose contests hang together."""
    by_slot: dict[tuple[Slot, UUID | None], list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.contest:
            by_slot[finding.slot, finding.follows].append(finding)
    for (slot, follows), contested in by_slot.items():
        for claims, group in _connected(contested):
            is_open = any(finding.outcome.awaits_person for finding in group)
            state = ConflictState.OPEN if is_open else ConflictState.DECIDED
            yield Conflict(slot, claims, state, tuple(group), follows)


def _connected(findings: Iterable[Finding]) -> list[tuple[frozenset[UUID], list[Finding]]]:
    groups: list[tuple[frozenset[UUID], list[Finding]]] = []
    for finding in findings:
        touched = [group for group in groups if group[0] & finding.contest]
        groups = [group for group in groups if not group[0] & finding.contest]
        claims = finding.contest.union(*(group[0] for group in touched))
        groups.append((claims, [*(one for group in touched for one in group[1]), finding]))
    return groups


def _decided(claims: Iterable[Claim], rulings: Rulings) -> Iterator[Conflict]:
    by_id = {claim.id: claim for claim in claims}
    for decision in rulings.decisions:
        considered = [by_id[claim_id] for claim_id in decision.considered if claim_id in by_id]
        if considered:
            slot = min(considered, key=order).slot
            decided, follows = ConflictState.DECIDED, decision.follows
            yield Conflict(slot, decision.considered, decided, follows=follows, decision=decision.id)


def _told_in(conflict: Conflict) -> tuple[tuple[str, str, str, str], list[UUID]]:
    return _text(conflict.slot), sorted(conflict.claims)


_PRECEDENCE = tuple(Status)


def _places(claims: Iterable[Claim], findings: Iterable[Finding], rulings: Rulings) -> dict[UUID, Place]:
    places: dict[UUID, Place] = {}
    for finding in findings:
        for claim_id, place in _placed(finding):
            known = places.get(claim_id)
            if known is None or _PRECEDENCE.index(place.status) < _PRECEDENCE.index(known.status):
                places[claim_id] = place
    in_force = {claim.id for claim in rulings.claims}
    for claim in claims:
        if claim.withdrawn or claim.id not in in_force:
            places[claim.id] = Place(Status.WITHDRAWN, Rule.TAKEN_BACK)
        elif not claim.is_checkable:
            places[claim.id] = Place(Status.UNCHECKED)
    return places


def _placed(finding: Finding) -> Iterator[tuple[UUID, Place]]:
    outcome = finding.outcome
    for side in outcome.sides:
        yield from _side(side, finding)
    for loss in outcome.losses:
        status = Status.ARCHIVED if loss.rule is Rule.PERSON else Status.SUPERSEDED
        yield loss.claim, Place(status, loss.rule, loss.to)


def _side(side: Side, finding: Finding) -> Iterator[tuple[UUID, Place]]:
    outcome = finding.outcome
    if side.head == outcome.active:
        yield side.head, Place(Status.ACTIVE, outcome.rule)
        yield from ((claim_id, Place(Status.CORROBORATES, outcome.rule, side.head)) for claim_id in side.support)
    elif side.head in outcome.contenders:
        contested = Place(Status.CONTESTED, outcome.rule, outcome.active)
        yield from ((claim_id, contested) for claim_id in (side.head, *side.support))


@dataclass(frozen=True, slots=True)
class Corroboration:
    claim: UUID
    of: UUID


class Change(StrEnum):
    OPENED = "opened"
    DECIDED = "decided"
    EXTENDED = "extended"
    REOPENED = "reopened"
    DISSOLVED = "dissolved"


@dataclass(frozen=True, slots=True)
class ConflictChange:
    """`before` are the conflicts that became `after`: none when it is new, several when they turned out to be one.
    `after` is None when nothing is left of them."""

    change: Change
    after: Conflict | None
    before: tuple[Conflict, ...] = ()


@dataclass(frozen=True, slots=True)
class Settlement:
    """What changed between two states. `given_up` are claims that were superseded or archived."""

    before: State
    after: State
    activated: tuple[Holding, ...]
    released: tuple[Holding, ...]
    given_up: tuple[tuple[UUID, Place], ...]
    corroborations: tuple[Corroboration, ...]
    conflicts: tuple[ConflictChange, ...]

    @property
    def is_empty(self) -> bool:
        return self.before == self.after


def settle(
    existing: Iterable[Claim], new: Iterable[Claim], decisions: Iterable[Decision] = (), rules: Rules | None = None
) -> Settlement:
    """What taking in `new` changes. Pass all that is known of each subject's key that `new` speaks of."""
    known, told = list(existing), list(decisions)
    return compare(resolve(known, told, rules), resolve([*known, *new], told, rules))


_GIVEN_UP = frozenset((Status.SUPERSEDED, Status.ARCHIVED))


def compare(before: State, after: State) -> Settlement:
    changed = [(claim_id, place) for claim_id, place in after.places.items() if before.places.get(claim_id) != place]
    held_before, held_after = frozenset(before.holdings), frozenset(after.holdings)
    return Settlement(
        before=before,
        after=after,
        activated=tuple(holding for holding in after.holdings if holding not in held_before),
        released=tuple(holding for holding in before.holdings if holding not in held_after),
        given_up=tuple((claim_id, place) for claim_id, place in changed if place.status in _GIVEN_UP),
        corroborations=tuple(
            Corroboration(claim_id, place.to)
            for claim_id, place in changed
            if place.status is Status.CORROBORATES and place.to is not None
        ),
        conflicts=tuple(_changes(before.conflicts, after.conflicts)),
    )


def _changes(before: Sequence[Conflict], after: Iterable[Conflict]) -> Iterator[ConflictChange]:
    """Conflicts are the same matter when they share a claim and came after the same decision."""
    known: dict[tuple[UUID, UUID | None], list[int]] = defaultdict(list)
    for index, conflict in enumerate(before):
        for claim_id in conflict.claims:
            known[claim_id, conflict.follows].append(index)
    gone = set(range(len(before)))
    for conflict in after:
        found = {index for claim_id in conflict.claims for index in known.get((claim_id, conflict.follows), ())}
        matching = tuple(before[index] for index in sorted(found & gone))
        gone -= found
        if matching != (conflict,):
            yield ConflictChange(_change(matching, conflict), conflict, matching)
    yield from (ConflictChange(Change.DISSOLVED, None, (before[index],)) for index in sorted(gone))


def _change(before: Sequence[Conflict], after: Conflict) -> Change:
    if after.state is ConflictState.DECIDED:
        was_decided = before and all(known.state is ConflictState.DECIDED for known in before)
        return Change.EXTENDED if was_decided else Change.DECIDED
    if not before:
        return Change.OPENED
    was_open = any(known.state is ConflictState.OPEN for known in before)
    return Change.EXTENDED if was_open else Change.REOPENED
