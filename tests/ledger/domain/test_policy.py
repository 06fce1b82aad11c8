from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.domain.claims import Claim
from ledger.domain.policy import AWAITS_PERSON, Explanation, Loss, Outcome, Rule, Side, Weight, decide, surest
from ledger.domain.writers import Authorities, AuthorityRules
from tests.ledger.domain.making import EQUALS, at, authorities, claim, uid

RANKED = authorities(billing=80, crm=40, chat=40, ops=80)


def judged(*claims: Claim, writers: Authorities = EQUALS, recency: bool = False) -> Outcome:
    return decide(claims, authorities=writers, recency_between_equals=recency)


def number(claim_id: UUID | None) -> int | None:
    return None if claim_id is None else claim_id.int


def losses(outcome: Outcome) -> set[tuple[int, Rule, int | None]]:
    return {(loss.claim.int, loss.rule, number(loss.to)) for loss in outcome.losses}


def test_a_claim_alone_is_unopposed() -> None:
    outcome = judged(claim(1))
    assert (outcome.winner, outcome.active, outcome.rule) == (uid(1), uid(1), Rule.UNOPPOSED)
    assert outcome.explanation == Explanation(Rule.UNOPPOSED, (("writers", 1),))
    assert (outcome.policy, outcome.losses, outcome.contenders, outcome.awaits_person) == ("policy-1", (), (), False)


def test_two_writers_who_agree_are_one_side_and_the_first_to_say_so_speaks_for_it() -> None:
    outcome = judged(claim(2, "growth", writer="crm", hour=5), claim(1, "Growth", hour=1))
    assert (outcome.winner, outcome.rule) == (uid(1), Rule.AGREEMENT)
    assert outcome.sides == (Side(uid(1), "growth", (uid(2),)),)
    assert outcome.explanation.params == (("writers", 2),)


def test_growth_and_starter_from_two_writers_of_equal_authority_go_to_a_person_and_the_earlier_stays() -> None:
    outcome = judged(claim(1, "Growth", writer="billing", hour=1), claim(2, "Starter", writer="crm", hour=2))
    assert (outcome.winner, outcome.active, outcome.rule) == (None, uid(1), Rule.EQUAL_AUTHORITY)
    assert outcome.awaits_person
    assert set(outcome.contenders) == {uid(1), uid(2)}
    assert outcome.explanation == Explanation(Rule.EQUAL_AUTHORITY, (("sides", 2), ("authority", 50)))
    assert outcome.losses == ()
    assert outcome.inputs == (
        Weight(uid(1), "growth", "billing", 50, at(1), at(1), None),
        Weight(uid(2), "starter", "crm", 50, at(2), at(2), None),
    )


@pytest.mark.parametrize("hour", [-1000, 0, 1000])
@pytest.mark.parametrize("recency", [True, False])
def test_authority_80_beats_40_for_fact_whatever_the_time(hour: float, recency: bool) -> None:
    writers = Authorities({"billing": AuthorityRules(0, {"fact": 80}), "crm": AuthorityRules(90, {"fact": 40})})
    strong, weak = claim(1, "Growth", hour=hour, confidence=0.1), claim(2, "Starter", writer="crm", confidence=1)
    outcome = judged(weak, strong, writers=writers, recency=recency)
    assert (outcome.winner, outcome.rule) == (uid(1), Rule.AUTHORITY)
    assert losses(outcome) == {(2, Rule.AUTHORITY, 1)}
    assert outcome.explanation.rule is Rule.AUTHORITY
    assert outcome.explanation.params == (
        ("writer", "billing"),
        ("authority", 80),
        ("other_writer", "crm"),
        ("other_authority", 40),
    )


def test_many_weak_writers_do_not_outweigh_one_strong_one() -> None:
    outcome = judged(
        claim(1, "Growth", hour=1),
        claim(2, "Starter", writer="crm", hour=2),
        claim(3, "Starter", writer="chat", hour=3),
        writers=RANKED,
    )
    assert (outcome.winner, losses(outcome)) == (uid(1), {(2, Rule.AUTHORITY, 1), (3, Rule.AUTHORITY, 1)})


def test_a_strong_writer_lends_its_authority_to_its_side_and_speaks_for_it() -> None:
    outcome = judged(
        claim(1, "Starter", writer="crm", hour=1),
        claim(2, "Growth", writer="chat", hour=2),
        claim(3, "Starter", writer="billing", hour=3),
        writers=RANKED,
    )
    assert (outcome.winner, outcome.rule) == (uid(3), Rule.AUTHORITY)
    assert next(side.support for side in outcome.sides if side.head == uid(3)) == (uid(1),)


def test_a_writers_own_correction_is_settled_by_recency() -> None:
    outcome = judged(claim(2, "Starter", hour=2), claim(1, "Growth", hour=1))
    assert (outcome.winner, outcome.rule) == (uid(2), Rule.SAME_WRITER)
    assert losses(outcome) == {(1, Rule.SAME_WRITER, 2)}
    assert outcome.explanation.params == (("writers", 1),)


def test_a_correction_ends_the_disagreement_with_another_writer() -> None:
    outcome = judged(claim(1, "Growth", hour=1), claim(2, "Starter", writer="crm", hour=2), claim(3, "Starter", hour=3))
    assert (outcome.winner, outcome.rule) == (uid(2), Rule.SAME_WRITER)
    assert losses(outcome) == {(1, Rule.SAME_WRITER, 3)}


def test_said_twice_is_one_position_since_the_first_time() -> None:
    outcome = judged(claim(1, hour=1), claim(2, hour=2, confidence=0.3))
    assert (outcome.winner, outcome.rule) == (uid(1), Rule.UNOPPOSED)
    assert outcome.inputs == (Weight(uid(1), "growth", "billing", 50, at(1), at(2), 0.3),)


def test_saying_it_again_after_a_correction_starts_anew() -> None:
    outcome = judged(claim(1, "tea", hour=1), claim(2, "coffee", hour=2), claim(3, "tea", hour=3))
    assert (outcome.winner, outcome.rule) == (uid(3), Rule.SAME_WRITER)
    assert losses(outcome) == {(1, Rule.SAME_WRITER, 2), (2, Rule.SAME_WRITER, 3)}


def test_a_writer_at_odds_with_itself_goes_to_a_person_and_neither_is_active() -> None:
    outcome = judged(claim(1, "tea"), claim(2, "coffee"))
    assert (outcome.winner, outcome.active, outcome.rule) == (None, None, Rule.EXACT_TIE)
    assert judged(claim(1, "tea"), claim(2, "coffee"), recency=True).rule is Rule.EXACT_TIE


def test_of_what_it_said_at_one_moment_the_statement_it_is_surest_of_counts() -> None:
    outcome = judged(
        claim(1, "tea", confidence=0.9), claim(2, "coffee", confidence=0.8), claim(3, "tea", confidence=0.2)
    )
    assert (outcome.winner, outcome.rule) == (uid(1), Rule.CONFIDENCE)
    assert losses(outcome) == {(2, Rule.CONFIDENCE, 1)}
    two = judged(claim(1, "tea", confidence=0.8), claim(2, "coffee", confidence=0.9))
    assert (two.winner, two.rule, losses(two)) == (uid(2), Rule.CONFIDENCE, {(1, Rule.CONFIDENCE, 2)})
    tied = judged(claim(1, "tea", confidence=0.9), claim(2, "coffee", confidence=0.9), claim(3, "milk", confidence=0.2))
    assert (tied.rule, tied.active, losses(tied)) == (Rule.EXACT_TIE, None, {(3, Rule.CONFIDENCE, None)})
    unknown = judged(claim(1, "tea", confidence=0.9), claim(2, "coffee"))
    assert (unknown.rule, unknown.losses) == (Rule.EXACT_TIE, ())


def test_odds_at_one_moment_keep_what_was_said_before() -> None:
    outcome = judged(claim(1, "tea", hour=1), claim(2, "tea", hour=2), claim(3, "coffee", hour=2))
    assert (outcome.rule, outcome.active) == (Rule.EXACT_TIE, uid(1))
    later = judged(
        claim(1, "tea", hour=1), claim(2, "tea", hour=2), claim(3, "coffee", hour=2), claim(4, "tea", hour=3)
    )
    assert (later.winner, later.rule, losses(later)) == (uid(1), Rule.SAME_WRITER, {(3, Rule.SAME_WRITER, 4)})
    changed = judged(claim(1, "milk", hour=1), claim(2, "tea", hour=2), claim(3, "coffee", hour=2))
    assert losses(changed) == {(1, Rule.SAME_WRITER, None)}


def test_within_one_source_event_the_later_statement_corrects_the_earlier_one() -> None:
    outcome = judged(
        claim(1, "Starter", event=7, ordinal=1),
        claim(2, "Growth", event=7, ordinal=2),
        claim(3, "Growth", event=7, ordinal=3),
    )
    assert (outcome.winner, outcome.rule, losses(outcome)) == (uid(2), Rule.SAME_WRITER, {(1, Rule.SAME_WRITER, 2)})


def test_explicit_claims_of_one_event_were_made_at_once_and_other_events_have_no_order() -> None:
    assert judged(claim(1, "Starter", event=7), claim(2, "Growth", event=7)).rule is Rule.EXACT_TIE
    assert judged(claim(1, "a", event=7, ordinal=1), claim(2, "b", event=8, ordinal=2)).rule is Rule.EXACT_TIE
    assert judged(claim(1, "a", event=7, ordinal=3), claim(2, "b", event=7)).rule is Rule.EXACT_TIE
    assert judged(claim(1, "a", ordinal=3), claim(2, "b", ordinal=4)).rule is Rule.EXACT_TIE


def test_statements_that_end_in_two_events_with_two_values() -> None:
    outcome = judged(
        claim(1, "milk", event=7, ordinal=1),
        claim(2, "tea", event=7, ordinal=2),
        claim(3, "coffee", event=8, ordinal=1),
    )
    assert (outcome.rule, losses(outcome)) == (Rule.EXACT_TIE, {(1, Rule.SAME_WRITER, None)})


def test_a_claim_taken_back_leaves_its_writer_without_a_say() -> None:
    outcome = judged(claim(1, "tea", hour=1), claim(2, "coffee", hour=2, withdrawn=True))
    assert (outcome.winner, outcome.active, outcome.rule) == (None, None, Rule.TAKEN_BACK)
    assert not outcome.awaits_person
    assert losses(outcome) == {(1, Rule.TAKEN_BACK, None)}
    assert outcome.explanation == Explanation(Rule.TAKEN_BACK, (("writers", 0),))


def test_the_other_writer_is_left_when_one_takes_its_word_back() -> None:
    outcome = judged(claim(1, "tea", hour=1, withdrawn=True), claim(2, "coffee", writer="crm", hour=0), writers=RANKED)
    assert (outcome.winner, outcome.rule) == (uid(2), Rule.UNOPPOSED)


def test_a_withdrawn_statement_beside_a_standing_one_changes_nothing() -> None:
    outcome = judged(claim(1, "tea", hour=1, withdrawn=True), claim(2, "coffee", hour=1))
    assert (outcome.winner, outcome.rule, outcome.losses) == (uid(2), Rule.UNOPPOSED, ())


def test_nobody_said_anything() -> None:
    assert judged().rule is Rule.TAKEN_BACK


def test_recency_settles_equals_where_the_tenant_allows_it() -> None:
    outcome = judged(claim(1, "Growth", hour=1), claim(2, "Starter", writer="crm", hour=2), recency=True)
    assert (outcome.winner, outcome.rule, losses(outcome)) == (uid(2), Rule.RECENCY, {(1, Rule.RECENCY, 2)})
    assert outcome.explanation.params == (
        ("writer", "crm"),
        ("observed_at", "2026-03-01T14:00:00+00:00"),
        ("other_writer", "billing"),
        ("other_observed_at", "2026-03-01T13:00:00+00:00"),
    )


def test_recency_compares_only_the_strongest() -> None:
    outcome = judged(
        claim(1, "Growth", writer="billing", hour=1),
        claim(2, "Growth", writer="chat", hour=9),
        claim(3, "Starter", writer="ops", hour=2),
        claim(4, "Free", writer="crm", hour=10),
        writers=RANKED,
        recency=True,
    )
    assert (outcome.winner, outcome.rule) == (uid(3), Rule.RECENCY)
    assert losses(outcome) == {(1, Rule.RECENCY, 3), (2, Rule.RECENCY, 3), (4, Rule.AUTHORITY, 3)}


def test_the_newest_of_several_strong_writers_counts_for_a_side() -> None:
    outcome = judged(
        claim(1, "Growth", writer="billing", hour=1),
        claim(2, "Growth", writer="chat", hour=9),
        claim(3, "Starter", writer="crm", hour=5),
        recency=True,
    )
    assert (outcome.winner, outcome.rule) == (uid(1), Rule.RECENCY)
    assert outcome.explanation.params[:2] == (("writer", "chat"), ("observed_at", "2026-03-01T21:00:00+00:00"))


def test_confidence_settles_what_was_observed_at_one_moment() -> None:
    told = (
        claim(1, "b", confidence=0.6),
        claim(2, "a", writer="crm", confidence=0.7),
        claim(3, "c", writer="chat", hour=-1),
    )
    outcome = judged(*told, recency=True)
    assert (outcome.winner, outcome.rule) == (uid(2), Rule.CONFIDENCE)
    assert losses(outcome) == {(1, Rule.CONFIDENCE, 2), (3, Rule.RECENCY, 2)}
    assert outcome.explanation.params == (
        ("writer", "crm"),
        ("confidence", 0.7),
        ("other_writer", "billing"),
        ("other_confidence", 0.6),
    )


@pytest.mark.parametrize(("one", "other"), [(0.5, 0.5), (None, 0.9), (None, None)])
def test_exact_ties_go_to_a_person_and_nothing_is_active(one: float | None, other: float | None) -> None:
    outcome = judged(claim(1, "a", confidence=one), claim(2, "b", writer="crm", confidence=other), recency=True)
    assert (outcome.winner, outcome.active, outcome.rule) == (None, None, Rule.EXACT_TIE)
    assert outcome.explanation.params == (("sides", 2), ("authority", 50))


def test_a_tie_between_the_newest_keeps_the_one_that_has_stood_longest() -> None:
    outcome = judged(
        claim(1, "a", hour=0),
        claim(2, "a", hour=5),
        claim(3, "b", writer="crm", hour=5),
        claim(4, "c", writer="chat", hour=4),
        recency=True,
    )
    assert (outcome.rule, outcome.active) == (Rule.EXACT_TIE, uid(1))
    assert set(outcome.contenders) == {uid(1), uid(3)}
    assert losses(outcome) == {(4, Rule.RECENCY, None)}


def test_confidence_counts_only_as_of_the_newest_moment() -> None:
    outcome = judged(
        claim(1, "a", writer="billing", hour=5, confidence=0.5),
        claim(2, "a", writer="chat", hour=1, confidence=1),
        claim(3, "b", writer="crm", hour=5, confidence=0.6),
        recency=True,
    )
    assert (outcome.winner, outcome.rule) == (uid(3), Rule.CONFIDENCE)


def test_the_weak_lose_even_while_the_strong_disagree() -> None:
    outcome = judged(
        claim(1, "a", writer="billing", hour=3),
        claim(2, "b", writer="ops", hour=2),
        claim(3, "c", writer="crm", hour=1),
        writers=RANKED,
    )
    assert (outcome.rule, outcome.active, losses(outcome)) == (
        Rule.EQUAL_AUTHORITY,
        uid(2),
        {(3, Rule.AUTHORITY, None)},
    )
    assert outcome.explanation.params == (("sides", 2), ("authority", 80))


def test_a_side_stands_as_long_as_its_strongest_writer_says_so() -> None:
    outcome = judged(
        claim(1, "a", writer="crm", hour=0),
        claim(2, "b", writer="ops", hour=1),
        claim(3, "a", writer="billing", hour=2),
        writers=RANKED,
    )
    assert (outcome.rule, outcome.active) == (Rule.EQUAL_AUTHORITY, uid(2))


def test_writers_without_rules_are_equals() -> None:
    outcome = judged(
        claim(1, "a", writer="host:x", hour=1), claim(2, "b", writer="host:y", hour=2), writers=Authorities()
    )
    assert (outcome.rule, outcome.explanation.params) == (Rule.EQUAL_AUTHORITY, (("sides", 2), ("authority", 0)))


def test_unknown_confidence_is_not_low_confidence() -> None:
    assert surest({"a": [0.1, 0.9], "b": [0.8]}) == {"a"}
    assert surest({"a": [0.1, None], "b": [0.8]}) == {"b"}
    assert surest({"a": [None], "b": [0.8]}) == {"a", "b"}
    assert surest({"a": [0], "b": [0.0]}) == {"a", "b"}


moments = st.sampled_from([-2, 0, 0, 1, 3])
told_claims: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.builds(
        dict,
        value=st.sampled_from(["a", "b", "c"]),
        writer=st.sampled_from(["billing", "crm", "chat", "ops"]),
        hour=moments,
        received=moments,
        confidence=st.sampled_from([None, 0.2, 0.9]),
        withdrawn=st.sampled_from([False, False, False, True]),
        event=st.sampled_from([None, 1, 2]),
        ordinal=st.integers(0, 2),
    ),
    min_size=1,
    max_size=7,
)
somebodys = st.sampled_from([EQUALS, RANKED, Authorities()])


def made(told: list[dict[str, Any]], ids: list[int]) -> list[Claim]:
    return [claim(number, **one) for number, one in zip(ids, told, strict=True)]


def plain(outcome: Outcome, claims: list[Claim]) -> Any:
    """The outcome with claims told by what they say instead of by their ids."""
    known = {one.id: (one.value.normal, one.writer, one.observed_at, one.ordinal) for one in claims}
    return (
        outcome.rule,
        outcome.explanation,
        known.get(outcome.winner) if outcome.winner else None,
        known.get(outcome.active) if outcome.active else None,
        [known[one] for one in outcome.contenders],
        [(known[side.head], side.value, sorted(known[one] for one in side.support)) for side in outcome.sides],
        sorted(
            (str(known[loss.claim]), loss.rule, str(known.get(loss.to) if loss.to else None)) for loss in outcome.losses
        ),
        [replace(weight, claim=uid(0)) for weight in outcome.inputs],
    )


@given(told_claims, somebodys, st.booleans(), st.randoms(use_true_random=False))
def test_neither_order_nor_ids_decide(
    told: list[dict[str, Any]], writers: Authorities, recency: bool, chance: Random
) -> None:
    ids = list(range(1, len(told) + 1))
    claims = made(told, ids)
    outcome = judged(*claims, writers=writers, recency=recency)
    shuffled = chance.sample(claims, len(claims))
    assert judged(*shuffled, writers=writers, recency=recency) == outcome
    other = made(told, chance.sample(ids, len(ids)))
    assert plain(judged(*other, writers=writers, recency=recency), other) == plain(outcome, claims)


@given(told_claims, somebodys, st.booleans())
def test_every_claim_ends_up_somewhere(told: list[dict[str, Any]], writers: Authorities, recency: bool) -> None:
    claims = made(told, list(range(1, len(told) + 1)))
    outcome = judged(*claims, writers=writers, recency=recency)
    in_sides = [one for side in outcome.sides for one in (side.head, *side.support)]
    losers = [loss.claim for loss in outcome.losses]
    live = {one.id for one in claims if not one.withdrawn}
    assert set(in_sides) | set(losers) == live
    assert len(in_sides) == len(set(in_sides))
    assert len(losers) == len(set(losers))
    assert (outcome.winner is None) is (outcome.rule in AWAITS_PERSON or outcome.rule is Rule.TAKEN_BACK)
    if outcome.winner is not None:
        assert outcome.active == outcome.winner
    if outcome.active is not None:
        assert outcome.active not in losers


@given(told_claims, somebodys)
def test_whoever_wins_has_the_most_authority(told: list[dict[str, Any]], writers: Authorities) -> None:
    claims = made(told, list(range(1, len(told) + 1)))
    outcome = judged(*claims, writers=writers)
    if outcome.active is not None:
        holder = next(weight for weight in outcome.inputs if weight.claim == outcome.active)
        assert holder.authority == max(weight.authority for weight in outcome.inputs)


def test_losses_are_told_once() -> None:
    assert Loss(uid(1), Rule.AUTHORITY, None) != Loss(uid(1), Rule.AUTHORITY, uid(2))
