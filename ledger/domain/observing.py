"""What one look at an entry's content says, and what it adds to the looks before it.

A look that finds what the last one found is no new fact: only its time is noted. An answer that brings neither the
entry nor the word that it is gone says nothing about what memory holds, so it is no look at all.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Literal

from runs.domain.memory_read import REDACTED, MemoryEntry

Outcome = Literal["content", "gone", "deleted", "erased"]
State = Literal["announced", "stored", "expired", "gone", "deleted", "erased"]

EXCERPT = 300
"""Characters of a content that lists show and search."""

MOST_MARKERS = 500
"""So many redaction markers of a content stand out from it; the others are shown as part of the text."""

AGAIN = (
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=12),
    timedelta(days=2),
    timedelta(days=7),
    timedelta(days=30),
)
"""After how long an entry is looked at again, each time that it was found unchanged. After the last it is left alone
until an event says that it was written again."""


@dataclass(frozen=True, slots=True)
class Sight:
    """An entry as it was found. Texts are the host's, exactly; "gone" means no longer readable, not deleted.

    "deleted" and "erased" are not found but done here, by whoever has the right to.
    """

    outcome: Outcome
    content: str | None = None
    tags: tuple[str, ...] = ()
    created_at: datetime | None = None
    expires_at: datetime | None = None
    redactions: int = 0
    looks_secret: bool = False
    detail: str = ""

    @classmethod
    def of(cls, entry: MemoryEntry) -> Sight:
        return cls(
            outcome="content",
            content=entry.content,
            tags=entry.tags,
            created_at=entry.created_at,
            expires_at=entry.expires_at,
            redactions=entry.redaction_count,
            looks_secret=entry.looks_secret,
            detail="; ".join(entry.notes),
        )

    @property
    def digest(self) -> bytes | None:
        """SHA-256 of the content's UTF-8, None without content."""
        return None if self.content is None else hashlib.sha256(self.content.encode("utf-8", "surrogatepass")).digest()

    @property
    def said(self) -> Said:
        return Said(self.outcome, self.digest, self.tags, self.created_at, self.expires_at)

    @property
    def excerpt(self) -> str | None:
        """The content's beginning on one line. None where there is no content, or none that a list may show."""
        if self.content is None or self.looks_secret:
            return None
        return " ".join(self.content[: EXCERPT * 4].split())[:EXCERPT]


GONE = Sight("gone")
DELETED = Sight("deleted")
ERASED = Sight("erased")


@dataclass(frozen=True, slots=True)
class Said:
    """What makes two looks differ."""

    outcome: str
    digest: bytes | None = None
    tags: tuple[str, ...] = ()
    created_at: datetime | None = None
    expires_at: datetime | None = None


def state_of(outcome: str | None, expires_at: datetime | None, now: datetime) -> State:
    """``outcome`` is the last look's, None when there was none. ``expires_at`` is that of the content seen last, unless
    it was found gone before: what is taken away early has not expired."""
    if outcome is None:
        return "announced"
    if outcome == "deleted":
        return "deleted"
    if outcome == "erased":
        return "erased"
    if expires_at is not None and expires_at <= now:
        return "expired"
    return "stored" if outcome == "content" else "gone"


def next_look(unchanged: int, *, now: datetime, expires_at: datetime | None) -> datetime | None:
    """When to look again at what was found the same ``unchanged`` times in a row. None for never: what has expired by
    then would be hidden anyway."""
    if unchanged >= len(AGAIN):
        return None
    due = now + AGAIN[unchanged]
    return None if expires_at is not None and expires_at <= due else due


def retry_look(failures: int, *, now: datetime, first: timedelta, asked: float | None = None) -> datetime:
    """When to try again after so many failures in a row, 1 being the first: doubling pauses, or as many seconds as the
    host asked for. An hour at the most."""
    pause: timedelta = first * 2 ** min(failures - 1, 16)
    return now + min(max(pause, timedelta(seconds=min(asked or 0.0, 3600.0))), timedelta(hours=1))


# --- What changed between two looks ---


@dataclass(frozen=True, slots=True)
class LineChange:
    """Lines that only one of two texts has. Both 0 for texts that differ: the same lines otherwise arranged."""

    added: int
    removed: int


def compare_lines(before: str, after: str) -> LineChange:
    # Counted and not aligned: texts come from anybody, and aligning them takes time that grows with their square.
    old, new = Counter(before.splitlines()), Counter(after.splitlines())
    return LineChange(added=(new - old).total(), removed=(old - new).total())


@dataclass(frozen=True, slots=True)
class Part:
    text: str
    is_marker: bool


def parts_of(content: str) -> tuple[Part, ...]:
    """A content with the markers that stand for removed secrets set apart."""
    found = list(chain(*zip(_texts(content), _markers(content), strict=False)))
    end = sum(len(part.text) for part in found)
    return tuple(part for part in (*found, Part(content[end:], False)) if part.text)


def _markers(content: str) -> Iterator[Part]:
    for _, match in zip(range(MOST_MARKERS), REDACTED.finditer(content), strict=False):
        yield Part(match[0], True)


def _texts(content: str) -> Iterator[Part]:
    """The text before each marker."""
    place = 0
    for match in REDACTED.finditer(content):
        yield Part(content[place : match.start()], False)
        place = match.end()
