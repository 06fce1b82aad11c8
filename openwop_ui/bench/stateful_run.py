"""Runs with variables and channels beside their nodes, of any size, written straight into the log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.db import connection

from openwop_ui.tenancy.scope import tenant_scope
from runs.store import HostRef

START = datetime(2026, 11, 29, 12, tzinfo=UTC)
_PART = 100_000

_RUN = """
INSERT INTO runs_run (tenant_id, host_id, run_id, workflow_id, status, status_sequence, status_is_terminal, started_at,
    started_sequence, ended_at, first_sequence, last_sequence, contiguous_through, event_count, write_count,
    attributed_count, revision, watched_through, first_received_at, last_received_at)
VALUES (%(tenant)s, %(host)s, %(name)s, 'bench.state', 'completed', %(last)s, true, %(start)s, 0,
    %(start)s::timestamptz + %(last)s * interval '1 ms', 0, %(last)s, %(last)s, %(last)s + 1,
    %(last)s / 20, %(last)s / 20, 0, %(last)s, now(), now())
RETURNING id
"""
# Twenty events a visit of one of two hundred nodes: a write, two changes of fifty variables, one of ten channels.
_EVENTS = """
INSERT INTO runs_event (tenant_id, run_id, sequence, type, node_id, agent_id, event_id, causation_id, occurred_at,
    received_at, digest, has_payload, body)
SELECT %(tenant)s, %(run)s, m.n, m.type, m.node, NULL, 'evt-' || m.n, NULL, m.at, m.at, decode(md5(m.n::text), 'hex'),
    true, json_build_object('eventId', 'evt-' || m.n, 'runId', %(name)s::text, 'type', m.type, 'nodeId', m.node,
        'sequence', m.n, 'timestamp', to_char(m.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'payload', CASE m.type
            WHEN 'memory.written' THEN json_build_object('memoryRef', 'notes', 'memoryId', %(ids)s::text || m.n,
                'nodeId', m.node, 'agentId', 'agent-1', 'tags', json_build_array('run-id:' || %(name)s::text))
            WHEN 'variable.changed' THEN json_build_object('name', 'v' || m.n %% 50, 'next', m.n)
            WHEN 'channel.written' THEN json_build_object('channel', 'c' || m.visit %% 10, 'value', m.n,
                'reducer', (ARRAY['replace', 'append', 'counter'])[m.visit %% 3 + 1])
            WHEN 'node.completed' THEN json_build_object('durationMs', %(took)s + m.n %% 7, 'outputs', m.visit)
            WHEN 'run.started' THEN json_build_object('workflowId', 'bench.state')
            ELSE json_build_object('level', 'info', 'message', repeat('m', 110)) END)::text
FROM (SELECT n, n / 20 AS visit, %(start)s::timestamptz + n * interval '1 ms' AS at,
        CASE WHEN n NOT IN (0, %(last)s) THEN 'step-' || lpad((n / 20 %% 200)::text, 3, '0') END AS node,
        CASE WHEN n = 0 THEN 'run.started' WHEN n = %(last)s THEN 'run.completed'
            ELSE CASE n %% 20 WHEN 1 THEN 'node.started' WHEN 19 THEN 'node.completed' WHEN 10 THEN 'memory.written'
                WHEN 5 THEN 'variable.changed' WHEN 12 THEN 'variable.changed' WHEN 15 THEN 'channel.written'
                WHEN 4 THEN 'agent.toolCalled' WHEN 6 THEN 'agent.toolReturned' ELSE %(filling)s END END AS type
    FROM generate_series(%(first)s, %(through)s) n) m
"""


def make_stateful_run(
    host: HostRef, name: str, events: int, *, ids: str = "mem_", took: int = 10, filling: str = "log.appended"
) -> int:
    """A finished run. ``ids`` begins its memory ids, ``took`` is how long its nodes took at least, ``filling`` is the
    type of most of its events. Returns its primary key."""
    values: dict[str, Any] = {
        "tenant": host.tenant_id,
        "host": host.id,
        "name": name,
        "last": events - 1,
        "start": START,
        "ids": ids,
        "took": took,
        "filling": filling,
    }
    with tenant_scope(host.tenant_id), connection.cursor() as cursor:
        cursor.execute(_RUN, values)
        row = cursor.fetchone()
        assert row
        values["run"] = row[0]
        for first in range(0, events, _PART):
            cursor.execute(_EVENTS, values | {"first": first, "through": min(events, first + _PART) - 1})
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE) runs_event, runs_run")
    return int(row[0])
