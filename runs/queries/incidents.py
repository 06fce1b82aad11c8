"""Contradictions, in words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.db import connection

from ..domain.storable import original
from ..models import Incident
from .rows import IncidentRow


def incidents(
    tenant_id: int, *, host: str | None = None, run: int | None = None, limit: int = 50
) -> tuple[tuple[IncidentRow, ...], int]:
    """The newest incidents of a tenant, one of its hosts or one run (primary key), and how many there are."""
    where, values = (
        ["i.tenant_id = %(tenant)s"],
        {"tenant": tenant_id, "host": host, "run": run, "limit": limit},
    )
    if host is not None:
        where.append("h.slug = %(host)s")
    if run is not None:
        where.append("i.run_id = %(run)s")
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT i.kind, i.detail, h.slug, r.run_id, i.sequence, i.noticed_at, count(*) OVER ()
            FROM runs_incident i
            JOIN runs_host h ON h.tenant_id = i.tenant_id AND h.id = i.host_id
            LEFT JOIN runs_run r ON r.tenant_id = i.tenant_id AND r.id = i.run_id
            WHERE {" AND ".join(where)} ORDER BY i.id DESC LIMIT %(limit)s
            """,  # noqa: S608 - constants
            values,
        )
        found = cursor.fetchall()
    return tuple(_row(row) for row in found), found[0][6] if found else 0


def _row(row: Sequence[Any]) -> IncidentRow:
    kind, detail, host, run_id, sequence, at, _ = row
    return IncidentRow(
        kind=kind.replace("_", "-"),
        text=in_words(kind, json.loads(detail)),
        host=host,
        run_id=None if run_id is None else original(run_id),
        sequence=sequence,
        at=at,
    )


def in_words(kind: str, detail: dict[str, Any]) -> str:
    """One sentence: what was seen, and what was done about it."""
    match kind:
        case Incident.Kind.CHANGED_EVENT:
            return "A known event came again with other content. The first is shown, the second is kept beside it."
        case Incident.Kind.CONTENT_LEAK:
            return (
                f"Memory content in {detail.get('path', 'an event')} ({detail.get('bytes', 0):,} bytes)."
                " It was withheld: only its digest and length were stored."
            )
        case Incident.Kind.CREDENTIAL_LEAK:
            return (
                f"A bearer credential in {detail.get('path', 'an event')}."
                " It was withheld: only its digest and length were stored."
            )
        case Incident.Kind.CONFLICTING_MEMBERS:
            spelled = {"seq_conflict": "sequence and seq", "data_conflict": "payload and data"}
            pair = spelled.get(str(detail.get("note")), "Two spellings of one member")
            return f"{pair} disagree; the protocol's own spelling was taken."
        case Incident.Kind.FOREIGN_RUN:
            return "An event of another run came in this run's stream. It was refused."
    return Incident.Kind(kind).label if kind in Incident.Kind.values else kind
