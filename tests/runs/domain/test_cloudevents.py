"""CloudEvents in JSON: an envelope around an event, and an envelope that says the rest of one."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from runs.domain.cloudevents import read_batch, read_structured, unwrap
from runs.domain.event import Refusal, RunEvent
from runs.domain.limits import Limits
from runs.domain.normalise import read_event
from runs.domain.reading import RawEvent
from tests.runs.domain.examples import RECORDINGS, compact, event

EVENT = event()
TEXT = '{"type":"node.completed" ,"runId":"run-1","seq":7,"timestamp":"2026-11-29T19:00:03.677Z","payload":{"n":1.10}}'


def envelope(**members: Any) -> dict[str, Any]:
    """As the protocol's mapping projects an event; a member given as `...` is left out."""
    told = {
        "specversion": "1.0",
        "id": "evt-run-1-7",
        "source": "https://api.example.com/v1/runs/run-1",
        "type": "dev.openwop.event.node.completed",
        "time": "2026-11-29T19:00:03.677Z",
        "datacontenttype": "application/json",
        "subject": "research",
        "openwoprunid": "run-1",
        "openwopseq": 7,
        "data": EVENT,
        **members,
    }
    return {name: value for name, value in told.items() if value is not ...}


def opened(value: object) -> RunEvent:
    raw = unwrap(compact(value).encode(), index=4)
    assert isinstance(raw, RawEvent), raw
    assert raw.index == 4
    item = read_event(raw.data, index=raw.index)
    assert isinstance(item, RunEvent), item
    return item


def refused(value: object) -> Refusal:
    raw = unwrap(value if isinstance(value, bytes) else compact(value).encode(), index=4)
    assert isinstance(raw, Refusal), raw
    assert raw.index == 4
    return raw


def test_event_inside_is_taken_verbatim() -> None:
    told = compact(envelope(data="HERE")).replace('"HERE"', TEXT)
    assert unwrap(told.encode(), index=0) == RawEvent(0, TEXT.encode())


def test_envelope_around_an_event_is_not_trusted() -> None:
    told = opened(
        envelope(
            id="rewritten",
            source="/runs/another",
            type="com.example.routed",
            time="2000-01-01T00:00:00Z",
            subject="another",
            openwoprunid="another",
            openwopseq=99,
        )
    )
    assert told == opened(envelope())
    assert (told.run_id, told.sequence, told.event_id) == ("run-1", 7, EVENT["eventId"])


def test_run_that_an_event_lacks_is_taken_from_the_envelope() -> None:
    assert opened(envelope(data=event(runId=...))).run_id == "run-1"


PAYLOAD = {"outputs": {"pages": 3}}


def test_payload_alone_gives_the_same_event() -> None:
    told = opened(envelope(id=EVENT["eventId"], data=PAYLOAD))
    assert told.digest == opened(envelope()).digest
    assert (told.run_id, told.sequence, told.type, told.node_id) == ("run-1", 7, "node.completed", "research")
    assert told.event_id == EVENT["eventId"]


@pytest.mark.parametrize(
    "payload", [{"type": "approval"}, {"sequence": 99}, {"type": 7, "sequence": 99}, {"seq": 99}, [], "text", 7, None]
)
def test_what_is_no_event_is_a_payload(payload: object) -> None:
    told = opened(envelope(data=payload))
    assert (told.sequence, told.type, told.has_payload) == (7, "node.completed", True)
    assert json.loads(told.body)["payload"] == payload


@pytest.mark.parametrize("place", ["x", "-1", "1.0", "١٢", "9" * 21, 1.5, True, None, [7]])
def test_a_sequence_that_is_no_whole_number_is_none(place: object) -> None:
    raw = unwrap(compact(envelope(data=PAYLOAD, openwopseq=..., sequence=place)).encode(), index=0)
    assert isinstance(raw, RawEvent) and b'"sequence"' not in raw.data


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"openwoprunid": ...}, "run-1"),
        ({"openwoprunid": ..., "source": "urn:openwop:host:h1:run:run-9"}, "run-9"),
        ({"openwoprunid": ..., "source": "urn:openwop:host:h1:run:acme%2Fr-9"}, "acme/r-9"),
        ({"openwoprunid": ..., "source": "https://h/runs/acme~2Fr-9/events"}, "acme/r-9"),
        ({"openwoprunid": ..., "source": "https://h/v1/runs/acme%2Fr-9"}, "acme/r-9"),
        ({"openwoprunid": "acme/r-9"}, "acme/r-9"),
    ],
)
def test_where_the_run_is_named(changed: dict[str, Any], expected: str) -> None:
    assert opened(envelope(data=PAYLOAD, **changed)).run_id == expected


@pytest.mark.parametrize(
    ("changed", "member", "expected"),
    [
        ({"openwopseq": ..., "sequence": "0000000012"}, "sequence", 12),
        ({"openwopseq": ..., "sequence": 12}, "sequence", 12),
        ({"type": "node.completed"}, "type", "node.completed"),
        ({"type": "acme.custom-event"}, "type", "acme.custom-event"),
        ({"subject": "run-1"}, "node_id", None),
        ({"subject": ...}, "node_id", None),
        ({"openwopcausationid": "evt-6"}, "causation_id", "evt-6"),
        ({"id": ...}, "event_id", None),
        ({"data": ...}, "has_payload", False),
        ({"data": None}, "has_payload", True),
        ({"datacontenttype": ...}, "has_payload", True),
        ({"datacontenttype": "application/vnd.acme+json; charset=utf-8"}, "has_payload", True),
        ({"data": ..., "data_base64": base64.b64encode(b'{"a":1}').decode()}, "has_payload", True),
    ],
)
def test_what_the_envelope_says_of_a_payload(changed: dict[str, Any], member: str, expected: object) -> None:
    assert getattr(opened(envelope(**{"data": PAYLOAD} | changed)), member) == expected


@pytest.mark.parametrize(
    ("told", "field"),
    [
        (envelope(specversion="0.3"), "specversion"),
        (envelope(specversion=...), "specversion"),
        (EVENT, "specversion"),
        (envelope(type=...), "type"),
        (envelope(type=""), "type"),
        (envelope(datacontenttype="application/xml"), "datacontenttype"),
        (envelope(datacontenttype="text/plain", data="hello"), "datacontenttype"),
        (envelope(data=..., data_base64="***"), "data_base64"),
        (envelope(data=..., data_base64=base64.b64encode(b'1,"sequence":9').decode()), "data_base64"),
        (envelope(data=PAYLOAD, openwoprunid=..., source="https://h/"), "openwoprunid"),
        (envelope(data=PAYLOAD, openwoprunid=..., source=...), "openwoprunid"),
        (envelope(data=PAYLOAD, openwoprunid=..., source="https://[bad/runs/x"), "openwoprunid"),
        (b"[]", None),
        (b"broken", None),
        (b"\xff", None),
        (envelope(id=7), None),
    ],
)
def test_what_is_refused_and_why(told: object, field: str | None) -> None:
    assert refused(told).field == field


REASONS = [
    (envelope(specversion="0.3"), "specversion is '0.3'; 1.0 is read"),
    (envelope(specversion=...), "specversion is missing; 1.0 is read"),
    (envelope(type=...), "type is missing"),
    (envelope(datacontenttype="application/xml"), "data is 'application/xml', not JSON"),
    (envelope(data=..., data_base64="***"), "data_base64 is not Base64"),
]


@pytest.mark.parametrize(("told", "reason"), REASONS)
def test_reasons_in_words(told: object, reason: str) -> None:
    assert refused(told).reason == reason


@pytest.mark.parametrize(
    ("changed", "field"),
    [({"time": ...}, "timestamp"), ({"openwopseq": ...}, "sequence"), ({"openwopseq": -1}, "sequence")],
)
def test_what_an_event_can_not_do_without_is_refused_by_its_reader(changed: dict[str, Any], field: str) -> None:
    raw = unwrap(compact(envelope(data=PAYLOAD, **changed)).encode(), index=0)
    assert isinstance(raw, RawEvent)
    item = read_event(raw.data, index=0)
    assert isinstance(item, Refusal) and item.field == field


def in_pieces(text: str, size: int) -> Iterator[bytes]:
    body = text.encode()
    return (body[start : start + size] for start in range(0, len(body), size))


@pytest.mark.parametrize("size", [1, 50, 10_000])
def test_batch(size: int) -> None:
    batch = [envelope(), {"no": "envelope"}, envelope(data=event(sequence=8))]
    items = list(read_batch(in_pieces(json.dumps(batch, indent=1), size)))
    assert [type(item) for item in items] == [RawEvent, Refusal, RawEvent]
    assert [item.index for item in items] == [0, 1, 2]


@pytest.mark.parametrize("size", [1, 50, 10_000])
def test_structured(size: int) -> None:
    (item,) = read_structured(in_pieces(json.dumps(envelope(), indent=1), size))
    assert isinstance(item, RawEvent)


def test_structured_is_bounded() -> None:
    (item,) = read_structured(in_pieces(compact(envelope(data=PAYLOAD)), 10), Limits(max_event_bytes=100))
    assert item == Refusal(0, "larger than MAX_EVENT_BYTES (100 bytes)")
    text = compact(envelope())
    (item,) = read_structured(in_pieces(text, 10), Limits(max_event_bytes=len(text)))
    assert isinstance(item, RawEvent)


@pytest.mark.parametrize("log", ["openwop-app/memory-trail", "sqlite/memory-multi", "python/multi-node"])
def test_a_recorded_log_comes_back_from_its_projection(log: str) -> None:
    for line in (RECORDINGS / log / "events.ndjson").read_bytes().splitlines():
        known = read_event(line, index=0)
        assert isinstance(known, RunEvent)
        told = envelope(
            id=known.event_id or "x",
            type=f"dev.openwop.event.{known.type}",
            subject=known.node_id or known.run_id,
            openwoprunid=known.run_id,
            data=json.loads(line),
        )
        assert opened(told).digest == known.digest
        apart = envelope(
            **told
            | {
                "time": json.loads(line)["timestamp"],
                "openwopseq": known.sequence,
                "data": json.loads(line).get("payload"),
            }
        )
        assert opened(apart).digest == known.digest
