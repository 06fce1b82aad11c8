"""Claims in what people and services write: a port, and the deterministic extractor that is built in.

Of texts, only plain statements about the user are read: a sentence that says
one thing outright. Questions, conditions, hedges, wishes, the past and quotations say nothing here, and a text in which
nothing is found is an answer, not a failure. A negation is never read as its opposite's absence: "I don't like tea" is
a claim, "My plan is not Growth" names no plan and is none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ledger.domain.extraction_patterns import (
    ASSISTANTS_OWN,
    CLAUSE,
    LANGUAGES,
    SPELLINGS,
    TOPICS,
    Language,
    Pattern,
    Shape,
    Speaker,
)
from ledger.domain.key_registry import MAX_NAME_LENGTH
from ledger.domain.normalisers import folded
from ledger.domain.periods import ALWAYS, Period
from ledger.domain.scopes import Scope

VERSION = "statements-1"
MAX_SENTENCE_LENGTH = 400
MAX_KEY_WORDS = 5


@dataclass(frozen=True, slots=True)
class Message:
    """`role` is who speaks; a text that nobody speaks, such as a memory entry, comes as the user's."""

    content: str
    role: str = "user"


@dataclass(frozen=True, slots=True)
class Span:
    """Where a statement stands: code points of the message's own text, `end` excluded."""

    message: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Extracted:
    """A claim before it has a subject, a writer and a time. `ordinal` is its place among the statements; explicit
    claims are made at once and have none. `confidence` is the extractor's in its reading, or the writer's, if any.
    `scope` is None where the claim has that of its source."""

    category: str
    key: str
    value: Any
    content: str
    extractor: str
    confidence: float | None = None
    span: Span | None = None
    language: str | None = None
    ordinal: int = 0
    scope: Scope | None = None
    valid: Period = ALWAYS


class Extractor(Protocol):
    @property
    def version(self) -> str: ...

    def extract(self, messages: Sequence[Message]) -> tuple[Extracted, ...]: ...


class PlainStatements:
    """Reads English, German, French, Spanish, Chinese and Japanese."""

    version = VERSION

    def extract(self, messages: Sequence[Message]) -> tuple[Extracted, ...]:
        found: list[Extracted] = []
        for index, message in enumerate(messages):
            for text, start, end in _statements(message.content):
                statement = _read(text, message.role)
                if statement is not None:
                    found.append(_claim(statement, text, Span(index, start, end), len(found) + 1))
        return tuple(found)


def category(key: str) -> str:
    """Tastes are preferences, however they were put; the rest are facts."""
    return "preference" if key.startswith(_TASTES) else "fact"


_TASTES = ("likes:", "prefers:", "favourite_")


@dataclass(frozen=True, slots=True)
class _Statement:
    language: str
    key: str
    value: Any
    confidence: float


def _claim(statement: _Statement, text: str, span: Span, ordinal: int) -> Extracted:
    return Extracted(
        category=category(statement.key),
        key=statement.key,
        value=statement.value,
        content=text,
        extractor=VERSION,
        confidence=statement.confidence,
        span=span,
        language=statement.language,
        ordinal=ordinal,
    )


_SENTENCE = re.compile(r".+?(?:[.!?…]+(?=[\s\"')»”]|$)|[。！？；;\n]|$)", re.DOTALL)  # noqa: RUF001 - full-width marks
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:dr|mr|mrs|ms|prof|st|no|nr|vs|etc|bzw|ca|sr|sra|mme|mlle|[a-z]|[a-z]\.[a-z])\.$", re.IGNORECASE
)
_QUESTION = re.compile(r"[?？][\"')»”\s]*$|(?:吗|嗎|呢|吧|么|か)[。.!！]?\s*$")
_EDGES = re.compile(r"^[\s\-*•–>]+|[\s.!…。！；;,，、]+$")  # noqa: RUF001 - full-width marks
_SAME_WIDTH = str.maketrans("’‘＇：", "''':")  # noqa: RUF001 - marks that people and keyboards mix up
_HUMAN = frozenset(("user", "human", "customer", ""))

_CONFIDENCE = 0.9
_UNSURE = 0.5


def _statements(content: str) -> Iterator[tuple[str, int, int]]:
    """The text of each statement with where it stands in `content`."""
    text, places = _composed(content)
    for start, end in _sentences(text):
        if _QUESTION.search(text[start:end]):
            continue
        for first, last in _clauses(text, start, end):
            if first < last and last - first <= MAX_SENTENCE_LENGTH:
                yield text[first:last], places[first], places[last]


def _composed(content: str) -> tuple[str, Sequence[int]]:
    """NFC, with the place that each of its characters has in `content`; patterns are written in NFC."""
    if unicodedata.is_normalized("NFC", content):
        return content, range(len(content) + 1)
    pieces: list[str] = []
    places: list[int] = []
    start = 0
    for end in range(1, len(content) + 1):
        if end == len(content) or not unicodedata.combining(content[end]):
            piece = unicodedata.normalize("NFC", content[start:end])
            pieces.append(piece)
            places += [start] * len(piece)
            start = end
    return "".join(pieces), [*places, len(content)]


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for sentence in _SENTENCE.finditer(text):
        if _ABBREVIATION.search(text[start : sentence.end()]) and sentence.end() < len(text):
            continue
        yield start, sentence.end()
        start = sentence.end()


def _clauses(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for joint in CLAUSE.finditer(text, start, end):
        yield _trimmed(text, start, joint.start())
        start = joint.end()
    yield _trimmed(text, start, end)


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    inner = text[start:end]
    for edge in _EDGES.finditer(inner):
        if edge.start() == 0:
            start += edge.end()
        else:
            end -= edge.end() - edge.start()
    return start, max(start, end)


def _read(text: str, role: str) -> _Statement | None:
    plain = text.translate(_SAME_WIDTH)
    for language in LANGUAGES:
        if not language.hint.search(plain):
            continue
        opening = language.opening.match(plain)
        rest = plain[opening.end() :] if opening else plain
        for pattern in language.patterns:
            found = pattern.regex.fullmatch(rest)
            statement = found and _statement(language, pattern, found.groupdict(), role)
            if statement is not None:
                return statement
    return None


def _statement(language: Language, pattern: Pattern, words: dict[str, str | None], role: str) -> _Statement | None:
    sentence = pattern.sentence
    named = words.get("key")
    key = sentence.key if named is None else _key(language, named)
    confidence = _confidence(pattern, key, role)
    if confidence is None or (named is not None and not key):
        return None
    if sentence.shape in (Shape.ATTRIBUTE, Shape.FACT):
        said = _said(language, words.get("value") or "")
        return _Statement(language.code, key, said, confidence) if said else None
    thing = _said(language, words.get("object") or "", article=language.article)
    if not thing:
        return None
    topic = _topic(thing, language) if sentence.shape is Shape.PREFERENCE else None
    if topic is not None:
        return _Statement(language.code, f"favourite_{topic}", thing, confidence)
    return _Statement(language.code, f"{key or 'prefers'}:{folded(thing)}", sentence.truth, confidence)


def _said(language: Language, text: str, *, article: re.Pattern[str] | None = None) -> str:
    """What was said, without what means nothing; empty when nothing is left of it."""
    said = _unquoted(language.closing.sub("", _unquoted(text.strip())))
    found = article.match(said) if article else None
    said = said[found.end() :] if found else said
    is_said = len(said) <= MAX_NAME_LENGTH and language.says_nothing.fullmatch(said) is None
    return said if is_said else ""


_QUOTES = (*((mark, mark) for mark in "\"'"), ("“", "”"), ("„", "“"), ("«", "»"), ("「", "」"), ("『", "』"))


def _unquoted(text: str) -> str:
    for opening, closing in _QUOTES:
        if text.startswith(opening) and text.endswith(closing):
            return text[1:-1].strip()
    return text


def _key(language: Language, text: str) -> str:
    """The words of a key joined by underscores; empty when it is none."""
    words = folded(language.padding.sub("", folded(text))).split()
    is_key = len(words) <= MAX_KEY_WORDS and language.no_key.isdisjoint(words)
    # Chinese denies an attribute with a character in front of the verb: 我的套餐不是….
    return "_".join(SPELLINGS.get(word, word) for word in words) if is_key and not text.endswith("不") else ""


def _confidence(pattern: Pattern, key: str, role: str) -> float | None:
    """How sure it is that the sentence is about the user; None when it is about somebody else."""
    is_human = role.lower() in _HUMAN
    if pattern.speaker is Speaker.THIRD:
        return _CONFIDENCE
    if pattern.speaker is Speaker.FIRST:
        return _CONFIDENCE if is_human else None
    if not is_human:
        return _CONFIDENCE
    # A user who says "your" may repeat what a service said, or speak of the assistant.
    is_about_user = pattern.sentence.shape is Shape.ATTRIBUTE and key not in ASSISTANTS_OWN
    return _UNSURE if is_about_user else None


def _topic(thing: str, language: Language) -> str | None:
    """The kind of a thing, by the word that names it: "green tea" and "thé vert" are drinks, "tea parties" are not."""
    words = folded(thing).split()
    noun = words[0 if language.noun_first else -1]
    return TOPICS.get(" ".join(words)) or TOPICS.get(noun)
