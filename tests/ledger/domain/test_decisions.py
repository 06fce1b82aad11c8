from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ledger.domain.claims import Claim
from ledger.domain.decisions import (
    AmbiguousOrder,
    Decision,
    DecisionError,
    MissingPart,
    NothingToUndo,
    NotOpen,
    Placement,
    StaleDecision,
    StillCompeting,
    UnknownClaim,
    Verdict,
    apply,
    in_force,
)
from ledger.domain.normalisers import normalise
from ledger.domain.periods import Period, PeriodError
from ledger.domain.policy import Rule
from ledger.domain.review import Difference, Request, Ruling, Signature, decide, preview, undo, what_changed
from ledger.domain.scopes import read_scope
from ledger.domain.settlement import Change, Conflict, ConflictState, Status, resolve
from tests.ledger.domain.making import PLAN, at, claim, decision, rules, uid

GROWTH = claim(1, "Growth", writer="billing", hour=1, valid=Period(at(0), at(50)))
STARTER = claim(2, "Starter", writer="crm", hour=2, valid=Period(at(10), at(90)))
CLAIMS = [GROWTH, STARTER]
SIGNATURE = Signature(decision=uid(70), correction=uid(80), ordinal=7, actor="person:ada", at=at(60))


def open_conflict(claims: list[Claim] = CLAIMS) -> Conflict:
    (conflict,) = resolve(claims, (), rules()).open_conflicts
    return conflict


def ruled(request: Request, conflict: Conflict | None = None, *, revision: int = 3) -> Ruling:
    return decide(conflict or open_conflict(), request, SIGNATURE, revision=revision, claims=[*CLAIMS, claim(9, "x")])


def test_choosing_makes_a_decision_of_what_was_considered() -> None:
    ruling = ruled(Request(3, Verdict.CHOOSE, claim=uid(2), reason="invoice"))
    assert ruling == Ruling(
        Decision(
            id=uid(70),
            ordinal=7,
            verdict=Verdict.CHOOSE,
            considered=frozenset((uid(1), uid(2))),
            actor="person:ada",
            decided_at=at(60),
            kept=uid(2),
            reason="invoice",
            revision=3,
        )
    )


def test_a_decision_about_a_later_conflict_names_the_earlier_decision() -> None:
    conflict = replace(open_conflict(), follows=uid(33))
    assert ruled(Request(3, Verdict.NEITHER), conflict).decision.follows == uid(33)


def test_a_correction_is_a_claim_by_the_person_for_all_of_the_time_in_question() -> None:
    ruling = ruled(Request(3, Verdict.CORRECT, value=normalise("Pro"), evidence="contract 17"))
    assert ruling.correction == Claim(
        id=uid(80),
        subject="user-1",
        key=PLAN,
        value=normalise("Pro"),
        writer="person:ada",
        observed_at=at(60),
        received_at=at(60),
        content="contract 17",
        valid=Period(at(0), at(90)),
        decision=uid(70),
    )
    assert (ruling.decision.kept, ruling.decision.considered) == (uid(80), frozenset((uid(1), uid(2), uid(80))))
    dated = ruled(Request(3, Verdict.CORRECT, value=normalise("Pro"), evidence="x", valid=Period(at(5), None)))
    assert dated.correction is not None and dated.correction.valid == Period(at(5), None)


def test_both_with_places_of_their_own() -> None:
    places = (Placement(uid(1), read_scope("work")), Placement(uid(2), read_scope("home")))
    assert ruled(Request(3, Verdict.BOTH, placements=places)).decision.placements == places
    times = (Placement(uid(1), valid=Period(at(0), at(10))), Placement(uid(2)))
    assert ruled(Request(3, Verdict.BOTH, placements=times)).decision.all_kept == {uid(1), uid(2)}


@pytest.mark.parametrize(
    "places",
    [
        (Placement(uid(1)), Placement(uid(2))),
        (Placement(uid(1), read_scope("work")), Placement(uid(2), read_scope("work"))),
        (Placement(uid(1), valid=Period(at(0), at(11))), Placement(uid(2))),
    ],
)
def test_both_has_to_part_them(places: tuple[Placement, ...]) -> None:
    with pytest.raises(StillCompeting, match="^both leaves two values in one scope at one time") as caught:
        ruled(Request(3, Verdict.BOTH, placements=places))
    assert caught.value.field == "placements"


@pytest.mark.parametrize(
    ("request_", "message", "field"),
    [
        (Request(3, Verdict.CHOOSE), "choose needs claim", "claim"),
        (Request(3, Verdict.CORRECT, evidence="e"), "correct needs value", "value"),
        (Request(3, Verdict.BOTH), "both needs placements", "placements"),
        (
            Request(3, Verdict.BOTH, placements=(Placement(uid(1)),)),
            "both needs a place for two claims or more",
            "placements",
        ),
        (Request(3, Verdict.NEITHER, claim=uid(1)), "neither has no use for claim", "claim"),
        (Request(3, Verdict.CHOOSE, claim=uid(1), value=normalise("x")), "choose has no use for value", "value"),
        (
            Request(3, Verdict.NEITHER, placements=(Placement(uid(1)),)),
            "neither has no use for placements",
            "placements",
        ),
        (Request(3, Verdict.CORRECT, value=normalise("x")), "a corrected value needs evidence", "evidence"),
        (Request(3, Verdict.UNDO), "undoing is not an outcome of a conflict", "outcome"),
    ],
)
def test_a_request_says_what_its_verdict_needs_and_no_more(request_: Request, message: str, field: str) -> None:
    with pytest.raises(MissingPart) as caught:
        ruled(request_)
    assert (str(caught.value), caught.value.field) == (message, field)


def test_claims_that_are_not_part_of_the_conflict_cannot_be_decided_on() -> None:
    for request in (
        Request(3, Verdict.CHOOSE, claim=uid(9)),
        Request(3, Verdict.BOTH, placements=(Placement(uid(9)), Placement(uid(1)))),
    ):
        with pytest.raises(UnknownClaim, match=f"^claim {uid(9)} is not part of the conflict$") as caught:
            ruled(request)
        assert caught.value.field == "claim_id"


def test_a_decision_on_an_older_revision_is_stale() -> None:
    with pytest.raises(StaleDecision, match="^the decision saw revision 2, the conflict is at 3$") as caught:
        ruled(Request(2, Verdict.NEITHER))
    assert (caught.value.seen, caught.value.latest, caught.value.field, caught.value.code) == (
        2,
        3,
        "revision",
        "conflict",
    )


def test_what_a_person_decided_has_to_be_undone_first_and_what_a_policy_decided_has_not() -> None:
    made = ruled(Request(3, Verdict.CHOOSE, claim=uid(1))).decision
    (decided,) = resolve(CLAIMS, [made], rules()).conflicts
    with pytest.raises(NotOpen, match="^a person has decided the conflict$"):
        ruled(Request(3, Verdict.NEITHER), decided)
    (settled,) = resolve([claim(1, "a", hour=1), claim(2, "b", hour=2)], (), rules()).conflicts
    assert settled.state is ConflictState.DECIDED
    assert ruled(Request(3, Verdict.CHOOSE, claim=uid(1)), settled).decision.kept == uid(1)


def test_a_preview_tells_what_each_outcome_would_change() -> None:
    chosen = preview(ruled(Request(3, Verdict.CHOOSE, claim=uid(2))), CLAIMS, (), rules())
    assert [one.change for one in chosen.conflicts] == [Change.DECIDED]
    assert [(one.claim, one.period) for one in chosen.activated] == [(uid(2), Period(at(10), at(90)))]
    assert [(one.claim, one.period) for one in chosen.after.holdings] == [
        (uid(1), Period(at(0), at(10))),
        (uid(2), Period(at(10), at(90))),
    ]
    neither = preview(ruled(Request(3, Verdict.NEITHER)), CLAIMS, (), rules())
    assert {one.claim for one in neither.released} == {uid(1), uid(2)}
    assert [place.status for _, place in neither.given_up] == [Status.ARCHIVED] * 2
    corrected = preview(ruled(Request(3, Verdict.CORRECT, value=normalise("Pro"), evidence="e")), CLAIMS, (), rules())
    assert [(one.claim, one.rule) for one in corrected.activated] == [(uid(80), Rule.PERSON)]


def test_a_preview_of_a_move_shows_the_conflict_it_would_run_into() -> None:
    there = claim(5, "Free", writer="chat", hour=3, scope="work")
    request = Request(
        3, Verdict.BOTH, placements=(Placement(uid(1), read_scope("work")), Placement(uid(2), read_scope("home")))
    )
    seen = preview(ruled(request), [*CLAIMS, there], (), rules())
    assert sorted(one.change for one in seen.conflicts) == [Change.DECIDED, Change.OPENED]


def test_a_preview_goes_by_the_tenants_rules() -> None:
    recent = rules(recency=True)
    others = [claim(6, "a", subject="user-2", hour=1), claim(7, "b", subject="user-2", writer="crm", hour=2)]
    seen = preview(ruled(Request(3, Verdict.NEITHER)), [*CLAIMS, *others], (), recent)
    assert seen.before == resolve([*CLAIMS, *others], (), recent)
    assert [one.rule for one in seen.after.holdings] == [Rule.RECENCY]


def test_a_correction_stands_where_the_conflict_is() -> None:
    told = [claim(1, "a", hour=1, scope="project"), claim(2, "b", writer="crm", hour=2, scope="project")]
    request = Request(1, Verdict.CORRECT, value=normalise("c"), evidence="e")
    ruling = decide(open_conflict(told), request, SIGNATURE, revision=1, claims=told)
    assert ruling.correction is not None
    assert ruling.correction.slot == told[0].slot


def test_what_changed_while_somebody_was_looking() -> None:
    seen = open_conflict()
    now = open_conflict([*CLAIMS, claim(3, "Free", writer="chat", hour=3)])
    assert what_changed(seen, now) == Difference(frozenset((uid(3),)), frozenset(), False, None)
    decided = replace(seen, state=ConflictState.DECIDED, decision=uid(7))
    assert what_changed(now, decided) == Difference(frozenset(), frozenset((uid(3),)), True, uid(7))


def numbers(decisions: list[Decision]) -> list[int]:
    return [one.id.int for one in decisions]


CHOICE = decision(1, Verdict.CHOOSE, {1, 2}, kept=1)
NEITHER = decision(2, Verdict.NEITHER, {3})
UNDO = decision(3, Verdict.UNDO, set(), undoes=1)
REDO = decision(4, Verdict.UNDO, set(), undoes=3)


def test_decisions_in_force() -> None:
    assert numbers(in_force([NEITHER, CHOICE])) == [1, 2]
    assert numbers(in_force([UNDO, CHOICE, NEITHER, CHOICE])) == [2]
    assert numbers(in_force([UNDO, REDO, CHOICE, NEITHER])) == [1, 2]
    assert numbers(in_force([UNDO, REDO, CHOICE, decision(5, Verdict.UNDO, set(), undoes=4)])) == []
    assert in_force([]) == []


def test_an_undoing_reaches_back_only() -> None:
    assert numbers(in_force([decision(1, Verdict.UNDO, set(), undoes=2), decision(2, Verdict.NEITHER, {1})])) == [2]


def test_two_decisions_with_one_ordinal_have_no_order() -> None:
    with pytest.raises(AmbiguousOrder, match="^two decisions have the same ordinal$"):
        in_force([CHOICE, decision(9, Verdict.NEITHER, {1}, ordinal=1)])


def test_undoing_is_another_decision() -> None:
    seen = replace(CHOICE, revision=5)
    made = undo(uid(1), SIGNATURE, [seen], reason="mistake")
    assert made == Decision(
        id=uid(70),
        ordinal=7,
        verdict=Verdict.UNDO,
        considered=frozenset(),
        actor="person:ada",
        decided_at=at(60),
        undoes=uid(1),
        reason="mistake",
        revision=5,
    )
    assert undo(uid(1), SIGNATURE, [seen]).reason == ""
    assert numbers(in_force([CHOICE, made])) == []
    assert undo(uid(3), SIGNATURE, [CHOICE, UNDO]).undoes == uid(3)


@pytest.mark.parametrize(
    ("target", "told"),
    [(9, [CHOICE]), (1, [CHOICE, UNDO]), (3, [CHOICE, UNDO, REDO]), (1, [])],
)
def test_what_is_unknown_or_undone_cannot_be_undone(target: int, told: list[Decision]) -> None:
    with pytest.raises(NothingToUndo, match="^the decision is unknown or has been undone$") as caught:
        undo(uid(target), SIGNATURE, told)
    assert caught.value.field == "decision"
    assert caught.value.code == "conflict"
    assert isinstance(caught.value, DecisionError)


def test_a_decision_has_a_time_zone() -> None:
    with pytest.raises(PeriodError) as caught:
        replace(CHOICE, decided_at=at(0).replace(tzinfo=None))
    assert caught.value.field == "decided_at"


def test_words_lie_over_the_claims() -> None:
    rulings = apply(CLAIMS, [CHOICE])
    assert {one.int: word.keeps for one, word in rulings.words.items()} == {1: True, 2: False}
    assert (rulings.claims, rulings.decisions) == (tuple(CLAIMS), (CHOICE,))
    gone: dict[Any, Any] = dict(apply([], [CHOICE]).words)
    assert {one.int: word.keeps for one, word in gone.items()} == {1: False, 2: False}


def test_a_correction_that_was_undone_is_no_claim() -> None:
    corrected = claim(3, "Pro", decision=uid(1))
    made = decision(1, Verdict.CORRECT, {1, 2, 3}, kept=3)
    assert corrected in apply([*CLAIMS, corrected], [made]).claims
    assert apply([*CLAIMS, corrected], [made, decision(2, Verdict.UNDO, set(), undoes=1)]).claims == tuple(CLAIMS)


def test_a_placement_for_a_claim_that_is_gone_moves_nothing() -> None:
    made = decision(
        1, Verdict.BOTH, {1, 2}, placements=(Placement(uid(8), read_scope("x")), Placement(uid(1), read_scope("y")))
    )
    beside = claim(3, "Growth", writer="chat", hour=3)
    moved = {one.id.int: one.scope.type for one in apply([*CLAIMS, beside], [made]).claims}
    assert moved == {1: "y", 2: None, 3: None}
