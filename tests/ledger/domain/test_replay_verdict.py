"""What a fork did with its source's memory. The recorded forks' writes are named here as they stand in their logs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
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
