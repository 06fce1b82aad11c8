"""Pairing two runs: what is the same, and exactly what was added, removed and changed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runs.domain import exact_json
from runs.domain.comparison import (
    ABSENT,
    ADDED,
    CHANGED,
    REMOVED,
    SAME,
    Comparison,
    Side,
    compare,
    determinism,
    is_same_payload,
    without_volatile,
)

FORKS = Path("tests/fixtures/recordings/openwop-app/forks")


def log(*told: tuple[str, str | None, Any]) -> list[Side]:
    """(type, node, payload), from sequence 0."""
    return [Side(sequence, *one[:2], json.dumps(one[2]).encode()) for sequence, one in enumerate(told)]


def recorded(name: str) -> tuple[list[Side], str]:
    events = [json.loads(line) for line in (FORKS / name / "events.ndjson").read_text().splitlines()]
    sides = [
        Side(one["sequence"], one["type"], one.get("nodeId"), json.dumps(one["payload"]).encode()) for one in events
    ]
    return sides, events[0]["runId"]


def differences(comparison: Comparison) -> list[tuple[int, int, int]]:
    return [(pair.op, pair.a, pair.b) for pair in comparison.pairs() if pair.op != SAME]


SOURCE = log(
    ("run.started", None, {"workflowId": "w"}),  # 0
    ("node.started", "a", {}),  # 1
    ("node.completed", "a", {"outputs": 1, "durationMs": 12}),  # 2
    ("log.appended", "a", {"message": "hello"}),  # 3
    ("node.started", "b", {}),  # 4
    ("node.completed", "b", {"outputs": 2}),  # 5
    ("run.completed", None, {}),  # 6
)


def test_a_replay_with_other_durations_and_log_lines_is_the_same() -> None:
    replay = log(
        ("run.started", None, {"workflowId": "w"}),
        ("lease.acquired", None, {"holder": "x"}),
        ("node.started", "a", {}),
        ("node.completed", "a", {"outputs": 1, "durationMs": 99}),
        ("node.started", "b", {}),
        ("node.completed", "b", {"outputs": 2}),
        ("run.completed", None, {}),
    )
    found = compare(SOURCE, replay)
    assert (found.counts, found.ignored, found.diverged_at) == ([6, 0, 0, 0], (1, 1), None)


def test_nodes_that_ran_beside_each_other_may_come_in_any_order() -> None:
    other = log(*((one.type, one.node, json.loads(one.payload)) for one in [SOURCE[i] for i in (0, 4, 1, 5, 2, 3, 6)]))
    assert compare(SOURCE, other).differing == 0


def test_exactly_what_was_added_removed_and_changed() -> None:
    other = log(
        ("run.started", None, {"workflowId": "w"}),  # 0
        ("node.started", "a", {}),  # 1
        ("node.failed", "a", {"error": {"code": "x"}}),  # 2
        ("node.started", "a", {}),  # 3
        ("node.completed", "a", {"outputs": 7}),  # 4
        ("run.completed", None, {}),  # 5
    )
    found = compare(SOURCE, other)
    assert sorted(differences(found)) == sorted(
        [(ADDED, ABSENT, 2), (ADDED, ABSENT, 3), (CHANGED, 2, 4), (REMOVED, 4, ABSENT), (REMOVED, 5, ABSENT)]
    )
    assert found.counts == [3, 1, 2, 2]
    assert found.diverged_at == 2
    # In the order of the first run, what is new in front of what follows it in the second one.
    assert [(pair.a, pair.b) for pair in found.pairs()] == [
        (0, 0), (1, 1), (ABSENT, 2), (ABSENT, 3), (2, 4), (4, ABSENT), (5, ABSENT), (6, 5),
    ]  # fmt: skip


def test_walking_the_differences() -> None:
    found = compare(SOURCE, log(("run.started", None, {"workflowId": "other"}), ("node.started", "a", {})))
    places = [place for place in range(len(found)) if found.is_different(place)]
    assert found.next_difference(-1) == places[0]
    assert found.next_difference(places[-1]) is None
    assert found.previous_difference(len(found)) == places[-1]
    assert found.previous_difference(places[0]) is None


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("", "null", True),
        ("", "{}", False),
        ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}', True),
        ('{"a": 1}', '{"a": 1.0}', False),
        ('{"a": 1}', '{"a": true}', False),
        ('{"a": 0.5}', '{"a": 0.50}', False),
        ('{"a": 36893488147419103232}', '{"a": 36893488147419103233}', False),
        ('{"a": 36893488147419103232}', '{"a":36893488147419103232}', True),
        ('{"durationMs": 1, "a": 2}', '{"durationMs": 0.5, "a": 2}', True),
        ('{"durationMs": 1, "a": 2}', '{"a": 2}', True),
        ('{"deep": [{"timestamp": 1}]}', '{"deep": [{"timestamp": 2}]}', True),
        ('{"deep": [1, 2]}', '{"deep": [2, 1]}', False),
        ('{"a": null}', "{}", False),
        ('{"runId": "A"}', '{"runId": "B"}', True),
        ('{"tags": ["run-id:A", "A"]}', '{"tags": ["run-id:B", "B"]}', True),
        ('{"tags": ["run-id:A"]}', '{"tags": ["run-id:C"]}', False),
        ('{"memoryId": "mem-A-summary"}', '{"memoryId": "mem-B-summary"}', False),
        ('{"a": "\\ud800"}', '{"a":"\\ud800"}', True),
        ('{"a": "\\ud800"}', '{"a":"\\ud801"}', False),
    ],
)
def test_payloads_are_held_against_each_other(a: str, b: str, same: bool) -> None:
    assert is_same_payload(a.encode(), b.encode(), run_a="A", run_b="B") is same
    assert is_same_payload(b.encode(), a.encode(), run_a="B", run_b="A") is same


def test_what_is_volatile_is_left_out_of_what_is_shown() -> None:
    value = exact_json.loads('{"durationMs": 3, "a": [{"runId": "A", "x": "run-id:A"}], "n": 1}')
    assert exact_json.dumps(without_volatile(value, run="A")) == b'{"a":[{"x":"run-id:~"}],"n":1}'


def test_the_recorded_replay_differs_where_ids_were_made_anew() -> None:
    (source, a), (fork, b) = recorded("source"), recorded("fork-replay")
    found = compare(source, fork, run_a=a, run_b=b)
    # 5, 10, 15: the writes; 6, 11, 16 and 18: outputs with their ids; 8: a search for one of them; 17: the summary.
    assert sorted((op, at) for op, at, _ in differences(found)) == [
        *((CHANGED, at) for at in (5, 6, 8, 10, 11, 15, 16, 18)),
        (REMOVED, 17),
    ]
    report = determinism(found, mode="replay", from_sequence=0)
    assert (report.scope, report.matched, report.compared, report.first_divergence) == ("whole", 9, 18, 5)
    assert report.score == 0.5


@pytest.mark.parametrize(
    ("fork", "point", "compared"),
    [("fork-branch-0", 0, 0), ("fork-branch-overlay", 5, 4), ("fork-branch-mid", 10, 9), ("fork-branch-end", 18, 17)],
)
def test_of_a_recorded_branch_the_events_before_its_fork_point_are_the_same(
    fork: str, point: int, compared: int
) -> None:
    (source, a), (branch, b) = recorded("source"), recorded(fork)
    report = determinism(compare(source, branch, run_a=a, run_b=b), mode="branch", from_sequence=point)
    assert (report.scope, report.matched, report.compared, report.first_divergence) == (
        "prefix",
        compared,
        compared,
        None,
    )
    assert report.score == (1.0 if compared else None)


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["run.started", "node.started", "node.completed", "log.appended", "memory.written"]),
        st.sampled_from([None, "a", "b"]),
        st.one_of(
            st.integers(0, 2), st.dictionaries(st.sampled_from(["x", "durationMs"]), st.integers(0, 2), max_size=2)
        ),
    ),
    max_size=25,
)


def keys(sides: Iterable[Side]) -> list[int]:
    return [side.sequence for side in sides if not side.type.startswith("log.")]


@settings(max_examples=200, deadline=None)
@given(told=EVENTS)
def test_a_run_beside_itself_is_all_the_same(told: list[tuple[str, str | None, Any]]) -> None:
    run = log(*told)
    found = compare(run, run)
    assert found.matched == len(found) == len(keys(run))
    assert found.diverged_at is None


@settings(max_examples=200, deadline=None)
@given(one=EVENTS, other=EVENTS)
def test_comparing_is_symmetric_and_loses_nothing(
    one: list[tuple[str, str | None, Any]], other: list[tuple[str, str | None, Any]]
) -> None:
    a, b = log(*one), log(*other)
    there, back = compare(a, b), compare(b, a)
    turned = {SAME: SAME, CHANGED: CHANGED, ADDED: REMOVED, REMOVED: ADDED}
    assert {tuple(pair) for pair in there.pairs()} == {(turned[op], x, y) for op, y, x in back.pairs()}
    assert there.diverged_at == back.diverged_at
    assert sorted(pair.a for pair in there.pairs() if pair.a != ABSENT) == keys(a)
    assert sorted(pair.b for pair in there.pairs() if pair.b != ABSENT) == keys(b)
    assert sum(there.counts) == len(there)
