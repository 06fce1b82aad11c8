"""The log of one run: pages of it, and single events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec
from django.db import connection

from ..domain import exact_json
from ..domain.describe import KIND_PREFIXES, KINDS, Kind, detail_of, kind_of, outcome_of
from ..domain.storable import original, storable
from ..domain.summary import payload_of
from .rows import Option
from .runs import like

PAGE = 200
COUNTED = 100_000
"""Matches of a filter are counted up to here."""
DESCRIBED = 64 * 1024
"""Bodies up to so many bytes are read for the one line that a list shows of them."""
SHOWN = 256 * 1024
CUT = 64 * 1024
CAUSE_WITHIN = 10_000
"""A cause is looked for among so many events before its effect."""


@dataclass(frozen=True, slots=True)
class EventFilter:
    """What the events of a run are narrowed to; "" means any."""

    node: str = ""
    type: str = ""
    kind: str = ""
    q: str = ""

    @property
    def is_empty(self) -> bool:
        return not (self.node or self.type or self.kind or self.q)

    def where(self) -> tuple[str, dict[str, Any]]:
        conditions = []
        if self.node:
            conditions.append("e.node_id = %(node)s")
        if self.type:
            conditions.append("e.type = %(type)s")
        if self.kind:
            conditions.append(_of_kind(self.kind))
        if self.q:
            conditions.append(
                "(e.node_id ILIKE %(like)s OR e.type ILIKE %(like)s OR e.agent_id ILIKE %(like)s"
                " OR e.event_id ILIKE %(like)s OR (e.type LIKE 'memory.%%' AND e.body ILIKE %(like)s))"
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


@dataclass(frozen=True, slots=True)
class Leak:
    path: str
    sha256: str
    length: int


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
    """Ascending by sequence. ``before`` and ``after`` are None where the matches end."""

    events: tuple[EventRow, ...]
    before: int | None
    after: int | None
    last_row: int | None


_ROW = """
    e.sequence, e.type, e.node_id, e.agent_id, e.occurred_at,
    CASE WHEN octet_length(e.body) <= %(described)s THEN e.body END,
    (SELECT p.occurred_at > e.occurred_at FROM runs_event p
        WHERE p.tenant_id = e.tenant_id AND p.run_id = e.run_id AND p.sequence < e.sequence
        ORDER BY p.sequence DESC LIMIT 1)
"""


def events_page(
    tenant_id: int,
    run: int,
    filter: EventFilter = EventFilter(),  # noqa: B008 - frozen
    *,
    before: int | None = None,
    after: int | None = None,
    around: int | None = None,
    limit: int = PAGE,
) -> EventsPage:
    """A page before or after a sequence, around one, or the first one."""
    if around is not None:
        half = limit // 2
        earlier = _rows(tenant_id, run, filter, "<", around, half + 1)
        later = _rows(tenant_id, run, filter, ">=", around, half + 1)
        return _page(earlier[-half:], later[:half], len(earlier) > half, len(later) > half, None)
    if before is not None:
        found = _rows(tenant_id, run, filter, "<", before, limit + 1)
        return _page(found[-limit:], (), len(found) > limit, True, None)
    start = -1 if after is None else after
    found = _rows(tenant_id, run, filter, ">", start, limit + 1)
    return _page((), found[:limit], after is not None, len(found) > limit, after)


def _page(
    earlier: Sequence[EventRow],
    later: Sequence[EventRow],
    more_before: bool,
    more_after: bool,
    looked: int | None,
) -> EventsPage:
    events = (*earlier, *later)
    return EventsPage(
        events=events,
        before=events[0].sequence if events and more_before else None,
        after=events[-1].sequence if events and more_after else None,
        last_row=events[-1].sequence if events else looked,
    )


def _rows(tenant_id: int, run: int, filter: EventFilter, compare: str, edge: int, limit: int) -> list[EventRow]:
    order = "DESC" if compare == "<" else "ASC"
    where, values = filter.where()
    values |= {"tenant": tenant_id, "run": run, "edge": edge, "limit": limit, "described": DESCRIBED}
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT {_ROW} FROM runs_event e
            WHERE e.tenant_id = %(tenant)s AND e.run_id = %(run)s AND e.sequence {compare} %(edge)s AND {where}
            ORDER BY e.sequence {order} LIMIT %(limit)s
            """,  # noqa: S608 - constants
            values,
        )
        found = cursor.fetchall()
    if order == "DESC":
        found.reverse()
    noticed = _noticed(tenant_id, run, [row[0] for row in found])
    return [_event_row(row, noticed.get(row[0], ())) for row in found]


def _noticed(tenant_id: int, run: int, sequences: Sequence[int]) -> Mapping[int, list[tuple[str, dict[str, Any]]]]:
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


def count_matching(tenant_id: int, run: int, filter: EventFilter) -> tuple[int, bool]:
    """How many events match, and whether that is only a lower bound."""
    where, values = filter.where()
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT count(*) FROM (SELECT FROM runs_event e
                WHERE e.tenant_id = %(tenant)s AND e.run_id = %(run)s AND {where} LIMIT %(most)s) AS counted
            """,  # noqa: S608 - constants
            values | {"tenant": tenant_id, "run": run, "most": COUNTED + 1},
        )
        row = cursor.fetchone()
    count = row[0] if row else 0
    return min(count, COUNTED), count > COUNTED


@dataclass(frozen=True, slots=True)
class FilterOptions:
    nodes: tuple[Option, ...]
    types: tuple[Option, ...]
    kinds: tuple[Option, ...]


NO_OPTIONS = FilterOptions((), (), ())


def filter_options(tenant_id: int, run: int, *, most: int = 500) -> FilterOptions:
    """The nodes, types and kinds that a run's events have, with their counts."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT node_id, event_count FROM runs_runnode WHERE tenant_id = %s AND run_id = %s"
            " ORDER BY first_sequence LIMIT %s",
            [tenant_id, run, most],
        )
        nodes = tuple(Option(original(node), original(node), count) for node, count in cursor.fetchall())
        cursor.execute(
            "SELECT type, count(*) FROM (SELECT type FROM runs_event WHERE tenant_id = %s AND run_id = %s"
            " ORDER BY sequence LIMIT %s) AS seen GROUP BY type ORDER BY type",
            [tenant_id, run, COUNTED],
        )
        types = [(original(type_), count) for type_, count in cursor.fetchall()]
    kinds: dict[str, int] = {}
    for type_, count in types:
        kinds[kind_of(type_)] = kinds.get(kind_of(type_), 0) + count
    return FilterOptions(
        nodes=nodes,
        types=tuple(Option(type_, type_, count) for type_, count in types),
        kinds=tuple(Option(kind, kind, kinds[kind]) for kind in KINDS if kind in kinds),
    )


@dataclass(frozen=True, slots=True)
class EntryLink:
    """The entry that a memory event speaks of."""

    host: str
    memory_ref: str
    memory_id: str


@dataclass(frozen=True, slots=True)
class FurtherCopy:
    """Another copy of the same event that said more (completion) or something else (contradiction)."""

    kind: str
    received_at: datetime
    payload: str


@dataclass(frozen=True, slots=True)
class EventDetail:
    """One event in full. ``payload`` is its JSON text as it came, cut where it is very long; None if none came."""

    sequence: int
    type: str
    reported_type: str
    kind: Kind
    status: str
    node: str | None
    agent: str | None
    event_id: str | None
    causation_id: str | None
    caused_by: int | None
    timestamp: datetime
    reported_timestamp: str
    received_at: datetime
    bytes: int
    payload: str | None
    payload_bytes: int
    payload_cut: bool
    leaks: tuple[Leak, ...]
    notes: tuple[str, ...]
    copies: tuple[FurtherCopy, ...]
    backwards: bool
    entry: EntryLink | None
    previous: int | None
    next: int | None
    raw_href: str = ""
    door: str = ""


_DETAIL = """
SELECT e.type, e.reported_type, e.node_id, e.agent_id, e.event_id, e.causation_id, e.occurred_at, e.received_at,
    e.body, e.has_payload,
    (SELECT c.sequence FROM runs_event c WHERE c.tenant_id = e.tenant_id AND c.run_id = e.run_id
        AND c.sequence < e.sequence AND c.sequence >= e.sequence - %(within)s AND c.event_id = e.causation_id
        ORDER BY c.sequence DESC LIMIT 1),
    (SELECT p.sequence FROM runs_event p WHERE p.tenant_id = e.tenant_id AND p.run_id = e.run_id
        AND p.sequence < e.sequence ORDER BY p.sequence DESC LIMIT 1),
    (SELECT n.sequence FROM runs_event n WHERE n.tenant_id = e.tenant_id AND n.run_id = e.run_id
        AND n.sequence > e.sequence ORDER BY n.sequence LIMIT 1),
    (SELECT p.occurred_at > e.occurred_at FROM runs_event p WHERE p.tenant_id = e.tenant_id
        AND p.run_id = e.run_id AND p.sequence < e.sequence ORDER BY p.sequence DESC LIMIT 1)
FROM runs_event e WHERE e.tenant_id = %(tenant)s AND e.run_id = %(run)s AND e.sequence = %(sequence)s
"""


def find_event(tenant_id: int, host: str, run: int, sequence: int, *, raw_href: str = "") -> EventDetail | None:
    """One event of a run (primary key); None when that sequence is not stored.

    ``raw_href`` is where the stored text can be had; it is passed through.
    """
    with connection.cursor() as cursor:
        cursor.execute(_DETAIL, {"tenant": tenant_id, "run": run, "sequence": sequence, "within": CAUSE_WITHIN})
        row = cursor.fetchone()
        if row is None:
            return None
        copies = _copies(tenant_id, run, sequence)
        noticed = _noticed(tenant_id, run, [sequence]).get(sequence, [])
    return replace(_detail(host, sequence, row, copies, noticed), raw_href=raw_href)


def _copies(tenant_id: int, run: int, sequence: int) -> list[tuple[str, datetime, str]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT kind, received_at, body FROM runs_eventcopy WHERE tenant_id = %s AND run_id = %s"
            " AND sequence = %s ORDER BY received_at, digest",
            [tenant_id, run, sequence],
        )
        found: list[tuple[str, datetime, str]] = cursor.fetchall()
        return found


def _detail(
    host: str,
    sequence: int,
    row: Sequence[Any],
    copies: Sequence[tuple[str, datetime, str]],
    noticed: Sequence[tuple[str, dict[str, Any]]],
) -> EventDetail:
    type_, reported, node, agent, event_id, causation, at, received, body, has_payload = row[:10]
    caused_by, previous, next_, backwards = row[10:]
    completion = next((text for kind, _, text in copies if kind == "completion"), None)
    payload = payload_text(completion or body) if has_payload or completion else None
    return EventDetail(
        sequence=sequence,
        type=original(type_),
        reported_type=original(reported or type_),
        kind=kind_of(type_),
        status=outcome_of(type_),
        node=node and original(node),
        agent=agent and original(agent),
        event_id=event_id and original(event_id),
        causation_id=causation and original(causation),
        caused_by=caused_by,
        timestamp=at,
        reported_timestamp=_reported_timestamp(body),
        received_at=received,
        bytes=len(body.encode()),
        payload=payload if payload is None or len(payload) <= SHOWN else payload[:CUT],
        payload_bytes=0 if payload is None else len(payload.encode()),
        payload_cut=payload is not None and len(payload) > SHOWN,
        leaks=tuple(
            Leak(detail.get("path", ""), detail.get("sha256", ""), detail.get("bytes", 0))
            for kind, detail in noticed
            if kind.endswith("_leak")
        ),
        notes=tuple(kind for kind, _ in noticed if not kind.endswith("_leak")),
        copies=tuple(FurtherCopy(kind, when, payload_text(text) or "null") for kind, when, text in copies),
        backwards=bool(backwards),
        entry=_entry(host, type_, completion or body),
        previous=previous,
        next=next_,
    )


class _Envelope(msgspec.Struct):
    payload: msgspec.Raw = msgspec.Raw(b"")
    data: msgspec.Raw = msgspec.Raw(b"")
    timestamp: str = ""


def _envelope(body: str) -> tuple[str, str, str]:
    """(payload, data, timestamp) of a stored event: the first two as JSON text, "" where there is none."""
    try:
        envelope = msgspec.json.decode(body, type=_Envelope)
    except msgspec.DecodeError:
        # It takes no lone surrogates. The exact reader does, and only forgets the white space.
        members = exact_json.loads(body)
        assert isinstance(members, dict)  # everything that is stored is an event
        texts = (exact_json.dumps(members[name]).decode() if name in members else "" for name in ("payload", "data"))
        return *texts, str(members.get("timestamp", ""))  # type: ignore[return-value]  # two texts and one more
    return bytes(envelope.payload).decode(), bytes(envelope.data).decode(), envelope.timestamp


def payload_text(body: str) -> str | None:
    """The JSON text of a stored event's payload, character for character; None where it has none."""
    payload, data, _ = _envelope(body)
    return data if data and payload in ("", "null") else payload or None


def _reported_timestamp(body: str) -> str:
    return _envelope(body)[2]


def _entry(host: str, type_: str, body: str) -> EntryLink | None:
    if type_ not in ("memory.written", "memory.compacted"):
        return None
    payload = payload_of(body)
    if not isinstance(payload, dict):
        return None
    ref, memory_id = (
        payload.get("memoryRef"),
        payload.get("memoryId" if type_ == "memory.written" else "outputId"),
    )
    if not (isinstance(ref, str) and isinstance(memory_id, str) and ref and memory_id):
        return None
    return EntryLink(host, ref, memory_id)


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
            SELECT e.sequence, coalesce((
                SELECT c.body FROM runs_eventcopy c WHERE c.tenant_id = e.tenant_id AND c.run_id = e.run_id
                    AND c.sequence = e.sequence AND c.kind = 'completion'), e.body)
            FROM runs_event e
            WHERE e.tenant_id = %(tenant)s AND e.run_id = %(run)s AND e.sequence > %(after)s AND {where}
            ORDER BY e.sequence LIMIT %(limit)s
            """,  # noqa: S608 - constants
            values | {"tenant": tenant_id, "run": run, "after": after, "limit": limit + 1},
        )
        found = cursor.fetchall()
    return found[:limit], len(found) > limit
