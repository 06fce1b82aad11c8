from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID, uuid5

import pytest

from ledger.domain.claims import (
    ClaimError,
    ContradictoryRevision,
    RevisionChangesMeaning,
    Slot,
    StaleRevision,
    claim_id,
    latest,
    order,
    revise,
)
from ledger.domain.normalisers import normalise, read_value
from ledger.domain.periods import ALWAYS, Period, PeriodError
from ledger.domain.scopes import UNSCOPED, read_scope
from tests.ledger.domain.making import PLAN, at, claim, uid

SLOT = Slot("user-1", PLAN, UNSCOPED)


def test_a_claim_competes_in_its_slot() -> None:
    assert claim(1).slot == SLOT
    assert claim(1, scope="project").slot == Slot("user-1", PLAN, read_scope("project"))


@pytest.mark.parametrize(
    ("subject", "confidence", "field"),
    [("", None, "subject"), ("s" * 513, None, "subject"), ("s", 1.01, "confidence"), ("s", -0.01, "confidence")],
)
def test_claims_that_cannot_be(subject: str, confidence: float | None, field: str) -> None:
    with pytest.raises(ClaimError) as caught:
        claim(1, subject=subject, confidence=confidence)
    assert caught.value.field == field
    complaints = {
        "subject": "subject is empty or longer than 512 characters",
        "confidence": "confidence is not between 0 and 1",
    }
    assert str(caught.value) == complaints[field]


def test_the_bounds_of_a_claim() -> None:
    assert claim(1, subject="s" * 512, confidence=0).confidence == 0
    assert claim(1, confidence=1).confidence == 1


@pytest.mark.parametrize("field", ["observed_at", "received_at"])
def test_a_claim_without_a_zone_is_refused(field: str) -> None:
    with pytest.raises(PeriodError) as caught:
        replace(claim(1), **{field: at(0).replace(tzinfo=None)})  # type: ignore[arg-type]
    assert caught.value.field == field


def test_an_unreadable_value_cannot_be_checked() -> None:
    assert claim(1).is_checkable
    assert not claim(1, read_value(None)).is_checkable


def test_the_same_statement_of_the_same_event_has_one_id() -> None:
    growth = normalise("Growth")
    first = claim_id(uid(9), SLOT, growth, ALWAYS)
    assert first == claim_id(uid(9), SLOT, normalise("Growth"), Period())
    assert first == uuid5(
        UUID("5a9b9f7e-8f5d-4f0e-8b0e-2f6f7f1f6c55"),
        f'["{uid(9)}","user-1","fact","subscription_plan","{{\\"agent_identity\\":\\"default\\"}}","growth","Growth",null,null]',
    )
    others = {
        claim_id(uid(8), SLOT, growth, ALWAYS),
        claim_id(uid(9), Slot("user-2", PLAN, UNSCOPED), growth, ALWAYS),
        claim_id(uid(9), Slot("user-1", PLAN, read_scope("project")), growth, ALWAYS),
        claim_id(uid(9), SLOT, normalise("Starter"), ALWAYS),
        claim_id(uid(9), SLOT, growth, Period(start=at(0))),
        claim_id(uid(9), SLOT, growth, Period(end=at(0))),
    }
    assert len(others) == 6
    assert first not in others


def test_a_revision_says_the_same_thing_better() -> None:
    first = claim(1, "Growth", confidence=0.5, content="as told")
    second = revise(first, based_on=1, by="person:ada", at=at(5), content="better", confidence=0.9)
    assert (second.revision, second.content, second.confidence, second.received_at) == (2, "better", 0.9, at(5))
    assert (second.writer, second.revised_by, second.observed_at, second.id) == ("billing", "person:ada", at(0), uid(1))
    third = revise(second, based_on=2, by="person:bob", at=at(6), scope=read_scope("p"), valid=Period(start=at(1)))
    assert (third.content, third.confidence, third.withdrawn) == ("better", 0.9, False)
    assert (third.scope, third.valid) == (read_scope("p"), Period(start=at(1)))
    gone = revise(third, based_on=3, by="person:bob", at=at(7), withdrawn=True)
    assert (gone.withdrawn, gone.scope, gone.valid) == (True, read_scope("p"), Period(start=at(1)))
    assert revise(gone, based_on=4, by="person:bob", at=at(8)).withdrawn
    assert not revise(gone, based_on=4, by="person:bob", at=at(8), withdrawn=False).withdrawn


def test_an_edit_of_an_older_revision_is_stale() -> None:
    second = revise(claim(1), based_on=1, by="a", at=at(1))
    with pytest.raises(StaleRevision, match="^revision 1 is not the latest, which is 2$") as caught:
        revise(second, based_on=1, by="b", at=at(2))
    assert (caught.value.seen, caught.value.latest, caught.value.field) == (1, 2, "revision")


def test_the_latest_revision_counts_however_often_and_in_whatever_order_it_came() -> None:
    first, other = claim(1, hour=3), claim(2, "Starter", hour=1)
    second = revise(first, based_on=1, by="a", at=at(9), content="x")
    third = revise(second, based_on=2, by="a", at=at(10), content="y")
    assert latest([third, first, other, second, first, third]) == [other, third]
    assert latest([first, second]) == [second]
    assert latest([second, first]) == [second]
    assert latest([]) == []


def test_one_revision_in_two_versions_is_refused() -> None:
    with pytest.raises(ContradictoryRevision, match="^revision 1 of claim .* came in two versions$"):
        latest([claim(1, content="a"), claim(1, content="b")])


@pytest.mark.parametrize("change", [{"value": "Starter"}, {"subject": "user-2"}])
def test_another_value_is_another_claim(change: dict[str, str]) -> None:
    with pytest.raises(RevisionChangesMeaning, match="another subject, key or value"):
        latest([claim(1), claim(1, revision=2, **change)])  # type: ignore[arg-type]


def test_ids_only_part_claims_that_agree_in_everything_else() -> None:
    first = {"hour": 0, "ordinal": 0, "writer": "a", "valid": Period(at(0), at(9)), "confidence": 0.5, "content": "m"}
    ahead: list[dict[str, Any]] = [
        {"hour": -1},
        {"ordinal": -1},
        {"writer": "A"},
        {"valid": Period(None, at(9))},
        {"valid": Period(at(0), at(8))},
        {"confidence": 0.6},
        {"content": "a"},
        {"received": -1},
    ]
    base = claim(5, "b", **first)  # type: ignore[arg-type]
    for change in ahead:
        other = claim(9, "b", **{**first, "received": 0, **change})
        assert sorted([base, other], key=order) == [other, base], change
    assert sorted([base, claim(9, "a", **first)], key=order)[0].value.display == "a"  # type: ignore[arg-type]
    assert sorted([claim(2), claim(1)], key=order) == [claim(1), claim(2)]
    assert sorted([claim(1), claim(2, confidence=0)], key=order)[1] == claim(1)
    open_end = claim(1, valid=Period(at(0), None))
    assert sorted([open_end, claim(2, valid=Period(at(0), at(9)))], key=order)[1] == open_end


def test_what_is_told_first_decides_before_what_is_told_later() -> None:
    told = [
        claim(9, "b", writer="b", hour=0, ordinal=9),
        claim(8, "a", writer="a", hour=1, ordinal=0),
        claim(7, "c", writer="a", hour=1, ordinal=1),
        claim(6, "b", writer="b", hour=1, ordinal=1),
    ]
    assert sorted([told[2], told[0], told[3], told[1]], key=order) == told
