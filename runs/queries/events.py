"""The log of one run: pages of it, and rows of it by sequence. One event in full is read by ``event``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from ..domain.columns import BOOKKEEPING, FAILURES
from ..domain.describe import KIND_PREFIXES, KINDS, Kind, detail_of, kind_of, outcome_of
from ..domain.storable import original, storable
from ..domain.summary import payload_of
from ..store.columns import FAILED_CALL
from .bodies import WHOLE
from .rows import Option
from .runs import like

PAGE = 200
DESCRIBED = 64 * 1024
"""Bodies up to so many bytes are read for the one line that a list shows of them."""


@dataclass(frozen=True, slots=True)
class EventFilter:
    """What the events of a run are narrowed to; "" means any."""

    node: str = ""
    type: str = ""
    kind: str = ""
    q: str = ""
    show: str = ""
    """relevant, memory or errors (``domain.columns.Meaning``)."""

    @property
    def is_empty(self) -> bool:
        return not (self.node or self.type or self.kind or self.q or self.show)

    def where(self) -> tuple[str, dict[str, Any]]:
        """Conditions on an event ``e``, and their values but for those of ``tenant`` and ``run``."""
        conditions = []
        if self.node:
            conditions.append("e.node_id = %(node)s")
        if self.type:
            conditions.append("e.type = %(type)s")
        if self.kind:
            conditions.append(_of_kind(self.kind))
        if self.show:
            conditions.append(_of_show(self.show))
        if self.q:
            # The stored text has the ids, the agent and the payload; the columns have what a host named elsewhere.
            conditions.append(
                "(e.body ILIKE %(like)s OR e.node_id ILIKE %(like)s OR e.type ILIKE %(like)s"
                " OR e.agent_id ILIKE %(like)s OR e.sequence IN (SELECT c.sequence FROM runs_eventcopy c"
                " WHERE c.tenant_id = %(tenant)s AND c.run_id = %(run)s AND c.kind = 'completion'"
                " AND c.body ILIKE %(like)s))"
            )
        return " AND ".join(conditions) or "true", {
            "node": storable(self.node),
            "type": storable(self.type),
            "like": like(self.q),
        }


def _matches(prefixes: Sequence[str]) -> str:
    # Constants of our own without quotes; starts_with() has no pattern characters to escape.
    return "(" + " OR ".join(f"starts_with(e.type, '{prefix}')" for prefix in prefixes) + ")"


def _of_kind(kind: str) -> str:
    """The SQL of ``describe.kind_of``: the first kind that matches is the event's."""
    if kind not in KINDS:
        return "false"
    earlier: list[tuple[str, ...]] = []
    for name, prefixes in KIND_PREFIXES.items():
        if name == kind:
            return " AND ".join([_matches(prefixes), *(f"NOT {_matches(one)}" for one in earlier)])
        earlier.append(prefixes)
    return " AND ".join(f"NOT {_matches(one)}" for one in earlier)


def _of_show(show: str) -> str:
    """The SQL of what ``domain.columns.meaning_of`` says of a type."""
    if show == "memory":
        return _of_kind("memory")
    if show == "relevant":
        return f"NOT {_matches(BOOKKEEPING)}"
    if show == "errors":
        endings = " OR ".join(f"right(e.type, {len(ending)}) = '{ending}'" for ending in FAILURES)
        return f"({endings} OR {FAILED_CALL})"
    return "false"


@dataclass(frozen=True, slots=True)
class EventRow:
    """One line of a log. ``backwards``: its time lies before that of the event in front of it."""

    sequence: int
    type: str
    kind: Kind
    node: str | None
    agent: str | None
    timestamp: datetime
    detail: str
    status: str
    memory_id: str | None
    backwards: bool
    leaks: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EventsPage:
    """Ascending by sequence. ``after`` is None where the matches end."""

    events: tuple[EventRow, ...]
    after: int | None


_ROW = f"""
    e.sequence, e.type, e.node_id, e.agent_id, e.occurred_at,
    (SELECT w.body FROM (SELECT {WHOLE} AS body) w WHERE octet_length(w.body) <= %(described)s),
    (SELECT p.occurred_at > e.occurred_at FROM runs_event p
        WHERE p.tenant_id = e.tenant_id AND p.run_id = e.run_id AND p.sequence < e.sequence
        ORDER BY p.sequence DESC LIMIT 1)
"""


def events_page(
    tenant_id: int,
    run: int,
    filter: EventFilter = EventFilter(),  # noqa: B008 - frozen
    *,
    after: int = -1,
    limit: int = PAGE,
) -> EventsPage:
    """The rows that follow a sequence."""
    where, values = filter.where()
    values |= {"tenant": tenant_id, "run": run, "after": after, "limit": limit + 1, "described": DESCRIBED}
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT {_ROW} FROM runs_event e
            WHERE e.tenant_id = %(tenant)s AND e.run_id = %(run)s AND e.sequence > %(after)s AND {where}
            ORDER BY e.sequence LIMIT %(limit)s
            """,  # noqa: S608 - constants
            values,
        )
        found = cursor.fetchall()
    events = _described(tenant_id, run, found[:limit])
    return EventsPage(events, events[-1].sequence if len(found) > limit else None)


def _described(tenant_id: int, run: int, found: Sequence[Sequence[Any]]) -> tuple[EventRow, ...]:
    noticed = noticed_at(tenant_id, run, [row[0] for row in found])
    return tuple(_event_row(row, noticed.get(row[0], ())) for row in found)


def events_of(tenant_id: int, run: int, sequences: Sequence[int]) -> tuple[EventRow, ...]:
    """The stored ones of some sequences, ascending."""
    if not sequences:
        return ()
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {_ROW} FROM runs_event e WHERE e.tenant_id = %(tenant)s AND e.run_id = %(run)s"  # noqa: S608
            " AND e.sequence = ANY (%(sequences)s) ORDER BY e.sequence",
            {"tenant": tenant_id, "run": run, "sequences": list(sequences), "described": DESCRIBED},
        )
        found = cursor.fetchall()
    return _described(tenant_id, run, found)


def noticed_at(tenant_id: int, run: int, sequences: Sequence[int]) -> Mapping[int, list[tuple[str, dict[str, Any]]]]:
    """The incidents of single events that are not closed: kind and detail."""
    if not sequences:
        return {}
    told: dict[int, list[tuple[str, dict[str, Any]]]] = {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sequence, kind, detail FROM runs_incident"
            " WHERE tenant_id = %s AND run_id = %s AND sequence = ANY (%s) AND NOT jsonb_exists(detail, 'closed_at')"
            " ORDER BY id",
            [tenant_id, run, list(sequences)],
        )
        for sequence, kind, detail in cursor.fetchall():
            told.setdefault(sequence, []).append((kind, json.loads(detail)))
    return told


def _event_row(row: Sequence[Any], noticed: Sequence[tuple[str, dict[str, Any]]]) -> EventRow:
    sequence, type_, node, agent, at, body, backwards = row
    payload = None if body is None else payload_of(body)
    memory_id = payload.get("memoryId") if isinstance(payload, dict) and type_ == "memory.written" else None
    return EventRow(
        sequence=sequence,
        type=original(type_),
        kind=kind_of(type_),
        node=node and original(node),
        agent=agent and original(agent),
        timestamp=at,
        detail=detail_of(type_, payload),
        status=outcome_of(type_),
        memory_id=memory_id if isinstance(memory_id, str) else None,
        backwards=bool(backwards),
        leaks=sum(kind.endswith("_leak") for kind, _ in noticed),
        notes=tuple(kind for kind, _ in noticed if not kind.endswith("_leak")),
    )


@dataclass(frozen=True, slots=True)
class FilterOptions:
    nodes: tuple[Option, ...]
    types: tuple[Option, ...]
    kinds: tuple[Option, ...]


NO_OPTIONS = FilterOptions((), (), ())


def event_body(tenant_id: int, run: int, sequence: int) -> str | None:
    """The stored JSON text of one event."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT body FROM runs_event WHERE tenant_id = %s AND run_id = %s AND sequence = %s",
            [tenant_id, run, sequence],
        )
        row = cursor.fetchone()
    return row[0] if row else None


def event_bodies(
    tenant_id: int,
    run: int,
    filter: EventFilter = EventFilter(),  # noqa: B008 - frozen
    *,
    after: int = -1,
    limit: int = PAGE,
) -> tuple[list[tuple[int, str]], bool]:
    """(sequence, stored JSON text) ascending after a sequence, and whether there are more."""
    where, values = filter.where()
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT e.sequence, {WHOLE} FROM runs_event e
            WHERE e.tenant_id = %(tenant)s AND e.run_id = %(run)s AND e.sequence > %(after)s AND {where}
            ORDER BY e.sequence LIMIT %(limit)s
            """,  # noqa: S608 - constants
            values | {"tenant": tenant_id, "run": run, "after": after, "limit": limit + 1},
        )
        found = cursor.fetchall()
    return found[:limit], len(found) > limit
