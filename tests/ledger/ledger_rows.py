"""The whole ledger of a tenant as plain values, by the protocol's ids instead of our numbers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from ledger.models import MemoryEntry, MemoryScope, MemoryWrite, Merge, MergeSource, TaggedSource
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.models import Host, Run

Rows = dict[str, list[tuple[Any, ...]]]


def ledger_rows(tenant: Tenant, *, host: Host | None = None) -> Rows:
    """Of all hosts, or as one host's rows would look if it were the only one."""
    with tenant_scope(tenant.pk):
        only = {} if host is None else {"host_id": host.pk}
        runs = {run.pk: run.run_id for run in Run.objects.filter(tenant_id=tenant.pk, **only)}
        entries = list(MemoryEntry.objects.filter(tenant_id=tenant.pk, **only))
        names = {entry.id: (entry.memory_ref, entry.memory_id) for entry in entries}
        scopes = MemoryScope.objects.filter(tenant_id=tenant.pk, **only)
        writes = MemoryWrite.objects.filter(tenant_id=tenant.pk, run_id__in=runs)
        merges = Merge.objects.filter(tenant_id=tenant.pk, run_id__in=runs)
        sources = MergeSource.objects.filter(tenant_id=tenant.pk, run_id__in=runs)
        tagged = TaggedSource.objects.filter(tenant_id=tenant.pk, run_id__in=runs)
        return {
            "scopes": sorted((one.memory_ref, one.entry_count) for one in scopes),
            "entries": sorted(
                (
                    *names[one.id],
                    one.write_count,
                    one.attributed_count,
                    one.first_at,
                    one.last_at,
                    runs[one.last_run_id] if one.last_run_id is not None else None,
                    one.last_sequence,
                )
                for one in entries
            ),
            "writes": sorted(
                (
                    runs[one.run_id],
                    one.sequence,
                    _named(names, one.entry_id),
                    one.node_id,
                    one.agent_id,
                    tuple(one.tags),
                    one.occurred_at,
                )
                for one in writes
            ),
            "merges": sorted(
                (
                    runs[one.run_id],
                    one.sequence,
                    one.kind,
                    one.memory_ref,
                    _named(names, one.output_id),
                    one.source_count,
                    one.output_count,
                    one.byte_size,
                    one.trigger,
                    one.sources_named,
                    one.occurred_at,
                )
                for one in merges
            ),
            "sources": sorted((runs[one.run_id], one.sequence, names[one.entry_id]) for one in sources),
            # An entry that only a tag names need not exist.
            "tagged": sorted((runs[one.run_id], one.sequence, _named(names, one.entry_id)) for one in tagged),
        }


def _named(names: dict[UUID, tuple[str, str]], entry: UUID | None) -> tuple[str, ...]:
    return () if entry is None else names.get(entry, ("unknown",))
