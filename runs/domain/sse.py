"""Server-sent events as the HTML standard parses them (WHATWG, section 9.2.6), and the events inside a frame."""

import re
from dataclasses import dataclass

import msgspec

from runs.domain.limits import DEFAULT_LIMITS, LimitExceeded, Limits

# Told live and never part of a run's log: these take no place in its sequence.
TRANSIENT = frozenset(("state.snapshot", "ai.message.chunk", "run.annotated", "channel.presence"))

# A mixed stream names the mode instead of the type; what these two modes bring are no events of the log.
_MODES_OF_THEIR_OWN = frozenset(("values", "messages"))

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Milliseconds: beyond any pause that makes sense, and short enough for int().
_RETRY = re.compile(rb"[0-9]{1,15}")
_MARKS = tuple(name.encode() for name in sorted(TRANSIENT))


@dataclass(frozen=True, slots=True)
class Frame:
    """One dispatched frame. `id` and `retry` (ms) are None when it has no such field."""

    event: str
    data: bytes
    id: str | None = None
    retry: int | None = None


class FrameReader:
    """Cuts a stream into frames. A frame that no blank line has ended is never delivered.

    `last_event_id` is the cursor for `Last-Event-ID`: it moves when a frame is complete, never before.
    `comments` counts the lines by which a host keeps the connection alive. `retry` (ms) holds once it is read.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.last_event_id = ""
        self.comments = 0
        self.retry: int | None = None
        self._limit = limits.max_event_bytes
        self._mark: bytes | None = b""
        self._after_return = False
        self._exceeded = False
        self._line = bytearray()
        self._begin()

    @property
    def is_in_frame(self) -> bool:
        """Whether the stream, if it ended here, would end inside a frame."""
        return self._size > 0 or bool(self._line)

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that `chunk` completes.

        Raises LimitExceeded for a frame whose lines, comments apart, have more than MAX_EVENT_BYTES together;
        frames in front of it are delivered first. The reader is of no use after that.
        """
        frames: list[Frame] = []
        *lines, rest = _LINE_END.split(self._continued(chunk))
        for line in lines:
            self._extend(line)
            if self._exceeded:
                break
            self._end_line(frames)
        else:
            self._extend(rest)
        if self._exceeded and not frames:
            raise LimitExceeded("MAX_EVENT_BYTES", self._limit)
        return frames

    def _begin(self) -> None:
        self._event = ""
        self._data: list[bytes] = []
        self._id: str | None = None
        self._retry: int | None = None
        self._size = 0

    def _continued(self, chunk: bytes) -> bytes:
        """`chunk` without the rest of a CRLF and without a byte order mark at the start of the stream."""
        if self._mark is not None:
            chunk = self._mark + chunk
            is_undecided = len(chunk) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(chunk)
            self._mark = chunk if is_undecided else None
            chunk = b"" if is_undecided else chunk.removeprefix(_BYTE_ORDER_MARK)
        if not chunk:
            return b""
        continued = chunk[1:] if self._after_return and chunk.startswith(b"\n") else chunk
        self._after_return = chunk.endswith(b"\r")
        return continued

    def _extend(self, piece: bytes) -> None:
        self._line += piece
        if self._line.startswith(b":"):
            del self._line[1:]
        elif self._size + len(self._line) > self._limit:
            self._exceeded = True

    def _end_line(self, frames: list[Frame]) -> None:
        line = bytes(self._line)
        self._line.clear()
        if not line:
            self._end_frame(frames)
        elif line.startswith(b":"):
            self.comments += 1
        else:
            self._size += len(line)
            name, _, value = line.partition(b":")
            self._field(name, value.removeprefix(b" "))

    def _field(self, name: bytes, value: bytes) -> None:
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode(errors="replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode(errors="replace")
        elif name == b"retry" and _RETRY.fullmatch(value):
            self._retry = self.retry = int(value)

    def _end_frame(self, frames: list[Frame]) -> None:
        if self._id is not None:
            self.last_event_id = self._id
        if self._data:
            frames.append(Frame(self._event or "message", b"\n".join(self._data), self._id, self._retry))
        self._begin()


def events_of(frame: Frame) -> list[bytes]:
    """The run events in a frame: none, one, or those of a batch, each as it came.

    What cannot be told apart is passed on whole, to be refused with a reason by whoever reads it.
    """
    if why_ignored(frame) is not None:
        return []
    if not frame.data.lstrip().startswith(b"["):
        return [frame.data]
    try:
        elements = _ARRAY.decode(frame.data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return [frame.data]
    return [bytes(element) for element in elements if not _is_transient(element)]


def why_ignored(frame: Frame) -> str | None:
    """Why a frame carries no run event; None when it does. An array is only looked into by `events_of`."""
    if frame.event in TRANSIENT:
        return f"{frame.event} is not part of a run's log"
    if not frame.data.strip():
        return "a frame without data"
    if _is_transient(frame.data):
        return "a notification that is not part of a run's log"
    if frame.event in _MODES_OF_THEIR_OWN and not _is_placed(frame.data):
        return f"a frame of the {frame.event} mode"
    return None


_NULL = msgspec.Raw(b"null")


class _Envelope(msgspec.Struct):
    type: str = ""
    sequence: msgspec.Raw = _NULL
    seq: msgspec.Raw = _NULL


_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_ENVELOPE = msgspec.json.Decoder(_Envelope)


def _envelope(data: bytes | msgspec.Raw) -> _Envelope:
    try:
        return _ENVELOPE.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Envelope()


def _is_placed(data: bytes | msgspec.Raw) -> bool:
    """Whether this is an event with a place in a log: leaving it out would make a gap that nothing fills."""
    envelope = _envelope(data)
    return bool(envelope.type) and any(bytes(place) != b"null" for place in (envelope.sequence, envelope.seq))


def _is_transient(data: bytes | msgspec.Raw) -> bool:
    raw = bytes(data)
    if not any(mark in raw for mark in _MARKS):
        return False
    return _envelope(data).type in TRANSIENT and not _is_placed(data)
