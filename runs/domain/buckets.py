"""What of a run's columns a screen can show: counts and worst outcomes by lane and bin, stretches, gaps, the whole.

A bin is a few pixels of the axis, which is sequence or time. Where time is the axis the events still count in the order
of their sequences; those reported at another time than their neighbours lie where they were reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .columns import Columns, Ints, Mask, Places, State

Axis = Literal["time", "sequence"]

GAP_SHARE = 0.03
"""A stretch without an event is a gap from this share of the run's time on."""
MOST_GAPS = 24
SHORTEST_GAP = 1_000_000
MOST_REVERSALS = 200
MOST_BARS = 4_000


@dataclass(frozen=True, slots=True)
class Window:
    """Events from ``start`` to ``end`` (sequences) on an axis cut into ``bins``. ``low`` and ``high`` are places."""

    start: int
    end: int
    low: int
    high: int
    start_at: int
    end_at: int
    axis: Axis
    bins: int

    @property
    def size(self) -> int:
        return self.end_at - self.start_at + 1 if self.axis == "time" else self.end - self.start + 1


def window_of(columns: Columns, start: int, end: int, axis: Axis, bins: int) -> Window:
    low, high = columns.window(start, end)
    at = columns.at[low:high]
    first, last = (int(at.min()), int(at.max())) if len(at) else (0, 0)
    return Window(start, end, low, high, first, last, axis, bins)


def bins_of(columns: Columns, window: Window, places: NDArray[Any] | slice) -> Places:
    """The bin of each event."""
    if window.axis == "time":
        from_start = columns.at[places] - window.start_at
    else:
        from_start = columns.sequences[places] - window.start
    bins = (from_start * (window.bins / window.size)).astype(np.int32)
    return np.clip(bins, 0, window.bins - 1, out=bins)


Cells = list[int]
"""Four numbers a cell: how many bins after the one before it, events, worst state, its first sequence after the
one before it. Ascending by bin."""


def cells(columns: Columns, window: Window, lanes: Sequence[int], *, mask: Mask | None = None) -> Mapping[int, Cells]:
    """By lane, of the events in the window that ``mask`` admits."""
    if mask is None and window.low == 0 and window.high == len(columns):
        key = ("cells", window, tuple(lanes))
        return columns.once(key, lambda: _cells(columns, window, lanes, None))
    return _cells(columns, window, lanes, mask)


def _cells(columns: Columns, window: Window, lanes: Sequence[int], mask: Mask | None) -> Mapping[int, Cells]:
    row_of = np.full(len(columns.nodes), -1, dtype=np.int32)
    row_of[list(lanes)] = np.arange(len(lanes), dtype=np.int32)
    rows = row_of[columns.lanes[window.low : window.high]]
    wanted = rows >= 0
    if mask is not None:
        wanted &= mask[window.low : window.high]
    places = np.flatnonzero(wanted) + window.low
    code = rows[wanted] * np.int32(window.bins) + bins_of(columns, window, places)
    sequences, states = columns.sequences[places], columns.states[places]
    room = len(lanes) * window.bins
    counts = np.bincount(code, minlength=room)
    worst = np.zeros(room, dtype=np.uint8)
    steps = np.flatnonzero(states)
    step_code, step_state = code[steps], states[steps]
    for state in (State.LIVE, State.WAIT, State.OK, State.CANCELLED, State.FAIL):
        worst[step_code[step_state == state]] = state
    first = np.zeros(room, dtype=np.int64)
    first[code[::-1]] = sequences[::-1]  # the last assignment stays, so the lowest sequence does
    filled = np.flatnonzero(counts)
    told: dict[int, Cells] = {}
    edges = np.searchsorted(filled, np.arange(len(lanes) + 1) * window.bins)
    for row, lane in enumerate(lanes):
        own = filled[edges[row] : edges[row + 1]]
        if len(own):
            told[lane] = _flat(own - row * window.bins, counts[own], worst[own], first[own])
    return told


def _flat(bins: Ints, counts: Ints, worst: NDArray[Any], first: Ints) -> Cells:
    flat = np.empty((len(bins), 4), dtype=np.int64)
    flat[:, 0] = np.diff(bins, prepend=0)
    flat[:, 1] = counts
    flat[:, 2] = worst
    flat[:, 3] = np.diff(first, prepend=0)
    told: Cells = flat.ravel().tolist()
    return told


@dataclass(frozen=True, slots=True)
class Bar:
    """A time in which a lane was open. ``end`` is None where nothing has ended it. Sequences, and times in µs."""

    start: int
    end: int | None
    start_at: int
    end_at: int | None
    state: int


def bars(columns: Columns, window: Window, lanes: Sequence[int]) -> Mapping[int, list[Bar]]:
    """By lane, the stretches that reach into the window and are longer than a bin."""
    told = columns.stretches
    known = np.zeros(len(columns.nodes), dtype=np.bool_)
    known[list(lanes)] = True
    last = max(len(columns) - 1, 0)
    end = np.where(told.end < 0, last, told.end)
    seen = (told.start < window.high) & ((told.end < 0) | (told.end >= window.low)) & known[told.lane]
    picked = np.flatnonzero(seen)
    start, end = told.start[picked], end[picked]
    if window.axis == "time":
        length = columns.at[end] - columns.at[start]
    else:
        length = columns.sequences[end] - columns.sequences[start]
    is_long = (length > window.size / window.bins * 1.5) | (told.end[picked] < 0)
    found: dict[int, list[Bar]] = {}
    for place in picked[is_long][:MOST_BARS]:
        begin, close = int(told.start[place]), int(told.end[place])
        state, result = int(told.state[place]), int(told.result[place])
        found.setdefault(int(told.lane[place]), []).append(
            Bar(
                start=int(columns.sequences[begin]),
                end=None if close < 0 else int(columns.sequences[close]),
                start_at=int(columns.at[begin]),
                end_at=None if close < 0 else int(columns.at[close]),
                state=state if state == State.WAIT or not result else result,
            )
        )
    return found


def overview(columns: Columns, axis: Axis, bins: int, *, mask: Mask | None = None) -> dict[str, list[int]]:
    """The whole run in ``bins``: how many events, and where there are failures and memory writes."""
    if not len(columns):
        return {"counts": [], "fails": [], "writes": []}
    of_event = columns.once(("bins", axis, bins), lambda: _whole_bins(columns, axis, bins))
    fails = columns.once("errors", lambda: np.flatnonzero(columns.each("is_error")))
    return {
        "counts": np.bincount(of_event if mask is None else of_event[mask], minlength=bins).tolist(),
        "fails": np.unique(of_event[fails]).tolist(),
        "writes": np.unique(of_event[columns.writes]).tolist(),
    }


def _whole_bins(columns: Columns, axis: Axis, bins: int) -> Places:
    window = window_of(columns, int(columns.sequences[0]), int(columns.sequences[-1]), axis, bins)
    return bins_of(columns, window, slice(None))


@dataclass(frozen=True, slots=True)
class Gap:
    """Between two events one after the other."""

    start: int
    end: int
    start_at: int
    end_at: int


def gaps(columns: Columns) -> list[Gap]:
    """The longest times without an event, ascending; none where the run is short or busy throughout."""
    return columns.once("gaps", lambda: _gaps(columns)) if len(columns) > 2 else []


def _gaps(columns: Columns) -> list[Gap]:
    latest = np.maximum.accumulate(columns.at)
    idle = columns.at[1:] - latest[:-1]
    whole = int(latest[-1] - columns.at[0])
    long = np.flatnonzero(idle >= max(whole * GAP_SHARE, SHORTEST_GAP))
    if len(long) > MOST_GAPS:
        long = np.sort(long[np.argsort(idle[long])[-MOST_GAPS:]])
    return [
        Gap(
            start=int(columns.sequences[place]),
            end=int(columns.sequences[place + 1]),
            start_at=int(latest[place]),
            end_at=int(columns.at[place + 1]),
        )
        for place in long
    ]
