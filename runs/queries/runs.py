"""Runs: lists of them, one of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from ..domain.projection import project, unproject
from ..domain.storable import original, storable
from ..models import Run
from .rows import Option, RunRow, percent

PAGE = 50

_ROW = """
    r.id, h.slug, r.run_id, r.workflow_id, r.status, r.started_at, r.ended_at, r.last_received_at,
    r.event_count, r.first_sequence, r.last_sequence, r.write_count,
    (SELECT count(*) FROM runs_runnode n WHERE n.tenant_id = r.tenant_id AND n.run_id = r.id),
    (SELECT count(*) FROM runs_incident i WHERE i.tenant_id = r.tenant_id AND i.run_id = r.id
        AND NOT jsonb_exists(i.detail, 'closed_at')
        AND NOT (i.kind = 'gap' AND r.last_sequence - r.first_sequence + 1 > r.event_count)),
    (SELECT e.occurred_at FROM runs_event e
        WHERE e.tenant_id = r.tenant_id AND e.run_id = r.id AND e.sequence = r.last_sequence)
"""
_FROM = "runs_run r JOIN runs_host h ON h.tenant_id = r.tenant_id AND h.id = r.host_id"


@dataclass(frozen=True, slots=True)
class RunFilter:
    """What a list of runs is narrowed to; "" means any."""

    status: str = ""
    host: str = ""
    q: str = ""

    def where(self, tenant_id: int) -> tuple[str, dict[str, Any]]:
        conditions, values = ["r.tenant_id = %(tenant)s"], {"tenant": tenant_id}
        if self.status:
            conditions.append("r.status = %(status)s")
        if self.host:
            conditions.append("h.slug = %(host)s")
        if self.q:
            conditions.append("(r.run_id ILIKE %(like)s OR r.workflow_id ILIKE %(like)s)")
        return " AND ".join(conditions), values | {
            "status": storable(self.status),
            "host": storable(self.host),
            "like": like(self.q),
        }


@dataclass(frozen=True, slots=True)
class RunPageOfList:
    """Newest first. The cursors are None where there is nothing further that way."""

    rows: tuple[RunRow, ...]
    total: int
    newer: str | None
    older: str | None


def like(text: str) -> str:
    """A LIKE pattern for a substring, whatever characters it has."""
    escaped = storable(text).replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def run_list(
    tenant_id: int,
    filter: RunFilter = RunFilter(),  # noqa: B008 - frozen
    *,
    before: int | None = None,
    after: int | None = None,
    limit: int = PAGE,
) -> RunPageOfList:
    """A page of runs: older than ``before``, or newer than ``after``, or the newest."""
    where, values = filter.where(tenant_id)
    values |= {"edge": after if after is not None else before, "limit": limit + 1}
    edge, order = "", "DESC"
    if after is not None:
        edge, order = "AND r.id > %(edge)s", "ASC"
    elif before is not None:
        edge = "AND r.id < %(edge)s"
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {_ROW} FROM {_FROM} WHERE {where} {edge} ORDER BY r.id {order} LIMIT %(limit)s",  # noqa: S608
            values,
        )
        found = cursor.fetchall()
        cursor.execute(f"SELECT count(*) FROM {_FROM} WHERE {where}", values)  # noqa: S608
        counted = cursor.fetchone()
    more, found = len(found) > limit, found[:limit]
    if after is not None:
        found.reverse()
    has_newer = more if after is not None else before is not None
    has_older = True if after is not None else more
    return RunPageOfList(
        rows=tuple(_run_row(row) for row in found),
        total=counted[0] if counted else 0,
        newer=cursor_of(found[0][1], original(found[0][2])) if found and has_newer else None,
        older=cursor_of(found[-1][1], original(found[-1][2])) if found and has_older else None,
    )


def cursor_of(host: str, run_id: str) -> str:
    """A place in a list of runs. It names the run: row numbers count all tenants' runs, so they stay inside."""
    return f"{host}/{project(run_id)}"


def place_of(tenant_id: int, cursor: str) -> int | None:
    """The place that a cursor names, or None when there is no such run."""
    host, _, segment = cursor.partition("/")
    try:
        run_id = unproject(segment)
    except ValueError:
        return None
    found = Run.objects.filter(tenant_id=tenant_id, host__slug=storable(host), run_id=storable(run_id))
    return found.values_list("pk", flat=True).first()


def _key(host: str, run_id: str) -> str:
    """A name for a run's row that holds in any list, and fits an HTML id."""
    return hashlib.blake2b(f"{host}/{storable(run_id)}".encode(), digest_size=8).hexdigest()


def _run_row(row: Sequence[Any]) -> RunRow:
    first, last, count = row[9], row[10], row[8]
    return RunRow(
        key=_key(row[1], original(row[2])),
        host=row[1],
        run_id=original(row[2]),
        workflow=original(row[3]) or None,
        status=row[4],
        started_at=row[5],
        ended_at=row[6],
        last_at=row[14],
        received_at=row[7],
        events=count,
        missing=0 if first is None else last - first + 1 - count,
        nodes=row[12],
        writes=row[11],
        incidents=row[13],
    )


def runs_where(tenant_id: int, condition: str, values: dict[str, Any], *, limit: int) -> tuple[RunRow, ...]:
    """Newest runs that a constant SQL condition admits."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {_ROW} FROM {_FROM} WHERE r.tenant_id = %(tenant)s AND ({condition})"  # noqa: S608
            " ORDER BY r.id DESC LIMIT %(limit)s",
            values | {"tenant": tenant_id, "limit": limit},
        )
        return tuple(_run_row(row) for row in cursor.fetchall())


def live_runs(tenant_id: int, *, limit: int = 12) -> tuple[tuple[RunRow, ...], int]:
    """Runs that have not ended, newest first, and how many there are."""
    total = Run.objects.filter(tenant_id=tenant_id, status_is_terminal=False).count()
    return runs_where(tenant_id, "NOT r.status_is_terminal", {}, limit=limit), total


def ended_runs(tenant_id: int, *, limit: int = 8) -> tuple[RunRow, ...]:
    return runs_where(tenant_id, "r.status_is_terminal", {}, limit=limit)


def status_options(tenant_id: int) -> tuple[Option, ...]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT status, count(*) FROM runs_run WHERE tenant_id = %s GROUP BY status ORDER BY 2 DESC, 1",
            [tenant_id],
        )
        return tuple(Option(status, status, count) for status, count in cursor.fetchall())


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run. ``expected`` is how many events its sequences span, ``through`` how far they have no gap. ``relation``
    is replay, branch, fork or child, or "" where only the parent is told."""

    pk: int
    host: str
    host_name: str
    major: int | None
    run_id: str
    workflow: str | None
    status: str
    terminal: bool
    started_at: datetime | None
    ended_at: datetime | None
    last_at: datetime | None
    received_at: datetime | None
    duration: float | None
    events: int
    expected: int
    first_sequence: int | None
    last_sequence: int | None
    through: int | None
    nodes: int
    writes: int
    attributed: int | None
    leaks: int
    bytes: int
    parent_run_id: str | None = None
    parent_sequence: int | None = None
    relation: str = ""


WEIGHED = 5_000
"""The size of a run's log is summed up to so many events."""


def find_run(tenant_id: int, host: str, run_id: str) -> RunFacts | None:
    """None for a run or host that does not exist, or belongs to another tenant: nobody can tell which."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT {_ROW}, r.parent_run_id, r.parent_sequence, r.relation,
                h.name, h.major, r.status_is_terminal, r.contiguous_through, r.attributed_count,
                (SELECT count(*) FROM runs_incident i WHERE i.tenant_id = r.tenant_id AND i.run_id = r.id
                    AND i.kind IN ('content_leak', 'credential_leak')),
                CASE WHEN r.event_count <= %(weighed)s THEN
                    (SELECT coalesce(sum(octet_length(e.body)), 0) FROM (
                        -- In order and limited, so that a few events are never looked for in the whole table.
                        SELECT w.body FROM runs_event w WHERE w.tenant_id = r.tenant_id AND w.run_id = r.id
                        ORDER BY w.sequence LIMIT %(weighed)s) e) ELSE 0 END
            FROM {_FROM}
            WHERE r.tenant_id = %(tenant)s AND h.slug = %(host)s AND r.id = runs_run_named(%(tenant)s, h.id, %(run)s)
            """,  # noqa: S608 - constants
            {"tenant": tenant_id, "host": host, "run": storable(run_id), "weighed": WEIGHED},
        )
        row = cursor.fetchone()
    return None if row is None else _run_facts(row)


def _run_facts(row: Sequence[Any]) -> RunFacts:
    brief = _run_row(row[:15])
    parent, parent_sequence, relation, name, major, terminal, through, attributed, leaks, size = row[15:]
    first, last = row[9], row[10]
    end = brief.ended_at or brief.last_at
    spans = brief.started_at is not None and end is not None
    return RunFacts(
        pk=row[0],
        host=brief.host,
        host_name=name or brief.host,
        major=major,
        run_id=brief.run_id,
        workflow=brief.workflow,
        status=brief.status,
        terminal=terminal,
        started_at=brief.started_at,
        ended_at=brief.ended_at,
        last_at=brief.last_at,
        received_at=brief.received_at,
        duration=(end - brief.started_at).total_seconds() if spans else None,  # type: ignore[operator]
        events=brief.events,
        expected=0 if first is None else last - first + 1,
        first_sequence=first,
        last_sequence=None if first is None else last,
        through=through if through >= 0 else None,
        nodes=brief.nodes or 0,
        writes=brief.writes,
        attributed=percent(attributed, brief.writes),
        leaks=leaks,
        bytes=int(size),
        parent_run_id=original(parent) or None,
        parent_sequence=parent_sequence,
        relation=relation,
    )
