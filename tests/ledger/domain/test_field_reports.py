"""Complaints about comparable products (M1 to M28 of the field reports), as far as they are matters of the domain."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any
from uuid import UUID

import pytest

from ledger.domain.assertions import Observation, claims_of, read_explicit
from ledger.domain.bitemporal import active as active_at
from ledger.domain.claims import Claim, StaleRevision, revise
from ledger.domain.decisions import Decision, Verdict
from ledger.domain.errors import LedgerError
from ledger.domain.extraction import Message, PlainStatements
from ledger.domain.key_registry import KeyRegistry, read_key
from ledger.domain.normalisers import Kind, normalise
from ledger.domain.review import Request, Signature, decide
from ledger.domain.settlement import Conflict, Settlement, State, Status, resolve, settle
from ledger.domain.snapshot_rule import Entry, list_entries
from ledger.domain.sources import ProvenanceError, hash_payload, is_repeat, read_source, require_writer
from tests.ledger.domain.making import at, claim, decision, rules, uid

KEYS = KeyRegistry()


def heard(
    text: str,
    *,
    event: int,
    hour: float = 0,
    writer: str = "chat",
    subject: str = "user-1",
    received: float | None = None,
) -> list[Claim]:
    """What the service learns from one message."""
    seen = Observation(uid(event), subject, writer, at(hour), at(hour if received is None else received))
    return list(claims_of(PlainStatements().extract([Message(text)]), seen, KEYS))


def stated(event: int, *, hour: float = 0, writer: str = "chat", subject: str = "user-1", **raw: Any) -> list[Claim]:
    """What an explicit claim says."""
    seen = Observation(uid(event), subject, writer, at(hour), at(hour))
    return list(claims_of([read_explicit(raw, KEYS)], seen, KEYS))


def shown(claims: Iterable[Claim], decisions: Iterable[Decision] = ()) -> list[str]:
    """What retrieval gives by default."""
    told = list(claims)
    by_id = {one.id: one for one in told}
    return sorted(by_id[holding.claim].value.display for holding in resolve(told, decisions, rules()).holdings)


def test_m1_the_same_fact_twice_is_one_active_claim_with_two_observations() -> None:
    first, again = heard("I live in Berlin", event=1, hour=1), heard("I live in Berlin", event=2, hour=2)
    settled = settle(first, again, (), rules())
    (holding,) = settled.after.holdings
    assert holding.claim == first[0].id
    assert settled.after.saying_the_same(holding.claim) == {first[0].id, again[0].id}
    assert shown(first + again) == ["Berlin"]


def test_m2_one_source_event_is_one_row_whoever_comes_first() -> None:
    told = hash_payload({"messages": ["I live in Berlin"]})
    assert [is_repeat(known, told) for known in (None, told, told)] == [False, True, True]
    assert heard("I live in Berlin", event=1) == heard("I live in Berlin", event=1)


def test_m3_two_values_at_once_are_never_both_active() -> None:
    for one, other in (("chat", "crm"), ("chat", "chat")):
        told = stated(1, writer=one, key="plan", value="A") + stated(2, writer=other, key="plan", value="B")
        state = resolve(told, (), rules())
        assert (len(state.holdings), len(state.open_conflicts)) == (0, 1)


def test_m4_a_stream_taken_in_twice_changes_nothing() -> None:
    told = heard("I like tea. My plan is Growth.", event=1) + heard("I hate tea", event=2, hour=1)
    assert settle(told, told, (), rules()).is_empty


def test_m5_an_id_that_was_given_stays_known() -> None:
    first = heard("I like tea", event=1)
    later = first + heard("I hate tea", event=2, hour=1) + heard("I like tea", event=3, hour=2)
    assert first[0].id in resolve(later, (), rules()).places


def test_m6_love_becomes_hate_and_the_old_word_stays_readable() -> None:
    love, hate = heard("I love cheese pizza", event=1, hour=1), heard("I hate cheese pizza", event=2, hour=2)
    state = resolve(love + hate, (), rules())
    assert [one.claim for one in state.holdings] == [hate[0].id]
    assert state.places[love[0].id].status is Status.SUPERSEDED
    assert (hate[0].value.normal, love[0].content) == ("false", "I love cheese pizza")


def test_m7_of_coffee_and_tea_only_the_active_one_comes_back() -> None:
    told = heard("I prefer coffee", event=1, hour=1) + heard("I prefer tea", event=2, hour=2)
    assert shown(told) == ["tea"]
    assert shown(heard("My favorite drink is coffee", event=1, hour=1) + heard("I prefer tea", event=2, hour=2)) == [
        "tea"
    ]
    assert shown(told + heard("I prefer dark mode", event=3, hour=3)) == ["dark mode", "tea"]


def test_m8_unrelated_facts_are_left_alone() -> None:
    told = stated(1, subject="A", key="uses", value="B") + stated(2, subject="B", key="uses", value="C")
    told += heard("I use vim", event=3) + heard("I use emacs", event=4, hour=1)
    state = resolve(told, (), rules())
    assert (len(state.holdings), state.conflicts) == (4, ())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("我不喜欢咖啡", "我喜欢咖啡"),
        ("コーヒーは好きではありません", "コーヒーが好きです"),
        ("Je n'aime pas le café", "J'aime le café"),
    ],
)
def test_m9_contradictions_in_another_script_are_noticed(before: str, after: str) -> None:
    told = heard(before, event=1, hour=1) + heard(after, event=2, hour=2)
    state = resolve(told, (), rules())
    assert len(state.conflicts) == 1
    assert [one.claim for one in state.holdings] == [told[1].id]
    crossed = heard(before, event=1, hour=1) + heard(after, event=2, hour=2, writer="crm")
    assert len(resolve(crossed, (), rules()).open_conflicts) == 1


def test_m10_neither_ids_nor_arrival_decide() -> None:
    for numbers in permutations((1, 2, 3)):
        told = [
            claim(numbers[0], "a", writer="billing", hour=1, received=9),
            claim(numbers[1], "b", writer="crm", hour=2, received=5),
            claim(numbers[2], "c", writer="chat", hour=3, received=1),
        ]
        for sent in permutations(told):
            assert shown(sent) == ["a"]


def test_m11_every_way_in_detects() -> None:
    spoken = heard("My plan is Growth", event=1, hour=1)
    told = stated(2, hour=2, writer="crm", category="fact", key="plan", value="Starter")
    for first, second in ((spoken, told), (told, spoken)):
        assert len(settle(first, second, (), rules()).conflicts) == 1


def open_conflicts(state: State) -> dict[str, Conflict]:
    return {conflict.slot.subject: conflict for conflict in state.open_conflicts}


def test_m12_resolving_one_conflict_leaves_the_others_alone() -> None:
    told = [
        one
        for number, subject in enumerate("abc")
        for one in (
            claim(10 * number + 1, "x", subject=subject, hour=1),
            claim(10 * number + 2, "y", subject=subject, writer="crm", hour=2),
        )
    ]
    waiting = open_conflicts(resolve(told, (), rules()))
    made: list[Decision] = []
    for ordinal, subject in enumerate("bc"):
        signature = Signature(uid(900 + ordinal), uid(0), ordinal, "ada", at(10))
        request = Request(1, Verdict.CHOOSE, claim=sorted(waiting[subject].claims)[1])
        made.append(decide(waiting[subject], request, signature, revision=1, claims=told).decision)
        left = open_conflicts(resolve(told, made, rules()))
        assert left == {name: waiting[name] for name in "abc"[:1] + "bc"[ordinal + 1 :]}
    assert shown(told, made) == ["x", "y", "y"]


def test_m13_decided_stays_decided_until_there_is_new_evidence() -> None:
    told = [claim(1, "Growth", hour=1), claim(2, "Starter", writer="crm", hour=2)]
    made = [decision(1, Verdict.CHOOSE, {1, 2}, kept=2, hour=10)]
    rescanned: Settlement = settle(told, told, made, rules())
    assert rescanned.is_empty
    new = settle(told, [claim(3, "Growth", writer="chat", hour=20)], made, rules())
    assert [conflict.follows for conflict in new.after.open_conflicts] == [uid(1)]
    assert shown([*told, claim(3, "Growth", writer="chat", hour=20)], made) == ["Starter"]


def test_m14_what_is_taken_back_for_one_subject_stays_with_the_other() -> None:
    told = heard("I like tea", event=1, subject="A") + heard("I like tea", event=2, subject="B")
    gone = revise(told[0], based_on=1, by="person:ada", at=at(5), withdrawn=True)
    state = resolve([*told, gone], (), rules())
    assert [one.slot.subject for one in state.holdings] == ["B"]


@pytest.mark.parametrize("member", ["writer", "tenant", "category_id", "Key"])
def test_m15_an_unknown_member_is_refused(member: str) -> None:
    with pytest.raises(LedgerError) as caught:
        read_explicit({"key": "a", "value": 1, member: 1}, KEYS)
    assert caught.value.field == member


def test_m17_what_was_taken_back_is_shown_no_more_and_its_tombstone_says_when_and_by_whom() -> None:
    (told,) = heard("I like tea", event=1)
    gone = revise(told, based_on=1, by="person:ada", at=at(5), withdrawn=True)
    assert shown([told, gone]) == []
    assert (gone.revised_by, gone.received_at, gone.revision) == ("person:ada", at(5), 2)


def test_m19_dates_are_never_shifted() -> None:
    assert normalise("2025-07-25T02:00Z", Kind.DATE).normal == "2025-07-25"
    (told,) = heard("My birthday is 2025-07-25", event=1)
    assert told.value.normal == "2025-07-25"


def test_m20_a_time_without_a_zone_names_its_field() -> None:
    with pytest.raises(ProvenanceError) as caught:
        read_source({"service": "crm", "event_id": "e", "observed_at": "2026-03-01T10:00:00"}, received_at=at(0))
    assert caught.value.field == "source.observed_at"
    for member in ("valid_from", "valid_to"):
        with pytest.raises(LedgerError) as refused:
            read_explicit({"key": "a", "value": 1, member: "2026-03-01T10:00:00"}, KEYS)
        assert refused.value.field == member


def test_m21_a_backfilled_yesterday_stays_yesterday() -> None:
    told = heard("My plan is Growth", event=1, hour=0) + heard("My plan is Starter", event=2, hour=-24, received=5)
    assert shown(told) == ["Growth"]
    (old,) = [one for one in told if one.value.display == "Starter"]
    assert (old.observed_at, old.received_at) == (at(-24), at(5))
    before = active_at(told, valid_at=at(9), as_of=at(4))
    assert [one.claim for one in before] == [told[0].id]


def test_m22_every_way_in_gives_the_same_fields() -> None:
    spoken = heard("My plan is Growth", event=1)[0]
    told = stated(1, key="plan", value="Growth")[0]
    assert (spoken.id, spoken.writer, spoken.slot, spoken.value, spoken.source_event) == (
        told.id,
        told.writer,
        told.slot,
        told.value,
        told.source_event,
    )


def test_m23_editing_keeps_the_origin() -> None:
    (told,) = heard("I like tea", event=1)
    edited = revise(told, based_on=1, by="person:ada", at=at(9), content="Likes green tea most.")
    assert (edited.writer, edited.observed_at, edited.source_event) == (
        told.writer,
        told.observed_at,
        told.source_event,
    )
    assert (edited.revised_by, edited.revision, told.content) == ("person:ada", 2, "I like tea")


def test_m24_the_writer_comes_from_the_credential() -> None:
    with pytest.raises(ProvenanceError) as caught:
        require_writer("human", bound_to="agent", registered=frozenset(("human", "agent")))
    assert caught.value.provenance.status == 403


def test_m25_a_change_names_the_revision_it_was_based_on() -> None:
    (told,) = heard("I like tea", event=1)
    edited = revise(told, based_on=1, by="a", at=at(1), content="x")
    with pytest.raises(StaleRevision):
        revise(edited, based_on=1, by="b", at=at(2), content="y")


def test_m26_distinct_keys_stay_distinct_and_spellings_of_one_are_one() -> None:
    assert read_key("fact", "套餐") != read_key("fact", "城市")
    assert read_key("fact", "cafe\u0301") == read_key("fact", "café")
    told = stated(1, key="套餐", value="A") + stated(2, key="城市", value="B")
    assert resolve(told, (), rules()).conflicts == ()


def test_m28_a_cursor_leads_on_as_long_as_there_is_more() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    entries = [
        Entry(f"m{n}", "notes", start + timedelta(seconds=n), tags=frozenset(("rare",)) if n < 3 else frozenset())
        for n in range(50)
    ]
    seen: list[str] = []
    cursor = None
    while True:
        page = list_entries(entries, "notes", now=start + timedelta(days=1), tag="rare", limit=1, after=cursor)
        seen += [one.id for one in page.entries]
        cursor = page.next
        if cursor is None:
            break
    assert seen == ["m2", "m1", "m0"]


def test_growth_and_starter_from_two_messages_of_two_writers() -> None:
    growth = heard("Your current subscription plan is Growth", event=1, hour=1, writer="billing")
    starter = heard("Your current subscription plan is Starter", event=2, hour=2, writer="crm")
    settled = settle(growth, starter, (), rules())
    assert [change.change for change in settled.conflicts] == ["opened"]
    assert shown(growth + starter) == ["Growth"]


def test_ids_are_unique_among_the_claims_of_these_tests() -> None:
    told: list[UUID] = [one.id for n in range(5) for one in heard("I like tea", event=n)]
    assert len(set(told)) == 5
