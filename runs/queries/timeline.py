"""What the timeline draws: of a stretch of a run what a screen can show, and no more.

Lanes come with their attempts where those are few, else with counts by bin and the stretches long enough to be seen;
single events only where few are in view. The answer is made of the run's columns, and of rows only for what is named.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from django.db import connection
from django.utils import timezone

from ..domain import buckets
from ..domain.buckets import Axis, Window
from ..domain.columns import NO_NODE, STATES, Columns, Mask
from ..domain.describe import detail_of, kind_of, outcome_of
from ..domain.storable import original, storable
from ..domain.summary import payload_of
from ..store.columns import columns_of
from .events import EventFilter
from .links import Child, as_json, children, linked, links_between
from .matching import matching
from .runs import RunFacts

BIN_PIXELS = 2
MOST_BINS = 800
OVERVIEW_BINS = 300
MOST_ROWS = 120
"""So many lanes are filled at once; the others are a number until they are scrolled to."""
MOST_SPANS = 1_200
MOST_EVENTS = 400
MOST_WRITES = 300
MOST_MARKS = 200

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class View:
    """What is asked of a run: a stretch of sequences on so many pixels, the rows of lanes in view, pinned nodes."""

    start: int | None = None
    end: int | None = None
    width: int = 1200
    axis: Axis = "time"
    rows: tuple[int, int] = (0, 60)
    pins: tuple[str, ...] = ()
    filter: EventFilter = field(default_factory=EventFilter)
    overview: bool = True


def timeline(tenant_id: int, run: RunFacts, view: View = View()) -> dict[str, Any]:  # noqa: B008 - frozen
    """The timeline's JSON without links to pages."""
    columns = columns_of(tenant_id, run.pk)
    first = run.first_sequence or 0
    last = int(columns.sequences[-1]) if len(columns) else first
    start = first if view.start is None else max(first, view.start)
    end = last if view.end is None else min(last, view.end)
    bins = max(1, min(view.width // BIN_PIXELS, MOST_BINS))
    window = buckets.window_of(columns, start, max(start, end), view.axis, bins)
    mask = matching(tenant_id, run.pk, columns, view.filter)
    return {
        "run": _run(run, columns),
        "window": {"from": start, "to": end, **_times(window)},
        "axis": view.axis,
        "bins": bins,
        **_lanes(tenant_id, run, columns, window, view, mask),
        **_writes(tenant_id, run.pk, columns, window),
        **_marks(columns, window),
        **(_whole(tenant_id, run, columns, view.axis, mask) if view.overview else {}),
    }


def moment(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat().replace("+00:00", "Z")


def _moment_of(micros: int) -> str | None:
    return moment(_EPOCH + timedelta(microseconds=micros))


def _times(window: Window) -> dict[str, str | None]:
    if window.high == window.low:
        return {"startAt": None, "endAt": None}
    return {"startAt": _moment_of(window.start_at), "endAt": _moment_of(window.end_at)}


def _run(run: RunFacts, columns: Columns) -> dict[str, Any]:
    is_known = len(columns) > 0
    return {
        "status": run.status,
        "terminal": run.terminal,
        "firstSequence": run.first_sequence,
        "lastSequence": int(columns.sequences[-1]) if is_known else run.last_sequence,
        "events": len(columns),
        "startedAt": moment(run.started_at) or (_moment_of(int(columns.at[0])) if is_known else None),
        "endedAt": moment(run.ended_at),
        "lastAt": _moment_of(int(columns.at.max())) if is_known else None,
        "now": moment(timezone.now()),
    }


# --- Lanes ---


def _lanes(
    tenant_id: int, run: RunFacts, columns: Columns, window: Window, view: View, mask: Mask | None
) -> dict[str, Any]:
    hits = columns.lane_counts if mask is None else np.bincount(columns.lanes[mask], minlength=len(columns.nodes))
    listed = np.flatnonzero(hits)
    low = min(view.rows[0], len(listed))
    shown = {int(lane): low + place for place, lane in enumerate(listed[low : min(view.rows[1], low + MOST_ROWS)])}
    for node in view.pins:
        pinned = columns.place_of_node.get(storable(node))
        if pinned is not None and pinned not in shown and hits[pinned]:
            shown[pinned] = int(np.searchsorted(listed, pinned))
    filled, is_dense = _filled(tenant_id, run, columns, window, list(shown), mask)
    known = _nodes(tenant_id, run.pk, [columns.nodes[lane] for lane in shown])
    return {
        "lanes": [
            {
                "place": place,
                **_lane(run, columns, lane, known),
                "events": int(columns.lane_counts[lane]),
                **({} if mask is None else {"hits": int(hits[lane])}),
                **filled.get(lane, {}),
            }
            for lane, place in sorted(shown.items(), key=lambda pair: pair[1])
        ],
        "lanesTotal": len(listed),
        "lanesHidden": int(np.count_nonzero(columns.lane_counts)) - len(listed),
        "matching": len(columns) if mask is None else int(np.count_nonzero(mask)),
        "dense": is_dense,
        **_events(tenant_id, run.pk, columns, window, shown, mask),
    }


def _lane(run: RunFacts, columns: Columns, lane: int, known: Mapping[str, tuple[str, int]]) -> dict[str, Any]:
    if lane == NO_NODE:
        status = {"completed": "ok", "failed": "fail", "cancelled": "cancelled"}.get(run.status, "live")
        return {"node": None, "status": "wait" if run.status.startswith(("wait", "pause")) else status, "attempts": 0}
    status, attempts = known.get(columns.nodes[lane], ("unknown", 0))
    return {"node": original(columns.nodes[lane]), "status": _shown(status, run.terminal), "attempts": attempts}


def _shown(status: str, ended: bool) -> str:
    """Nothing is live in a run that has ended: how such a node ended is not known."""
    return "unknown" if ended and status in ("live", "wait") else status


def _nodes(tenant_id: int, run: int, nodes: Sequence[str]) -> dict[str, tuple[str, int]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT node_id, status, attempts FROM runs_runnode"
            " WHERE tenant_id = %s AND run_id = %s AND node_id = ANY (%s)",
            [tenant_id, run, list(nodes)],
        )
        return {node: (status, attempts) for node, status, attempts in cursor.fetchall()}


def _filled(
    tenant_id: int, run: RunFacts, columns: Columns, window: Window, lanes: Sequence[int], mask: Mask | None
) -> tuple[dict[int, dict[str, Any]], bool]:
    """What each lane has in the window, and whether its attempts are too many to be told one by one."""
    if not lanes:
        return {}, False
    cells = buckets.cells(columns, window, lanes, mask=mask)
    told: dict[int, dict[str, Any]] = {lane: {"cells": cell} for lane, cell in cells.items()}
    if _count_steps(columns, window, lanes) > MOST_SPANS:
        for lane, bars in buckets.bars(columns, window, lanes).items():
            told.setdefault(lane, {})["bars"] = [
                [bar.start, bar.end, bar.start_at, bar.end_at, STATES[bar.state]] for bar in bars
            ]
        return told, True
    spans = _spans(tenant_id, run, window, [columns.nodes[lane] for lane in lanes])
    for lane in lanes:
        told.setdefault(lane, {})["spans"] = spans.get(columns.nodes[lane], [])
    return told, False


def _count_steps(columns: Columns, window: Window, lanes: Sequence[int]) -> int:
    known = np.zeros(len(columns.nodes), dtype=np.bool_)
    known[list(lanes)] = True
    steps = columns.once("steps", lambda: np.flatnonzero(columns.states))
    low, high = np.searchsorted(steps, (window.low, window.high))
    return int(np.count_nonzero(known[columns.lanes[steps[low:high]]])) // 2


_ATTEMPTS = """
SELECT n.node, a.* FROM unnest(%(nodes)s::text[]) AS n (node), LATERAL (
    (SELECT {columns} FROM runs_attempt WHERE tenant_id = %(tenant)s AND run_id = %(run)s AND node_id = n.node
        AND from_sequence >= %(start)s AND from_sequence <= %(end)s ORDER BY from_sequence LIMIT %(most)s)
    UNION ALL
    (SELECT * FROM (SELECT {columns} FROM runs_attempt WHERE tenant_id = %(tenant)s AND run_id = %(run)s
        AND node_id = n.node AND from_sequence < %(start)s ORDER BY from_sequence DESC LIMIT 1) AS before
        WHERE to_sequence IS NULL OR to_sequence >= %(start)s)
) AS a ORDER BY a.from_sequence
""".format(columns="ordinal, from_sequence, to_sequence, started_at, ended_at, status, start_seen, label, waits")


def _spans(tenant_id: int, run: RunFacts, window: Window, nodes: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    with connection.cursor() as cursor:
        cursor.execute(
            _ATTEMPTS,
            {
                "tenant": tenant_id,
                "run": run.pk,
                "nodes": list(nodes),
                "start": window.start,
                "end": window.end,
                "most": MOST_SPANS * 2,
            },
        )
        spans: dict[str, list[dict[str, Any]]] = {}
        for node, *row in cursor.fetchall():
            spans.setdefault(node, []).append(_span(row, run.terminal))
        return spans


def _span(row: Sequence[Any], run_ended: bool) -> dict[str, Any]:
    ordinal, start, end, started, ended, status, start_seen, label, waits = row
    return {
        "from": start,
        "to": end,
        "startAt": moment(started),
        "endAt": moment(ended),
        "status": _shown(status, run_ended),
        "attempt": ordinal,
        "startSeen": start_seen,
        "label": original(label) or None,
        "waits": json.loads(waits) if isinstance(waits, str) else waits,
    }


def _events(
    tenant_id: int, run: int, columns: Columns, window: Window, lanes: Mapping[int, int], mask: Mask | None
) -> dict[str, Any]:
    """The events themselves and what links them, where few are in view."""
    if window.high - window.low > MOST_EVENTS:
        return {"events": None, "links": []}
    places = np.arange(window.low, window.high)
    if mask is not None:
        places = places[mask[places]]
    sequences = columns.sequences[places].tolist()
    found = linked(tenant_id, run, columns.sequences[window.low : window.high].tolist())
    bodies = {event.sequence: event for event in found}
    return {
        "events": [
            _event(columns, int(place), bodies.get(sequence))
            for place, sequence in zip(places.tolist(), sequences, strict=True)
        ],
        "links": as_json(links_between(found)),
    }


def _event(columns: Columns, place: int, told: Any) -> dict[str, Any]:
    type_, failed = columns.type_names[columns.types[place]]
    lane = int(columns.lanes[place])
    payload = payload_of(told.body) if told is not None and told.body else None
    return {
        "sequence": int(columns.sequences[place]),
        "at": _moment_of(int(columns.at[place])),
        "node": None if lane == NO_NODE else original(columns.nodes[lane]),
        "type": original(type_),
        "kind": kind_of(type_),
        "status": "fail" if failed else outcome_of(type_),
        "detail": detail_of(type_, payload),
    }


# --- Memory, marks, the whole ---


def _writes(tenant_id: int, run: int, columns: Columns, window: Window) -> dict[str, Any]:
    low, high = np.searchsorted(columns.writes, (window.low, window.high))
    places = columns.writes[low:high]
    told: dict[str, Any] = {"writesTotal": len(places), "runWrites": len(columns.writes)}
    if len(places) > MOST_WRITES:
        bins = buckets.bins_of(columns, window, places)
        edges = [0, *(np.flatnonzero(np.diff(bins)) + 1).tolist(), len(places)]
        groups = zip(edges[:-1], edges[1:], strict=True)
        dense = [
            {
                "from": int(columns.sequences[places[start]]),
                "to": int(columns.sequences[places[end - 1]]),
                "startAt": _moment_of(int(columns.at[places[start]])),
                "endAt": _moment_of(int(columns.at[places[end - 1]])),
                "count": end - start,
            }
            for start, end in groups
        ]
        return told | {"writes": [], "writeBuckets": dense}
    return told | {"writes": _written(tenant_id, run, columns.sequences[places].tolist())}


def _written(tenant_id: int, run: int, sequences: Sequence[int]) -> list[dict[str, Any]]:
    if not sequences:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sequence, occurred_at, node_id, agent_id, body FROM runs_event"
            " WHERE tenant_id = %s AND run_id = %s AND sequence = ANY (%s) ORDER BY sequence",
            [tenant_id, run, list(sequences)],
        )
        return [_write(row) for row in cursor.fetchall()]


def _write(row: Sequence[Any]) -> dict[str, Any]:
    sequence, at, node, agent, body = row
    payload = payload_of(body)
    named = payload if isinstance(payload, dict) else {}
    return {
        "sequence": sequence,
        "at": moment(at),
        "node": node and original(node),
        "agent": agent and original(agent),
        "memoryRef": named.get("memoryRef") if isinstance(named.get("memoryRef"), str) else None,
        "memoryId": named.get("memoryId") if isinstance(named.get("memoryId"), str) else None,
    }


def _marks(columns: Columns, window: Window) -> dict[str, Any]:
    """Events of the run as a whole, and events reported earlier than those before them."""
    all_marks = columns.once("marks", lambda: np.flatnonzero(columns.each("is_mark")))
    low, high = np.searchsorted(all_marks, (window.low, window.high))
    places = all_marks[low : min(high, low + MOST_MARKS)]
    low, high = np.searchsorted(columns.reversals, (window.low, window.high))
    reversals = columns.reversals[low:high]
    return {
        "marks": [
            {
                "sequence": int(columns.sequences[place]),
                "at": _moment_of(int(columns.at[place])),
                "type": columns.type_names[columns.types[place]][0],
                "status": STATES[columns.states[place]] or "live",
            }
            for place in places
        ],
        "reversals": [
            [int(columns.sequences[place]), int(columns.at[place]), int(columns.at[place - 1] - columns.at[place])]
            for place in reversals[: buckets.MOST_REVERSALS]
        ],
        "reversalsTotal": len(reversals),
    }


def _whole(tenant_id: int, run: RunFacts, columns: Columns, axis: Axis, mask: Mask | None) -> dict[str, Any]:
    return {
        "overview": {
            **buckets.overview(columns, axis, OVERVIEW_BINS, mask=mask),
            "startAt": _moment_of(int(columns.at.min())) if len(columns) else None,
            "endAt": _moment_of(int(columns.at.max())) if len(columns) else None,
        },
        "gaps": [[gap.start, gap.end, gap.start_at, gap.end_at] for gap in buckets.gaps(columns)],
        "children": [_child(child) for child in children(tenant_id, run.pk, storable(run.run_id), columns)],
    }


def _child(child: Child) -> dict[str, Any]:
    return {
        "run": child.run_id,
        "workflow": child.workflow or None,
        "status": child.status,
        "terminal": child.terminal,
        "startAt": moment(child.started_at),
        "endAt": moment(child.ended_at),
        "events": child.events,
        "node": child.node,
        "sequence": child.sequence,
    }
