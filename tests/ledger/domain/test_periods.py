from __future__ import annotations

import pytest

from ledger.domain.periods import ALWAYS, Period, PeriodError, aware, hull, pieces
from tests.ledger.domain.making import at


def span(start: float | None, end: float | None) -> Period:
    return Period(None if start is None else at(start), None if end is None else at(end))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (span(0, 10), span(5, 15), True),
        (span(0, 10), span(10, 20), False),
        (span(0, 10), span(9.99, 20), True),
        (span(0, 10), span(20, 30), False),
        (span(0, 10), span(2, 3), True),
        (span(None, 10), span(10, None), False),
        (span(None, 10), span(9, None), True),
        (span(None, None), span(5, 6), True),
        (ALWAYS, ALWAYS, True),
        (span(None, 5), span(None, 1), True),
        (span(5, None), span(100, None), True),
    ],
)
def test_half_open_periods_overlap(one: Period, other: Period, expected: bool) -> None:
    assert one.overlaps(other) is expected
    assert other.overlaps(one) is expected


@pytest.mark.parametrize(
    ("period", "hour", "expected"),
    [
        (span(0, 10), 0, True),
        (span(0, 10), 10, False),
        (span(0, 10), -0.1, False),
        (span(0, 10), 9.9, True),
        (span(None, 10), -1000, True),
        (span(0, None), 1000, True),
        (span(0, None), -1, False),
        (ALWAYS, 3, True),
    ],
)
def test_the_start_is_in_and_the_end_is_out(period: Period, hour: float, expected: bool) -> None:
    assert period.contains(at(hour)) is expected


@pytest.mark.parametrize(
    ("period", "inner", "expected"),
    [
        (span(0, 10), span(0, 10), True),
        (span(0, 10), span(2, 3), True),
        (span(0, 10), span(0, 11), False),
        (span(0, 10), span(-1, 3), False),
        (span(0, 10), span(None, 3), False),
        (span(0, 10), span(3, None), False),
        (span(None, 10), span(None, 3), True),
        (span(0, None), span(3, None), True),
        (ALWAYS, span(1, 2), True),
        (span(1, 2), ALWAYS, False),
    ],
)
def test_a_period_covers_what_lies_within(period: Period, inner: Period, expected: bool) -> None:
    assert period.covers(inner) is expected


@pytest.mark.parametrize(("start", "end"), [(1, 1), (2, 1)])
def test_an_end_that_is_not_after_the_start_is_refused(start: float, end: float) -> None:
    with pytest.raises(PeriodError, match="^valid_to is not after valid_from$") as caught:
        span(start, end)
    assert caught.value.field == "valid_to"


def test_a_time_without_a_zone_names_its_field() -> None:
    naive = at(0).replace(tzinfo=None)
    with pytest.raises(PeriodError, match="^valid_from has no time zone$") as start:
        Period(start=naive)
    with pytest.raises(PeriodError, match="^valid_to has no time zone$") as end:
        Period(end=naive)
    with pytest.raises(PeriodError, match="^as_of has no time zone$") as other:
        aware(naive, "as_of")
    assert (start.value.field, end.value.field, other.value.field) == ("valid_from", "valid_to", "as_of")
    assert start.value.code == "validation_error"
    assert aware(at(0), "as_of") == at(0)


def test_a_hull_is_open_where_one_of_its_parts_is() -> None:
    assert hull([span(0, 1), span(5, 9)]) == span(0, 9)
    assert hull([span(5, 9), span(0, 12)]) == span(0, 12)
    assert hull([span(None, 1), span(5, 9)]) == span(None, 9)
    assert hull([span(0, 1), span(5, None)]) == span(0, None)
    assert hull([]) == ALWAYS


def test_time_is_cut_at_every_bound() -> None:
    assert pieces([ALWAYS]) == [ALWAYS]
    assert pieces([span(0, 10), span(5, None)]) == [span(None, 0), span(0, 5), span(5, 10), span(10, None)]
    assert pieces([span(0, 10), span(0, 10)]) == [span(None, 0), span(0, 10), span(10, None)]
    assert pieces([]) == [ALWAYS]
