"""Receipts as programs get them: over REST and in exports."""

from __future__ import annotations

from datetime import datetime

from typing_extensions import TypedDict  # the documentation needs this one below Python 3.12

from runs.domain.projection import project

from .queries.receipts import AddressRow, ReceiptCounts, ReceiptRow
from .queries.rows import WriteRow


class AddressItem(TypedDict):
    """Where a memory is kept, after normalisation. What was not told is null."""

    key: str | None
    scopeType: str | None
    agentIdentity: str


class EvidenceItem(TypedDict):
    """What shows it. `sequence` is the event's; it is null, and `at` is the time, for what a host's memory shows.
    `inferred`: no event says so outright, it follows from where the event stands."""

    trace: str
    sequence: int | None
    inferred: bool
    at: datetime | None


class ReceiptItem(TypedDict):
    """What became of one attempted memory write. `state` is requested, waiting, refused, unknown or confirmed, and
    never better than the evidence. `sequence` is the event of the call, or of the return where the log has no call.
    Attempts with one `digest` ask for one effect: `repeat` is first, new_attempt, pending or already_made, `repeats`
    the sequence of the earlier attempt. `write` is the `memory.written` that goes with it; `claimedOnly` says that the
    tool claims success and no event shows it."""

    host: str
    runId: str
    runPath: str
    sequence: int
    at: datetime
    tool: str
    state: str
    reasons: list[str]
    evidence: list[EvidenceItem]
    callId: str | None
    node: str | None
    agent: str | None
    digest: str | None
    asked: AddressItem | None
    returned: AddressItem | None
    memoryRef: str | None
    memoryId: str | None
    entryPath: str | None
    write: int | None
    repeat: str
    repeats: int | None
    attempt: int
    claimedOnly: bool


class UnaskedItem(TypedDict):
    """A `memory.written` event that no attempt accounts for."""

    host: str
    runId: str
    runPath: str
    sequence: int
    at: datetime
    node: str | None
    agent: str | None
    memoryRef: str | None
    memoryId: str | None
    entryPath: str | None


class CountsItem(TypedDict):
    """`claimedOnly` are among the attempts, `unasked` are writes beside them. `estimated`: there are more than were
    counted. `behind` is how many runs of the tenant have events that the receipts do not know of yet."""

    requested: int
    waiting: int
    refused: int
    unknown: int
    confirmed: int
    claimedOnly: int
    unasked: int
    estimated: bool
    behind: int


RECEIPT_COLUMNS = (
    *("host", "runId", "sequence", "at", "tool", "state", "reasons", "node", "agent", "callId"),
    *("asked", "returned", "memoryRef", "memoryId", "write", "repeat", "repeats", "attempt", "claimedOnly"),
    *("evidence", "digest"),
)
UNASKED_COLUMNS = ("host", "runId", "sequence", "at", "node", "agent", "memoryRef", "memoryId")


def receipt_item(row: ReceiptRow) -> ReceiptItem:
    return {
        "host": row.host,
        "runId": row.run_id,
        "runPath": project(row.run_id),
        "sequence": row.sequence,
        "at": row.at,
        "tool": row.tool,
        "state": row.state.value,
        "reasons": list(row.reasons),
        "evidence": [
            {"trace": one.trace.value, "sequence": one.sequence, "inferred": one.inferred, "at": one.at}
            for one in row.evidence
        ],
        "callId": row.call_id,
        "node": row.node,
        "agent": row.agent,
        "digest": row.digest,
        "asked": _address(row.asked),
        "returned": _address(row.returned),
        "memoryRef": row.memory_ref,
        "memoryId": row.memory_id,
        "entryPath": _entry(row.host, row.memory_ref, row.memory_id) if row.has_entry else None,
        "write": row.write,
        "repeat": row.repeat,
        "repeats": row.repeats,
        "attempt": row.attempt,
        "claimedOnly": row.claimed_only,
    }


def _address(address: AddressRow | None) -> AddressItem | None:
    if address is None:
        return None
    return {"key": address.key, "scopeType": address.scope, "agentIdentity": address.identity}


def _entry(host: str, ref: str | None, memory_id: str | None) -> str | None:
    return f"{host}/{project(ref)}/{project(memory_id)}" if ref and memory_id else None


def unasked_item(row: WriteRow) -> UnaskedItem:
    return {
        "host": row.host,
        "runId": row.run_id,
        "runPath": project(row.run_id),
        "sequence": row.sequence,
        "at": row.at,
        "node": row.node,
        "agent": row.agent,
        "memoryRef": row.memory_ref or None,
        "memoryId": row.memory_id or None,
        "entryPath": _entry(row.host, row.memory_ref, row.memory_id),
    }


def counts_item(counts: ReceiptCounts) -> CountsItem:
    return {
        "requested": counts.of("requested"),
        "waiting": counts.of("waiting"),
        "refused": counts.of("refused"),
        "unknown": counts.of("unknown"),
        "confirmed": counts.of("confirmed"),
        "claimedOnly": counts.claimed_only,
        "unasked": counts.unasked,
        "estimated": counts.is_estimate,
        "behind": counts.behind,
    }
