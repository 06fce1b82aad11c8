"""What a writer hands in: ``{external_user_id, messages?, claims?, source}``, read whole or refused with the member.

Secrets are taken out before anything else sees the texts; the hash is over what was sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from ledger.domain.assertions import read_explicit
from ledger.domain.claims import MAX_SUBJECT_LENGTH
from ledger.domain.errors import LedgerError
from ledger.domain.extraction import Extracted, Message
from ledger.domain.key_registry import KeyRegistry
from ledger.domain.redaction import Policy, redact
from ledger.domain.sources import (
    Provenance,
    ProvenanceError,
    Source,
    hash_payload,
    is_repeat,
    read_source,
    require_writer,
)
from runs.domain.storable import storable

MAX_MESSAGES = 1000
MAX_CLAIMS = 1000
MAX_MESSAGE_LENGTH = 262_144

_MEMBERS = frozenset(("external_user_id", "messages", "claims", "source"))
NAMES = frozenset(("category", "key"))


@dataclass(frozen=True, slots=True)
class Submission:
    """``payload`` is all of it as it was sent, as JSON without secrets: it has the hash where none were found.
    ``redacted`` names those that were. Names by which things are told apart, such as the subject, stay as they are."""

    subject: str
    source: Source
    payload_hash: bytes
    payload: str
    messages: tuple[Message, ...] = ()
    explicit: tuple[Extracted, ...] = ()
    redacted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Permitted:
    """What the credential and the tenant allow: the writer that the key is bound to, and those that are registered."""

    bound_to: str | None
    registered: frozenset[str]
    keys: KeyRegistry
    policy: Policy = Policy.REWRITE


def read_submission(raw: Any, permitted: Permitted, *, received_at: datetime) -> Submission:
    """ProvenanceError, or SecretLeakage where the tenant refuses secrets."""
    if not isinstance(raw, Mapping):
        raise malformed("body", "is not an object")
    for name in sorted(str(name) for name in raw.keys() - _MEMBERS):
        raise malformed(name, "is unknown")
    digest = bytes.fromhex(hash_payload(raw))
    clean = _Clean(permitted.policy)
    kept = {**raw, "source": clean.members(raw.get("source"), "scope", "evidence")}
    source = _source(kept, permitted, received_at)
    subject = read_subject(raw.get("external_user_id"))
    messages = _list(raw, "messages", MAX_MESSAGES)
    claims = _list(raw, "claims", MAX_CLAIMS)
    if not messages and not claims:
        raise malformed("messages", "and claims are both missing")
    said = {"messages": clean(messages), "claims": [clean.claim(claim) for claim in claims]}
    kept |= {name: told for name, told in said.items() if raw.get(name)}
    return Submission(
        subject=subject,
        source=source,
        payload_hash=digest,
        payload=json.dumps(kept, separators=(",", ":")),
        messages=tuple(_message(message, index) for index, message in enumerate(said["messages"])),
        explicit=tuple(_explicit(claim, index, permitted.keys) for index, claim in enumerate(said["claims"])),
        redacted=tuple(sorted(clean.found)),
    )


def read_subject(raw: Any) -> str:
    if not isinstance(raw, str) or not raw.strip():
        raise malformed("external_user_id", "is missing")
    if len(raw) > MAX_SUBJECT_LENGTH:
        raise malformed("external_user_id", f"is longer than {MAX_SUBJECT_LENGTH} characters")
    if storable(raw) != raw:
        raise malformed("external_user_id", "has characters that stand for nothing")
    return raw


def malformed(field: str, complaint: str) -> ProvenanceError:
    return ProvenanceError(Provenance.MALFORMED, f"{field} {complaint}", field=field)


def _source(raw: Mapping[str, Any], permitted: Permitted, received_at: datetime) -> Source:
    told = raw.get("source")
    if isinstance(told, Mapping) and permitted.bound_to and told.get("service") is None:
        told = {**told, "service": permitted.bound_to}
    source = read_source(told, received_at=received_at)
    for name, text in (("service", source.service), ("event_id", source.event_id)):
        if storable(text) != text:
            raise malformed(f"source.{name}", "has characters that stand for nothing")
    require_writer(source.service, bound_to=permitted.bound_to, registered=permitted.registered)
    return source


def _list(raw: Mapping[str, Any], name: str, most: int) -> list[Any]:
    told = raw.get(name)
    if told is None:
        return []
    if not isinstance(told, list):
        raise malformed(name, "is not a list")
    if len(told) > most:
        raise malformed(name, f"has more than {most} elements")
    return told


def _message(raw: Any, index: int) -> Message:
    if not isinstance(raw, Mapping):
        raise malformed(f"messages.{index}", "is not an object")
    content, role = raw.get("content"), raw.get("role", "user")
    if not isinstance(content, str):
        raise malformed(f"messages.{index}.content", "is not a text")
    if len(content) > MAX_MESSAGE_LENGTH:
        raise malformed(f"messages.{index}.content", f"is longer than {MAX_MESSAGE_LENGTH} characters")
    if not isinstance(role, str):
        raise malformed(f"messages.{index}.role", "is not a text")
    return Message(content, role)


def _explicit(raw: Any, index: int, keys: KeyRegistry) -> Extracted:
    try:
        return read_explicit(raw, keys)
    except LedgerError as error:
        field = f"claims.{index}.{error.field}" if error.field else f"claims.{index}"
        raise ProvenanceError(Provenance.MALFORMED, f"claims.{index}: {error}", field=field) from error


class _Clean:
    """Every text of a JSON value without secrets. Names of members stay: they are the writer's vocabulary."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.found: set[str] = set()

    def __call__(self, value: Any) -> Any:
        if isinstance(value, str):
            cleaned = redact(value, secrets={}, policy=self.policy)
            self.found.update(cleaned.found)
            return cleaned.content
        if isinstance(value, Mapping):
            return {name: self(member) for name, member in value.items()}
        if isinstance(value, Sequence):
            return [self(element) for element in value]
        return value

    def claim(self, raw: Any) -> Any:
        """The names of keys come again and again, and are looked at once."""
        if not isinstance(raw, Mapping):
            return self(raw)
        return {
            name: member if name in NAMES and isinstance(member, str) and _is_harmless(member) else self(member)
            for name, member in raw.items()
        }

    def members(self, raw: Any, *names: str) -> Any:
        """Only these members of an object."""
        if not isinstance(raw, Mapping):
            return raw
        return {name: self(member) if name in names else member for name, member in raw.items()}


@lru_cache(maxsize=4096)
def _is_harmless(name: str) -> bool:
    return not redact(name, secrets={}).found


def require_same(known: bytes | None, submission: Submission) -> bool:
    """Whether the event came before. PROV_409 when it said something else then."""
    return is_repeat(None if known is None else known.hex(), submission.payload_hash.hex())
