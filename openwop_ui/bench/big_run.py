"""A run of any size, written straight into the tables: what the intake would have made of its events, in seconds.

Two hundred nodes, four at work at a time, twenty events a visit; each visit writes an entry, calls a tool, and may
wait or fail. At three fifths of the run nothing happens for ten minutes.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.db import connection

from openwop_ui.tenancy.scope import tenant_scope
from runs.store import HostRef

NODES = 200
_BLOCK = 80
"""Four visits of twenty events, one event each in turn."""
START = datetime(2026, 11, 29, 12, tzinfo=UTC)


def whole(events: int) -> int:
    """The number of events nearest to ``events`` that a run of whole blocks has: they, a start and an end."""
    return max(1, round(events / _BLOCK)) * _BLOCK + 2


def _at(sequence: str) -> str:
    """A millisecond an event, and the gap."""
    idle = f"CASE WHEN {sequence} > %(last)s * 3 / 5 THEN interval '10 min' ELSE interval '0' END"
    return f"%(start)s::timestamptz + ({sequence}) * interval '1 ms' + {idle}"


_EVENTS = (
    """
INSERT INTO runs_event (tenant_id, run_id, sequence, type, node_id, agent_id, event_id, causation_id, occurred_at,
    received_at, digest, has_payload, body)
SELECT %(tenant)s, %(run)s, m.sequence, m.type, m.node, CASE m.type WHEN 'memory.written' THEN 'agent-1' END,
    'evt-' || m.sequence, NULL, m.at, m.at + interval '40 ms', decode(md5(m.sequence::text), 'hex'), true,
    json_build_object('eventId', 'evt-' || m.sequence, 'runId', %(name)s::text, 'type', m.type, 'nodeId', m.node,
        'sequence', m.sequence, 'timestamp', to_char(m.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'payload', CASE m.type
            WHEN 'memory.written' THEN json_build_object('memoryRef', 'notes', 'memoryId', 'mem_' || m.sequence,
                'nodeId', m.node, 'agentId', 'agent-1', 'tags', json_build_array('bench'))
            WHEN 'agent.toolCalled' THEN json_build_object('toolName', 'search', 'callId', 'c' || m.visit)
            WHEN 'agent.toolReturned' THEN json_build_object('toolName', 'search', 'callId', 'c' || m.visit,
                'status', CASE m.visit %% 70 WHEN 3 THEN 'error' ELSE 'ok' END)
            WHEN 'node.failed' THEN json_build_object('error', json_build_object('code', 'timeout'))
            WHEN 'run.started' THEN json_build_object('workflowId', 'bench.timeline')
            ELSE json_build_object('level', 'info', 'message', repeat('m', 90)) END)::text
FROM (
    SELECT n AS sequence, s.visit,
        CASE WHEN n NOT IN (0, %(last)s) THEN 'step-' || lpad((s.visit %% %(nodes)s)::text, 3, '0') END AS node,
        """
    + _at("n")
    + """ AS at,
        CASE WHEN n = 0 THEN 'run.started' WHEN n = %(last)s THEN 'run.completed'
            WHEN s.step = 0 THEN 'node.started' WHEN s.step = 4 THEN 'agent.toolCalled'
            WHEN s.step = 5 THEN 'agent.toolReturned' WHEN s.step = 10 THEN 'memory.written'
            WHEN s.step = 12 AND s.visit %% 40 = 7 THEN 'node.suspended'
            WHEN s.step = 15 AND s.visit %% 40 = 7 THEN 'node.resumed'
            WHEN s.step = 19 AND s.visit %% 50 = 49 THEN 'node.failed' WHEN s.step = 19 THEN 'node.completed'
            ELSE 'log.appended' END AS type
    FROM generate_series(%(first)s, %(through)s) n,
        LATERAL (SELECT greatest(n - 1, 0) / 80 * 4 + greatest(n - 1, 0) %% 4 AS visit,
            greatest(n - 1, 0) %% 80 / 4 AS step) s
) m
"""
)
_VISITS = """
FROM generate_series(0, (%(last)s - 1) / 20 - 1) visit,
    LATERAL (SELECT 'step-' || lpad((visit %% %(nodes)s)::text, 3, '0') AS node,
        visit / 4 * 80 + visit %% 4 + 1 AS first) s
"""
_LANES = f"""
INSERT INTO runs_runnode (tenant_id, run_id, node_id, status, attempts, event_count, first_sequence, last_sequence,
    folded_through)
SELECT %(tenant)s, %(run)s, node, 'ok', count(*), count(*) * 20, min(first), max(first) + 76, max(first) + 76
{_VISITS} GROUP BY node
"""
_ATTEMPTS = f"""
INSERT INTO runs_attempt (tenant_id, run_id, node_id, ordinal, from_sequence, to_sequence, started_at, ended_at,
    status, start_seen, may_restart, label, waits)
SELECT %(tenant)s, %(run)s, node, visit / %(nodes)s + 1, first, first + 76, {_at("first")}, {_at("first + 76")},
    CASE visit %% 50 WHEN 49 THEN 'fail' ELSE 'ok' END, true, false,
    CASE visit %% 50 WHEN 49 THEN 'timeout' ELSE '' END, '[]'
{_VISITS}
"""
_RUN = """
INSERT INTO runs_run (tenant_id, host_id, run_id, workflow_id, status, status_sequence, status_is_terminal, started_at,
    started_sequence, ended_at, first_sequence, last_sequence, contiguous_through, event_count, write_count,
    attributed_count, revision, watched_through, first_received_at, last_received_at)
VALUES (%(tenant)s, %(host)s, %(name)s, 'bench.timeline', 'completed', %(last)s, true, %(start)s, 0,
    %(start)s::timestamptz + %(last)s * interval '1 ms' + interval '10 min', 0, %(last)s, %(last)s, %(last)s + 1,
    %(last)s / 20, %(last)s / 20, 0, %(last)s, now(), now())
RETURNING id
"""
_PART = 100_000


def make_run(host: HostRef, name: str, events: int) -> int:
    """A finished run of ``whole(events)`` events. Returns its primary key."""
    last = whole(events) - 1
    values: dict[str, Any] = {
        "tenant": host.tenant_id,
        "host": host.id,
        "name": name,
        "last": last,
        "start": START,
        "nodes": NODES,
    }
    with tenant_scope(host.tenant_id), connection.cursor() as cursor:
        cursor.execute(_RUN, values)
        row = cursor.fetchone()
        assert row
        values["run"] = row[0]
        for first in range(0, last + 1, _PART):
            cursor.execute(_EVENTS, values | {"first": first, "through": min(last, first + _PART - 1)})
        cursor.execute(_LANES, values)
        cursor.execute(_ATTEMPTS, values)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE) runs_event, runs_attempt, runs_runnode, runs_run")
    return int(row[0])
