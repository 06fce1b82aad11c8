"""Debug bundles of every shape that hosts send, against the logs that were recorded beside them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runs.domain.bundle import MAX_BUNDLE_BYTES, Bundle, Hole, NotABundle, read_bundle, with_run_id
from runs.domain.event import Refusal, RunEvent
from runs.domain.limits import LimitExceeded
from runs.domain.normalise import read_event
from tests.runs.domain.examples import RECORDINGS, compact, event

RUN = "run-1"


def bundle_event(sequence: int, **members: Any) -> dict[str, Any]:
    """As the spec's bundle writes one: without eventId and runId, with `data`."""
    told = {
        "sequence": sequence,
        "type": "node.started",
        "timestamp": f"2026-11-29T19:00:{sequence:02}Z",
        "nodeId": None,
        "data": {"attempt": 1},
        **members,
    }
    return {name: value for name, value in told.items() if value is not ...}


def bundle(**members: Any) -> dict[str, Any]:
    told = {
        "bundleVersion": "1",
        "generatedAt": "2026-11-29T19:05:00.000Z",
        "host": {"name": "a-host", "version": "1.1.7"},
        "run": {"runId": RUN, "workflowId": "w", "status": "completed"},
        "events": [bundle_event(0), bundle_event(1)],
        "spans": [],
        "metrics": {"nodeCount": 1, "eventCount": 2},
        "redactionApplied": False,
        "redactionMode": "passthrough",
        **members,
    }
    return {name: value for name, value in told.items() if value is not ...}


def read(value: object) -> Bundle:
    return read_bundle([compact(value).encode()])


def warned(read_one: Bundle) -> set[str]:
    return {warning.kind for warning in read_one.facts.warnings}


def events_of(read_one: Bundle) -> list[RunEvent | Refusal]:
    return [read_event(raw.data, index=raw.index, run_id=read_one.facts.run_id) for raw in read_one.events]


RECORDED = {
    # folder: events in the bundle, its warnings
    "openwop-app/agents/bundle.json": (10, set()),
    "openwop-app/agents/bundle-truncated.json": (3, {"truncated", "event_count"}),
    "openwop-app/approval-accepted/bundle.json": (14, set()),
    "openwop-app/forks/fork-branch-end/bundle.json": (36, set()),
    "sqlite/approval-accepted/bundle.json": (12, {"redacted"}),
    "sqlite/approval-accepted/bundle-truncated.json": (3, {"truncated", "event_count", "redacted"}),
    "sqlite/memory-multi/bundle.json": (13, {"redacted"}),
    "postgres/memory-multi/bundle.json": (13, {"redacted"}),
    "postgres/approval-rejected/bundle.json": (7, {"redacted"}),
    "postgres/approval-accepted/bundle-truncated.json": (3, {"truncated", "event_count", "redacted"}),
    "in-memory/approval-accepted/bundle.json": (6, {"redacted"}),
    "in-memory/cancelled/bundle.json": (4, {"redacted"}),
    "python/approval-accepted/bundle.json": (6, {"redacted", "partial_copies"}),
    "python/multi-node/bundle.json": (8, {"redacted", "partial_copies"}),
}


def recorded_bundle(name: str) -> Bundle:
    return read_bundle([(RECORDINGS / name).read_bytes()])


def recorded_log(name: str, run_id: str) -> dict[int, RunEvent]:
    lines = (RECORDINGS / name).with_name("events.ndjson").read_bytes().splitlines()
    events = [read_event(line, index=0, run_id=run_id) for line in lines]
    return {event.sequence: event for event in events if isinstance(event, RunEvent)}


@pytest.mark.parametrize("name", [pytest.param(name, id=f"h-debugBundle-{name}") for name in RECORDED])
def test_recorded_bundle_holds_the_events_of_its_log(name: str) -> None:
    read_one = recorded_bundle(name)
    count, warnings = RECORDED[name]
    run = json.loads((RECORDINGS / name).read_text())
    assert read_one.facts.run_id == (run.get("runId") or run["run"]["runId"])
    assert warned(read_one) == warnings
    assert len(read_one.events) == read_one.facts.event_count == count
    log = recorded_log(name, read_one.facts.run_id or "")
    for copy in events_of(read_one):
        assert isinstance(copy, RunEvent), copy
        known = log[copy.sequence]
        assert (copy.run_id, copy.type, copy.timestamp) == (known.run_id, known.type, known.timestamp)
        if copy.has_payload:
            assert copy.digest == known.digest


def test_python_bundles_are_partial_copies() -> None:
    read_one = recorded_bundle("python/multi-node/bundle.json")
    assert read_one.facts.partial_count == 8
    assert not any(copy.has_payload for copy in events_of(read_one) if isinstance(copy, RunEvent))


def test_an_error_instead_of_a_bundle_says_which() -> None:
    with pytest.raises(NotABundle, match="run_not_found") as caught:
        recorded_bundle("openwop-app/forks/fork-by-other-tenant/bundle.json")
    assert caught.value.code == "run_not_found"


SHAPES = [
    pytest.param(bundle(), set(), id="as-the-spec-has-it"),
    pytest.param(bundle(bundleVersion="1.0"), set(), id="i16-bundleVersion-1.0"),
    pytest.param(bundle(bundleVersion=1), set(), id="i16-bundleVersion-as-a-number"),
    pytest.param(bundle(bundleVersion="3"), {"unknown_version"}, id="i16-bundleVersion-to-come"),
    pytest.param(
        {"runId": RUN, "workflowId": "w", "status": "completed", "events": [event(sequence=0)], "truncated": False},
        set(),
        id="i16-flat",
    ),
    pytest.param({"runId": RUN, "events": [event(sequence=1)], "isComplete": True}, set(), id="a-saved-poll"),
    pytest.param(bundle(metrics={"eventCount": 9}), {"event_count"}, id="h-debugBundle-count-mismatch"),
    pytest.param(bundle(metrics={"eventCount": "2"}), set(), id="a-count-of-another-kind"),
    pytest.param(
        bundle(truncated=True, truncatedReason="events_truncated_to_size_cap", metrics={"eventCount": 9}),
        {"truncated", "event_count"},
        id="h-debugBundle-truncation",
    ),
    pytest.param(
        bundle(events=[bundle_event(n) for n in (0, 1, 8, 9)], truncated=True, metrics={"eventCount": 10}),
        {"truncated", "event_count", "hole"},
        id="i17-head-and-tail-kept",
    ),
    pytest.param(bundle(events=[bundle_event(4), bundle_event(5)]), {"hole"}, id="the-beginning-is-missing"),
    pytest.param(
        bundle(redactionApplied=True, redactionMode="passthrough"), {"malformed_redaction"}, id="malformed-redaction"
    ),
    pytest.param(bundle(redactionApplied=True, redactionMode="mask"), {"redacted"}, id="redacted"),
    pytest.param(bundle(redactionApplied=True, redactionMode=...), {"redacted"}, id="redacted-without-a-mode"),
    pytest.param(bundle(run=..., host=None, spans="x"), {"no_run_id"}, id="nothing-around-the-events"),
    pytest.param(
        bundle(events=[bundle_event(0, data=...), bundle_event(1)]), {"partial_copies"}, id="i2-one-partial-copy"
    ),
    pytest.param(
        bundle(
            events=[bundle_event(0), {"type": "run.annotated", "payload": {"note": "x"}}, bundle_event(1)],
            annotations=[{"annotationId": "a"}],
        ),
        {"notifications"},
        id="h-annotation-takes-no-sequence",
    ),
]


@pytest.mark.parametrize(("told", "warnings"), SHAPES)
def test_shape_table(told: dict[str, Any], warnings: set[str]) -> None:
    read_one = read(told)
    assert warned(read_one) == warnings
    assert len(read_one.events) == sum(one["type"] != "run.annotated" for one in told["events"])


@pytest.mark.parametrize("spelling", ["sequence", "seq"])
def test_a_notification_with_a_place_is_not_left_out(spelling: str) -> None:
    """Leaving it out would make a gap that nothing fills."""
    told = read(bundle(events=[bundle_event(0), {"type": "run.annotated", spelling: 1}]))
    assert (len(told.events), told.facts.notification_count) == (2, 0)


def test_what_stands_beside_the_events_is_counted() -> None:
    notifications = [{"type": "run.annotated"}, {"type": "channel.presence"}]
    facts = read(bundle(events=[*notifications, bundle_event(0)], annotations=[{}, {}, {}], spans=[{}])).facts
    assert (facts.event_count, facts.notification_count, facts.annotation_count, facts.span_count) == (1, 2, 3, 1)
    assert (facts.host_name, facts.host_version, facts.version) == ("a-host", "1.1.7", "1")
    assert facts.generated_at == datetime(2026, 11, 29, 19, 5, tzinfo=UTC)


def test_warnings_in_words() -> None:
    told = read(
        bundle(
            bundleVersion="3",
            run=...,
            events=[{"type": "run.annotated"}, bundle_event(3, data=...), bundle_event(5), bundle_event(9)],
            metrics={"eventCount": 1200},
            truncated=True,
            redactionApplied=True,
            redactionMode="mask",
        )
    )
    assert [warning.message for warning in told.facts.warnings] == [
        "the bundle does not say which run it is of",
        "bundleVersion '3' is not known here",
        "the host cut the log: no reason given",
        "3 of 1,200 events are in the bundle",
        "7 events are missing between others: 0 to 2 and elsewhere",
        "the host may have changed values (mode 'mask')",
        "1 event came without its payload",
        "1 notification that is no event was left out",
    ]
    assert told.facts.holes == (Hole(0, 2), Hole(4, 4), Hole(6, 8))
    malformed = read(bundle(redactionApplied=True, redactionMode="passthrough", truncated=True, truncatedReason="cap"))
    assert [warning.message for warning in malformed.facts.warnings] == [
        "the host cut the log: cap",
        "redactionApplied with the mode passthrough: one of the two is false",
    ]
    one_hole = read(bundle(events=[bundle_event(0), bundle_event(2)]))
    two = read(bundle(events=[{"type": "run.annotated"}] * 2 + [bundle_event(n, data=...) for n in (0, 1)]))
    assert [warning.message for warning in two.facts.warnings] == [
        "2 events came without their payload",
        "2 notifications that are no events were left out",
    ]
    assert one_hole.facts.warnings[0].message == "1 event is missing between others: 1"


def test_members_of_unexpected_kinds_are_nothing() -> None:
    told = read(
        bundle(
            bundleVersion=["1"],
            generatedAt="yesterday",
            host={"name": 7, "version": "v" * 600},
            metrics={"eventCount": -1},
            truncated="yes",
            truncatedReason=7,
            redactionMode={},
            events=[{"type": ["x"]}, {"type": {}}, {"type": "state.snapshot"}, 7, None],
        )
    )
    facts = told.facts
    assert (facts.version, facts.generated_at, facts.host_name, facts.host_version) == ("", None, "", "")
    assert (facts.told_count, facts.is_truncated, facts.truncated_reason, facts.redaction_mode) == (None, False, "", "")
    assert [raw.index for raw in told.events] == [0, 1, 3, 4]
    assert all(isinstance(item, Refusal) for item in events_of(told))


def test_many_holes_are_counted_and_few_are_kept() -> None:
    facts = read(bundle(events=[bundle_event(0) | {"sequence": 2 * n} for n in range(150)])).facts
    assert (len(facts.holes), facts.hole_count, facts.missing_count) == (100, 149, 149)


@pytest.mark.parametrize(
    ("error", "code"), [({"code": "gone", "message": "m"}, "gone"), ("gone", "gone"), ({"message": "m"}, ""), (7, "")]
)
def test_error_bodies(error: object, code: str) -> None:
    with pytest.raises(NotABundle) as caught:
        read({"error": error})
    assert caught.value.code == code
    assert str(caught.value) == (f"the host answered {code} instead of a bundle" if code else "no list of events")


def test_i17_holes_are_named_and_counted() -> None:
    told = read(bundle(events=[bundle_event(n) for n in (9, 0, 8, 1, 5)]))
    assert told.facts.holes == (Hole(2, 4), Hole(6, 7))
    assert (told.facts.hole_count, told.facts.missing_count) == (2, 5)
    assert (told.facts.first_sequence, told.facts.last_sequence) == (0, 9)


@pytest.mark.parametrize("first", [pytest.param(0, id="first-sequence-0"), pytest.param(1, id="i4-first-sequence-1")])
def test_a_log_may_begin_at_either(first: int) -> None:
    assert read(bundle(events=[bundle_event(first)], metrics={})).facts.hole_count == 0


def test_i2_events_get_the_bundles_run_and_nothing_else() -> None:
    text = '{"sequence":3 ,"type":"node.completed","timestamp":"2026-11-29T19:00:03.677Z","data":{"n":1.10}}'
    told = read_bundle([f'{{"run":{{"runId":"a/\\"b"}},"events":[ {text} ]}}'.encode()])
    assert told.events[0].data == b'{"runId":"a/\\"b",' + text[1:].encode()
    (taken,) = events_of(told)
    assert isinstance(taken, RunEvent) and taken.run_id == 'a/"b'
    assert '"n":1.10' in taken.body


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"{}", b'{"runId":"r"}'),
        (b' { "a":1}', b'{"runId":"r","a":1}'),
        (b'{"runId":null,"a":1e5}', b'{"runId":"r","a":1e5}'),
        (b'{"runId":"other"}', b'{"runId":"other"}'),
        (b'{"runId":7}', b'{"runId":7}'),
        (b"[1]", b"[1]"),
        (b"broken", b"broken"),
        (b'{"runId":null,"a":"\xff"}', b'{"runId":"r","a":"\xff"}'),
    ],
)
def test_a_run_is_only_named_where_none_is(before: bytes, after: bytes) -> None:
    assert with_run_id(before, "r") == after


def test_h_memory_attribution_tenant_scoped_event_of_another_run() -> None:
    told = read(bundle(events=[bundle_event(0), bundle_event(1, runId="run-2")]))
    good, foreign = events_of(told)
    assert isinstance(good, RunEvent)
    assert isinstance(foreign, Refusal) and foreign.index == 1


def test_index_counts_elements() -> None:
    told = read(bundle(events=[{"type": "run.annotated"}, 7, bundle_event(1)]))
    assert [raw.index for raw in told.events] == [1, 2]
    assert [type(item) for item in events_of(told)] == [Refusal, RunEvent]


CANARY = "sk-canary0123456789abcdef"


def test_h_secret_leakage_debug_bundle_nothing_secret_around_the_events() -> None:
    told = read(
        bundle(
            run={
                "runId": RUN,
                "status": "waiting-approval",
                "interrupt": {"kind": "approval", "interruptToken": "tok-123", "callbackUrl": "https://h/i/tok-123"},
                "inputs": {"key": CANARY},
                "variables": {"x": CANARY},
                "error": {"code": CANARY, "message": CANARY},
                "tags": ["plain", CANARY],
            },
            spans=[{"name": "s", "attributes": {"auth": CANARY}}],
        )
    )
    shown = repr(told.facts)
    assert CANARY not in shown and "tok-123" not in shown
    assert told.facts.snapshot is not None and told.facts.snapshot.tags == ("plain",)


def test_spans_tell_what_was_replayed() -> None:
    attributes = {
        "openwop.replay.source_run_id": "run-0",
        "openwop.replay.from_seq": 4,
        "openwop.replay.mode": "replay",
    }
    source = read(bundle(spans=[{"name": "x"}, {"attributes": attributes}])).facts.source
    assert source is not None
    assert (source.run_id, source.relation, source.mode, source.from_sequence) == ("run-0", "fork", "replay", 4)


def test_snapshot_of_either_shape() -> None:
    for told in (bundle(), {"runId": RUN, "workflowId": "w", "status": "completed", "events": []}):
        snapshot = read(told).facts.snapshot
        assert snapshot is not None
        assert (snapshot.run_id, snapshot.workflow_id, snapshot.status) == (RUN, "w", "completed")


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', "{}", '{"events":{}}', '{"events":null}', '{"events":[1'])
def test_what_is_no_bundle(text: str) -> None:
    with pytest.raises(NotABundle):
        read_bundle([text.encode()])


def test_bundle_is_bounded() -> None:
    body = compact(bundle()).encode()
    assert read_bundle([body], max_bytes=len(body)).facts.event_count == 2
    with pytest.raises(LimitExceeded) as caught:
        read_bundle([body], max_bytes=len(body) - 1)
    assert (caught.value.name, caught.value.limit) == ("MAX_BUNDLE_BYTES", len(body) - 1)
    assert MAX_BUNDLE_BYTES >= 8 * 1024 * 1024


def test_chunks_and_a_byte_order_mark_do_not_matter() -> None:
    body = b"\xef\xbb\xbf" + compact(bundle()).encode()
    assert read_bundle(body[n : n + 1] for n in range(len(body))) == read_bundle([body]) == read(bundle())


def test_recordings_are_all_in_the_table() -> None:
    found = {str(path.relative_to(RECORDINGS)) for path in Path(RECORDINGS).rglob("bundle*.json")}
    assert found - RECORDED.keys() == {"openwop-app/forks/fork-by-other-tenant/bundle.json"}
