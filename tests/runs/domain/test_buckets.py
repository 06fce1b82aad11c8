"""What a screen can show of a run, held against counting its events one by one."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runs.domain.buckets import Axis, Bar, bars, cells, gaps, overview, window_of
from runs.domain.columns import CHUNK, STATES, Columns, Row, State, chunk_of, extended, join, pack, unpack

TYPES = (
    "node.started",
    "node.completed",
    "node.failed",
    "node.suspended",
    "node.resumed",
    "log.appended",
    "memory.written",
)
RANK = {
    "node.started": State.LIVE,
    "node.resumed": State.LIVE,
    "node.suspended": State.WAIT,
    "node.completed": State.OK,
    "node.failed": State.FAIL,
}


@st.composite
def logs(draw: st.DrawFn) -> list[Row]:
    count = draw(st.integers(1, 60))
    sequence, at, rows = draw(st.integers(0, 5)), 1_000_000, []
    for _ in range(count):
        node = draw(st.sampled_from([None, "a", "b", "c"]))
        rows.append(Row(sequence, at, node, draw(st.sampled_from(TYPES)), False))
        sequence += draw(st.integers(1, 3))
        at += draw(st.integers(-200, 2000))
    return rows


def columns_of(rows: list[Row]) -> Columns:
    return join([chunk_of(rows)])


def read(flat: list[int]) -> list[tuple[int, int, str, int]]:
    """(bin, count, worst, first) of packed cells."""
    told, at, first = [], 0, 0
    for place in range(0, len(flat), 4):
        at, first = at + flat[place], first + flat[place + 3]
        told.append((at, flat[place + 1], STATES[flat[place + 2]], first))
    return told


@settings(max_examples=150, deadline=None)
@given(logs(), st.integers(1, 40), st.sampled_from(["time", "sequence"]), st.data())
def test_cells_count_every_event_of_the_window_once(
    rows: list[Row], bins: int, axis: Axis, data: st.DataObject
) -> None:
    columns = columns_of(rows)
    start = data.draw(st.integers(0, rows[-1].sequence))
    end = data.draw(st.integers(start, rows[-1].sequence + 3))
    window = window_of(columns, start, end, axis, bins)
    inside = [row for row in rows if start <= row.sequence <= end]
    found = cells(columns, window, list(range(len(columns.nodes))))
    counted = {columns.nodes[lane]: sum(count for _, count, _, _ in read(flat)) for lane, flat in found.items()}
    assert counted == Counter(row.node or "" for row in inside)
    for lane, flat in found.items():
        own = [row for row in inside if (row.node or "") == columns.nodes[lane]]
        told = read(flat)
        assert [one[0] for one in told] == sorted({one[0] for one in told})
        assert all(0 <= one[0] < bins for one in told)
        assert min(one[3] for one in told) == own[0].sequence
        assert {one[3] for one in told} <= {row.sequence for row in own}
        assert max(STATES.index(one[2]) for one in told) == max(RANK.get(row.type, 0) for row in own)


@settings(max_examples=100, deadline=None)
@given(logs(), st.integers(1, 30))
def test_a_bin_of_the_sequence_axis_has_the_events_of_its_share(rows: list[Row], bins: int) -> None:
    columns = columns_of(rows)
    first, last = rows[0].sequence, rows[-1].sequence
    expected = Counter((row.sequence - first) * bins // (last - first + 1) for row in rows)
    found = overview(columns, "sequence", bins)["counts"]
    assert sum(found) == len(rows)
    # A share that is no binary fraction may put an event at an edge one bin further down.
    assert all(abs(sum(found[:n]) - sum(expected[one] for one in range(n))) <= 1 for n in range(bins + 1))


@settings(max_examples=100, deadline=None)
@given(logs())
def test_a_chunk_is_the_same_when_it_was_stored_or_added_to(rows: list[Row]) -> None:
    whole = columns_of(rows)
    for cut in {1, len(rows) // 2, len(rows) - 1} - {0, len(rows)}:
        grown = extended(chunk_of(rows[:cut]), rows[cut:])
        for other in (join([unpack(pack(grown))]), join([chunk_of(rows[:cut]), chunk_of(rows[cut:])])):
            assert other.sequences.tolist() == [row.sequence for row in rows]
            assert other.at.tolist() == [row.at for row in rows]
            assert [other.nodes[lane] for lane in other.lanes] == [row.node or "" for row in rows]
            assert [other.type_names[kind] for kind in other.types] == [(row.type, row.failed) for row in rows]
            assert other.nodes == whole.nodes


def test_times_far_apart_are_kept_whole() -> None:
    rows = [Row(0, 0, "a", "node.started", False), Row(1, 10**15, "a", "node.completed", False)]
    assert unpack(pack(chunk_of(rows))).at.tolist() == [0, 10**15]


def lane(*types: str) -> Columns:
    return columns_of([Row(n, n * 1_000_000, "a", type_, False) for n, type_ in enumerate(types)])


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (("node.started", "log.appended", "node.completed"), [Bar(0, 2, 0, 2_000_000, State.OK)]),
        (("node.started", "node.failed"), [Bar(0, 1, 0, 1_000_000, State.FAIL)]),
        (("node.started", "log.appended"), [Bar(0, None, 0, None, State.LIVE)]),
        (
            ("node.started", "node.suspended", "node.resumed", "node.completed"),
            [
                Bar(0, 1, 0, 1_000_000, State.OK),
                Bar(1, 2, 1_000_000, 2_000_000, State.WAIT),
                Bar(2, 3, 2_000_000, 3_000_000, State.OK),
            ],
        ),
        (("node.completed", "log.appended"), []),
        (
            ("node.started", "node.failed", "node.started", "node.completed"),
            [Bar(0, 1, 0, 1_000_000, State.FAIL), Bar(2, 3, 2_000_000, 3_000_000, State.OK)],
        ),
    ],
)
def test_bars_are_the_stretches_in_which_a_lane_was_open(types: tuple[str, ...], expected: list[Bar]) -> None:
    columns = lane(*types)
    window = window_of(columns, 0, len(types) - 1, "time", 100)
    assert bars(columns, window, [1]).get(1, []) == expected


def test_a_bar_that_began_before_the_window_reaches_into_it() -> None:
    columns = lane("node.started", *["log.appended"] * 50, "node.completed")
    window = window_of(columns, 20, 25, "sequence", 100)
    assert bars(columns, window, [1])[1] == [Bar(0, 51, 0, 51_000_000, State.OK)]


def test_gaps_are_the_long_times_without_an_event() -> None:
    moments = [0, 1, 2, 600, 601, 600.5, 2000, 2001]
    columns = columns_of([Row(n, int(at * 1e6), "a", "log.appended", False) for n, at in enumerate(moments)])
    assert [(gap.start, gap.end, (gap.end_at - gap.start_at) / 1e6) for gap in gaps(columns)] == [
        (2, 3, 598),
        (5, 6, 1399),
    ]


def test_a_busy_run_has_no_gaps() -> None:
    rng = np.random.default_rng(3)
    moments = np.cumsum(rng.integers(1, 1000, 5000))
    columns = columns_of([Row(n, int(at), "a", "log.appended", False) for n, at in enumerate(moments)])
    assert gaps(columns) == []
    assert all(a < b for a, b in pairwise(columns.sequences.tolist()))
    assert CHUNK <= 65_536
