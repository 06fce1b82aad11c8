"""What a program asks to be remembered: `{memoryRef, entry: {content, tags?, expiresAt?}, run?}`.

Nothing is left aside: who writes comes from the credential, and the id and the time of creation are made here, so a
body that names them is refused. `run` is the run that the entry is put for, whose secrets are taken out of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from ledger.domain.snapshot_rule import EntryRefused, clean_tags
from runs.domain.moments import read_timestamp

LONGEST_REF = 1500
LONGEST_RUN = 1200
MOST_TAGS = 100

_MEMBERS = ("memoryRef", "entry", "run")
_ENTRY_MEMBERS = ("content", "tags", "expiresAt")


@dataclass(frozen=True, slots=True)
class AskedPut:
    """`run` is "" where none is named."""

    memory_ref: str
    content: str
    tags: tuple[str, ...]
    expires_at: datetime | None
    run: str


def read_put(body: bytes) -> AskedPut:
    """Raises EntryRefused with the member at fault."""
    told = _object(_loaded(body), "body", _MEMBERS)
    entry = _object(told.get("entry"), "entry", _ENTRY_MEMBERS)
    content = entry.get("content")
    if not isinstance(content, str):
        raise EntryRefused("content is missing" if content is None else "content is no text", field="entry.content")
    return AskedPut(
        memory_ref=_text(told, "memoryRef", LONGEST_REF),
        content=content,
        tags=_tags(entry.get("tags")),
        expires_at=_moment(entry.get("expiresAt")),
        run="" if told.get("run") is None else _text(told, "run", LONGEST_RUN),
    )


def is_ref(text: str) -> bool:
    """What cannot be a memory ref names nothing."""
    return 0 < len(text) <= LONGEST_REF


def _loaded(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(body)  # it takes lone surrogates, which a content may have
    except (ValueError, RecursionError):
        raise EntryRefused("the body is no JSON", field="body") from None


def _object(value: Any, field: str, known: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise EntryRefused(f"{field} is no object", field=field)
    for name in value:
        if name not in known:
            place = name if field == "body" else f"{field}.{name}"
            raise EntryRefused(f"{place[:80]} is not known here; there are {', '.join(known)}", field=place[:80])
    return value


def _text(told: Mapping[str, Any], name: str, longest: int) -> str:
    value = told.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        raise EntryRefused(f"{name} is not a text of 1 to {longest} characters", field=name)
    return value


def _tags(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise EntryRefused("tags are no array of texts", field="entry.tags")
    if len(value) > MOST_TAGS:
        raise EntryRefused(f"there are more than {MOST_TAGS} tags", field="entry.tags")
    try:
        return clean_tags(value)
    except EntryRefused as refused:
        raise EntryRefused(str(refused), field="entry.tags") from None


def _moment(value: Any) -> datetime | None:
    if value is None:
        return None
    try:
        if not isinstance(value, str):
            raise ValueError("is no text")
        return read_timestamp(value)
    except ValueError as problem:
        raise EntryRefused(f"expiresAt {problem}", field="entry.expiresAt") from None
