"""What a poll for events answers, in the spellings of both majors and of hosts in the wild."""

from dataclasses import dataclass
from typing import TypeVar

import msgspec

_T = TypeVar("_T")

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class NotAPollBody(ValueError):
    """The answer holds no list of events."""


@dataclass(frozen=True, slots=True)
class PollPage:
    """`events` are the bytes that came. What the host did not say is None.

    `is_terminal` is the host's word for the run having ended. It does not say that this page is the last one:
    a host may set `isComplete` on every page of a finished run. Only an empty page ends the reading.
    """

    events: tuple[bytes, ...]
    run_id: str | None = None
    status: str | None = None
    is_terminal: bool | None = None
    last_sequence: int | None = None


_NULL = msgspec.Raw(b"null")


class _Body(msgspec.Struct, rename="camel"):
    # Raw, so that a member of an unexpected kind does not cost the events.
    events: list[msgspec.Raw]
    run_id: msgspec.Raw = _NULL
    status: msgspec.Raw = _NULL
    run_status: msgspec.Raw = _NULL
    is_terminal: msgspec.Raw = _NULL
    is_complete: msgspec.Raw = _NULL
    last_sequence: msgspec.Raw = _NULL
    last_event_seq: msgspec.Raw = _NULL


_DECODER = msgspec.json.Decoder(_Body | list[msgspec.Raw])


def read_poll(body: bytes) -> PollPage:
    """Takes the array itself and the objects around it:

    `{events, isComplete}`, `{runId, events, lastEventSeq, runStatus, isTerminal}`, both sets of members at once, and
    the second major's `{runId, events, lastSequence, status, isTerminal}`, whose lastSequence −1 means none.
    """
    try:
        told = _DECODER.decode(body.removeprefix(b"\xef\xbb\xbf"))
    except _UNREADABLE as error:
        raise NotAPollBody(f"an answer without a list of events: {error}") from error
    if isinstance(told, list):
        return PollPage(tuple(bytes(event) for event in told))
    last = _first(told.last_sequence, told.last_event_seq, of=int)
    return PollPage(
        events=tuple(bytes(event) for event in told.events),
        run_id=_first(told.run_id, of=str),
        status=_first(told.status, told.run_status, of=str),
        # One host says isTerminal true and isComplete false of one finished run.
        is_terminal=_first(told.is_terminal, told.is_complete, of=bool),
        last_sequence=None if last is None or last < 0 else last,
    )


def _first(*members: msgspec.Raw, of: type[_T]) -> _T | None:
    """The first member that is of the wanted type, exactly."""
    for member in members:
        value = _value(member)
        if type(value) is of:
            return value
    return None


def _value(member: msgspec.Raw) -> object:
    try:
        return msgspec.json.decode(member)
    except _UNREADABLE:
        return None
