"""Streams of bytes into raw events: NDJSON, a JSON array, gzip around either. However the bytes are cut into chunks,
the same items come out, and memory holds one event and one chunk.

What can be delimited but not read is left to `read_event`, which refuses it under the same index.
"""

import re
import zlib
from collections.abc import Callable, Iterable, Iterator

import msgspec

from runs.domain.event import Refusal
from runs.domain.limits import DEFAULT_LIMITS, LimitExceeded, Limits

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SPACE = b" \t\r\n"
_GZIP = zlib.MAX_WBITS | 16
_STEP = 256 * 1024


class RawEvent(msgspec.Struct, frozen=True, gc=False):
    """The bytes of one event, without white space around them. `index` counts elements, or lines, from 0."""

    index: int
    data: bytes


RawItem = RawEvent | Refusal


class BrokenStream(ValueError):
    """The bytes stop making sense here; what came before them is good."""


def within_body_limit(chunks: Iterable[bytes], limits: Limits = DEFAULT_LIMITS) -> Iterator[bytes]:
    """The same bytes; LimitExceeded behind the first MAX_BODY_BYTES of them, if there are more."""
    left = limits.max_body_bytes
    for chunk in chunks:
        if len(chunk) > left:
            yield chunk[:left]
            raise LimitExceeded("MAX_BODY_BYTES", limits.max_body_bytes)
        left -= len(chunk)
        yield chunk


def gunzip(chunks: Iterable[bytes], limits: Limits = DEFAULT_LIMITS) -> Iterator[bytes]:
    """The uncompressed bytes of one or more gzip members (RFC 1952 section 2.2).

    Raises BrokenStream where the stream ends early, is damaged or is not gzip, behind what could be read; and
    LimitExceeded like `within_body_limit`, so that a small body cannot unpack into a large one.
    """
    return within_body_limit(_inflated(chunks), limits)


def _inflated(chunks: Iterable[bytes]) -> Iterator[bytes]:
    member = zlib.decompressobj(wbits=_GZIP)
    is_begun = has_ended = False
    for chunk in chunks:
        pending = chunk
        while True:
            if has_ended and not is_begun:
                pending = pending.lstrip(b"\0")  # padding behind the last member, as gzip itself takes it
            if not pending:
                break
            is_begun = True
            yield from _outputs(member, pending)
            pending = member.unused_data
            if member.eof:
                is_begun, has_ended = False, True
                member = zlib.decompressobj(wbits=_GZIP)
    if is_begun or not has_ended:
        raise BrokenStream("gzip stream ends early")


def _outputs(member: "zlib._Decompress", data: bytes) -> Iterator[bytes]:
    while True:
        before = member.copy()
        try:
            output = member.decompress(data, _STEP)
        except zlib.error as error:
            yield from _outputs_before_damage(before, data)
            is_other = "header check" in str(error)
            raise BrokenStream("not a gzip stream" if is_other else "gzip stream is damaged") from error
        if output:
            yield output
        data = member.unconsumed_tail
        if member.eof or (not data and len(output) < _STEP):
            return


def _outputs_before_damage(member: "zlib._Decompress", data: bytes) -> Iterator[bytes]:
    # The call that meets the damage keeps what it had unpacked before it. Byte by byte, only the damage is lost.
    for position in range(len(data)):
        try:
            output = member.decompress(data[position : position + 1])
        except zlib.error:
            return
        if output:
            yield output


def read_ndjson(chunks: Iterable[bytes], limits: Limits = DEFAULT_LIMITS) -> Iterator[RawItem]:
    """One item a line, blank ones apart (they count as lines). A line over MAX_EVENT_BYTES is refused unread.

    A BrokenStream becomes the last Refusal; the line that it cut goes with it. Raises LimitExceeded over
    MAX_BODY_BYTES, behind the complete lines before it.
    """
    lines = _Lines(limits.max_event_bytes)
    try:
        for chunk in _without_mark(within_body_limit(chunks, limits)):
            yield from lines.feed(chunk)
    except BrokenStream as error:
        yield Refusal(lines.index, str(error))
    else:
        yield from lines.finish()


def read_json_array(chunks: Iterable[bytes], limits: Limits = DEFAULT_LIMITS) -> Iterator[RawItem]:
    """One item an element of the array that the bytes are. An element over MAX_EVENT_BYTES is refused unread.

    Where the array itself is broken, one Refusal says at which byte, and that is the end; so does a BrokenStream.
    Raises LimitExceeded over MAX_BODY_BYTES, behind the complete elements before it.
    """
    elements = _Elements(limits.max_event_bytes)
    try:
        for chunk in _without_mark(within_body_limit(chunks, limits)):
            yield from elements.feed(chunk)
            if elements.is_broken:
                return
    except BrokenStream as error:
        yield Refusal(elements.index, str(error))
    else:
        yield from elements.finish()


def _without_mark(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Without a byte order mark at the start (RFC 8259 section 8.1 lets a reader pass over it)."""
    start: bytes | None = b""
    for chunk in chunks:
        if start is None:
            yield chunk
            continue
        start += chunk
        if len(start) >= len(_BYTE_ORDER_MARK) or not _BYTE_ORDER_MARK.startswith(start):
            yield start.removeprefix(_BYTE_ORDER_MARK)
            start = None
    if start:
        yield start


class _Held:
    """The beginning of an item whose end has not come yet, or only its length once that is over the limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._length = 0

    def add(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length > self._limit:
            self._pieces.clear()
        else:
            self._pieces.append(piece)

    def take(self, index: int) -> RawItem | None:
        """The item, if it is not blank; what comes next is the next one."""
        data = b"".join(self._pieces).strip(_SPACE)
        is_oversized = self._length > self._limit
        self._pieces.clear()
        self._length = 0
        if is_oversized:
            return Refusal(index, f"larger than MAX_EVENT_BYTES ({self._limit} bytes)")
        return RawEvent(index, data) if data else None


class _Lines:
    def __init__(self, limit: int) -> None:
        self.index = 0
        self._limit = limit
        self._held = _Held(limit)

    def feed(self, chunk: bytes) -> Iterator[RawItem]:
        first, *lines = chunk.split(b"\n")
        self._held.add(first)
        if not lines:
            return
        yield from self.finish()
        last = lines.pop()
        for index, line in enumerate(lines, self.index):
            if len(line) > self._limit:
                yield Refusal(index, f"larger than MAX_EVENT_BYTES ({self._limit} bytes)")
            elif data := line.strip(_SPACE):
                yield RawEvent(index, data)
        self.index += len(lines)
        self._held.add(last)

    def finish(self) -> Iterator[RawItem]:
        item = self._held.take(self.index)
        if item is not None:
            yield item
        self.index += 1


_ANY = re.compile(rb"[^ \t\r\n]")
_OUTSIDE = re.compile(rb'["\[\]{},]')
# Up to the next bracket, over whole strings; a quote in its place opens a string that this chunk does not close.
_INSIDE = re.compile(rb'[^"\[\]{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{}]*+)*+(["\[\]{}])', re.DOTALL)
_IN_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)


class _Elements:
    """Cuts an array at its own commas. Each state is a method that reads on from a position and answers where it
    stopped."""

    def __init__(self, limit: int) -> None:
        self.index = 0
        self.is_broken = False
        self._held = _Held(limit)
        self._items: list[RawItem] = []
        self._read: Callable[[bytes, int], int] = self._before
        self._offset = 0
        self._start: int | None = None
        self._depth = 0
        self._follows_comma = False

    def feed(self, chunk: bytes) -> list[RawItem]:
        self._items = []
        position = 0
        while position < len(chunk) and not self.is_broken:
            position = self._read(chunk, position)
        if self._start is not None:
            self._held.add(chunk[self._start :])
            self._start = 0
        self._offset += len(chunk)
        return self._items

    def finish(self) -> Iterator[RawItem]:
        if self._read == self._before:
            yield Refusal(self.index, "empty, where a JSON array was expected")
        elif self._read != self._behind:
            yield Refusal(self.index, f"the JSON array ends early, at byte {self._offset}")

    def _before(self, chunk: bytes, position: int) -> int:
        found = _ANY.search(chunk, position)
        if found is None:
            return len(chunk)
        if found[0] != b"[":
            return self._break("not a JSON array", found.start())
        self._read = self._between
        return found.end()

    def _between(self, chunk: bytes, position: int) -> int:
        found = _ANY.search(chunk, position)
        if found is None:
            return len(chunk)
        if found[0] == b"]" and not self._follows_comma:
            self._read = self._behind
        elif found[0] in b",]":
            self._refuse_blank(found[0])
        else:
            self._start = found.start()
            self._read = self._outside
            return found.start()
        return found.end()

    def _refuse_blank(self, closing: bytes) -> None:
        self._items.append(Refusal(self.index, "nothing between two commas of the JSON array"))
        self._next(closing)

    def _outside(self, chunk: bytes, position: int) -> int:
        """In an element, but in no bracket of it."""
        found = _OUTSIDE.search(chunk, position)
        if found is None:
            return len(chunk)
        if found[0] in b",]":
            self._end_element(chunk, found.start())
            self._next(found[0])
        elif found[0] == b"}":
            return self._break("a bracket that was never opened", found.start())
        elif found[0] == b'"':
            self._read = self._string
        else:
            self._depth = 1
            self._read = self._inside
        return found.end()

    def _inside(self, chunk: bytes, position: int) -> int:
        while found := _INSIDE.match(chunk, position):
            position = found.end()
            if found[1] == b'"':
                self._read = self._string
                return position
            self._depth += 1 if found[1] in b"[{" else -1
            if not self._depth:
                self._read = self._outside
                return position
        return len(chunk)

    def _string(self, chunk: bytes, position: int) -> int:
        found = _IN_STRING.match(chunk, position)
        end = found.end() if found else position
        if chunk[end : end + 1] == b'"':
            self._read = self._inside if self._depth else self._outside
        elif end < len(chunk):
            self._read = self._escaped
        return end + 1

    def _escaped(self, chunk: bytes, position: int) -> int:
        self._read = self._string
        return position + 1

    def _behind(self, chunk: bytes, position: int) -> int:
        found = _ANY.search(chunk, position)
        return len(chunk) if found is None else self._break("more text behind the JSON array", found.start())

    def _end_element(self, chunk: bytes, end: int) -> None:
        self._held.add(chunk[self._start : end])
        self._start = None
        item = self._held.take(self.index)
        if item is not None:
            self._items.append(item)

    def _next(self, closing: bytes) -> None:
        self.index += 1
        self._follows_comma = closing == b","
        self._read = self._between if self._follows_comma else self._behind

    def _break(self, complaint: str, position: int) -> int:
        self._items.append(Refusal(self.index, f"{complaint}, at byte {self._offset + position}"))
        self._start = None
        self.is_broken = True
        return position
