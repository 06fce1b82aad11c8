"""What a host of the second major could not deliver (RFC 0217): content-free notes of deliveries it has given up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from . import credentials
from .moments import read_timestamp

LONGEST = 512


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """``at`` is when the host gave up, None where it does not say."""

    run_id: str
    event_id: str | None
    at: datetime | None


@dataclass(frozen=True, slots=True)
class DeadLetterPage:
    letters: tuple[DeadLetter, ...]
    next_cursor: str


def read_dead_letters(body: object) -> DeadLetterPage:
    """``{deliveries, nextCursor}``; what in it names no run is passed over."""
    members = body if isinstance(body, dict) else {}
    listed = members.get("deliveries")
    cursor = members.get("nextCursor")
    letters = tuple(_letters(listed)) if isinstance(listed, list) else ()
    return DeadLetterPage(letters, cursor if isinstance(cursor, str) else "")


def _letters(listed: list[object]) -> Iterator[DeadLetter]:
    for one in listed:
        if isinstance(one, dict) and (run_id := _id(one.get("runId"))):
            yield DeadLetter(run_id, _id(one.get("eventId")), _moment(one.get("deadLetteredAt")))


def _id(value: object) -> str | None:
    is_one = isinstance(value, str) and 0 < len(value) <= LONGEST and not credentials.is_in(value, an_id=True)
    return value if isinstance(value, str) and is_one else None


def _moment(value: object) -> datetime | None:
    try:
        return read_timestamp(value) if isinstance(value, str) else None
    except ValueError:
        return None
