"""Source events and jobs as REST tells them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from typing_extensions import TypedDict

from .queries.sources import JobRow, SourceEventRow


class JobItem(TypedDict):
    """`status` is queued, running, done or failed; `result` is `{claims, conflicts, nothing_to_extract}` once it is
    done: the ids of the claims that were read, and of the conflicts that changed with them. `extractor` is the version
    that read it."""

    job_id: UUID
    status: str
    source_event_id: UUID
    extractor: str | None
    result: Mapping[str, Any] | None
    error: str | None
    attempts: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class EntryPlace(TypedDict):
    host: str
    memoryRef: str
    memoryId: str
    observation: int | None


class SourceItem(TypedDict):
    """`kind` is add, or entry for what was read in an entry of a host. `observed_at` is the writer's own time where
    `observed` is true, and else ours. `received_from` is the credential. `payload_hash` is SHA-256 in hex, over the
    request as it was sent."""

    id: UUID
    kind: str
    source_service: str
    event_id: str
    external_user_id: str
    scope: dict[str, Any]
    observed_at: datetime
    observed: bool
    received_at: datetime
    received_from: str
    payload_hash: str
    payload: Any
    payload_redacted_at: datetime | None
    evidence: list[Any]
    claims: int
    entry: EntryPlace | None
    job: JobItem | None


class SourcePage(TypedDict):
    items: list[SourceItem]
    nextCursor: str | None


def job_item(row: JobRow) -> JobItem:
    return {
        "job_id": row.id,
        "status": row.status,
        "source_event_id": row.source_event,
        "extractor": row.extractor or None,
        "result": row.result,
        "error": row.error or None,
        "attempts": row.attempts,
        "created_at": row.created_at,
        "started_at": row.started_at,
        "finished_at": row.finished_at,
    }


def source_item(row: SourceEventRow) -> SourceItem:
    entry: EntryPlace | None = None
    if row.entry is not None:
        host, ref, memory_id = row.entry
        entry = {"host": host, "memoryRef": ref, "memoryId": memory_id, "observation": row.entry_number}
    return {
        "id": row.id,
        "kind": row.kind,
        "source_service": row.writer,
        "event_id": row.event_id,
        "external_user_id": row.subject,
        "scope": json.loads(row.scope),
        "observed_at": row.observed_at,
        "observed": row.is_observed,
        "received_at": row.received_at,
        "received_from": row.received_from,
        "payload_hash": row.payload_hash,
        "payload": None if row.payload is None else json.loads(row.payload),
        "payload_redacted_at": row.payload_redacted_at,
        "evidence": list(row.evidence),
        "claims": row.claims,
        "entry": entry,
        "job": None if row.job is None else job_item(row.job),
    }
