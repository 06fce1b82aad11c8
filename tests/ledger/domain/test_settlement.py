from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.domain.claims import Claim, revise
from ledger.domain.decisions import Decision, Placement, Verdict
from ledger.domain.detection import Relation, relate
from ledger.domain.key_registry import KeyRule, read_key
from ledger.domain.normalisers import Problem, Value, read_value
from ledger.domain.periods import ALWAYS, Period
from ledger.domain.policy import Explanation, Loss, Outcome, Rule, Side, Weight
from ledger.domain.scopes import read_scope
from ledger.domain.settlement import (
    Change,
    Conflict,
    ConflictState,
    Corroboration,
    Place,
    Rules,
    Settlement,
    State,
    Status,
    compare,
    resolve,
    settle,
)
from tests.ledger.domain.making import EQUALS, PLAN, at, authorities, claim, decision, rules, uid

RANKED = authorities(billing=80, crm=40, chat=40, ops=80)
SKILLS = read_key("fact", "skills")


def held(state: State) -> list[tuple[int, Period, Rule, bool]]:
    return [(one.claim.int, one.period, one.rule, one.is_open) for one in state.holdings]


def active(state: State) -> set[int]:
    return {one.claim.int for one in state.holdings}


def conflicts(state: State) -> list[tuple[set[int], ConflictState]]:
    return [({one.int for one in conflict.claims}, conflict.state) for conflict in state.conflicts]


def place(state: State, number: int) -> tuple[Status, Rule | None, int | None]:
    found = state.places[uid(number)]
    return found.status, found.rule, None if found.to is None else found.to.int


def changes(settlement: Settlement) -> list[tuple[Change, set[int]]]:
    return [
        (one.change, {claim_id.int for claim_id in (one.after or one.before[0]).claims}) for one in settlement.conflicts
    ]


def span(start: float | None, end: float | None) -> Period:
    return Period(None if start is None else at(start), None if end is None else at(end))


GROWTH = claim(1, "Growth", writer="billing", hour=1)
STARTER = claim(2, "Starter", writer="crm", hour=2, confidence=0.7)


def test_growth_and_starter_open_one_review_and_the_earlier_stays_active() -> None:
    first = settle([], [GROWTH], (), rules())
    assert (changes(first), active(first.after)) == ([], {1})
    second = settle([GROWTH], [STARTER], (), rules())
    assert changes(second) == [(Change.OPENED, {1, 2})]
    assert held(second.after) == [(1, ALWAYS, Rule.EQUAL_AUTHORITY, True)]
    assert place(second.after, 1) == (Status.ACTIVE, Rule.EQUAL_AUTHORITY, None)
    assert place(second.after, 2) == (Status.CONTESTED, Rule.EQUAL_AUTHORITY, 1)
    assert second.given_up == ()
    (conflict,) = second.after.open_conflicts
    assert conflict.slot == GROWTH.slot
    assert conflict.contenders == {uid(1), uid(2)}
    assert (conflict.follows, conflict.decision) == (None, None)
    assert resolve([STARTER, GROWTH], (), rules()) == second.after


def test_a_third_writer_extends_the_review_and_a_stronger_one_settles_it() -> None:
    known = [GROWTH, STARTER]
    third = claim(3, "Free", writer="chat", hour=3)
    assert changes(settle(known, [third], (), rules())) == [(Change.EXTENDED, {1, 2, 3})]
    strong = claim(4, "Starter", writer="ops", hour=0)
    ranked = rules(writers=authorities(billing=50, crm=50, ops=80))
    settled = settle(known, [strong], (), ranked)
    assert changes(settled) == [(Change.DECIDED, {1, 2, 4})]
    assert held(settled.after) == [(4, ALWAYS, Rule.AUTHORITY, False)]
    assert place(settled.after, 1) == (Status.SUPERSEDED, Rule.AUTHORITY, 4)
    assert place(settled.after, 2) == (Status.CORROBORATES, Rule.AUTHORITY, 4)
    assert settled.given_up == ((uid(1), Place(Status.SUPERSEDED, Rule.AUTHORITY, uid(4))),)
    assert settled.corroborations == (Corroboration(uid(2), uid(4)),)
    assert [one.claim for one in settled.activated] == [uid(4)]
    assert [one.claim for one in settled.released] == [uid(1)]


def test_what_a_policy_settled_is_open_again_when_an_equal_contradicts() -> None:
    ranked = rules(writers=authorities(billing=80, crm=40, ops=80))
    known = [GROWTH, STARTER]
    assert changes(settle([GROWTH], [STARTER], (), ranked)) == [(Change.DECIDED, {1, 2})]
    again = settle(known, [claim(3, "Free", writer="ops", hour=3)], (), ranked)
    assert changes(again) == [(Change.REOPENED, {1, 2, 3})]
    assert held(again.after) == [(1, ALWAYS, Rule.EQUAL_AUTHORITY, True)]
    assert changes(settle(known, [claim(4, "Growth", writer="crm", hour=4)], (), ranked)) == [
        (Change.EXTENDED, {1, 2, 4})
    ]


def test_a_correction_is_a_conflict_that_recency_has_settled() -> None:
    settled = settle([claim(1, "tea", hour=1)], [claim(2, "coffee", hour=2)], (), rules())
    assert changes(settled) == [(Change.DECIDED, {1, 2})]
    assert held(settled.after) == [(2, ALWAYS, Rule.SAME_WRITER, False)]
    assert place(settled.after, 1) == (Status.SUPERSEDED, Rule.SAME_WRITER, 2)


def test_the_same_value_twice_is_one_active_claim_with_two_observations() -> None:
    settled = settle([claim(1, hour=1)], [claim(2, hour=2)], (), rules())
    assert (active(settled.after), changes(settled), settled.activated) == ({1}, [], ())
    assert settled.corroborations == (Corroboration(uid(2), uid(1)),)
    assert place(settled.after, 2) == (Status.CORROBORATES, Rule.UNOPPOSED, 1)


def test_two_values_at_once_are_one_open_conflict_and_none_is_active() -> None:
    state = resolve([claim(1, "a"), claim(2, "b", writer="crm")], (), rules())
    assert (held(state), conflicts(state)) == ([], [({1, 2}, ConflictState.OPEN)])
    assert place(state, 1) == (Status.CONTESTED, Rule.EQUAL_AUTHORITY, None)
    assert state.of_status(Status.CONTESTED) == {uid(1), uid(2)}


def test_periods_that_do_not_meet_are_no_conflict() -> None:
    state = resolve([claim(1, "a", valid=span(0, 10)), claim(2, "b", valid=span(10, 20))], (), rules())
    assert held(state) == [(1, span(0, 10), Rule.UNOPPOSED, False), (2, span(10, 20), Rule.UNOPPOSED, False)]
    assert conflicts(state) == []


def test_a_claim_that_lost_where_it_was_contradicted_holds_the_rest_of_its_time() -> None:
    state = resolve(
        [claim(1, "a", hour=1), claim(2, "b", hour=2, valid=span(5, 15))],
        (),
        rules(),
    )
    assert held(state) == [
        (1, span(None, 5), Rule.UNOPPOSED, False),
        (2, span(5, 15), Rule.SAME_WRITER, False),
        (1, span(15, None), Rule.UNOPPOSED, False),
    ]
    assert place(state, 1) == (Status.ACTIVE, Rule.UNOPPOSED, None)
    (conflict,) = state.conflicts
    assert [finding.period for finding in conflict.findings] == [span(5, 15)]


def test_conflicts_that_hang_together_are_one() -> None:
    told = [
        claim(1, "a", writer="billing", hour=1, valid=span(0, 10)),
        claim(2, "b", writer="crm", hour=2, valid=span(5, 15)),
        claim(3, "c", writer="chat", hour=3, valid=span(12, 20)),
        claim(4, "d", writer="billing", hour=4, valid=span(30, 40)),
        claim(5, "e", writer="crm", hour=5, valid=span(30, 40)),
    ]
    state = resolve(told, (), rules())
    assert sorted(sorted(one) for one, _ in conflicts(state)) == [[1, 2, 3], [4, 5]]
    apart = settle([told[0], told[2]], [told[1]], (), rules())
    assert changes(apart) == [(Change.OPENED, {1, 2, 3})]


def test_two_reviews_that_turn_out_to_be_one_are_merged() -> None:
    known = [
        claim(1, "a", writer="billing", hour=1, valid=span(0, 10)),
        claim(2, "b", writer="crm", hour=2, valid=span(0, 10)),
        claim(3, "a", writer="billing", hour=1, valid=span(20, 30)),
        claim(4, "b", writer="crm", hour=2, valid=span(20, 30)),
    ]
    merged = settle(known, [claim(5, "c", writer="chat", hour=3)], (), rules())
    assert changes(merged) == [(Change.EXTENDED, {1, 2, 3, 4, 5})]
    assert [len(one.before) for one in merged.conflicts] == [2]


def test_pieces_of_time_with_one_finding_are_joined() -> None:
    state = resolve(
        [claim(1, "a", hour=1), claim(2, "a", hour=2, valid=span(5, 15)), claim(3, "a", hour=3)], (), rules()
    )
    assert held(state) == [(1, ALWAYS, Rule.UNOPPOSED, False)]
    assert [finding.period for finding in state.findings] == [span(None, 5), span(5, 15), span(15, None)]
    gap = resolve([claim(1, "a", valid=span(0, 5)), claim(2, "a", valid=span(6, 9))], (), rules())
    assert [one for one, *_ in held(gap)] == [1, 2]
    touching = resolve([claim(1, "a", valid=span(0, 5)), claim(1, "a", valid=span(0, 5))], (), rules())
    assert held(touching) == [(1, span(0, 5), Rule.UNOPPOSED, False)]


def test_findings_are_joined_across_bounds_of_others() -> None:
    told = [claim(1, "a", key=SKILLS, hour=1), claim(2, "b", key=SKILLS, hour=2, valid=span(5, 15))]
    state = resolve(told, (), rules())
    assert held(state) == [(1, ALWAYS, Rule.UNOPPOSED, False), (2, span(5, 15), Rule.UNOPPOSED, False)]
    single = resolve(
        [claim(1, "a", hour=1), claim(2, "b", writer="crm", hour=2, valid=span(5, 15), withdrawn=True)], (), rules()
    )
    assert held(single) == [(1, ALWAYS, Rule.UNOPPOSED, False)]
    assert [finding.period for finding in single.findings] == [ALWAYS]


def test_a_joined_finding_begins_where_its_first_piece_does() -> None:
    silent = claim(2, "b", writer="crm", hour=2, valid=span(5, 15), withdrawn=True)
    state = resolve([claim(1, "a", hour=1, valid=span(0, 20)), silent], (), rules())
    assert [finding.period for finding in state.findings] == [span(0, 20)]
    assert held(state) == [(1, span(0, 20), Rule.UNOPPOSED, False)]


def test_what_is_apart_is_not_joined() -> None:
    tie = [
        claim(1, "a", hour=0, valid=span(0, 15)),
        claim(2, "b", writer="crm", hour=0, valid=span(5, 10)),
    ]
    assert held(resolve(tie, (), rules())) == [
        (1, span(0, 5), Rule.UNOPPOSED, False),
        (1, span(10, 15), Rule.UNOPPOSED, False),
    ]
    gone = [claim(1, "a", valid=span(0, 5), withdrawn=True), claim(2, "a", valid=span(9, 15), withdrawn=True)]
    assert [finding.period for finding in resolve(gone, (), rules()).findings] == [span(0, 5), span(9, 15)]


def test_the_best_that_a_claim_is_anywhere_counts_and_where_it_was_first() -> None:
    state = resolve([claim(1, "a", hour=1, valid=span(0, 10)), claim(2, "b", hour=2, valid=span(5, 20))], (), rules())
    assert place(state, 1) == (Status.ACTIVE, Rule.UNOPPOSED, None)
    assert place(state, 2) == (Status.ACTIVE, Rule.SAME_WRITER, None)


def test_a_many_valued_key_keeps_all_of_its_values() -> None:
    told = [
        claim(1, "python", key=SKILLS),
        claim(2, "sql", key=SKILLS, writer="crm"),
        claim(3, "Python", key=SKILLS, hour=1),
    ]
    state = resolve(told, (), rules())
    assert (active(state), conflicts(state)) == ({1, 2}, [])
    assert place(state, 3) == (Status.CORROBORATES, Rule.UNOPPOSED, 1)


def test_other_subjects_keys_and_scopes_have_nothing_to_do_with_each_other() -> None:
    told = [
        claim(1, "a"),
        claim(2, "b", subject="user-2"),
        claim(3, "c", key=read_key("fact", "other")),
        claim(4, "d", key=read_key("taste", "subscription_plan")),
        claim(5, "e", scope="project"),
        claim(6, "f", scope={"agent_identity": "scout"}),
    ]
    state = resolve(told, (), rules())
    assert (active(state), conflicts(state)) == ({1, 2, 3, 4, 5, 6}, [])


def test_an_unreadable_value_is_kept_and_never_active() -> None:
    broken = claim(2, Value("1,234", None, "number-1", Problem.AMBIGUOUS_NUMBER), hour=9)
    state = resolve([claim(1, "a"), broken], (), rules())
    assert (active(state), conflicts(state)) == ({1}, [])
    assert state.places[uid(2)] == Place(Status.UNCHECKED)


def test_what_was_taken_back_is_gone_and_nothing_older_of_its_writer_comes_back() -> None:
    told = [claim(1, "tea", hour=1), claim(2, "coffee", hour=2)]
    gone = revise(told[1], based_on=1, by="person:ada", at=at(5), withdrawn=True)
    settled = settle(told, [gone], (), rules())
    assert held(settled.after) == []
    assert place(settled.after, 2) == (Status.WITHDRAWN, Rule.TAKEN_BACK, None)
    assert place(settled.after, 1) == (Status.SUPERSEDED, Rule.TAKEN_BACK, None)
    assert changes(settled) == [(Change.DISSOLVED, {1, 2})]
    assert settled.conflicts[0].after is None


def test_all_that_says_the_same_is_known_together() -> None:
    told = [
        claim(1, "tea", hour=1),
        claim(2, "tea", hour=2),
        claim(3, "Tea", writer="crm", hour=3),
        claim(4, "milk", hour=0),
    ]
    state = resolve(told, (), rules())
    assert state.saying_the_same(uid(2)) == {uid(1), uid(2), uid(3)}
    assert state.saying_the_same(uid(4)) == {uid(4)}
    assert state.saying_the_same(uid(99)) == {uid(99)}


CHOOSE_STARTER = decision(1, Verdict.CHOOSE, {1, 2}, kept=2, hour=10)


def decided_state(*claims: Claim, decisions: Sequence[Decision] = (CHOOSE_STARTER,)) -> State:
    return resolve([GROWTH, STARTER, *claims], decisions, rules())


def test_a_persons_choice_is_active_and_the_other_is_archived() -> None:
    state = decided_state()
    assert held(state) == [(2, ALWAYS, Rule.PERSON, False)]
    assert state.holdings[0].decision == uid(1)
    assert place(state, 1) == (Status.ARCHIVED, Rule.PERSON, 2)
    assert place(state, 2) == (Status.ACTIVE, Rule.PERSON, None)
    (conflict,) = state.conflicts
    assert conflict == Conflict(GROWTH.slot, frozenset((uid(1), uid(2))), ConflictState.DECIDED, decision=uid(1))
    (finding,) = state.findings
    assert (finding.contest, finding.follows) == (frozenset(), None)
    assert finding.outcome == Outcome(
        winner=uid(2),
        active=uid(2),
        rule=Rule.PERSON,
        explanation=Explanation(Rule.PERSON, (("decision", str(uid(1))), ("actor", "person:ada"))),
        sides=(Side(uid(2), "starter", ()),),
        losses=(Loss(uid(1), Rule.PERSON, uid(2)),),
        inputs=(Weight(uid(2), "starter", "crm", 50, at(2), at(2), 0.7),),
        decision=uid(1),
    )


def test_the_chosen_claim_speaks_for_its_side_even_when_it_was_not_the_first() -> None:
    choice = decision(1, Verdict.CHOOSE, {1, 2, 3}, kept=3, hour=10)
    state = decided_state(claim(3, "growth", writer="chat", hour=5), decisions=[choice])
    assert held(state) == [(3, ALWAYS, Rule.PERSON, False)]
    assert place(state, 1) == (Status.CORROBORATES, Rule.PERSON, 3)
    assert place(state, 2) == (Status.ARCHIVED, Rule.PERSON, 3)


def test_a_value_that_was_refused_and_is_chosen_later_stays_refused_for_the_earlier_claim() -> None:
    made = [
        decision(1, Verdict.NEITHER, {1, 2}, hour=10),
        decision(2, Verdict.CHOOSE, {3}, kept=3, hour=30, follows=1),
    ]
    state = decided_state(claim(3, "Growth", writer="chat", hour=20), decisions=made)
    assert held(state) == [(3, ALWAYS, Rule.PERSON, False)]
    assert place(state, 1) == (Status.ARCHIVED, Rule.PERSON, 3)
    assert state.findings[0].outcome.sides == (Side(uid(3), "growth", ()),)


def test_decided_stays_decided_on_a_rescan() -> None:
    again = settle([GROWTH, STARTER], [GROWTH, STARTER, GROWTH], [CHOOSE_STARTER], rules())
    assert again.is_empty
    assert (again.conflicts, again.activated, again.released, again.given_up) == ((), (), (), ())


def test_new_evidence_opens_a_new_conflict_that_names_the_decision_and_the_choice_stays() -> None:
    known = [GROWTH, STARTER]
    new = settle(known, [claim(3, "Growth", writer="chat", hour=20)], [CHOOSE_STARTER], rules())
    assert changes(new) == [(Change.OPENED, {2, 3})]
    (opened,) = new.after.open_conflicts
    assert opened.follows == uid(1)
    assert held(new.after) == [(2, ALWAYS, Rule.AFTER_DECISION, True)]
    assert new.after.holdings[0].decision == uid(1)
    assert place(new.after, 3) == (Status.CONTESTED, Rule.AFTER_DECISION, 2)
    assert place(new.after, 1) == (Status.ARCHIVED, Rule.PERSON, 2)
    assert opened.contenders == {uid(2), uid(3)}
    assert len(new.after.conflicts) == 2


@pytest.mark.parametrize(
    ("value", "writer", "hour", "opens"),
    [
        ("Growth", "billing", 9, False),
        ("Growth", "billing", 10, False),
        ("Growth", "billing", 11, True),
        ("Growth", "chat", 9, True),
        ("Free", "chat", 9, True),
        ("Starter", "chat", 20, False),
        ("Starter", "crm", 20, False),
        ("Free", "crm", 20, True),
        ("Free", "crm", 1.5, False),
        ("Free", "billing", 0.5, False),
        ("Free", "billing", 1, True),
    ],
)
def test_what_is_new_evidence_after_a_decision(value: str, writer: str, hour: float, opens: bool) -> None:
    state = decided_state(claim(3, value, writer=writer, hour=hour, received=30))
    assert bool(state.open_conflicts) is opens
    assert active(state) == {2}


def test_what_the_same_writer_had_moved_on_from_is_superseded_and_not_evidence() -> None:
    state = decided_state(claim(3, "Free", writer="crm", hour=1.5, received=30))
    assert place(state, 3) == (Status.SUPERSEDED, Rule.SAME_WRITER, 2)


def test_agreement_with_a_decision_corroborates_it() -> None:
    state = decided_state(claim(3, "Starter", writer="chat", hour=20))
    assert place(state, 3) == (Status.CORROBORATES, Rule.PERSON, 2)
    repeated = decided_state(claim(3, "Growth", writer="billing", hour=9))
    assert place(repeated, 3) == (Status.ARCHIVED, Rule.PERSON, 2)
    assert repeated.saying_the_same(uid(3)) == {uid(3)}


def test_a_writer_that_came_back_to_the_decided_value_opens_nothing() -> None:
    state = decided_state(claim(3, "Free", writer="crm", hour=20), claim(4, "Starter", writer="crm", hour=21))
    assert (state.open_conflicts, active(state)) == ((), {2})
    assert place(state, 3) == (Status.SUPERSEDED, Rule.SAME_WRITER, 4)


def test_more_new_evidence_extends_the_new_conflict() -> None:
    known = [GROWTH, STARTER, claim(3, "Growth", writer="chat", hour=20)]
    free, agreeing = claim(4, "Free", writer="ops", hour=21), claim(5, "Starter", writer="zoe", hour=22)
    assert changes(settle(known, [free, agreeing], [CHOOSE_STARTER], rules())) == [(Change.EXTENDED, {2, 3, 4, 5})]
    moved_on = claim(6, "Starter", writer="ops", hour=22)
    assert changes(settle(known, [free, moved_on], [CHOOSE_STARTER], rules())) == [(Change.EXTENDED, {2, 3, 6})]


def test_a_second_decision_settles_the_second_conflict() -> None:
    second = decision(2, Verdict.CHOOSE, {2, 3}, kept=3, hour=40, follows=1)
    known = [GROWTH, STARTER, claim(3, "Free", writer="chat", hour=20)]
    before = resolve(known, [CHOOSE_STARTER], rules())
    after = resolve(known, [second, CHOOSE_STARTER], rules())
    assert changes(compare(before, after)) == [(Change.DECIDED, {2, 3})]
    assert held(after) == [(3, ALWAYS, Rule.PERSON, False)]
    assert {place(after, number)[0] for number in (1, 2)} == {Status.ARCHIVED}
    assert sorted(conflict.follows is not None for conflict in after.conflicts) == [False, True]


def test_neither_leaves_nothing_active_and_something_else_may_come() -> None:
    neither = decision(1, Verdict.NEITHER, {1, 2}, hour=10)
    state = decided_state(decisions=[neither])
    assert (held(state), state.open_conflicts) == ([], ())
    assert place(state, 1) == place(state, 2) == (Status.ARCHIVED, Rule.PERSON, None)
    assert state.findings[0].outcome.decision == uid(1)
    other = decided_state(claim(3, "Free", writer="chat", hour=20), decisions=[neither])
    assert (held(other), other.open_conflicts) == ([(3, ALWAYS, Rule.UNOPPOSED, False)], ())
    assert place(other, 1) == place(other, 2) == (Status.ARCHIVED, Rule.PERSON, None)
    assert (other.findings[0].contest, other.findings[0].follows) == (frozenset(), None)


def test_a_refused_value_that_comes_again_is_a_new_conflict() -> None:
    neither = decision(1, Verdict.NEITHER, {1, 2}, hour=10)
    again = decided_state(claim(3, "Growth", writer="chat", hour=20), decisions=[neither])
    (opened,) = again.open_conflicts
    assert ({one.int for one in opened.claims}, opened.follows) == ({3}, uid(1))
    assert held(again) == []
    beside = decided_state(
        claim(3, "Growth", writer="chat", hour=20), claim(4, "Free", writer="ops", hour=21), decisions=[neither]
    )
    assert held(beside) == [(4, ALWAYS, Rule.AFTER_DECISION, True)]
    assert {one.int for one in beside.open_conflicts[0].claims} == {3, 4}


def test_after_neither_the_policy_goes_on_among_what_is_new() -> None:
    neither = decision(1, Verdict.NEITHER, {1, 2}, hour=10)
    told = (claim(3, "Free", writer="chat", hour=20), claim(4, "Pro", writer="ops", hour=21))
    ranked = rules(writers=authorities(billing=50, crm=50, chat=50, ops=80))
    state = resolve([GROWTH, STARTER, *told], [neither], ranked)
    assert held(state) == [(4, ALWAYS, Rule.AUTHORITY, False)]
    decided = next(conflict for conflict in state.conflicts if conflict.follows == uid(1))
    assert ({one.int for one in decided.claims}, decided.state) == ({3, 4}, ConflictState.DECIDED)
    equal = resolve([GROWTH, STARTER, *told], [neither], rules(writers=authorities(chat=50, ops=50)))
    assert held(equal) == [(3, ALWAYS, Rule.EQUAL_AUTHORITY, True)]


def test_both_in_scopes_of_their_own() -> None:
    both = decision(
        1,
        Verdict.BOTH,
        {1, 2},
        hour=10,
        placements=(Placement(uid(1), read_scope("work")), Placement(uid(2), read_scope("home"))),
    )
    state = decided_state(decisions=[both])
    assert {(one.claim.int, one.slot.scope.type, one.rule) for one in state.holdings} == {
        (1, "work", Rule.PERSON),
        (2, "home", Rule.PERSON),
    }
    assert (state.open_conflicts, len(state.conflicts)) == ((), 1)
    assert state.conflicts[0].slot == GROWTH.slot


def test_both_at_times_of_their_own_and_a_side_moves_as_one() -> None:
    agreeing = claim(3, "growth", writer="chat", hour=3)
    both = decision(
        1,
        Verdict.BOTH,
        {1, 2, 3},
        hour=10,
        placements=(Placement(uid(1), valid=span(None, 5)), Placement(uid(2), valid=span(5, None))),
    )
    state = decided_state(agreeing, decisions=[both])
    assert held(state) == [(1, span(None, 5), Rule.PERSON, False), (2, span(5, None), Rule.PERSON, False)]
    assert place(state, 3) == (Status.CORROBORATES, Rule.PERSON, 1)


def test_both_can_leave_a_third_one_out() -> None:
    third = claim(3, "Free", writer="chat", hour=3)
    both = decision(
        1, Verdict.BOTH, {1, 2, 3}, hour=10, placements=(Placement(uid(1)), Placement(uid(2), read_scope("home")))
    )
    state = decided_state(third, decisions=[both])
    assert active(state) == {1, 2}
    assert place(state, 3) == (Status.ARCHIVED, Rule.PERSON, 1)


def test_a_corrected_value_takes_the_place_of_both() -> None:
    corrected = claim(3, "Pro", writer="person:ada", hour=10, decision=uid(1))
    correct = decision(1, Verdict.CORRECT, {1, 2, 3}, kept=3, hour=10)
    state = decided_state(corrected, decisions=[correct])
    assert held(state) == [(3, ALWAYS, Rule.PERSON, False)]
    undone = decided_state(corrected, decisions=[correct, decision(2, Verdict.UNDO, set(), undoes=1, hour=11)])
    assert held(undone) == [(1, ALWAYS, Rule.EQUAL_AUTHORITY, True)]
    assert place(undone, 3) == (Status.WITHDRAWN, Rule.TAKEN_BACK, None)
    assert conflicts(undone) == [({1, 2}, ConflictState.OPEN)]


def test_undoing_opens_the_conflict_again_and_undoing_that_closes_it() -> None:
    undo = decision(2, Verdict.UNDO, set(), undoes=1, hour=20)
    before, after = decided_state(), decided_state(decisions=[CHOOSE_STARTER, undo])
    assert changes(compare(before, after)) == [(Change.REOPENED, {1, 2})]
    assert after == resolve([GROWTH, STARTER], (), rules())
    back = decided_state(decisions=[CHOOSE_STARTER, undo, decision(3, Verdict.UNDO, set(), undoes=2, hour=30)])
    assert back == before


def test_the_later_word_on_a_claim_counts() -> None:
    later = decision(2, Verdict.CHOOSE, {1, 2}, kept=1, hour=20)
    assert held(decided_state(decisions=[later, CHOOSE_STARTER])) == [(1, ALWAYS, Rule.PERSON, False)]


def test_of_two_kept_values_that_meet_the_one_decided_later_holds() -> None:
    told = [
        claim(1, "a", writer="billing", hour=1, valid=span(0, 10)),
        claim(2, "b", writer="crm", hour=2, valid=span(0, 10)),
        claim(3, "c", writer="billing", hour=3, valid=span(5, 15)),
        claim(4, "d", writer="crm", hour=4, valid=span(12, 15)),
    ]
    made = [
        decision(1, Verdict.CHOOSE, {1, 2}, kept=1, hour=20),
        decision(2, Verdict.CHOOSE, {3, 4}, kept=3, hour=21),
    ]
    state = resolve(told, made, rules())
    assert held(state) == [(1, span(0, 5), Rule.PERSON, False), (3, span(5, 15), Rule.PERSON, False)]
    both = next(finding for finding in state.findings if finding.period == span(5, 10))
    assert both.outcome.sides == (Side(uid(3), "c", ()),)
    assert set(both.outcome.losses) == {Loss(uid(1), Rule.PERSON, uid(3)), Loss(uid(2), Rule.PERSON, uid(3))}


def test_a_kept_claim_that_was_taken_back_holds_nothing() -> None:
    gone = revise(STARTER, based_on=1, by="x", at=at(50), withdrawn=True)
    state = resolve([GROWTH, gone], [CHOOSE_STARTER], rules())
    assert held(state) == []
    fresh = resolve([GROWTH, gone, claim(3, "Free", writer="chat", hour=60)], [CHOOSE_STARTER], rules())
    assert held(fresh) == [(3, ALWAYS, Rule.UNOPPOSED, False)]
    only = resolve([gone], [decision(1, Verdict.CHOOSE, {2}, kept=2)], rules())
    assert only.findings[0].outcome.rule is Rule.PERSON


def test_a_choice_counts_only_where_the_chosen_claim_holds() -> None:
    told = [claim(1, "a", hour=1, valid=span(0, 10)), claim(2, "b", writer="crm", hour=2, valid=span(5, 15))]
    state = resolve(told, [decision(1, Verdict.CHOOSE, {1, 2}, kept=1, hour=10)], rules())
    assert held(state) == [(1, span(0, 10), Rule.PERSON, False), (2, span(10, 15), Rule.UNOPPOSED, False)]
    neither = resolve(told, [decision(1, Verdict.NEITHER, {1, 2}, hour=10)], rules())
    assert held(neither) == []


def test_what_a_choice_leaves_undecided_stays_in_conflict_and_names_it() -> None:
    told = [
        claim(1, "a", writer="billing", hour=1, valid=span(0, 50)),
        claim(2, "b", writer="crm", hour=2, valid=span(10, 90)),
        claim(3, "c", writer="chat", hour=3, valid=span(0, 20)),
    ]
    state = resolve(told, [decision(1, Verdict.CHOOSE, {1, 2, 3}, kept=2, hour=10)], rules())
    assert held(state) == [(1, span(0, 10), Rule.EQUAL_AUTHORITY, True), (2, span(10, 90), Rule.PERSON, False)]
    (left,) = state.open_conflicts
    assert ({one.int for one in left.claims}, left.follows) == ({1, 3}, uid(1))


def test_new_evidence_where_a_choice_does_not_reach_is_a_conflict_that_names_it() -> None:
    told = [
        claim(1, "a", writer="billing", hour=1, valid=span(0, 50)),
        claim(2, "b", writer="crm", hour=2, valid=span(10, 50)),
        claim(3, "c", writer="chat", hour=20, valid=span(0, 10)),
    ]
    state = resolve(told, [decision(1, Verdict.CHOOSE, {1, 2}, kept=2, hour=10)], rules())
    (opened,) = state.open_conflicts
    assert ({one.int for one in opened.claims}, opened.follows) == ({1, 3}, uid(1))


def test_what_two_choices_leave_undecided_follows_the_later_one() -> None:
    told = [
        claim(1, "a", writer="billing", hour=1, valid=span(0, 50)),
        claim(2, "b", writer="crm", hour=2, valid=span(10, 50)),
        claim(3, "c", writer="chat", hour=3, valid=span(0, 50)),
        claim(4, "d", writer="ops", hour=4, valid=span(10, 50)),
    ]
    made = [
        decision(1, Verdict.CHOOSE, {3, 4}, kept=4, hour=10),
        decision(2, Verdict.CHOOSE, {1, 2}, kept=2, hour=11),
    ]
    for order in (made, made[::-1]):
        left = next(one for one in resolve(told, order, rules()).open_conflicts if one.claims == {uid(1), uid(3)})
        assert left.follows == uid(2)


def test_a_decision_about_claims_that_are_not_here_decides_nothing_here() -> None:
    state = resolve([GROWTH, STARTER], [decision(1, Verdict.CHOOSE, {8, 9}, kept=8)], rules())
    assert conflicts(state) == [({1, 2}, ConflictState.OPEN)]
    assert len(resolve([GROWTH], [CHOOSE_STARTER], rules()).conflicts) == 1


def test_a_decision_holds_for_a_key_that_became_many_valued() -> None:
    keys = {PLAN: KeyRule("many")}
    state = resolve([GROWTH, STARTER, claim(3, "Free", writer="chat", hour=20)], [CHOOSE_STARTER], rules(keys=keys))
    assert active(state) == {2, 3}


def test_without_rules_of_its_own_a_tenant_has_the_built_in_ones() -> None:
    assert resolve([GROWTH, STARTER]) == resolve([GROWTH, STARTER], (), Rules())
    assert conflicts(resolve([GROWTH, STARTER])) == [({1, 2}, ConflictState.OPEN)]


def test_recency_for_the_key_settles_equals() -> None:
    assert held(resolve([GROWTH, STARTER], (), rules(recency=True))) == [(2, ALWAYS, Rule.RECENCY, False)]


def test_holdings_that_merely_follow_each_other_in_the_list_are_not_joined() -> None:
    told = [claim(1, "a", subject="u1"), claim(2, "a", subject="u2")]
    assert [one for one, *_ in held(resolve(told, (), rules()))] == [1, 2]
    told = [claim(1, "a", subject="u1", valid=span(0, 5)), claim(2, "a", subject="u2", valid=span(5, 9))]
    assert [one for one, *_ in held(resolve(told, (), rules()))] == [1, 2]


# Properties.

SPANS = [ALWAYS, ALWAYS, span(0, 10), span(5, 15), span(10, 20), span(None, 5)]
some_claims: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.builds(
        dict,
        value=st.sampled_from(["a", "a", "b", "c", None]),
        writer=st.sampled_from(["billing", "crm", "chat", "ops"]),
        hour=st.sampled_from([-2, 0, 0, 1, 3, 60]),
        received=st.sampled_from([0, 1, 2, 70]),
        confidence=st.sampled_from([None, 0.2, 0.9]),
        withdrawn=st.sampled_from([False] * 5 + [True]),
        valid=st.sampled_from(SPANS),
        scope=st.sampled_from([None, None, None, "work"]),
        key=st.sampled_from([PLAN, PLAN, PLAN, SKILLS]),
        subject=st.sampled_from(["user-1", "user-1", "user-2"]),
    ),
    min_size=1,
    max_size=8,
)
some_rules = st.builds(rules, writers=st.sampled_from([EQUALS, RANKED]), recency=st.booleans())


def made(told: Iterable[dict[str, Any]], ids: Iterable[int]) -> list[Claim]:
    return [
        claim(number, **{**one, "value": read_value(one["value"]) if one["value"] is None else one["value"]})
        for number, one in zip(ids, told, strict=True)
    ]


def some_decisions(claims: Sequence[Claim], tenant: Rules, chance: Random) -> list[Decision]:
    """What a reviewer may do about the open conflicts of these claims, one after the other."""
    told: list[Decision] = []
    for number in range(chance.randint(0, 3)):
        waiting = resolve(claims, told, tenant).open_conflicts
        if not waiting:
            break
        conflict = chance.choice(waiting)
        claim_ids = sorted(conflict.claims)
        verdict = chance.choice([Verdict.CHOOSE, Verdict.NEITHER, Verdict.BOTH])
        places = [Placement(one, read_scope(f"s{index}")) for index, one in enumerate(claim_ids)]
        told.append(
            Decision(
                id=uid(1000 + number),
                ordinal=number,
                verdict=verdict,
                considered=conflict.claims,
                actor="person:ada",
                decided_at=at(50),
                kept=chance.choice(claim_ids) if verdict is Verdict.CHOOSE else None,
                placements=tuple(places[:2]) if verdict is Verdict.BOTH else (),
                follows=conflict.follows,
            )
        )
        if chance.random() < 0.3:
            told.append(
                Decision(
                    uid(2000 + number),
                    100 + number,
                    Verdict.UNDO,
                    frozenset(),
                    "person:bob",
                    at(51),
                    undoes=told[-1].id,
                )
            )
    return told


class Book:
    """A store that knows nothing but the changes it is told of."""

    def __init__(self) -> None:
        self.claims: list[Claim] = []
        self.conflicts: Counter[Conflict] = Counter()
        self.holdings: set[Any] = set()

    def take_in(self, batch: Sequence[Claim], decisions: Sequence[Decision], tenant: Rules) -> None:
        settled = settle(self.claims, batch, decisions, tenant)
        self.claims += batch
        for change in settled.conflicts:
            assert all(self.conflicts[known] == 1 for known in change.before)
            self.conflicts -= Counter(change.before)
            if change.after is not None:
                self.conflicts[change.after] += 1
        assert set(settled.released) <= self.holdings
        self.holdings = (self.holdings - set(settled.released)) | set(settled.activated)


@settings(max_examples=150, deadline=None)
@given(some_claims, some_rules, st.randoms(use_true_random=False))
def test_any_order_any_batches_any_duplicates_end_in_one_state(
    told: list[dict[str, Any]], tenant: Rules, chance: Random
) -> None:
    claims = made(told, range(1, len(told) + 1))
    made_decisions = some_decisions(claims[: chance.randint(0, len(claims))], tenant, chance)
    state = resolve(claims, made_decisions, tenant)
    sent = chance.sample(claims, len(claims)) + chance.choices(claims, k=chance.randint(0, 4))
    book = Book()
    while sent:
        size = chance.randint(1, len(sent))
        book.take_in(sent[:size], made_decisions, tenant)
        sent = sent[size:]
    assert book.conflicts == Counter(state.conflicts)
    assert book.holdings == set(state.holdings)
    assert resolve(book.claims, chance.sample(made_decisions, len(made_decisions)), tenant) == state


@settings(max_examples=150, deadline=None)
@given(some_claims, some_rules, st.randoms(use_true_random=False))
def test_swapping_ids_changes_nothing(told: list[dict[str, Any]], tenant: Rules, chance: Random) -> None:
    def plain(claims: list[Claim]) -> Any:
        state = resolve(claims, (), tenant)
        names = {
            one.id: str((one.slot, one.value.normal, one.writer, one.observed_at, one.valid, one.ordinal))
            for one in claims
        }
        return (
            sorted((names[one.claim], str(one.period), one.rule, one.is_open) for one in state.holdings),
            sorted((sorted(names[one] for one in conflict.claims), conflict.state) for conflict in state.conflicts),
            sorted((names[one], found.status) for one, found in state.places.items()),
        )

    ids = list(range(1, len(told) + 1))
    assert plain(made(told, chance.sample(ids, len(ids)))) == plain(made(told, ids))


@settings(max_examples=150, deadline=None)
@given(some_claims, some_rules, st.randoms(use_true_random=False))
def test_what_always_holds(told: list[dict[str, Any]], tenant: Rules, chance: Random) -> None:
    claims = made(told, range(1, len(told) + 1))
    made_decisions = some_decisions(claims, tenant, chance)
    state = resolve(claims, made_decisions, tenant)
    by_id = {one.id: one for one in claims}
    for one, other in combinations(state.holdings, 2):
        is_one_slot = one.slot == other.slot and tenant.keys.rule(one.slot.key).cardinality == "single"
        assert not (is_one_slot and one.period.overlaps(other.period)), "two active values"
    assert state.places.keys() == by_id.keys()
    for holding in state.holdings:
        assert not by_id[holding.claim].withdrawn
    assert settle(claims, claims, made_decisions, tenant).is_empty
    for conflict in state.open_conflicts:
        assert conflict.claims


@settings(max_examples=150, deadline=None)
@given(some_claims, some_rules)
def test_two_claims_conflict_exactly_when_they_are_in_one_conflict(told: list[dict[str, Any]], tenant: Rules) -> None:
    claims = made(told, range(1, len(told) + 1))
    state = resolve(claims, (), tenant)
    for one, other in combinations(claims, 2):
        relation = relate(one, other, tenant.keys.rule(one.key)).relation
        together = any({one.id, other.id} <= conflict.claims for conflict in state.conflicts)
        if relation is Relation.CONFLICT:
            assert together
        if together:
            assert one.slot == other.slot
    alone = [
        one
        for one in claims
        if not any(relate(one, other, tenant.keys.rule(one.key)).relation is Relation.CONFLICT for other in claims)
    ]
    for one in alone:
        in_conflicts = [conflict for conflict in state.conflicts if one.id in conflict.claims]
        assert not in_conflicts


@settings(max_examples=100, deadline=None)
@given(some_claims, some_claims, some_rules, st.randoms(use_true_random=False))
def test_what_a_person_chose_stays_active_until_another_decision(
    told: list[dict[str, Any]], more: list[dict[str, Any]], tenant: Rules, chance: Random
) -> None:
    claims = made(told, range(1, len(told) + 1))
    waiting = resolve(claims, (), tenant).open_conflicts
    if not waiting:
        return
    conflict = waiting[0]
    chosen = sorted(conflict.contenders)[0]
    made_decision = decision(1, Verdict.CHOOSE, {one.int for one in conflict.claims}, kept=chosen.int, hour=50)
    later = made(more, range(100, 100 + len(more)))
    before = resolve(claims, [made_decision], tenant)
    after = resolve([*claims, *later], [made_decision], tenant)
    held_before = {(one.claim, one.period) for one in before.holdings if one.claim == chosen}
    held_after = {(one.claim, one.period) for one in after.holdings if one.claim == chosen}
    assert {one for one, _ in held_before} == {one for one, _ in held_after} == {chosen}
    assert sum(conflict.decision == uid(1) for conflict in after.conflicts) == 1
    for opened in after.open_conflicts:
        assert opened.follows in (None, uid(1))
        assert opened.follows == uid(1) or opened.claims.isdisjoint(conflict.claims)
