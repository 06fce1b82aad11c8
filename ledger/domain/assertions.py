"""From what a source event says, explicitly or in its messages, to claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from ledger.domain.claims import Claim, Slot, claim_id
from ledger.domain.errors import LedgerError
from ledger.domain.extraction import Extracted
from ledger.domain.key_registry import KeyRegistry, read_key
from ledger.domain.normalisers import normalise, read_value
from ledger.domain.periods import Period
from ledger.domain.scopes import UNSCOPED, Scope, read_scope
from runs.domain.moments import read_timestamp

EXPLICIT = "explicit-1"
MAX_CONTENT_LENGTH = 65_536

_MEMBERS = frozenset(("category", "key", "value", "content", "scope", "valid_from", "valid_to", "confidence"))


class BadClaim(LedgerError):
    """An explicit claim that is not one."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What all claims of one source event share."""

    source_event: UUID
    subject: str
    writer: str
    observed_at: datetime
    received_at: datetime
    scope: Scope = UNSCOPED


def read_explicit(raw: Any, keys: KeyRegistry) -> Extracted:
    """From ``{category?, key, value, content?, scope?, valid_from?, valid_to?, confidence?}``. LedgerError names the
    member that cannot be read; a value has to have a normal form of its key's kind."""
    if not isinstance(raw, Mapping):
        raise BadClaim("claim is not an object", field="claim")
    for name in sorted(str(name) for name in raw.keys() - _MEMBERS):
        raise BadClaim(f"{name} is unknown", field=name)
    key = read_key(_text(raw, "category"), _text(raw, "key"))
    rule = keys.rule(key)
    normalise(raw.get("value"), rule.kind, unit=rule.unit)
    return Extracted(
        category=key.category,
        key=key.name,
        value=raw.get("value"),
        content=_text(raw, "content", longest=MAX_CONTENT_LENGTH),
        extractor=EXPLICIT,
        confidence=_confidence(raw.get("confidence")),
        scope=None if raw.get("scope") is None else read_scope(raw["scope"]),
        valid=Period(_moment(raw, "valid_from"), _moment(raw, "valid_to")),
    )


def claims_of(extracted: Iterable[Extracted], observation: Observation, keys: KeyRegistry) -> tuple[Claim, ...]:
    """The same source event read again gives the same claims. What it says twice in the same words is one claim, which
    stands where it was said last. A value that cannot be read makes a claim that cannot be checked."""
    claims = (_claim(said, observation, keys) for said in extracted)
    return tuple({claim.id: claim for claim in claims}.values())


def _claim(said: Extracted, observation: Observation, keys: KeyRegistry) -> Claim:
    key = read_key(said.category, said.key)
    rule = keys.rule(key)
    slot = Slot(observation.subject, key, said.scope or observation.scope)
    value = read_value(said.value, rule.kind, unit=rule.unit)
    return Claim(
        id=claim_id(observation.source_event, slot, value, said.valid),
        subject=slot.subject,
        key=key,
        scope=slot.scope,
        value=value,
        content=said.content,
        valid=said.valid,
        confidence=said.confidence,
        writer=observation.writer,
        observed_at=observation.observed_at,
        received_at=observation.received_at,
        source_event=observation.source_event,
        ordinal=said.ordinal,
    )


def _text(raw: Mapping[str, Any], name: str, longest: int | None = None) -> str:
    text = raw.get(name)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise BadClaim(f"{name} is not a text", field=name)
    if longest is not None and len(text) > longest:
        raise BadClaim(f"{name} is longer than {longest} characters", field=name)
    return text


def _confidence(raw: Any) -> float | None:
    if raw is None:
        return None
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 <= raw <= 1:
        raise BadClaim("confidence is not a number from 0 to 1", field="confidence")
    return float(raw)


def _moment(raw: Mapping[str, Any], name: str) -> datetime | None:
    text = _text(raw, name)
    if not text:
        return None
    try:
        return read_timestamp(text)
    except ValueError as error:
        raise BadClaim(f"{name} {error}", field=name) from error
