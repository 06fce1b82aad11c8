"""The lanes of a run, as rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from ..domain.storable import original


@dataclass(frozen=True, slots=True)
class LaneRow:
    """One node: its first attempt's start and its last one's end, as far as they were told."""

    node: str
    status: str
    attempts: int
    events: int
    first: int
    last: int
    started_at: datetime | None
    ended_at: datetime | None


def lane_rows(tenant_id: int, run: int, *, limit: int) -> tuple[LaneRow, ...]:
    """By their first event."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT n.node_id, n.status, n.attempts, n.event_count, n.first_sequence, n.last_sequence,
                min(a.started_at), max(a.ended_at)
            FROM (SELECT * FROM runs_runnode WHERE tenant_id = %(tenant)s AND run_id = %(run)s
                ORDER BY first_sequence, node_id LIMIT %(limit)s) AS n
            LEFT JOIN runs_attempt a ON a.tenant_id = n.tenant_id AND a.run_id = n.run_id AND a.node_id = n.node_id
            GROUP BY n.node_id, n.status, n.attempts, n.event_count, n.first_sequence, n.last_sequence
            ORDER BY n.first_sequence, n.node_id
            """,
            {"tenant": tenant_id, "run": run, "limit": limit},
        )
        return tuple(LaneRow(original(node), *rest) for node, *rest in cursor.fetchall())
