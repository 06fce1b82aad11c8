from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.domain.limits import LimitExceeded, Limits
from runs.domain.sse import Frame, FrameReader, events_of, why_ignored

from .examples import RECORDINGS, taken


def frames(*chunks: bytes) -> list[Frame]:
    reader = FrameReader()
    return [frame for chunk in chunks for frame in reader.feed(chunk)]


def byte_by_byte(stream: bytes) -> Iterable[bytes]:
    return (stream[at : at + 1] for at in range(len(stream)))


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"", []),
        (b"data: a\n\n", [Frame("message", b"a")]),
        (
            b"data:a\r\rdata:b\r\n\r\ndata:c\n\n",
            [Frame("message", b"a"), Frame("message", b"b"), Frame("message", b"c")],
        ),
        (b"id: 7\nevent: memory.written\ndata: {}\n\n", [Frame("memory.written", b"{}", "7")]),
        (b"data: a\ndata:\ndata:  b\n\n", [Frame("message", b"a\n\n b")]),
        (b"data\n\ndata\ndata\n\n", [Frame("message", b""), Frame("message", b"\n")]),
        (b"data:x:y\n\n", [Frame("message", b"x:y")]),
        (b": hello\n\n: there\ndata: a\n\n", [Frame("message", b"a")]),
        (b"event: a\nevent: b\ndata: 1\n\n", [Frame("b", b"1")]),
        (b"event: a\n\ndata: 1\n\n", [Frame("message", b"1")]),
        (b"event:\ndata: 1\n\n", [Frame("message", b"1")]),
        (b"id: 1\ndata: a\n\ndata: b\n\n", [Frame("message", b"a", "1"), Frame("message", b"b")]),
        (b"id\ndata: a\n\n", [Frame("message", b"a", "")]),
        (b"id: 1\nid: 2\0\ndata: a\n\n", [Frame("message", b"a", "1")]),
        (b"retry: 250\ndata: a\n\n", [Frame("message", b"a", None, 250)]),
        (b"retry: 1s\nretry: -1\nretry:\nretry: 9999999999999999\ndata: a\n\n", [Frame("message", b"a")]),
        (b"unknown: 1\nDATA: x\n data: y\ndata : z\ndata: a\n\n", [Frame("message", b"a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [Frame("message", b"a")]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", [Frame("message", b"b")]),
        (
            "data: a\u2028b\u2029c\x0bd\x0c\x85e\n\n".encode(),
            [Frame("message", "a\u2028b\u2029c\x0bd\x0c\x85e".encode())],
        ),
        (b"event: \xff\ndata: \xff\n\n", [Frame("\ufffd", b"\xff")]),
        (b"data: a\n", []),
        (b"id: 9\ndata: a", []),
    ],
)
def test_stream_is_read_by_the_standard(stream: bytes, expected: list[Frame]) -> None:
    assert frames(stream) == expected
    assert frames(*byte_by_byte(stream)) == expected


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_line_ends_may_be_cut_in_two(end: bytes) -> None:
    stream = b"data: a" + end + b"id: 1" + end + end + b"data: b" + end + end
    for at in range(len(stream)):
        reader = FrameReader()
        assert reader.feed(stream[:at]) + reader.feed(stream[at:]) == [
            Frame("message", b"a", "1"),
            Frame("message", b"b"),
        ]


def test_return_ends_a_line_at_once() -> None:
    reader = FrameReader()
    assert reader.feed(b"data: a\r") == []
    assert reader.feed(b"\r") == [Frame("message", b"a")]
    assert reader.feed(b"\n") == []
    assert reader.feed(b"data: b\r\r") == [Frame("message", b"b")]


def test_cursor_moves_with_complete_frames_only() -> None:
    reader = FrameReader()
    reader.feed(b"id: 1\ndata: a\n\nid: 2\ndata: b\n")
    assert reader.last_event_id == "1"
    assert reader.is_in_frame
    reader.feed(b"\n")
    assert reader.last_event_id == "2"
    assert not reader.is_in_frame


def test_cursor_stays_behind_a_frame_without_id_and_moves_with_one_without_data() -> None:
    reader = FrameReader()
    reader.feed(b"id: 5\ndata: a\n\ndata: b\n\n")
    assert reader.last_event_id == "5"
    assert reader.feed(b"id: 6\n\n") == []
    assert reader.last_event_id == "6"


def test_signs_of_life_are_counted() -> None:
    reader = FrameReader()
    reader.feed(b": open\n\n:\n: heart")
    assert reader.comments == 2
    reader.feed(b"beat\n")
    assert reader.comments == 3


def test_pause_holds_before_its_frame_is_complete() -> None:
    reader = FrameReader()
    reader.feed(b"retry: 1500\n")
    assert reader.retry == 1500


@given(
    st.text(alphabet="dataideventry:\x00 1\r\n", max_size=60).map(str.encode), st.lists(st.integers(0, 8), max_size=20)
)
def test_frames_do_not_depend_on_the_chunks(stream: bytes, sizes: list[int]) -> None:
    whole, cut = FrameReader(), FrameReader()
    expected = whole.feed(stream)
    read = []
    for size in sizes:
        read += cut.feed(stream[:size])
        stream = stream[size:]
    read += cut.feed(stream)
    assert read == expected
    assert (cut.last_event_id, cut.comments, cut.retry) == (whole.last_event_id, whole.comments, whole.retry)


ends = st.sampled_from(["\n", "\r", "\r\n"])
blocks = st.tuples(st.integers(0, 99), st.text(alphabet="ab: \u2028", max_size=5), ends)


@given(st.lists(blocks, min_size=1, max_size=5), st.data())
def test_cut_anywhere_an_unfinished_frame_neither_appears_nor_moves_the_cursor(
    told: list[tuple[int, str, str]], data: st.DataObject
) -> None:
    written = [f"id: {number}{end}data: {text}{end}{end}".encode() for number, text, end in told]
    stream = b"".join(written)
    at = data.draw(st.integers(0, len(stream)))
    # A frame is there once its second line end has begun: a return alone ends it.
    complete, behind = 0, 0
    for block, (_, _, end) in zip(written, told, strict=True):
        behind += len(block)
        if at >= behind - (1 if end == "\r\n" else 0):
            complete += 1
    reader = FrameReader()
    read = reader.feed(stream[:at])
    assert [frame.data for frame in read] == [text.encode() for _, text, _ in told[:complete]]
    assert reader.last_event_id == (str(told[complete - 1][0]) if complete else "")


LIMIT = Limits(max_event_bytes=30)


@pytest.mark.parametrize("is_cut", [False, True])
def test_frame_over_the_limit_is_an_error_by_the_limits_name(is_cut: bool) -> None:
    for stream in (b"data: " + b"x" * 25, b"data: " + b"x" * 12 + b"\ndata: " + b"x" * 9, b"junk" * 8):
        reader = FrameReader(LIMIT)
        with pytest.raises(LimitExceeded, match="MAX_EVENT_BYTES .30 bytes"):
            for chunk in byte_by_byte(stream) if is_cut else [stream]:
                reader.feed(chunk)


def test_frames_before_the_one_over_the_limit_are_delivered() -> None:
    reader = FrameReader(LIMIT)
    assert reader.feed(b"id: 1\ndata: a\n\nid: 2\ndata: " + b"x" * 30) == [Frame("message", b"a", "1")]
    with pytest.raises(LimitExceeded):
        reader.feed(b"x")
    assert reader.last_event_id == "1"


def test_limit_is_that_of_one_frame() -> None:
    reader = FrameReader(LIMIT)
    stream = (b"data: " + b"x" * 24 + b"\n\n: " + b"y" * 99 + b"\n") * 9
    assert len([frame for chunk in byte_by_byte(stream) for frame in reader.feed(chunk)]) == 9


ONE = b'{"runId":"r","sequence":1,"type":"a"}'
TWO = b'{"runId":"r", "sequence":2,"type":"b","payload":1.10}'


@pytest.mark.parametrize(
    ("frame", "events"),
    [
        (Frame("a", ONE), [ONE]),
        (Frame("message", ONE), [ONE]),
        (Frame("batch", b"[" + ONE + b",\n" + TWO + b"]"), [ONE, TWO]),
        (Frame("updates", b" [" + ONE + b"]"), [ONE]),
        (Frame("batch", ONE), [ONE]),
        (Frame("batch", b"[]"), []),
        (Frame("batch", b"[" + ONE + b", broken"), [b"[" + ONE + b", broken"]),
        (Frame("a", b"broken"), [b"broken"]),
        (Frame("a", b"\xff"), [b"\xff"]),
        (Frame("batch", b"[" * 5000), [b"[" * 5000]),
        (Frame("batch", b'[{"type":"run.annotated","payload":{}},' + ONE + b"]"), [ONE]),
        # An event with a place in the log stays: without it there would be a gap that nothing fills.
        (Frame("updates", b'{"type":"channel.presence","sequence":4}'), [b'{"type":"channel.presence","sequence":4}']),
        (Frame("values", ONE), [ONE]),
    ],
)
def test_events_of_a_frame_come_as_they_are(frame: Frame, events: list[bytes]) -> None:
    assert events_of(frame) == events
    assert why_ignored(frame) is None


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (Frame("state.snapshot", b'{"status":"running"}'), "state.snapshot is not part of a run's log"),
        (Frame("ai.message.chunk", b'{"chunk":"a"}'), "ai.message.chunk is not part of a run's log"),
        (Frame("run.annotated", b"{}"), "run.annotated is not part of a run's log"),
        (Frame("channel.presence", b"{}"), "channel.presence is not part of a run's log"),
        (Frame("message", b""), "a frame without data"),
        (Frame("updates", b'{"type":"run.annotated"}'), "a notification that is not part of a run's log"),
        (Frame("messages", b'{"chunk":"a","isLast":true}'), "a frame of the messages mode"),
        (Frame("values", b'{"status":"running"}'), "a frame of the values mode"),
    ],
)
def test_frame_without_events_says_why(frame: Frame, reason: str) -> None:
    assert events_of(frame) == []
    assert why_ignored(frame) == reason


@pytest.mark.parametrize("path", sorted(RECORDINGS.rglob("*.sse")), ids=lambda path: "/".join(path.parts[-3:]))
def test_recorded_stream_tells_what_the_log_tells(path: object) -> None:
    from pathlib import Path

    assert isinstance(path, Path)
    log = [json.loads(line) for line in (path.parent / "events.ndjson").read_bytes().splitlines()]
    read = [taken(raw) for frame in frames(*byte_by_byte(path.read_bytes())) for raw in events_of(frame)]
    assert [event.sequence for event in read] == [event["sequence"] for event in log]
    assert [event.reported_type for event in read] == [event["type"] for event in log]
    by_log = [taken(json.dumps(event)) for event in log]
    assert [event.digest for event in read if event.has_payload] == [
        known.digest for known, event in zip(by_log, read, strict=True) if event.has_payload
    ]
