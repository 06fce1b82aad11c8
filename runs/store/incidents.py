"""Incidents: each kept once, however often it is found again.

An incident is never deleted. Where the log has since been completed, so that what was noticed holds no longer, its
detail gets a `closed_at` (ISO 8601), and loses it again should it hold after all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from django.db import connection
from django.utils import timezone

from openwop_ui.live.announce import announce
from openwop_ui.tenancy.scope import tenant_scope

from ..domain.projection import project
from ..domain.storable import original, storable
from ..models import Incident, Run
from .aliases import run_named
from .hosts import HostRef
from .receipt import Noticed

CLOSED = "closed_at"

_NAMESPACE = UUID("5c3f1b0a-5d55-4c0e-9f0e-3a6a8a3f9f6d")


@dataclass(frozen=True, slots=True)
class Found:
    """A contradiction as it was found. ``run`` is the run's primary key, None while it has no row.

    ``identity`` tells it from others of its kind at its place; "" lets the whole detail do so.
    """

    host: int
    run: int | None
    run_id: str
    kind: Incident.Kind
    sequence: int | None
    detail: Mapping[str, Any]
    identity: str = ""

    @property
    def fingerprint(self) -> UUID:
        what = storable(self.identity) or sorted(self.detail.items())
        return uuid5(_NAMESPACE, f"{self.host} {self.run} {self.sequence} {self.kind} {what}")

    @property
    def stored_detail(self) -> dict[str, Any]:
        return {name: storable(value) if isinstance(value, str) else value for name, value in self.detail.items()}


def keep_incidents(tenant_id: int, found: Iterable[Found], *, noticed_at: datetime) -> list[Noticed]:
    """Stores what is not stored yet, and opens again what was closed. To be called within the tenant's scope."""
    all_found = list(found)
    if not all_found:
        return []
    rows = [
        Incident(
            tenant_id=tenant_id,
            host_id=one.host,
            run_id=one.run,
            sequence=one.sequence,
            kind=one.kind,
            detail=one.stored_detail,
            fingerprint=one.fingerprint,
            noticed_at=noticed_at,
        )
        for one in all_found
    ]
    Incident.objects.bulk_create(rows, ignore_conflicts=True, batch_size=1000)
    _open_again(tenant_id, [row.fingerprint for row in rows])
    _mark_leaking(tenant_id, {one.host for one in all_found if one.kind == Incident.Kind.CONTENT_LEAK}, noticed_at)
    return [Noticed(str(one.kind), one.run_id, one.sequence, str(one.kind.label)) for one in all_found]


def notice(host: HostRef, run_id: str, kind: Incident.Kind, *, noticed_at: datetime | None = None) -> None:
    """Keeps an incident of a run as a whole that shows beside its log, in a transaction of its own."""
    with tenant_scope(host.tenant_id, durable=True):
        key = run_named(host.tenant_id, host.id, run_id)
        run = None if key is None else Run.objects.filter(tenant_id=host.tenant_id, pk=key).first()
        detail = {} if run else {"run": run_id}
        found = Found(host.id, run.pk if run else None, run_id, kind, None, detail, identity=run_id)
        keep_incidents(host.tenant_id, [found], noticed_at=noticed_at or timezone.now())
        topics: dict[str, int | None] = {"hosts": None, "runs": None}
        if run:
            topics[f"run:{host.slug}/{project(original(run.run_id))}"] = run.last_sequence
        announce(host.tenant_id, topics)


def _open_again(tenant_id: int, fingerprints: list[UUID]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE runs_incident SET detail = detail - %s"
            " WHERE tenant_id = %s AND fingerprint = ANY (%s) AND jsonb_exists(detail, %s)",
            [CLOSED, tenant_id, fingerprints, CLOSED],
        )


def _mark_leaking(tenant_id: int, hosts: set[int], at: datetime) -> None:
    if not hosts:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE runs_host SET leaking_since = %s WHERE tenant_id = %s AND id = ANY (%s) AND leaking_since IS NULL",
            [at, tenant_id, list(hosts)],
        )
