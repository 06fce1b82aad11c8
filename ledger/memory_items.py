"""A claim as REST and MCP tell it: one mapping of fields, so that every surface says the same."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from uuid import UUID

from typing_extensions import TypedDict  # the documentation needs this one below Python 3.12

from .queries.claims import MemoryRow


class Provenance(TypedDict):
    """Who said it and when. `observed_at` is the writer's time, `received_at` ours. Of a value that a person corrected,
    `service` names the person and `decision_id` the decision; there is no event then."""

    service: str
    event_id: str | None
    observed_at: datetime
    received_at: datetime
    payload_hash: str | None
    scope: dict[str, Any] | None
    decision_id: UUID | None


class MemoryItem(TypedDict):
    """`value` is what was said, `content` its wording. `disputed` says that a person is awaited and may decide
    otherwise; `observations` counts the claims that say the same. `id` stays for ever."""

    id: UUID
    external_user_id: str
    content: str
    category: str
    key: str
    value: Any
    status: str
    rule: str | None
    scope: dict[str, Any]
    valid_from: datetime | None
    valid_to: datetime | None
    confidence: float | None
    revision: int
    disputed: bool
    observations: int
    source_event_id: UUID | None
    provenance: Provenance


class MemoryPage(TypedDict):
    memories: list[MemoryItem]
    nextCursor: str | None


def memory_item(row: MemoryRow) -> MemoryItem:
    return {
        "id": row.id,
        "external_user_id": row.subject,
        "content": row.content or row.display,
        "category": row.category,
        "key": row.key,
        "value": json.loads(row.value),
        "status": row.status,
        "rule": row.rule or None,
        "scope": json.loads(row.scope),
        "valid_from": row.valid_from,
        "valid_to": row.valid_to,
        "confidence": row.confidence,
        "revision": row.revision,
        "disputed": row.is_disputed,
        "observations": row.observations,
        "source_event_id": row.source_event,
        "provenance": {
            "service": row.writer,
            "event_id": row.event_id,
            "observed_at": row.observed_at,
            "received_at": row.received_at,
            "payload_hash": row.payload_hash,
            "scope": None if row.source_scope is None else json.loads(row.source_scope),
            "decision_id": row.decision,
        },
    }
