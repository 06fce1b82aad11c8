"""Bytes into items: forms, packings, limits and what is kept when the bytes break off."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from runs.domain.event import Refusal, RunEvent
from runs.domain.limits import Limits
from runs.doors import JSON, NDJSON, Items, read_items
from tests.factories import as_ndjson, make_event

SMALL = Limits(max_event_bytes=4096, max_body_bytes=64 * 1024)
THREE = [make_event(0), make_event(1), make_event(2)]
ARRAY = json.dumps(THREE).encode()
LINES = as_ndjson(THREE)


def in_pieces(data: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def sequences(items: Items) -> list[int | str]:
    """Sequences of events, reasons of refusals."""
    return [item.sequence if isinstance(item, RunEvent) else item.reason for item in items]


@pytest.mark.parametrize("size", [1, 7, 64 * 1024])
@pytest.mark.parametrize(
    ("body", "told"),
    [
        (ARRAY, {"content_type": JSON}),
        (json.dumps(THREE, indent=2).encode(), {"content_type": JSON}),
        (LINES, {"content_type": NDJSON}),
        (LINES.replace(b"\n", b"\r\n\r\n"), {"content_type": NDJSON}),
        (LINES.rstrip(), {"content_type": NDJSON}),
        (gzip.compress(ARRAY), {"content_type": JSON, "encoding": "gzip"}),
        (gzip.compress(LINES), {"content_type": NDJSON}),
        (gzip.compress(LINES[:300]) + gzip.compress(LINES[300:]), {"content_type": NDJSON, "encoding": "gzip"}),
        (ARRAY, {"name": "events.json"}),
        (ARRAY, {"name": "misnamed.ndjson"}),
        (LINES, {"name": "events.json"}),
        (LINES, {"name": "-"}),
        (b"\n\n" + LINES, {}),
        (b"\xef\xbb\xbf" + LINES, {}),
        (b"\xef\xbb\xbf" + ARRAY, {}),
        (gzip.compress(ARRAY), {"name": "events.json.gz"}),
        (gzip.compress(LINES), {"name": "no-suffix"}),
    ],
)
def test_every_form_gives_the_same_events(body: bytes, told: dict[str, Any], size: int) -> None:
    items = read_items(in_pieces(body, size), limits=SMALL, **told)
    assert sequences(items) == [0, 1, 2]
    assert items.broken is None


@pytest.mark.parametrize("told", [{"content_type": JSON}, {"name": "event.json"}, {"name": "-"}])
@pytest.mark.parametrize("indent", [None, 2])
def test_one_event_alone_is_read_also_when_it_is_pretty_printed(told: dict[str, Any], indent: int | None) -> None:
    body = json.dumps(make_event(5), indent=indent).encode()
    assert sequences(read_items(in_pieces(body, 11), limits=SMALL, **told)) == [5]


@pytest.mark.parametrize("body", [b"", b"  \n\n", b"[]", b" [ ] "])
@pytest.mark.parametrize("told", [{"content_type": JSON}, {"name": "-"}])
def test_nothing_is_no_event_and_no_refusal(body: bytes, told: dict[str, Any]) -> None:
    items = read_items([body], limits=SMALL, **told)
    assert list(items) == []
    assert items.broken is None


def test_a_file_whose_first_line_is_broken_is_still_read_line_by_line() -> None:
    body = b'{"runId": "run-1", "type":}\n' + LINES
    items = list(read_items([body], name="events.log", limits=SMALL))
    assert isinstance(items[0], Refusal)
    assert items[0].index == 0
    assert [item.sequence for item in items[1:] if isinstance(item, RunEvent)] == [0, 1, 2]


def test_a_truncated_gzip_stream_gives_what_it_holds_and_names_the_place() -> None:
    # Incompressible events, so that cutting off the end of the stream cuts off the last event only.
    events = [make_event(n, payload={"noise": f"{n * 7919:032x}{n * 104729:032x}"}) for n in range(50)]
    body = gzip.compress(as_ndjson(events))
    items = read_items(in_pieces(body[:-40], 100), content_type=NDJSON, encoding="gzip", limits=SMALL)
    found = list(items)
    read = [item.sequence for item in found if isinstance(item, RunEvent)]
    assert read == list(range(len(read)))
    assert len(read) >= 40
    assert isinstance(found[-1], Refusal)
    assert found[-1].index == len(read)
    assert "gzip" in found[-1].reason
    assert items.broken is not None


@pytest.mark.parametrize(
    ("body", "named"),
    [(b"\x04\x22M\x180000", "lz4"), (b"PK\x03\x040000", "zip"), (b"\xfd7zXZ\x00", "xz"), (b"BZh91AY", "bzip2")],
)
def test_another_packing_is_named_and_not_taken_for_broken_json(body: bytes, named: str) -> None:
    items = read_items([body], name="events.json", limits=SMALL)
    (refusal,) = items
    assert isinstance(refusal, Refusal)
    assert named in refusal.reason


def test_what_is_said_to_be_gzip_and_is_not_is_refused() -> None:
    items = read_items([LINES], content_type=NDJSON, encoding="gzip", limits=SMALL)
    (refusal,) = items
    assert isinstance(refusal, Refusal)
    assert items.broken is not None


@pytest.mark.parametrize("packed", [False, True])
def test_a_body_over_the_limit_gives_what_fits_and_names_the_limit(packed: bool) -> None:
    events = [make_event(n) for n in range(1000)]
    body = as_ndjson(events)
    fitting = body[: SMALL.max_body_bytes].count(b"\n")
    items = read_items(in_pieces(gzip.compress(body) if packed else body, 1000), content_type=NDJSON, limits=SMALL)
    found = list(items)
    assert [item.sequence for item in found if isinstance(item, RunEvent)] == list(range(fitting))
    assert isinstance(found[-1], Refusal)
    assert "MAX_BODY_BYTES" in found[-1].reason
    assert found[-1].index == fitting


def test_a_compression_bomb_is_stopped_at_the_limit() -> None:
    bomb = gzip.compress(b"[" + b" " * 50_000_000)
    items = read_items([bomb], content_type=JSON, limits=SMALL)
    assert all(isinstance(item, Refusal) for item in items)
    assert "MAX_BODY_BYTES" in str(items.broken)


def test_one_event_over_its_limit_is_refused_and_the_next_is_read() -> None:
    big = make_event(1, payload={"text": "x" * 10_000})
    items = list(read_items([as_ndjson([THREE[0], big, THREE[2]])], content_type=NDJSON, limits=SMALL))
    assert isinstance(items[1], Refusal)
    assert items[1].index == 1
    assert "MAX_EVENT_BYTES" in items[1].reason
    assert [item.sequence for item in items if isinstance(item, RunEvent)] == [0, 2]


def test_blank_space_without_end_does_not_fill_the_memory() -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield b" " * 4096

    items = read_items(endless(), name="-", limits=SMALL)
    assert [item.reason for item in items if isinstance(item, Refusal)] == [str(items.broken)]
    assert "MAX_BODY_BYTES" in str(items.broken)


def test_events_of_another_run_are_refused_and_those_without_one_belong_to_the_run() -> None:
    nameless = {key: value for key, value in make_event(1).items() if key != "runId"}
    body = as_ndjson([make_event(0, run="mine"), nameless, make_event(2, run="other")])
    mine, taken, foreign = read_items([body], content_type=NDJSON, run_id="mine", limits=SMALL)
    assert isinstance(mine, RunEvent)
    assert isinstance(taken, RunEvent)
    assert taken.run_id == "mine"
    assert isinstance(foreign, Refusal)
    assert (foreign.index, foreign.field) == (2, "runId")


def test_an_event_behind_too_much_blank_space_is_refused_not_passed_over() -> None:
    body = b" " * 5000 + json.dumps(make_event(0)).encode()
    (refusal,) = read_items([body], content_type=JSON, limits=SMALL)
    assert isinstance(refusal, Refusal)
    assert "MAX_EVENT_BYTES" in refusal.reason
