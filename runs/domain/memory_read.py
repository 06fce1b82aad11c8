"""The read side of a host's memory: where it is, and entries out of what it answers.

The protocol has no portable address for memory (RFC 0080 section B); hosts that serve one do it under a name of their
own. An entry is closed: id, content, tags, createdAt, expiresAt. It names no author, so all that its tags say about a
run or a node is an inference and is called one.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Literal
from urllib.parse import quote, unquote

import orjson

from runs.domain import credentials
from runs.domain.event import Refusal
from runs.domain.moments import read_timestamp
from runs.domain.projection import project
from runs.domain.quarantine import without_credentials

LONGEST_ID = 1500
LONGEST_TAG = 256

ID_PLACE = "{memoryId}"


class BadRoute(ValueError):
    """The template can not be a memory route."""


@dataclass(frozen=True, slots=True)
class MemoryRoute:
    """Paths below a host's origin. `entry_path` holds ID_PLACE; `default_ref` is the scope that is read when none is
    named. In the second major an id is one projected segment (RFC 0184), in the first it is percent-encoded.
    """

    list_path: str
    entry_path: str
    major: int
    default_ref: str | None = None

    def list_request(
        self, *, memory_ref: str | None = None, tag: str | None = None, limit: int | None = None
    ) -> tuple[str, dict[str, str]]:
        """Path and query. A limit of 0 asks for nothing."""
        asked = {"memoryRef": memory_ref, "tag": tag, "limit": None if limit is None else str(limit)}
        return self.list_path, {name: value for name, value in asked.items() if value is not None}

    def entry_request(self, memory_id: str, *, memory_ref: str | None = None) -> tuple[str, dict[str, str]]:
        """ValueError for an id that has no place in a path: an empty one and, in the first major, one of dots only."""
        segment = project(memory_id) if self.major >= 2 else _percent_encoded(memory_id)
        query = {} if memory_ref is None else {"memoryRef": memory_ref}
        return self.entry_path.replace(ID_PLACE, segment), query


def _percent_encoded(memory_id: str) -> str:
    if not memory_id.strip("."):
        # Whether written as dots or escaped, every reader of URLs takes it for a way to another route.
        raise ValueError("an id of dots only has no path segment")
    return quote(memory_id, safe="", errors="surrogatepass")


def custom_route(list_path: str, entry_path: str, *, major: int, default_ref: str | None = None) -> MemoryRoute:
    """An operator's own templates; raises BadRoute for those that could lead to another origin."""
    for path in (list_path, entry_path):
        if not _PATH.fullmatch(path) or ".." in unquote(path):
            raise BadRoute("a route is a path below the host's origin, without a query")
    if entry_path.count(ID_PLACE) != 1:
        raise BadRoute(f"the route of one entry has {ID_PLACE} in it, once")
    if "{" in entry_path.replace(ID_PLACE, "") or "{" in list_path:
        raise BadRoute(f"no other place than {ID_PLACE} is filled in")
    return MemoryRoute(list_path, entry_path, major, default_ref)


_PATH = re.compile(r"/(?!/)[A-Za-z0-9._~!$&'()*+,;=:@%/{}-]*")


def _preset(base: str, major: int) -> MemoryRoute:
    return MemoryRoute(base, f"{base}/{ID_PLACE}", major, "tenant-memory")


PRESETS: Mapping[str, MemoryRoute | None] = MappingProxyType(
    {
        "openwop-app": _preset("/v1/host/openwop-app/memory", 1),
        "openwop-app-2": _preset("/host/openwop-app/memory", 2),
        "openwop-app-profile": _preset("/v1/host/openwop-app/profiles/me/memory", 1),
        "openwop-app-sample": _preset("/v1/host/sample/memory", 1),
        # Keep entries, but serve no route to them.
        "openwop-host-sqlite": None,
        "openwop-host-postgres": None,
        "openwop-host-in-memory": None,
        "openwop-host-in-memory-python": None,
    }
)
"""Routes by the kind of host; None for a kind that is known to serve none."""


def preset_for(implementation: str, *, major: int) -> MemoryRoute | None:
    """The route of a host that calls itself this in its discovery document; None when it has none or is unknown."""
    if implementation in ("openwop-workflow-engine", "openwop-app"):
        return PRESETS["openwop-app-2" if major >= 2 else "openwop-app"]
    return PRESETS.get(implementation)


@dataclass(frozen=True, slots=True)
class Inferred:
    """What tags hint at. Any host may write any tag, and a fork's copies keep the tags of the run they come from."""

    run_ids: tuple[str, ...]
    node_ids: tuple[str, ...]
    workflow_ids: tuple[str, ...]
    source_ids: tuple[str, ...]
    is_run_summary: bool

    basis = "tags"


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """Texts are exactly the host's, NUL, direction marks and lone surrogates included, but for what has the shape of a
    key: it is replaced by its digest and length, and `looks_secret` says that the content had any.

    `redaction_count` counts the markers that stand for a removed secret; nothing undoes them. `notes` say what was read
    leniently.
    """

    id: str
    content: str | None
    tags: tuple[str, ...]
    created_at: datetime | None
    expires_at: datetime | None
    inferred: Inferred | None
    redaction_count: int
    looks_secret: bool
    notes: tuple[str, ...] = ()

    def is_expired(self, now: datetime) -> bool:
        """An entry is not served any more once its time is past, whatever the host still sends."""
        return self.expires_at is not None and self.expires_at <= now


@dataclass(frozen=True, slots=True)
class MemoryPage:
    """The answer to a list: newest first, as the host ordered it. `refused` are elements that are no entries."""

    memory_ref: str | None
    entries: tuple[MemoryEntry, ...]
    refused: tuple[Refusal, ...]
    next_cursor: str | None

    def visible(self, now: datetime) -> tuple[MemoryEntry, ...]:
        return tuple(entry for entry in self.entries if not entry.is_expired(now))


Unread = Literal["no_longer_readable", "no_route", "not_allowed", "unavailable", "not_understood"]


@dataclass(frozen=True, slots=True)
class NotRead:
    """Why an answer brought no entry. "no_longer_readable" is a fact about the entry, the others are not: they say
    nothing about what memory holds."""

    why: Unread
    code: str = ""


REDACTED = re.compile(r"\[REDACTED(?::[^\[\]]{1,512})?\]|<REDACTED(?::[^<>]{1,512})?>", re.IGNORECASE)
"""`[REDACTED:<id>]` by the spec (SR-1); the other spellings occur. No marker holds another one's beginning, so that a
text of many beginnings is read once."""


def read_list(status: int, body: bytes) -> MemoryPage | NotRead:
    """`{memoryRef, entries, nextCursor?}`, or the array alone."""
    if status != 200:
        return _unread(status, body, missing="no_route")
    told = _loaded(body)
    listed = told.get("entries") if isinstance(told, dict) else told
    if not isinstance(listed, list):
        return NotRead("not_understood")
    members = told if isinstance(told, dict) else {}
    items = [read_memory_entry(value, index=index) for index, value in enumerate(listed)]
    return MemoryPage(
        memory_ref=_text(members.get("memoryRef")),
        entries=tuple(item for item in items if isinstance(item, MemoryEntry)),
        refused=tuple(item for item in items if isinstance(item, Refusal)),
        next_cursor=_text(members.get("nextCursor")),
    )


def read_one(status: int, body: bytes) -> MemoryEntry | NotRead:
    """`{memoryRef, entry}`, or the entry alone. 404, and an entry of null, mean that it is no longer readable."""
    if status != 200:
        return _unread(status, body, missing="no_longer_readable")
    told = _loaded(body)
    if isinstance(told, dict) and "entry" in told:
        told = told["entry"]
        if told is None:
            return NotRead("no_longer_readable")
    entry = read_memory_entry(told, index=0)
    return entry if isinstance(entry, MemoryEntry) else NotRead("not_understood")


_NO_ROUTE = re.compile(r"\s*no (?:such )?route", re.IGNORECASE)


def _unread(status: int, body: bytes, *, missing: Unread) -> NotRead:
    """By the status first: codes and shapes of error bodies differ between hosts."""
    told = _loaded(body)
    members = told if isinstance(told, dict) else {}
    code = without_credentials(_text(members.get("error")) or "")
    if status in (404, 410):
        # A host without the route answers 404 as well, and that must not bury its entries.
        is_routeless = _NO_ROUTE.match(_text(members.get("message")) or "") is not None
        return NotRead("no_route" if is_routeless else missing, code)
    if status in (401, 403):
        return NotRead("not_allowed", code)
    if status in (405, 501):
        return NotRead("no_route", code)
    return NotRead("unavailable" if status == 429 or status >= 500 else "not_understood", code)


def read_memory_entry(value: object, *, index: int) -> MemoryEntry | Refusal:
    """Only an entry without an id is refused: nothing could be said about it."""
    if not isinstance(value, dict):
        return Refusal(index, "an entry is a JSON object")
    memory_id = value.get("id")
    if not isinstance(memory_id, str) or not memory_id:
        return Refusal(index, "an entry without an id", "id")
    if len(memory_id) > LONGEST_ID:
        return Refusal(index, f"an id of more than {LONGEST_ID} characters", "id")
    if credentials.is_in(memory_id, an_id=True):
        return Refusal(index, "an id with the shape of a credential", "id")
    notes: list[str] = []
    told = _content(value.get("content"), notes)
    content = None if told is None else without_credentials(told)
    tags = tuple(map(without_credentials, _tags(value.get("tags"), notes)))
    created_at = _moment(value, "createdAt", notes)
    if value.get("createdAt") is None:
        notes.append("createdAt is missing")
    extra = sorted(value.keys() - {"id", "content", "tags", "createdAt", "expiresAt"})
    notes += [f"unknown member {json.dumps(without_credentials(name)[:64])}" for name in extra[:8]]
    return MemoryEntry(
        id=memory_id,
        content=content,
        tags=tags,
        created_at=created_at,
        expires_at=_moment(value, "expiresAt", notes),
        inferred=infer(tags),
        redaction_count=count_redactions(content or ""),
        looks_secret=content != told,
        notes=tuple(notes),
    )


def count_redactions(text: str) -> int:
    return sum(1 for _ in REDACTED.finditer(text))


def infer(tags: Iterable[str]) -> Inferred | None:
    """None when the tags hint at nothing."""
    told = list(tags)
    inferred = Inferred(
        run_ids=_named(told, "run-id:"),
        node_ids=_named(told, "node:"),
        workflow_ids=_named(told, "workflow:"),
        source_ids=_named(told, "compacted-from:"),
        is_run_summary="run-summary" in told,
    )
    is_empty = not (inferred.run_ids or inferred.node_ids or inferred.workflow_ids or inferred.source_ids)
    return None if is_empty and not inferred.is_run_summary else inferred


def _named(tags: list[str], prefix: str) -> tuple[str, ...]:
    named = (tag.removeprefix(prefix) for tag in tags if tag.startswith(prefix))
    return tuple(dict.fromkeys(name for name in named if name))


def _content(value: object, notes: list[str]) -> str | None:
    if isinstance(value, str):
        return value
    notes.append("content is missing" if value is None else "content is no text")
    return None


def _tags(value: object, notes: list[str]) -> tuple[str, ...]:
    if not isinstance(value, list):
        if value is not None:
            notes.append("tags are no array")
        return ()
    tags = tuple(tag for tag in value if isinstance(tag, str))
    if len(tags) != len(value):
        notes.append("tags that are no text were left out")
    if any(len(tag) > LONGEST_TAG for tag in tags):
        notes.append(f"a tag of more than {LONGEST_TAG} characters")
    return tags


def _moment(holder: Mapping[str, object], name: str, notes: list[str]) -> datetime | None:
    value = holder.get(name)
    if value is None:
        return None
    try:
        if not isinstance(value, str):
            raise ValueError("is no text")
        return read_timestamp(value)
    except ValueError as error:
        notes.append(f"{name} {error}")
        return None


def _loaded(body: bytes) -> object:
    """None for what is no JSON. Lone surrogates, which orjson refuses, are the standard library's."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
