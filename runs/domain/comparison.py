"""Two runs laid side by side: which events are the same, which changed, which only one of them has.

Events are paired by node, type and how many of that kind came before in their run, so that nodes which ran beside each
other may come in any order. What differs from run to run by nature is left aside (replay, section "What must match"):
the envelope's ids and clocks, the run's own id, durations; and events about leases and log lines as a whole.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat
from typing import Literal, NamedTuple, cast

import orjson

from runs.domain import exact_json

Op = Literal["same", "changed", "removed", "added"]
OPS: tuple[Op, ...] = ("same", "changed", "removed", "added")
SAME, CHANGED, REMOVED, ADDED = range(4)

ABSENT = -1
"""The place of an event that the other run lacks."""

_UNCOMPARED = ("lease.", "log.")
VOLATILE = frozenset(
    (
        *("eventId", "runId", "timestamp", "causationId"),
        *("durationMs", "duration", "elapsedMs", "latencyMs", "tookMs"),
        *("startedAt", "completedAt", "endedAt", "finishedAt", "writtenAt", "decidedAt", "occurredAt", "emittedAt"),
    )
)
"""Members of a payload, at any depth, whose values say nothing about what the run did."""

_OWN_RUN_TAG = "run-id:"
_SELF = "run-id:~"


class Side(NamedTuple):
    """An event of one run as pairing needs it. `payload` is its JSON text, empty where there is none."""

    sequence: int
    type: str
    node: str | None
    payload: bytes


class Pair(NamedTuple):
    """`a` and `b` are sequences, ABSENT on the side that has no such event."""

    op: int
    a: int
    b: int


@dataclass(slots=True)
class Comparison:
    """All pairs, in an order in which each run's own events follow each other wherever the pairing allows it.

    `ops`, `a` and `b` are as long as each other: a million pairs take some 17 MB. `ignored` counts the events of
    either run that are not compared.
    """

    ops: bytearray = field(default_factory=bytearray)
    a: array[int] = field(default_factory=lambda: array("q"))
    b: array[int] = field(default_factory=lambda: array("q"))
    counts: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    ignored: tuple[int, int] = (0, 0)
    first: int | None = None
    """The place of the first difference by the earliest sequence on either side."""

    def __len__(self) -> int:
        return len(self.ops)

    def pair(self, place: int) -> Pair:
        return Pair(self.ops[place], self.a[place], self.b[place])

    def pairs(self) -> Iterator[Pair]:
        return map(Pair, self.ops, self.a, self.b)

    @property
    def matched(self) -> int:
        return self.counts[SAME]

    @property
    def differing(self) -> int:
        return len(self) - self.matched

    @property
    def diverged_at(self) -> int | None:
        """The earliest sequence, in either run, at which they differ."""
        return None if self.first is None else _earliest(self.pair(self.first))

    def is_different(self, place: int) -> bool:
        return self.ops[place] != SAME

    def next_difference(self, after: int) -> int | None:
        return next((place for place in range(after + 1, len(self)) if self.ops[place] != SAME), None)

    def previous_difference(self, before: int) -> int | None:
        start = min(before, len(self)) - 1
        return next((place for place in range(start, -1, -1) if self.ops[place] != SAME), None)


def is_compared(type: str) -> bool:
    return not type.startswith(_UNCOMPARED)


def compare(a: Iterable[Side], b: Iterable[Side], *, run_a: str = "", run_b: str = "") -> Comparison:
    """Both in the order of sequence. `run_a` and `run_b` are the runs' own ids, which stand for each other."""
    theirs, ignored_b = _by_kind(b)
    comparison = Comparison()
    waiting = {kind: iter(events) for kind, events in theirs.items()}
    matched: list[tuple[Side, Side | None]] = []
    ignored_a = 0
    for side in a:
        if not _compared(side[1]):
            ignored_a += 1
            continue
        others = waiting.get((side[2], side[1]))
        matched.append((side, next(others, None) if others else None))
    comparison.ignored = (ignored_a, ignored_b)
    extra = sorted(side for left in waiting.values() for side in left)
    _lay_out(comparison, matched, extra, run_a, run_b)
    comparison.first = _first_difference(comparison)
    return comparison


_compared = lru_cache(4096)(is_compared)


def _by_kind(events: Iterable[Side]) -> tuple[dict[tuple[str | None, str], list[Side]], int]:
    kinds: dict[tuple[str | None, str], list[Side]] = {}
    ignored = 0
    for side in events:
        if not _compared(side[1]):
            ignored += 1
            continue
        kind = (side[2], side[1])
        of_kind = kinds.get(kind)
        if of_kind is None:
            kinds[kind] = [side]
        else:
            of_kind.append(side)
    return kinds, ignored


def _lay_out(
    comparison: Comparison,
    mine: Sequence[tuple[Side, Side | None]],
    extra: Sequence[Side],
    run_a: str,
    run_b: str,
) -> None:
    """In the order of the first run; what only the second one has stands in front of what follows it there."""
    add_op, add_a, add_b = comparison.ops.append, comparison.a.append, comparison.b.append
    waiting = iter(extra)
    next_extra = next(waiting, None)
    for side, other in mine:
        if other is None:
            add_op(REMOVED)
            add_a(side[0])
            add_b(ABSENT)
            continue
        while next_extra is not None and next_extra[0] < other[0]:
            add_op(ADDED)
            add_a(ABSENT)
            add_b(next_extra[0])
            next_extra = next(waiting, None)
        same = side[3] == other[3] or is_same_payload(side[3], other[3], run_a=run_a, run_b=run_b)
        add_op(SAME if same else CHANGED)
        add_a(side[0])
        add_b(other[0])
    while next_extra is not None:
        add_op(ADDED)
        add_a(ABSENT)
        add_b(next_extra[0])
        next_extra = next(waiting, None)
    comparison.counts = [comparison.ops.count(op) for op in range(len(OPS))]


def _first_difference(comparison: Comparison) -> int | None:
    found: tuple[int, int] | None = None
    for place, pair in enumerate(comparison.pairs()):
        if pair.op == SAME:
            continue
        at = _earliest(pair)
        if found is None or at < found[0]:
            found = (at, place)
    return found[1] if found else None


def _earliest(pair: Pair) -> int:
    return min(sequence for sequence in (pair.a, pair.b) if sequence != ABSENT)


# --- payloads ---


def is_same_payload(a: bytes, b: bytes, *, run_a: str = "", run_b: str = "") -> bool:
    """Apart from what is volatile. Numbers count digit by digit, and a missing payload is null."""
    if a == b:
        return True
    try:
        return _is_same(orjson.loads(a or b"null"), orjson.loads(b or b"null"), run_a, run_b)
    except (_Inexact, orjson.JSONDecodeError):
        # Numbers that a double may not hold, or a lone surrogate.
        return _is_same(exact_json.loads(a.decode() or "null"), exact_json.loads(b.decode() or "null"), run_a, run_b)


class _Inexact(Exception):
    """A number was read whose digits may be others than those that were written."""


def _is_same(a: object, b: object, run_a: str, run_b: str) -> bool:
    kind = type(a)
    if kind is float or type(b) is float:
        raise _Inexact
    if kind is not type(b):
        return False
    if kind is str:
        return a == b or (bool(run_a) and _of_its_run(cast(str, a), run_a) == _of_its_run(cast(str, b), run_b))
    if kind is dict:
        return _is_same_object(cast(_Object, a), cast(_Object, b), run_a, run_b)
    if kind is list:
        one, other = cast(list[object], a), cast(list[object], b)
        return len(one) == len(other) and all(map(_is_same, one, other, repeat(run_a), repeat(run_b)))
    return a == b


_Object = dict[str, object]


def _is_same_object(a: _Object, b: _Object, run_a: str, run_b: str) -> bool:
    if a.keys() == b.keys():
        for name, one in a.items():
            other = b[name]
            if name in VOLATILE or (type(one) is str and one == other):
                continue
            if not _is_same(one, other, run_a, run_b):
                return False
        return True
    names = (a.keys() | b.keys()) - VOLATILE
    return all(name in a and name in b and _is_same(a[name], b[name], run_a, run_b) for name in names)


def _of_its_run(text: str, run: str) -> str:
    """The run's own id means "this run", whole or as the tag that hosts make of it."""
    return _SELF if text in (run, _OWN_RUN_TAG + run) else text


# --- the report ---


@dataclass(frozen=True, slots=True)
class Determinism:
    """How far a replay came to the same as its source. `compared` counts pairs, those with one event included.

    `score` is matched of compared, None where nothing was compared. `scope` is "whole" or, for a branch, "prefix": the
    events before its fork point, which alone it owes.
    """

    scope: Literal["whole", "prefix"]
    from_sequence: int
    matched: int
    compared: int
    first_divergence: int | None

    @property
    def score(self) -> float | None:
        return self.matched / self.compared if self.compared else None


def determinism(comparison: Comparison, *, mode: str, from_sequence: int | None) -> Determinism:
    """`comparison` has the source first. A branch whose fork point is not known is compared as a whole."""
    if mode != "branch" or from_sequence is None:
        return Determinism("whole", from_sequence or 0, comparison.matched, len(comparison), comparison.diverged_at)
    matched = compared = 0
    first: int | None = None
    for pair in comparison.pairs():
        at = _earliest(pair)
        if at >= from_sequence:
            continue
        compared += 1
        if pair.op == SAME:
            matched += 1
        else:
            first = at if first is None else min(first, at)
    return Determinism("prefix", from_sequence, matched, compared, first)


# --- what of a pair changed ---


def without_volatile(value: object, *, run: str = "") -> object:
    """A value as `exact_json.loads` reads it, less what is volatile, for showing what else differs."""
    if isinstance(value, Mapping):
        return {name: without_volatile(member, run=run) for name, member in value.items() if name not in VOLATILE}
    if isinstance(value, list):
        return [without_volatile(member, run=run) for member in value]
    return _of_its_run(value, run) if isinstance(value, str) and run else value
