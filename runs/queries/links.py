"""What in a run led to what: causes, tool calls and returns, questions and answers, dispatches and children."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import numpy as np
from django.db import connection

from ..domain.columns import Columns
from ..domain.storable import original, storable
from ..domain.summary import payload_of

LinkKind = Literal["cause", "call", "answer", "resume", "dispatch"]

READ = 64 * 1024
"""Bodies up to so many bytes are read for the ids in them."""
WITHIN = 2_000
"""The other end of a link is looked for among so many events on either side."""
MOST = 400

_CALLED, _RETURNED = "agent.toolCalled", "agent.toolReturned"
_ASKED = ("approval.requested", "clarification.requested", "interrupt.requested")
_ANSWERED = (
    *("approval.received", "approval.granted", "approval.rejected", "approval.overridden"),
    *("clarification.resolved", "interrupt.resolved", "node.interrupt.resolved"),
)
_SUSPENDED, _RESUMED = ("node.suspended", "run.paused"), ("node.resumed", "run.resumed")
_DISPATCHED = ("node.dispatched", "core.dispatch.fanOut")
_JOINED = ("core.dispatch.join",)
_WITH_ID = (_CALLED, _RETURNED, *_DISPATCHED, *_JOINED, "node.completed", *_ASKED, *_ANSWERED)


@dataclass(frozen=True, slots=True)
class Linked:
    """An event as far as links need it."""

    sequence: int
    type: str
    node: str | None
    event_id: str | None
    causation_id: str | None
    at: datetime
    body: str | None


@dataclass(frozen=True, slots=True)
class Link:
    """From the earlier to the later event."""

    start: int
    end: int
    kind: LinkKind


def links_between(events: Sequence[Linked]) -> list[Link]:
    """All links of which both ends are among ``events``, which ascend by sequence."""
    found: dict[tuple[int, int], Link] = {}
    ids: dict[str, int] = {}
    calls: dict[str, int] = {}
    waiting: dict[tuple[str, str | None], int] = {}
    for event in events:
        for kind, start in _leading_to(event, ids, calls, waiting):
            found.setdefault((start, event.sequence), Link(start, event.sequence, kind))
        if event.event_id:
            ids.setdefault(event.event_id, event.sequence)
    return list(found.values())[:MOST]


def _leading_to(
    event: Linked, ids: dict[str, int], calls: dict[str, int], waiting: dict[tuple[str, str | None], int]
) -> Iterable[tuple[LinkKind, int]]:
    if event.type in (_CALLED, _RETURNED):
        call = _member(event, "callId")
        if call and event.type == _CALLED:
            calls[call] = event.sequence
        elif call in calls:
            yield "call", calls[call]
    pairs: tuple[tuple[LinkKind, tuple[str, ...], tuple[str, ...]], ...] = (
        ("answer", _ASKED, _ANSWERED),
        ("resume", _SUSPENDED, _RESUMED),
        ("dispatch", _DISPATCHED, (*_JOINED, "node.completed")),
    )
    for kind, opens, closes in pairs:
        if event.type in opens:
            waiting[kind, event.node] = event.sequence
        elif event.type in closes and (kind, event.node) in waiting:
            yield kind, waiting.pop((kind, event.node))
    if event.causation_id and event.causation_id in ids:
        yield "cause", ids[event.causation_id]


def _member(event: Linked, name: str) -> str:
    payload = payload_of(event.body) if event.body else None
    value = payload.get(name) if isinstance(payload, dict) else None
    return value if isinstance(value, str) else ""


_COLUMNS = f"""
    e.sequence, e.type, e.node_id, e.event_id, e.causation_id, e.occurred_at,
    CASE WHEN e.type = ANY (%(with_id)s) AND octet_length(e.body) <= {READ} THEN e.body END
"""


def linked(tenant_id: int, run: int, sequences: Sequence[int]) -> list[Linked]:
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {_COLUMNS} FROM runs_event e WHERE e.tenant_id = %(tenant)s AND e.run_id = %(run)s"  # noqa: S608
            " AND e.sequence = ANY (%(sequences)s) ORDER BY e.sequence",
            {"tenant": tenant_id, "run": run, "sequences": list(sequences), "with_id": list(_WITH_ID)},
        )
        return [Linked(*row) for row in cursor.fetchall()]


def event_links(tenant_id: int, run: int, sequence: int) -> dict[str, Any]:
    """An event and the links that it begins or ends, with others near it, as the timeline takes them."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            WITH one AS (SELECT node_id, event_id, causation_id FROM runs_event
                WHERE tenant_id = %(tenant)s AND run_id = %(run)s AND sequence = %(sequence)s)
            SELECT {_COLUMNS} FROM runs_event e, one
            WHERE e.tenant_id = %(tenant)s AND e.run_id = %(run)s
                AND e.sequence BETWEEN %(sequence)s - {WITHIN} AND %(sequence)s + {WITHIN}
                AND (e.sequence = %(sequence)s OR e.event_id = one.causation_id OR e.causation_id = one.event_id
                    OR e.type = ANY (%(with_id)s) AND e.node_id IS NOT DISTINCT FROM one.node_id
                    OR e.type = ANY (%(pauses)s) AND e.node_id IS NOT DISTINCT FROM one.node_id)
            ORDER BY e.sequence
            """,  # noqa: S608 - constants
            {
                "tenant": tenant_id,
                "run": run,
                "sequence": sequence,
                "with_id": list(_WITH_ID),
                "pauses": [*_SUSPENDED, *_RESUMED],
            },
        )
        near = [Linked(*row) for row in cursor.fetchall()]
    ends = {event.sequence: _end(event) for event in near}
    links = [
        {"kind": link.kind, "from": ends[link.start], "to": ends[link.end]}
        for link in links_between(near)
        if sequence in (link.start, link.end)
    ]
    return {"event": ends.get(sequence), "links": links}


def _end(event: Linked) -> dict[str, Any]:
    at = event.at.isoformat().replace("+00:00", "Z")
    return {"sequence": event.sequence, "node": None if event.node is None else original(event.node), "at": at}


def as_json(links: Iterable[Link]) -> list[list[Any]]:
    return [[link.start, link.end, link.kind] for link in links]


@dataclass(frozen=True, slots=True)
class Child:
    """A run that this one started: by which node, at which event; ``node`` and ``sequence`` are None where untold."""

    run_id: str
    workflow: str
    status: str
    terminal: bool
    started_at: Any
    ended_at: Any
    events: int
    node: str | None
    sequence: int | None


MOST_CHILDREN = 200
MOST_OUTCOMES = 2_000
"""So many outcomes of nodes are looked through for a child's id, after the dispatches."""


def children(tenant_id: int, run: int, run_id: str, columns: Columns) -> list[Child]:
    """The sub-workflow runs of a run, in the order in which it started them."""
    named = columns.once("dispatches", lambda: _dispatches(tenant_id, run, columns))
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT c.run_id, c.workflow_id, c.status, c.status_is_terminal, c.started_at, c.ended_at, c.event_count
            FROM runs_run p JOIN runs_run c ON c.tenant_id = p.tenant_id AND c.host_id = p.host_id
                AND (c.run_id = ANY (%s) OR c.parent_run_id = p.run_id AND c.relation IN ('child', ''))
            WHERE p.tenant_id = %s AND p.id = %s AND c.id <> p.id ORDER BY c.started_at, c.id LIMIT %s
            """,
            [list(named), tenant_id, run, MOST_CHILDREN],
        )
        return [
            Child(original(key), original(workflow), *told, *named.get(key, (None, None)))
            for key, workflow, *told in cursor.fetchall()
        ]


def _dispatches(tenant_id: int, run: int, columns: Columns) -> dict[str, tuple[str | None, int]]:
    """Stored run ids that events name as children, with the node and the sequence."""
    sequences = [
        *_sequences(columns, _DISPATCHED)[:MOST_CHILDREN],
        *_sequences(columns, ("node.completed",))[:MOST_OUTCOMES],
    ]
    if not sequences:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT e.sequence, e.node_id, e.body FROM runs_event e
            WHERE e.tenant_id = %s AND e.run_id = %s AND e.sequence = ANY (%s) AND octet_length(e.body) <= {READ}
                AND e.body LIKE '%%hildRun%%' ORDER BY e.sequence LIMIT %s
            """,  # noqa: S608 - constants
            [tenant_id, run, sequences, MOST_CHILDREN],
        )
        found = cursor.fetchall()
    named: dict[str, tuple[str | None, int]] = {}
    for sequence, node, body in found:
        for child in _child_runs(payload_of(body)):
            named.setdefault(storable(child), (node and original(node), sequence))
    return named


def _sequences(columns: Columns, types: Collection[str]) -> list[int]:
    known = [place for place, (name, _) in enumerate(columns.type_names) if name in types]
    found: list[int] = columns.sequences[np.isin(columns.types, known)].tolist() if known else []
    return found


def _child_runs(payload: Any) -> Iterable[str]:
    if not isinstance(payload, dict):
        return
    for told in (payload, payload.get("outputs"), payload.get("output")):
        if isinstance(told, dict):
            one, several = told.get("childRunId"), told.get("childRunIds")
            yield from [one] if isinstance(one, str) else []
            yield from (each for each in several if isinstance(each, str)) if isinstance(several, list) else ()
