"""Keeps the memory entries that debug bundles hold as what was seen of them when the bundle was made."""

from __future__ import annotations

from datetime import datetime

from django.db import connection
from django.utils import timezone

from openwop_ui.tenancy.scope import tenant_scope
from runs.bundle_memory import listen
from runs.domain.bundle_memory import FoundEntry
from runs.domain.storable import original
from runs.domain.summary import payload_of
from runs.store import HostRef
from runs.store.aliases import run_named

from .domain.observing import Sight
from .domain.reading import LONGEST_ADDRESS
from .observations import Look, Source, observe


def observe_found(host: HostRef, run_id: str, found: tuple[FoundEntry, ...], made_at: datetime | None) -> None:
    """An entry whose ref the bundle does not tell is one that the run has written, or it is not kept."""
    written = _written_by(host, run_id) if any(one.memory_ref is None for one in found) else {}
    looks = [
        Look(ref, one.entry.id, Sight.of(one.entry))
        for one in found
        if (ref := one.memory_ref or written.get(one.entry.id)) and len(ref) <= LONGEST_ADDRESS
    ]
    if looks:
        now = timezone.now()
        observe(
            tenant_id=host.tenant_id,
            host_id=host.id,
            looks=looks,
            source=Source.IMPORT,
            at=min(made_at, now) if made_at else now,
        )


def _written_by(host: HostRef, run_id: str) -> dict[str, str]:
    """The refs of a run's memory ids, by its announcements."""
    refs: dict[str, str] = {}
    with tenant_scope(host.tenant_id), connection.cursor() as cursor:
        cursor.execute(
            "SELECT body FROM runs_event"
            " WHERE tenant_id = %s AND run_id = %s AND type = 'memory.written' AND has_payload",
            [host.tenant_id, run_named(host.tenant_id, host.id, run_id)],
        )
        for (body,) in cursor.fetchall():
            payload = payload_of(body)
            if isinstance(payload, dict):
                ref, memory_id = payload.get("memoryRef"), payload.get("memoryId")
                if isinstance(ref, str) and isinstance(memory_id, str):
                    refs[original(memory_id)] = original(ref)
    return refs


listen(observe_found)
