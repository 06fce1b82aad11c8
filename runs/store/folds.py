"""Keeps the lanes of runs: nodes and their attempts, folded from the events that a batch adds.

A node whose new events follow those that are folded already goes on from its last attempt. One that got an event
from the middle of its log is folded again from its whole log. Both give the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson
from django.db import connection

from ..domain.event import RunEvent
from ..domain.folding import (
    LIFECYCLE_TYPES,
    PAUSE_TYPES,
    Attempt,
    Lifecycle,
    Wait,
    advance,
    fold_attempts,
)
from ..domain.storable import original, storable
from ..domain.summary import detail_for, lifecycle_detail

Lane = tuple[int, str]
"""A run's primary key and a node id in its stored form."""


@dataclass(slots=True)
class _Lane:
    """What a batch adds to a lane, and what is known of it."""

    count: int = 0
    first: int = 2**63 - 1
    last: int = -1
    steps: list[Lifecycle] = field(default_factory=list)
    folded_through: int = -1
    attempts_known: int = 0
    tail: Attempt | None = None
    again: bool = False
    changed: list[Attempt] = field(default_factory=list)
    """The attempts to write; all of the lane's when it is folded again."""

    def add(self, event: RunEvent) -> None:
        self.count += 1
        if event.sequence < self.first:
            self.first = event.sequence
        if event.sequence > self.last:
            self.last = event.sequence
        if event.type in LIFECYCLE_TYPES:
            self.steps.append(Lifecycle(event.sequence, event.type, event.timestamp, detail_for(event)))

    def go_on(self) -> None:
        self.steps.sort(key=_sequence)
        changed: list[Attempt] = [self.tail] if self.tail else []
        for step in self.steps:
            changed[-1:] = advance(changed[-1] if changed else None, step)
        # What only got a successor is stored as it is.
        self.changed = changed[1:] if changed and changed[0] is self.tail else changed

    @property
    def last_attempt(self) -> Attempt | None:
        return self.changed[-1] if self.changed else self.tail


def _sequence(step: Lifecycle) -> int:
    return step.sequence


def fold_nodes(*, tenant_id: int, fresh: Mapping[int, Sequence[RunEvent]], revised: Iterable[tuple[int, str]]) -> None:
    """``fresh`` are the events that a batch added to its runs (primary keys), ``revised`` nodes of which a stored
    event has been completed. The caller holds the locks of the runs.
    """
    lanes = _touched(fresh)
    for run, node in revised:
        lanes.setdefault((run, storable(node)), _Lane()).again = True
    for key in _paused(tenant_id, fresh):
        lanes.setdefault(key, _Lane()).again = True
    if not lanes:
        return
    moving = {key: lane for key, lane in lanes.items() if lane.steps or lane.again}
    _load(tenant_id, moving)
    pauses = _last_pauses(tenant_id, {run for run, _ in moving})
    for (run, _), lane in moving.items():
        known = max(lane.folded_through, pauses.get(run, -1))
        lane.again = lane.again or any(step.sequence <= known for step in lane.steps)
        if lane.steps and not lane.again:
            lane.go_on()
    _fold_again(tenant_id, {key: lane for key, lane in moving.items() if lane.again})
    _write_lanes(tenant_id, lanes)
    _write_attempts(tenant_id, lanes)


def _touched(fresh: Mapping[int, Sequence[RunEvent]]) -> dict[Lane, _Lane]:
    lanes: dict[Lane, _Lane] = {}
    for run, events in fresh.items():
        of_run: dict[str, _Lane] = {}
        for event in events:
            node = event.node_id
            if node is None:
                continue
            lane = of_run.get(node)
            if lane is None:
                lane = of_run[node] = lanes[run, storable(node)] = _Lane()
            lane.add(event)
    return lanes


def _paused(tenant_id: int, fresh: Mapping[int, Sequence[RunEvent]]) -> list[Lane]:
    """The lanes that were open when a run paused or resumed as a whole, as far as they are stored."""
    pauses = [(run, e.sequence) for run, events in fresh.items() for e in events if e.type in PAUSE_TYPES]
    if not pauses:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT DISTINCT a.run_id, a.node_id FROM runs_attempt a
            JOIN unnest(%s::bigint[], %s::bigint[]) AS p (run_id, sequence) ON p.run_id = a.run_id
            WHERE a.tenant_id = %s AND a.from_sequence < p.sequence
                AND (a.to_sequence IS NULL OR a.to_sequence > p.sequence)
            """,
            [[run for run, _ in pauses], [sequence for _, sequence in pauses], tenant_id],
        )
        return [(run, node) for run, node in cursor.fetchall()]


def _last_pauses(tenant_id: int, runs: set[int]) -> dict[int, int]:
    """Where each run last paused or resumed: a step in front of that is a late one, its lane folds again."""
    if not runs:
        return {}
    kinds = ", ".join(f"'{kind}'" for kind in sorted(PAUSE_TYPES))  # literals, so that the partial index applies
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT run_id, max(sequence) FROM runs_event WHERE tenant_id = %s AND run_id = ANY (%s)"
            f" AND type IN ({kinds}) GROUP BY run_id",
            [tenant_id, sorted(runs)],
        )
        return dict(cursor.fetchall())


def _load(tenant_id: int, lanes: Mapping[Lane, _Lane]) -> None:
    if not lanes:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT n.run_id, n.node_id, n.folded_through, n.attempts, a.ordinal, a.from_sequence, a.to_sequence,
                a.started_at, a.ended_at, a.status, a.start_seen, a.label, a.waits, a.may_restart
            FROM unnest(%s::bigint[], %s::text[]) AS t (run_id, node_id)
            JOIN runs_runnode n ON n.tenant_id = %s AND n.run_id = t.run_id AND n.node_id = t.node_id
            LEFT JOIN runs_attempt a ON a.tenant_id = n.tenant_id AND a.run_id = n.run_id
                AND a.node_id = n.node_id AND a.ordinal = n.attempts
            """,
            [[run for run, _ in lanes], [node for _, node in lanes], tenant_id],
        )
        for run, node, folded_through, attempts, *told in cursor.fetchall():
            lane = lanes[run, node]
            lane.folded_through, lane.attempts_known = folded_through, attempts
            lane.tail = _attempt(told) if told[0] is not None else None


def _attempt(row: Sequence[Any]) -> Attempt:
    ordinal, start, end, started, ended, status, start_seen, label, waits, may_restart = row
    return Attempt(
        ordinal=ordinal,
        from_sequence=start,
        to_sequence=end,
        started_at=started,
        ended_at=ended,
        status=status,
        start_seen=start_seen,
        label=original(label) or None,
        waits=tuple(_wait(wait) for wait in json.loads(waits)),
        may_restart=may_restart,
    )


def _wait(told: Mapping[str, Any]) -> Wait:
    ended = told["endAt"]
    return Wait(
        from_sequence=told["from"],
        to_sequence=told["to"],
        started_at=datetime.fromisoformat(told["startAt"]),
        ended_at=datetime.fromisoformat(ended) if ended else None,
        kind=original(told["kind"]),
    )


def _as_json(wait: Wait) -> dict[str, Any]:
    return {
        "from": wait.from_sequence,
        "to": wait.to_sequence,
        "startAt": wait.started_at.isoformat(),
        "endAt": wait.ended_at.isoformat() if wait.ended_at else None,
        "kind": storable(wait.kind),
    }


def _fold_again(tenant_id: int, lanes: Mapping[Lane, _Lane]) -> None:
    if not lanes:
        return
    logs: dict[Lane, list[Lifecycle]] = {key: [] for key in lanes}
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT t.run_id, t.node_id, e.sequence, e.type, e.occurred_at, coalesce(c.body, e.body)
            FROM unnest(%s::bigint[], %s::text[]) AS t (run_id, node_id)
            JOIN runs_event e ON e.tenant_id = %s AND e.run_id = t.run_id
                AND (e.node_id = t.node_id AND e.type = ANY (%s) OR e.type = ANY (%s))
            LEFT JOIN runs_eventcopy c ON c.tenant_id = e.tenant_id AND c.run_id = e.run_id
                AND c.sequence = e.sequence AND c.kind = 'completion'
            ORDER BY t.run_id, t.node_id, e.sequence
            """,
            [
                [run for run, _ in lanes],
                [node for _, node in lanes],
                tenant_id,
                sorted(LIFECYCLE_TYPES),
                sorted(PAUSE_TYPES),
            ],
        )
        for run, node, sequence, type_, at, body in cursor.fetchall():
            logs[run, node].append(Lifecycle(sequence, type_, at, lifecycle_detail(type_, body)))
        cursor.execute(
            "DELETE FROM runs_attempt a USING unnest(%s::bigint[], %s::text[]) AS t (run_id, node_id)"
            " WHERE a.tenant_id = %s AND a.run_id = t.run_id AND a.node_id = t.node_id",
            [[run for run, _ in lanes], [node for _, node in lanes], tenant_id],
        )
    for key, lane in lanes.items():
        lane.tail, lane.attempts_known = None, 0
        lane.steps = logs[key]
        lane.changed = fold_attempts(logs[key])


def _write_lanes(tenant_id: int, lanes: Mapping[Lane, _Lane]) -> None:
    rows = [
        {
            "run_id": run,
            "node_id": node,
            "status": lane.last_attempt.status if lane.last_attempt else "unknown",
            "attempts": lane.last_attempt.ordinal if lane.last_attempt else 0,
            "event_count": lane.count,
            "first_sequence": lane.first,
            "last_sequence": lane.last,
            "folded_through": max((step.sequence for step in lane.steps), default=-1),
        }
        for (run, node), lane in lanes.items()
    ]
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO runs_runnode AS n (tenant_id, run_id, node_id, status, attempts, event_count,
                first_sequence, last_sequence, folded_through)
            SELECT %s, t.* FROM json_to_recordset(%s) AS t (run_id bigint, node_id text, status text, attempts int,
                event_count bigint, first_sequence bigint, last_sequence bigint, folded_through bigint)
            ON CONFLICT (tenant_id, run_id, node_id) DO UPDATE SET
                -- Without a step it stays as it was, which has not been asked.
                status = CASE WHEN excluded.folded_through < 0 THEN n.status ELSE excluded.status END,
                attempts = CASE WHEN excluded.folded_through < 0 THEN n.attempts ELSE excluded.attempts END,
                event_count = n.event_count + excluded.event_count,
                first_sequence = least(n.first_sequence, excluded.first_sequence),
                last_sequence = greatest(n.last_sequence, excluded.last_sequence),
                folded_through = greatest(n.folded_through, excluded.folded_through)
            """,
            [tenant_id, _as_text(rows)],
        )


def _write_attempts(tenant_id: int, lanes: Mapping[Lane, _Lane]) -> None:
    rows = [
        {
            "run_id": run,
            "node_id": node,
            "ordinal": one.ordinal,
            "from_sequence": one.from_sequence,
            "to_sequence": one.to_sequence,
            "started_at": one.started_at,
            "ended_at": one.ended_at,
            "status": one.status,
            "start_seen": one.start_seen,
            "label": storable(one.label or ""),
            "waits": [_as_json(wait) for wait in one.waits],
            "may_restart": one.may_restart,
        }
        for (run, node), lane in lanes.items()
        for one in lane.changed
    ]
    if not rows:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO runs_attempt (tenant_id, run_id, node_id, ordinal, from_sequence, to_sequence, started_at,
                ended_at, status, start_seen, label, waits, may_restart)
            SELECT %s, t.* FROM json_to_recordset(%s) AS t (run_id bigint, node_id text, ordinal int,
                from_sequence bigint, to_sequence bigint, started_at timestamptz, ended_at timestamptz, status text,
                start_seen boolean, label text, waits jsonb, may_restart boolean)
            ON CONFLICT (tenant_id, run_id, node_id, ordinal) DO UPDATE SET
                to_sequence = excluded.to_sequence, ended_at = excluded.ended_at, status = excluded.status,
                label = excluded.label, waits = excluded.waits, may_restart = excluded.may_restart
            """,
            [tenant_id, _as_text(rows)],
        )


def _as_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Many small values travel as one: the driver takes longer over each than PostgreSQL over all of them."""
    return orjson.dumps(rows).decode()
