"""What is left of an event whose payload is taken away: its envelope, and what says which event of which thing it is.

Every other value becomes `{"$withheld": {"sha256": …, "bytes": …}}`, over the UTF-8 text of a string and the canonical
JSON of anything else, so that whoever has the event can still show that it is this one. In an array and for a name,
where an object has no place, it becomes `[withheld sha256:… bytes:…]`. What is withheld already stays as it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping

import orjson

from runs.domain import exact_json
from runs.domain.exact_json import Edit, Number, Path, Step

MARK = "$withheld"
LONGEST_KEPT = 512

ENVELOPE = frozenset(
    (
        *("eventId", "runId", "type", "sequence", "seq", "timestamp", "nodeId", "causationId"),
        *("schemaVersion", "engineVersion"),
    )
)
CONTAINERS = frozenset(("payload", "data"))
KEPT = frozenset(
    (
        # Of which thing it tells.
        *("memoryRef", "memoryId", "outputId", "sourceIds", "mergedIds", "commitmentId", "proposalId", "duplicateOf"),
        *("nodeId", "agentId", "runId", "parentRunId", "sourceRunId", "childRunId", "workflowId", "typeId"),
        *("callId", "toolName", "invocationId", "interruptId", "originalEventId", "causationHostId"),
        # What happened to it, in a word or a number.
        *("status", "kind", "mode", "trigger", "attempt", "durationMs", "transport", "divergenceKind", "atSequence"),
        *("sourceCount", "byteSize", "inputCount", "outputCount", "code", "argsHash"),
    )
)
"""Members of a payload that stay, where they hold an id, a word or a number, or an array of such."""
WITH_PARTS = frozenset(("error",))
"""Members of which the kept parts stay."""
TAGS = "tags"

_TEXT = re.compile(r"\[withheld sha256:[0-9a-f]{64} bytes:[0-9]{1,20}\]")


def without_payload(body: str, *, keeps_tags: bool = False) -> str:
    """The event without anything that is not its identity. Tags of memory events are words of the ledger."""
    return _edited(body, lambda event: _payload_edits(event, keeps_tags))


def without_texts(body: str, is_meant: Callable[[str], bool]) -> str:
    """The event without the texts, names included, that are meant. Its identity stays: it can not be content."""
    return _edited(body, lambda event: _text_edits((), event, is_meant))


def without_tags(body: str, *, keep: str) -> str:
    """The event without its tags, but for those that begin with ``keep``."""
    return _edited(body, lambda event: _tag_edits(event, keep))


def is_withheld(value: object) -> bool:
    if isinstance(value, str):
        return _TEXT.fullmatch(value) is not None
    return isinstance(value, dict) and value.keys() == {MARK}


def _edited(body: str, edits_of: Callable[[Mapping[str, object]], Iterator[tuple[Path, Edit]]]) -> str:
    event = exact_json.loads(body)
    if not isinstance(event, dict):
        return body
    edits = dict(edits_of(event))
    return exact_json.splice(body, edits) if edits else body


def _payload_edits(event: Mapping[str, object], keeps_tags: bool) -> Iterator[tuple[Path, Edit]]:
    for name, value in event.items():
        if name in CONTAINERS and isinstance(value, dict) and not is_withheld(value):
            yield from _member_edits((name,), value, keeps_tags)
        elif name not in ENVELOPE:
            yield from _edit((name,), value)


def _tag_edits(event: Mapping[str, object], keep: str) -> Iterator[tuple[Path, Edit]]:
    for container in CONTAINERS:
        members = event.get(container)
        tags = members.get(TAGS) if isinstance(members, dict) else None
        if isinstance(tags, list) and any(isinstance(tag, str) and tag.startswith(keep) for tag in tags):
            for index, tag in enumerate(tags):
                if not (isinstance(tag, str) and tag.startswith(keep)):
                    yield from _edit((container, TAGS, index), tag)
        elif tags is not None:
            yield from _edit((container, TAGS), tags)


def _member_edits(path: Path, members: Mapping[str, object], keeps_tags: bool) -> Iterator[tuple[Path, Edit]]:
    for name, value in members.items():
        place = (*path, name)
        if name in WITH_PARTS and isinstance(value, dict) and not is_withheld(value):
            yield from _member_edits(place, value, keeps_tags=False)
        elif not _stays(name, value, keeps_tags):
            yield from _edit(place, value)


def _stays(name: str, value: object, keeps_tags: bool) -> bool:
    if name != TAGS and name not in KEPT:
        return value is None
    if name == TAGS and not keeps_tags:
        return False
    return _is_plain(value) or (isinstance(value, list) and all(map(_is_plain, value)))


def _is_plain(value: object) -> bool:
    text = value.literal if isinstance(value, Number) else value
    return value is None or isinstance(value, bool) or (isinstance(text, str) and len(text) <= LONGEST_KEPT)


def _edit(path: Path, value: object) -> Iterator[tuple[Path, Edit]]:
    if value is None or is_withheld(value) or value == {} or value == []:
        return
    yield path, Edit(value=_mark(value, in_words=isinstance(path[-1], int)))


def _text_edits(path: Path, value: object, is_meant: Callable[[str], bool]) -> Iterator[tuple[Path, Edit]]:
    children: Iterator[tuple[Step, object]]
    if isinstance(value, str):
        if not is_withheld(value) and is_meant(value):
            yield path, Edit(value=_mark(value, in_words=isinstance(path[-1], int)))
        return
    if isinstance(value, dict):
        for name in value:
            if is_meant(name) and path:
                yield (*path, name), Edit(name=_mark(name, in_words=True))
        # What says of which thing an event tells is no content, wherever a content may have taken it from.
        identity = KEPT if len(path) == 1 and path[0] in CONTAINERS else frozenset() if path else ENVELOPE
        children = iter((name, one) for name, one in value.items() if name not in identity)
    elif isinstance(value, list):
        children = enumerate(value)
    else:
        return
    for step, child in children:
        yield from _text_edits((*path, step), child, is_meant)


def _mark(value: object, *, in_words: bool) -> str:
    told = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else exact_json.dumps(value, sort_keys=True)
    digest, length = hashlib.sha256(told).hexdigest(), len(told)
    if in_words:
        return f'"[withheld sha256:{digest} bytes:{length}]"'
    return orjson.dumps({MARK: {"sha256": digest, "bytes": length}}).decode()
