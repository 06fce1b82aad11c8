from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.domain.event import RunEvent
from runs.domain.event_types import FIRST_MAJOR_NAMES, canonical
from runs.domain.exact_json import MAX_DEPTH
from runs.domain.limits import Limits
from runs.domain.normalise import _plain_event, _read_closely, read_event

from .examples import compact, event, recorded, refused, taken


def test_event_of_the_first_major() -> None:
    raw = compact(
        event(
            causationId="evt-6",
            type="agent.toolCalled",
            payload={"agentId": "writer", "callId": "c1", "nodeId": "research"},
            engineVersion="1.4",
        )
    )
    told = taken(raw.encode())
    assert told == RunEvent(
        run_id="run-1",
        sequence=7,
        type="agent.toolCalled",
        reported_type="agent.toolCalled",
        node_id="research",
        agent_id="writer",
        event_id="7d7abf9a-ba0a-49a5-af96-9db1f865054b",
        causation_id="evt-6",
        timestamp=datetime(2026, 11, 29, 19, 0, 3, 677000, tzinfo=UTC),
        body=raw,
        digest=told.digest,
        has_payload=True,
    )
    assert len(told.digest) == 16


def test_event_of_the_second_major_has_the_first_ones_name() -> None:
    told = taken(compact(event(type="agent.tool-called", schemaVersion=1, engineVersion=3)))
    assert (told.type, told.reported_type) == ("agent.toolCalled", "agent.tool-called")


def test_all_renamed_types_are_known_and_no_name_means_two_things() -> None:
    assert len(FIRST_MAJOR_NAMES) == 36
    assert len(set(FIRST_MAJOR_NAMES.values())) == 36
    assert not FIRST_MAJOR_NAMES.keys() & set(FIRST_MAJOR_NAMES.values())
    second_major = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\.[a-z][a-z0-9]*(-[a-z0-9]+)*")
    assert all(second_major.fullmatch(name) for name in FIRST_MAJOR_NAMES)
    assert canonical("memory.written") == "memory.written"
    assert canonical("acme.thing-happened") == "acme.thing-happened"


def test_unknown_types_and_members_are_kept() -> None:
    raw = compact(event(type="acme.something.new", whatever={"deep": [1, {"x": None}]}))
    told = taken(raw)
    assert told.type == "acme.something.new"
    assert told.body == raw


@pytest.mark.parametrize(
    ("members", "sequence", "notes"),
    [
        ({"sequence": 0}, 0, ()),
        ({"sequence": 9007199254740991}, 9007199254740991, ()),
        ({"sequence": ..., "seq": 4}, 4, ()),
        ({"sequence": 4, "seq": 4}, 4, ()),
        ({"sequence": 4, "seq": 5}, 4, ("seq_conflict",)),
        ({"sequence": 4, "seq": "4"}, 4, ("seq_conflict",)),
        ({"sequence": 4, "seq": None}, 4, ("seq_conflict",)),
    ],
)
def test_sequence_in_either_spelling(members: dict[str, Any], sequence: int, notes: tuple[str, ...]) -> None:
    told = taken(compact(event(**members)))
    assert (told.sequence, told.notes) == (sequence, notes)


@pytest.mark.parametrize(
    ("literal", "sequence"),
    [
        ("1.0", 1),
        ("1e2", 100),
        ("0.5e1", 5),
        ("-0", 0),
        ("-0.0", 0),
        ("1." + "0" * 400, 1),
        ("9007199254740991.0", 2**53 - 1),
    ],
)
def test_whole_number_in_any_spelling_is_a_sequence(literal: str, sequence: int) -> None:
    assert taken(compact(event(sequence="@")).replace('"@"', literal)).sequence == sequence


@pytest.mark.parametrize(
    ("literal", "complaint"),
    [
        ("null", "is null, not a number"),
        ('"7"', "is a string, not a number"),
        ("true", "is a boolean, not a number"),
        ("[7]", "is an array, not a number"),
        ("{}", "is an object, not a number"),
        ("-1", "is negative"),
        ("-1e400", "is negative"),
        ("1.5", "is not a whole number"),
        ("1e-400", "is not a whole number"),
        ("0." + "0" * 50 + "1", "is not a whole number"),
        ("9007199254740992", "is larger than 9007199254740991"),
        ("9007199254740991.5", "is larger than 9007199254740991"),
        ("18446744073709551616", "is larger than 9007199254740991"),
        ("1e400", "is larger than 9007199254740991"),
        ("1e999999999999999", "is larger than 9007199254740991"),
        ("1e99999999999999999999", "is not a number that can be counted to"),
    ],
)
@pytest.mark.parametrize("field", ["sequence", "seq"])
def test_other_sequences_are_refused(field: str, literal: str, complaint: str) -> None:
    members = {"sequence": ..., field: "@"} if field == "seq" else {field: "@"}
    refusal = refused(compact(event(**members)).replace('"@"', literal))
    assert refusal.field == field
    assert refusal.reason.startswith(f"{field} {complaint}")


@pytest.mark.parametrize(
    ("members", "field", "reason"),
    [
        ({"runId": ...}, "runId", "runId is missing"),
        ({"runId": None}, "runId", "runId is missing"),
        ({"runId": ""}, "runId", "runId is empty"),
        ({"runId": 5}, "runId", "runId is a number, not a string"),
        ({"runId": "r" * 513}, "runId", "runId is longer than 512 characters"),
        ({"type": ...}, "type", "type is missing"),
        ({"type": None}, "type", "type is null, not a string"),
        ({"type": ""}, "type", "type is empty"),
        ({"type": "t" * 257}, "type", "type is longer than 256 characters"),
        ({"type": "memory.written" * 20}, "type", "type is longer than 256 characters"),
        ({"sequence": ...}, "sequence", "sequence is missing"),
        ({"eventId": "e" * 513}, "eventId", "eventId is longer than 512 characters"),
        ({"nodeId": "n" * 513}, "nodeId", "nodeId is longer than 512 characters"),
        ({"nodeId": ..., "payload": {"nodeId": "n" * 513}}, "nodeId", "nodeId is longer than 512 characters"),
        ({"payload": None, "data": {"nodeId": "n" * 513}}, "nodeId", "nodeId is longer than 512 characters"),
        ({"timestamp": ...}, "timestamp", "timestamp is missing"),
        ({"timestamp": None}, "timestamp", "timestamp is null, not a string"),
        ({"timestamp": 1795978678}, "timestamp", "timestamp is a number, not a string"),
        ({"timestamp": "2026-11-29T19:00:03"}, "timestamp", "timestamp has no time zone"),
        ({"timestamp": "29.11.2026"}, "timestamp", "timestamp is not an RFC 3339 date and time"),
        ({"timestamp": "10000-01-01T00:00:00Z"}, "timestamp", "timestamp is outside the years 1 to 9999"),
    ],
)
def test_unusable_member_is_refused(members: dict[str, Any], field: str, reason: str) -> None:
    refusal = refused(compact(event(**members)))
    assert (refusal.field, refusal.reason) == (field, reason)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "broken JSON at character 0: Expecting value"),
        (b"{", "broken JSON at character 1: "),
        (b'{"a":1}}', "broken JSON at character 7: Extra data"),
        (b" \xef\xbb\xbf{}", "broken JSON at character 0: a byte order mark"),
        (b"\xef\xbb\xbf\xef\xbb\xbf{}", "broken JSON at character 0: a byte order mark"),
        (b"[]", "an event is a JSON object, this is an array"),
        (b"null", "an event is a JSON object, this is null"),
        (b'"text"', "an event is a JSON object, this is a string"),
        (b"12", "an event is a JSON object, this is a number"),
        (b'{"runId":"\xff"}', "not valid UTF-8 at byte 10"),
        (b'{"runId":"\xed\xa0\x80"}', "not valid UTF-8 at byte 10"),
        ('{"runId":"\ud800"}', "not valid UTF-8: a lone surrogate at character 10"),
        (b'{"a":NaN}', "NaN is not a JSON value"),
        (b'{"runId":"a","runId":"a"}', "the name 'runId' appears twice at the top level"),
        (b'{"payload":{"o":[{"k":1,"k":2}]}}', "the name 'k' appears twice in /payload/o/0"),
        (b'{"a":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}", "nested deeper than MAX_DEPTH (256 levels)"),
        (b"[" * 100_000, "nested deeper than MAX_DEPTH (256 levels)"),
    ],
)
def test_unreadable_text_is_refused(raw: bytes | str, reason: str) -> None:
    assert refused(raw).reason.startswith(reason)


def test_refusal_says_which_item_it_was() -> None:
    item = read_event(b"{}", index=41)
    assert not isinstance(item, RunEvent)
    assert item.index == 41


def test_event_over_the_limit_is_refused_by_the_limits_name() -> None:
    raw = compact(event()).encode()
    assert taken(raw, limits=Limits(max_event_bytes=len(raw))).sequence == 7
    refusal = refused(raw, limits=Limits(max_event_bytes=len(raw) - 1))
    assert refusal.reason == f"larger than MAX_EVENT_BYTES ({len(raw) - 1} bytes)"


def test_event_of_ten_mebibytes_is_refused_without_being_told_so() -> None:
    assert "MAX_EVENT_BYTES (10485760 bytes)" in refused(b'"' + b"x" * 10 * 1024 * 1024 + b'"').reason


def test_door_that_asked_for_a_run_gets_no_other() -> None:
    refusal = refused(compact(event(runId="run-2")), run_id="run-1")
    assert (refusal.field, refusal.reason) == ("runId", "event of another run")
    assert taken(compact(event(runId="run-1")), run_id="run-1").run_id == "run-1"


@pytest.mark.parametrize("given_run", [..., None])
def test_event_without_a_run_belongs_to_the_one_asked_for(given_run: Any) -> None:
    assert taken(compact(event(runId=given_run)), run_id="run-1").run_id == "run-1"


def test_longest_ids_are_taken() -> None:
    told = taken(compact(event(runId="r" * 512, type="t" * 256, eventId="e" * 512, nodeId="n" * 512)))
    assert [len(text or "") for text in (told.run_id, told.type, told.event_id, told.node_id)] == [512, 256, 512, 512]


@pytest.mark.parametrize(
    ("members", "node", "notes"),
    [
        ({"nodeId": "a"}, "a", ()),
        ({"nodeId": ..., "payload": {"nodeId": "b"}}, "b", ()),
        ({"nodeId": None, "payload": {"nodeId": "b"}}, "b", ()),
        ({"nodeId": "", "payload": {"nodeId": "b"}}, "b", ()),
        ({"nodeId": ..., "payload": ..., "data": {"nodeId": "b"}}, "b", ()),
        ({"nodeId": "a", "payload": {"nodeId": "b"}}, "a", ("node_conflict",)),
        ({"nodeId": "a", "payload": {"nodeId": "a"}}, "a", ()),
        ({"nodeId": 5, "payload": {"nodeId": "b"}}, "b", ()),
        ({"nodeId": "", "payload": {"nodeId": ""}}, None, ()),
        ({"nodeId": ..., "payload": None}, None, ()),
        ({"nodeId": ..., "payload": "b"}, None, ()),
    ],
)
def test_node_of_the_envelope_comes_first(members: dict[str, Any], node: str | None, notes: tuple[str, ...]) -> None:
    told = taken(compact(event(**members)))
    assert (told.node_id, told.notes) == (node, notes)


@pytest.mark.parametrize(
    ("members", "has_payload", "notes"),
    [
        ({"payload": ...}, False, ()),
        ({"payload": None}, True, ()),
        ({"payload": ..., "data": None}, True, ()),
        ({"payload": {"a": 1}, "data": {"a": 1}}, True, ()),
        ({"payload": {"a": 1, "b": 2}, "data": {"b": 2, "a": 1}}, True, ()),
        ({"payload": {"a": 1}, "data": {"a": 1.0}}, True, ("data_conflict",)),
        ({"payload": {"a": 1}, "data": {"a": True}}, True, ("data_conflict",)),
        ({"payload": None, "data": {"a": 1}}, True, ("data_conflict",)),
    ],
)
def test_payload_in_either_spelling(members: dict[str, Any], has_payload: bool, notes: tuple[str, ...]) -> None:
    told = taken(compact(event(**members)))
    assert (told.has_payload, told.notes) == (has_payload, notes)


def test_payload_counts_where_the_data_differ() -> None:
    both = taken(compact(event(payload={"a": 1}, data={"a": 2})))
    assert both.digest == taken(compact(event(payload={"a": 1}))).digest


def test_event_without_payload_has_the_digest_of_a_null_payload() -> None:
    assert taken(compact(event(payload=...))).digest == taken(compact(event(payload=None))).digest


@pytest.mark.parametrize(
    ("members", "notes"),
    [
        ({"eventId": ...}, ()),
        ({"eventId": None}, ()),
        ({"eventId": ""}, ()),
        ({"eventId": 12}, ("label_dropped",)),
        ({"eventId": ..., "causationId": {"a": 1}}, ("label_dropped",)),
        ({"eventId": ..., "causationId": "c" * 513}, ("label_dropped",)),
        ({"eventId": 12, "causationId": 13, "payload": {"agentId": 14}}, ("label_dropped",)),
    ],
)
def test_label_that_cannot_be_kept_costs_nothing_but_itself(members: dict[str, Any], notes: tuple[str, ...]) -> None:
    told = taken(compact(event(**members)))
    assert (told.event_id, told.causation_id, told.agent_id, told.notes) == (None, None, None, notes)


@pytest.mark.parametrize(
    "payload",
    [
        '{"big":3544790567247868102,"huge":123456789012345678901234567890}',
        '{"a":1.10,"b":1e5,"c":-0,"d":0.1E-7}',
        '{"text":"\\u00e9\\ud800\\/\\u0000"}',
        '{"a" : [ 1 ,\n2 ]}',
        '{"z":1,"a":{"z":1,"a":2}}',
        '"\u2028 \x7f <img src=x onerror=alert(1)>"',
        "[" * 200 + "]" * 200,
    ],
)
def test_body_is_the_text_that_came(payload: str) -> None:
    raw = compact(event(payload="@")).replace('"@"', payload)
    assert taken(raw).body == raw
    assert taken(b"\xef\xbb\xbf \r\n" + raw.encode() + b"\n\t ").body == raw


@pytest.mark.parametrize(
    "change",
    [
        {"type": "node.failed"},
        {"nodeId": "other"},
        {"timestamp": "2026-11-29T19:00:03.677001Z"},
        {"payload": {"outputs": {"pages": 3.0}}},
        {"payload": {"outputs": {"pages": "3"}}},
        {"payload": None},
    ],
)
def test_digest_changes_with_what_happened(change: dict[str, Any]) -> None:
    assert taken(compact(event(**change))).digest != taken(compact(event())).digest


@pytest.mark.parametrize(
    "change",
    [
        {"runId": "other"},
        {"sequence": 8},
        {"eventId": "other"},
        {"causationId": "evt-1"},
        {"engineVersion": 5},
        {"unknown": True},
        {"timestamp": "2026-11-29T20:00:03.6770000001+01:00"},
    ],
)
def test_digest_does_not_change_with_how_it_was_told(change: dict[str, Any]) -> None:
    assert taken(compact(event(**change))).digest == taken(compact(event())).digest


numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(categories=None), max_size=12) | st.text("ab\ud800\udc00é", max_size=4)
payloads = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)
types = st.sampled_from(
    [
        ("node.completed", "node.completed"),
        ("memory.written", "memory.written"),
        *((v1, v2) for v2, v1 in FIRST_MAJOR_NAMES.items()),
    ]
)


def shuffled(value: Any, data: st.DataObject) -> Any:
    if isinstance(value, dict):
        return {name: shuffled(value[name], data) for name in data.draw(st.permutations(list(value)))}
    if isinstance(value, list):
        return [shuffled(element, data) for element in value]
    return value


def is_utf8(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


@given(payloads, types, st.data())
def test_digest_does_not_depend_on_spelling(payload: Any, names: tuple[str, str], data: st.DataObject) -> None:
    first, second = names
    told = taken(json.dumps(event(type=first, payload=payload), separators=(",", ":")))
    members = event(type=data.draw(st.sampled_from(names)), payload=..., sequence=...)
    members[data.draw(st.sampled_from(["sequence", "seq"]))] = 7
    members[data.draw(st.sampled_from(["payload", "data"]))] = payload
    separators = data.draw(st.sampled_from([(", ", ": "), (",", ":"), (" ,", " : ")]))
    indent = data.draw(st.sampled_from([None, 2]))
    is_ascii = data.draw(st.booleans()) or not is_utf8(payload)
    shown = shuffled(members, data)
    again = taken(json.dumps(shown, ensure_ascii=is_ascii, separators=separators, indent=indent))
    assert again.digest == told.digest
    assert again.type == told.type == first


odd: st.SearchStrategy[Any] = st.sampled_from(
    [..., None, "", 0, 7, -1, True, 1.0, 2**53, [], {}, "x" * 513, "sk-" + "a" * 20, "run-1"]
)
said = odd.filter(lambda value: value is not ...)
members_of_events = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("runId", "sequence", "seq", "type", "nodeId", "eventId", "causationId", "timestamp"), odd),
        "payload": odd | payloads | st.fixed_dictionaries({}, optional=dict.fromkeys(("nodeId", "agentId"), said)),
        "data": payloads,
        "callbackUrl": odd,
        "note": payloads,
    },
)


@given(members_of_events, types, st.sampled_from([None, "run-1", "run-2"]), st.sampled_from([None, (",", ":")]))
def test_the_usual_event_is_read_as_by_a_closer_look(
    members: dict[str, Any], names: tuple[str, str], run_id: str | None, separators: Any
) -> None:
    raw = json.dumps(event(**{"type": names[1]} | members), separators=separators).encode()
    plain = _plain_event(raw, run_id)
    assert plain is None or plain == _read_closely(raw, 0, run_id, Limits())


def test_the_usual_event_needs_no_closer_look() -> None:
    for members in ({}, {"type": "run.completed", "nodeId": ..., "payload": {}}, {"payload": {"agentId": "writer"}}):
        raw = compact(event(**members)).encode()
        assert _plain_event(raw, None) == _read_closely(raw, 0, None, Limits())


@given(payloads)
def test_body_says_value_for_value_what_came(payload: Any) -> None:
    text = json.dumps(event(payload=payload))
    assert json.loads(taken(text).body) == json.loads(text)


@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:\\u0a1.e-nul ', max_size=40).map(str.encode))
def test_no_bytes_are_too_strange_to_be_refused(raw: bytes) -> None:
    assert refused(raw).reason


@pytest.mark.parametrize("path", recorded(), ids=lambda path: "/".join(path.parts[-3:]))
def test_recorded_log_is_taken_as_it_is(path: Any) -> None:
    for index, line in enumerate(path.read_bytes().splitlines()):
        item = read_event(line, index=index)
        assert isinstance(item, RunEvent), item
        assert json.loads(item.body) == json.loads(line)
        assert item.leaks == ()
        assert item.notes == ()
        assert item.has_payload
