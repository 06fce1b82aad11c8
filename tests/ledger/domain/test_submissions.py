from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from ledger.domain.extraction import Message
from ledger.domain.key_registry import KeyRegistry, KeyRule, read_key
from ledger.domain.normalisers import Kind
from ledger.domain.redaction import Policy, SecretLeakage
from ledger.domain.scopes import read_scope
from ledger.domain.sources import Provenance, ProvenanceError
from ledger.domain.submissions import Permitted, Submission, read_subject, read_submission, require_same

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECRET, MARK = "AKIAIOSFODNN7EXAMPLE", "[REDACTED:aws-access-key]"
ANYONE = Permitted(None, frozenset(("crm", "billing")), KeyRegistry())
SOURCE = {"service": "crm", "event_id": "evt-1"}
PLAN = {"key": "subscription_plan", "value": "Growth"}
HELLO = {"content": "hello"}


def sent(**members: Any) -> dict[str, Any]:
    """What a writer sends; a member that is None is not sent."""
    told = {"external_user_id": "user-1", "messages": [HELLO], "source": SOURCE, **members}
    return {name: member for name, member in told.items() if member is not None}


def read(permitted: Permitted = ANYONE, **members: Any) -> Submission:
    return read_submission(sent(**members), permitted, received_at=NOW)


def as_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def test_a_submission_whole() -> None:
    messages = [{"content": "My plan is Growth.", "role": "assistant"}, HELLO]
    told = read(messages=messages, claims=[PLAN])
    assert (told.subject, told.source.service, told.source.event_id) == ("user-1", "crm", "evt-1")
    assert (told.source.observed_at, told.source.is_observed) == (NOW, False)
    assert told.messages == (Message("My plan is Growth.", "assistant"), Message("hello", "user"))
    assert [(one.category, one.key, one.value) for one in told.explicit] == [("fact", "subscription_plan", "Growth")]
    assert told.redacted == ()
    whole = sent(messages=messages, claims=[PLAN])
    assert told.payload == as_json(whole)
    sorted_names = json.dumps(whole, separators=(",", ":"), sort_keys=True)
    assert told.payload_hash == hashlib.sha256(sorted_names.encode()).digest()


def test_messages_or_claims_are_enough() -> None:
    for members in ({"messages": [HELLO]}, {"messages": None, "claims": [PLAN]}, {"messages": [], "claims": [PLAN]}):
        assert json.loads(read(**members).payload) == sent(**members)
    assert read(claims=[]).explicit == ()
    assert read(messages=None, claims=[PLAN]).messages == ()


def test_claims_are_read_by_the_tenants_keys() -> None:
    dated = Permitted(None, ANYONE.registered, KeyRegistry({read_key("fact", "renewal"): KeyRule(kind=Kind.DATE)}))
    claims = [{"key": "renewal", "value": "soon"}]
    assert read(claims=claims).explicit[0].value == "soon"
    with pytest.raises(ProvenanceError, match="^claims.0: value: not a date$") as caught:
        read(dated, claims=claims)
    assert caught.value.field == "claims.0.value"


def test_secrets_are_taken_out_wherever_a_text_stands() -> None:
    told = read(
        messages=[{"content": f"it is {SECRET}", "role": "user", "extra": [{"deep": SECRET}, 7, None]}],
        claims=[{"key": "subscription_plan", "value": SECRET, "content": f"said {SECRET}"}],
        source={**SOURCE, "scope": {"team": SECRET}, "evidence": [{"url": SECRET}]},
    )
    assert SECRET not in told.payload
    kept = json.loads(told.payload)
    assert kept["messages"] == [{"content": f"it is {MARK}", "role": "user", "extra": [{"deep": MARK}, 7, None]}]
    assert kept["claims"] == [{"key": "subscription_plan", "value": MARK, "content": f"said {MARK}"}]
    assert kept["source"] == {**SOURCE, "scope": {"team": MARK}, "evidence": [{"url": MARK}]}
    assert told.messages == (Message(f"it is {MARK}", "user"),)
    assert [(one.value, one.content) for one in told.explicit] == [(MARK, f"said {MARK}")]
    assert (told.source.scope, told.source.evidence) == (read_scope({"team": MARK}), ({"url": MARK},))
    assert told.redacted == ("aws-access-key",)


def test_what_tells_things_apart_stays_as_it_is() -> None:
    told = read(external_user_id=SECRET, source={"service": "crm", "event_id": SECRET})
    assert (told.subject, told.source.event_id, told.redacted) == (SECRET, SECRET, ())


@pytest.mark.parametrize("name", ["category", "key"])
def test_the_names_of_a_claims_key_are_looked_at_as_well(name: str) -> None:
    told = read(claims=[{**PLAN, name: SECRET}])
    assert json.loads(told.payload)["claims"] == [{**PLAN, name: MARK}]
    assert told.redacted == ("aws-access-key",)
    assert getattr(told.explicit[0], name) == MARK.lower()


def test_the_hash_is_over_what_was_sent() -> None:
    one, other = (read(messages=[{"content": f"AKIAIOSFODNN7{end}"}]) for end in ("EXAMPLE", "EXAMPLF"))
    assert one.payload == other.payload
    assert one.payload_hash != other.payload_hash


def test_a_tenant_may_refuse_secrets() -> None:
    refusing = Permitted(None, ANYONE.registered, KeyRegistry(), Policy.REFUSE)
    with pytest.raises(SecretLeakage):
        read(refusing, messages=[{"content": SECRET}])
    with pytest.raises(SecretLeakage):
        read(refusing, claims=[SECRET])
    assert read(refusing).redacted == ()


def test_a_key_that_is_bound_to_a_writer_need_not_name_it() -> None:
    bound = Permitted("billing", ANYONE.registered, KeyRegistry())
    told = read(bound, source={"event_id": "evt-1"})
    assert (told.source.service, told.source.event_id) == ("billing", "evt-1")
    assert json.loads(told.payload)["source"] == {"event_id": "evt-1"}
    assert read(bound, source={"service": "billing", "event_id": "evt-1"}).source.service == "billing"
    with pytest.raises(ProvenanceError) as caught:
        read(bound)
    assert caught.value.provenance is Provenance.OTHER_WRITER
    with pytest.raises(ProvenanceError) as caught:
        read(source={"service": "chat", "event_id": "evt-1"})
    assert caught.value.provenance is Provenance.UNKNOWN_WRITER


def test_the_most_that_is_taken() -> None:
    assert len(read(messages=[HELLO] * 1000).messages) == 1000
    assert len(read(claims=[PLAN] * 1000).explicit) == 1000
    assert read(external_user_id="u" * 512).subject == "u" * 512
    long = "word " * 52_428 + "abcd"
    assert read(messages=[{"content": long}]).messages == (Message(long),)


@pytest.mark.parametrize(
    ("members", "field", "message"),
    [
        ({"writer": "x"}, "writer", "writer is unknown"),
        ({"b": 1, "a": 2}, "a", "a is unknown"),
        ({"external_user_id": None}, "external_user_id", "external_user_id is missing"),
        ({"external_user_id": " "}, "external_user_id", "external_user_id is missing"),
        ({"external_user_id": 7}, "external_user_id", "external_user_id is missing"),
        ({"external_user_id": "u" * 513}, "external_user_id", "external_user_id is longer than 512 characters"),
        (
            {"external_user_id": "a\x00"},
            "external_user_id",
            "external_user_id has characters that stand for nothing",
        ),
        ({"messages": None}, "messages", "messages and claims are both missing"),
        ({"messages": [], "claims": []}, "messages", "messages and claims are both missing"),
        ({"messages": "hello"}, "messages", "messages is not a list"),
        ({"claims": {}}, "claims", "claims is not a list"),
        ({"messages": [HELLO] * 1001}, "messages", "messages has more than 1000 elements"),
        ({"claims": [PLAN] * 1001}, "claims", "claims has more than 1000 elements"),
        ({"messages": [HELLO, "hello"]}, "messages.1", "messages.1 is not an object"),
        ({"messages": [{}]}, "messages.0.content", "messages.0.content is not a text"),
        ({"messages": [{"content": 7}]}, "messages.0.content", "messages.0.content is not a text"),
        (
            {"messages": [{"content": "word " * 52_428 + "abcde"}]},
            "messages.0.content",
            "messages.0.content is longer than 262144 characters",
        ),
        ({"messages": [HELLO, {"content": "x", "role": None}]}, "messages.1.role", "messages.1.role is not a text"),
        ({"claims": [PLAN, 7]}, "claims.1.claim", "claims.1: claim is not an object"),
        ({"claims": [{**PLAN, "mood": 1}]}, "claims.0.mood", "claims.0: mood is unknown"),
        ({"source": None}, "source", "source is not an object"),
        ({"source": "crm"}, "source", "source is not an object"),
        ({"source": {"event_id": "e"}}, "source.service", "source.service is missing"),
        (
            {"source": {"service": "c\x00", "event_id": "e"}},
            "source.service",
            "source.service has characters that stand for nothing",
        ),
        (
            {"source": {"service": "crm", "event_id": "e\x00"}},
            "source.event_id",
            "source.event_id has characters that stand for nothing",
        ),
    ],
)
def test_what_is_not_a_submission(members: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(ProvenanceError) as caught:
        read(**members)
    assert (caught.value.provenance, caught.value.field, str(caught.value)) == (Provenance.MALFORMED, field, message)


@pytest.mark.parametrize("raw", [None, [], "text"])
def test_a_submission_is_an_object(raw: Any) -> None:
    with pytest.raises(ProvenanceError, match="^body is not an object$") as caught:
        read_submission(raw, ANYONE, received_at=NOW)
    assert caught.value.field == "body"


def test_a_subject_of_its_own() -> None:
    assert read_subject(" user 1 ") == " user 1 "


def test_an_event_that_came_before() -> None:
    told = read()
    assert require_same(None, told) is False
    assert require_same(told.payload_hash, told) is True
    with pytest.raises(ProvenanceError) as caught:
        require_same(read(messages=[{"content": "other"}]).payload_hash, told)
    assert caught.value.provenance is Provenance.CHANGED_PAYLOAD
