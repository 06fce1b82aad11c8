"""Stored events as the texts that they are."""

from __future__ import annotations

from collections.abc import Collection

from django.db import connection

WHOLE = """coalesce((
    SELECT c.body FROM runs_eventcopy c WHERE c.tenant_id = e.tenant_id AND c.run_id = e.run_id
        AND c.sequence = e.sequence AND c.kind = 'completion'), e.body)"""
"""The text of an event ``e``; of one that came in part, what came of it later."""


def bodies_of(tenant_id: int, run: int, sequences: Collection[int]) -> dict[int, str]:
    """By sequence; of an event that came in part, what came of it later."""
    if not sequences:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT e.sequence, {WHOLE} FROM runs_event e"  # noqa: S608 - a constant
            " WHERE e.tenant_id = %s AND e.run_id = %s AND e.sequence = ANY (%s)",
            [tenant_id, run, list(sequences)],
        )
        return dict(cursor.fetchall())
