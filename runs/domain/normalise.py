"""One event of either protocol major, from its JSON text to a RunEvent or the reason why not.

The usual text is proved lossless without a second parser: if what orjson writes from what it read is the text itself,
then no name came twice and no number was changed. White space does not count, and leaving it out of both sides keeps
the proof: strings may lose their blanks, but token by token the two texts are the same. Anything else, such as `1e5`,
`\\u00e9`, an integer beyond 64 bits or a broken text, is read by exact_json, and gives the same event and digest.
"""

from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from hashlib import blake2b
from typing import NamedTuple

import orjson

from runs.domain import credentials, event_types, exact_json, quarantine
from runs.domain.event import Leak, Refusal, RunEvent
from runs.domain.exact_json import Number
from runs.domain.limits import DEFAULT_LIMITS, Limits
from runs.domain.moments import read_timestamp

MAX_ID_LENGTH = 512
MAX_TYPE_LENGTH = 256
MAX_SEQUENCE = 2**53 - 1  # RFC 7493 section 2.2: the integers that every JSON reader agrees on

ANOTHER_RUN = "event of another run"
"""The reason of the refusal of what does not belong to the run that the door asked for."""

# What `RunEvent.notes` may say.
SEQ_CONFLICT = "seq_conflict"  # `seq` differs from `sequence`, which was taken
DATA_CONFLICT = "data_conflict"  # `data` differs from `payload`, which was taken
NODE_CONFLICT = "node_conflict"  # the payload names another node than the envelope, which was taken
LABEL_DROPPED = "label_dropped"  # eventId, causationId or agentId is no string, or too long, and only in the body

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SPACE = b" \t\r\n"
_UNPROVED = object()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KINDS = {str: "a string", bool: "a boolean", type(None): "null", list: "an array", dict: "an object"}


class _Refused(Exception):
    def __init__(self, reason: str, field: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.field = field


class _Document(NamedTuple):
    """`canonical` is `text` without needless escapes."""

    text: str
    members: dict[str, object]
    canonical: bytes


def read_event(
    raw: bytes | str, *, index: int, run_id: str | None = None, limits: Limits = DEFAULT_LIMITS
) -> RunEvent | Refusal:
    """`index` is the event's place in its batch; `run_id` the run that the door asked for, if it asked for one.

    Only what makes an event unusable is refused: its text, its size, its identity, its time. Unknown types and
    members are kept.
    """
    if isinstance(raw, bytes) and len(raw) <= limits.max_event_bytes:
        event = _plain_event(raw.strip(_SPACE), run_id)
        if event is not None:
            return event
    return _read_closely(raw, index, run_id, limits)


def _plain_event(raw: bytes, run_id: str | None) -> RunEvent | None:
    """The usual event, where there is nothing to refuse, to take out or to note. None for any other.

    What it returns is what `_read_closely` would; it only asks fewer questions.
    """
    members = _read_proved(raw)
    if not isinstance(members, dict):
        return None
    get = members.get
    reported, run, sequence, timestamp, payload = (
        get("type"),
        get("runId", run_id),
        get("sequence"),
        get("timestamp"),
        get("payload"),
    )
    if not (isinstance(reported, str) and isinstance(run, str) and isinstance(timestamp, str)):
        return None
    if not (0 < len(reported) <= MAX_TYPE_LENGTH and 0 < len(run) <= MAX_ID_LENGTH):
        return None
    if type(sequence) is not int or not 0 <= sequence <= MAX_SEQUENCE:
        return None
    if (run_id is not None and run != run_id) or "seq" in members or "data" in members:
        return None
    node, event_id, causation = get("nodeId"), get("eventId"), get("causationId")
    inner, agent = (payload.get("nodeId"), payload.get("agentId")) if isinstance(payload, dict) else (None, None)
    for label in (node, inner, event_id, causation, agent):
        if label is not None and not (isinstance(label, str) and 0 < len(label) <= MAX_ID_LENGTH):
            return None
    if node is None:
        node = inner
    elif inner is not None and inner != node:
        return None
    if not _is_clean(raw, members, reported):
        return None
    try:
        moment = read_timestamp(timestamp)
    except ValueError:
        return None
    name = event_types.canonical(reported)
    return RunEvent(
        run,
        sequence,
        name,
        reported,
        node,
        agent,
        event_id,
        causation,
        moment,
        raw.decode(),
        _digest(name, node, moment, payload),
        "payload" in members,
    )


def _is_clean(raw: bytes, members: dict[str, object], reported: str) -> bool:
    about_memory, may_hold_credentials = event_types.is_about_memory(reported), credentials.may_be_in(raw)
    if not about_memory and not may_hold_credentials:
        return True
    try:
        edits, _ = quarantine.inspect(members, about_memory=about_memory, may_hold_credentials=may_hold_credentials)
    except quarantine.NotStorable:
        return False
    return not edits


def _read_closely(raw: bytes | str, index: int, run_id: str | None, limits: Limits) -> RunEvent | Refusal:
    try:
        document, leaks = _without_leaks(_read_text(_as_bytes(raw, limits)))
        return _event_of(document, leaks, run_id)
    except _Refused as refused:
        return Refusal(index, quarantine.without_credentials(refused.reason), refused.field)


def _as_bytes(raw: bytes | str, limits: Limits) -> bytes:
    try:
        told = raw.encode() if isinstance(raw, str) else raw
    except UnicodeEncodeError as error:
        raise _Refused(f"not valid UTF-8: a lone surrogate at character {error.start}") from None
    if len(told) > limits.max_event_bytes:
        raise _Refused(f"larger than MAX_EVENT_BYTES ({limits.max_event_bytes} bytes)")
    return told.removeprefix(_BYTE_ORDER_MARK).strip(_SPACE)


def _read_text(raw: bytes) -> _Document:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise _Refused(f"not valid UTF-8 at byte {error.start}") from None
    value = _read_proved(raw)
    canonical = raw
    if value is _UNPROVED:
        value = _read_exactly(text)
        canonical = exact_json.dumps(value)
    if not isinstance(value, dict):
        raise _Refused(f"an event is a JSON object, this is {_kind(value)}")
    return _Document(text, value, canonical)


def _read_proved(raw: bytes) -> object:
    """_UNPROVED when it takes a closer look to say whether `raw` has been read without loss."""
    try:
        value = orjson.loads(raw)
        told = orjson.dumps(value)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return _UNPROVED
    if told == raw or told.translate(None, _SPACE) == raw.translate(None, _SPACE):
        return value
    return _UNPROVED


def _read_exactly(text: str) -> object:
    if text.startswith("\ufeff"):
        raise _Refused("broken JSON at character 0: a byte order mark that does not begin the text")
    try:
        return exact_json.loads(text)
    except exact_json.NotExact as error:
        raise _Refused(str(error)) from None


def _without_leaks(document: _Document) -> tuple[_Document, tuple[Leak, ...]]:
    name = document.members.get("type")
    # A longer name is refused later on, and must not be remembered before.
    about_memory = isinstance(name, str) and len(name) <= MAX_TYPE_LENGTH and event_types.is_about_memory(name)
    may_hold_credentials = credentials.may_be_in(document.canonical)
    if not about_memory and not may_hold_credentials:
        return document, ()
    try:
        edits, leaks = quarantine.inspect(
            document.members, about_memory=about_memory, may_hold_credentials=may_hold_credentials
        )
    except quarantine.NotStorable as error:
        raise _Refused(str(error), error.field) from None
    if not edits:
        return document, ()
    return _read_text(exact_json.splice(document.text, edits).encode()), tuple(leaks)


def _event_of(document: _Document, leaks: tuple[Leak, ...], run_id: str | None) -> RunEvent:
    members = document.members
    notes: list[str] = []
    run = _run_id(members.get("runId"), run_id)
    reported = _type(members)
    name = event_types.canonical(reported)
    sequence = _sequence(members, notes)
    moment = _timestamp(members)
    payload = _payload(members, notes)
    node = _node_id(members, payload, notes)
    return RunEvent(
        run_id=run,
        sequence=sequence,
        type=name,
        reported_type=reported,
        node_id=node,
        agent_id=_label(payload.get("agentId"), notes) if isinstance(payload, dict) else None,
        event_id=_event_id(members.get("eventId"), notes),
        causation_id=_label(members.get("causationId"), notes),
        timestamp=moment,
        body=document.text,
        digest=_digest(name, node, moment, payload),
        has_payload="payload" in members or "data" in members,
        leaks=leaks,
        notes=tuple(notes),
    )


def _run_id(given: object, asked_for: str | None) -> str:
    if given is None and asked_for is not None:
        return asked_for
    if given is None:
        raise _Refused("runId is missing", "runId")
    run = _text(given, "runId", MAX_ID_LENGTH)
    if asked_for is not None and run != asked_for:
        raise _Refused(ANOTHER_RUN, "runId")
    return run


def _type(members: dict[str, object]) -> str:
    if "type" not in members:
        raise _Refused("type is missing", "type")
    return _text(members["type"], "type", MAX_TYPE_LENGTH)


def _text(value: object, field: str, limit: int) -> str:
    if not isinstance(value, str):
        raise _Refused(f"{field} is {_kind(value)}, not a string", field)
    if not value:
        raise _Refused(f"{field} is empty", field)
    if len(value) > limit:
        raise _Refused(f"{field} is longer than {limit} characters", field)
    return value


def _sequence(members: dict[str, object], notes: list[str]) -> int:
    field = "sequence" if "sequence" in members else "seq"
    if field not in members:
        raise _Refused("sequence is missing", "sequence")
    try:
        sequence = _whole_number(members[field])
    except ValueError as error:
        raise _Refused(f"{field} {error}", field) from None
    if field == "sequence" and "seq" in members and not _is_number(members["seq"], sequence):
        notes.append(SEQ_CONFLICT)
    return sequence


def _is_number(value: object, expected: int) -> bool:
    try:
        return _whole_number(value) == expected
    except ValueError:
        return False


def _whole_number(value: object) -> int:
    """A place in a log. `1.0` is one, as for JSON Schema's integer. ValueError's reason fits behind the name."""
    if type(value) is int and 0 <= value <= MAX_SEQUENCE:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | Number):
        raise ValueError(f"is {_kind(value)}, not a number")
    try:
        number = Decimal(value.literal) if isinstance(value, Number) else Decimal(value)
    except InvalidOperation:  # an exponent of more than 18 digits
        raise ValueError("is not a number that can be counted to") from None
    if number < 0:
        raise ValueError("is negative")
    if number > MAX_SEQUENCE:
        raise ValueError(f"is larger than {MAX_SEQUENCE}, the largest integer that every JSON reader keeps exact")
    if number != number.to_integral_value():
        raise ValueError("is not a whole number")
    return int(number)


def _timestamp(members: dict[str, object]) -> datetime:
    if "timestamp" not in members:
        raise _Refused("timestamp is missing", "timestamp")
    value = members["timestamp"]
    if not isinstance(value, str):
        raise _Refused(f"timestamp is {_kind(value)}, not a string", "timestamp")
    try:
        return read_timestamp(value)
    except ValueError as error:
        raise _Refused(f"timestamp {error}", "timestamp") from None


def _payload(members: dict[str, object], notes: list[str]) -> object:
    if "payload" not in members:
        return members.get("data")
    payload = members["payload"]
    if "data" in members and not _is_same(payload, members["data"]):
        notes.append(DATA_CONFLICT)
    return payload


def _is_same(one: object, other: object) -> bool:
    # By their text: for Python 1, 1.0 and True are equal.
    return exact_json.dumps(one, sort_keys=True) == exact_json.dumps(other, sort_keys=True)


def _node_id(members: dict[str, object], payload: object, notes: list[str]) -> str | None:
    in_envelope = _node(members)
    in_payload = _node(payload)
    if "data" in members and "payload" in members:
        _node(members["data"])
    if in_envelope and in_payload and in_envelope != in_payload:
        notes.append(NODE_CONFLICT)
    return in_envelope or in_payload


def _node(holder: object) -> str | None:
    value = holder.get("nodeId") if isinstance(holder, dict) else None
    if not isinstance(value, str) or not value:
        return None
    return _text(value, "nodeId", MAX_ID_LENGTH)


def _event_id(value: object, notes: list[str]) -> str | None:
    if isinstance(value, str) and len(value) > MAX_ID_LENGTH:
        raise _Refused(f"eventId is longer than {MAX_ID_LENGTH} characters", "eventId")
    return _label(value, notes)


def _label(value: object, notes: list[str]) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, str) and len(value) <= MAX_ID_LENGTH:
        return value
    if LABEL_DROPPED not in notes:
        notes.append(LABEL_DROPPED)
    return None


def _digest(name: str, node: str | None, moment: datetime, payload: object) -> bytes:
    since = moment - _EPOCH
    microseconds = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    told = exact_json.dumps([name, node, microseconds, payload], sort_keys=True)
    return blake2b(told, digest_size=16).digest()


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "a number")
