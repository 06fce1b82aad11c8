"""The set-based SQL of the intake: a batch is copied beside the log, then what is new goes in with one statement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.backends.utils import CursorWrapper

from ..domain.event import RunEvent
from ..domain.storable import storable

# Rows can not be copied straight into a table under row-level security. The temporary table lives as long as the
# connection and is emptied by every commit.
_STAGE = """
CREATE TEMPORARY TABLE IF NOT EXISTS staged_event (
    ordinal int, run_id bigint, sequence bigint, type text, reported_type text, node_id text, agent_id text,
    event_id text, causation_id text, occurred_at timestamptz, digest bytea, has_payload boolean, body text
) ON COMMIT DELETE ROWS
"""
_TYPES = [
    "int4",
    "int8",
    "int8",
    *["text"] * 6,
    "timestamptz",
    "bytea",
    "bool",
    "text",
]
_COLUMNS = (
    "run_id, sequence, type, reported_type, node_id, agent_id, event_id, causation_id, occurred_at, digest,"
    " has_payload, body"
)
_INSERT = f"""
INSERT INTO runs_event (tenant_id, received_at, {_COLUMNS})
SELECT %(tenant)s, %(received_at)s, {_COLUMNS} FROM staged_event
"""  # noqa: S608 - the columns are the constant above


@dataclass(frozen=True, slots=True)
class Known:
    """A staged event whose place in the log is taken by something else than itself, or by less."""

    ordinal: int
    known_has_payload: bool
    first_completion: bytes | None


def stage(rows: Iterable[tuple[int, int, RunEvent]]) -> None:
    """Copies (ordinal, run's primary key, event) into the staging table, which is empty after."""
    with connection.cursor() as cursor:
        cursor.execute(_STAGE)
        cursor.execute("TRUNCATE staged_event")
        with _driver(cursor).copy("COPY staged_event FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(_TYPES)
            for ordinal, run, event in rows:
                copy.write_row(_row(ordinal, run, event))


def _driver(cursor: CursorWrapper) -> Any:
    """psycopg's own cursor: Django has no COPY."""
    return cursor.cursor


def _row(ordinal: int, run: int, event: RunEvent) -> tuple[Any, ...]:
    return (
        ordinal,
        run,
        event.sequence,
        storable(event.type),
        None if event.reported_type == event.type else storable(event.reported_type),
        event.node_id and storable(event.node_id),
        event.agent_id and storable(event.agent_id),
        event.event_id and storable(event.event_id),
        event.causation_id and storable(event.causation_id),
        event.timestamp,
        event.digest,
        event.has_payload,
        event.body,
    )


def insert_all(*, tenant_id: int, received_at: datetime) -> None:
    """Moves the staged events into the log. All of them are new: the caller holds the locks of their runs."""
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, {"tenant": tenant_id, "received_at": received_at})


def insert_new(*, tenant_id: int, received_at: datetime) -> set[tuple[int, int]]:
    """Moves the staged events whose place is free, and returns those places as (run's primary key, sequence)."""
    with connection.cursor() as cursor:
        cursor.execute(
            # Of two events for one place in a batch the first one gets it.
            _INSERT + " ORDER BY ordinal ON CONFLICT DO NOTHING RETURNING run_id, sequence",
            {"tenant": tenant_id, "received_at": received_at},
        )
        return set(cursor.fetchall())


_COMPARE = """
SELECT s.ordinal, e.has_payload, (
    SELECT c.digest FROM runs_eventcopy c
    WHERE c.tenant_id = e.tenant_id AND c.run_id = e.run_id AND c.sequence = e.sequence AND c.kind = 'completion'
)
FROM staged_event s
JOIN runs_event e ON e.tenant_id = %s AND e.run_id = s.run_id AND e.sequence = s.sequence
WHERE e.digest <> s.digest OR s.has_payload AND NOT e.has_payload
ORDER BY s.ordinal
"""


def differing(tenant_id: int) -> list[Known]:
    """The staged events that say something else, or more, than the log does at their place.

    A payload of null is more than none: the host was asked, and there is nothing further to come.
    """
    with connection.cursor() as cursor:
        cursor.execute(_COMPARE, [tenant_id])
        return [
            Known(ordinal, has_payload, None if digest is None else bytes(digest))
            for ordinal, has_payload, digest in cursor.fetchall()
        ]


def keep_copies(
    *, tenant_id: int, received_at: datetime, copies: Sequence[tuple[int, str, RunEvent]]
) -> set[tuple[int, int, bytes]]:
    """Keeps (run's primary key, kind, event) beside the log. Returns those that were not kept already."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO runs_eventcopy
                (tenant_id, run_id, sequence, digest, kind, body, occurred_at, received_at)
            SELECT %s, run_id, sequence, digest, kind, body, occurred_at, %s
            FROM unnest(%s::bigint[], %s::bigint[], %s::bytea[], %s::text[], %s::text[], %s::timestamptz[])
                AS c (run_id, sequence, digest, kind, body, occurred_at)
            ON CONFLICT DO NOTHING RETURNING run_id, sequence, digest
            """,
            [
                tenant_id,
                received_at,
                [run for run, _, _ in copies],
                [event.sequence for _, _, event in copies],
                [event.digest for _, _, event in copies],
                [kind for _, kind, _ in copies],
                [event.body for _, _, event in copies],
                [event.timestamp for _, _, event in copies],
            ],
        )
        return {(run, sequence, bytes(digest)) for run, sequence, digest in cursor.fetchall()}
