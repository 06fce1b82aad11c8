"""What a host says it can do: the discovery document of either major, read without guessing.

The first major puts families at the document's root (RFC 0073) and says `supported`; older hosts wrap them in
`capabilities`, which is looked into for a family that the root does not have. In the second major a family is a record
{status, since, until?, witness, …facets}: there is no `supported`, the record's presence is the claim (RFC 0169
section A), and a family or facet that a host does not offer is left out.

Three answers, therefore. A family that a first-major document does not mention is unknown. A facet missing from a
family that is there is "not", as the RFC of that facet defines its absence; so is anything missing in the second major.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal
from urllib.parse import parse_qsl, urlsplit

from runs.domain import credentials
from runs.domain.exact_json import MAX_DEPTH, Path, TooDeep, pointer

Answer = Literal["supported", "not", "unknown"]

DIMENSIONS = (
    *("read", "write", "search", "long-term", "compaction", "distillation"),
    *("attribution", "replay-snapshot", "retention"),
)
"""RFC 0080 section A, with distillation (RFC 0062) told apart from compaction (RFC 0012)."""

WITHHELD = "[credential removed]"


class NotADiscoveryDocument(ValueError):
    """The document is no JSON object, or nested beyond reason."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """`pointers` (RFC 6901) lead to what decided it: where it stands, or where it would stand. `details` are the
    facet's own words: search modes, retention kinds, the version of the execution model."""

    name: str
    answer: Answer
    pointers: tuple[str, ...]
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Family:
    """A capability family. `status`, `since`, `until` and `witness` are the second major's."""

    name: str
    pointer: str
    answer: Answer
    status: str | None = None
    since: str | None = None
    until: str | None = None
    witness: str | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """A derived predicate. `missing` are the conditions that do not hold; none of them means that the host is in."""

    name: str
    missing: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.missing


@dataclass(frozen=True, slots=True)
class Capabilities:
    """`max_entry_size_bytes` is None when it is not told, `injection_unit` when there is no injection budget.

    `document` is what may be kept: without credentials and without wrapped families that the root repeats; `withheld`
    are the places where a credential stood.
    """

    majors: tuple[int, ...]
    implementation: str
    version: str
    vendor: str
    dimensions: Mapping[str, Dimension]
    injection_unit: str | None
    max_entry_size_bytes: int | None
    ttl_supported: bool | None
    fork_modes: tuple[str, ...]
    signature_algorithms: tuple[str, ...]
    families: tuple[Family, ...]
    profiles: tuple[Profile, ...]
    document: Mapping[str, object]
    withheld: tuple[str, ...]

    @property
    def claims_attribution(self) -> bool:
        return self.dimensions["attribution"].answer == "supported"


def read_capabilities(document: object) -> Capabilities:
    """Raises NotADiscoveryDocument."""
    if not isinstance(document, dict):
        raise NotADiscoveryDocument("a discovery document is a JSON object")
    try:
        kept, withheld = without_credentials(document)
    except TooDeep as error:
        raise NotADiscoveryDocument(str(error)) from None
    told = _Document(_unwrapped(kept) if isinstance(kept, dict) else {})
    memory, replay, webhooks = told.family("memory"), told.family("replay"), told.family("webhooks")
    implementation = _members(told.root.get("implementation"))
    return Capabilities(
        majors=_majors(told.root),
        implementation=_text(implementation.get("name")) or "",
        version=_text(implementation.get("version")) or "",
        vendor=_text(implementation.get("vendor")) or "",
        dimensions=MappingProxyType({name: read(told) for name, read in _DIMENSION_READERS.items()}),
        injection_unit=_injection_unit(memory),
        max_entry_size_bytes=_whole(memory.members.get("maxEntrySizeBytes")),
        ttl_supported=_flag(memory.members.get("ttlSupported")),
        fork_modes=_texts(replay.members.get("modes")) if replay.answer == "supported" else (),
        signature_algorithms=_texts(webhooks.members.get("signatureAlgorithms")),
        families=tuple(_family(told.family(name)) for name in told.family_names()),
        profiles=tuple(Profile(name, tuple(_missing(conditions, told))) for name, conditions in _profiles(told)),
        document=MappingProxyType(told.root),
        withheld=withheld,
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """A family, or a facet of one, with the path at which it stands or would stand."""

    name: str
    path: Path
    value: object
    is_there: bool
    is_record: bool
    absence: Answer

    @property
    def members(self) -> Mapping[str, object]:
        return _members(self.value)

    @property
    def answer(self) -> Answer:
        if not self.is_there:
            return self.absence
        if isinstance(self.value, bool):
            return "supported" if self.value else "not"
        supported = self.members.get("supported")
        if isinstance(supported, bool):
            return "supported" if supported else "not"
        # The second major's record has no `supported`. The first major's block without one does not say.
        return "supported" if self.is_record else "unknown"

    def facet(self, name: str) -> "_Part":
        is_there = name in self.members
        absence: Answer = "not" if self.is_there else self.absence
        return _Part(name, (*self.path, name), self.members.get(name), is_there, self.is_record, absence)


class _Document:
    def __init__(self, root: Mapping[str, object]) -> None:
        self.root = root
        self.is_second_major = any(_is_record(value) for value in root.values())
        self._absence: Answer = "not" if self.is_second_major else "unknown"

    def family(self, name: str) -> _Part:
        if name in self.root:
            value = self.root[name]
            return _Part(name, (name,), value, True, _is_record(value), self._absence)
        wrapped = _members(self.root.get("capabilities"))
        if name in wrapped:
            return _Part(name, ("capabilities", name), wrapped[name], True, False, self._absence)
        if name in _texts(self.root.get("refusedCapabilities")):
            return _Part(name, ("refusedCapabilities",), None, False, False, "not")
        return _Part(name, (name,), None, False, False, self._absence)

    def family_names(self) -> Iterator[str]:
        """Root members that look like a family, then wrapped ones."""
        for name, value in self.root.items():
            if name not in _METADATA and (_is_record(value) or "supported" in _members(value) or name in _KNOWN):
                yield name
        yield from (name for name in _members(self.root.get("capabilities")) if name not in self.root)


_METADATA = frozenset(
    (
        *("protocolVersion", "protocolVersions", "preferredVersion", "extensions", "implementation", "engineVersion"),
        *("eventLogSchemaVersion", "configurable", "observability", "minClientVersion", "runtimeCapabilities"),
        *("testing", "conformance", "fixtures", "compliance", "discovery", "supportedTransports", "signingKeys"),
        *("capabilities", "hostExtensions"),
    )
)
"""Core capabilities section 3.1, and the first major's wrapper and host extensions."""
_KNOWN = frozenset(("memory", "agents", "multiAgent", "replay", "webhooks", "feedback", "debugBundle", "runList"))


def _is_record(value: object) -> bool:
    members = _members(value)
    return "supported" not in members and "status" in members and ("witness" in members or "since" in members)


def _family(part: _Part) -> Family:
    answer = part.answer
    if not part.is_record:
        return Family(part.name, pointer(part.path), answer)
    record = {name: _text(part.members.get(name)) for name in ("status", "since", "until", "witness")}
    return Family(part.name, pointer(part.path), answer, **record)


def _unwrapped(document: Mapping[str, object]) -> dict[str, object]:
    """Without the wrapped families that the root says too: it is read first, and one change is one change."""
    wrapped = document.get("capabilities")
    if not isinstance(wrapped, dict):
        return dict(document)
    left = {name: value for name, value in wrapped.items() if name not in document}
    rest = {name: value for name, value in document.items() if name != "capabilities"}
    return rest | ({"capabilities": left} if left else {})


def _majors(root: Mapping[str, object]) -> tuple[int, ...]:
    versions = root.get("protocolVersions")
    named = [*(versions if isinstance(versions, list) else ()), root.get("preferredVersion")]
    named.append(root.get("protocolVersion"))
    found = {_major(version) for version in named if isinstance(version, str)}
    return tuple(sorted((major for major in found if major is not None), reverse=True))


_MAJOR = re.compile(r"([0-9]{1,3})(?:\.|\Z)")


def _major(version: str) -> int | None:
    found = _MAJOR.match(version)
    return int(found[1]) if found else None


def _read(told: _Document) -> Dimension:
    memory = told.family("memory")
    return Dimension("read", memory.answer, (_claim_pointer(memory),))


def _write(told: _Document) -> Dimension:
    # RFC 0080: without `writable`, the adapter's four operations are there.
    memory = told.family("memory")
    writable = memory.facet("writable")
    if memory.answer == "supported" and writable.value is False:
        return Dimension("write", "not", (pointer(writable.path),))
    place = pointer(writable.path) if writable.is_there else _claim_pointer(memory)
    return Dimension("write", memory.answer, (place,))


def _search(told: _Document) -> Dimension:
    return _facet_dimension("search", told.family("memory").facet("search"), details="modes")


def _compaction(told: _Document) -> Dimension:
    return _facet_dimension("compaction", told.family("memory").facet("compaction"))


def _distillation(told: _Document) -> Dimension:
    return _facet_dimension("distillation", told.family("memory").facet("distillation"))


def _facet_dimension(name: str, facet: _Part, *, details: str = "") -> Dimension:
    place = _claim_pointer(facet) if facet.is_there else pointer(facet.path)
    said = _texts(facet.members.get(details)) if facet.answer == "supported" else ()
    return Dimension(name, facet.answer, (place,), said)


_LONG_TERM = frozenset(("long-term", "longTerm"))
"""RFC 0080 writes the first, RFC 0004 the second."""


def _long_term(told: _Document) -> Dimension:
    backends = told.family("agents").facet("memoryBackends")
    if isinstance(backends.value, list):
        answer: Answer = "not" if _LONG_TERM.isdisjoint(_texts(backends.value)) else "supported"
    else:
        answer = "unknown" if backends.is_there else backends.absence
    return Dimension("long-term", answer, (pointer(backends.path),), _texts(backends.value))


def _attribution(told: _Document) -> Dimension:
    """RFC 0057 section A: only `emitsWriteEvents: true` is the promise; beside it the first major says `supported`."""
    attribution = told.family("memory").facet("attribution")
    emits = attribution.facet("emitsWriteEvents")
    answer: Answer = attribution.absence
    if attribution.is_there:
        is_supported = attribution.is_record or attribution.members.get("supported") is True
        answer = "supported" if is_supported and emits.value is True else "not"
    return Dimension("attribution", answer, (pointer(emits.path if attribution.is_there else attribution.path),))


def _replay_snapshot(told: _Document) -> Dimension:
    """RFC 0080 section A: long-term memory, and phase 2 or later of the execution model (RFC 0039)."""
    long_term = _long_term(told)
    model = told.family("multiAgent").facet("executionModel")
    version = _whole(model.members.get("version"))
    answers = {long_term.answer, _execution_model(model, version)}
    answer: Answer = "not" if "not" in answers else "unknown" if "unknown" in answers else "supported"
    place = pointer(model.facet("version").path if model.is_there else model.path)
    return Dimension(
        "replay-snapshot", answer, (*long_term.pointers, place), () if version is None else (f"version {version}",)
    )


def _execution_model(model: _Part, version: int | None) -> Answer:
    if not model.is_there or model.answer == "not":
        return "unknown" if model.absence == "unknown" else "not"
    return "unknown" if version is None else "supported" if version >= 2 else "not"


def _retention(told: _Document) -> Dimension:
    memory = told.family("memory")
    retention, ttl = memory.facet("retention"), memory.facet("ttlSupported")
    kinds = [kind for kind in ("ttl", "forget") if retention.members.get(kind) is True]
    if ttl.value is True and "ttl" not in kinds:
        kinds.insert(0, "ttl")
    place = retention if retention.is_there or not ttl.is_there else ttl
    answer: Answer = "supported" if kinds else "not" if memory.is_there else memory.absence
    return Dimension("retention", answer, (pointer(place.path),), tuple(kinds))


_DIMENSION_READERS: Mapping[str, Callable[[_Document], Dimension]] = MappingProxyType(
    dict(
        zip(
            DIMENSIONS,
            (
                *(_read, _write, _search, _long_term, _compaction, _distillation),
                *(_attribution, _replay_snapshot, _retention),
            ),
            strict=True,
        )
    )
)


def _claim_pointer(part: _Part) -> str:
    """To `supported` where it stands, else to the record or to where it would stand."""
    return pointer((*part.path, "supported") if "supported" in part.members else part.path)


def _injection_unit(memory: _Part) -> str | None:
    """The unit that a token budget counts in (RFC 0113)."""
    budget = memory.facet("injectionBudget")
    unit = _text(budget.members.get("tokenCounter"))
    return unit or "unknown" if budget.answer == "supported" else None


Condition = tuple[str, Callable[[_Document], bool]]


def _profiles(told: _Document) -> Iterator[tuple[str, tuple[Condition, ...]]]:
    core = _SECOND_MAJOR_CORE if told.is_second_major else _FIRST_MAJOR_CORE
    yield "openwop-discovery-core", core
    if told.is_second_major:
        yield "openwop-core-standard", (*core, *_CORE_STANDARD)
    else:
        yield "openwop-interrupts", (*core, _INTERRUPTS)
    yield "openwop-memory", (*core, *_MEMORY)
    yield "openwop-replay-fork", (*core, *_REPLAY_FORK)


def _missing(conditions: Sequence[Condition], told: _Document) -> Iterator[str]:
    return (words for words, holds in conditions if not holds(told))


def _is_count(told: _Document, name: str) -> bool:
    value = _whole(told.family("limits").members.get(name))
    return value is not None and value >= 0


_FIRST_MAJOR_CORE: tuple[Condition, ...] = (
    ("protocolVersion is of major 1", lambda told: str(told.root.get("protocolVersion")).startswith("1.")),
    ("supportedEnvelopes is an array", lambda told: isinstance(told.root.get("supportedEnvelopes"), list)),
    ("schemaVersions is an object", lambda told: isinstance(told.root.get("schemaVersions"), dict)),
    ("limits.clarificationRounds is a count", lambda told: _is_count(told, "clarificationRounds")),
    ("limits.schemaRounds is a count", lambda told: _is_count(told, "schemaRounds")),
    ("limits.envelopesPerTurn is a count", lambda told: _is_count(told, "envelopesPerTurn")),
)
_SECOND_MAJOR_CORE: tuple[Condition, ...] = (
    ("protocolVersions is there", lambda told: bool(_texts(told.root.get("protocolVersions")))),
    ("preferredVersion is there", lambda told: bool(_text(told.root.get("preferredVersion")))),
)


def _has(name: str) -> Condition:
    return f"{name} is supported", lambda told: told.family(name).answer == "supported"


def _is_dimension(name: str) -> Condition:
    return f"{name} memory is supported", lambda told: _DIMENSION_READERS[name](told).answer == "supported"


_CORE_STANDARD = tuple(_has(name) for name in ("interrupt", "replay", "webhooks", "idempotency", "eventLog"))
_INTERRUPTS: Condition = (
    "supportedEnvelopes has clarification.request",
    lambda told: "clarification.request" in _texts(told.root.get("supportedEnvelopes")),
)
_MEMORY = tuple(_is_dimension(name) for name in ("read", "write", "long-term"))
_REPLAY_FORK: tuple[Condition, ...] = (
    _has("replay"),
    ("replay.modes is not empty", lambda told: bool(_texts(told.family("replay").members.get("modes")))),
)


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two documents; the value that is not there is None, and `kind` says which."""

    kind: Literal["added", "removed", "changed"]
    pointer: str
    before: object = None
    after: object = None


def changes(before: Capabilities, after: Capabilities) -> list[Change]:
    """What differs between two readings of one host, in the order of the pointers.

    In an array of plain values only what came and went counts, not where: its elements have the pointer `/array/-`.
    """
    return sorted(_changes((), before.document, after.document), key=lambda one: (one.pointer, one.kind))


def _changes(path: Path, before: object, after: object) -> Iterator[Change]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from _member_changes(path, before, after)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _element_changes(path, before, after)
    elif _typed(before) != _typed(after):
        yield Change("changed", pointer(path), before, after)


def _member_changes(path: Path, before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[Change]:
    for name in before.keys() | after.keys():
        place = (*path, name)
        if name not in after:
            yield Change("removed", pointer(place), before=before[name])
        elif name not in before:
            yield Change("added", pointer(place), after=after[name])
        else:
            yield from _changes(place, before[name], after[name])


def _element_changes(path: Path, before: list[object], after: list[object]) -> Iterator[Change]:
    if not all(_is_plain(value) for value in (*before, *after)):
        if before != after:
            yield Change("changed", pointer(path), before, after)
        return
    place = pointer((*path, "-"))
    were, are = Counter(map(_typed, before)), Counter(map(_typed, after))
    yield from (Change("removed", place, before=value) for _, value in (were - are).elements())
    yield from (Change("added", place, after=value) for _, value in (are - were).elements())


def _is_plain(value: object) -> bool:
    return not isinstance(value, dict | list)


def _typed(value: object) -> tuple[bool, object]:
    # For Python, 1 and True are equal.
    return isinstance(value, bool), value


_CREDENTIAL_WORD = re.compile(
    r"(?:.*[^a-z])?(?:tokens?|secrets?|passwords?|passwd|credentials?|authorization|cookies?|bearer)"
    r"|.*(?:api|access|private|signing|client)[_-]?(?:key|token|secret)s?",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def without_credentials(value: object) -> tuple[object, tuple[str, ...]]:
    """The same value with WITHHELD for every credential in it, and the pointers to where one stood.

    A credential is: text under a name that says so (a block of that name, such as the family `secrets`, is looked
    into), text with the shape of a known kind of key, and an address that carries a name, a password or a token.
    Raises TooDeep.
    """
    withheld: list[str] = []
    return _kept((), value, withheld), tuple(withheld)


def _kept(path: Path, value: object, withheld: list[str]) -> object:
    if len(path) > MAX_DEPTH:
        raise TooDeep
    if isinstance(value, dict):
        return {name: _kept((*path, name), member, withheld) for name, member in value.items()}
    if isinstance(value, list):
        return [_kept((*path, index), element, withheld) for index, element in enumerate(value)]
    if isinstance(value, str) and (_is_credential_name(path) or has_credential(value)):
        withheld.append(pointer(path))
        return WITHHELD
    return value


def _is_credential_name(path: Path) -> bool:
    """By the nearest name: an element of an array is called what the array is called."""
    name = next((step for step in reversed(path) if isinstance(step, str)), "")[-128:]
    return bool(credentials.CREDENTIAL_NAMES.fullmatch(name) or _CREDENTIAL_WORD.fullmatch(_CAMEL.sub("-", name)))


_ADDRESS = re.compile(r"""[A-Za-z][A-Za-z0-9+.-]{0,20}://[^\s"'<>]*""")


def has_credential(text: str) -> bool:
    """Whether text is or holds a credential, by its looks alone."""
    if credentials.is_in(text):
        return True
    return "://" in text and any(_is_sensitive_address(address) for address in _ADDRESS.findall(text))


def _is_sensitive_address(address: str) -> bool:
    try:
        parts = urlsplit(address)
        names = [name for part in (parts.query, parts.fragment) for name, _ in parse_qsl(part)]
    except ValueError:
        return True  # what cannot be looked into is not kept
    return "@" in parts.netloc or any(_is_credential_name((name,)) for name in names)


def _members(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _whole(value: object) -> int | None:
    return value if type(value) is int else None
