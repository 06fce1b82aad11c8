"""Whether what is kept of a source event still is what was hashed when it came."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from enum import StrEnum

from ledger.domain.canonical import NotCanonical, payload_hash


class Finding(StrEnum):
    """`redacted`: secrets were replaced before it was kept. `taken_away`: nothing is kept that could be hashed."""

    MATCHES = "matches"
    DIFFERS = "differs"
    REDACTED = "redacted"
    TAKEN_AWAY = "taken_away"


@dataclass(frozen=True, slots=True)
class Verification:
    """`computed` is the hash of what is kept, None where there is nothing."""

    finding: Finding
    computed: str | None = None


_MARKER = re.compile(r"\[REDACTED(?::[^\]]+)?\]|<REDACTED:[^>]+>")


def verify_payload(kept: str | None, known_hash: str) -> Verification:
    """`kept` is the request as JSON text. Its hash is over its canonical form (RFC 8785)."""
    if kept is None:
        return Verification(Finding.TAKEN_AWAY)
    try:
        computed = payload_hash(json.loads(kept))
    except (ValueError, RecursionError, NotCanonical):
        return Verification(Finding.DIFFERS)
    return Verification(_finding(computed, known_hash, kept), computed)


def verify_content(kept: str | None, known_hash: str) -> Verification:
    """The same for an entry's content, which is hashed as its UTF-8."""
    if kept is None:
        return Verification(Finding.TAKEN_AWAY)
    computed = hashlib.sha256(kept.encode("utf-8", "surrogatepass")).hexdigest()
    return Verification(_finding(computed, known_hash, kept), computed)


def _finding(computed: str, known_hash: str, kept: str) -> Finding:
    if computed == known_hash:
        return Finding.MATCHES
    return Finding.REDACTED if _MARKER.search(kept) else Finding.DIFFERS
