"""What an erasure looks for: the texts that were remembered, and the words in them that stand for nothing else.

Content finds its way into what is made of it: claims, summaries, reasons, tool calls. What is linked is found by its
links; the rest is found by its texts, or by a word that hardly anything else has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

ERASED = "[erased]"
"""What stands in the place of an erased text."""

SHORTEST = 8
SHORTEST_LINE = 24
MOST_PARTS = 2000
RARE = 5
"""A word that more other entries than these have is a common one."""

_WORD = re.compile(r"[^\s\"'`<>(){}\[\],;]{8,512}")


@dataclass(frozen=True, slots=True)
class Quotes:
    """`texts` are whole contents and long lines, looked for everywhere. `words` have letters as well as digits; they
    are looked for where a link or a place in common makes it likely that they were taken from there."""

    texts: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    def are_in(self, text: str) -> bool:
        return any(part in text for part in self.texts)

    def may_be_in(self, text: str) -> bool:
        return self.are_in(text) or any(word in text for word in self.words)

    def __or__(self, other: Quotes) -> Quotes:
        return Quotes(
            tuple(dict.fromkeys((*self.texts, *other.texts))), tuple(dict.fromkeys((*self.words, *other.words)))
        )


def quotes_of(contents: Iterable[str]) -> Quotes:
    texts: dict[str, None] = {}
    words: dict[str, None] = {}
    for content in contents:
        whole = content.strip()
        if len(whole) >= SHORTEST:
            texts[whole] = None
        texts.update((line, None) for line in map(str.strip, whole.splitlines()) if len(line) >= SHORTEST_LINE)
        words.update((word, None) for word in map(_bare, _WORD.findall(content)) if _is_telling(word))
    return Quotes(tuple(texts)[:MOST_PARTS], tuple(words)[:MOST_PARTS])


def _bare(word: str) -> str:
    return word.strip(".:!?")


def _is_telling(word: str) -> bool:
    return len(word) >= SHORTEST and any(map(str.isdigit, word)) and any(map(str.isalpha, word))


def spellings(text: str) -> tuple[str, ...]:
    """How a text stands within JSON, with its characters as they are or escaped."""
    plain = json.dumps(text, ensure_ascii=False)[1:-1]
    return tuple(dict.fromkeys((text, plain, json.dumps(text)[1:-1])))


def scrubbed(value: Any, quotes: Quotes) -> Any:
    """JSON with ERASED for every text, names included, that quotes."""
    if isinstance(value, str):
        return ERASED if quotes.may_be_in(value) else value
    if isinstance(value, list):
        return [scrubbed(element, quotes) for element in value]
    if isinstance(value, Mapping):
        return {scrubbed(name, quotes): scrubbed(member, quotes) for name, member in value.items()}
    return value
