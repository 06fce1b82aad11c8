"""Memory entries that a program or a file hands in: `{memoryRef, entries: [MemoryEntry]}`, as a read side answers.

What a host serves is read leniently, since nobody there can be asked. Who hands entries in is told what is wrong with
them: each has to be one by `schemas/memory-entry.json`, but for members nobody knows, which are left aside.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from runs.domain import credentials
from runs.domain.event import Refusal
from runs.domain.memory_read import LONGEST_TAG, MemoryEntry, read_memory_entry
from runs.domain.moments import read_timestamp

from .reading import LONGEST_ADDRESS

MOST_ENTRIES = 10_000


class NotABatch(ValueError):
    """``field`` is the member that is to blame, "body" for the whole."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class Batch:
    memory_ref: str
    entries: tuple[MemoryEntry, ...]
    refused: tuple[Refusal, ...]


def read_batch(body: bytes, *, memory_ref: str | None = None) -> Batch:
    """``memory_ref`` is for an array of entries, which names none. Raises NotABatch."""
    told = _loaded(body)
    if isinstance(told, list) and memory_ref is not None:
        told = {"memoryRef": memory_ref, "entries": told}
    if not isinstance(told, dict):
        raise NotABatch("body", "is no JSON object with memoryRef and entries")
    ref, listed = told.get("memoryRef"), told.get("entries")
    if not isinstance(ref, str) or not 0 < len(ref) <= LONGEST_ADDRESS:
        raise NotABatch("memoryRef", f"is not a text of 1 to {LONGEST_ADDRESS} characters")
    if credentials.is_in(ref, an_id=True):
        raise NotABatch("memoryRef", "has the shape of a credential")
    if not isinstance(listed, list):
        raise NotABatch("entries", "is no array")
    if len(listed) > MOST_ENTRIES:
        raise NotABatch("entries", f"has more than {MOST_ENTRIES:,} entries")
    items = list(_each_once(listed))
    return Batch(
        memory_ref=ref,
        entries=tuple(item for item in items if isinstance(item, MemoryEntry)),
        refused=tuple(item for item in items if isinstance(item, Refusal)),
    )


def _each_once(listed: list[object]) -> Iterator[MemoryEntry | Refusal]:
    first: dict[str, int] = {}
    for index, value in enumerate(listed):
        item = read_entry(value, index=index)
        if isinstance(item, MemoryEntry) and first.setdefault(item.id, index) != index:
            item = Refusal(index, f"the same id as entry {first[item.id]}", "id")
        yield item


def read_entry(value: object, *, index: int) -> MemoryEntry | Refusal:
    entry = read_memory_entry(value, index=index)
    if isinstance(entry, MemoryEntry) and isinstance(value, dict):
        for field, complaint in _complaints(value):
            return Refusal(index, complaint, field)
    return entry


def _complaints(value: dict[str, object]) -> Iterator[tuple[str, str]]:
    content, tags = value.get("content"), value.get("tags")
    if not isinstance(content, str):
        yield "content", "content is missing" if content is None else "content is no text"
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        yield "tags", "tags are missing" if tags is None else "tags are no array of texts"
    elif any(len(tag) > LONGEST_TAG for tag in tags):
        yield "tags", f"a tag of more than {LONGEST_TAG} characters"
    for field, is_needed in (("createdAt", True), ("expiresAt", False)):
        complaint = _moment_complaint(value.get(field), is_needed=is_needed)
        if complaint:
            yield field, f"{field} {complaint}"


def _moment_complaint(value: object, *, is_needed: bool) -> str:
    if value is None:
        return "is missing" if is_needed else ""
    if not isinstance(value, str):
        return "is no text"
    try:
        read_timestamp(value)
    except ValueError as error:
        return str(error)
    return ""


def _loaded(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        # It refuses lone surrogates and numbers of any size, which a content may be made of and a member may hold.
        return json.loads(body)
    except (ValueError, RecursionError):
        raise NotABatch("body", "is no JSON") from None
