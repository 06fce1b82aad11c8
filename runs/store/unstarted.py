"""Runs that are there although nobody here began them: forks that were not asked for, and runs of another tenant."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from openwop_ui.live.announce import announce

from ..domain.projection import project
from ..domain.storable import original
from ..models import Incident
from .hosts import HostRef
from .incidents import Found, keep_incidents

PATIENCE = timedelta(seconds=30)
"""A fork that was asked for here may be seen on the host before its answer has been read."""
RECENT = timedelta(minutes=10)
MOST = 50

_FORKS = """
SELECT r.id, r.run_id, r.last_sequence, r.parent_run_id FROM runs_run r
LEFT JOIN runs_follow f ON f.tenant_id = r.tenant_id AND f.host_id = r.host_id AND f.run_id = r.run_id
WHERE r.tenant_id = %(tenant)s AND r.host_id = %(host)s AND r.last_received_at > %(recent)s
    AND r.first_received_at < %(patient)s AND r.relation IN ('replay', 'branch', 'fork')
    AND NOT coalesce(f.asked_here, false)
    AND runs_run_named(r.tenant_id, r.host_id, r.parent_run_id) IS NOT NULL
"""
_BOUND_ELSEWHERE = """
SELECT r.id, r.run_id, r.last_sequence, '' FROM runs_run r
WHERE r.tenant_id = %(tenant)s AND r.host_id = %(host)s AND r.last_received_at > %(recent)s
    AND r.run_id ~ '^[^/]+/[^/]+$' AND split_part(r.run_id, '/', 1) <> (
        SELECT split_part(first.run_id, '/', 1) FROM runs_run first
        WHERE first.tenant_id = r.tenant_id AND first.host_id = r.host_id AND first.run_id ~ '^[^/]+/[^/]+$'
        ORDER BY first.id LIMIT 1)
"""
_UNNOTICED = """
    AND NOT EXISTS (SELECT FROM runs_incident i
        WHERE i.tenant_id = r.tenant_id AND i.run_id = r.id AND i.kind = %(kind)s)
ORDER BY r.id LIMIT %(most)s
"""


def notice_unstarted(host: HostRef, *, now: datetime) -> None:
    """Keeps an incident of each such run that has lately received something, once. To be called within the tenant's
    scope."""
    found: list[Found] = []
    topics: dict[str, int | None] = {}
    for run, run_id, last_sequence, source in _unnoticed(host, now):
        detail = {"source": original(source)} if source else {}
        found.append(Found(host.id, run, original(run_id), Incident.Kind.UNSTARTED_RUN, None, detail, identity="run"))
        topics[f"run:{host.slug}/{project(original(run_id))}"] = last_sequence
    if found:
        keep_incidents(host.tenant_id, found, noticed_at=now)
        announce(host.tenant_id, {"hosts": None, "runs": None} | topics)


def _unnoticed(host: HostRef, now: datetime) -> Iterator[tuple[int, str, int, str]]:
    values: dict[str, Any] = {
        "tenant": host.tenant_id,
        "host": host.id,
        "recent": now - RECENT,
        "patient": now - PATIENCE,
        "kind": Incident.Kind.UNSTARTED_RUN,
        "most": MOST,
    }
    with connection.cursor() as cursor:
        for question in (_FORKS, _BOUND_ELSEWHERE):
            cursor.execute(question + _UNNOTICED, values)
            yield from cursor.fetchall()
