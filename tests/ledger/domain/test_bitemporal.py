from __future__ import annotations

import pytest

from ledger.domain.bitemporal import active, state_as_of
from ledger.domain.claims import revise
from ledger.domain.decisions import Verdict
from ledger.domain.periods import Period, PeriodError
from ledger.domain.settlement import resolve
from tests.ledger.domain.making import at, claim, decision, rules

BERLIN = claim(1, "Berlin", hour=0, received=1, valid=Period(None, at(100)))
MUNICH = claim(2, "Munich", hour=50, received=200, valid=Period(at(100), None))


def where(valid_at: float, as_of: float) -> list[int]:
    found = active([BERLIN, MUNICH], (), valid_at=at(valid_at), as_of=at(as_of), rules=rules())
    return [one.claim.int for one in found]


@pytest.mark.parametrize(
    ("valid_at", "as_of", "expected"),
    [
        (10, 0.9, []),
        (10, 1, [1]),
        (99.9, 300, [1]),
        (100, 300, [2]),
        (100, 199, []),
        (150, 200, [2]),
    ],
)
def test_what_was_true_then_as_far_as_was_known(valid_at: float, as_of: float, expected: list[int]) -> None:
    assert where(valid_at, as_of) == expected


def test_a_backfilled_yesterday_does_not_become_now() -> None:
    now = claim(1, "Growth", hour=10, received=10)
    yesterday = claim(2, "Starter", hour=-14, received=11)
    assert [one.claim.int for one in active([now, yesterday], valid_at=at(12), as_of=at(12), rules=rules())] == [1]


def test_revisions_count_from_when_they_were_learned() -> None:
    first = claim(1, "tea", hour=0)
    gone = revise(first, based_on=1, by="person:ada", at=at(5), withdrawn=True)
    told = [first, gone]
    assert [one.claim.int for one in active(told, valid_at=at(9), as_of=at(4.9))] == [1]
    assert active(told, valid_at=at(9), as_of=at(5)) == ()


def test_decisions_count_from_when_they_were_made() -> None:
    told = [claim(1, "Growth", writer="billing", hour=1), claim(2, "Starter", writer="crm", hour=2)]
    made = [decision(1, Verdict.CHOOSE, {1, 2}, kept=2, hour=10), decision(2, Verdict.UNDO, set(), undoes=1, hour=20)]
    for as_of, expected in ((9.9, 1), (10, 2), (19.9, 2), (20, 1)):
        (holding,) = active(told, made, valid_at=at(30), as_of=at(as_of), rules=rules())
        assert holding.claim.int == expected


def test_the_rules_are_those_that_are_given() -> None:
    told = [claim(1, "Growth", writer="billing", hour=1), claim(2, "Starter", writer="crm", hour=2)]
    for recency, expected in ((False, 1), (True, 2)):
        (holding,) = active(told, valid_at=at(9), as_of=at(9), rules=rules(recency=recency))
        assert holding.claim.int == expected


def test_now_is_the_state_of_everything() -> None:
    assert state_as_of([BERLIN, MUNICH], (), as_of=at(500), rules=rules()) == resolve([BERLIN, MUNICH], (), rules())


@pytest.mark.parametrize("field", ["valid_at", "as_of"])
def test_times_without_a_zone_are_refused(field: str) -> None:
    times = {"valid_at": at(0), "as_of": at(0), field: at(0).replace(tzinfo=None)}
    with pytest.raises(PeriodError) as caught:
        active([BERLIN], valid_at=times["valid_at"], as_of=times["as_of"])
    assert caught.value.field == field
