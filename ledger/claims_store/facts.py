"""Stores what was said: source events and claims. Facts only; what holds is worked out by settling."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from runs.domain.storable import storable

from ..domain.claims import Claim
from ..domain.scopes import Scope
from .loading import KeyLedger
from .rows import insert

_SOURCES = UUID("8c1f7b52-6b1f-4f0a-9b1e-0d5a9c5c7f21")

SOURCE_COLUMNS = {
    "event_id": "text",
    "id": "uuid",
    "kind": "text",
    "writer": "text",
    "subject": "text",
    "scope": "text",
    "observed_at": "timestamptz",
    "is_observed": "bool",
    "received_at": "timestamptz",
    "received_from": "text",
    "payload_hash": "bytea",
    "evidence": "text",
    "payload": "text",
    "entry_id": "uuid",
    "entry_number": "int",
}
JOB_COLUMNS = {
    "id": "uuid",
    "source_event_id": "uuid",
    "status": "text",
    "extractor": "text",
    "result": "jsonb",
    "error": "text",
    "attempts": "int",
    "created_at": "timestamptz",
    "started_at": "timestamptz",
    "finished_at": "timestamptz",
    "next_at": "timestamptz",
}
CLAIM_COLUMNS = {
    "id": "uuid",
    "subject_key_id": "uuid",
    "scope": "text",
    "value": "text",
    "display": "text",
    "normal": "text",
    "normaliser": "text",
    "problem": "text",
    "content": "text",
    "valid_from": "timestamptz",
    "valid_to": "timestamptz",
    "confidence": "float8",
    "writer": "text",
    "observed_at": "timestamptz",
    "received_at": "timestamptz",
    "ordinal": "int",
    "extractor": "text",
    "source_event_id": "uuid",
    "decision_id": "uuid",
}


@dataclass(frozen=True, slots=True)
class SourceRow:
    kind: str
    writer: str
    event_id: str
    subject: str
    scope: Scope
    observed_at: datetime
    is_observed: bool
    received_at: datetime
    received_from: str
    payload_hash: bytes
    evidence: tuple[Any, ...]
    payload: str | None
    entry_id: UUID | None = None
    entry_number: int | None = None
    id: UUID = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", source_event_id(self.writer, self.event_id))


def source_event_id(writer: str, event_id: str) -> UUID:
    """Reading the same event again gives the same id, and so the same claims."""
    return uuid5(_SOURCES, json.dumps([writer, event_id]))


def job_id(source_event: UUID) -> UUID:
    return uuid5(source_event, "job")


def add_sources(tenant_id: int, sources: Iterable[SourceRow]) -> set[UUID]:
    """Stores those that are new, and returns their ids. Waits for whoever is storing one of them."""
    rows = sorted(
        (
            (
                storable(row.event_id),
                row.id,
                row.kind,
                storable(row.writer),
                storable(row.subject),
                row.scope.text,
                row.observed_at,
                row.is_observed,
                row.received_at,
                storable(row.received_from),
                f"\\x{row.payload_hash.hex()}",
                json.dumps(row.evidence),
                row.payload,
                row.entry_id,
                row.entry_number,
            )
            for row in sources
        ),
        key=lambda row: row[1],
    )
    made = insert(
        "ledger_sourceevent", SOURCE_COLUMNS, rows, tenant_id=tenant_id, then="ON CONFLICT DO NOTHING RETURNING id"
    )
    return {source for (source,) in made}


@dataclass(frozen=True, slots=True)
class NewClaim:
    """A claim with its value as it was said, as JSON, and the extractor that read it."""

    claim: Claim
    value: str
    extractor: str = ""


def add_claims(tenant_id: int, ledger_of: dict[UUID, KeyLedger], claims: Sequence[tuple[UUID, NewClaim]]) -> set[UUID]:
    """Stores the claims that are new, each with the id of its key, and returns their ids."""
    made = insert(
        "ledger_claimrow",
        CLAIM_COLUMNS,
        [_claim_columns(key_id, new) for key_id, new in claims],
        tenant_id=tenant_id,
        then="ON CONFLICT DO NOTHING RETURNING id",
    )
    added = {claim for (claim,) in made}
    for key_id, new in claims:
        ledger = ledger_of[key_id]
        if ledger.is_new and new.claim.id in added:
            ledger.claims.append(new.claim)
            ledger.values[new.claim.id] = new.value
    return added


def _claim_columns(key_id: UUID, new: NewClaim) -> tuple[Any, ...]:
    claim = new.claim
    return (
        claim.id,
        key_id,
        claim.scope.text,
        new.value,
        storable(claim.value.display),
        None if claim.value.normal is None else storable(claim.value.normal),
        claim.value.normaliser,
        claim.value.problem.value if claim.value.problem else "",
        storable(claim.content),
        claim.valid.start,
        claim.valid.end,
        claim.confidence,
        storable(claim.writer),
        claim.observed_at,
        claim.received_at,
        claim.ordinal,
        new.extractor,
        claim.source_event,
        claim.decision,
    )
