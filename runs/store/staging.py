"""The set-based SQL of the intake: a batch is copied beside the log, then what is new goes in with one statement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.backends.utils import CursorWrapper

from ..domain.event import RunEvent
from ..domain.storable import needs_escapes, storable

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

FEW = 20
"""So few events go into the log without being copied beside it first."""
_INSERT_FEW = f"INSERT INTO runs_event (tenant_id, received_at, {_COLUMNS}) VALUES "
_VALUES = f"({', '.join(['%s'] * (2 + len(_COLUMNS.split(','))))})"


@dataclass(frozen=True, slots=True)
class Known:
    """A staged event whose place in the log is taken by something else than itself, or by less.

    ``is_equal`` when it only adds labels (eventId, causationId) to what is known; ``body`` is what is known where the
    node alone may differ, which ``has_node`` there or not.
    """

    ordinal: int
    known_has_payload: bool
    first_completion: bytes | None
    is_equal: bool
    has_node: bool
    body: str | None


def stage(rows: Iterable[tuple[int, RunEvent]]) -> None:
    """Copies (run's primary key, event) into the staging table. A row's ordinal is its place among them."""
    with connection.cursor() as cursor:
        cursor.execute(_STAGE)
        cursor.execute("DELETE FROM staged_event")  # of an empty table, which costs less than TRUNCATE does
        with _driver(cursor).copy("COPY staged_event FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(_TYPES)
            write = copy.write_row
            for ordinal, (run, event) in enumerate(rows):
                write(_row(ordinal, run, event))


def _driver(cursor: CursorWrapper) -> Any:
    """psycopg's own cursor: Django has no COPY."""
    return cursor.cursor


def _row(ordinal: int, run: int, event: RunEvent) -> tuple[Any, ...]:
    type_, reported, body = event.type, event.reported_type, event.body
    texts: tuple[str | None, ...] = (
        type_,
        None if reported == type_ else reported,
        event.node_id,
        event.agent_id,
        event.event_id,
        event.causation_id,
    )
    if needs_escapes(body):  # which holds all of them
        texts = tuple(text and storable(text) for text in texts)
    return (ordinal, run, event.sequence, *texts, event.timestamp, event.digest, event.has_payload, body)


def insert_all(rows: Sequence[tuple[int, RunEvent]], *, tenant_id: int, received_at: datetime) -> None:
    """Adds (run's primary key, event) to the log. All of them are new: the caller holds the locks of their runs."""
    if len(rows) > FEW:
        stage(rows)
        with connection.cursor() as cursor:
            cursor.execute(_INSERT, {"tenant": tenant_id, "received_at": received_at})
        return
    values: list[Any] = []
    for run, event in rows:
        values += (tenant_id, received_at, *_row(0, run, event)[1:])
    with connection.cursor() as cursor:
        cursor.execute(_INSERT_FEW + ", ".join([_VALUES] * len(rows)), values)


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
), e.digest = s.digest AND e.has_payload = s.has_payload, e.node_id IS NOT NULL,
    CASE WHEN (e.node_id IS NULL) <> (s.node_id IS NULL) AND e.type = s.type AND e.occurred_at = s.occurred_at
        AND e.has_payload AND s.has_payload THEN e.body END
FROM staged_event s
JOIN runs_event e ON e.tenant_id = %s AND e.run_id = s.run_id AND e.sequence = s.sequence
WHERE e.digest <> s.digest OR s.has_payload AND NOT e.has_payload
    OR (s.event_id IS NOT NULL AND e.event_id IS NULL OR s.causation_id IS NOT NULL AND e.causation_id IS NULL)
        AND (s.event_id IS NOT NULL OR e.event_id IS NULL) AND (s.causation_id IS NOT NULL OR e.causation_id IS NULL)
ORDER BY s.ordinal
"""


def differing(tenant_id: int) -> list[Known]:
    """The staged events that say something else, or more, than the log does at their place.

    A payload of null is more than none: the host was asked, and there is nothing further to come.
    """
    with connection.cursor() as cursor:
        cursor.execute(_COMPARE, [tenant_id])
        return [
            Known(ordinal, has_payload, None if digest is None else bytes(digest), *told)
            for ordinal, has_payload, digest, *told in cursor.fetchall()
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
