"""Hosts and what their logs add up to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connection

from .rows import HostRow, Option, percent

_HOSTS = """
WITH summed AS (
    SELECT host_id, count(*) AS runs, sum(event_count) AS events, sum(write_count) AS writes,
        sum(attributed_count) AS attributed, max(last_received_at) AS received_at
    FROM runs_run WHERE tenant_id = %(tenant)s GROUP BY host_id
), noticed AS (
    SELECT host_id, count(*) AS incidents FROM runs_incident
    WHERE tenant_id = %(tenant)s AND NOT jsonb_exists(detail, 'closed_at') GROUP BY host_id
), followed AS (
    SELECT host_id, count(*) FILTER (WHERE finished_at IS NULL) AS open,
        count(*) FILTER (WHERE finished_at IS NULL AND NOT paused AND phase = 'streaming') AS streaming,
        count(*) FILTER (WHERE finished_at IS NULL AND NOT paused AND last_error <> '') AS failing
    FROM runs_follow WHERE tenant_id = %(tenant)s GROUP BY host_id
)
SELECT h.id, h.slug, h.name, h.origin, h.major, h.following, h.last_error, h.leaking_since,
    coalesce(s.runs, 0), coalesce(s.events, 0), coalesce(s.writes, 0), coalesce(s.attributed, 0), s.received_at,
    coalesce(n.incidents, 0), coalesce(f.open, 0), coalesce(f.streaming, 0), coalesce(f.failing, 0), h.listed_at,
    h.lists_runs
FROM runs_host h
LEFT JOIN summed s ON s.host_id = h.id
LEFT JOIN noticed n ON n.host_id = h.id
LEFT JOIN followed f ON f.host_id = h.id
WHERE h.tenant_id = %(tenant)s
"""


def host_rows(tenant_id: int, *, slug: str | None = None) -> tuple[HostRow, ...]:
    """All hosts of a tenant, or the one with this slug."""
    only = " AND h.slug = %(slug)s" if slug is not None else ""
    with connection.cursor() as cursor:
        cursor.execute(f"{_HOSTS}{only} ORDER BY h.slug", {"tenant": tenant_id, "slug": slug})
        return tuple(_host_row(row) for row in cursor.fetchall())


def host_options(tenant_id: int) -> tuple[Option, ...]:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT h.slug, coalesce(nullif(h.name, ''), h.slug),
                (SELECT count(*) FROM runs_run r WHERE r.tenant_id = h.tenant_id AND r.host_id = h.id)
            FROM runs_host h WHERE h.tenant_id = %s ORDER BY h.slug
            """,
            [tenant_id],
        )
        return tuple(Option(*row) for row in cursor.fetchall())


def _host_row(row: Sequence[Any]) -> HostRow:
    (pk, slug, name, origin, major, following, error, leaking, runs, events, writes, attributed, received) = row[:13]
    incidents, open_, streaming, failing, listed, lists_runs = row[13:]
    state, detail = _state(
        origin=origin,
        following=following,
        error=error,
        open_=open_,
        streaming=streaming,
        failing=failing,
        listed=listed is not None,
        lists_runs=lists_runs,
    )
    return HostRow(
        key=slug,
        slug=slug,
        name=name or slug,
        origin=origin or None,
        major=major,
        state=state,
        detail=detail,
        runs=runs,
        events=int(events),
        writes=int(writes),
        attributed=percent(int(attributed), int(writes)),
        leaking=leaking is not None,
        incidents=incidents,
        received_at=received,
        lists_runs=lists_runs,
    )


def _state(
    *,
    origin: str,
    following: bool,
    error: str,
    open_: int,
    streaming: int,
    failing: int,
    listed: bool,
    lists_runs: bool | None,
) -> tuple[str, str]:
    if not origin:
        return "delivers", "Sends events, or they are uploaded."
    if not following:
        return "paused", "Not followed."
    if error:
        return "failing", error
    if failing:
        return "reconnecting", f"{failing} of {open_} runs not connected"
    if streaming or open_:
        return "following", f"{streaming} of {open_} runs streaming"
    if lists_runs is False:
        return "idle", "It has no list of its runs: those are followed that it delivers or that are named here."
    return "idle", "No run to follow." if listed else "Not reached yet."
