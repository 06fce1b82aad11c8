"""Memories by their ids, with where they come from: one read for REST, MCP and pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import OperationalError, connection
from django.utils import timezone
from psycopg.errors import QueryCanceled

from openwop_ui.rest import ApiError
from openwop_ui.tenancy.scope import tenant_scope

from .domain.chain import MAX_PLAIN, MAX_TRACED, Chain
from .memory_items import memory_item
from .provenance import told
from .queries.chain import chains
from .queries.claims import memories_by_id
from .queries.recalled import EntryMemory, entries_by_id

__all__ = ["MAX_PLAIN", "MAX_TRACED", "TimedOut", "as_id", "chain_of", "recall"]


class TimedOut(ApiError):
    """The answer took longer than TRACE_TIMEOUT; the statement was cancelled."""

    def __init__(self) -> None:
        super().__init__(504, "timeout", "Tracing took too long and was given up. Ask for fewer ids.")


def as_id(text: str) -> UUID | None:
    """An id as it is written, in the one spelling that ids have here."""
    try:
        found = UUID(text)
    except ValueError:
        return None
    return found if str(found) == text.lower() else None


def recall(tenant_id: int, ids: Sequence[str], *, provenance: bool) -> dict[str, Any]:
    """``{found, notFound}``, each in the order asked for. An unknown id and another tenant's both land in ``notFound``.

    With ``provenance`` every memory has its ``chain``. Raises TimedOut.
    """
    wanted = {text: as_id(text) for text in dict.fromkeys(ids)}
    known = [id for id in wanted.values() if id is not None]
    with tenant_scope(tenant_id), bounded():
        claims = memories_by_id(tenant_id, known)
        entries = entries_by_id(tenant_id, known, now=timezone.now())
        traced = {chain.id: chain for chain in chains(tenant_id, known)} if provenance else {}
    found, missing = [], []
    for text, id in wanted.items():
        item: dict[str, Any]
        if id in claims:
            item = {**memory_item(claims[id]), "kind": "claim"}
        elif id in entries:
            item = _entry_item(entries[id])
        else:
            missing.append(text)
            continue
        if id in traced:
            item["chain"] = told(traced[id])
        found.append(item)
    return {"found": found, "notFound": missing}


def chain_of(tenant_id: int, text: str) -> Chain | None:
    """The chain of one memory. Raises TimedOut."""
    id = as_id(text)
    if id is None:
        return None
    with tenant_scope(tenant_id), bounded():
        return next(iter(chains(tenant_id, [id])), None)


@contextmanager
def bounded() -> Iterator[None]:
    """Statements within get TRACE_TIMEOUT seconds each; the one that takes longer is cancelled."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [f"{settings.TRACE_TIMEOUT * 1000:.0f}ms"])
    try:
        yield
    except OperationalError as problem:
        if isinstance(problem.__cause__, QueryCanceled):
            raise TimedOut from None
        raise


def _entry_item(entry: EntryMemory) -> dict[str, Any]:
    return {
        "id": entry.id,
        "kind": "entry",
        "host": entry.host,
        "memoryRef": entry.memory_ref,
        "memoryId": entry.memory_id,
        "state": entry.state,
        "content": entry.content,
        "tags": list(entry.tags),
        "createdAt": entry.created_at,
        "expiresAt": entry.expires_at,
        "firstWriteAt": entry.first_at,
        "lastWriteAt": entry.last_at,
        "writes": entry.writes,
    }
