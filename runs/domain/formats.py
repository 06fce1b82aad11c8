"""What a file or a body holds: by its media type where that speaks of events, else by its first bytes.

Names of files only decide where the bytes leave it open, as people name them wrongly.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType

HEAD_BYTES = 64 * 1024
"""So many bytes are enough to look at."""

JSON = "application/json"
NDJSON_TYPES = frozenset(("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"))
CLOUDEVENT = "application/cloudevents+json"
CLOUDEVENT_BATCH = "application/cloudevents-batch+json"

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SPACE = b" \t\r\n"


class Packing(Enum):
    NONE = auto()
    GZIP = auto()
    ZSTD = auto()


class Form(Enum):
    """How the events lie in the text: one a line, as elements of an array, as one object, in a bundle's object."""

    LINES = auto()
    ARRAY = auto()
    OBJECT = auto()
    BUNDLE = auto()


@dataclass(frozen=True, slots=True)
class Format:
    """`is_cloudevents` says that each item is a CloudEvents envelope, to be unwrapped after the form's reader."""

    form: Form
    is_cloudevents: bool = False


class Foreign(ValueError):
    """Bytes of a kind that is not read here; the message names the kind."""


# In front of every Zstandard stream stands a frame or, of sixteen numbers, a skippable frame (RFC 8878 section 3.1).
_PACKINGS: tuple[tuple[re.Pattern[bytes], Packing], ...] = (
    (re.compile(rb"\x1f\x8b"), Packing.GZIP),
    (re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), Packing.ZSTD),
)

_FOREIGN: Mapping[bytes, str] = MappingProxyType(
    {
        b"PK\x03\x04": "zip",
        b"\xfd7zXZ": "xz",
        b"BZh": "bzip2",
        b"\x04\x22\x4d\x18": "lz4",
        b"7z\xbc\xaf": "7z",
        b"%PDF": "PDF",
        b"SQLite format 3\0": "a SQLite database",
        b"PAR1": "Parquet",
        b"\xff\xfe": "UTF-16",
        b"\xfe\xff": "UTF-16",
    }
)
LONGEST_MARK = max(map(len, _FOREIGN))


def packing_of(head: bytes) -> Packing:
    """Raises Foreign for a known kind that is not read. Needs LONGEST_MARK bytes, or all there are."""
    for mark, packing in _PACKINGS:
        if mark.match(head):
            return packing
    for start, kind in _FOREIGN.items():
        if head.startswith(start):
            raise Foreign(f"the bytes are {kind}; plain, gzip and zstd are read")
    return Packing.NONE


def sniff(head: bytes, *, name: str = "", content_type: str = "") -> Format:
    """The form of unpacked text. `head` is its beginning: HEAD_BYTES of it, or all there is.

    `content_type` is the media type without parameters; one that does not speak of events is not looked at.
    """
    text = head.removeprefix(_BYTE_ORDER_MARK).lstrip(_SPACE)
    media = content_type.strip().lower()
    if media in NDJSON_TYPES:
        return Format(Form.LINES, is_cloudevents=_is_cloudevent(text))
    if media in _CLOUDEVENTS:
        return Format(_CLOUDEVENTS[media], is_cloudevents=True)
    if text.startswith(b"["):
        return Format(Form.ARRAY, is_cloudevents=_is_cloudevent(text.removeprefix(b"[").lstrip(_SPACE)))
    members = dict(_members(text))
    if _is_bundle(members):
        return Format(Form.BUNDLE)
    is_one = media == JSON or (not _LINES_NAME.search(name) and _is_printed_out(text))
    return Format(Form.OBJECT if is_one else Form.LINES, is_cloudevents=b"specversion" in members)


_CLOUDEVENTS = MappingProxyType({CLOUDEVENT: Form.OBJECT, CLOUDEVENT_BATCH: Form.ARRAY})
_LINES_NAME = re.compile(r"\.(?:ndjson|jsonl)(?:\.(?:gz|zst))?\Z", re.IGNORECASE)
# The debug bundle's own members, for when its events begin behind the head.
_BUNDLE_MARKS = frozenset((b"bundleVersion", b"redactionApplied", b"truncatedReason"))


def _is_bundle(members: Mapping[bytes, bytes]) -> bool:
    return members.get(b"events") == b"[" or not _BUNDLE_MARKS.isdisjoint(members)


def _is_cloudevent(text: bytes) -> bool:
    return b"specversion" in dict(_members(text))


# Where a pretty-printer breaks an object's first line. An object on one line ends in a closing bracket.
_BROKEN_OFF = (b"{", b"[", b",", b":")


def _is_printed_out(text: bytes) -> bool:
    """Whether one object goes over several lines, which NDJSON forbids."""
    line, end, _ = text.partition(b"\n")
    line = line.rstrip(_SPACE)
    return bool(end) and line.startswith(b"{") and line.endswith(_BROKEN_OFF)


_TOKEN = re.compile(rb'"((?:[^"\\]|\\.)*+)"|[\[\]{}:,]|[^\s"\[\]{}:,]+', re.DOTALL)


def _members(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Names in the object that `text` begins with, as far as it goes, each with the first character of its value."""
    if not text.startswith(b"{"):
        return
    depth = 0
    name: bytes | None = None
    is_value = False
    for token in _TOKEN.finditer(text, 0, HEAD_BYTES):
        mark = token[0][:1]
        if depth == 1 and is_value and name is not None:
            yield name, mark
            name, is_value = None, False
        if mark in b"[{":
            depth += 1
        elif mark in b"]}":
            depth -= 1
            if not depth:
                return
        elif depth == 1 and mark == b":":
            is_value = True
        elif depth == 1 and mark == b'"':
            name = token[1]
