"""What stays of an event when its payload is taken away, and what does not."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.domain.reading import read_fact
from runs.domain.withheld import ENVELOPE, without_payload, without_texts

CANARY = "k4n4ry"


def mark(value: Any) -> dict[str, Any]:
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), sort_keys=True)
    return {"$withheld": {"sha256": hashlib.sha256(text.encode()).hexdigest(), "bytes": len(text.encode())}}


def event(payload: Any, **members: Any) -> dict[str, Any]:
    return {"eventId": "e", "runId": "r", "type": "node.completed", "sequence": 7, "payload": payload, **members}


TAKEN: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (event({"outputs": {"a": 1}}), event({"outputs": mark({"a": 1})})),
    (event({"message": CANARY, "nodeId": "n", "status": "ok"}),
     event({"message": mark(CANARY), "nodeId": "n", "status": "ok"})),
    (event("text"), event(mark("text"))),
    (event([CANARY]), event(mark([CANARY]))),
    (event(None), event(None)),
    (event({}), event({})),
    (event({"error": {"code": "E1", "message": CANARY}}), event({"error": {"code": "E1", "message": mark(CANARY)}})),
    (event({"error": CANARY}), event({"error": mark(CANARY)})),
    (event({"code": "c" * 513}), event({"code": mark("c" * 513)})),
    (event({"status": {"a": CANARY}}), event({"status": mark({"a": CANARY})})),
    (event({"sourceIds": ["a", "b"], "outputId": "c"}), event({"sourceIds": ["a", "b"], "outputId": "c"})),
    (event({"sourceIds": ["a", [CANARY]]}), event({"sourceIds": mark(["a", [CANARY]])})),
    (event({"approved": True, "note": None}), event({"approved": mark(True), "note": None})),
    (event({"tags": ["t"]}), event({"tags": mark(["t"])})),
    (event({}, data={"text": CANARY}), event({}, data={"text": mark(CANARY)})),
    (event({}, extra=CANARY, nodeId="n"), event({}, extra=mark(CANARY), nodeId="n")),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), TAKEN)
def test_what_is_taken_away_and_what_stays(before: dict[str, Any], after: dict[str, Any]) -> None:
    text = without_payload(json.dumps(before))
    assert json.loads(text) == after
    assert without_payload(text) == text
    assert CANARY not in text


@pytest.mark.parametrize(
    ("type_", "payload"),
    [
        ("memory.written", {"memoryRef": "n", "memoryId": "m", "nodeId": "a", "agentId": "b", "tags": ["t", "u"]}),
        ("memory.compacted", {"memoryRef": "n", "outputId": "o", "sourceIds": ["a"], "sourceCount": 1, "byteSize": 5,
                              "trigger": "both", "distillation": {"tokensUsed": 5}}),
        ("agent.memory.consolidated", {"memoryRef": "n", "inputCount": 3, "outputCount": 1, "mergedIds": ["a"]}),
    ],
)  # fmt: skip
def test_memory_events_say_the_same_to_the_ledger(type_: str, payload: dict[str, Any]) -> None:
    text = json.dumps(event(payload) | {"type": type_})
    kept = without_payload(text, keeps_tags=True)
    assert read_fact(type_, kept) == read_fact(type_, text)
    assert read_fact(type_, text) is not None


def test_every_other_character_stays_as_it_came() -> None:
    body = '{ "sequence" : 1.0e0, "payload" : {"x": 18446744073709551617 , "attempt":2} , "runId":"\\u0041" }'
    kept = without_payload(body)
    assert kept.startswith('{ "sequence" : 1.0e0, "payload" : {"x": {"$withheld":')
    assert kept.endswith(' , "attempt":2} , "runId":"\\u0041" }')


def test_texts_that_are_meant_are_taken_and_no_others() -> None:
    told = event({"a": f"it is {CANARY}", "b": ["x", CANARY, {CANARY: 1}], "nodeId": CANARY}, nodeId=CANARY)
    text = without_texts(json.dumps(told), lambda value: CANARY in value)
    kept = json.loads(text)
    assert kept["payload"]["a"] == mark(f"it is {CANARY}")
    assert kept["payload"]["b"][0] == "x"
    assert kept["payload"]["b"][1].startswith("[withheld sha256:")
    assert kept["nodeId"] == CANARY
    assert text.count(CANARY) == 2  # node ids, of the envelope and of the payload: they say what it is about
    assert without_texts(text, lambda value: "nothing" in value) == text


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)


@given(st.dictionaries(texts, values, max_size=5), st.dictionaries(texts, values, max_size=3))
def test_nothing_but_the_envelope_gets_through(payload: dict[str, Any], more: dict[str, Any]) -> None:
    told = event(payload) | {name: value for name, value in more.items() if name not in ENVELOPE}
    kept = json.loads(without_payload(json.dumps(told)))
    assert {name: kept[name] for name in ("eventId", "runId", "type", "sequence")} == {
        name: told[name] for name in ("eventId", "runId", "type", "sequence")
    }
    for name, value in kept.items():
        if name not in ENVELOPE and name not in ("payload", "data"):
            assert value in (None, {}, []) or value.keys() == {"$withheld"}
