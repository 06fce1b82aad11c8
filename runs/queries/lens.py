"""The capability lens: what a host claims, and what its log shows, each verdict with what it rests on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from ..domain.attribution import (
    Evidence,
    Fact,
    ForkPair,
    ShownWrite,
    Verdict,
    Writes,
    classify,
    compare_fork,
    unannounced,
)
from ..domain.capabilities import Capabilities, Change, changes, read_capabilities
from ..domain.copies import labels_of
from ..domain.memory_read import REDACTED
from ..domain.storable import original
from ..domain.summary import payload_of
from ..models import HostDocument
from .bodies import WHOLE

WRITES_READ = 5_000
"""So many of the newest memory events are read for a verdict; the counts say so."""
FORKS_READ = 20
HISTORY = 20


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """A document that differed from the one before it, and how. ``before`` is None for the first one."""

    read_at: datetime
    seen_at: datetime
    changes: tuple[Change, ...] | None


@dataclass(frozen=True, slots=True)
class Completeness:
    """How much of the host's logs is here. ``missing`` sequences lie between stored ones."""

    runs: int
    complete: int
    missing: int
    partial: int
    truncated: int

    @property
    def percent(self) -> int | None:
        return self.complete * 100 // self.runs if self.runs else None


@dataclass(frozen=True, slots=True)
class Lens:
    capabilities: Capabilities | None
    history: tuple[DocumentChange, ...]
    evidence: Evidence
    verdict: Verdict
    read: int
    completeness: Completeness


def lens(tenant_id: int, host_id: int) -> Lens:
    """Reads the newest document and the newest memory events of one host."""
    documents = list(HostDocument.objects.filter(tenant_id=tenant_id, host_id=host_id).order_by("-id")[: HISTORY + 1])
    readings = [read_capabilities(json.loads(one.body)) for one in documents]
    capabilities = readings[0] if readings else None
    events = _memory_events(tenant_id, host_id)
    evidence = Evidence(
        claim=capabilities.claims_attribution if capabilities else None,
        runs_read=_runs_read(tenant_id, host_id),
        writes=_with_leaks(_writes(events), tenant_id, host_id),
        forks=_forks(tenant_id, host_id),
        **_shown(events),
    )
    return Lens(
        capabilities=capabilities,
        history=_history(documents, readings),
        evidence=evidence,
        verdict=classify(evidence),
        read=len(events),
        completeness=_completeness(tenant_id, host_id),
    )


def _history(documents: Sequence[HostDocument], readings: Sequence[Capabilities]) -> tuple[DocumentChange, ...]:
    told = []
    for place, document in enumerate(documents[:HISTORY]):
        before = readings[place + 1] if place + 1 < len(readings) else None
        differs = tuple(changes(before, readings[place])) if before else None
        told.append(DocumentChange(document.read_at, document.seen_at, differs))
    return tuple(told)


@dataclass(frozen=True, slots=True)
class _MemoryEvent:
    run: str
    type: str
    node: str | None
    agent: str | None
    has_payload: bool
    said: Mapping[str, Any]


def _memory_events(tenant_id: int, host_id: int) -> list[_MemoryEvent]:
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT r.run_id, e.type, e.node_id, e.agent_id, e.has_payload, e.body, {WHOLE}
            FROM (SELECT id, run_id FROM runs_run WHERE tenant_id = %(tenant)s AND host_id = %(host)s
                    AND write_count > 0 ORDER BY id DESC LIMIT 500) r
            JOIN runs_event e ON e.tenant_id = %(tenant)s AND e.run_id = r.id
                AND e.type IN ('memory.written', 'memory.compacted', 'agent.memory.consolidated')
            ORDER BY r.id DESC, e.sequence LIMIT %(most)s
            """,  # noqa: S608 - a constant
            {"tenant": tenant_id, "host": host_id, "most": WRITES_READ},
        )
        return [
            _MemoryEvent(
                run=original(run),
                type=type_,
                node=node or (None if whole == body else labels_of(whole)[2]),
                agent=agent,
                has_payload=has_payload or whole != body,
                said=_object(whole),
            )
            for run, type_, node, agent, has_payload, body, whole in cursor.fetchall()
        ]


def _object(body: str) -> Mapping[str, Any]:
    payload = payload_of(body)
    return payload if isinstance(payload, dict) else {}


def _writes(events: Sequence[_MemoryEvent]) -> Writes:
    return sum((_counted(event) for event in events if event.type == "memory.written"), Writes())


def _counted(event: _MemoryEvent) -> Writes:
    if not event.has_payload:
        return Writes(stubs=1)
    ids = [event.said.get(name) for name in ("memoryRef", "memoryId")]
    if any(one in (None, "") or (isinstance(one, str) and REDACTED.search(one)) for one in ids):
        return Writes(redacted=1)
    if not all(isinstance(one, str) for one in ids):
        return Writes(invalid=1)
    return Writes(valid=1, with_node=event.node is not None, with_agent=event.agent is not None)


def _with_leaks(writes: Writes, tenant_id: int, host_id: int) -> Writes:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM runs_incident WHERE tenant_id = %s AND host_id = %s AND kind = 'content_leak'",
            [tenant_id, host_id],
        )
        row = cursor.fetchone()
    return writes + Writes(leaks=row[0] if row else 0)


def _shown(events: Sequence[_MemoryEvent]) -> dict[str, int]:
    """Writes that a compaction shows, in the runs that were read."""
    shown = [
        ShownWrite("compaction", event.run, event.said.get("memoryRef"), source)
        for event in events
        if event.type == "memory.compacted" and isinstance(event.said.get("sourceIds"), list)
        for source in event.said["sourceIds"]
        if isinstance(source, str)
    ]
    announced = {
        (event.said["memoryRef"], event.said["memoryId"])
        for event in events
        if event.type == "memory.written"
        and isinstance(event.said.get("memoryRef"), str)
        and isinstance(event.said.get("memoryId"), str)
    }
    return {"independent": len(shown), "unannounced": len(unannounced(shown, announced))}


def _runs_read(tenant_id: int, host_id: int) -> int:
    """Ended runs whose log has no gap and was followed: followers read in debug mode. What was pushed or uploaded may
    have come from another mode, so it counts for nothing here.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT count(*) FROM runs_run r
            JOIN runs_follow f ON f.tenant_id = r.tenant_id AND f.host_id = r.host_id AND f.run_id = r.run_id
            WHERE r.tenant_id = %s AND r.host_id = %s AND r.status = 'completed'
                AND r.contiguous_through = r.last_sequence
            """,
            [tenant_id, host_id],
        )
        row = cursor.fetchone()
    return row[0] if row else 0


def _forks(tenant_id: int, host_id: int) -> tuple[ForkPair, ...]:
    """Forks that a snapshot or bundle names as such, with their sources."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT f.id, s.id, f.relation, coalesce(f.parent_sequence, 0),
                f.contiguous_through = f.last_sequence AND f.status_is_terminal
                    AND s.contiguous_through = s.last_sequence AND s.status_is_terminal
            FROM runs_run f
            JOIN runs_run s ON s.tenant_id = f.tenant_id AND s.host_id = f.host_id AND s.run_id = f.parent_run_id
            WHERE f.tenant_id = %s AND f.host_id = %s AND f.relation IN ('replay', 'branch')
            ORDER BY f.id DESC LIMIT %s
            """,
            [tenant_id, host_id, FORKS_READ],
        )
        pairs = cursor.fetchall()
    facts = _facts(tenant_id, {run for pair in pairs for run in pair[:2]})
    return tuple(
        compare_fork(facts.get(source, []), facts.get(fork, []), mode=mode, from_sequence=start, is_complete=whole)
        for fork, source, mode, start, whole in pairs
    )


def _facts(tenant_id: int, runs: set[int]) -> dict[int, list[Fact]]:
    if not runs:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT e.run_id, e.sequence, e.type, e.node_id, {WHOLE} FROM runs_event e"  # noqa: S608 - a constant
            " WHERE e.tenant_id = %s AND e.run_id = ANY (%s)"
            " AND type IN ('memory.written', 'agent.memory.consolidated')"
            " AND type IN ('memory.written', 'memory.compacted', 'agent.memory.consolidated')"
            " ORDER BY run_id, sequence",
            [tenant_id, sorted(runs)],
        )
        found = cursor.fetchall()
    facts: dict[int, list[Fact]] = {}
    for run, sequence, type_, node, body in found:
        said = _object(body)
        ref, memory_id = said.get("memoryRef"), said.get("memoryId")
        facts.setdefault(run, []).append(
            Fact(
                sequence,
                type_,
                node,
                ref if isinstance(ref, str) else None,
                memory_id if isinstance(memory_id, str) else None,
            )
        )
    return facts


def _completeness(tenant_id: int, host_id: int) -> Completeness:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT count(*), count(*) FILTER (WHERE contiguous_through = last_sequence),
                coalesce(sum(last_sequence - first_sequence + 1 - event_count), 0),
                count(*) FILTER (WHERE truncated <> '')
            FROM runs_run WHERE tenant_id = %s AND host_id = %s
            """,
            [tenant_id, host_id],
        )
        runs, complete, missing, truncated = cursor.fetchone() or (0, 0, 0, 0)
        cursor.execute(
            """
            SELECT count(*) FROM runs_event e JOIN runs_run r ON r.tenant_id = e.tenant_id AND r.id = e.run_id
            WHERE e.tenant_id = %s AND r.host_id = %s AND NOT e.has_payload AND NOT EXISTS (
                SELECT FROM runs_eventcopy c WHERE c.tenant_id = e.tenant_id AND c.run_id = e.run_id
                    AND c.sequence = e.sequence AND c.kind = 'completion')
            """,
            [tenant_id, host_id],
        )
        row = cursor.fetchone()
    return Completeness(
        runs=runs, complete=complete, missing=int(missing), partial=row[0] if row else 0, truncated=truncated
    )
