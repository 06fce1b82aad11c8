"""What an event may not bring to the disk, found and replaced by its digest and length.

Two kinds of value are taken out:

*Credentials*, in events of any type. Whoever holds a resume token or its URL can answer for a person. A member is one
when CREDENTIAL_NAMES matches its name; so is a string with `streamToken=` in it, as in the address of a stream.

*Content*, in events that announce what memory holds (memory.written, memory.compacted, agent.memory.consolidated,
commitment.fired and their vendors' twins). These are free of content by definition (RFC 0057): they carry ids, tags
and counts. The whole event is searched: payload, its `data` copy and members nobody knows. Offending are

1. a member named in CONTENT_NAMES, whatever its type (null apart). The envelope's own `payload` and `data` are
   containers, not content;
2. a string of more than 256 characters, or one that looks like a secret (SECRETS), under any other name. Ids are
   exempt up to the length that the protocol gives them (ID_LENGTHS);
3. a string that stands directly in a payload which is not an object, since no name says what it is;
4. a member's name longer than 256 characters or like a secret, and any text under it.

A member whose name starts with `openwop-`, `x-` or `vendor.` is the second major's place for extensions: a short
scalar stays there whatever its name, anything else is judged by the name behind the prefix.

A value becomes `{"$quarantined": {"sha256": …, "bytes": …}}`, over the UTF-8 text of a string and the canonical JSON
of anything else. In an array, where a tag must stay a string, for a name, and where an object would nest too deep, it
becomes `[quarantined sha256:… bytes:…]`. What has been replaced is not replaced again, so an export can be taken in.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Self

import orjson

from runs.domain import exact_json
from runs.domain.event import Leak, LeakKind
from runs.domain.exact_json import Edit, Number, Path

LONGEST_TEXT = 256
MOST_LEAKS = 1000

CREDENTIAL_NAMES = re.compile(
    "(?:interrupt|resume|stream|callback)[_-]?token|(?:interrupt|resume|callback)[_-]?url", re.IGNORECASE
)

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

# A mark that the text must contain, since most texts contain none, and the shape.
SECRETS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("sk-", re.compile(r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{16,}")),  # OpenAI, Anthropic
    ("k_", re.compile(r"(?<![A-Za-z0-9])[rs]k_(?:live|test)_[A-Za-z0-9]{16,}")),  # Stripe
    ("gh", re.compile(r"(?<![A-Za-z0-9])gh[opsur]_[A-Za-z0-9]{20,}")),  # GitHub
    ("github_pat_", re.compile(r"(?<![A-Za-z0-9])github_pat_[A-Za-z0-9_]{20,}")),
    ("xox", re.compile(r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{12,}")),  # Slack
    ("AIza", re.compile(r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{35}")),  # Google
    ("IA", re.compile(r"(?<![A-Za-z0-9])A[KS]IA[A-Z0-9]{16}")),  # AWS
    ("eyJ", re.compile(r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}\.")),  # JWT
    ("-----BEGIN", re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY")),  # PEM
    ("earer", re.compile(r"[Bb]earer\s+[A-Za-z0-9._~+/-]{16,}")),
    ("whsec_", re.compile(r"whsec_[A-Za-z0-9+/=_-]{16,}")),  # Standard Webhooks
    ("tream", re.compile(r"[?&][Ss]tream[_-]?[Tt]oken=")),  # this protocol's address of a stream
)
_SHORTEST_SECRET = 17

_BARE = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz", "_-")
_STREAM_TOKEN_IN_URL = re.compile(r"[?&]stream[_-]?token=", re.IGNORECASE)
_EXTENSION = re.compile(r"(?:openwop-|x-|vendor\.)(?:.*\.)?", re.DOTALL)
_QUARANTINED = "$quarantined"
# An object in place of a value adds two levels.
_DEEPEST_OBJECT = exact_json.MAX_DEPTH - 2
_REPLACED_TEXT = re.compile(r"\[quarantined sha256:[0-9a-f]{64} bytes:[0-9]{1,20}\]")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LENGTH = re.compile(r"[0-9]{1,20}")


class _Reading(NamedTuple):
    """What a member's name says. `offence` is how its value offends whatever it is, `longest` how long a text may be,
    `is_id` whether texts are ids (not judged by their looks), `renamed` whether the name itself has to go."""

    offence: LeakKind | None
    longest: int
    is_id: bool = False
    is_extension: bool = False
    renamed: bool = False


_NAMELESS = _Reading("content", -1)


def may_hold_credentials(canonical: str) -> bool:
    """A cheap look at JSON text without needless escapes; False is certain."""
    lower = canonical.lower()
    return "token" in lower or "url" in lower


class TooManyLeaks(ValueError):
    def __init__(self) -> None:
        super().__init__(f"more than MOST_LEAKS ({MOST_LEAKS}) values that may not be stored")


def inspect(event: Mapping[str, object], *, about_memory: bool) -> tuple[Mapping[Path, Edit], Sequence[Leak]]:
    """What to change in the event's text, and what to tell of it.

    A replacement is longer than a small value. So that an event cannot grow by them without limit, one with more
    than MOST_LEAKS of them has the envelope's members that hold them replaced whole, and TooManyLeaks is raised when
    that is no help.
    """
    search = _MemorySearch() if about_memory else _Search()
    search.envelope(event)
    if len(search.leaks) > MOST_LEAKS:
        search = search.in_whole_members(event)
    if len(search.leaks) > MOST_LEAKS:
        raise TooManyLeaks
    return search.edits, search.leaks


class _Search:
    """Walks an event for credentials.

    A `path` is made of the names as they came, `shown` of the names as they will be stored.
    """

    def __init__(self) -> None:
        self.edits: dict[Path, Edit] = {}
        self.leaks: list[Leak] = []

    def envelope(self, event: Mapping[str, object]) -> None:
        self._members((), (), event)

    def in_whole_members(self, event: Mapping[str, object]) -> Self:
        whole = type(self)()
        kind: LeakKind = "content" if any(leak.kind == "content" for leak in self.leaks) else "credential"
        for name in dict.fromkeys(str(path[0]) for path in self.edits):
            whole._replace((name,), (whole._stored((), (), name),), event[name], kind)
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
            self._replace(path, shown, value, offence)
        elif isinstance(value, dict):
            self._members(path, shown, value)
        elif isinstance(value, list):
            self._elements(path, shown, value, reading)

    def _passes(self, value: object, reading: _Reading) -> bool:
        """Whether a value is so plain that nothing more has to be asked; most are."""
        if isinstance(value, str):
            return reading.offence is None and "=" not in value
        return reading.offence is None and not isinstance(value, _HOLDERS)

    def _stored(self, path: Path, shown: Path, name: str) -> str:
        return name

    def _offence(self, value: object, reading: _Reading) -> LeakKind | None:
        if reading.offence == "credential":
            is_void = value is None or value is True or value is False or value == "" or _is_replacement(value)
            return None if is_void else "credential"
        if isinstance(value, str) and _STREAM_TOKEN_IN_URL.search(value):
            return "credential"
        return None

    def _replace(self, path: Path, shown: Path, value: object, kind: LeakKind) -> None:
        leak = self._tell(shown, value, kind)
        if isinstance(path[-1], int) or len(path) > _DEEPEST_OBJECT:
            self.edits[path] = replace(self.edits.get(path, Edit()), value=f'"{_in_words(leak)}"')
            return
        told = orjson.dumps({_QUARANTINED: {"sha256": leak.sha256, "bytes": leak.length}}).decode()
        self.edits[path] = replace(self.edits.get(path, Edit()), value=told)

    def _tell(self, shown: Path, value: object, kind: LeakKind) -> Leak:
        leak = Leak(exact_json.pointer(shown), *_measure(value), kind)
        self.leaks.append(leak)
        return leak


class _MemorySearch(_Search):
    """Looks for content too."""

    def envelope(self, event: Mapping[str, object]) -> None:
        for name, value in event.items():
            if name in _CONTAINERS:
                self._container((name,), value)
            elif not (name in _IDENTITY and isinstance(value, _SCALARS)):
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
            return len(value) <= reading.longest and (reading.is_id or not _is_secret(value))
        return reading.offence is None and not reading.renamed and not isinstance(value, _HOLDERS)

    def _stored(self, path: Path, shown: Path, name: str) -> str:
        if not _READINGS[name].renamed:
            return name
        stored = _in_words(Leak("", *_measure(name), "content"))
        self._tell((*shown, stored), name, "content")
        self.edits[(*path, name)] = Edit(name=f'"{stored}"')
        return stored

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


def _is_secret(text: str) -> bool:
    if len(text) < _SHORTEST_SECRET:
        return False
    for mark, shape in SECRETS:  # noqa: SIM110 - any() takes twice as long, and every tag comes here
        if mark in text and shape.search(text):
            return True
    return False


def _measure(value: object) -> tuple[str, int]:
    text = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else None
    told = exact_json.dumps(value, sort_keys=True) if text is None else text
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
    renamed = len(name) > LONGEST_TEXT or _is_secret(name)
    if CREDENTIAL_NAMES.fullmatch(word):
        return _Reading("credential", -1, renamed=renamed)
    if renamed:
        return _Reading(None, -1, renamed=True)
    if bare in ID_LENGTHS:
        return _Reading(None, ID_LENGTHS[bare], is_id=True)
    if bare in CONTENT_NAMES:
        return _Reading("content", LONGEST_TEXT if prefix else -1, is_extension=prefix is not None)
    return _Reading(None, LONGEST_TEXT)
