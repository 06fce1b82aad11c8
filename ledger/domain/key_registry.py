"""What is known about a key: whether it holds one value at a time or many, and how its values are compared.

Keys are told apart by category and name, both in NFC, lower case, with space collapsed: NFC and NFD of one key are one
key, in any script, and no two words are ever folded into one slug. A key that nobody registered is single-valued and
compares values by what they are in JSON; a tenant's rules come before the built-in ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

from ledger.domain.errors import LedgerError
from ledger.domain.normalisers import Kind, folded

VERSION = "keys-1"
MAX_NAME_LENGTH = 256
DEFAULT_CATEGORY = "fact"

Cardinality = Literal["single", "many"]


class BadKey(LedgerError):
    """A category or a name that is empty or longer than MAX_NAME_LENGTH."""


@dataclass(frozen=True, slots=True)
class Key:
    category: str
    name: str


@dataclass(frozen=True, slots=True)
class KeyRule:
    """`unit` is what a bare number means. `recency_between_equals` lets the newer of two writers of equal authority win
    where otherwise a person is asked."""

    cardinality: Cardinality = "single"
    kind: Kind = Kind.PLAIN
    unit: str | None = None
    recency_between_equals: bool = False


DEFAULT_RULE = KeyRule()

# One yes or no for each thing that is spoken of: `likes:tea`.
_ABOUT_EACH = KeyRule(kind=Kind.TRUTH)
BUILT_IN_FAMILIES: Mapping[str, KeyRule] = MappingProxyType(
    dict.fromkeys(("likes", "prefers", "uses", "speaks", "allergic_to"), _ABOUT_EACH)
)
BUILT_IN: Mapping[str, KeyRule] = MappingProxyType(
    {
        "birthday": KeyRule(kind=Kind.DATE),
        "email": KeyRule(kind=Kind.TEXT),
        **dict.fromkeys(("tag", "tags", "skill", "skills", "language", "languages"), KeyRule("many", Kind.TEXT)),
    }
)


@lru_cache(maxsize=4096)
def read_key(category: str | None, name: str) -> Key:
    """Without a category the key is about a `fact`."""
    return Key(_canonical(category or DEFAULT_CATEGORY, "category"), _canonical(name, "key"))


def _canonical(text: str, member: str) -> str:
    canonical = folded(text)
    if not canonical:
        raise BadKey(f"{member} is empty", field=member)
    if len(canonical) > MAX_NAME_LENGTH:
        raise BadKey(f"{member} is longer than {MAX_NAME_LENGTH} characters", field=member)
    return canonical


@dataclass(frozen=True, slots=True)
class KeyRegistry:
    """A tenant's own rules over the built-in ones."""

    rules: Mapping[Key, KeyRule] = field(default_factory=dict)

    def rule(self, key: Key) -> KeyRule:
        return self.rules.get(key) or _built_in(key.name)


@lru_cache(maxsize=4096)
def _built_in(name: str) -> KeyRule:
    family, mark, _ = name.partition(":")
    known = BUILT_IN.get(name)
    return known or (BUILT_IN_FAMILIES.get(family, DEFAULT_RULE) if mark else DEFAULT_RULE)
