"""How much two texts look alike, by the runs of three characters that they share: the same answer everywhere, in any
script, without a model. It may suggest that a person looks; it decides nothing.
"""

from __future__ import annotations

from collections import Counter
from math import sqrt

from ledger.domain.normalisers import folded

VERSION = "trigrams-1"
LIKE = 0.6
"""From here on a text is said to be like a claim."""


def trigrams(text: str) -> Counter[str]:
    """Of each word, with its edges: a word of one letter has one too."""
    grams: Counter[str] = Counter()
    for word in "".join(letter if letter.isalnum() else " " for letter in folded(text)).split():
        padded = f" {word} "
        grams.update(padded[place : place + 3] for place in range(len(padded) - 2))
    return grams


def likeness(text: str, *, statement: str, content: str) -> float:
    """From 0 to 1: how much of a claim's statement, its key and value, is in the text; or how alike the text and the
    claim's own wording are, where that is more."""
    grams = trigrams(text)
    return round(max(_contained(trigrams(statement), grams), _cosine(trigrams(content), grams)), 4)


def _contained(part: Counter[str], whole: Counter[str]) -> float:
    return sum((part & whole).values()) / part.total() if part else 0.0


def _cosine(one: Counter[str], other: Counter[str]) -> float:
    if not one or not other:
        return 0.0
    product = sum(count * other[gram] for gram, count in one.items())
    return product / sqrt(sum(n * n for n in one.values()) * sum(n * n for n in other.values()))
