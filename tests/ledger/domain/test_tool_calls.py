from __future__ import annotations

import json
from typing import Any

import pytest

from ledger.domain.tool_calls import (
    Address,
    Answer,
    Call,
    MemoryTools,
    Mismatch,
    Said,
    mismatches,
    parse_json,
    read_address,
    read_answer,
    read_call,
)

TOOLS = MemoryTools()


@pytest.mark.parametrize(
    ("name", "is_write", "is_read"),
    [
        ("remember", True, False),
        ("memory.remember", True, False),
        ("mcp__memory__remember", True, False),
        ("acme:notes/remember", True, False),
        ("recall", False, True),
        ("memory.list_memories", False, True),
        ("remembered", False, False),
        ("Remember", False, False),
        ("echo", False, False),
        ("", False, False),
        (None, False, False),
        (["remember"], False, False),
    ],
)
def test_memory_tools_by_name(name: Any, is_write: bool, is_read: bool) -> None:
    assert (TOOLS.is_write(name), TOOLS.is_read(name)) == (is_write, is_read)


def test_the_names_are_the_tenants_and_a_read_is_never_a_write() -> None:
    own = MemoryTools(writes=frozenset(("store.save", "recall")))
    assert own.is_write("store.save")
    assert not own.is_write("save")
    assert not own.is_write("remember")
    assert not own.is_write("recall")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"key": "plan"}, Address("plan", None, "default")),
        ({"key": " plan ", "scope": "user"}, Address("plan", "user", "default")),
        ({"key": "plan", "scope": {"type": "user", "agent_identity": "scout"}}, Address("plan", "user", "scout")),
        ({"key": "plan", "scopeType": "user", "agentIdentity": "scout"}, Address("plan", "user", "scout")),
        ({"key": "plan", "scope_type": "user", "agent_id": None}, Address("plan", "user", "default")),
        ({"key": "plan", "scope": {"type": None}, "agentId": ""}, Address("plan", None, "default")),
        ({"key": "plan", "scope": None}, Address("plan", None, "default")),
        ({"key": "cafe\u0301"}, Address("café", None, "default")),
        ({"key": None, "scope": "user"}, Address(None, "user", "default")),
        ({"key": 7}, Address(None, None, "default")),
        ({"scope": {"type": "user", "agentId": "scout"}, "agentId": "scout"}, Address(None, "user", "scout")),
        ({"key": "a", "scope": 7}, None),
        ({"key": "a", "scope": ["user"]}, None),
        ({"key": "a", "scope": {"type": 3}}, None),
        ({"key": "a", "scope": {"type": ["user"]}}, None),
        ({"key": "a", "scope": {"type": {"name": "user"}}}, None),
        ({"key": "a", "scope": "user", "scopeType": "project"}, None),
        ({"key": "a", "scope": {"agentId": "x"}, "agentId": "y"}, None),
        ({"key": "a", "agent_id": "x", "agentIdentity": "y"}, None),
    ],
)
def test_addresses(raw: Any, expected: Address | None) -> None:
    assert read_address(raw) == expected


def test_how_addresses_differ() -> None:
    asked = Address("plan", "user", "default")
    assert mismatches(asked, asked) == ()
    assert mismatches(asked, Address("other", "user", "default")) == (Mismatch.KEY,)
    assert mismatches(asked, Address("plan", None, "default")) == (Mismatch.SCOPE,)
    assert mismatches(asked, Address("plan", "user", "scout")) == (Mismatch.IDENTITY,)
    assert mismatches(asked, Address(None, "x", "scout")) == (Mismatch.KEY, Mismatch.SCOPE, Mismatch.IDENTITY)


def call(arguments: Any, *, run: str = "r1", tool: str = "remember", name: str = "inputs") -> Call:
    return read_call({"toolName": tool, "callId": "c1", name: arguments}, run=run)


def test_a_call() -> None:
    told = call({"key": "plan", "value": "Growth"})
    assert (told.tool, told.call_id, told.address, told.is_seen) == (
        "remember",
        "c1",
        Address("plan", None, "default"),
        True,
    )
    assert told.digest is not None and len(told.digest) == 64
    assert read_call({"toolName": None}, run="r") == Call("", None, None, None)


@pytest.mark.parametrize("name", ["inputs", "arguments", "args", "input"])
def test_arguments_by_any_name_and_as_text(name: str) -> None:
    plain = call({"key": "plan"})
    assert call({"key": "plan"}, name=name) == plain
    assert call('{"key": "plan"}', name=name) == plain


@pytest.mark.parametrize(
    "arguments",
    [
        {"key": "plan", "value": "Growth", "ttl": None, "tags": [], "note": ""},
        {"value": "Growth", "key": "plan", "scope": None},
        {"key": "plan", "value": "Growth", "scope": {"agent_identity": "default"}},
        {"key": "plan", "value": "Growth", "agentIdentity": "default"},
        {"key": " plan", "value": "Growth"},
    ],
)
def test_one_digest_for_one_effect(arguments: dict[str, Any]) -> None:
    assert call(arguments).digest == call({"key": "plan", "value": "Growth"}).digest


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ({"key": "plan", "value": "Starter"}, {}),
        ({"key": "plan", "value": "Growth", "scope": "user"}, {}),
        ({"key": "plan", "value": "Growth", "agentId": "scout"}, {}),
        ({"key": "plan", "value": "Growth", "ttl": 0}, {}),
        ({"key": "plan", "value": "Growth"}, {"run": "r2"}),
        ({"key": "plan", "value": "Growth"}, {"tool": "memory.remember"}),
    ],
)
def test_another_digest_for_another_effect(arguments: dict[str, Any], where: dict[str, str]) -> None:
    assert call(arguments, **where).digest != call({"key": "plan", "value": "Growth"}).digest
    assert call(arguments, **where).digest == call(arguments, **where).digest


def test_the_hosts_own_hash_stands_for_arguments_that_are_not_told() -> None:
    first = read_call({"toolName": "remember", "argsHash": "h1"}, run="r1")
    assert (first.address, first.digest is None) == (None, False)
    assert first.digest == read_call({"toolName": "remember", "argsHash": "h1", "inputs": None}, run="r1").digest
    assert first.digest != read_call({"toolName": "remember", "argsHash": "h2"}, run="r1").digest


@pytest.mark.parametrize("arguments", [None, [], "x", "{broken", 7, {"key": "a", "scope": 7}, {"key": "a", "n": 2**60}])
def test_nothing_is_said_about_arguments_that_cannot_be_read(arguments: Any) -> None:
    assert call(arguments).digest is None


def test_arguments_nested_without_end_are_not_compared() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    assert call({"key": "plan", "value": deep}).digest is None


ENTRY = {"key": "plan", "scope": {"type": "user"}, "agentIdentity": "scout"}
ADDRESS = Address("plan", "user", "scout")


def answer(outcome: Any, **members: Any) -> Answer:
    return read_answer({"outcome": outcome, **members})


@pytest.mark.parametrize(
    "outcome",
    [
        ENTRY,
        {"entry": ENTRY},
        {"memory": ENTRY, "ok": True},
        {"address": ENTRY, "needsDecision": False},
        {"stored": ENTRY, "error": None},
        {"stored": ENTRY, "error": ""},
        json.dumps({"entry": ENTRY}),
        {"structuredContent": {"entry": ENTRY}, "content": []},
        {"content": [{"type": "text", "text": json.dumps({"entry": ENTRY})}], "isError": False},
        {"jsonrpc": "2.0", "id": 1, "result": {"entry": ENTRY}},
        {
            "jsonrpc": "2.0",
            "id": 1,
            "result": {"content": [{"type": "text", "text": json.dumps(ENTRY)}, {"type": "image"}]},
        },
    ],
)
def test_an_address_is_found_in_every_envelope(outcome: Any) -> None:
    assert answer(outcome) == Answer(Said.ADDRESS, ADDRESS)
    for name in ("result", "output", "outputs"):
        assert read_answer({name: outcome, "status": "ok"}) == Answer(Said.ADDRESS, ADDRESS)


@pytest.mark.parametrize(
    ("outcome", "ref", "memory_id"),
    [
        ({"entry": {**ENTRY, "id": "m1"}}, None, "m1"),
        ({"entry": ENTRY, "memoryId": "m1", "memoryRef": "notes"}, "notes", "m1"),
        ({"entry": {**ENTRY, "memory_id": "m1", "memory_ref": "notes"}}, "notes", "m1"),
        ({"entry": {**ENTRY, "id": "m1"}, "memoryId": "m2"}, None, "m2"),
        ({"entry": {**ENTRY, "id": 5}}, None, None),
    ],
)
def test_the_entry_that_an_answer_names(outcome: Any, ref: str | None, memory_id: str | None) -> None:
    assert answer(outcome) == Answer(Said.ADDRESS, ADDRESS, ref, memory_id)


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ({"error": {"code": "denied"}}, Said.ERROR),
        ({"error": "no"}, Said.ERROR),
        ({"error": {"code": "x"}, "outcome": {"entry": ENTRY}}, Said.ERROR),
        ({"status": "error"}, Said.ERROR),
        ({"status": "error", "outcome": {"entry": ENTRY}}, Said.ERROR),
        ({"status": "forbidden", "outcome": {"entry": ENTRY}}, Said.FORBIDDEN),
        ({"status": "rate_limited"}, Said.RATE_LIMITED),
        ({"status": "rate-limited"}, Said.RATE_LIMITED),
        ({"outcome": {"error": {"code": "conflict"}, "entry": ENTRY}}, Said.ERROR),
        ({"outcome": {"error": {"code": "conflict"}, "needsDecision": True}}, Said.ERROR),
        ({"outcome": {"ok": False}}, Said.ERROR),
        ({"outcome": {"success": False, "entry": ENTRY}}, Said.ERROR),
        (
            {"outcome": {"isError": True, "content": [{"type": "text", "text": json.dumps({"entry": ENTRY})}]}},
            Said.ERROR,
        ),
        ({"outcome": {"jsonrpc": "2.0", "error": {"code": -32602, "message": "bad"}}}, Said.ERROR),
        ({"outcome": {"jsonrpc": "2.0", "error": {"code": -32001}}}, Said.TRANSPORT_FAILURE),
        ({"outcome": {"jsonrpc": "2.0", "error": {"code": -32000}}}, Said.TRANSPORT_FAILURE),
        ({"error": {"code": "ETIMEDOUT"}}, Said.TRANSPORT_FAILURE),
        ({"error": {"type": "connection-reset"}}, Said.TRANSPORT_FAILURE),
        ({"error": {"kind": "transport"}}, Said.TRANSPORT_FAILURE),
        ({"error": {"name": "Network_Error"}}, Said.TRANSPORT_FAILURE),
        ({"error": "timeout"}, Said.TRANSPORT_FAILURE),
        ({"error": {"code": 503}}, Said.TRANSPORT_FAILURE),
        ({"status": "error", "outcome": {"error": {"code": "timeout"}}}, Said.TRANSPORT_FAILURE),
        ({"status": "error", "error": {"code": "timeout"}}, Said.TRANSPORT_FAILURE),
        ({"outcome": {"entry": ENTRY, "needsDecision": True}}, Said.NEEDS_DECISION),
        ({"outcome": {"entry": ENTRY, "needs_decision": True, "truncated": True}}, Said.NEEDS_DECISION),
        ({"outcome": {"entry": ENTRY, "truncated": True}}, Said.TRUNCATED),
        ({"outcome": {"entry": ENTRY}, "truncated": True}, Said.TRUNCATED),
        ({"outcome": '{"entry": {"key": "pl', "truncated": True}, Said.TRUNCATED),
        ({"outcome": {"error": {"message": "x" * 70_000}, "truncated": True}}, Said.ERROR),
        ({"outcome": '{"error": {"message": "' + "x" * 70_000}, Said.UNPARSEABLE),
        ({"outcome": '{"entry": {"key": "pl'}, Said.UNPARSEABLE),
        ({"outcome": "stored it"}, Said.UNPARSEABLE),
        ({"outcome": "[1, 2]"}, Said.UNPARSEABLE),
        ({"outcome": 7}, Said.UNPARSEABLE),
        ({"outcome": '{"needsDecision": true, "needsDecision": false, "key": "plan"}'}, Said.UNPARSEABLE),
        ({"outcome": '{"key": NaN}'}, Said.UNPARSEABLE),
        ({"outcome": {"content": [{"type": "text", "text": "stored"}]}}, Said.UNPARSEABLE),
        ({"outcome": {"content": [{"type": "text", "text": "{}"}, {"type": "text", "text": "{}"}]}}, Said.UNPARSEABLE),
        ({"outcome": {"content": [{"type": "image"}]}}, Said.UNPARSEABLE),
        ({"outcome": {"jsonrpc": "2.0", "result": None}}, Said.UNPARSEABLE),
        ({}, Said.NO_ADDRESS),
        ({"outcome": None, "status": "ok"}, Said.NO_ADDRESS),
        ({"outcome": {}}, Said.NO_ADDRESS),
        ({"outcome": {"ok": True}}, Said.NO_ADDRESS),
        ({"outcome": {"durationMs": 1}}, Said.NO_ADDRESS),
        ({"outcome": {"entry": {"scope": "user"}}}, Said.NO_ADDRESS),
        ({"outcome": {"entry": {"key": "a", "scope": 7}}}, Said.NO_ADDRESS),
        ({"status": "unheard-of", "outcome": {}}, Said.NO_ADDRESS),
        ({"status": ["forbidden"], "outcome": {}}, Said.NO_ADDRESS),
    ],
)
def test_what_an_answer_comes_down_to(payload: dict[str, Any], said: Said) -> None:
    assert read_answer(payload).said is said


def test_what_tells_no_address_tells_none() -> None:
    assert answer({"ok": True}) == Answer(Said.NO_ADDRESS)
    assert answer({"memoryId": "m1"}) == Answer(Said.NO_ADDRESS, None, None, "m1")
    assert answer({"entry": {"scope": "user"}}) == Answer(Said.NO_ADDRESS, Address(None, "user", "default"))


def test_envelopes_in_envelopes_come_to_an_end() -> None:
    inner: Any = {"entry": ENTRY}
    for _ in range(3):
        inner = {"jsonrpc": "2.0", "result": inner}
    assert answer(inner).said is Said.ADDRESS
    assert answer({"jsonrpc": "2.0", "result": inner}).said is Said.UNPARSEABLE


def test_json_that_says_two_things_says_nothing() -> None:
    assert parse_json('{"a": {"b": 1}}') == {"a": {"b": 1}}
    for text in ('{"a": 1, "a": 1}', "Infinity", "{", "[" * 100_000, ""):
        assert parse_json(text) is None


def test_arguments_that_were_taken_away_since_are_not_known() -> None:
    withheld = {"$withheld": {"sha256": "0" * 64, "bytes": 12}}
    assert read_call({"toolName": "remember", "callId": "c1", "inputs": withheld}, run="r1") == Call(
        "remember", "c1", None, None
    )


def test_an_error_that_was_taken_away_since_is_no_refusal() -> None:
    withheld = {"$withheld": {"sha256": "0" * 64, "bytes": 12}}
    assert read_answer({"error": withheld}) == Answer(Said.WITHHELD)
    assert read_answer({"error": {"code": "full"}}) == Answer(Said.ERROR)
