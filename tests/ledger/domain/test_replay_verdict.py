"""What a fork did with its source's memory. The recorded forks' writes are named here as they stand in their logs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ledger.domain.replay_verdict import FACTS, MemoryFact, MemoryVerdict, Mode, Steps, judge

FORKS = Path("tests/fixtures/recordings/openwop-app/forks")
SEEN_BY_ITS_OWNER = Path("tests/fixtures/forks/fork-by-other-tenant.ndjson")
"""A fork that another tenant started could be read by the owner of its source only."""
BEGINNING = datetime(2026, 3, 1, 9, tzinfo=UTC)


def events(name: str) -> list[dict[str, Any]]:
    file = SEEN_BY_ITS_OWNER if name == "fork-by-other-tenant" else FORKS / name / "events.ndjson"
    return [json.loads(line) for line in file.read_text().splitlines()]


def facts(name: str) -> list[MemoryFact]:
    return [
        MemoryFact(
            sequence=one["sequence"],
            type=one["type"],
            node=one.get("nodeId"),
            memory_ref=one["payload"]["memoryRef"],
            memory_id=one["payload"]["memoryId"],
            at=datetime.fromisoformat(one["timestamp"]),
        )
        for one in events(name)
        if one["type"] in FACTS
    ]


def starts(name: str) -> tuple[tuple[int, str], ...]:
    return tuple((one["sequence"], one["nodeId"]) for one in events(name) if one["type"] == "node.started")


def verdict(fork: str, mode: Mode, from_sequence: int, *, source: str = "source") -> MemoryVerdict:
    return judge(
        facts(source),
        facts(fork),
        mode=mode,
        from_sequence=from_sequence,
        is_complete=True,
        steps=Steps(starts(source)[0][1], starts(fork)),
    )


def named(verdict: MemoryVerdict, kind: str) -> list[tuple[int | None, int | None]]:
    (finding,) = [one for one in verdict.findings if one.kind == kind]
    return [
        (pair.source.sequence if pair.source else None, pair.fork.sequence if pair.fork else None)
        for pair in finding.pairs
    ]


@pytest.mark.parametrize("fork", ["fork-replay", "fork-replay-0"])
def test_the_recorded_replay_leaves_the_summary_out_and_makes_the_rest_anew(fork: str) -> None:
    found = verdict(fork, "replay", 0)
    assert found.kinds == ("suppressing", "regenerating")
    assert named(found, "suppressing") == [(17, None)]
    assert named(found, "regenerating") == [(5, 5), (10, 10), (15, 15)]
    assert (found.owed, found.repeated, found.restarted_at) == (4, (), None)


def test_a_replay_of_a_failed_run_makes_its_write_anew() -> None:
    found = verdict("fork-replay-of-failed", "replay", 0, source="failed-source")
    assert found.kinds == ("regenerating",)
    assert named(found, "regenerating") == [(3, 3)]


@pytest.mark.parametrize(
    ("fork", "point", "restarted", "repeated", "own"),
    [
        ("fork-branch-0", 0, 2, [], [5, 10, 15, 17]),
        ("fork-branch-overlay", 5, 7, [5], [10, 15, 20, 22]),
        ("fork-by-other-tenant", 5, 7, [5], [10, 15, 20, 22]),
        ("fork-branch-mid", 10, 12, [5, 10], [15, 20, 25, 27]),
        ("fork-branch-end", 18, 20, [5, 10, 15, 17], [23, 28, 33, 35]),
    ],
)
def test_each_recorded_branch_is_a_branch_that_began_again_with_the_first_node(
    fork: str, point: int, restarted: int, repeated: list[int], own: list[int]
) -> None:
    found = verdict(fork, "branch", point)
    assert found.kinds == ("branch",)
    assert found.restarted_at == restarted
    assert [pair.fork.sequence for pair in found.repeated if pair.fork] == repeated
    assert named(found, "branch") == [(None, sequence) for sequence in own]


def fact(
    sequence: int, memory_id: str | None, *, node: str = "n", times: tuple[tuple[str, str], ...] = ()
) -> MemoryFact:
    at = BEGINNING + timedelta(seconds=sequence)
    return MemoryFact(sequence, "memory.written", node, "notes", memory_id, at, times)


SOURCE = [fact(2, "a", node="x"), fact(5, "b", node="y"), fact(8, "c", node="z")]


def later(one: MemoryFact) -> MemoryFact:
    return MemoryFact(one.sequence, one.type, one.node, one.memory_ref, one.memory_id, one.at + timedelta(days=1))


@pytest.mark.parametrize(
    ("fork", "mode", "point", "whole", "kinds", "words"),
    [
        (SOURCE, "replay", 0, True, ("stable",), "All of 3 facts came again with their ids."),
        ([later(one) for one in SOURCE], "replay", 0, True, ("stable",), "All of 3 facts"),
        (SOURCE[:2], "replay", 0, True, ("suppressing",), "1 fact of the source does not come again"),
        (SOURCE[:2], "replay", 0, False, ("stable",), "2 of 3 facts came again so far"),
        ([*SOURCE[:2], fact(8, "d", node="z")], "replay", 0, True, ("regenerating",), "1 fact came under a new id"),
        ([*SOURCE, fact(9, "d", node="z")], "replay", 0, True, ("regenerating",), "no counterpart"),
        ([*SOURCE, fact(9, "d", node="z")], "fork", None, True, ("regenerating",), "no counterpart"),
        ([*SOURCE[:1], fact(9, "d")], "branch", 4, True, ("branch",), "1 fact of its own after the fork point, #4."),
        ([fact(9, "d")], "branch", 4, True, ("suppressing", "branch"), "1 fact of the source does not"),
        ([fact(2, "n", node="x")], "branch", 4, True, ("regenerating", "branch"), "1 fact came under a new id"),
        (SOURCE, "branch", None, True, ("branch",), "No fact of its own"),
        ([fact(2, "a"), fact(3, "q")], "", None, True, ("unrelated",), "1 fact in both, 2 only in the first, 1 only"),
    ],
)
def test_every_verdict(
    fork: list[MemoryFact], mode: Mode, point: int | None, whole: bool, kinds: tuple[str, ...], words: str
) -> None:
    found = judge(SOURCE, fork, mode=mode, from_sequence=point, is_complete=whole)
    assert found.kinds == kinds
    assert words in found.findings[0].words


def test_a_fact_that_comes_with_other_times_of_its_own_is_made_anew() -> None:
    source, fork = ([fact(2, "a", times=(("createdAt", at),))] for at in ("2026-01-01", "2026-01-02"))
    found = judge(source, fork, mode="replay", from_sequence=0, is_complete=True)
    assert found.kinds == ("regenerating",)
    assert named(found, "regenerating") == [(2, 2)]


def test_another_clock_is_counted_and_no_verdict() -> None:
    found = judge(SOURCE, [later(one) for one in SOURCE], mode="replay", from_sequence=0, is_complete=True)
    assert (found.kinds, found.retimed) == (("stable",), 3)


def test_a_source_that_says_nothing_about_memory_proves_nothing() -> None:
    assert judge([], [], mode="replay", from_sequence=0, is_complete=True).kinds == ("silent",)


def test_a_branch_that_goes_on_did_not_begin_again() -> None:
    steps = Steps("x", ((1, "x"), (6, "y")))
    found = judge(SOURCE, SOURCE, mode="branch", from_sequence=5, is_complete=True, steps=steps)
    assert found.restarted_at is None


def test_an_entry_that_is_written_twice_is_owed_twice() -> None:
    source = [fact(2, "a"), fact(5, "a")]
    found = judge(source, [fact(2, "a")], mode="replay", from_sequence=0, is_complete=True)
    assert named(found, "suppressing") == [(5, None)]


def judged(
    source: list[MemoryFact],
    fork: list[MemoryFact],
    mode: Mode = "replay",
    point: int | None = 0,
    *,
    whole: bool = True,
) -> MemoryVerdict:
    return judge(source, fork, mode=mode, from_sequence=point, is_complete=whole)


def pairs(found: MemoryVerdict) -> list[list[tuple[int | None, int | None]]]:
    return [named(found, kind) for kind in found.kinds]


def retold(one: MemoryFact) -> MemoryFact:
    return replace(one, times=(("createdAt", "2026-01-02"),))


ONE = SOURCE[:1]
ANEW = [fact(2, "a2", node="x"), fact(5, "b2", node="y"), fact(8, "c2", node="z")]
MANY = [fact(number, f"m{number}") for number in range(1, 1235)]

SENTENCES: list[tuple[Callable[[], MemoryVerdict], list[str], list[list[tuple[int | None, int | None]]]]] = [
    (partial(judged, ONE, ONE), ["All of 1 fact came again with its id."], [[(2, 2)]]),
    (partial(judged, SOURCE, SOURCE), ["All of 3 facts came again with their ids."], [[(2, 2), (5, 5), (8, 8)]]),
    (
        partial(judged, SOURCE, SOURCE, whole=False),
        ["All of 3 facts came again with their ids."],
        [[(2, 2), (5, 5), (8, 8)]],
    ),
    (
        partial(judged, MANY, MANY),
        ["All of 1,234 facts came again with their ids."],
        [[(n, n) for n in range(1, 1235)]],
    ),
    (
        partial(judged, SOURCE, SOURCE[:2], whole=False),
        ["2 of 3 facts came again so far; the logs are not whole yet."],
        [[(2, 2), (5, 5)]],
    ),
    (partial(judged, SOURCE, [], whole=False), ["0 of 3 facts came again so far; the logs are not whole yet."], [[]]),
    (partial(judged, [], []), ["The source has no fact about memory, so there was nothing to repeat."], [[]]),
    (partial(judged, SOURCE, SOURCE[1:]), ["1 fact of the source does not come again in the fork."], [[(2, None)]]),
    (partial(judged, SOURCE, ONE), ["2 facts of the source do not come again in the fork."], [[(5, None), (8, None)]]),
    (partial(judged, SOURCE, [*ANEW[:1], *SOURCE[1:]]), ["1 fact came under a new id."], [[(2, 2)]]),
    (partial(judged, SOURCE, ANEW), ["3 facts came under a new id."], [[(2, 2), (5, 5), (8, 8)]]),
    (partial(judged, ONE, [*ONE, fact(9, "q")]), ["1 fact has no counterpart in the source."], [[(None, 9)]]),
    (
        partial(judged, ONE, [*ONE, fact(9, "q"), fact(11, "r", node="x"), fact(12, "s")]),
        ["3 facts have no counterpart in the source."],
        [[(None, 9), (None, 11), (None, 12)]],
    ),
    (partial(judged, ONE, [retold(ONE[0])]), ["1 fact came with other times of its own."], [[(2, 2)]]),
    (
        partial(judged, SOURCE, [retold(one) for one in SOURCE]),
        ["3 facts came with other times of their own."],
        [[(2, 2), (5, 5), (8, 8)]],
    ),
    (
        partial(judged, SOURCE, [retold(SOURCE[0]), *ANEW[1:], fact(9, "q")]),
        [
            "2 facts came under a new id, 1 fact has no counterpart in the source"
            " and 1 fact came with other times of its own."
        ],
        [[(5, 5), (8, 8), (None, 9), (2, 2)]],
    ),
    (
        partial(judged, SOURCE, [*SOURCE[:1], *ANEW[1:], fact(9, "q")]),
        ["2 facts came under a new id and 1 fact has no counterpart in the source."],
        [[(5, 5), (8, 8), (None, 9)]],
    ),
    (partial(judged, SOURCE, ONE, "branch", 4), ["No fact of its own after the fork point, #4."], [[]]),
    (
        partial(judged, SOURCE, [*ONE, fact(4, "q"), fact(9, "d")], "branch", 4),
        ["2 facts of its own after the fork point, #4."],
        [[(None, 4), (None, 9)]],
    ),
    (
        partial(judged, SOURCE, [fact(1, "q")], "branch", None),
        ["1 fact of its own after the fork point, which is not known."],
        [[(None, 1)]],
    ),
    (
        partial(judged, SOURCE, [fact(1, "q"), fact(9, "d")], "branch", 4),
        [
            "1 fact of the source does not come again in the fork.",
            "1 fact has no counterpart in the source.",
            "1 fact of its own after the fork point, #4.",
        ],
        [[(2, None)], [(None, 1)], [(None, 9)]],
    ),
    (
        partial(judged, SOURCE, [fact(4, "a"), fact(6, "q"), fact(7, "r")], ""),
        [
            "Neither run is known to be a fork of the other, so neither owes the other anything:"
            " 1 fact in both, 2 only in the first, 2 only in the second."
        ],
        [[(2, 4), (5, None), (8, None), (None, 6), (None, 7)]],
    ),
]


@pytest.mark.parametrize(("judging", "sentences", "rests_on"), SENTENCES)
def test_a_verdict_says_why_and_what_it_rests_on(
    judging: Callable[[], MemoryVerdict], sentences: list[str], rests_on: list[list[tuple[int | None, int | None]]]
) -> None:
    found = judging()
    assert [one.words for one in found.findings] == sentences
    assert pairs(found) == rests_on


def test_what_counts_as_the_same_fact() -> None:
    one = SOURCE[0]
    for other in (replace(one, type="commitment.fired"), replace(one, memory_ref="other"), replace(one, memory_id="q")):
        assert judged([one], [other]).repeated == ()
    moved = replace(one, node="other", sequence=40)
    assert [(pair.source, pair.fork) for pair in judged([one], [moved]).repeated] == [(one, moved)]


def test_a_fact_without_an_id_is_matched_by_its_place() -> None:
    one = fact(2, None, node="x")
    again = fact(40, None, node="x")
    assert [(pair.source, pair.fork) for pair in judged([one], [again]).repeated] == [(one, again)]
    for other in (
        replace(again, node="y"),
        replace(again, type="commitment.fired"),
        replace(again, memory_ref="other"),
        replace(again, memory_id="q"),
    ):
        assert judged([one], [other]).repeated == ()


def test_only_what_is_in_its_place_is_the_same_fact_made_anew() -> None:
    one = SOURCE[0]
    assert judged([one], [replace(one, memory_id="q", sequence=40)]).kinds == ("regenerating",)
    for other in (replace(one, node="y"), replace(one, type="commitment.fired"), replace(one, memory_ref="other")):
        found = judged([one], [replace(other, memory_id="q")])
        assert pairs(found) == [[(2, None)], [(None, 2)]]


def test_facts_of_one_name_and_of_one_place_are_matched_in_turn() -> None:
    twice = [fact(2, "a"), fact(5, "a")]
    found = judged(twice, [fact(3, "a"), fact(7, "a")])
    assert [(one.source.sequence, one.fork.sequence) for one in found.repeated if one.source and one.fork] == [
        (2, 3),
        (5, 7),
    ]
    assert pairs(judged([fact(2, "a"), fact(5, "b")], [fact(3, "q"), fact(7, "r")])) == [[(2, 3), (5, 7)]]


def test_what_a_fork_owes_and_what_came_with_another_clock() -> None:
    fork = [later(SOURCE[0]), SOURCE[1]]
    counted = [(mode, point) for mode in ("replay", "fork", "branch") for point in (5, 6, None)]
    owed = [judge(SOURCE, fork, mode=mode, from_sequence=point, is_complete=True).owed for mode, point in counted]  # type: ignore[arg-type]
    assert owed == [3, 3, 3, 3, 3, 3, 1, 2, 0]
    assert judged(SOURCE, fork).retimed == 1
    assert (judged(SOURCE, fork).is_complete, judged(SOURCE, fork, whole=False).is_complete) == (True, False)


@pytest.mark.parametrize(
    ("mode", "point", "starts_", "restarted"),
    [
        ("branch", 5, ((5, "x"), (6, "x"), (7, "x")), 6),
        ("branch", 5, ((6, "y"), (7, "x")), None),
        ("branch", 5, ((5, "x"),), None),
        ("branch", 1, ((1, "x"), (2, "x")), 2),
        ("branch", 0, ((0, "x"), (2, "x")), 0),
        ("branch", None, ((0, "x"), (2, "x")), 0),
        ("branch", None, (), None),
        ("replay", 5, ((6, "x"),), None),
        ("", None, ((6, "x"),), None),
    ],
)
def test_where_a_branch_began_again(
    mode: Mode, point: int | None, starts_: tuple[tuple[int, str], ...], restarted: int | None
) -> None:
    found = judge(SOURCE, [], mode=mode, from_sequence=point, is_complete=True, steps=Steps("x", starts_))
    assert found.restarted_at == restarted


def test_of_steps_that_nobody_told_nothing_is_said() -> None:
    assert judged(SOURCE, SOURCE, "branch", 5).restarted_at is None
