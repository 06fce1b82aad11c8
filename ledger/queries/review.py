"""What a reviewer needs around a conflict: its place in the queue, where its claims were written, and a suggestion's
text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from runs.domain.storable import original

from .conflicts import ConflictFilter, ConflictRow, filter_conditions
from .paging import rows_of
from .rows import maybe

COUNTED = 10_000
"""A queue is counted up to here."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Those before and behind a conflict in the queue. ``place`` counts from 1; None where it is not in the queue."""

    newer: UUID | None
    older: UUID | None
    place: int | None
    total: int


@dataclass(frozen=True, slots=True)
class Written:
    """An entry that a claim was read from, and the last write of it that was seen."""

    host: str
    memory_ref: str
    memory_id: str
    run_id: str | None
    sequence: int | None
    node: str | None
    writes: int


@dataclass(frozen=True, slots=True)
class SuggestedText:
    """The text that resembles a claim; None once retention has taken the payload away."""

    text: str | None
    source_id: UUID
    writer: str
    event_id: str


def open_count(tenant_id: int) -> int:
    """How many conflicts await a person, up to 1,000."""
    ((count,),) = rows_of(
        "SELECT count(*) FROM (SELECT FROM ledger_conflict f WHERE f.tenant_id = %s AND f.state = 'open'"
        " LIMIT 1000) AS waiting",
        [tenant_id],
    )
    return int(count)


def neighbours(tenant_id: int, conflict: ConflictRow, wanted: ConflictFilter) -> Neighbours:
    """Where a conflict stands in a queue, or would stand if it were still in it."""
    conditions, values = filter_conditions(wanted)
    ((newer, older, ahead, total, is_in),) = rows_of(
        f"""
        WITH queue AS (
            SELECT f.opened_at, f.id FROM ledger_conflict f
            JOIN ledger_subjectkey k ON k.tenant_id = f.tenant_id AND k.id = f.subject_key_id
            WHERE f.tenant_id = %(tenant)s {conditions} ORDER BY f.opened_at DESC, f.id DESC LIMIT %(counted)s)
        SELECT
            (SELECT q.id FROM queue q WHERE (q.opened_at, q.id) > (%(at)s, %(id)s) ORDER BY q.opened_at, q.id LIMIT 1),
            (SELECT q.id FROM queue q WHERE (q.opened_at, q.id) < (%(at)s, %(id)s)
                ORDER BY q.opened_at DESC, q.id DESC LIMIT 1),
            (SELECT count(*) FROM queue q WHERE (q.opened_at, q.id) > (%(at)s, %(id)s)),
            (SELECT count(*) FROM queue), EXISTS (SELECT FROM queue q WHERE q.id = %(id)s)
        """,  # noqa: S608 - constants
        {**values, "tenant": tenant_id, "at": conflict.opened_at, "id": conflict.id, "counted": COUNTED},
    )
    return Neighbours(newer, older, ahead + 1 if is_in else None, total)


def written(tenant_id: int, entries: Iterable[UUID]) -> dict[UUID, Written]:
    """Where entries live, and the event that wrote each of them last."""
    found = rows_of(
        """
        SELECT e.id, h.slug, e.memory_ref, e.memory_id, r.run_id, e.last_sequence, w.node_id, e.write_count
        FROM ledger_memoryentry e
        JOIN runs_host h ON h.tenant_id = e.tenant_id AND h.id = e.host_id
        LEFT JOIN runs_run r ON r.tenant_id = e.tenant_id AND r.id = e.last_run_id
        LEFT JOIN ledger_memorywrite w
            ON w.tenant_id = e.tenant_id AND w.run_id = e.last_run_id AND w.sequence = e.last_sequence
        WHERE e.tenant_id = %s AND e.id = ANY (%s::uuid[])
        """,
        [tenant_id, list(entries)],
    )
    return {
        id: Written(host, original(ref), original(memory_id), maybe(run), sequence, maybe(node), writes)
        for id, host, ref, memory_id, run, sequence, node, writes in found
    }


def suggested_text(tenant_id: int, source: UUID, place: int) -> SuggestedText | None:
    """Message ``place`` of a source event."""
    found = rows_of(
        "SELECT writer, event_id, payload FROM ledger_sourceevent WHERE tenant_id = %s AND id = %s", [tenant_id, source]
    )
    if not found:
        return None
    writer, event_id, payload = found[0]
    return SuggestedText(_message(payload, place), source, original(writer), original(event_id))


def _message(payload: str | None, place: int) -> str | None:
    said = None if payload is None else json.loads(payload)
    messages = said.get("messages") if isinstance(said, dict) else None
    if not isinstance(messages, list) or place >= len(messages):
        return None
    content = messages[place].get("content") if isinstance(messages[place], dict) else messages[place]
    return content if isinstance(content, str) else None
