"""Source events with their jobs, and registered writers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from runs.domain.storable import original, storable

from ..models import ServiceWriter
from .paging import PAGE, Keyset, Order, Row, moment, page_of, rows_of, uuid

COUNTED = 100_000
"""Source events that match a filter are counted up to here."""


@dataclass(frozen=True, slots=True)
class SourceFilter:
    """What is empty does not count. ``since`` and ``until`` are about when it was received, the latter left out."""

    subject: str = ""
    writer: str = ""
    kind: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def where(self, tenant_id: int) -> tuple[str, dict[str, Any]]:
        """About ``e``, to go behind other conditions."""
        conditions = ""
        values: dict[str, Any] = {"tenant": tenant_id, "since": self.since, "until": self.until}
        for column, value in (("subject", self.subject), ("writer", self.writer), ("kind", self.kind)):
            if value:
                conditions += f" AND e.{column} = %({column})s"
                values[column] = storable(value)
        conditions += " AND e.received_at >= %(since)s" if self.since else ""
        conditions += " AND e.received_at < %(until)s" if self.until else ""
        return conditions, values


@dataclass(frozen=True, slots=True)
class JobRow:
    """``result`` is None until it is done."""

    id: UUID
    source_event: UUID
    status: str
    extractor: str
    result: Mapping[str, Any] | None
    error: str
    attempts: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class SourceEventRow:
    """``payload`` is JSON without secrets, None once it was taken away, at ``payload_redacted_at``. ``scope`` is
    canonical JSON, ``evidence`` a list of what the writer gave. ``entry`` is (host, memory ref, memory id) of an entry
    that was read on its host."""

    id: UUID
    kind: str
    writer: str
    event_id: str
    subject: str
    scope: str
    observed_at: datetime
    is_observed: bool
    received_at: datetime
    received_from: str
    payload_hash: str
    evidence: tuple[Any, ...]
    has_payload: bool
    payload_redacted_at: datetime | None
    entry_id: UUID | None
    entry_number: int | None
    claims: int
    job: JobRow | None
    entry: tuple[str, str, str] | None
    payload: str | None = None


@dataclass(frozen=True, slots=True)
class SourceList:
    rows: tuple[SourceEventRow, ...]
    newer: str | None
    older: str | None


BY_RECEIVED = Order(
    columns=(("e.received_at", "timestamptz"), ("e.id", "uuid")),
    write=lambda row: [row[8].isoformat(), str(row[0])],
    read=lambda place: (moment(place[0]), uuid(place[1])),
)
_JOB = "j.id, j.source_event_id, j.status, j.extractor, j.result, j.error, j.attempts, j.created_at, j.started_at,"
_SOURCE = f"""
    SELECT e.id, e.kind, e.writer, e.event_id, e.subject, e.scope, e.observed_at, e.is_observed, e.received_at,
        e.received_from, encode(e.payload_hash, 'hex'), e.evidence, e.payload IS NOT NULL, e.payload_redacted_at,
        e.entry_id, e.entry_number,
        (SELECT count(*) FROM ledger_claimrow c WHERE c.tenant_id = e.tenant_id AND c.source_event_id = e.id),
        h.slug, m.memory_ref, m.memory_id, e.payload, {_JOB} j.finished_at
    FROM {{events}} e
    LEFT JOIN ledger_job j ON j.tenant_id = e.tenant_id AND j.source_event_id = e.id
    LEFT JOIN ledger_memoryentry m ON m.tenant_id = e.tenant_id AND m.id = e.entry_id
    LEFT JOIN runs_host h ON h.tenant_id = m.tenant_id AND h.id = m.host_id
"""  # noqa: S608 - constants


def source_events(
    tenant_id: int,
    wanted: SourceFilter,
    *,
    before: str | None = None,
    after: str | None = None,
    limit: int = PAGE,
) -> SourceList:
    """The last received first, without their payloads. Raises BrokenCursor."""
    conditions, values = wanted.where(tenant_id)
    page, found = page_of(lambda page: _find(conditions, values, page), BY_RECEIVED, limit, before=before, after=after)
    shown, newer, older = page.cut(found)
    return SourceList(tuple(_source(row) for row in shown), newer, older)


def _find(conditions: str, values: Mapping[str, Any], page: Keyset) -> list[Row]:
    events = (
        "(SELECT e.* FROM ledger_sourceevent e"
        f" WHERE e.tenant_id = %(tenant)s {conditions} {page.condition} {page.order} LIMIT %(most)s)"
    )
    return rows_of(f"{_SOURCE.format(events=events)} {page.order}", {**values, **page.values})


def source_count(tenant_id: int, wanted: SourceFilter) -> tuple[int, bool]:
    """How many there are, and whether that is no more than how far it was counted."""
    conditions, values = wanted.where(tenant_id)
    ((count,),) = rows_of(
        "SELECT count(*) FROM (SELECT FROM ledger_sourceevent e"  # noqa: S608 - constants
        f" WHERE e.tenant_id = %(tenant)s {conditions} LIMIT %(counted)s) AS counted",
        {**values, "counted": COUNTED + 1},
    )
    return min(count, COUNTED), count > COUNTED


def claims_of_source(tenant_id: int, source: UUID, *, limit: int) -> tuple[UUID, ...]:
    """In the order in which it says them."""
    found = rows_of(
        "SELECT id FROM ledger_claimrow WHERE tenant_id = %s AND source_event_id = %s ORDER BY ordinal, id LIMIT %s",
        [tenant_id, source, limit],
    )
    return tuple(claim for (claim,) in found)


def observed_content(tenant_id: int, entry: UUID, number: int) -> str | None:
    """The content that an observation of an entry found, as the host gave it; None where there is none any more."""
    found = rows_of(
        "SELECT content FROM ledger_observation WHERE tenant_id = %s AND entry_id = %s AND number = %s",
        [tenant_id, entry, number],
    )
    return original(found[0][0]) if found and found[0][0] is not None else None


def find_source_event(tenant_id: int, source: UUID) -> SourceEventRow | None:
    rows = rows_of(
        f"{_SOURCE.format(events='ledger_sourceevent')} WHERE e.tenant_id = %s AND e.id = %s", [tenant_id, source]
    )
    return _source(rows[0], whole=True) if rows else None


def _source(row: Row, *, whole: bool = False) -> SourceEventRow:
    return SourceEventRow(
        id=row[0],
        kind=row[1],
        writer=original(row[2]),
        event_id=original(row[3]),
        subject=original(row[4]),
        scope=row[5],
        observed_at=row[6],
        is_observed=row[7],
        received_at=row[8],
        received_from=original(row[9]),
        payload_hash=row[10],
        evidence=tuple(json.loads(row[11])),
        has_payload=row[12],
        payload_redacted_at=row[13],
        entry_id=row[14],
        entry_number=row[15],
        claims=row[16],
        job=None if row[21] is None else _job(row[21:]),
        entry=None if row[17] is None else (row[17], original(row[18]), original(row[19])),
        payload=row[20] if whole else None,
    )


def _job(row: Row) -> JobRow:
    result = json.loads(row[4]) if isinstance(row[4], str) else row[4]
    return JobRow(row[0], row[1], row[2], row[3], result, original(row[5]), *row[6:])


def find_job(tenant_id: int, job: UUID) -> JobRow | None:
    rows = rows_of(
        f"SELECT {_JOB} j.finished_at FROM ledger_job j WHERE j.tenant_id = %s AND j.id = %s",  # noqa: S608
        [tenant_id, job],
    )
    return _job(rows[0]) if rows else None


def writers(tenant_id: int) -> list[ServiceWriter]:
    """In the order of their service keys, the retired ones among them."""
    return list(ServiceWriter.objects.filter(tenant_id=tenant_id).order_by("service_key"))


def find_writer(tenant_id: int, service_key: str) -> ServiceWriter | None:
    return ServiceWriter.objects.filter(tenant_id=tenant_id, service_key=service_key).first()
