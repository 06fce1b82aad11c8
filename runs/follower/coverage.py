"""Which sequences of a run are committed, and which are missing between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Span(NamedTuple):
    """A range of sequences, both ends included."""

    first: int
    last: int

    def __contains__(self, sequence: object) -> bool:
        return isinstance(sequence, int) and self.first <= sequence <= self.last


class Coverage:
    """`through` is the last sequence before the first hole, None as long as it is not known where the log begins.

    A log begins at 0 by the protocol, at 1 on one reference host, later where a host has dropped its head. So what is
    missing before the first known sequence is a hole like any other until the host turns out not to have it.
    """

    def __init__(self, through: int | None = None) -> None:
        self.through = through
        self.forgone: list[Span] = []
        """Asked for in every way and not given: `through` moves past these, yet they are missing."""
        self._ahead: list[Span] = []
        """Known ranges beyond `through`, ascending, with at least one sequence missing before each."""

    @property
    def last(self) -> int | None:
        return self._ahead[-1].last if self._ahead else self.through

    def __contains__(self, sequence: int) -> bool:
        if any(sequence in span for span in self.forgone):
            return False
        if self.through is not None and sequence <= self.through:
            return True
        return any(sequence in span for span in self._ahead)

    def add(self, sequences: Iterable[int]) -> int:
        """How many of them were new."""
        new = 0
        for sequence in sequences:
            if sequence in self:
                continue
            new += 1
            self.forgone = [part for span in self.forgone for part in _without(span, sequence)]
            self._know(Span(sequence, sequence))
        return new

    def holes(self) -> list[Span]:
        """What is missing before the last known sequence and not forgone, in order."""
        before = -1 if self.through is None else self.through
        holes = []
        for span in self._ahead:
            holes.append(Span(before + 1, span.first - 1))
            before = span.last
        return holes

    def missing_in(self, asked: Span) -> Span | None:
        """From the first to the last sequence of a range that is not committed, forgone ones included."""
        missing = [
            Span(max(hole.first, asked.first), min(hole.last, asked.last))
            for hole in (*self.holes(), *self.forgone)
            if hole.first <= asked.last and asked.first <= hole.last
        ]
        if not missing:
            return None
        return Span(min(span.first for span in missing), max(span.last for span in missing))

    def forgo(self, hole: Span) -> None:
        self.forgone.append(hole)
        self._know(hole)

    def begin_at(self, first: int) -> None:
        """The log has nothing before `first`: that is where it begins, and nothing is missing."""
        self._know(Span(0, first - 1))

    def _know(self, span: Span) -> None:
        before = -1 if self.through is None else self.through
        if span.first > before + 1 or self._ahead:
            self._ahead = list(_merged(sorted((*self._ahead, span))))
            span = self._ahead[0]
            if span.first > before + 1:
                return
            del self._ahead[0]
        self.through = max(before, span.last)


def _without(span: Span, sequence: int) -> Iterator[Span]:
    if sequence not in span:
        yield span
        return
    if span.first < sequence:
        yield Span(span.first, sequence - 1)
    if sequence < span.last:
        yield Span(sequence + 1, span.last)


def _merged(spans: Iterable[Span]) -> Iterator[Span]:
    current: Span | None = None
    for span in spans:
        if current is None:
            current = span
        elif span.first <= current.last + 1:
            current = Span(current.first, max(current.last, span.last))
        else:
            yield current
            current = span
    if current is not None:
        yield current
