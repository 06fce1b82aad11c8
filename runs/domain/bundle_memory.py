"""Memory entries that stand in a debug bundle around its events: in a run's variables, or in a part of a host's own.

An entry is known by its closed shape. Under which ref it lives is told by the nearest `memoryRef` around it, if any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .memory_read import MemoryEntry, read_memory_entry

MOST = 1_000
DEEPEST = 64
LONGEST_REF = 1500

_ENTRY = frozenset(("id", "content", "tags", "createdAt"))


@dataclass(frozen=True, slots=True)
class FoundEntry:
    """``memory_ref`` is None where nothing around it says."""

    memory_ref: str | None
    entry: MemoryEntry


def found_memory(parts: Mapping[str, object]) -> tuple[FoundEntry, ...]:
    """In a bundle's members other than its events; the first one of each entry."""
    found: dict[tuple[str | None, str], FoundEntry] = {}
    for one in _within(parts, None, 0):
        found.setdefault((one.memory_ref, one.entry.id), one)
        if len(found) == MOST:
            break
    return tuple(found.values())


def _within(value: object, ref: str | None, depth: int) -> Iterator[FoundEntry]:
    if depth > DEEPEST:
        return
    if isinstance(value, Mapping):
        if value.keys() - {"expiresAt"} == _ENTRY:
            entry = read_memory_entry(value, index=0)
            if isinstance(entry, MemoryEntry) and entry.content is not None:
                yield FoundEntry(ref, entry)
            return
        near = _ref_in(value) or ref
        for member in value.values():
            yield from _within(member, near, depth + 1)
    elif isinstance(value, list):
        for element in value:
            yield from _within(element, ref, depth + 1)


def _ref_in(members: Mapping[str, object]) -> str | None:
    """A run's own is that of its agent."""
    agent = members.get("agent")
    told = members.get("memoryRef") or (agent.get("memoryRef") if isinstance(agent, Mapping) else None)
    return told if isinstance(told, str) and 0 < len(told) <= LONGEST_REF else None
