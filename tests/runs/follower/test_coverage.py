"""Which sequences are committed, and what is missing between them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runs.follower.coverage import Coverage, Span


def test_an_empty_log_knows_nothing() -> None:
    coverage = Coverage()

    assert (coverage.through, coverage.last, coverage.holes()) == (None, None, [])


def test_a_run_of_sequences_moves_through() -> None:
    coverage = Coverage()

    assert coverage.add([0, 1, 2]) == 3
    assert coverage.through == 2
    assert coverage.add([1, 2]) == 0


def test_a_hole_holds_through_back_until_it_is_filled() -> None:
    coverage = Coverage(through=3)
    coverage.add([6, 7, 5, 10])

    assert (coverage.through, coverage.last) == (3, 10)
    assert coverage.holes() == [Span(4, 4), Span(8, 9)]
    coverage.add([4])
    assert coverage.through == 7
    coverage.add([9, 8])
    assert (coverage.through, coverage.holes()) == (10, [])


def test_the_head_is_a_hole_until_it_is_known_where_the_log_begins() -> None:
    coverage = Coverage()
    coverage.add([1, 2])

    assert (coverage.through, coverage.holes()) == (None, [Span(0, 0)])
    coverage.begin_at(1)
    assert (coverage.through, coverage.holes(), coverage.forgone) == (2, [], [])


def test_forgone_sequences_let_through_move_on_and_are_still_missing() -> None:
    coverage = Coverage(through=3)
    coverage.add([8])
    coverage.forgo(Span(4, 7))

    assert (coverage.through, coverage.holes(), coverage.forgone) == (8, [], [Span(4, 7)])
    assert 5 not in coverage
    assert coverage.missing_in(Span(0, 100)) == Span(4, 7)


def test_a_forgone_sequence_that_turns_up_is_new() -> None:
    coverage = Coverage(through=3)
    coverage.add([8])
    coverage.forgo(Span(4, 7))

    assert coverage.add([5, 8]) == 1
    assert coverage.forgone == [Span(4, 4), Span(6, 7)]


def test_missing_in_a_range() -> None:
    coverage = Coverage(through=3)
    coverage.add([6, 9])

    assert coverage.missing_in(Span(0, 3)) is None
    assert coverage.missing_in(Span(4, 4)) == Span(4, 4)
    assert coverage.missing_in(Span(5, 9)) == Span(5, 8)


@given(st.lists(st.integers(0, 30)), st.none() | st.integers(0, 10))
def test_agrees_with_a_set(sequences: list[int], through: int | None) -> None:
    coverage = Coverage(through)
    known = set(range(through + 1)) if through is not None else set()

    assert coverage.add(sequences) == len(set(sequences) - known)
    known |= set(sequences)
    gaps = [n for n in range(max(known, default=-1) + 1) if n not in known]
    assert [n for hole in coverage.holes() for n in range(hole.first, hole.last + 1)] == gaps
    contiguous = (gaps[0] if gaps else max(known, default=-1) + 1) - 1
    assert coverage.through == (contiguous if contiguous >= 0 else None)
    assert all((n in coverage) == (n in known) for n in range(35))
