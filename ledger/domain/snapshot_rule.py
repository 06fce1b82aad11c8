"""The rules of the memory contract (RFC 0004) for what is put, and for what `list` and `get` see.

A run reads the snapshot that was taken when it started: what was visible then stays visible to it, whatever is written,
expires or is deleted later, and so it stays for every replay of it. Without a run, what is visible now counts. An entry
is visible from its creation until it expires or is deleted, to the microsecond; what was erased is never shown again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from ledger.domain.errors import LedgerError
from ledger.domain.periods import aware

MAX_ID_LENGTH = 1500
MAX_TAG_LENGTH = 256
MAX_PAGE = 500


class EntryRefused(LedgerError):
    """An entry or a request that breaks a rule of the contract."""


@dataclass(frozen=True, slots=True)
class Entry:
    """`written_by` is the run that wrote it, which does not see it: its snapshot is older."""

    id: str
    memory_ref: str
    created_at: datetime
    tags: frozenset[str] = frozenset()
    expires_at: datetime | None = None
    deleted_at: datetime | None = None
    is_erased: bool = False
    written_by: str | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The start of a run, and the run: of a replay, those of the run that is replayed."""

    taken_at: datetime
    run: str


class Cursor(NamedTuple):
    """The last entry that was shown."""

    created_at: datetime
    id: str


@dataclass(frozen=True, slots=True)
class Page:
    """`next` is None when there is nothing more."""

    entries: tuple[Entry, ...]
    next: Cursor | None


def is_visible(entry: Entry, *, now: datetime, snapshot: Snapshot | None = None) -> bool:
    moment = snapshot.taken_at if snapshot else now
    if entry.is_erased or (snapshot is not None and entry.written_by == snapshot.run):
        return False
    is_gone = entry.deleted_at is not None and entry.deleted_at <= moment
    has_expired = entry.expires_at is not None and entry.expires_at <= moment
    return entry.created_at <= moment and not is_gone and not has_expired


def get(
    entries: Iterable[Entry], memory_ref: str, entry_id: str, *, now: datetime, snapshot: Snapshot | None = None
) -> Entry | None:
    """None for what is unknown, foreign, expired or deleted alike."""
    for entry in entries:
        if (entry.memory_ref, entry.id) == (memory_ref, entry_id) and is_visible(entry, now=now, snapshot=snapshot):
            return entry
    return None


def list_entries(
    entries: Iterable[Entry],
    memory_ref: str,
    *,
    now: datetime,
    snapshot: Snapshot | None = None,
    tag: str | None = None,
    limit: int = 0,
    after: Cursor | None = None,
) -> Page:
    """Newest first. `limit` 0 asks for no limit: the page is as long as a page may be, and the cursor leads on."""
    if limit < 0:
        raise EntryRefused("limit is negative", field="limit")
    length = min(limit or MAX_PAGE, MAX_PAGE)
    found = sorted(
        (
            entry
            for entry in entries
            if entry.memory_ref == memory_ref
            and is_visible(entry, now=now, snapshot=snapshot)
            and (tag is None or tag in entry.tags)
            and (after is None or _place(entry) < after)
        ),
        key=_place,
        reverse=True,
    )
    shown = tuple(found[:length])
    return Page(shown, _place(shown[-1]) if len(found) > length else None)


def _place(entry: Entry) -> Cursor:
    return Cursor(entry.created_at, entry.id)


def clean_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Without empty ones and repetitions, in the order in which they came."""
    for index, tag in enumerate(tags):
        if not isinstance(tag, str):
            raise EntryRefused(f"tags[{index}] is not a text", field="tags")
        if len(tag) > MAX_TAG_LENGTH:
            raise EntryRefused(f"tags[{index}] is longer than {MAX_TAG_LENGTH} characters", field="tags")
    return tuple(dict.fromkeys(tag for tag in tags if tag.strip()))


def check_entry(
    content: str, tags: Sequence[str], *, expires_at: datetime | None, now: datetime, max_bytes: int
) -> None:
    """`max_bytes` is the `maxEntrySizeBytes` that is advertised; content and tags count, in UTF-8."""
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in (content, *tags))
    if size > max_bytes:
        raise EntryRefused(f"the entry has {size} bytes, more than maxEntrySizeBytes ({max_bytes})", field="content")
    if expires_at is not None and aware(expires_at, "expiresAt") <= now:
        raise EntryRefused("expiresAt is not in the future", field="expiresAt")
