"""The demo's runs on a time that the test moves."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest

from openwop_ui.demo import wire
from openwop_ui.demo.engine import KEPT_ENTRIES, KEPT_RUNS, Engine, Entry, Event, Run
from openwop_ui.demo.workflows import OFTEN, WORKFLOWS
from runs.domain.event import RunEvent
from runs.domain.normalise import read_event

HOUR = 3600
BEGINNING = 1_795_975_200.0
VENDOR_OR_PROTOCOL_2 = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\.[a-z][a-z0-9]*(-[a-z0-9]+)*")


def engine(*, seed: str = "s", boot: str = "b") -> Engine:
    return Engine(seed=seed, boot=boot, now=BEGINNING)


@cache
def an_hour() -> tuple[Run, ...]:
    """Each run that ended within an hour, in order of its start."""
    playing = engine()
    ended: dict[str, Run] = {}
    for second in range(HOUR):
        playing.advance(BEGINNING + second)
        ended |= {run.run_id: run for run in playing.runs.values() if run.is_over}
        assert sum(not run.is_over and run.parent is None for run in playing.runs.values()) <= 3
    return tuple(sorted(ended.values(), key=lambda run: run.started))


def told(kind: str) -> Iterator[tuple[Run, Event]]:
    return ((run, event) for run in an_hour() for event in run.events if event.type == kind)


def log_of(playing: Engine) -> list[tuple[str, list[Event]]]:
    return [(run.run_id, run.events) for run in playing.runs.values()]


def test_the_same_seed_and_boot_give_the_same_runs_however_time_is_cut() -> None:
    fine, coarse = engine(), engine()
    for step in range(600):
        fine.advance(BEGINNING + step / 5)
    coarse.advance(BEGINNING + 599 / 5)

    assert log_of(fine) == log_of(coarse)
    assert len(fine.runs) > 5


def test_another_boot_has_other_ids() -> None:
    one, other = engine(boot="1"), engine(boot="2")
    one.advance(BEGINNING + 300)
    other.advance(BEGINNING + 300)

    assert not set(one.runs) & set(other.runs)


def test_each_kind_is_shown_and_soon() -> None:
    playing = engine()
    playing.advance(BEGINNING + 180)

    assert {run.workflow for run in playing.runs.values()} == set(WORKFLOWS)
    kinds = {event.type for run in playing.runs.values() for event in run.events}
    assert {"memory.written", "memory.compacted", "approval.requested", "node.retried", "run.failed"} <= kinds
    assert Counter(run.workflow for run in an_hour()).keys() == set(WORKFLOWS)
    assert set(OFTEN) == set(WORKFLOWS) - {"onboarding.profile"}


def test_runs_last_long_enough_to_be_watched() -> None:
    for run in an_hour():
        assert run.ended is not None
        if run.parent is None:
            assert 7 <= run.ended - run.started <= 45, run.workflow
    assert 100 < len(an_hour()) < 600


def test_a_log_is_whole_and_ends_once_and_last() -> None:
    for run in an_hour():
        assert [event.sequence for event in run.events] == list(range(len(run.events)))
        assert [event.at for event in run.events] == sorted(event.at for event in run.events)
        ends = [event.type for event in run.events if event.type in ("run.completed", "run.failed", "run.cancelled")]
        assert ends == [run.events[-1].type] == [f"run.{run.status}"]


def test_every_node_that_started_ended() -> None:
    for run in an_hour():
        nodes = [
            (event.type, event.node)
            for event in run.events
            if event.type in ("node.started", "node.completed", "node.failed")
        ]
        started = Counter(node for kind, node in nodes if kind == "node.started")
        ended = Counter(node for kind, node in nodes if kind != "node.started")
        assert started == ended


def test_tool_calls_come_in_pairs() -> None:
    calls = {event.payload["callId"]: (run, event) for run, event in told("agent.toolCalled")}
    returns = list(told("agent.toolReturned"))

    assert len(returns) == len(calls) > 0
    for run, event in returns:
        called_in, call = calls[event.payload["callId"]]
        assert (run.run_id, event.cause) == (called_in.run_id, call.event_id)
        assert call.at < event.at
        assert event.payload["durationMs"] == round((event.at - call.at) * 1000)


def test_memory_events_name_entries_and_never_hold_content() -> None:
    written = set()
    for _, event in sorted((pair for pair in told("memory.written")), key=lambda pair: pair[1].at):
        assert set(event.payload) <= {"memoryRef", "memoryId", "nodeId", "agentId", "tags"}
        assert event.payload.get("nodeId") == event.node
        written.add((event.payload["memoryRef"], event.payload["memoryId"]))
    compacted = list(told("memory.compacted"))
    assert compacted
    for _, event in compacted:
        sources = event.payload["sourceIds"]
        assert event.payload["sourceCount"] == len(sources) >= 2
        assert {(event.payload["memoryRef"], source) for source in sources} <= written
        distillation = event.payload["distillation"]
        assert distillation["tokensUsed"] <= distillation["tokenBudget"]


def test_consolidation_never_adds() -> None:
    consolidated = list(told("agent.memory.consolidated"))

    assert consolidated
    for _, event in consolidated:
        payload = event.payload
        assert payload["outputCount"] == payload["inputCount"] - len(payload["mergedIds"])


def test_a_child_is_named_by_its_parent() -> None:
    runs = {run.run_id: run for run in an_hour()}
    children = [run for run in an_hour() if run.workflow == "onboarding.profile"]

    assert children
    for child in children:
        parent = runs[child.parent or ""]
        outputs = [event.payload["outputs"] for event in parent.events if event.type == "node.completed"]
        assert {"childRunId": child.run_id, "status": "completed"} in outputs
        assert parent.ended is not None and child.ended is not None
        assert child.ended <= parent.ended


def test_an_approval_waits_for_some_seconds() -> None:
    asked = {run.run_id: event.at for run, event in told("approval.requested")}
    received = {run.run_id: event.at for run, event in told("approval.received")}

    assert asked.keys() == received.keys()
    assert all(6 <= received[run] - asked[run] <= 10 for run in asked)


@pytest.mark.parametrize("major", [1, 2])
def test_every_event_is_read_without_a_remark(major: int) -> None:
    for run in an_hour():
        for event in run.events:
            raw = wire.as_json(wire.event(major, run, event))
            read = read_event(raw, index=0, run_id=wire.run_id(major, run.run_id))
            assert isinstance(read, RunEvent), read
            assert (read.leaks, read.notes) == ((), ())
            assert (read.sequence, read.type, read.node_id) == (event.sequence, event.type, event.node)


def test_the_second_major_is_spelt_its_way() -> None:
    for run in an_hour():
        for event in run.events:
            body = wire.event(2, run, event)
            assert VENDOR_OR_PROTOCOL_2.fullmatch(body["type"])
            assert set(body) <= {
                "eventId",
                "runId",
                "sequence",
                "type",
                "payload",
                "timestamp",
                "nodeId",
                "causationId",
                "schemaVersion",
            }
            assert body["schemaVersion"] == 1
            assert body["runId"] == f"acme/{run.run_id}"


def test_what_is_kept_is_bounded() -> None:
    playing = engine()
    for minute in range(12 * 60):
        playing.advance(BEGINNING + 60 * minute)

    assert len(playing.runs) <= KEPT_RUNS + 3
    assert sum(map(len, playing.memory.values())) <= KEPT_ENTRIES


def test_an_expired_entry_is_not_served() -> None:
    playing = engine()
    last_seen: dict[Entry, float] = {}
    for second in range(HOUR):
        now = BEGINNING + second
        playing.advance(now)
        last_seen |= dict.fromkeys(playing.entries("team:support"), now)

    left = {entry.expires: seen for entry, seen in last_seen.items() if entry.expires and entry.expires < now}
    assert left
    assert all(int(expires) == seen for expires, seen in left.items()), "served up to its last second"


def test_a_cancelled_run_says_nothing_more() -> None:
    playing = engine()
    run = playing.start("research.fan-out", {})
    playing.advance(BEGINNING + 10)
    playing.cancel(run, "enough")
    length = len(run.events)
    playing.advance(BEGINNING + 120)

    assert run.status == "cancelled"
    assert len(run.events) == length
    assert run.events[-1].payload == {"reason": "enough", "cancelledBy": "user"}


def test_an_unknown_workflow() -> None:
    with pytest.raises(KeyError):
        engine().start("no.such", {})
