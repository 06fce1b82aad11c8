"""What a fork did with the memory of its source: four words, each with the events that it rests on.

The log's recorded facts about memory are told again by a replay, with the ids that they had: neither made anew nor left
out (RFC 0057 section D). A branch tells those before its fork point again, and may add its own from there on. A fact
that a fork repeats is no second one, whatever its event's id and clock say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Kind = Literal["stable", "suppressing", "regenerating", "branch", "unrelated", "silent"]
Mode = Literal["replay", "branch", "fork", ""]

FACTS = ("memory.written", "agent.memory.consolidated", "commitment.fired")

FACT_TIMES = ("createdAt", "expiresAt", "writtenAt", "firedAt", "updatedAt")
"""Members of a payload that are times of the fact itself; the envelope's clock is the telling's own."""


@dataclass(frozen=True, slots=True)
class MemoryFact:
    """A recorded fact about memory. `memory_id` is None where the event names no entry, `times` are the fact's own."""

    sequence: int
    type: str
    node: str | None
    memory_ref: str | None
    memory_id: str | None
    at: datetime
    times: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class FactPair:
    """A fact of the source and one of the fork; None on the side that has none."""

    source: MemoryFact | None
    fork: MemoryFact | None


@dataclass(frozen=True, slots=True)
class Finding:
    """One word, why in a sentence, and the facts that it rests on."""

    kind: Kind
    words: str
    pairs: tuple[FactPair, ...] = ()


@dataclass(frozen=True, slots=True)
class Steps:
    """How a fork begins to work by itself: nodes that start, in order, with their sequences. `source_first` is the
    first node that its source started."""

    source_first: str | None
    fork_starts: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class MemoryVerdict:
    """`findings` are one at least. `restarted_at` is where a branch began again with the first node of its source, None
    where it goes on from its fork point or that is not known. `retimed` counts facts that came again with their ids
    and another clock."""

    findings: tuple[Finding, ...]
    repeated: tuple[FactPair, ...]
    owed: int
    retimed: int
    restarted_at: int | None
    is_complete: bool

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(finding.kind for finding in self.findings)


def judge(
    source: Sequence[MemoryFact],
    fork: Sequence[MemoryFact],
    *,
    mode: Mode,
    from_sequence: int | None,
    is_complete: bool,
    steps: Steps = Steps(None, ()),  # noqa: B008 - frozen
) -> MemoryVerdict:
    """Both in the order of sequence. `is_complete` says that both logs are whole and ended: before that nothing is
    missing yet. Runs of which neither is known to be a fork (`mode` "") owe each other nothing."""
    repeated, left_source, left_fork = _paired(source, fork)
    owed = [fact for fact in source if _is_owed(fact, mode, from_sequence)]
    retimed = sum(1 for pair in repeated if pair.source and pair.fork and pair.source.at != pair.fork.at)
    findings: list[Finding] = []
    if mode == "":
        findings.append(_unrelated(repeated, left_source, left_fork))
    else:
        own = [fact for fact in left_fork if _is_own(fact, mode, from_sequence)]
        anew, missing, unmatched = _made_anew(
            [fact for fact in left_source if _is_owed(fact, mode, from_sequence)],
            [fact for fact in left_fork if not _is_own(fact, mode, from_sequence)],
        )
        findings += _suppressing(missing, is_complete=is_complete)
        findings += _regenerating(anew, unmatched, _with_other_times(repeated))
        findings += _branch(own, mode, from_sequence)
        if not findings:
            findings.append(_stable(owed, repeated, is_complete=is_complete))
    return MemoryVerdict(
        findings=tuple(findings),
        repeated=tuple(repeated),
        owed=len(owed),
        retimed=retimed,
        restarted_at=_restarted_at(steps, from_sequence) if mode == "branch" else None,
        is_complete=is_complete,
    )


def _is_owed(fact: MemoryFact, mode: Mode, from_sequence: int | None) -> bool:
    """Hosts differ in whether the fact at the fork point itself belongs to the prefix: where it came again it does."""
    if mode == "branch":
        return from_sequence is not None and fact.sequence < from_sequence
    return True


def _is_own(fact: MemoryFact, mode: Mode, from_sequence: int | None) -> bool:
    return mode == "branch" and (from_sequence is None or fact.sequence >= from_sequence)


_Identity = tuple[str, str | None, str | None]


def _identity(fact: MemoryFact) -> _Identity:
    return fact.type, fact.memory_ref, fact.memory_id


def _paired(
    source: Sequence[MemoryFact], fork: Sequence[MemoryFact]
) -> tuple[list[FactPair], list[MemoryFact], list[MemoryFact]]:
    """Facts that both name, in turn; then what only the source and only the fork has. One without an id is matched by
    its place."""
    waiting: Mapping[object, list[MemoryFact]] = _grouped(fork)
    pairs: list[FactPair] = []
    left: list[MemoryFact] = []
    for fact in source:
        others = waiting.get(_label(fact))
        if others:
            pairs.append(FactPair(fact, others.pop(0)))
        else:
            left.append(fact)
    rest = sorted((fact for others in waiting.values() for fact in others), key=lambda fact: fact.sequence)
    return pairs, left, rest


def _grouped(facts: Iterable[MemoryFact]) -> dict[object, list[MemoryFact]]:
    grouped: dict[object, list[MemoryFact]] = defaultdict(list)
    for fact in facts:
        grouped[_label(fact)].append(fact)
    return grouped


def _label(fact: MemoryFact) -> object:
    return _identity(fact) if fact.memory_id is not None else _place(fact)


def _place(fact: MemoryFact) -> tuple[str, str | None, str | None]:
    return fact.type, fact.node, fact.memory_ref


def _made_anew(
    missing: Sequence[MemoryFact], extra: Sequence[MemoryFact]
) -> tuple[list[FactPair], list[MemoryFact], list[MemoryFact]]:
    """A fact that is missing and one in its place with another id are the same fact made anew. What is left over on
    either side is left out, or comes from nowhere."""
    places: dict[object, list[MemoryFact]] = defaultdict(list)
    for fact in extra:
        places[_place(fact)].append(fact)
    anew: list[FactPair] = []
    left: list[MemoryFact] = []
    for fact in missing:
        others = places.get(_place(fact))
        if others:
            anew.append(FactPair(fact, others.pop(0)))
        else:
            left.append(fact)
    return anew, left, sorted((one for rest in places.values() for one in rest), key=lambda fact: fact.sequence)


def _with_other_times(repeated: Sequence[FactPair]) -> list[FactPair]:
    return [pair for pair in repeated if pair.source and pair.fork and pair.source.times != pair.fork.times]


def _suppressing(missing: Sequence[MemoryFact], *, is_complete: bool) -> list[Finding]:
    if not missing or not is_complete:
        return []
    words = f"{_facts(len(missing))} of the source {_did_not(len(missing))} come again in the fork."
    return [Finding("suppressing", words, tuple(FactPair(fact, None) for fact in missing))]


def _regenerating(
    anew: Sequence[FactPair], unmatched: Sequence[MemoryFact], other_times: Sequence[FactPair]
) -> list[Finding]:
    told = []
    if anew:
        told.append(f"{_facts(len(anew))} came under a new id")
    if unmatched:
        told.append(f"{_facts(len(unmatched))} {'has' if len(unmatched) == 1 else 'have'} no counterpart in the source")
    if other_times:
        told.append(
            f"{_facts(len(other_times))} came with other times of {'its' if len(other_times) == 1 else 'their'} own"
        )
    if not told:
        return []
    pairs = (*anew, *(FactPair(None, fact) for fact in unmatched), *other_times)
    return [Finding("regenerating", f"{_joined(told)}.", pairs)]


def _branch(own: Sequence[MemoryFact], mode: Mode, from_sequence: int | None) -> list[Finding]:
    if mode != "branch":
        return []
    where = "the fork point, which is not known" if from_sequence is None else f"the fork point, #{from_sequence}"
    words = f"{_facts(len(own)) if own else 'No fact'} of its own after {where}."
    return [Finding("branch", words, tuple(FactPair(None, fact) for fact in own))]


def _stable(owed: Sequence[MemoryFact], repeated: Sequence[FactPair], *, is_complete: bool) -> Finding:
    if not owed:
        return Finding("silent", "The source has no fact about memory, so there was nothing to repeat.")
    if not is_complete and len(repeated) < len(owed):
        words = f"{len(repeated):,} of {_facts(len(owed))} came again so far; the logs are not whole yet."
        return Finding("stable", words, tuple(repeated))
    words = f"All of {_facts(len(owed))} came again with {'its id' if len(owed) == 1 else 'their ids'}."
    return Finding("stable", words, tuple(repeated))


def _unrelated(
    repeated: Sequence[FactPair], left_source: Sequence[MemoryFact], left_fork: Sequence[MemoryFact]
) -> Finding:
    words = (
        "Neither run is known to be a fork of the other, so neither owes the other anything:"
        f" {_facts(len(repeated))} in both, {len(left_source):,} only in the first,"
        f" {len(left_fork):,} only in the second."
    )
    only = (*(FactPair(fact, None) for fact in left_source), *(FactPair(None, fact) for fact in left_fork))
    return Finding("unrelated", words, (*repeated, *only))


def _restarted_at(steps: Steps, from_sequence: int | None) -> int | None:
    """The first start behind the fork point, where it is that of the source's first node."""
    start = -1 if from_sequence is None or from_sequence == 0 else from_sequence
    for sequence, node in steps.fork_starts:
        if sequence > start:
            return sequence if node == steps.source_first else None
    return None


def _facts(count: int) -> str:
    return f"{count:,} fact{'' if count == 1 else 's'}"


def _did_not(count: int) -> str:
    return "does not" if count == 1 else "do not"


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
