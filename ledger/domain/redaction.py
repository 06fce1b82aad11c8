"""Secrets do not reach the disk with what is remembered (SR-1).

Two kinds are looked for, in content and in tags. *Known* secrets, such as those of the run that writes, are replaced by
`[REDACTED:<id>]`: plain substrings, the longest first, so that a secret inside a longer one leaves nothing of it;
values under 8 characters are passed over, because they would take ordinary words with them. *Secret-shaped* text, found
by the detect-secrets library and by the shapes that the intake of events knows, is replaced in the same way under the
name of its shape. A mark that stands in a text already is left alone.

A tenant's policy either rewrites or refuses (`secret_leakage`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple

from ledger.domain.errors import LedgerError
from runs.domain import credentials

VERSION = "redaction-1"
SHORTEST_SECRET = 8


class Policy(StrEnum):
    REWRITE = "rewrite"
    REFUSE = "refuse"


class SecretLeakage(LedgerError):
    """Names what was found, never the secret."""

    code = "secret_leakage"

    def __init__(self, found: Iterable[str]) -> None:
        self.found = tuple(sorted(set(found)))
        super().__init__(f"the entry contains secrets: {', '.join(self.found)}", field="content")


class BadSecretId(LedgerError):
    """An id that a mark cannot carry: empty, with a bracket, or giving a secret away."""


@dataclass(frozen=True, slots=True)
class Redacted:
    """`found` names each secret that was replaced, once."""

    content: str
    tags: tuple[str, ...]
    found: tuple[str, ...]


class Span(NamedTuple):
    start: int
    end: int
    name: str


def redact(
    content: str, tags: Sequence[str] = (), *, secrets: Mapping[str, str], policy: Policy = Policy.REWRITE
) -> Redacted:
    """`secrets` are the known ones, value by id. SecretLeakage under the policy that refuses."""
    ordered = _longest_first(secrets)
    texts = [_marked(text, ordered) for text in (content, *tags)]
    found = sorted({name for _, names in texts for name in names})
    if found and policy is Policy.REFUSE:
        raise SecretLeakage(found)
    return Redacted(texts[0][0], tuple(text for text, _ in texts[1:]), tuple(found))


def secret_shapes(text: str) -> list[Span]:
    """Where `text` looks like a secret, by what its shape is called; apart from each other, first to last."""
    if not may_hold_secret(text):
        return []
    masked = _MARK.sub(lambda mark: " " * len(mark[0]), text)
    found = [*_pem(masked)]
    for start in range(0, max(1, len(masked) - _OVERLAP), _WINDOW - _OVERLAP):
        for find in _finders():
            found += (
                Span(start + span.start, start + span.end, span.name) for span in find(masked[start : start + _WINDOW])
            )
    spans: list[Span] = []
    for span in sorted(found, key=lambda span: (span.start, -span.end)):
        if spans and span.start < spans[-1].end:
            spans[-1] = spans[-1]._replace(end=max(span.end, spans[-1].end))
        else:
            spans.append(span)
    return spans


def _longest_first(secrets: Mapping[str, str]) -> list[tuple[str, str]]:
    known = [(secret_id, value) for secret_id, value in secrets.items() if len(value) >= SHORTEST_SECRET]
    for secret_id, _ in known:
        if not secret_id or "]" in secret_id or any(value in secret_id for _, value in known):
            raise BadSecretId("a secret's id is empty, has a bracket in it, or contains a secret")
    return sorted(known, key=lambda secret: (-len(secret[1]), secret[1], secret[0]))


_MARK = re.compile(r"[\[<]REDACTED(?::[^\]>]+)?[\]>]")


def _marked(text: str, secrets: Sequence[tuple[str, str]]) -> tuple[str, set[str]]:
    """Every second piece is a mark; those are never looked at again."""
    names: set[str] = set()
    pieces = [text]
    for secret_id, value in secrets:
        if value in text:
            pieces = list(_cut(pieces, value, f"[REDACTED:{secret_id}]"))
            names |= {secret_id} if f"[REDACTED:{secret_id}]" in pieces else set()
    known = "".join(pieces)
    marked: list[str] = []
    last = 0
    for span in secret_shapes(known):
        marked += (known[last : span.start], f"[REDACTED:{span.name}]")
        names.add(span.name)
        last = span.end
    return "".join((*marked, known[last:])), names


def _cut(pieces: Sequence[str], value: str, mark: str) -> Iterator[str]:
    for index, piece in enumerate(pieces):
        if index % 2:
            yield piece
            continue
        for place, part in enumerate(piece.split(value)):
            if place:
                yield mark
            yield part


# Some of the library's expressions take time with the square of the text. No token is longer than the overlap.
_WINDOW = 4096
_OVERLAP = 1280

# Every shape has one of these: a run of letters and digits that is no word, an address, or a word for a secret.
_RUN = re.compile(r"[A-Za-z0-9_+/=-]{11,}")
_SIGNS = ("eyJ", "://", "PRIVATE KEY", "PuTTY", "earer", "oken=")
_WORDS = re.compile(r"pass|pwd|secret|key|contrase|token|cred|hmac|softlayer|cloudant|xox[a-z]-", re.IGNORECASE)


def may_hold_secret(text: str) -> bool:
    """A cheap look; False is certain. Most of what is remembered are a few plain words."""
    if any(sign in text for sign in _SIGNS) or _WORDS.search(text):
        return True
    return any(not run.isalpha() or not run[1:].islower() or len(run) > 23 for run in _RUN.findall(text))


_Find = Callable[[str], Iterator[Span]]
_TOKEN = re.compile(r"[A-Za-z0-9_+/=.~-]*")
_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*-----|\Z)", re.DOTALL)
_ASSIGNED = re.compile(
    r"\b(?:pass(?:word|wd|phrase)?|pwd|secret|api[ _-]?key|access[ _-]?key|(?:auth|access|api)[ _-]?token)\b"
    r"(?:\s+is|\s*[:=])?[\s:=]+[\"'`]?(?P<secret>[^\s\"'`,;]{8,})",
    re.IGNORECASE,
)


@cache
def _finders() -> tuple[_Find, ...]:
    return (*_detectors(), _known_shapes, _assigned)


def _pem(text: str) -> Iterator[Span]:
    """The whole block: detectors point at its first line only."""
    return (Span(*found.span(), "private-key") for found in _PEM.finditer(text))


def _assigned(text: str) -> Iterator[Span]:
    """ "password is hunter2hunter2": something behind the word for a secret that has letters as well as digits."""
    for found in _ASSIGNED.finditer(text):
        secret = found["secret"].rstrip(".!?)")
        if len(secret) >= SHORTEST_SECRET and any(map(str.isdigit, secret)) and any(map(str.isalpha, secret)):
            start = found.start("secret")
            yield Span(start, start + len(secret), "secret-keyword")


def _known_shapes(text: str) -> Iterator[Span]:
    yield from (_whole(text, start, end, "token") for start, end in credentials.spans_in(text))


def _whole(text: str, start: int, end: int, name: str) -> Span:
    """A token up to its end: some shapes describe only how it begins."""
    rest = _TOKEN.match(text, end)
    end = rest.end() if rest else end
    return Span(start, end - len(text[start:end]) + len(text[start:end].rstrip(".")), name)


# Hex digests and addresses are ordinary in what agents remember: commits, checksums, hosts.
_LEFT_OUT = frozenset(("HexHighEntropyString", "IPPublicDetector"))


def _detectors() -> Iterator[_Find]:
    """The library's detectors, called for their shapes alone: nothing is verified, so nothing is sent anywhere."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    from detect_secrets.plugins.base import RegexBasedDetector
    from detect_secrets.plugins.high_entropy_strings import HighEntropyStringsPlugin

    detectors: dict[str, Any] = get_mapping_from_secret_type_to_class()
    for secret_type, detector in sorted(detectors.items()):
        if detector.__name__ in _LEFT_OUT:
            continue
        name = re.sub(r"[^a-z0-9]+", "-", secret_type.lower()).strip("-")
        plugin = detector()
        if isinstance(plugin, RegexBasedDetector):
            yield _by_shape(plugin, name)
        elif isinstance(plugin, HighEntropyStringsPlugin):
            yield _by_entropy(plugin, name)
        else:
            yield _by_value(plugin, name)


# What the text has to contain before an expression that is slow on slashes is tried.
_SIGN_OF = {"NpmDetector": ":_authToken"}


def _by_shape(plugin: Any, name: str) -> _Find:
    is_valid: Callable[[str], bool] = getattr(plugin, "is_formally_valid", lambda _: True)
    sign = _SIGN_OF.get(type(plugin).__name__, "")

    def find(text: str) -> Iterator[Span]:
        for shape in plugin.denylist if sign in text else ():
            for found in shape.finditer(text):
                if is_valid(found[0]):
                    yield _whole(text, *_secret_part(found), name)

    return find


def _secret_part(found: re.Match[str]) -> tuple[int, int]:
    """The group that holds the secret. A group that the match begins with is only how such a secret begins."""
    parts = [found.span(group) for group in range(1, found.re.groups + 1) if found.start(group) > found.start()]
    start, end = max(parts, key=lambda part: part[1] - part[0], default=found.span())
    around = found.string[start:end]
    return start + len(around) - len(around.lstrip(_AROUND)), end - len(around) + len(around.rstrip(_AROUND))


_AROUND = " \t\n\r=:\"'"


def _by_entropy(plugin: Any, name: str) -> _Find:
    def find(text: str) -> Iterator[Span]:
        for value in set(plugin.analyze_string(text)):
            if plugin.calculate_shannon_entropy(value) > plugin.entropy_limit:
                yield from _everywhere(text, value, name)

    return find


def _by_value(plugin: Any, name: str) -> _Find:
    def find(text: str) -> Iterator[Span]:
        for line in text.splitlines() if _WORDS.search(text) else ():
            for value in set(plugin.analyze_string(line)):
                if len(value) >= SHORTEST_SECRET:
                    yield from _everywhere(text, value, name)

    return find


def _everywhere(text: str, value: str, name: str) -> Iterator[Span]:
    return (Span(*found.span(), name) for found in re.finditer(re.escape(value), text))
