"""The shapes in which entries, their writes and their merges are shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from runs.domain.storable import original

TAGS = 100
"""So many tags of a write are shown. The event has them all."""

ANNOUNCED, STORED, EXPIRED, GONE = "announced", "stored", "expired", "gone"
DELETED, ERASED = "deleted", "erased"
STATES = (ANNOUNCED, STORED, EXPIRED, GONE, DELETED, ERASED)
"""What is known of an entry's own life. Events only ever announce one; the others come from looks at the entry, the
last two from what was done with it here."""
OVER = (EXPIRED, DELETED, ERASED)
"""The states in which content is hidden."""


@dataclass(frozen=True, slots=True)
class EntryRow:
    """One entry with its last write. ``writers`` counts distinct pairs of node and agent that writes name.

    ``excerpt`` is the beginning of its content, as it was seen last; where there is none, ``unseen`` says why.
    ``put_by`` is the key with which it was put, for an entry that is kept here.
    """

    key: str
    host: str
    memory_ref: str
    memory_id: str
    excerpt: str | None
    unseen: str
    tags: tuple[str, ...]
    node: str | None
    agent: str | None
    run_id: str | None
    run_host: str | None
    sequence: int | None
    writers: int
    writes: int
    last_write_at: datetime | None
    state: str
    expires_at: datetime | None
    put_by: str | None = None
    put_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class EntryList:
    """Newest first. A cursor is None where there is nothing further that way."""

    rows: tuple[EntryRow, ...]
    total: int
    total_is_estimate: bool
    newer: str | None
    older: str | None


@dataclass(frozen=True, slots=True)
class WriteRow:
    """One write. ``memory_ref`` and ``memory_id`` are empty where the host masked or dropped them."""

    key: str
    host: str
    run_id: str
    sequence: int
    at: datetime
    received_at: datetime | None
    node: str | None
    agent: str | None
    memory_ref: str
    memory_id: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriteList:
    rows: tuple[WriteRow, ...]
    newer: str | None
    older: str | None


@dataclass(frozen=True, slots=True)
class Looks:
    """How looking at an entry goes: ``total`` observations, the last one found unchanged at ``seen_at``. ``error`` is
    why the last attempt brought nothing, "" when it brought something; the next one is due at ``next_at``."""

    total: int
    seen_at: datetime | None
    error: str
    error_at: datetime | None
    next_at: datetime | None


@dataclass(frozen=True, slots=True)
class EntryFacts:
    """One entry and what its writes add up to. Times and tags are those that events report. ``is_read`` says whether
    its host's memory is read. ``repeats`` are the times that forks told a write of their source again: they are none
    of the ``writes``."""

    pk: UUID
    host_pk: int
    host: str
    host_name: str
    memory_ref: str
    memory_id: str
    state: str
    state_reason: str
    is_read: bool
    looks: Looks
    tags: tuple[str, ...]
    first_write_at: datetime | None
    last_write_at: datetime | None
    writes: int
    writers: int
    runs: int
    unattributed: int
    repeats: int = 0


@dataclass(frozen=True, slots=True)
class EntryRef:
    """The other side of a lineage row. ``known``: the ledger has such an entry."""

    host: str
    memory_ref: str
    memory_id: str
    known: bool


@dataclass(frozen=True, slots=True)
class LineageRow:
    """A merge that an entry came out of or went into.

    ``count`` and ``outputs`` are what the host reported. ``named`` says where ``entries`` come from: "event", "tag"
    for a hint that is no more than that, "count only" where nothing names them.
    """

    kind: str
    host: str
    run_id: str
    sequence: int
    at: datetime
    trigger: str | None
    count: int | None
    outputs: int | None
    entries: tuple[EntryRef, ...]
    named: str


@dataclass(frozen=True, slots=True)
class Lineage:
    came_from: tuple[LineageRow, ...]
    went_into: tuple[LineageRow, ...]


def originals(texts: Iterable[str] | None) -> tuple[str, ...]:
    return tuple(map(original, texts or ()))


def maybe(text: str | None) -> str | None:
    return None if text is None else original(text)
