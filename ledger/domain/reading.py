"""Reads the memory family of events: which entry an event speaks of, and who it says wrote it.

Payload members are those of the protocol's run-event payloads (RFC 0057 for ``memory.written``, RFC 0012 and 0062
for ``memory.compacted``, RFC 0068 for ``agent.memory.consolidated``). A member that is missing or of another kind
than the protocol gives it is read as unknown; the event itself is never refused here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal
from uuid import UUID, uuid5

import orjson

READER = 2
"""Version of this reading. Another one means that the log is read again."""

TYPES = ("memory.written", "memory.compacted", "agent.memory.consolidated")
COMPACTED_FROM = "compacted-from:"
"""How a tag names a source of a compaction's output (RFC 0012). Tags are a host's own: what they say is a hint."""

LONGEST_ADDRESS = 2048
"""Characters of a memory ref or id. The protocol's entries have ids of 1,500 at most; longer ones fit no link."""
LONGEST_NAME = 512
"""Characters of a node or agent id, as the log takes them."""

_ENTRIES = UUID("0b1f6f0e-6a53-4f0c-9a39-4a8b7f0d2c11")
_SCOPES = UUID("6d0a3a0f-2f0d-4b57-8a4e-5f1c9f5f0a27")


@dataclass(frozen=True, slots=True)
class Address:
    """Where an entry lives on its host. Both parts are opaque."""

    memory_ref: str
    memory_id: str


@dataclass(frozen=True, slots=True)
class Written:
    """One write. ``address`` is None when the host masked or dropped an id."""

    address: Address | None
    node_id: str | None
    agent_id: str | None
    tags: tuple[str, ...]
    tagged_sources: tuple[Address, ...]
    """Entries that the tags say this one came out of."""


@dataclass(frozen=True, slots=True)
class Merged:
    """Entries that became fewer. ``sources`` is empty where the host named none, which is its right."""

    kind: Literal["compaction", "consolidation"]
    memory_ref: str
    output: Address | None
    sources: tuple[Address, ...]
    sources_named: bool
    source_count: int | None
    output_count: int | None
    byte_size: int | None
    trigger: str


def entry_id(host_id: int, address: Address) -> UUID:
    """The same address on the same host always gives the same id, so that a ledger read again is the same ledger."""
    ref = address.memory_ref
    return uuid5(_ENTRIES, f"{host_id}:{len(ref)}:{ref}{address.memory_id}")


@lru_cache(maxsize=4096)
def scope_id(host_id: int, memory_ref: str) -> UUID:
    return uuid5(_SCOPES, f"{host_id}:{memory_ref}")


def read_fact(type: str, body: str) -> Written | Merged | None:
    """What an event of the memory family says, from its JSON text; None for an event of any other type."""
    if type not in TYPES:
        return None
    event = _members(body)
    payload = event.get("payload")
    said = payload if payload is not None else event.get("data")
    members = said if isinstance(said, Mapping) else {}
    if type == "memory.written":
        return _written(members, event)
    return _compacted(members) if type == "memory.compacted" else _consolidated(members)


def _members(body: str) -> Mapping[str, Any]:
    """Only names and counts are read here, so a number needs no more than 64 bits. The log knows the exact text."""
    try:
        event = orjson.loads(body)
    except orjson.JSONDecodeError:
        # It refuses lone surrogates and numbers that are infinite for it, which the log takes.
        event = json.loads(body, parse_int=_whole_number)
    return event if isinstance(event, Mapping) else {}


def _whole_number(digits: str) -> int | None:
    return int(digits) if len(digits) < 20 else None


def _written(said: Mapping[str, Any], event: Mapping[str, Any]) -> Written:
    tags = said.get("tags")
    named = tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else ()
    address = _address(said.get("memoryRef"), said.get("memoryId"))
    return Written(
        address=address,
        # Hosts name the node in the payload, in the envelope, or not at all; the payload is about the write.
        node_id=_text(said.get("nodeId"), LONGEST_NAME) or _text(event.get("nodeId"), LONGEST_NAME),
        agent_id=_text(said.get("agentId"), LONGEST_NAME),
        tags=named,
        tagged_sources=_addresses(address.memory_ref, compacted_from(named)) if address else (),
    )


def compacted_from(tags: Iterable[str]) -> tuple[str, ...]:
    """The memory ids that tags name as sources, each once."""
    named = (tag.removeprefix(COMPACTED_FROM) for tag in tags if tag.startswith(COMPACTED_FROM))
    return tuple(dict.fromkeys(memory_id for memory_id in named if memory_id))


def _compacted(said: Mapping[str, Any]) -> Merged:
    ref = _text(said.get("memoryRef"), LONGEST_ADDRESS) or ""
    named = isinstance(said.get("sourceIds"), list)
    return Merged(
        kind="compaction",
        memory_ref=ref,
        output=_address(ref, said.get("outputId")),
        sources=_addresses(ref, said.get("sourceIds")),
        sources_named=named,
        source_count=_count(said.get("sourceCount")),
        output_count=1,
        byte_size=_count(said.get("byteSize")),
        trigger=_text(said.get("trigger"), LONGEST_NAME) or "",
    )


def _consolidated(said: Mapping[str, Any]) -> Merged:
    ref = _text(said.get("memoryRef"), LONGEST_ADDRESS) or ""
    return Merged(
        kind="consolidation",
        memory_ref=ref,
        output=None,
        sources=_addresses(ref, said.get("mergedIds")),
        sources_named=isinstance(said.get("mergedIds"), list),
        source_count=_count(said.get("inputCount")),
        output_count=_count(said.get("outputCount")),
        byte_size=None,
        trigger=_text(said.get("trigger"), LONGEST_NAME) or "",
    )


def _address(ref: Any, memory_id: Any) -> Address | None:
    ref, memory_id = _text(ref, LONGEST_ADDRESS), _text(memory_id, LONGEST_ADDRESS)
    return Address(ref, memory_id) if ref and memory_id else None


def _addresses(ref: str, ids: Any) -> tuple[Address, ...]:
    """Each once. ``ids`` may be anything that a payload can have in the place of a list."""
    found = (_address(ref, one) for one in ids) if isinstance(ids, list | tuple) else ()
    return tuple(dict.fromkeys(address for address in found if address))


def _text(value: Any, longest: int) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= longest else None


def _count(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value < 2**63 else None
