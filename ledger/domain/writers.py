"""Who may write, and how much a writer's word weighs in each category."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ledger.domain.errors import LedgerError
from ledger.domain.normalisers import folded

DEFAULT_PRIORITY = 50
UNREGISTERED_PRIORITY = 0
"""Of a writer without rules: a host's agent, say. It speaks, and everybody who was given authority outweighs it."""

_SERVICE_KEY = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")


class BadWriter(LedgerError):
    """A service key or authority rules that cannot be registered."""


@dataclass(frozen=True, slots=True)
class AuthorityRules:
    """Priorities from 0 to 100; a category without one of its own has the default."""

    default_priority: int = DEFAULT_PRIORITY
    categories: Mapping[str, int] = field(default_factory=dict)

    def priority(self, category: str) -> int:
        return self.categories.get(category, self.default_priority)


@dataclass(frozen=True, slots=True)
class Authorities:
    """The rules of a tenant's writers by their service key."""

    rules: Mapping[str, AuthorityRules] = field(default_factory=dict)

    def of(self, writer: str, category: str) -> int:
        rules = self.rules.get(writer)
        return UNREGISTERED_PRIORITY if rules is None else rules.priority(category)


def read_service_key(raw: Any) -> str:
    """A slug of 1 to 64 characters."""
    if not isinstance(raw, str) or not _SERVICE_KEY.fullmatch(raw):
        raise BadWriter("service_key is not a slug of a-z, 0-9, '.', '_' and '-'", field="service_key")
    return raw


def read_authority_rules(raw: Any) -> AuthorityRules:
    """From ``{default_priority, categories}``, both of them optional."""
    if raw is None:
        return AuthorityRules()
    if not isinstance(raw, Mapping):
        raise BadWriter("authority_rules is not an object", field="authority_rules")
    unknown = sorted(set(raw) - {"default_priority", "categories"})
    if unknown:
        raise BadWriter(f"authority_rules.{unknown[0]} is unknown", field=f"authority_rules.{unknown[0]}")
    categories = raw.get("categories") or {}
    if not isinstance(categories, Mapping):
        raise BadWriter("authority_rules.categories is not an object", field="authority_rules.categories")
    return AuthorityRules(
        _priority(raw.get("default_priority", DEFAULT_PRIORITY), "default_priority"),
        {folded(name): _priority(value, f"categories.{name}") for name, value in categories.items()},
    )


def _priority(value: Any, member: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 100:
        raise BadWriter(
            f"authority_rules.{member} is not a whole number from 0 to 100", field=f"authority_rules.{member}"
        )
    return value
