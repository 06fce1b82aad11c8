"""Nine classes from counted evidence. Every class has a control that shows it can be reached and can be missed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runs.domain.attribution import (
    AttributionClass,
    Evidence,
    Fact,
    ForkPair,
    ShownWrite,
    Writes,
    classify,
    compare_fork,
    count_writes,
    read_fact,
    unannounced,
)
from runs.domain.capabilities import read_capabilities
from runs.domain.event import RunEvent
from runs.domain.memory_read import MemoryPage, read_list
from runs.domain.normalise import read_event
from runs.domain.snapshots import read_snapshot
from tests.runs.domain.examples import RECORDINGS, compact, event, taken

CAPABILITIES = Path(__file__).resolve().parents[2] / "fixtures" / "capabilities"

ONE = Writes(valid=1, with_node=1)
READ = Evidence(claim=True, runs_read=1)
SUPPRESSING = ForkPair(owed=4, suppressed=1, regenerated=0, is_complete=True)
REGENERATING = ForkPair(owed=4, suppressed=0, regenerated=3, is_complete=True)
STABLE = ForkPair(owed=4, suppressed=0, regenerated=0, is_complete=True)
VACUOUS = ForkPair(owed=0, suppressed=0, regenerated=0, is_complete=True)

CLASSES = [
    pytest.param(replace(READ, writes=ONE), ["attributed"], id="attributed"),
    pytest.param(Evidence(claim=True, writes=ONE), ["attributed"], id="attributed-in-a-run-that-goes-on"),
    pytest.param(Evidence(claim=False, runs_read=3), ["silent"], id="silent"),
    pytest.param(Evidence(claim=False), ["unproven"], id="j19-silence-that-nobody-listened-to"),
    pytest.param(READ, ["unproven"], id="unproven-no-evidence-either-way"),
    pytest.param(Evidence(claim=True), ["unproven"], id="unproven-nothing-read"),
    pytest.param(Evidence(), ["unproven"], id="unproven-no-document"),
    pytest.param(Evidence(runs_read=2, writes=ONE), ["unproven"], id="unproven-no-document-but-events"),
    pytest.param(replace(READ, writes=Writes(stubs=3)), ["unproven"], id="unproven-stubs-only"),
    pytest.param(replace(READ, writes=Writes(invalid=3)), ["unproven"], id="unproven-invalid-only"),
    pytest.param(replace(READ, independent=1, unannounced=1), ["claims-but-silent"], id="claims-but-silent"),
    pytest.param(
        replace(READ, writes=ONE, independent=2, unannounced=1),
        ["attributed", "claims-but-silent"],
        id="some-writes-announced-and-some-not",
    ),
    pytest.param(replace(READ, independent=2), ["unproven"], id="evidence-that-is-announced-is-no-silence"),
    pytest.param(
        Evidence(claim=True, independent=1, unannounced=1), ["unproven"], id="silence-in-a-run-that-was-not-read-whole"
    ),
    pytest.param(
        Evidence(claim=False, runs_read=1, independent=1, unannounced=1), ["silent"], id="no-claim-no-broken-promise"
    ),
    pytest.param(Evidence(claim=False, writes=ONE), ["emits-without-claim"], id="emits-without-claim"),
    pytest.param(replace(READ, writes=replace(ONE, leaks=2)), ["attributed", "leaky"], id="leaky"),
    pytest.param(replace(READ, writes=Writes(redacted=2)), ["payload-redacted"], id="payload-redacted"),
    pytest.param(
        replace(READ, writes=replace(ONE, redacted=1)), ["attributed", "payload-redacted"], id="some-payloads-redacted"
    ),
    pytest.param(
        replace(READ, writes=ONE, forks=(SUPPRESSING,)), ["attributed", "replay-suppressing"], id="replay-suppressing"
    ),
    pytest.param(
        replace(READ, writes=ONE, forks=(REGENERATING,)),
        ["attributed", "replay-regenerating"],
        id="replay-regenerating",
    ),
    pytest.param(
        replace(READ, writes=ONE, forks=(SUPPRESSING, REGENERATING, STABLE)),
        ["attributed", "replay-suppressing", "replay-regenerating"],
        id="forks-of-both-kinds",
    ),
    pytest.param(replace(READ, writes=ONE, forks=(STABLE, VACUOUS)), ["attributed"], id="stable-forks"),
]


@pytest.mark.parametrize(("evidence", "expected"), CLASSES)
def test_h_memory_attribution_emits_on_write(evidence: Evidence, expected: list[AttributionClass]) -> None:
    assert list(classify(evidence).classes) == expected


def test_every_class_is_reached() -> None:
    reached = {name for case in CLASSES for name in case.values[1]}  # type: ignore[union-attr]
    assert len(reached) == 9


REASONS = [
    (Evidence(writes=ONE), "no discovery document was read, so nothing is claimed or denied"),
    (Evidence(claim=True), "no completed run has been read in debug mode yet"),
    (replace(READ, writes=Writes(stubs=1)), "the claim, and only events whose payload has not come"),
    (replace(READ, writes=Writes(invalid=1)), "the claim, and only events whose ids are no text"),
    (READ, "the claim, and nothing that shows that anything was written or not"),
]


@pytest.mark.parametrize(("evidence", "rule"), REASONS)
def test_unproven_says_why(evidence: Evidence, rule: str) -> None:
    (finding,) = classify(evidence).findings
    assert (finding.name, finding.rule) == ("unproven", rule)
    runs, events = evidence.runs_read, evidence.writes.events
    assert finding.counts == (("completed runs read in debug mode", runs), ("memory.written events", events))
    assert finding.is_vacuous is (runs + events == 0)


def test_counts_of_the_other_classes() -> None:
    writes = Writes(valid=2, with_node=1, redacted=3, invalid=4, stubs=5, leaks=6)
    assert writes.events == 14
    evidence = replace(READ, writes=writes, independent=8, unannounced=7, forks=(SUPPRESSING, REGENERATING, VACUOUS))
    assert {finding.name: [count for _, count in finding.counts] for finding in classify(evidence).findings} == {
        "attributed": [2],
        "claims-but-silent": [8, 7],
        "leaky": [6],
        "payload-redacted": [3],
        "replay-suppressing": [2, 1],
        "replay-regenerating": [2, 3],
    }
    (emits,) = classify(Evidence(claim=False, writes=Writes(valid=2, stubs=1))).findings
    assert emits.counts == (("memory.written events", 3),)


@pytest.mark.parametrize("evidence", [case.values[0] for case in CLASSES], ids=[case.id or "" for case in CLASSES])
def test_only_unproven_rests_on_nothing(evidence: Evidence) -> None:
    for finding in classify(evidence).findings:
        assert finding.rule
        assert finding.name == "unproven" or not finding.is_vacuous


@pytest.mark.parametrize(
    ("writes", "coverage"),
    [
        pytest.param(Writes(valid=4, with_node=3), 0.75, id="i13-three-of-four"),
        pytest.param(Writes(valid=2), 0.0, id="i13-none"),
        pytest.param(Writes(redacted=2), None, id="i13-nothing-to-cover"),
    ],
)
def test_node_coverage(writes: Writes, coverage: float | None) -> None:
    assert classify(replace(READ, writes=writes)).node_coverage == coverage


def written(**members: Any) -> RunEvent:
    told = {"type": "memory.written", "payload": {"memoryRef": "notes", "memoryId": "m"}, "nodeId": None}
    return taken(compact(event(**{**told, **members})))


PAYLOADS = [
    pytest.param({}, Writes(valid=1), id="h-memory-attribution-shape-ids"),
    pytest.param({"nodeId": "n"}, Writes(valid=1, with_node=1), id="i13-node-in-the-envelope"),
    pytest.param(
        {"payload": {"memoryRef": "r", "memoryId": "m", "nodeId": "n", "agentId": "a"}},
        Writes(valid=1, with_node=1, with_agent=1),
        id="i13-node-in-the-payload",
    ),
    pytest.param({"payload": ..., "data": {"memoryRef": "r", "memoryId": "m"}}, Writes(valid=1), id="i1-data"),
    pytest.param(
        {"payload": {"memoryRef": "r", "memoryId": "m", "content": "secret words"}},
        Writes(valid=1, leaks=1),
        id="h-memory-attribution-no-content-content",
    ),
    pytest.param(
        {"payload": {"memoryRef": "r", "memoryId": "m", "tags": ["sk-0123456789abcdef0123"]}},
        Writes(valid=1, leaks=1),
        id="h-memory-attribution-no-content-secret",
    ),
    pytest.param({"payload": {"memoryRef": "r"}}, Writes(redacted=1), id="id-dropped"),
    pytest.param({"payload": {"memoryRef": "r", "memoryId": None}}, Writes(redacted=1), id="id-null"),
    pytest.param({"payload": {"memoryRef": "r", "memoryId": "[REDACTED:x]"}}, Writes(redacted=1), id="id-masked"),
    pytest.param({"payload": None}, Writes(redacted=1), id="payload-null"),
    pytest.param({"payload": {"memoryRef": "r", "memoryId": 7}}, Writes(invalid=1), id="id-of-another-kind"),
    pytest.param({"payload": ...}, Writes(stubs=1), id="no-payload-proves-nothing"),
    pytest.param(
        {"type": "x-host-acme-memory-written", "payload": {"content": "c"}}, Writes(leaks=1), id="i14-leak-in-a-twin"
    ),
    pytest.param({"type": "node.completed"}, Writes(), id="another-type"),
]


@pytest.mark.parametrize(("members", "expected"), PAYLOADS)
def test_count_table(members: dict[str, Any], expected: Writes) -> None:
    assert count_writes([written(**members)]) == expected
    assert count_writes([written(**members)] * 3).events == expected.events * 3


def recorded(log: str) -> list[RunEvent]:
    lines = (RECORDINGS / log / "events.ndjson").read_bytes().splitlines()
    events = [read_event(line, index=0) for line in lines]
    return [one for one in events if isinstance(one, RunEvent)]


def facts(log: str) -> list[Fact]:
    return [fact for one in recorded(log) if (fact := read_fact(one)) is not None]


RECORDED_WRITES = {
    "openwop-app/memory-trail": Writes(valid=4, with_node=3),
    "sqlite/memory-multi": Writes(valid=1),
    "postgres/memory-roundtrip": Writes(valid=1),
    "in-memory/memory-multi": Writes(),
    "python/multi-node": Writes(),
}


@pytest.mark.parametrize("log", RECORDED_WRITES)
def test_recorded_writes(log: str) -> None:
    assert count_writes(recorded(log)) == RECORDED_WRITES[log]


def claim_of(host: str) -> bool:
    return read_capabilities(json.loads((CAPABILITIES / f"{host}.json").read_text())).claims_attribution


def test_recorded_hosts() -> None:
    verdicts = {
        log: classify(Evidence(claim=claim_of(log.partition("/")[0]), runs_read=1, writes=count_writes(recorded(log))))
        for log in RECORDED_WRITES
    }
    assert {log: verdict.classes for log, verdict in verdicts.items()} == {
        "openwop-app/memory-trail": ("attributed",),
        "sqlite/memory-multi": ("attributed",),
        "postgres/memory-roundtrip": ("attributed",),
        "in-memory/memory-multi": ("silent",),
        "python/multi-node": ("silent",),
    }
    assert verdicts["openwop-app/memory-trail"].node_coverage == 0.75
    assert verdicts["sqlite/memory-multi"].node_coverage == 0.0


def test_a_write_that_a_recorded_run_read_back_was_never_announced() -> None:
    snapshot = read_snapshot(json.loads((RECORDINGS / "postgres/memory-roundtrip/snapshot.json").read_text()))
    shown = [ShownWrite("read-back", snapshot.run_id, None, one.memory_id) for one in snapshot.read_back]
    announced = {(fact.memory_ref or "", fact.memory_id or "") for fact in facts("postgres/memory-roundtrip")}
    silent = unannounced(shown, announced)
    assert [one.memory_id for one in silent] == [f"mem-{snapshot.run_id}-roundtrip"]
    evidence = Evidence(
        claim=claim_of("postgres"),
        runs_read=1,
        writes=count_writes(recorded("postgres/memory-roundtrip")),
        independent=len(shown),
        unannounced=len(silent),
    )
    assert classify(evidence).classes == ("attributed", "claims-but-silent")


def test_recorded_entries_of_a_run_are_all_announced() -> None:
    page = read_list(200, (RECORDINGS / "openwop-app/memory-trail/memory.json").read_bytes())
    assert isinstance(page, MemoryPage)
    shown = [
        ShownWrite("tagged-entry", run_id, page.memory_ref, entry.id)
        for entry in page.entries
        if entry.inferred
        for run_id in entry.inferred.run_ids
    ]
    announced = {(fact.memory_ref or "", fact.memory_id or "") for fact in facts("openwop-app/memory-trail")}
    assert len(shown) == 4 and unannounced(shown, announced) == []
    assert unannounced(shown, set()) == shown  # the control


SHOWN = ShownWrite("tagged-entry", "run-1", "notes", "m")


@pytest.mark.parametrize(
    ("shown", "announced", "count"),
    [
        ([SHOWN], {("notes", "m")}, 0),
        ([SHOWN], {("other", "m")}, 1),
        ([replace(SHOWN, memory_ref=None)], {("other", "m")}, 0),
        ([replace(SHOWN, memory_ref=None)], {("other", "n")}, 1),
        ([SHOWN, replace(SHOWN, kind="compaction")], set(), 1),
        ([], {("notes", "m")}, 0),
    ],
)
def test_what_counts_as_announced(shown: list[ShownWrite], announced: set[tuple[str, str]], count: int) -> None:
    assert len(unannounced(shown, announced)) == count


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"memoryRef": "r", "memoryId": "m"}, ("r", "m")),
        ({"memoryRef": "", "memoryId": 7}, (None, None)),
        (None, (None, None)),
    ],
)
def test_ids_of_a_fact(payload: object, expected: tuple[str | None, str | None]) -> None:
    told = read_fact(written(payload=payload))
    assert told is not None
    assert (told.memory_ref, told.memory_id) == expected
    assert read_fact(written(type="memory.compacted")) is None


def fact(sequence: int, memory_id: str | None, *, node: str | None = "n", type: str = "memory.written") -> Fact:
    return Fact(sequence, type, node, "notes", memory_id)


SOURCE = [fact(3, "a"), fact(5, "b"), fact(8, "c", node=None)]

PAIRS = [
    pytest.param("replay", 0, [fact(2, "a"), fact(4, "b"), fact(6, "c", node=None)], (3, 0, 0), id="j15-stable"),
    pytest.param("replay", 0, [fact(3, "a"), fact(5, "b")], (3, 1, 0), id="j15-suppressing"),
    pytest.param("replay", 0, [], (3, 3, 0), id="j15-suppressing-all"),
    pytest.param("replay", 0, [fact(3, "x"), fact(5, "y"), fact(8, "z", node=None)], (3, 0, 3), id="j15-regenerating"),
    pytest.param("replay", 0, [fact(3, "x"), fact(5, "b")], (3, 1, 1), id="h-replay-stable-both"),
    pytest.param("replay", 0, [fact(3, "b"), fact(5, "a"), fact(8, "c", node=None)], (3, 0, 0), id="order-changed"),
    pytest.param(
        "replay", 0, [fact(3, "a"), fact(5, "b"), fact(8, "x")], (3, 1, 1), id="another-nodes-write-replaces-none"
    ),
    pytest.param("replay", 0, [fact(3, "a"), fact(5, "b"), fact(8, None, node=None)], (3, 0, 0), id="id-left-out"),
    pytest.param(
        "replay",
        0,
        [fact(3, "a"), fact(5, "b"), fact(8, "c", node=None), fact(9, "b")],
        (3, 0, 0),
        id="one-id-announced-twice",
    ),
    pytest.param("branch", 6, [fact(3, "a"), fact(5, "b"), fact(9, "new")], (2, 0, 0), id="branch-writes-its-own"),
    pytest.param("branch", 6, [fact(3, "a"), fact(9, "new")], (2, 1, 0), id="branch-lost-some-of-its-prefix"),
    pytest.param("branch", 6, [fact(3, "a"), fact(5, "new")], (2, 0, 1), id="branch-changed-its-prefix"),
    pytest.param("branch", 0, [fact(3, "new")], (0, 0, 0), id="branch-from-the-beginning"),
]


@pytest.mark.parametrize(("mode", "place", "fork", "expected"), PAIRS)
def test_h_memory_attribution_replay_stable(
    mode: Any, place: int, fork: list[Fact], expected: tuple[int, int, int]
) -> None:
    pair = compare_fork(SOURCE, fork, mode=mode, from_sequence=place, is_complete=True)
    assert (pair.owed, pair.suppressed, pair.regenerated) == expected
    assert pair.is_telling == (expected != (0, 0, 0))


def test_nothing_is_missing_before_the_end() -> None:
    pair = compare_fork(SOURCE, [fact(3, "x")], mode="replay", from_sequence=0, is_complete=False)
    assert (pair.suppressed, pair.regenerated) == (0, 1)


def test_other_recorded_facts_are_owed_too() -> None:
    source = [
        fact(1, None, type="agent.memory.consolidated"),
        fact(2, "m", type="commitment.fired"),
        fact(3, "c", type="memory.compacted"),
    ]
    assert compare_fork(source, [], mode="replay", from_sequence=0, is_complete=True).suppressed == 2


RECORDED_FORKS = {
    "fork-replay": ("replay", 0, (4, 1, 3)),
    "fork-replay-0": ("replay", 0, (4, 1, 3)),
    "fork-branch-0": ("branch", 0, (0, 0, 0)),
    "fork-branch-mid": ("branch", 10, (1, 0, 0)),
    "fork-branch-end": ("branch", 18, (4, 0, 0)),
}


@pytest.mark.parametrize("name", RECORDED_FORKS)
def test_recorded_forks(name: str) -> None:
    mode, place, expected = RECORDED_FORKS[name]
    source, fork = facts("openwop-app/forks/source"), facts(f"openwop-app/forks/{name}")
    pair = compare_fork(source, fork, mode=mode, from_sequence=place, is_complete=True)  # type: ignore[arg-type]
    assert (pair.owed, pair.suppressed, pair.regenerated) == expected


def test_recorded_app_with_its_replay() -> None:
    source, fork = facts("openwop-app/forks/source"), facts("openwop-app/forks/fork-replay")
    evidence = Evidence(
        claim=claim_of("openwop-app"),
        runs_read=2,
        writes=count_writes(recorded("openwop-app/forks/source"))
        + count_writes(recorded("openwop-app/forks/fork-replay")),
        forks=(compare_fork(source, fork, mode="replay", from_sequence=0, is_complete=True),),
    )
    verdict = classify(evidence)
    assert verdict.classes == ("attributed", "replay-suppressing", "replay-regenerating")
    assert dict(verdict.findings[1].counts) == {"pairs compared": 1, "events lacking": 1}
    assert dict(verdict.findings[2].counts) == {"pairs compared": 1, "ids made anew": 3}
