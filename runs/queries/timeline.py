"""What the timeline draws: lanes with attempts, memory writes and marks of one stretch of a run.

A stretch with more attempts or writes than a screen can show comes as counts per bucket instead.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db import connection
from django.utils import timezone

from ..domain.storable import original
from ..domain.summary import payload_of
from .runs import RunFacts

MOST_SPANS = 8_000
MOST_WRITES = 2_000
MOST_LANES = 2_000
MOST_MARKS = 200
BUCKET_PIXELS = 4

_WORST = ("fail", "interrupted", "cancelled", "wait", "live", "unknown", "ok")


def timeline(
    tenant_id: int, run: RunFacts, *, start: int | None = None, end: int | None = None, width: int = 1200
) -> dict[str, Any]:
    """The timeline's JSON without links, for the events from ``start`` to ``end`` (sequences) on ``width`` pixels."""
    first = run.first_sequence or 0
    last = first if run.last_sequence is None else run.last_sequence
    start = first if start is None else max(first, start)
    end = last if end is None else min(last, end)
    buckets = max(1, min(width, 8_000) // BUCKET_PIXELS)
    lanes, total = _lanes(tenant_id, run, start, end, buckets)
    return {
        "run": _run(run),
        "window": _window(tenant_id, run.pk, start, end),
        "lanes": lanes,
        "lanesTotal": total,
        **_writes(tenant_id, run.pk, start, end, buckets),
        "marks": _marks(tenant_id, run.pk, start, end),
    }


def moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat().replace("+00:00", "Z")


def _run(run: RunFacts) -> dict[str, Any]:
    return {
        "status": run.status,
        "terminal": run.terminal,
        "firstSequence": run.first_sequence,
        "lastSequence": run.last_sequence,
        "events": run.events,
        "startedAt": moment(run.started_at),
        "endedAt": moment(run.ended_at),
        "now": moment(timezone.now()),
    }


def _window(tenant_id: int, run: int, start: int, end: int) -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT
                (SELECT occurred_at FROM runs_event WHERE tenant_id = %(t)s AND run_id = %(r)s
                    AND sequence >= %(a)s ORDER BY sequence LIMIT 1),
                (SELECT occurred_at FROM runs_event WHERE tenant_id = %(t)s AND run_id = %(r)s
                    AND sequence <= %(b)s ORDER BY sequence DESC LIMIT 1)
            """,
            {"t": tenant_id, "r": run, "a": start, "b": end},
        )
        row = cursor.fetchone() or (None, None)
    return {"from": start, "to": end, "startAt": moment(row[0]), "endAt": moment(row[1])}


def _lanes(tenant_id: int, facts: RunFacts, start: int, end: int, buckets: int) -> tuple[list[dict[str, Any]], int]:
    run = facts.pk
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT node_id, status, attempts, event_count, first_sequence, last_sequence, count(*) OVER ()"
            " FROM runs_runnode WHERE tenant_id = %s AND run_id = %s ORDER BY first_sequence, node_id LIMIT %s",
            [tenant_id, run, MOST_LANES],
        )
        found = cursor.fetchall()
        cursor.execute(
            "SELECT count(*) FROM (SELECT FROM runs_attempt WHERE tenant_id = %s AND run_id = %s"
            " AND from_sequence <= %s AND (to_sequence IS NULL OR to_sequence >= %s) LIMIT %s) AS counted",
            [tenant_id, run, end, start, MOST_SPANS + 1],
        )
        counted = cursor.fetchone()
    dense = bool(counted and counted[0] > MOST_SPANS)
    filled = (
        _buckets(tenant_id, run, start, end, buckets)
        if dense
        else _spans(tenant_id, run, start, end, ended=facts.terminal)
    )
    member = "buckets" if dense else "spans"
    lanes = [
        {
            "node": original(node),
            "status": _shown(status, facts.terminal),
            "attempts": attempts,
            "events": events,
            "first": first,
            "last": last,
            member: filled.get(original(node), []),
        }
        for node, status, attempts, events, first, last, _ in found
    ]
    return lanes, found[0][6] if found else 0


def _shown(status: str, ended: bool) -> str:
    """Nothing is live in a run that has ended: how such a node ended is not known."""
    return "unknown" if ended and status in ("live", "wait") else status


def _spans(tenant_id: int, run: int, start: int, end: int, *, ended: bool) -> dict[str, list[dict[str, Any]]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT node_id, ordinal, from_sequence, to_sequence, started_at, ended_at, status, start_seen, label,"
            " waits FROM runs_attempt WHERE tenant_id = %s AND run_id = %s AND from_sequence <= %s"
            " AND (to_sequence IS NULL OR to_sequence >= %s) ORDER BY node_id, ordinal",
            [tenant_id, run, end, start],
        )
        found = cursor.fetchall()
    spans: dict[str, list[dict[str, Any]]] = {}
    for row in found:
        spans.setdefault(original(row[0]), []).append(_span(row, ended))
    return spans


def _span(row: Sequence[Any], run_ended: bool) -> dict[str, Any]:
    _, ordinal, start, end, started, ended, status, start_seen, label, waits = row
    return {
        "from": start,
        "to": end,
        "startAt": moment(started),
        "endAt": moment(ended),
        "status": _shown(status, run_ended),
        "attempt": ordinal,
        "startSeen": start_seen,
        "label": original(label) or None,
        "waits": json.loads(waits),
    }


def _buckets(tenant_id: int, run: int, start: int, end: int, buckets: int) -> dict[str, list[dict[str, Any]]]:
    ranks = " ".join(f"WHEN '{status}' THEN {rank}" for rank, status in enumerate(_WORST))
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT node_id, min(from_sequence), max(coalesce(to_sequence, %(b)s)), min(started_at),
                max(coalesce(ended_at, started_at)), count(*), min(CASE status {ranks} ELSE 5 END)
            FROM runs_attempt
            WHERE tenant_id = %(t)s AND run_id = %(r)s AND from_sequence <= %(b)s
                AND (to_sequence IS NULL OR to_sequence >= %(a)s)
            GROUP BY node_id, width_bucket(from_sequence, %(a)s, %(b)s + 1, %(n)s)
            ORDER BY node_id, 2
            """,  # noqa: S608 - constants
            {"t": tenant_id, "r": run, "a": start, "b": end, "n": buckets},
        )
        found = cursor.fetchall()
    filled: dict[str, list[dict[str, Any]]] = {}
    for node, low, high, started, ended, count, rank in found:
        filled.setdefault(original(node), []).append(
            {
                "from": low,
                "to": high,
                "startAt": moment(started),
                "endAt": moment(ended),
                "count": count,
                "worst": _WORST[rank],
            }
        )
    return filled


_WRITTEN = (
    "FROM runs_event WHERE tenant_id = %(t)s AND run_id = %(r)s AND sequence BETWEEN %(a)s AND %(b)s"
    " AND type = 'memory.written' AND type IN ('memory.written', 'memory.compacted', 'agent.memory.consolidated')"
)  # the second condition is the partial index's own


def _writes(tenant_id: int, run: int, start: int, end: int, buckets: int) -> dict[str, Any]:
    values = {"t": tenant_id, "r": run, "a": start, "b": end, "n": buckets}
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) {_WRITTEN}", values)  # noqa: S608
        counted = cursor.fetchone()
        total = counted[0] if counted else 0
        if total > MOST_WRITES:
            cursor.execute(
                "SELECT min(sequence), max(sequence), min(occurred_at), max(occurred_at), count(*)"
                f" {_WRITTEN} GROUP BY width_bucket(sequence, %(a)s, %(b)s + 1, %(n)s) ORDER BY 1",  # noqa: S608
                values,
            )
            dense = [
                {"from": low, "to": high, "startAt": moment(first), "endAt": moment(last), "count": count}
                for low, high, first, last, count in cursor.fetchall()
            ]
            return {"writes": [], "writeBuckets": dense, "writesTotal": total}
        cursor.execute(
            f"SELECT sequence, occurred_at, node_id, agent_id, body {_WRITTEN} ORDER BY sequence",  # noqa: S608
            values,
        )
        return {"writes": [_write(row) for row in cursor.fetchall()], "writesTotal": total}


def _write(row: Sequence[Any]) -> dict[str, Any]:
    sequence, at, node, agent, body = row
    payload = payload_of(body)
    named = payload if isinstance(payload, dict) else {}
    return {
        "sequence": sequence,
        "at": moment(at),
        "node": node and original(node),
        "agent": agent and original(agent),
        "memoryRef": named.get("memoryRef") if isinstance(named.get("memoryRef"), str) else None,
        "memoryId": named.get("memoryId") if isinstance(named.get("memoryId"), str) else None,
    }


_STATUSES = {
    "started": "live",
    "completed": "ok",
    "failed": "fail",
    "cancelled": "cancelled",
    "paused": "wait",
}


def _marks(tenant_id: int, run: int, start: int, end: int) -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sequence, occurred_at, type FROM runs_event WHERE tenant_id = %s AND run_id = %s"
            " AND node_id IS NULL AND starts_with(type, 'run.') AND sequence BETWEEN %s AND %s"
            " ORDER BY sequence LIMIT %s",
            [tenant_id, run, start, end, MOST_MARKS],
        )
        return [
            {
                "sequence": sequence,
                "at": moment(at),
                "type": type_,
                "status": _STATUSES.get(type_.removeprefix("run."), "live"),
            }
            for sequence, at, type_ in cursor.fetchall()
        ]
