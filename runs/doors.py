"""Bytes into items for the intake, the same way for a push, an upload and a file on the command line.

Whatever is wrong with the bytes becomes a refusal at its place, and what comes before it is taken in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import chain
from time import perf_counter

import orjson
from django.conf import settings

from openwop_ui import metrics

from .domain.event import Refusal, RunEvent
from .domain.limits import LimitExceeded, Limits
from .domain.normalise import read_event
from .domain.reading import (
    BrokenStream,
    RawEvent,
    RawItem,
    gunzip,
    read_json_array,
    read_ndjson,
)
from .store import HostRef, Receipt, take_in

CHUNK = 64 * 1024
GZIP = b"\x1f\x8b"
FOREIGN = {b"\x28\xb5\x2f\xfd": "zstd", b"PK\x03\x04": "zip", b"\xfd7zXZ": "xz", b"BZh": "bzip2"}
BOM = b"\xef\xbb\xbf"
SPACE = b" \t\r\n"

JSON = "application/json"
NDJSON = "application/x-ndjson"
_LINES_NAME = re.compile(r"\.(?:ndjson|jsonl)(?:\.gz)?\Z", re.IGNORECASE)
# Where a pretty-printer breaks an object's first line. An object on one line ends in a closing bracket.
_BROKEN_OFF = (b"{", b"[", b",", b":")


class Form(Enum):
    LINES = auto()
    ARRAY = auto()
    OBJECT = auto()


@dataclass(slots=True)
class Items:
    """What the bytes hold, read as it is iterated over, once. After that ``broken`` says why it ended early, if so."""

    chunks: Iterable[bytes]
    content_type: str
    encoding: str
    name: str
    run_id: str | None
    limits: Limits
    broken: LimitExceeded | BrokenStream | None = field(default=None, init=False)

    def __iter__(self) -> Iterator[RunEvent | Refusal]:
        place = 0
        try:
            for raw in self._raw():
                place = raw.index + 1
                if isinstance(raw, Refusal):
                    yield raw
                else:
                    yield read_event(raw.data, index=raw.index, run_id=self.run_id, limits=self.limits)
        except (LimitExceeded, BrokenStream) as problem:
            self.broken = problem
            yield Refusal(place, str(problem))

    def _raw(self) -> Iterator[RawItem]:
        head, chunks = _peek(self.chunks, lambda seen: len(seen) >= max(map(len, FOREIGN)))
        if self.encoding == "gzip" or head.startswith(GZIP):
            chunks = self._unpacked(chunks)
        elif found := next((form for magic, form in FOREIGN.items() if head.startswith(magic)), None):
            raise BrokenStream(f"the bytes are {found}; plain and gzip are read")
        form, chunks = self._form(chunks)
        match form:
            case Form.LINES:
                return read_ndjson(chunks, self.limits)
            case Form.ARRAY:
                return read_json_array(chunks, self.limits)
            case Form.OBJECT:
                return _one_event(chunks, self.limits)

    def _unpacked(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        try:
            yield from gunzip(chunks, self.limits)
        except BrokenStream as problem:
            self.broken = problem  # the readers turn it into their last refusal, at its place
            raise

    def _form(self, chunks: Iterable[bytes]) -> tuple[Form, Iterable[bytes]]:
        if self.content_type == NDJSON:
            return Form.LINES, chunks
        longest = self.limits.max_event_bytes
        head, chunks = _peek(chunks, lambda seen: bool(_text(seen)) or len(seen) > longest)
        if _text(head).startswith(b"["):
            return Form.ARRAY, chunks
        if self.content_type == JSON:
            return Form.OBJECT, chunks
        if _LINES_NAME.search(self.name):
            return Form.LINES, chunks
        line, chunks = _peek(chunks, lambda seen: b"\n" in _text(seen) or len(seen) > longest)
        return (Form.OBJECT if _is_printed_out(_text(line)) else Form.LINES), chunks


def read_items(
    chunks: Iterable[bytes],
    *,
    content_type: str = "",
    encoding: str = "",
    name: str = "",
    run_id: str | None = None,
    limits: Limits | None = None,
) -> Items:
    """Events as NDJSON, as a JSON array or one alone; gzip is known by ``encoding`` or by its first bytes.

    ``content_type`` is JSON or NDJSON; without one, ``name`` and the first characters say which it is. With
    ``run_id`` events of another run are refused, and those that name none belong to it.
    """
    return Items(chunks, content_type, encoding, name, run_id, limits or configured_limits())


def configured_limits() -> Limits:
    return Limits(max_event_bytes=settings.MAX_EVENT_BYTES, max_body_bytes=settings.MAX_BODY_BYTES)


def take(host: HostRef, items: Items, *, on_batch: Callable[[Receipt], None] | None = None) -> Receipt:
    """Hands the items to the intake and counts them. See `runs.store.take_in`."""
    counted = _Counted(items)

    def count(receipt: Receipt) -> None:
        counted.batch(receipt)
        if on_batch:
            on_batch(receipt)

    receipt = take_in(host, counted, on_batch=count)
    metrics.events.labels("refused").inc(receipt.refused_total)
    return receipt


@dataclass(slots=True)
class _Counted:
    items: Items
    accepted: int = 0
    repeated: int = 0
    handed_over: float = 0.0

    def __iter__(self) -> Iterator[RunEvent | Refusal]:
        for item in self.items:
            self.handed_over = perf_counter()
            yield item
        self.handed_over = perf_counter()

    def batch(self, receipt: Receipt) -> None:
        """A batch is committed right after its last item was handed over."""
        metrics.batch_seconds.observe(perf_counter() - self.handed_over)
        metrics.events.labels("accepted").inc(receipt.accepted - self.accepted)
        metrics.events.labels("repeated").inc(receipt.repeated - self.repeated)
        self.accepted, self.repeated = receipt.accepted, receipt.repeated


def _peek(chunks: Iterable[bytes], enough: Callable[[bytearray], bool]) -> tuple[bytes, Iterable[bytes]]:
    """The beginning, as long as it takes to be ``enough``, and all of it again."""
    rest = iter(chunks)
    seen = bytearray()
    for chunk in rest:
        seen += chunk
        if enough(seen):
            break
    head = bytes(seen)
    return head, chain([head], rest)


def _text(seen: bytes | bytearray) -> bytes | bytearray:
    return seen.removeprefix(BOM).lstrip(SPACE)


def _is_printed_out(head: bytes | bytearray) -> bool:
    """Whether one object goes over several lines, which NDJSON forbids."""
    line = head.partition(b"\n")[0].rstrip(SPACE)
    if not line.startswith(b"{") or not line.endswith(_BROKEN_OFF):
        return False
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return True
    return False


def _one_event(chunks: Iterable[bytes], limits: Limits) -> Iterator[RawItem]:
    whole = bytearray()
    for chunk in chunks:
        whole += chunk
        if len(whole) > limits.max_event_bytes:
            break
    # One that is too long is for the reader of events to refuse, by its limit's name.
    if len(whole) > limits.max_event_bytes or whole.strip(SPACE):
        yield RawEvent(0, bytes(whole))
