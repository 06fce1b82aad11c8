"""CloudEvents 1.0 in JSON, structured or as a batch, back into run events. Binary mode is not read.

`data` is one of two things:

*The run event itself*, as the protocol's own mapping writes it. Then the envelope is not trusted: a router may have
rewritten `id`, `source` and `time`. Only a runId that the event lacks is taken from `openwoprunid`.

*The payload alone.* Then the envelope says the rest: `type` is the event's, with or without `dev.openwop.event.` in
front; `openwoprunid`, or the run in `source` (`…/runs/{id}`, `urn:openwop:host:…:run:{id}`), is its run; `openwopseq`,
or the `sequence` extension when it is a whole number, its place; `time` its timestamp; `id` its eventId; `subject` its
nodeId, unless it repeats the run; `openwopcausationid` its causationId.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote, urlsplit

import msgspec

from runs.domain import exact_json
from runs.domain.bundle import with_run_id
from runs.domain.event import Refusal
from runs.domain.limits import DEFAULT_LIMITS, Limits
from runs.domain.projection import unproject
from runs.domain.reading import RawEvent, RawItem, read_json_array, within_body_limit

VERSION = "1.0"
TYPE_PREFIX = "dev.openwop.event."

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_NULL = msgspec.Raw(b"null")
_JSON_MEDIA = re.compile(r"\s*[a-z0-9.!#$&^_+-]+/(?:json|[a-z0-9.!#$&^_-]+\+json)\s*(?:;.*)?", re.IGNORECASE)


class _Refused(Exception):
    def __init__(self, reason: str, field: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.field = field


class _CloudEvent(msgspec.Struct):
    specversion: str | None = None
    id: str | None = None
    source: str | None = None
    type: str | None = None
    subject: str | None = None
    time: str | None = None
    datacontenttype: str | None = None
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    data_base64: str | None = None
    sequence: msgspec.Raw = _NULL
    openwoprunid: str | None = None
    openwopseq: msgspec.Raw = _NULL
    openwopcausationid: str | None = None


class _Data(msgspec.Struct):
    type: msgspec.Raw = _NULL
    sequence: msgspec.Raw = _NULL
    seq: msgspec.Raw = _NULL


_CLOUD_EVENT = msgspec.json.Decoder(_CloudEvent)
_DATA = msgspec.json.Decoder(_Data)
_VALUE = msgspec.json.Decoder(msgspec.Raw)


def read_batch(chunks: Iterable[bytes], limits: Limits = DEFAULT_LIMITS) -> Iterator[RawItem]:
    """`application/cloudevents-batch+json`: one item an element. Raises what `read_json_array` raises."""
    return unwrapped(read_json_array(chunks, limits))


def read_structured(chunks: Iterable[bytes], limits: Limits = DEFAULT_LIMITS) -> Iterator[RawItem]:
    """`application/cloudevents+json`: one event. Raises LimitExceeded and what `chunks` raises."""
    held = bytearray()
    for chunk in within_body_limit(chunks, limits):
        held += chunk
        if len(held) > limits.max_event_bytes:
            yield Refusal(0, f"larger than MAX_EVENT_BYTES ({limits.max_event_bytes} bytes)")
            return
    yield unwrap(bytes(held), index=0)


def unwrapped(items: Iterable[RawItem]) -> Iterator[RawItem]:
    for item in items:
        yield item if isinstance(item, Refusal) else unwrap(item.data, index=item.index)


def unwrap(raw: bytes, *, index: int) -> RawItem:
    """The run event inside an envelope, its text as it came where the envelope holds a whole one."""
    try:
        envelope = _envelope(raw)
        data = _data(envelope)
        if data is not None and _is_event(data):
            return RawEvent(index, with_run_id(data, envelope.openwoprunid) if envelope.openwoprunid else data)
        return RawEvent(index, _composed(envelope, data))
    except _Refused as refused:
        return Refusal(index, refused.reason, refused.field)


def _envelope(raw: bytes) -> _CloudEvent:
    try:
        envelope = _CLOUD_EVENT.decode(raw.removeprefix(b"\xef\xbb\xbf"))
    except _UNREADABLE as error:
        raise _Refused(f"not a CloudEvent: {error}") from None
    if envelope.specversion != VERSION:
        told = "missing" if envelope.specversion is None else exact_json.shown(envelope.specversion)
        raise _Refused(f"specversion is {told}; {VERSION} is read", "specversion")
    if not envelope.type:
        raise _Refused("type is missing", "type")
    return envelope


def _data(envelope: _CloudEvent) -> bytes | None:
    """None when there is none: a partial copy."""
    media = envelope.datacontenttype
    if media is not None and not _JSON_MEDIA.fullmatch(media):
        raise _Refused(f"data is {exact_json.shown(media)}, not JSON", "datacontenttype")
    if isinstance(envelope.data, msgspec.Raw):
        return bytes(envelope.data)
    if envelope.data_base64 is None:
        return None
    try:
        # One value and no more: the text is put into another one.
        return bytes(_VALUE.decode(base64.b64decode(envelope.data_base64, validate=True)))
    except binascii.Error:
        raise _Refused("data_base64 is not Base64", "data_base64") from None
    except _UNREADABLE as error:
        raise _Refused(f"data_base64 is not JSON: {error}", "data_base64") from None


def _is_event(data: bytes) -> bool:
    try:
        told = _DATA.decode(data)
    except _UNREADABLE:
        return False
    return bytes(told.type).startswith(b'"') and (told.sequence is not _NULL or told.seq is not _NULL)


def _composed(envelope: _CloudEvent, data: bytes | None) -> bytes:
    run_id = envelope.openwoprunid or _run_in(envelope.source or "")
    if not run_id:
        raise _Refused("neither openwoprunid nor the source names a run", "openwoprunid")
    node_id = envelope.subject if envelope.subject != run_id else None
    members: dict[str, object] = {
        "eventId": envelope.id,
        "runId": run_id,
        "type": (envelope.type or "").removeprefix(TYPE_PREFIX),
        "nodeId": node_id,
        "sequence": _place(envelope),
        "timestamp": envelope.time,
        "causationId": envelope.openwopcausationid,
    }
    told = exact_json.dumps({name: value for name, value in members.items() if value is not None})
    return told if data is None else told[:-1] + b',"payload":' + data + b"}"


def _place(envelope: _CloudEvent) -> int | None:
    """`sequence` is text in the CloudEvents extension of that name."""
    for raw in (envelope.openwopseq, envelope.sequence):
        value = msgspec.json.decode(raw)
        if type(value) is int:
            return value
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
            return int(value)
    return None


_URN = re.compile(r"urn:openwop:host:[^:]+:run:(.+)", re.DOTALL)
_RUNS = re.compile(r"(?:\A|/)runs/([^/]+)")


def _run_in(source: str) -> str | None:
    urn = _URN.fullmatch(source)
    if urn is not None:
        return unquote(urn[1])
    try:
        path = urlsplit(source).path
    except ValueError:
        return None
    found = _RUNS.search(path)
    return _identifier(found[1]) if found is not None else None


def _identifier(segment: str) -> str:
    """The second major projects an id into its segment (RFC 0184); the first one percent-encodes it."""
    try:
        return unproject(segment)
    except ValueError:
        return unquote(segment)
