from __future__ import annotations

from typing import Any

import pytest

from ledger.domain.assertions import BadClaim, Observation, claims_of, read_explicit
from ledger.domain.claims import Claim, claim_id
from ledger.domain.errors import LedgerError
from ledger.domain.extraction import Extracted, Message, PlainStatements
from ledger.domain.key_registry import KeyRegistry, KeyRule, read_key
from ledger.domain.normalisers import Kind, Problem, normalise
from ledger.domain.periods import ALWAYS, Period
from ledger.domain.scopes import read_scope
from tests.ledger.domain.making import PLAN, at, uid

KEYS = KeyRegistry({read_key("fact", "height"): KeyRule(kind=Kind.NUMBER, unit="cm")})
SEEN = Observation(uid(7), "user-1", "crm", at(1), at(2), read_scope("project"))


def test_an_explicit_claim_passes_through_as_it_is() -> None:
    told = read_explicit(
        {
            "category": "Fact",
            "key": "Subscription_Plan",
            "value": "Growth",
            "content": "The plan is Growth.",
            "scope": {"type": "user"},
            "valid_from": "2026-03-01T12:00:00Z",
            "valid_to": "2026-03-01T15:00:00+02:00",
            "confidence": 1,
        },
        KEYS,
    )
    assert told == Extracted(
        "fact",
        "subscription_plan",
        "Growth",
        "The plan is Growth.",
        "explicit-1",
        1.0,
        scope=read_scope("user"),
        valid=Period(at(0), at(1)),
    )


def test_most_of_it_may_be_left_out() -> None:
    told = read_explicit({"key": "plan", "value": 5}, KEYS)
    assert told == Extracted("fact", "plan", 5, "", "explicit-1", None, scope=None, valid=ALWAYS)
    nulls = dict.fromkeys(("category", "content", "scope", "valid_from", "valid_to", "confidence"))
    assert read_explicit({"key": "plan", "value": 5, **nulls}, KEYS) == told


@pytest.mark.parametrize(
    ("raw", "field", "message"),
    [
        ([], "claim", "claim is not an object"),
        ({"key": "a", "value": 1, "writer": "x"}, "writer", "writer is unknown"),
        ({"value": 1}, "key", "key is empty"),
        ({"key": 7, "value": 1}, "key", "key is not a text"),
        ({"key": "a", "value": 1, "category": 7}, "category", "category is not a text"),
        ({"key": "a"}, "value", "value: empty"),
        ({"key": "height", "value": "tall"}, "value", "value: not a number"),
        ({"key": "height", "value": "80 kg"}, "value", "value: other unit family"),
        ({"key": "a", "value": 1, "content": 7}, "content", "content is not a text"),
        ({"key": "a", "value": 1, "content": "x" * 65537}, "content", "content is longer than 65536 characters"),
        ({"key": "a", "value": 1, "confidence": 1.1}, "confidence", "confidence is not a number from 0 to 1"),
        ({"key": "a", "value": 1, "confidence": -1}, "confidence", "confidence is not a number from 0 to 1"),
        ({"key": "a", "value": 1, "confidence": True}, "confidence", "confidence is not a number from 0 to 1"),
        ({"key": "a", "value": 1, "confidence": "1"}, "confidence", "confidence is not a number from 0 to 1"),
        ({"key": "a", "value": 1, "scope": 7}, "scope", "scope is not an object"),
        ({"key": "a", "value": 1, "valid_from": "2026-03-01T12:00:00"}, "valid_from", "valid_from has no time zone"),
        ({"key": "a", "value": 1, "valid_to": "soon"}, "valid_to", "valid_to is not an RFC 3339 date and time"),
        ({"key": "a", "value": 1, "valid_to": 7}, "valid_to", "valid_to is not a text"),
        (
            {"key": "a", "value": 1, "valid_from": "2026-03-01T12:00:00Z", "valid_to": "2026-03-01T12:00:00Z"},
            "valid_to",
            "valid_to is not after valid_from",
        ),
    ],
)
def test_what_is_no_explicit_claim(raw: Any, field: str, message: str) -> None:
    with pytest.raises(LedgerError) as caught:
        read_explicit(raw, KEYS)
    assert (caught.value.field, str(caught.value)) == (field, message)


def test_the_bounds_of_an_explicit_claim() -> None:
    told = read_explicit({"key": "a", "value": 1, "content": "x" * 65536, "confidence": 0}, KEYS)
    assert (len(told.content), told.confidence) == (65536, 0.0)
    assert issubclass(BadClaim, LedgerError)


def test_claims_have_what_their_source_event_says() -> None:
    said = Extracted("fact", "subscription_plan", "Growth", "c", "x-1", 0.5, ordinal=3)
    (made,) = claims_of([said], SEEN, KEYS)
    growth = normalise("Growth")
    assert made == Claim(
        id=claim_id(uid(7), made.slot, growth, ALWAYS),
        subject="user-1",
        key=PLAN,
        value=growth,
        writer="crm",
        observed_at=at(1),
        received_at=at(2),
        scope=read_scope("project"),
        content="c",
        valid=ALWAYS,
        confidence=0.5,
        source_event=uid(7),
        ordinal=3,
    )
    (tasteful,) = claims_of([Extracted("Taste", "tea", "green", "", "x-1")], SEEN, KEYS)
    assert tasteful.key == read_key("taste", "tea")
    own = Extracted("fact", "height", 180, "", "x-1", scope=read_scope("user"), valid=Period(at(0), None))
    (tall,) = claims_of([own], SEEN, KEYS)
    assert (tall.scope, tall.valid, tall.value.normal) == (read_scope("user"), Period(at(0), None), "1.8 m")


def test_a_source_event_read_again_gives_the_same_claims() -> None:
    messages = [Message("I like tea. My plan is Growth. I like tea.")]
    found = PlainStatements().extract(messages)
    claims = claims_of(found, SEEN, KEYS)
    assert len(found) == 3
    assert [claim.key.name for claim in claims] == ["likes:tea", "plan"]
    assert claims == claims_of(PlainStatements().extract(messages), SEEN, KEYS)


def test_the_last_word_counts_even_when_it_was_said_before() -> None:
    messages = [Message("I like tea."), Message("I don't like tea."), Message("I like tea.")]
    told = claims_of(PlainStatements().extract(messages), SEEN, KEYS)
    assert sorted((claim.ordinal, claim.value.normal) for claim in told) == [(2, "false"), (3, "true")]


def test_a_value_that_cannot_be_read_makes_a_claim_that_cannot_be_checked() -> None:
    (made,) = claims_of([Extracted("fact", "height", "tall", "c", "x-1")], SEEN, KEYS)
    assert (made.value.problem, made.is_checkable) == (Problem.NOT_A_NUMBER, False)
