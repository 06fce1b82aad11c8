"""The one shape in which a host's event travels inside, and the reason when it cannot."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import msgspec

LeakKind = Literal["content", "credential"]


@dataclass(frozen=True, slots=True)
class Leak:
    """A value that must not be stored, replaced by its digest on the way in.

    `path` is a JSON pointer (RFC 6901) into the event; `sha256` (lower hex) and `length` (bytes) are those of the
    UTF-8 text of a string, or of the canonical JSON of any other value.
    """

    path: str
    sha256: str
    length: int
    kind: LeakKind


class RunEvent(msgspec.Struct, frozen=True, gc=False):
    """One event of either protocol major. A struct is made sixteen times as fast as a frozen dataclass, and the
    garbage collector has no need to look at it.

    `type` is the canonical name (the first major's spelling), `reported_type` the name as it came. `body` is the
    event's own JSON text with nothing changed but quarantined values. `digest` (16 bytes) covers type, node, time
    and payload, so that one event read through two channels has one digest. `has_payload` is False for a partial
    copy, which another channel may complete. `may_be_masked` marks a copy out of a bundle whose values the host says
    it has changed: where such a copy differs from another one, it need not contradict it.
    """

    run_id: str
    sequence: int
    type: str
    reported_type: str
    node_id: str | None
    agent_id: str | None
    event_id: str | None
    causation_id: str | None
    timestamp: datetime
    body: str
    digest: bytes
    has_payload: bool
    leaks: tuple[Leak, ...] = ()
    notes: tuple[str, ...] = ()
    may_be_masked: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one item was not taken. `index` is its place in the batch (line number minus one), from 0."""

    index: int
    reason: str
    field: str | None = None
