"""Source events: one observation by a registered writer, taken in once however often it is sent.

A source event is named by its writer's own event id. The same name with the same payload is a retry and gets the first
answer again; with another payload it is refused, since one of the two would be silently lost. Who writes is decided by
the credential; the body may only repeat it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from ledger.domain.canonical import NotCanonical, payload_hash
from ledger.domain.errors import LedgerError
from ledger.domain.scopes import Scope, ScopeError, read_scope
from runs.domain.moments import read_timestamp

MAX_EVENT_ID_LENGTH = 256
MAX_EVIDENCE = 64
MAX_SKEW = timedelta(minutes=5)
"""How far a writer's clock may be ahead of ours."""


class Provenance(StrEnum):
    """The codes that clients of provenance APIs know, each with the HTTP status in its name."""

    OTHER_WRITER = "PROV_403"
    UNKNOWN_WRITER = "PROV_404"
    CHANGED_PAYLOAD = "PROV_409"
    MALFORMED = "PROV_422"

    @property
    def status(self) -> int:
        return int(self.value[-3:])


class ProvenanceError(LedgerError):
    def __init__(self, provenance: Provenance, message: str, *, field: str | None = None) -> None:
        super().__init__(message, field=field)
        self.provenance = provenance


@dataclass(frozen=True, slots=True)
class Source:
    """`observed_at` is when it happened according to the writer, or when we heard of it where the writer says nothing;
    `is_observed` tells the two apart."""

    service: str
    event_id: str
    observed_at: datetime
    is_observed: bool
    scope: Scope
    evidence: tuple[Any, ...]


_MEMBERS = frozenset(("service", "event_id", "observed_at", "scope", "evidence"))


def read_source(raw: Any, *, received_at: datetime, max_skew: timedelta = MAX_SKEW) -> Source:
    """From ``{service, event_id, observed_at?, scope?, evidence?}``; ProvenanceError PROV_422 names the member."""
    if not isinstance(raw, Mapping):
        raise _malformed("source", "is not an object")
    for name in sorted(str(name) for name in raw.keys() - _MEMBERS):
        raise _malformed(f"source.{name}", "is unknown")
    observed_at = _observed_at(raw.get("observed_at"), received_at, max_skew)
    return Source(
        service=_text(raw, "service", MAX_EVENT_ID_LENGTH),
        event_id=_text(raw, "event_id", MAX_EVENT_ID_LENGTH),
        observed_at=observed_at or received_at,
        is_observed=observed_at is not None,
        scope=_scope(raw.get("scope")),
        evidence=_evidence(raw.get("evidence")),
    )


def require_writer(service: str, *, bound_to: str | None, registered: frozenset[str]) -> str:
    """The writer that may sign as `service`: a key bound to a writer speaks for no other one. PROV_403 and PROV_404."""
    if bound_to is not None and service != bound_to:
        raise ProvenanceError(Provenance.OTHER_WRITER, "the key is bound to another writer", field="source.service")
    if service not in registered:
        raise ProvenanceError(Provenance.UNKNOWN_WRITER, "the writer is unknown", field="source.service")
    return service


def hash_payload(payload: Any) -> str:
    """SHA-256 over the request as it was sent, without defaults of ours; PROV_422 for what has no canonical form."""
    try:
        return payload_hash(payload)
    except NotCanonical as error:
        raise ProvenanceError(Provenance.MALFORMED, str(error), field=error.field) from error


def is_repeat(known_hash: str | None, new_hash: str) -> bool:
    """Whether an event that is known under `known_hash`, or not at all, came before. PROV_409 when it changed."""
    if known_hash is not None and known_hash != new_hash:
        raise ProvenanceError(
            Provenance.CHANGED_PAYLOAD, "the event is known with another payload", field="source.event_id"
        )
    return known_hash is not None


def _malformed(field: str, complaint: str) -> ProvenanceError:
    return ProvenanceError(Provenance.MALFORMED, f"{field} {complaint}", field=field)


def _text(raw: Mapping[str, Any], name: str, longest: int) -> str:
    text = raw.get(name)
    if not isinstance(text, str) or not text.strip():
        raise _malformed(f"source.{name}", "is missing")
    if len(text) > longest:
        raise _malformed(f"source.{name}", f"is longer than {longest} characters")
    return text


def _observed_at(raw: Any, received_at: datetime, max_skew: timedelta) -> datetime | None:
    if raw is None:
        return None
    if not isinstance(raw, str):
        raise _malformed("source.observed_at", "is not a text")
    try:
        observed_at = read_timestamp(raw)
    except ValueError as error:
        raise _malformed("source.observed_at", str(error)) from error
    if observed_at > received_at + max_skew:
        raise _malformed("source.observed_at", f"is more than {max_skew.total_seconds():g} s in the future")
    return observed_at


def _scope(raw: Any) -> Scope:
    try:
        return read_scope(raw)
    except ScopeError as error:
        raise _malformed(f"source.{error.field}", str(error)) from error


def _evidence(raw: Any) -> tuple[Any, ...]:
    if raw is None:
        return ()
    if not isinstance(raw, list):
        raise _malformed("source.evidence", "is not a list")
    if len(raw) > MAX_EVIDENCE:
        raise _malformed("source.evidence", f"has more than {MAX_EVIDENCE} elements")
    return tuple(raw)
