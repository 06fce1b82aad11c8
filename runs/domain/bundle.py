"""Debug bundles: one run's log and what is told around it, in one JSON object.

Read are the bundle of the spec (`GET /v1/runs/{id}/debug-bundle`), the flat one without `bundleVersion`, `host` and
`run`, and any other object with an `events` array, such as a saved answer to a poll. The events come out as they are,
but for a runId that only the bundle names. Everything that is odd about a bundle is a warning; none costs its events.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Literal

import msgspec

from runs.domain import exact_json
from runs.domain.bundle_memory import FoundEntry, found_memory
from runs.domain.exact_json import Edit, shown
from runs.domain.limits import MEBIBYTE, LimitExceeded
from runs.domain.moments import read_timestamp
from runs.domain.reading import RawEvent
from runs.domain.snapshots import LONGEST, NotASnapshot, Parent, RunSnapshot, parent_in_spans, read_snapshot
from runs.domain.sse import TRANSIENT
from runs.domain.summary import FIRST_SEQUENCES

# Hosts cut bundles at 8 MB unless they are told otherwise. A bundle is read as a whole, so there is an end to it.
MAX_BUNDLE_BYTES = 64 * MEBIBYTE

LISTED_HOLES = 100

Warned = Literal[
    "no_run_id",
    "unknown_version",
    "truncated",
    "event_count",
    "hole",
    "redacted",
    "malformed_redaction",
    "partial_copies",
    "notifications",
]
KNOWN_VERSIONS = frozenset(("", "1", "1.0"))
NOT_REDACTING = "passthrough"


class NotABundle(ValueError):
    """No JSON object with a list of events. `code` is the host's error code, if it answered with an error."""

    def __init__(self, complaint: str, code: str = "") -> None:
        super().__init__(complaint)
        self.code = code


@dataclass(frozen=True, slots=True)
class BundleWarning:
    kind: Warned
    message: str


@dataclass(frozen=True, slots=True)
class Hole:
    """Sequences that are missing between two that are there, both ends included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class BundleFacts:
    """What the bundle says of itself and what is true of it. `told_count` is `metrics.eventCount`.

    `holes` are at most LISTED_HOLES of `hole_count`. `partial_count` events came without payload and data: copies
    that another channel may complete. With `is_redacted`, an event that differs from a known one may be a masked copy
    of it and no contradiction. `source` is what the spans say that the run was replayed from.
    """

    version: str
    run_id: str | None
    host_name: str
    host_version: str
    generated_at: datetime | None
    snapshot: RunSnapshot | None
    source: Parent | None
    event_count: int
    told_count: int | None
    first_sequence: int | None
    last_sequence: int | None
    holes: tuple[Hole, ...]
    hole_count: int
    missing_count: int
    is_truncated: bool
    truncated_reason: str
    redaction_mode: str
    is_redacted: bool
    partial_count: int
    notification_count: int
    annotation_count: int
    span_count: int
    warnings: tuple[BundleWarning, ...]
    memory: tuple[FoundEntry, ...] = ()
    """Memory entries around the events."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """`events` are for `read_event`, with `facts.run_id` as the run that was asked for."""

    events: tuple[RawEvent, ...]
    facts: BundleFacts


_NULL = msgspec.Raw(b"null")


class _Parts(msgspec.Struct, rename="camel"):
    # Raw, so that a member of an unexpected kind does not cost the events.
    events: list[msgspec.Raw] | None = None
    bundle_version: msgspec.Raw = _NULL
    generated_at: msgspec.Raw = _NULL
    host: msgspec.Raw = _NULL
    run: msgspec.Raw = _NULL
    run_id: msgspec.Raw = _NULL
    workflow_id: msgspec.Raw = _NULL
    status: msgspec.Raw = _NULL
    spans: msgspec.Raw = _NULL
    metrics: msgspec.Raw = _NULL
    annotations: msgspec.Raw = _NULL
    redaction_applied: msgspec.Raw = _NULL
    redaction_mode: msgspec.Raw = _NULL
    truncated: msgspec.Raw = _NULL
    truncated_reason: msgspec.Raw = _NULL
    error: msgspec.Raw = _NULL


class _Envelope(msgspec.Struct, rename="camel"):
    run_id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    type: msgspec.Raw = _NULL
    sequence: msgspec.Raw = _NULL
    seq: msgspec.Raw = _NULL
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_PARTS = msgspec.json.Decoder(_Parts)
_ENVELOPE = msgspec.json.Decoder(_Envelope)
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_bundle(chunks: Iterable[bytes], *, max_bytes: int = MAX_BUNDLE_BYTES) -> Bundle:
    """Raises NotABundle, LimitExceeded (MAX_BUNDLE_BYTES), and what `chunks` raises."""
    body = _whole(chunks, max_bytes)
    parts = _parts(body)
    run_id = _run_id(parts)
    events: list[RawEvent] = []
    log = _Log()
    for index, raw in enumerate(parts.events or ()):
        event = bytes(raw)
        envelope = _envelope(event)
        if _is_notification(envelope):
            log.notifications += 1
            continue
        log.add(envelope)
        events.append(RawEvent(index, with_run_id(event, run_id) if run_id else event))
    return Bundle(tuple(events), replace(_facts(parts, run_id, len(events), log), memory=_memory(body)))


def _memory(body: bytes) -> tuple[FoundEntry, ...]:
    if b'"createdAt"' not in body or b'"content"' not in body:
        return ()
    members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return found_memory({name: _value(raw) for name, raw in members.items() if name != "events"})


def with_run_id(event: bytes, run_id: str) -> bytes:
    """The event's text with its run's id where it names none, and nothing else changed."""
    told = _envelope(event)
    if told is None or (isinstance(told.run_id, msgspec.Raw) and bytes(told.run_id) != b"null"):
        return event
    quoted = exact_json.dumps(run_id)
    if isinstance(told.run_id, msgspec.Raw):
        text = event.decode(errors="surrogateescape")
        edited = exact_json.splice(text, {("runId",): Edit(value=quoted.decode())})
        return edited.encode(errors="surrogateescape")
    rest = event.lstrip().removeprefix(b"{").lstrip()
    return b'{"runId":' + quoted + (b"" if rest.startswith(b"}") else b",") + rest


def _whole(chunks: Iterable[bytes], limit: int) -> bytes:
    held = bytearray()
    for chunk in chunks:
        held += chunk
        if len(held) > limit:
            raise LimitExceeded("MAX_BUNDLE_BYTES", limit)
    return bytes(held).removeprefix(_BYTE_ORDER_MARK)


def _parts(body: bytes) -> _Parts:
    try:
        parts = _PARTS.decode(body)
    except _UNREADABLE as error:
        raise NotABundle(f"not a debug bundle: {error}") from error
    if parts.events is None:
        code = _text(_member(_value(parts.error), "code") or _value(parts.error))
        raise NotABundle(f"the host answered {code} instead of a bundle" if code else "no list of events", code)
    return parts


def _envelope(event: bytes) -> _Envelope | None:
    try:
        return _ENVELOPE.decode(event)
    except _UNREADABLE:
        return None


def _is_notification(envelope: _Envelope | None) -> bool:
    """Told live and never part of a log, such as an annotation: it takes no place in the sequence."""
    if envelope is None or envelope.sequence is not _NULL or envelope.seq is not _NULL:
        return False
    type = _value(envelope.type)
    return isinstance(type, str) and type in TRANSIENT


class _Log:
    """What the events together say."""

    def __init__(self) -> None:
        self.sequences: list[int] = []
        self.partial = 0
        self.notifications = 0

    def add(self, envelope: _Envelope | None) -> None:
        if envelope is None:
            return
        self.partial += envelope.payload is msgspec.UNSET and envelope.data is msgspec.UNSET
        sequence = _count(_value(envelope.seq if envelope.sequence is _NULL else envelope.sequence))
        if sequence is not None:
            self.sequences.append(sequence)

    def holes(self) -> list[Hole]:
        ordered = sorted(set(self.sequences))
        beginning = [Hole(0, ordered[0] - 1)] if ordered and ordered[0] not in FIRST_SEQUENCES else []
        return beginning + [Hole(one + 1, other - 1) for one, other in pairwise(ordered) if other > one + 1]


def _facts(parts: _Parts, run_id: str | None, event_count: int, log: _Log) -> BundleFacts:
    host, spans, holes = _value(parts.host), _elements(parts.spans), log.holes()
    mode = _text(_value(parts.redaction_mode))
    applied = _value(parts.redaction_applied) is True
    told = _count(_member(_value(parts.metrics), "eventCount"))
    facts = BundleFacts(
        version=_text(_value(parts.bundle_version)),
        run_id=run_id,
        host_name=_text(_member(host, "name")),
        host_version=_text(_member(host, "version")),
        generated_at=_moment(_value(parts.generated_at)),
        snapshot=_snapshot(parts),
        source=parent_in_spans(spans),
        event_count=event_count,
        told_count=told,
        first_sequence=min(log.sequences, default=None),
        last_sequence=max(log.sequences, default=None),
        holes=tuple(holes[:LISTED_HOLES]),
        hole_count=len(holes),
        missing_count=sum(hole.last - hole.first + 1 for hole in holes),
        is_truncated=_value(parts.truncated) is True,
        truncated_reason=_text(_value(parts.truncated_reason)),
        redaction_mode=mode,
        is_redacted=applied and mode != NOT_REDACTING,
        partial_count=log.partial,
        notification_count=log.notifications,
        annotation_count=len(_elements(parts.annotations)),
        span_count=len(spans),
        warnings=(),
    )
    return replace(facts, warnings=tuple(_warnings(facts, is_applied=applied)))


def _warnings(facts: BundleFacts, *, is_applied: bool) -> Iterator[BundleWarning]:
    if facts.run_id is None:
        yield BundleWarning("no_run_id", "the bundle does not say which run it is of")
    if facts.version not in KNOWN_VERSIONS:
        yield BundleWarning("unknown_version", f"bundleVersion {shown(facts.version)} is not known here")
    if facts.is_truncated:
        yield BundleWarning("truncated", f"the host cut the log: {facts.truncated_reason or 'no reason given'}")
    if facts.told_count not in (None, facts.event_count):
        yield BundleWarning("event_count", f"{facts.event_count:,} of {facts.told_count:,} events are in the bundle")
    if facts.holes:
        yield BundleWarning("hole", _missing(facts))
    if is_applied and facts.redaction_mode == NOT_REDACTING:
        yield BundleWarning(
            "malformed_redaction", "redactionApplied with the mode passthrough: one of the two is false"
        )
    if facts.is_redacted:
        yield BundleWarning("redacted", f"the host may have changed values (mode {shown(facts.redaction_mode)})")
    if facts.partial_count:
        count = facts.partial_count
        yield BundleWarning(
            "partial_copies",
            "1 event came without its payload" if count == 1 else f"{count:,} events came without their payload",
        )
    if facts.notification_count:
        count = facts.notification_count
        yield BundleWarning(
            "notifications",
            "1 notification that is no event was left out"
            if count == 1
            else f"{count:,} notifications that are no events were left out",
        )


def _missing(facts: BundleFacts) -> str:
    first = facts.holes[0]
    where = f"{first.first:,}" if first.first == first.last else f"{first.first:,} to {first.last:,}"
    elsewhere = " and elsewhere" if facts.hole_count > 1 else ""
    missing = "1 event is" if facts.missing_count == 1 else f"{facts.missing_count:,} events are"
    return f"{missing} missing between others: {where}{elsewhere}"


def _run_id(parts: _Parts) -> str | None:
    return _text(_value(parts.run_id)) or _text(_member(_value(parts.run), "runId")) or None


def _snapshot(parts: _Parts) -> RunSnapshot | None:
    run = _value(parts.run)
    if not isinstance(run, dict):
        flat = {"runId": parts.run_id, "workflowId": parts.workflow_id, "status": parts.status}
        run = {name: _value(raw) for name, raw in flat.items()}
    try:
        return read_snapshot(run, major=1)  # the second major serves no bundles (RFC 0207 section C)
    except NotASnapshot:
        return None


def _value(raw: msgspec.Raw) -> object:
    """None for what is missing or can not be read."""
    try:
        return msgspec.json.decode(raw)
    except _UNREADABLE:
        return None


def _member(holder: object, name: str) -> object:
    return holder.get(name) if isinstance(holder, dict) else None


def _elements(raw: msgspec.Raw) -> list[object]:
    value = _value(raw)
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= LONGEST else ""


def _count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _moment(value: object) -> datetime | None:
    try:
        return read_timestamp(value) if isinstance(value, str) else None
    except ValueError:
        return None
