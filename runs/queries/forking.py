"""What a fork of a run is about: its host, and what the source did from a sequence on."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

from django.db import connection

from ..domain.capabilities import NotADiscoveryDocument, read_capabilities
from ..domain.forking import SideEffects
from ..domain.summary import payload_of
from ..models import Host, HostDocument
from .bodies import WHOLE

COUNTED = 100_000
TOOLS_READ = 200
TOOLS_NAMED = 6
READ = 64 * 1024

_COUNTED_AS = {
    "agent.toolCalled": "tool_calls",
    "memory.written": "writes",
    "memory.compacted": "merges",
    "agent.memory.consolidated": "merges",
    "node.dispatched": "child_runs",
    "core.dispatch.fanOut": "child_runs",
    "approval.requested": "questions",
    "clarification.requested": "questions",
    "interrupt.requested": "questions",
    "node.started": "nodes",
}


def side_effects(tenant_id: int, run: int, sequence: int) -> SideEffects:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT type, count(*), sum(count(*)) OVER () FROM (
                SELECT type FROM runs_event WHERE tenant_id = %(tenant)s AND run_id = %(run)s
                    AND sequence >= %(sequence)s ORDER BY sequence LIMIT %(most)s) AS seen GROUP BY type
            """,
            {"tenant": tenant_id, "run": run, "sequence": sequence, "most": COUNTED + 1},
        )
        found = cursor.fetchall()
    counts: Counter[str] = Counter()
    for type_, count, _ in found:
        if type_ in _COUNTED_AS:
            counts[_COUNTED_AS[type_]] += count
    tools = _tools(tenant_id, run, sequence) if counts["tool_calls"] else ()
    return SideEffects(**counts, tools=tools, is_cut=bool(found and found[0][2] > COUNTED))


def _tools(tenant_id: int, run: int, sequence: int) -> tuple[str, ...]:
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {WHOLE} FROM runs_event e WHERE e.tenant_id = %s AND e.run_id = %s AND e.sequence >= %s"  # noqa: S608
            " AND e.type = 'agent.toolCalled' AND octet_length(e.body) <= %s ORDER BY e.sequence LIMIT %s",
            [tenant_id, run, sequence, READ, TOOLS_READ],
        )
        payloads = [payload_of(body) for (body,) in cursor.fetchall()]
    names = Counter(
        name
        for payload in payloads
        if isinstance(payload, dict) and isinstance(name := payload.get("toolName"), str) and name
    )
    return tuple(name for name, _ in names.most_common(TOOLS_NAMED))


@dataclass(frozen=True, slots=True)
class ForkHost:
    """``modes`` are those that its discovery document tells; None where no document says anything about it."""

    host: Host
    modes: tuple[str, ...] | None

    @property
    def has_credential(self) -> bool:
        return bool(self.host.sealed_credential)


def fork_host(tenant_id: int, slug: str) -> ForkHost | None:
    host = Host.objects.filter(tenant_id=tenant_id, slug=slug).first()
    if host is None:
        return None
    newest = HostDocument.objects.filter(tenant_id=tenant_id, host_id=host.pk).order_by("-id").first()
    return ForkHost(host, _modes(newest))


def _modes(document: HostDocument | None) -> tuple[str, ...] | None:
    if document is None:
        return None
    try:
        told = read_capabilities(json.loads(document.body))
    except (ValueError, NotADiscoveryDocument):
        return None
    return told.fork_modes or None
