"""Where a claim or a memory entry belongs, in the one form in which two scopes are compared.

A scope is an object of members that are all optional. Leaving one out, null, and empty (a blank text, an empty list or
object) say the same and are removed, at every level; whoever names no agent identity means `default`. Texts are NFC
without space around them. A scope written as a text is the scope of that type.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ledger.domain.canonical import NotCanonical, canonical_bytes
from ledger.domain.errors import LedgerError

DEFAULT_IDENTITY = "default"
IDENTITY = "agent_identity"
TYPE = "type"

# Spellings in use for the two members that the rules speak of.
_SPELLINGS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("agent_identity", "agentIdentity", "agent_id", "agentId"), IDENTITY),
        **dict.fromkeys(("type", "scope_type", "scopeType"), TYPE),
    }
)


class ScopeError(LedgerError):
    """Not an object, not JSON, or one member told twice with two values."""


@dataclass(frozen=True, slots=True)
class Scope:
    """`text` is canonical JSON (RFC 8785): equal texts are equal scopes."""

    text: str

    @property
    def members(self) -> dict[str, Any]:
        members: dict[str, Any] = json.loads(self.text)
        return members

    @property
    def identity(self) -> str:
        return str(self.members[IDENTITY])

    @property
    def type(self) -> str | None:
        return self.members.get(TYPE)


UNSCOPED = Scope(f'{{"{IDENTITY}":"{DEFAULT_IDENTITY}"}}')


def read_scope(raw: Mapping[str, Any] | str | None) -> Scope:
    if not raw:
        return UNSCOPED
    if isinstance(raw, str):
        raw = {TYPE: raw}
    if not isinstance(raw, Mapping):
        raise ScopeError("scope is not an object", field="scope")
    try:
        canonical_bytes(raw)
    except NotCanonical as error:
        raise ScopeError(f"scope{error.path}: {error.flaw}", field="scope") from error
    members = _named(without_empty(raw))
    members.setdefault(IDENTITY, DEFAULT_IDENTITY)
    for name in (IDENTITY, TYPE):
        if not isinstance(members.get(name, ""), str):
            raise ScopeError(f"scope.{name} is not a text", field=f"scope.{name}")
    return Scope(canonical_bytes(members).decode())


def without_empty(value: Any) -> Any:
    """`value` without members that say nothing, and its texts in NFC. An element of a list keeps its place. `value` has
    a canonical form, and so is not too deep for this."""
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value).strip()
    if isinstance(value, list):
        return [without_empty(element) for element in value]
    if not isinstance(value, Mapping):
        return value
    kept = ((name, without_empty(member)) for name, member in value.items())
    return {name: member for name, member in kept if not is_empty(member)}


def is_empty(value: Any) -> bool:
    """Zero and false say something; the rest of what Python calls false does not."""
    return value is None or (isinstance(value, str | list | Mapping) and not value)


def _named(members: Mapping[str, Any]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for name, member in members.items():
        known = _SPELLINGS.get(name, name)
        if named.get(known, member) != member:
            raise ScopeError(f"scope.{known} is told twice", field=f"scope.{name}")
        named[known] = member
    return named
