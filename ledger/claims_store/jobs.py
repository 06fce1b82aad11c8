"""Works on queued jobs: messages that an extractor outside reads. What it takes time for is no transaction."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from django.utils import timezone

from openwop_ui.live.announce import announce
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.storable import original, storable

from ..domain.assertions import read_explicit
from ..domain.errors import LedgerError
from ..domain.extraction import Extracted, Extractor, Message
from ..domain.key_registry import KeyRegistry
from ..domain.redaction import redact
from ..domain.scopes import Scope
from ..domain.submissions import MAX_MESSAGE_LENGTH
from ..http_extractor import ExtractorFailed
from ..models import Job, SourceEvent
from ..queries.paging import rows_of
from .entries import take_entries, within
from .facts import SourceRow
from .intake import Reading, heard, take
from .rules import rules_of, share_rules

Status = Job.Status
LEASE = timedelta(minutes=5)
"""For so long nobody else takes a job that somebody works on."""
ATTEMPTS = 5
FIRST_PAUSE = timedelta(seconds=15)


@dataclass(frozen=True, slots=True)
class Due:
    job: UUID
    attempt: int
    source: SourceRow
    content: str | None
    expires_at: datetime | None


def work_on_jobs(tenant_id: int, extractor: Extractor, *, most: int = 10, now: datetime | None = None) -> bool:
    """Some of what is due. True when there may be more."""
    due = _claim(tenant_id, most, now or timezone.now())
    for one in due:
        _work(tenant_id, one, extractor)
    return len(due) >= most


def _claim(tenant_id: int, most: int, now: datetime) -> list[Due]:
    with tenant_scope(tenant_id, durable=True):
        rows = rows_of(
            """
            -- Apart, so that it is worked out once: within a join it may be for each row, and its limit is none then.
            WITH due AS MATERIALIZED (
                SELECT id FROM ledger_job WHERE tenant_id = %(tenant)s AND next_at <= %(now)s
                ORDER BY next_at LIMIT %(most)s FOR UPDATE SKIP LOCKED)
            UPDATE ledger_job j SET status = 'running', attempts = j.attempts + 1, next_at = %(until)s,
                started_at = coalesce(j.started_at, %(now)s)
            FROM due WHERE j.tenant_id = %(tenant)s AND j.id = due.id
            RETURNING j.id, j.attempts, j.source_event_id
            """,
            {"tenant": tenant_id, "now": now, "until": now + LEASE, "most": most},
        )
        sources = _sources(tenant_id, [source for _, _, source in rows])
    return [Due(job, attempt, *sources[source]) for job, attempt, source in rows]


def _sources(tenant_id: int, ids: Sequence[UUID]) -> dict[UUID, tuple[SourceRow, str | None, datetime | None]]:
    rows = rows_of(
        """
        SELECT e.id, e.kind, e.writer, e.event_id, e.subject, e.scope, e.observed_at, e.is_observed, e.received_at,
            e.received_from, e.payload_hash, e.evidence, e.payload, e.entry_id, e.entry_number, o.content, o.expires_at
        FROM ledger_sourceevent e
        LEFT JOIN ledger_observation o
            ON o.tenant_id = e.tenant_id AND o.entry_id = e.entry_id AND o.number = e.entry_number
        WHERE e.tenant_id = %s AND e.id = ANY (%s::uuid[])
        """,
        [tenant_id, list(ids)],
    )
    return {row[0]: (_source(row), row[15], row[16]) for row in rows}


def _source(row: tuple[Any, ...]) -> SourceRow:
    return SourceRow(
        kind=row[1],
        writer=original(row[2]),
        event_id=original(row[3]),
        subject=original(row[4]),
        scope=Scope(row[5]),
        observed_at=row[6],
        is_observed=row[7],
        received_at=row[8],
        received_from=original(row[9]),
        payload_hash=bytes(row[10]),
        evidence=tuple(json.loads(row[11])),
        payload=row[12],
        entry_id=row[13],
        entry_number=row[14],
    )


def _work(tenant_id: int, due: Due, extractor: Extractor) -> None:
    try:
        with tenant_scope(tenant_id):
            keys = rules_of(tenant_id).keys
        reading = _reading(due, keys)
        extracted = extractor.extract(reading.messages)
    except (ExtractorFailed, LedgerError) as problem:
        _failed(tenant_id, due, str(problem))
        return
    _take(tenant_id, due, reading, extracted, extractor.version)


def _reading(due: Due, keys: KeyRegistry) -> Reading:
    """From what is kept of the source event, which has no secrets in it."""
    if due.source.kind == SourceEvent.Kind.ENTRY:
        if due.content is None:
            raise LedgerError("the content was taken away before it was read")
        clean = redact(original(due.content)[:MAX_MESSAGE_LENGTH], secrets={}).content
        return Reading(due.source, (Message(clean),), ())
    if due.source.payload is None:
        raise LedgerError("the payload was taken away before it was read")
    kept = json.loads(due.source.payload)
    messages = tuple(Message(one["content"], one.get("role", "user")) for one in kept.get("messages") or ())
    return Reading(due.source, messages, tuple(read_explicit(claim, keys) for claim in kept.get("claims") or ()))


def _take(tenant_id: int, due: Due, reading: Reading, extracted: Sequence[Extracted], version: str) -> None:
    now = timezone.now()
    with tenant_scope(tenant_id, durable=True):
        rules = share_rules(tenant_id)
        told = heard(reading, extracted, rules.keys, version)
        if due.source.kind == SourceEvent.Kind.ENTRY:
            take_entries(tenant_id, [within(told, due.expires_at)], rules, now)
        else:
            take(tenant_id, [told], rules, at=now)
        announce(tenant_id, {"sources": None})


def _failed(tenant_id: int, due: Due, error: str) -> None:
    """Tried again after a while, longer each time; for good after the last attempt."""
    now = timezone.now()
    is_last = due.attempt >= ATTEMPTS
    with tenant_scope(tenant_id, durable=True), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE ledger_job SET status = %s, error = %s, finished_at = %s, next_at = %s"
            " WHERE tenant_id = %s AND id = %s",
            [
                (Status.FAILED if is_last else Status.QUEUED).value,
                storable(error),
                now if is_last else None,
                None if is_last else now + FIRST_PAUSE * 2 ** (due.attempt - 1),
                tenant_id,
                due.job,
            ],
        )
        announce(tenant_id, {"sources": None})
