"""The limit that intake is held against: the same rows, copied into a bare table as fast as the server takes them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import psycopg

from runs.domain.event import RunEvent

_TABLE = """
CREATE TABLE bare (tenant_id bigint, run_id text, sequence bigint, type text, node_id text, agent_id text,
    event_id text, occurred_at timestamptz, received_at timestamptz, digest bytea, has_payload boolean, body {body})
"""
_TYPES = ["int8", "text", "int8", *["text"] * 4, "timestamptz", "timestamptz", "bytea", "bool", "text"]


def rows_per_second(connection: psycopg.Connection[Any], events: Iterable[RunEvent], *, body: str) -> float:
    """One COPY in one transaction, text format as most clients write it, no index, no key, no row security.

    ``body`` is the type of the column with the event: ``text``, or ``jsonb``, which the server parses.
    """
    rows = [
        (1, e.run_id, e.sequence, e.type, e.node_id, e.agent_id, e.event_id, e.timestamp, e.timestamp, e.digest, True)
        + (e.body,)
        for e in events
    ]
    connection.execute(_TABLE.format(body=body))
    try:
        started = time.perf_counter()
        with connection.transaction(), connection.cursor() as cursor, cursor.copy("COPY bare FROM STDIN") as copy:
            copy.set_types(_TYPES)
            for row in rows:
                copy.write_row(row)
        return len(rows) / (time.perf_counter() - started)
    finally:
        connection.execute("DROP TABLE bare")
