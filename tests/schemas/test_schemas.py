"""The published schemas, held against what the intake takes and what hosts were recorded to send."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.domain.event import Refusal, RunEvent
from runs.domain.event_types import FIRST_MAJOR_NAMES
from runs.domain.normalise import read_event

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "schemas").glob("*.json"))}
RECORDINGS = ROOT / "tests" / "fixtures" / "recordings"
NAMES = {
    *("run-event", "run-event-v1", "run-event-v2"),
    *("memory-written", "memory-compacted", "memory-consolidated", "commitment-fired"),
    *("memory-entry", "memory-list-options", "receipt", "error"),
    *("memory-put", "discovery"),
}


def validator(name: str) -> Any:
    return jsonschema_rs.validator_for(SCHEMAS[name])


INTAKE = validator("run-event")

EVENT: dict[str, Any] = {
    "eventId": "evt-0123456789abcdef",
    "runId": "acme/0123456789abcdef",
    "type": "node.completed",
    "sequence": 7,
    "timestamp": "2026-11-29T19:00:03.677Z",
    "payload": {"outputs": {}},
    "nodeId": "research",
}


def changed(**members: Any) -> dict[str, Any]:
    """EVENT with other members; `...` leaves one out."""
    return {name: value for name, value in {**EVENT, **members}.items() if value is not ...}


def test_every_schema_is_there() -> None:
    assert set(SCHEMAS) >= NAMES


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_schema_is_one_and_says_where_it_lives(name: str) -> None:
    schema = SCHEMAS[name]
    jsonschema_rs.meta.validate(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"/schemas/{name}.json"
    assert schema["title"]


def without_description(schema: Any, path: str = "") -> list[str]:
    """The members, at any depth, that no words explain."""
    if not isinstance(schema, dict):
        return []
    lacking = []
    for name, member in schema.get("properties", {}).items():
        if path.rpartition("/")[2] not in ("if", "then", "else") and "description" not in member:
            lacking.append(f"{path}/{name}")
    for key in ("properties", "$defs", "patternProperties"):
        for name, member in schema.get(key, {}).items():
            lacking += without_description(member, f"{path}/{name}")
    for key in ("items", "if", "then", "else"):
        lacking += without_description(schema.get(key), f"{path}/{key}")
    return lacking


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_member_is_described(name: str) -> None:
    assert SCHEMAS[name]["description"]
    assert without_description(SCHEMAS[name]) == []


def agrees(event: Any) -> bool:
    """Whether the intake takes the event; the schema has to say the same."""
    names_run = isinstance(event, dict) and event.get("runId") is not None
    item = read_event(json.dumps(event), index=0, run_id=None if names_run else "run-1")
    assert isinstance(item, RunEvent | Refusal)
    is_taken = isinstance(item, RunEvent)
    assert INTAKE.is_valid(event) == is_taken, item
    return is_taken


@pytest.mark.parametrize(
    ("event", "is_taken"),
    [
        (EVENT, True),
        ([], False),
        (None, False),
        ("text", False),
        ({}, False),
        (changed(runId=...), True),
        (changed(runId=None), True),
        (changed(runId=""), False),
        (changed(runId=5), False),
        (changed(runId="r" * 512), True),
        (changed(runId="r" * 513), False),
        (changed(runId="😀" * 512), True),
        (changed(type=...), False),
        (changed(type=""), False),
        (changed(type="t" * 257), False),
        (changed(type=None), False),
        (changed(sequence=...), False),
        (changed(sequence=..., seq=1), True),
        (changed(sequence=..., seq="1"), False),
        (changed(sequence=..., seq=-1), False),
        (changed(sequence=1, seq="x"), True),
        (changed(sequence=None, seq=1), False),
        (changed(sequence=1.0), True),
        (changed(sequence=1.5), False),
        (changed(sequence=-1), False),
        (changed(sequence=True), False),
        (changed(sequence="1"), False),
        (changed(sequence=2**53 - 1), True),
        (changed(sequence=2**53), False),
        (changed(sequence=2**64), False),
        (changed(sequence=1e300), False),
        (changed(timestamp=...), False),
        (changed(timestamp=1), False),
        (changed(timestamp="2026-11-29T19:00:03.1" + "0" * 60 + "Z"), False),
        (changed(eventId=...), True),
        (changed(eventId=12), True),
        (changed(eventId="e" * 513), False),
        (changed(causationId="c" * 513), True),
        (changed(nodeId=None), True),
        (changed(nodeId=""), True),
        (changed(nodeId={"a": 1}), True),
        (changed(nodeId="n" * 513), False),
        (changed(payload={"nodeId": "n" * 513}), False),
        (changed(payload=..., data={"nodeId": "n" * 513}), False),
        (changed(payload={"nodeId": ["n" * 513]}), True),
        (changed(payload=...), True),
        (changed(payload="n" * 513), True),
        (changed(unknown={"any": [None]}), True),
    ],
)
def test_intake_and_schema_agree(event: Any, is_taken: bool) -> None:
    assert agrees(event) is is_taken


@pytest.mark.parametrize(
    ("timestamp", "is_taken"),
    [
        ("2026-11-29T19:00:03Z", True),
        ("2026-11-29t19:00:03z", True),
        ("2026-11-29T19:00:03.123456789+05:30", True),
        ("2026-11-29T19:00:60Z", True),
        ("2024-02-29T00:00:00Z", True),
        ("2000-02-29T00:00:00Z", True),
        ("2023-02-29T00:00:00Z", False),
        ("1900-02-29T00:00:00Z", False),
        ("2026-04-31T00:00:00Z", False),
        ("2026-00-01T00:00:00Z", False),
        ("2026-13-01T00:00:00Z", False),
        ("2026-01-32T00:00:00Z", False),
        ("0001-01-01T00:00:00Z", True),
        ("0001-01-01T23:00:00+00:01", False),
        ("0001-01-01T23:00:00-00:01", True),
        ("9999-12-31T00:00:00-00:01", False),
        ("9999-12-31T00:00:00-00:00", True),
        ("9999-12-31T00:00:00.5+00:01", True),
        ("0000-01-01T00:00:00Z", False),
        ("10000-01-01T00:00:00Z", False),
        ("2026-11-29T24:00:00Z", False),
        ("2026-11-29T19:60:03Z", False),
        ("2026-11-29T19:00:61Z", False),
        ("2026-11-29T19:00:03", False),
        ("2026-11-29T19:00:03.Z", False),
        ("2026-11-29T19:00:03+24:00", False),
        ("2026-11-29T19:00:03+05:60", False),
        ("2026-11-29T19:00:03+0530", False),
        ("2026-11-29 19:00:03Z", False),
        ("2026-11-29T19:00Z", False),
        ("2026-11-29", False),
        ("٢٠٢٦-11-29T19:00:03Z", False),
        (" 2026-11-29T19:00:03Z", False),
        ("2026-11-29T19:00:03Z\n", False),
        ("", False),
    ],
)
def test_intake_and_schema_agree_on_times(timestamp: str, is_taken: bool) -> None:
    assert agrees(changed(timestamp=timestamp)) is is_taken


two_digits = st.integers(0, 61).map(lambda number: f"{number:02}")
near_times = st.builds(
    "{}-{}-{}{}{}:{}:{}{}{}".format,
    st.sampled_from(["0000", "0001", "0004", "1900", "2000", "2023", "2024", "9999", "10000", "26"]),
    st.sampled_from(["00", "01", "02", "04", "06", "11", "12", "13", "1"]),
    st.sampled_from(["00", "01", "28", "29", "30", "31", "32"]),
    st.sampled_from(["T", "t", " ", ""]),
    st.sampled_from(["00", "19", "23", "24"]),
    st.sampled_from(["00", "59", "60"]),
    st.sampled_from(["00", "59", "60", "61"]),
    st.sampled_from(["", ".1", ".123456789", ".", ",5"]),
    st.sampled_from(["Z", "z", "", "+00:00", "-00:00", "+05:30", "-23:59", "+24:00", "+0530"]),
)


@given(near_times)
def test_intake_and_schema_agree_on_near_times(timestamp: str) -> None:
    agrees(changed(timestamp=timestamp))


@given(st.datetimes(timezones=st.timezones()))
def test_schema_admits_every_time_that_a_program_writes(moment: Any) -> None:
    if moment.utcoffset().seconds % 60 == 0 and 2 <= moment.year <= 9998:
        assert agrees(changed(timestamp=moment.isoformat()))


texts = st.text(max_size=6) | st.sampled_from(["n" * 512, "n" * 513, "t" * 256, "t" * 257])
numbers = (
    st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0, 1.0, 2**53 - 1, 2**53, 2.5])
)
anything = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["nodeId", "agentId", "content", "x"]), inner)
    ),
    max_leaves=4,
)
members = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(
            ["runId", "type", "eventId", "nodeId", "causationId", "payload", "data", "unknown"], texts | anything
        ),
        **dict.fromkeys(["sequence", "seq"], numbers | anything),
        "timestamp": near_times | anything,
    },
)


@given(members, st.sets(st.sampled_from(sorted(EVENT)), max_size=2), st.booleans())
def test_intake_and_schema_agree_on_near_events(told: dict[str, Any], dropped: set[str], is_about_memory: bool) -> None:
    # One foot on good ground: most members are right, so that the others decide.
    base = {**EVENT, "type": "memory.written" if is_about_memory else "node.completed"}
    few = dict(list(told.items())[:2])
    agrees({name: value for name, value in {**base, **few}.items() if name not in dropped})
    agrees(told)


@pytest.mark.parametrize("path", sorted(RECORDINGS.rglob("*.ndjson")), ids=lambda path: "/".join(path.parts[-3:]))
def test_recorded_events_satisfy_the_intake(path: Path) -> None:
    for line in path.read_text().splitlines():
        INTAKE.validate(json.loads(line))


@pytest.mark.parametrize("host", ["openwop-app", "python", "in-memory"])
def test_recorded_events_satisfy_the_first_major(host: str) -> None:
    first = validator("run-event-v1")
    for path in (RECORDINGS / host).rglob("*.ndjson"):
        for line in path.read_text().splitlines():
            first.validate(json.loads(line))


def test_recorded_host_that_strays_is_told_apart_from_the_first_major() -> None:
    line = (RECORDINGS / "sqlite" / "failed" / "events.ndjson").read_text().splitlines()[0]
    assert json.loads(line)["nodeId"] is None
    assert not validator("run-event-v1").is_valid(json.loads(line))


def test_recorded_writes_satisfy_their_payload() -> None:
    written = validator("memory-written")
    count = 0
    for path in RECORDINGS.rglob("*.ndjson"):
        for event in map(json.loads, path.read_text().splitlines()):
            if event["type"] == "memory.written":
                written.validate(event["payload"])
                count += 1
    assert count > 100


SECOND = {**EVENT, "schemaVersion": 1}


@pytest.mark.parametrize(
    ("event", "is_valid"),
    [
        (SECOND, True),
        ({**SECOND, "engineVersion": 3, "causationId": "evt-fedcba9876543210"}, True),
        ({**SECOND, "type": "agent.tool-called"}, True),
        ({**SECOND, "type": "agent.toolCalled"}, False),
        ({**SECOND, "type": "openwop.thing"}, False),
        ({**SECOND, "type": "acme.one.two"}, True),
        ({**SECOND, "engineVersion": "3"}, False),
        ({**SECOND, "runId": "0123456789abcdef"}, False),
        ({**SECOND, "runId": "anon:x/0123456789abcdef"}, True),
        ({**SECOND, "eventId": "short"}, False),
        ({**SECOND, "more": 1}, False),
        (EVENT, False),
    ],
)
def test_second_major(event: dict[str, Any], is_valid: bool) -> None:
    assert validator("run-event-v2").is_valid(event) is is_valid


@pytest.mark.parametrize("name", sorted(FIRST_MAJOR_NAMES))
def test_renamed_types_fit_the_second_major(name: str) -> None:
    assert validator("run-event-v2").is_valid({**SECOND, "type": name})


@pytest.mark.parametrize(
    ("name", "payload", "wrong"),
    [
        (
            "memory-written",
            {"memoryRef": "m", "memoryId": "i", "tags": ["a"], "x-a": 1},
            [{"memoryId": ""}, {"content": "text"}, {"tags": ["t" * 257]}],
        ),
        (
            "memory-compacted",
            {"memoryRef": "m", "outputId": "o", "sourceCount": 2, "trigger": "both", "byteSize": 0},
            [{"sourceCount": 0}, {"trigger": "scheduled"}, {"byteSize": -1}, {"content": 1}],
        ),
        (
            "memory-consolidated",
            {"memoryRef": "m", "inputCount": 3, "outputCount": 1, "trigger": "scheduled"},
            [{"outputCount": -1}, {"trigger": "both"}],
        ),
        (
            "commitment-fired",
            {"commitmentId": "c", "memoryRef": "m", "condition": "time"},
            [{"condition": "mood"}, {"commitmentId": ""}],
        ),
        (
            "memory-entry",
            {"id": "i", "content": "text", "tags": [], "createdAt": "2026-11-29T19:00:03Z"},
            [{"id": "i" * 1501}, {"content": None}, {"author": "x"}],
        ),
        (
            "memory-list-options",
            {"limit": 0, "tag": "t", "rank": "relevance", "query": "q"},
            [{"limit": -1}, {"tag": ""}, {"rank": "mood"}, {"more": 1}],
        ),
        (
            "error",
            {"error": "not_found", "message": "no such run", "details": {}},
            [{"error": 404}, {"details": []}, {"error": "not found"}],
        ),
        (
            "receipt",
            {
                "accepted": 1,
                "repeated": 0,
                "refused": [
                    {"index": 0, "reason": "type is missing", "field": "type"},
                    {"index": 1, "reason": "broken JSON"},
                ],
                "refusedTotal": 2,
                "incidents": [{"kind": "gap", "runId": "r", "sequence": None, "message": "2 to 4"}],
                "incidentsTotal": 1,
                "runs": [{"runId": "r", "through": -1}],
            },
            [
                {"accepted": -1},
                {"refused": [{"index": 0}]},
                {"runs": [{"runId": "r"}]},
                {"more": 1},
                {"refusedTotal": None},
            ],
        ),
    ],
)
def test_each_schema_admits_what_it_should_and_no_more(
    name: str, payload: dict[str, Any], wrong: list[dict[str, Any]]
) -> None:
    validator(name).validate(payload)
    for change in wrong:
        assert not validator(name).is_valid({**payload, **change}), change
    for required in SCHEMAS[name].get("required", []):
        assert not validator(name).is_valid({key: value for key, value in payload.items() if key != required}), required


def test_relevance_needs_something_to_be_relevant_to() -> None:
    assert not validator("memory-list-options").is_valid({"rank": "relevance"})
    assert validator("memory-list-options").is_valid({"rank": "recency"})
