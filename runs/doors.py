"""Bytes into items for the intake, the same way for a push, an upload and a file on the command line.

Whatever is wrong with the bytes becomes a refusal at its place, and what comes before it is taken in. A debug bundle
is one JSON object, so of a broken one nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import msgspec
from django.conf import settings

from openwop_ui import metrics

from .bundle_memory import offer
from .domain.bundle import MAX_BUNDLE_BYTES, BundleFacts, NotABundle, read_bundle
from .domain.cloudevents import unwrapped
from .domain.event import Refusal, RunEvent
from .domain.formats import HEAD_BYTES, LONGEST_MARK, NDJSON_TYPES, Foreign, Form, Format, Packing, packing_of, sniff
from .domain.formats import JSON as JSON
from .domain.limits import LimitExceeded, Limits
from .domain.normalise import ANOTHER_RUN, read_event
from .domain.reading import (
    BrokenStream,
    RawEvent,
    RawItem,
    gunzip,
    read_json_array,
    read_ndjson,
)
from .domain.zstd import unzstd
from .store import HostRef, Receipt, keep_import, take_in

CHUNK = 64 * 1024
SPACE = b" \t\r\n"
NDJSON = "application/x-ndjson"
BUNDLE = Format(Form.BUNDLE)

ENCODINGS = {"gzip": Packing.GZIP, "zstd": Packing.ZSTD}
"""The content codings (RFC 9110, section 8.4.1; RFC 8878, section 7.2) that are taken off."""
_UNPACKED_BY = {Packing.GZIP: gunzip, Packing.ZSTD: unzstd}


@dataclass(slots=True)
class Items:
    """What the bytes hold, read as it is iterated over, once. After that ``broken`` says why it ended early, if so,
    and ``bundle`` what a debug bundle says around its events, ``strays`` of which were refused as another run's."""

    chunks: Iterable[bytes]
    content_type: str
    encoding: str
    name: str
    run_id: str | None
    form: Format | None
    limits: Limits
    broken: LimitExceeded | BrokenStream | None = field(default=None, init=False)
    bundle: BundleFacts | None = field(default=None, init=False)
    strays: int = field(default=0, init=False)

    def __iter__(self) -> Iterator[RunEvent | Refusal]:
        place = 0
        try:
            for raw in self._raw():
                place = raw.index + 1
                if isinstance(raw, Refusal):
                    yield raw
                elif self.bundle is None:
                    yield read_event(raw.data, index=raw.index, run_id=self.run_id, limits=self.limits)
                else:
                    yield self._read_in_bundle(raw, self.bundle)
        except (LimitExceeded, BrokenStream) as problem:
            self.broken = problem
            yield Refusal(place, str(problem))

    def _read_in_bundle(self, raw: RawEvent, bundle: BundleFacts) -> RunEvent | Refusal:
        item = read_event(raw.data, index=raw.index, run_id=self.run_id or bundle.run_id, limits=self.limits)
        if isinstance(item, Refusal):
            self.strays += item.reason == ANOTHER_RUN
            return item
        return msgspec.structs.replace(item, may_be_masked=True) if bundle.is_redacted else item

    def _raw(self) -> Iterator[RawItem]:
        chunks = self._unpacked(self.chunks)
        form, chunks = (self.form, chunks) if self.form else self._sniffed(chunks)
        if form.form is Form.BUNDLE:
            return self._of_bundle(chunks)
        items = self._items(form.form, chunks)
        return unwrapped(items) if form.is_cloudevents else items

    def _items(self, form: Form, chunks: Iterable[bytes]) -> Iterator[RawItem]:
        match form:
            case Form.LINES:
                return read_ndjson(chunks, self.limits)
            case Form.ARRAY:
                return read_json_array(chunks, self.limits)
        return _one_event(chunks, self.limits)

    def _of_bundle(self, chunks: Iterable[bytes]) -> Iterator[RawItem]:
        try:
            read = read_bundle(chunks, max_bytes=min(MAX_BUNDLE_BYTES, self.limits.max_body_bytes))
        except NotABundle as problem:
            yield Refusal(0, str(problem))
            return
        self.bundle = read.facts
        yield from read.events

    def _unpacked(self, chunks: Iterable[bytes]) -> Iterable[bytes]:
        head, chunks = _peek(chunks, lambda seen, _: len(seen) >= LONGEST_MARK, self.limits)
        try:
            packing = ENCODINGS.get(self.encoding) or packing_of(head)
        except Foreign as problem:
            raise BrokenStream(str(problem)) from problem
        unpack = _UNPACKED_BY.get(packing)
        return self._noting_damage(unpack(chunks, self.limits)) if unpack else chunks

    def _noting_damage(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        try:
            yield from chunks
        except BrokenStream as problem:
            self.broken = problem  # the readers turn it into their last refusal, at its place
            raise

    def _sniffed(self, chunks: Iterable[bytes]) -> tuple[Format, Iterable[bytes]]:
        is_lines = self.content_type in NDJSON_TYPES

        def is_enough(seen: bytearray, start: int) -> bool:
            # Who sends lines may take their time between them: the first one says it all.
            return len(seen) - start >= HEAD_BYTES or (is_lines and seen.find(b"\n", start) >= 0)

        head, chunks = _peek(chunks, is_enough, self.limits)
        return sniff(head, name=self.name, content_type=self.content_type), chunks


def read_items(
    chunks: Iterable[bytes],
    *,
    content_type: str = "",
    encoding: str = "",
    name: str = "",
    run_id: str | None = None,
    form: Format | None = None,
    limits: Limits | None = None,
) -> Items:
    """Events as NDJSON, as a JSON array, in a debug bundle or one alone; CloudEvents structured, in a batch or one a
    line; plain, gzip or zstd.

    ``form`` says which form it is; without one ``content_type``, the first characters and ``name`` do. How it is packed
    is told by ``encoding`` (of ENCODINGS) or by the first bytes. With ``run_id`` events of another run are refused, and
    those that name none belong to it.
    """
    return Items(chunks, content_type, encoding, name, run_id, form, limits or configured_limits())


def configured_limits() -> Limits:
    return Limits(max_event_bytes=settings.MAX_EVENT_BYTES, max_body_bytes=settings.MAX_BODY_BYTES)


def take(host: HostRef, items: Items, *, on_batch: Callable[[Receipt], None] | None = None) -> Receipt:
    """Hands the items to the intake and counts them, then keeps what a bundle says of its run.

    See `runs.store.take_in`.
    """
    counted = _Counted(on_batch)
    receipt = take_in(host, items, on_batch=counted.batch)
    metrics.events.labels("refused").inc(receipt.refused_total)
    if items.bundle is not None:
        _keep_facts(host, items, items.bundle, receipt)
    return receipt


def _keep_facts(host: HostRef, items: Items, bundle: BundleFacts, receipt: Receipt) -> None:
    told = items.run_id or bundle.run_id
    # A bundle that names no run has events that do; they may be of one run only.
    run_id = told if told is not None else next(iter(receipt.runs)) if len(receipt.runs) == 1 else None
    if run_id is not None:
        strays = items.strays if items.run_id is None else 0
        for noticed in keep_import(host, run_id, bundle, strays=strays):
            receipt.notice(noticed)
        offer(host, run_id, bundle)


@dataclass(slots=True)
class _Counted:
    on_batch: Callable[[Receipt], None] | None
    accepted: int = 0
    repeated: int = 0

    def batch(self, receipt: Receipt) -> None:
        metrics.events.labels("accepted").inc(receipt.accepted - self.accepted)
        metrics.events.labels("repeated").inc(receipt.repeated - self.repeated)
        self.accepted, self.repeated = receipt.accepted, receipt.repeated
        if self.on_batch:
            self.on_batch(receipt)


def _peek(
    chunks: Iterable[bytes], is_enough: Callable[[bytearray, int], bool], limits: Limits
) -> tuple[bytes, Iterable[bytes]]:
    """The beginning, and all of it again. It ends where it ``is_enough``, which is asked with what was seen and where
    in that the blank space ends, or at the largest event's size."""
    rest = iter(chunks)
    seen = bytearray()
    start: int | None = None
    problem: ValueError | None = None
    try:
        for chunk in rest:
            if start is None and (text := chunk.lstrip(SPACE)):
                start = len(seen) + len(chunk) - len(text)
            seen += chunk
            if len(seen) > limits.max_event_bytes or (start is not None and is_enough(seen, start)):
                break
    except (LimitExceeded, BrokenStream) as found:
        problem = found
    head = bytes(seen)
    return head, _again(head, rest, problem)


def _again(head: bytes, rest: Iterator[bytes], problem: ValueError | None) -> Iterator[bytes]:
    if head:
        yield head
    if problem is not None:
        raise problem
    yield from rest


def _one_event(chunks: Iterable[bytes], limits: Limits) -> Iterator[RawItem]:
    whole = bytearray()
    for chunk in chunks:
        whole += chunk
        if len(whole) > limits.max_event_bytes:
            yield Refusal(0, f"larger than MAX_EVENT_BYTES ({limits.max_event_bytes} bytes)")
            return
    if whole.strip(SPACE):
        yield RawEvent(0, bytes(whole))
