"""What an event may not bring to the disk, found and replaced by its digest and length.

Two kinds of value are taken out:

*Credentials*, in events of any type. Whoever holds a resume token or its URL can answer for a person, whoever holds a
key can spend. A member is one when CREDENTIAL_NAMES matches its name, a text is one when SECRET_NAMES does. A text with
the shape of a key is one wherever it stands (`runs.domain.credentials`): of one of more than 256 characters only the
key goes. In an id it goes too, and the ids stay different; an event with a key for its run is not stored at all.

*Content*, in events that announce what memory holds (memory.written, memory.compacted, agent.memory.consolidated,
commitment.fired and their vendors' twins). These are free of content by definition (RFC 0057): they carry ids, tags
and counts. The whole event is searched: payload, its `data` copy and members nobody knows. Offending are

1. a member named in CONTENT_NAMES, whatever its type (null apart). The envelope's own `payload` and `data` are
   containers, not content;
2. a string of more than 256 characters, or one with the shape of a key, under any other name. Ids are exempt up to the
   length that the protocol gives them (ID_LENGTHS);
3. a string that stands directly in a payload which is not an object, since no name says what it is;
4. a member's name longer than 256 characters or like a key, and any text under it.

A member whose name starts with `openwop-`, `x-` or `vendor.` is the second major's place for extensions: a short
scalar stays there whatever its name, anything else is judged by the name behind the prefix.

A value becomes `{"$quarantined": {"sha256": …, "bytes": …}}`, over the UTF-8 text of a string and the canonical JSON
of anything else. In an array, where a tag must stay a string, for a name, an id, a part of a text, and where an object
would nest too deep, it becomes `[quarantined sha256:… bytes:…]`. What has been replaced is not replaced again, so an
export can be taken in.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Self

import orjson

from runs.domain import credentials, exact_json
from runs.domain.event import Leak, LeakKind
from runs.domain.exact_json import Edit, Number, Path

LONGEST_TEXT = 256
MOST_LEAKS = 1000

CONTENT_NAMES = frozenset(
    (
        *("content", "contents", "text", "plaintext", "body", "raw", "html", "markdown", "document", "documents"),
        *("value", "values", "data", "payload", "entry", "entries", "memory", "memories", "record", "records"),
        *("message", "messages", "prompt", "response", "completion", "question", "answer", "transcript"),
        *("summary", "title", "description", "note", "notes", "snippet", "preview", "excerpt", "quote", "comment"),
        *("fact", "facts", "statement", "observation", "reasoning", "thought", "delta", "chunk", "chunks"),
        *("input", "inputs", "output", "outputs", "result", "results"),
        *("embedding", "embeddings", "vector", "vectors"),
    )
)

# A memory entry's id has up to 1500 characters; every other id is held to the intake's own limit.
ID_LENGTHS: Mapping[str, int] = {
    **dict.fromkeys(("memoryref", "memoryid", "outputid", "sourceids", "mergedids"), 1500),
    **dict.fromkeys(("runid", "eventid", "nodeid", "agentid", "causationid", "commitmentid", "enqueuedrunid"), 512),
    **dict.fromkeys(("traceid", "spanid", "workspaceid", "workflowid", "parentrunid", "sourcerunid"), 512),
}

# As tuples: a union would be built anew at every look.
_HOLDERS = (dict, list)
_SCALARS = (str, int)

_CONTAINERS = frozenset(("payload", "data"))

# Part of the event's identity: read and limited by the intake, which refuses the event rather than change them.
_IDENTITY = frozenset(("runId", "eventId", "type", "sequence", "seq", "timestamp", "nodeId"))

_BARE = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz", "_-")
_EXTENSION = re.compile(r"(?:openwop-|x-|vendor\.)(?:.*\.)?", re.DOTALL)
_QUARANTINED = "$quarantined"
# An object in place of a value adds two levels.
_DEEPEST_OBJECT = exact_json.MAX_DEPTH - 2
_REPLACED_TEXT = re.compile(r"\[quarantined sha256:[0-9a-f]{64} bytes:[0-9]{1,20}\]")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LENGTH = re.compile(r"[0-9]{1,20}")


class _Reading(NamedTuple):
    """What a member's name says. `offence` is how its value offends whatever it is, `longest` how long a text may be
    that is to be free of content, `is_id` whether texts are ids, `is_secret` and `is_long` what is wrong with the name
    itself, `hides_text` whether a text under it is a secret."""

    offence: LeakKind | None
    longest: int
    is_id: bool = False
    is_extension: bool = False
    is_secret: bool = False
    is_long: bool = False
    hides_text: bool = False


_NAMELESS = _Reading("content", -1)


class NotStorable(ValueError):
    """Nothing can be put in place of what may not be stored. `field` is where, if it is one place."""

    def __init__(self, reason: str, field: str | None = None) -> None:
        super().__init__(reason)
        self.field = field


def inspect(
    event: Mapping[str, object], *, about_memory: bool, may_hold_credentials: bool
) -> tuple[Mapping[Path, Edit], Sequence[Leak]]:
    """What to change in the event's text, and what to tell of it. Raises NotStorable.

    A replacement is longer than a small value. So that an event cannot grow by them without limit, one with more
    than MOST_LEAKS of them has the envelope's members that hold them replaced whole.
    """
    search = _MemorySearch(may_hold_credentials) if about_memory else _Search(may_hold_credentials)
    search.envelope(event)
    if len(search.leaks) > MOST_LEAKS:
        search = search.in_whole_members(event)
    if len(search.leaks) > MOST_LEAKS:
        raise NotStorable(f"more than MOST_LEAKS ({MOST_LEAKS}) values that may not be stored")
    return search.edits, search.leaks


def without_credentials(text: str) -> str:
    """Text that is to be shown or kept beside events."""
    return credentials.without(text, lambda secret: _in_words(Leak("", *_measured(secret), "credential")))


class _Search:
    """Walks an event for credentials.

    A `path` is made of the names as they came, `shown` of the names as they will be stored.
    """

    def __init__(self, may_hold_credentials: bool) -> None:
        self.edits: dict[Path, Edit] = {}
        self.leaks: list[Leak] = []
        self._may_hold_credentials = may_hold_credentials

    def envelope(self, event: Mapping[str, object]) -> None:
        for name, value in event.items():
            if name in _IDENTITY and isinstance(value, _SCALARS):
                self._identity(name, value)
            else:
                self._envelope_member(name, value)

    def _identity(self, name: str, value: object) -> None:
        if not self._may_hold_credentials or not isinstance(value, str) or not credentials.is_in(value, an_id=True):
            return
        if name == "runId":
            raise NotStorable("runId has the shape of a credential", name)
        self._replace((name,), (name,), value, "credential", in_words=True)

    def _envelope_member(self, name: str, value: object) -> None:
        self._members((), (), {name: value})

    def in_whole_members(self, event: Mapping[str, object]) -> Self:
        whole = type(self)(self._may_hold_credentials)
        kind: LeakKind = "content" if any(leak.kind == "content" for leak in self.leaks) else "credential"
        for name in dict.fromkeys(str(path[0]) for path in self.edits):
            whole._replace((name,), (whole._stored((), (), name),), event[name], kind, in_words=name in _IDENTITY)
        return whole

    def _members(self, path: Path, shown: Path, members: Mapping[str, object]) -> None:
        for name, value in members.items():
            reading = _READINGS[name]
            if not self._passes(value, reading):
                self._value((*path, name), (*shown, self._stored(path, shown, name)), value, reading)

    def _elements(self, path: Path, shown: Path, elements: list[object], reading: _Reading) -> None:
        for index, element in enumerate(elements):
            if not self._passes(element, reading):
                self._value((*path, index), (*shown, index), element, reading)

    def _value(self, path: Path, shown: Path, value: object, reading: _Reading) -> None:
        is_plain_holder = reading.offence is None and isinstance(value, _HOLDERS)
        offence = None if is_plain_holder else self._offence(value, reading)
        if offence is not None:
            self._take_out(path, shown, value, reading, offence)
        elif isinstance(value, dict):
            self._members(path, shown, value)
        elif isinstance(value, list):
            self._elements(path, shown, value, reading)

    def _passes(self, value: object, reading: _Reading) -> bool:
        """Whether a value is so plain that nothing more has to be asked; most are."""
        if reading.offence is not None or reading.is_secret or isinstance(value, _HOLDERS):
            return False
        return not isinstance(value, str) or not self._is_secret(value, reading)

    def _is_secret(self, text: str, reading: _Reading) -> bool:
        if not self._may_hold_credentials:
            return False
        if reading.hides_text and credentials.is_secret_under_its_name(text):
            return True
        return credentials.is_in(text, an_id=reading.is_id)

    def _stored(self, path: Path, shown: Path, name: str) -> str:
        """How a name will be stored: as it is, unless it may not be."""
        if not self._is_renamed(_READINGS[name]):
            return name
        stored = _in_words(Leak("", *_measure(name), self._kind_of_names))
        self._tell((*shown, stored), name, self._kind_of_names)
        self.edits[(*path, name)] = Edit(name=f'"{stored}"')
        return stored

    _kind_of_names: LeakKind = "credential"

    def _is_renamed(self, reading: _Reading) -> bool:
        return reading.is_secret

    def _offence(self, value: object, reading: _Reading) -> LeakKind | None:
        if reading.offence == "credential":
            is_void = value is None or value is True or value is False or value == "" or _is_replacement(value)
            return None if is_void else "credential"
        if isinstance(value, str) and self._is_secret(value, reading):
            return "credential"
        return None

    def _take_out(self, path: Path, shown: Path, value: object, reading: _Reading, kind: LeakKind) -> None:
        is_by_its_shape = kind == "credential" and reading.offence != "credential" and not reading.hides_text
        if is_by_its_shape and isinstance(value, str) and len(value) > LONGEST_TEXT and not reading.is_id:
            self._take_parts_out(path, shown, value)
            return
        is_usable_id = reading.is_id and isinstance(value, str) and len(value) <= reading.longest
        self._replace(path, shown, value, kind, in_words=is_usable_id)

    def _take_parts_out(self, path: Path, shown: Path, text: str) -> None:
        left = credentials.without(text, lambda secret: _in_words(self._told(shown, _measured(secret), "credential")))
        self._edit(path, exact_json.dumps(left).decode())

    def _replace(self, path: Path, shown: Path, value: object, kind: LeakKind, *, in_words: bool = False) -> None:
        leak = self._tell(shown, value, kind)
        if in_words or isinstance(path[-1], int) or len(path) > _DEEPEST_OBJECT:
            self._edit(path, f'"{_in_words(leak)}"')
        else:
            told = orjson.dumps({_QUARANTINED: {"sha256": leak.sha256, "bytes": leak.length}}).decode()
            self._edit(path, told)

    def _edit(self, path: Path, value: str) -> None:
        self.edits[path] = replace(self.edits.get(path, Edit()), value=value)

    def _tell(self, shown: Path, value: object, kind: LeakKind) -> Leak:
        return self._told(shown, _measure(value), kind)

    def _told(self, shown: Path, measured: tuple[str, int], kind: LeakKind) -> Leak:
        leak = Leak(exact_json.pointer(shown), *measured, kind)
        self.leaks.append(leak)
        return leak


class _MemorySearch(_Search):
    """Looks for content too."""

    _kind_of_names: LeakKind = "content"

    def _envelope_member(self, name: str, value: object) -> None:
        if name in _CONTAINERS:
            self._container((name,), value)
        else:
            self._members((), (), {name: value})

    def _container(self, path: Path, value: object) -> None:
        if isinstance(value, dict):
            self._members(path, path, value)
        elif isinstance(value, list):
            self._elements(path, path, value, _NAMELESS)
        elif isinstance(value, str):
            self._value(path, path, value, _NAMELESS)

    def _passes(self, value: object, reading: _Reading) -> bool:
        if isinstance(value, str):
            return len(value) <= reading.longest and not self._is_secret(value, reading)
        return reading.offence is None and not self._is_renamed(reading) and not isinstance(value, _HOLDERS)

    def _is_renamed(self, reading: _Reading) -> bool:
        return reading.is_secret or reading.is_long

    def _offence(self, value: object, reading: _Reading) -> LeakKind | None:
        if value is None or _is_replacement(value):
            return None
        if reading.offence == "credential":
            return super()._offence(value, reading)
        if isinstance(value, str):
            return None if self._passes(value, reading) else "content"
        if reading.is_extension and not isinstance(value, _HOLDERS):
            return None
        return None if reading is _NAMELESS else reading.offence


def _measure(value: object) -> tuple[str, int]:
    text = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else None
    return _measured(exact_json.dumps(value, sort_keys=True) if text is None else text)


def _measured(told: bytes) -> tuple[str, int]:
    return hashlib.sha256(told).hexdigest(), len(told)


def _in_words(leak: Leak) -> str:
    return f"[quarantined sha256:{leak.sha256} bytes:{leak.length}]"


def _is_replacement(value: object) -> bool:
    if isinstance(value, str):
        return _REPLACED_TEXT.fullmatch(value) is not None
    if not isinstance(value, dict) or value.keys() != {_QUARANTINED}:
        return False
    told = value[_QUARANTINED]
    if not isinstance(told, dict) or told.keys() != {"sha256", "bytes"}:
        return False
    return (
        isinstance(told["sha256"], str) and _DIGEST.fullmatch(told["sha256"]) is not None and _is_length(told["bytes"])
    )


def _is_length(value: object) -> bool:
    text = value.literal if isinstance(value, Number) else str(value) if type(value) is int else ""
    return _LENGTH.fullmatch(text) is not None


class _Readings(dict[str, _Reading]):
    """Remembers the names that were read, but neither long nor many ones, so that a host cannot fill the memory."""

    def __missing__(self, name: str) -> _Reading:
        reading = _read(name)
        if len(name) <= 64 and len(self) < 4096:
            self[name] = reading
        return reading


_READINGS = _Readings()


def _read(name: str) -> _Reading:
    prefix = _EXTENSION.match(name)
    word = name[prefix.end() :] if prefix else name
    bare = word.translate(_BARE)
    is_secret, is_long = credentials.is_in(name, an_id=True), len(name) > LONGEST_TEXT
    if credentials.CREDENTIAL_NAMES.fullmatch(word):
        return _Reading("credential", -1, is_secret=is_secret, is_long=is_long)
    if is_secret or is_long:
        return _Reading(None, -1, is_secret=is_secret, is_long=is_long)
    if bare in ID_LENGTHS:
        return _Reading(None, ID_LENGTHS[bare], is_id=True)
    if bare in CONTENT_NAMES:
        return _Reading("content", LONGEST_TEXT if prefix else -1, is_extension=prefix is not None)
    return _Reading(None, LONGEST_TEXT, hides_text=credentials.is_secret_name(word))
