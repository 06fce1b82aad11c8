"""What a log says against itself, read batch by batch and all at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runs.domain.contradictions import (
    KINDS,
    LISTED,
    TWIN_REACH,
    Finding,
    OutOfOrder,
    State,
    advance,
    by_place,
    dump,
    in_words,
    load,
    scan,
)
from runs.domain.event import RunEvent
from runs.domain.normalise import read_event
from tests.runs.domain.examples import RECORDINGS, START, event, taken

RUN = "run-1"
VENDORS = "x-host-myndhyve-memory-written"


def at(
    sequence: int, type: str = "node.started", *, run: str = RUN, seconds: float | None = None, **payload: Any
) -> RunEvent:
    moment = START + timedelta(seconds=sequence if seconds is None else seconds)
    told = event(sequence=sequence, type=type, runId=run, timestamp=moment.isoformat(), payload=payload)
    return taken(json.dumps(told))


def written(
    sequence: int, memory_id: str = "m", *, type: str = "memory.written", ref: str | None = "notes"
) -> RunEvent:
    ids: dict[str, Any] = {"memoryId": memory_id} | ({} if ref is None else {"memoryRef": ref})
    return at(sequence, type, **ids)


def found(events: Sequence[RunEvent]) -> list[Finding]:
    return list(by_place(scan(events, run_id=RUN)))


START_OF_RUN, END_OF_RUN = at(0, "run.started"), at(3, "run.completed")

TABLE = [
    pytest.param([at(0, "run.started"), at(1), at(2, "run.completed")], [], id="a-sound-log"),
    pytest.param([at(1, "run.started"), at(2)], [], id="i4-first-sequence-1"),
    pytest.param([at(2), at(3)], [Finding("gap", 0, 1, 2)], id="the-beginning-is-missing"),
    pytest.param(
        [at(0), at(2), at(7)], [Finding("gap", 1, 1, 1), Finding("gap", 3, 6, 4)], id="h-eventOrdering-gaps-visible"
    ),
    pytest.param([at(0), at(1, seconds=0)], [], id="two-events-at-one-time"),
    pytest.param(
        [at(0, seconds=9), at(1, seconds=6.5)],
        [Finding("time_reversal", 1, 0, backwards=timedelta(seconds=2.5))],
        id="h-append-ordering-time-runs-backwards",
    ),
    pytest.param(
        [at(0, "run.started"), at(1, "run.started"), at(2, "run.started")],
        [Finding("second_start", 1, 0), Finding("second_start", 2, 0)],
        id="two-starts",
    ),
    pytest.param(
        [at(0, "run.started"), at(1, "node.started"), at(2, "run.paused"), at(3, "run.resumed"), at(4, "node.started")],
        [],
        id="j12-pause-starts-a-node-again",
    ),
    pytest.param(
        [at(0, "run.failed"), at(1, "run.completed")],
        [
            Finding("second_terminal", 1, 0, about="run.completed"),
            Finding("late_events", 1, 0),
        ],
        id="two-ends",
    ),
    pytest.param(
        [at(0, "run.cancelled"), at(1), at(2), at(3)], [Finding("late_events", 1, 0, 3)], id="events-behind-the-end"
    ),
    pytest.param(
        [at(0, "run.failed"), at(1, "compensation.started"), at(2, "run.dead_lettered")],
        [],
        id="what-may-follow-the-end",
    ),
    pytest.param(
        [at(0, "run.completed"), written(1)],
        [Finding("late_events", 1, 0), Finding("memory_after_terminal", 1, 0, about="m")],
        id="i23-j17-memory-written-after-run-completed",
    ),
    pytest.param(
        [at(0, "run.completed"), at(1, "memory.compacted", memoryRef="notes", outputId="out")],
        [Finding("late_events", 1, 0), Finding("memory_after_terminal", 1, 0, about="out")],
        id="j4-late-fan-out",
    ),
    pytest.param(
        [at(0, "run.completed"), at(1, "memory.written")],
        [Finding("late_events", 1, 0), Finding("memory_after_terminal", 1, 0)],
        id="memory-without-an-id",
    ),
    pytest.param(
        [written(0), written(1, type=VENDORS)], [Finding("twin_event", 1, 0, about="m")], id="i14-twin-behind"
    ),
    pytest.param(
        [written(0, type=VENDORS), at(1), written(2)], [Finding("twin_event", 2, 0, about="m")], id="i14-twin-in-front"
    ),
    pytest.param(
        [written(0), written(1, type=VENDORS, ref=None)],
        [Finding("twin_event", 1, 0, about="m")],
        id="i14-without-a-ref",
    ),
    pytest.param(
        [written(0, type=VENDORS, ref=None), written(1)],
        [Finding("twin_event", 1, 0, about="m")],
        id="i14-ref-comes-later",
    ),
    pytest.param([at(0, "memory.written"), at(1, VENDORS)], [], id="writes-without-an-id-are-not-one"),
    pytest.param(
        [written(0), at(1, "memory.compacted", memoryRef="notes", outputId="m")], [], id="a-compaction-is-no-twin"
    ),
    pytest.param([written(0), written(1, type=VENDORS, ref="other")], [], id="another-ref-is-another-entry"),
    pytest.param([written(0), written(1, "n", type=VENDORS)], [], id="another-id-is-another-write"),
    pytest.param([written(0), written(1)], [], id="two-writes-of-one-entry"),
    pytest.param([written(0, type=VENDORS), written(1, type=VENDORS)], [], id="two-of-the-vendors"),
    pytest.param(
        [written(0), written(1, type=VENDORS), written(2), written(3, type=VENDORS)],
        [Finding("twin_event", 1, 0, about="m"), Finding("twin_event", 3, 2, about="m")],
        id="i14-pairs",
    ),
    pytest.param(
        [at(0), at(5, run="run-2"), at(1)],
        [Finding("foreign_run", 5, about="run-2")],
        id="h-memory-attribution-tenant-scoped-foreign-run",
    ),
]


@pytest.mark.parametrize(("events", "expected"), TABLE)
def test_table(events: list[RunEvent], expected: list[Finding]) -> None:
    assert found(events) == expected


def test_h_v2_webhook_durable_delivery_gap_flagged_then_closed() -> None:
    assert [one.kind for one in found([at(0), at(2)])] == ["gap"]
    assert found([at(0), at(1), at(2)]) == []


def test_twins_are_near() -> None:
    near = [at(0), written(1), *(at(n) for n in range(2, TWIN_REACH + 1)), written(TWIN_REACH + 1, type=VENDORS)]
    far = [at(0), written(1), *(at(n) for n in range(2, TWIN_REACH + 2)), written(TWIN_REACH + 2, type=VENDORS)]
    assert [one.kind for one in found(near)] == ["twin_event"]
    assert found(far) == []


def test_reading_on_needs_rising_sequences() -> None:
    state = scan([at(0), at(1)], run_id=RUN)
    for late in (at(0), at(1)):
        with pytest.raises(OutOfOrder):
            advance(state, [late], run_id=RUN)
    assert state == scan([at(0), at(1)], run_id=RUN)


def test_many_findings_are_counted_and_few_are_kept() -> None:
    events = [at(2 * n, seconds=-n) for n in range(LISTED + 50)]
    state = scan(events, run_id=RUN)
    assert state.counts == {"gap": LISTED + 49, "time_reversal": LISTED + 49}
    assert len(state.findings) == 2 * LISTED


def test_a_log_that_goes_on_after_its_end_is_one_finding() -> None:
    events = [at(0, "run.cancelled"), *(at(n) for n in range(1, 2000))]
    assert found(events) == [Finding("late_events", 1, 0, 1999)]


EVENT = st.tuples(
    st.integers(1, 3),
    st.sampled_from(
        [
            "run.started",
            "run.completed",
            "run.failed",
            "node.started",
            "memory.written",
            "compensation.started",
            VENDORS,
        ]
    ),
    st.integers(-2, 3),
    st.sampled_from(["m", "n"]),
    st.booleans(),
)


def made(told: list[tuple[int, str, int, str, bool]]) -> list[RunEvent]:
    sequence, seconds, events = -1, 0.0, []
    for step, type, forward, memory_id, is_foreign in told:
        sequence, seconds = sequence + step, seconds + forward
        run = "run-2" if is_foreign else RUN
        events.append(at(sequence, type, run=run, seconds=seconds, memoryRef="notes", memoryId=memory_id))
    return events


@settings(deadline=None)
@given(st.lists(EVENT, max_size=30), st.lists(st.integers(0, 30), max_size=6))
def test_batches_do_not_matter(told: list[tuple[int, str, int, str, bool]], cuts: list[int]) -> None:
    events = made(told)
    state = State()
    places = sorted({0, len(events), *(cut for cut in cuts if cut < len(events))})
    for start, end in zip(places, places[1:], strict=False):
        state = load(dump(advance(state, events[start:end], run_id=RUN)))
    assert state == scan(events, run_id=RUN)


CUTS = [
    pytest.param([written(0), written(1)], 0, id="two-writes-of-one-entry"),
    pytest.param([written(0, type=VENDORS), written(1, type=VENDORS)], 0, id="two-of-the-vendors"),
    pytest.param([written(0), written(1, type=VENDORS)], 1, id="i14-a-twin-in-the-next-batch"),
    pytest.param([written(0, type=VENDORS), written(1)], 1, id="i14-a-twin-in-the-batch-before"),
    pytest.param([at(0, "run.cancelled"), at(1), at(2)], 1, id="late-events-over-batches"),
    pytest.param([at(0), at(2)], 1, id="a-gap-between-batches"),
    pytest.param([at(0, seconds=5), at(1, seconds=1)], 1, id="time-that-runs-backwards-between-batches"),
]


@pytest.mark.parametrize(("events", "count"), CUTS)
def test_one_event_a_batch(events: list[RunEvent], count: int) -> None:
    state = State()
    for one in events:
        state = load(dump(advance(state, [one], run_id=RUN)))
    assert len(state.findings) == count
    assert state == scan(events, run_id=RUN)


WORDS = [
    (Finding("gap", 3, 3), "sequence 3 is missing"),
    (Finding("gap", 3, 1234567, 1234565), "1,234,565 sequences are missing, 3 to 1234567"),
    (Finding("second_start", 5, 0), "run.started again at 5; the run had started at 0"),
    (Finding("second_terminal", 5, 3, about="run.failed"), "run.failed at 5; the run had ended at 3"),
    (Finding("late_events", 4, 3, 1200), "1,200 events from 4 on, behind the run's end at 3"),
    (Finding("late_events", 4, 3), "an event at 4, behind the run's end at 3"),
    (Finding("memory_after_terminal", 4, 3, about="m"), "memory m at 4, behind the run's end at 3"),
    (Finding("memory_after_terminal", 4, 3), "memory without an id at 4, behind the run's end at 3"),
    (
        Finding("time_reversal", 4, 2, backwards=timedelta(seconds=90)),
        "4 is timed 0:01:30 before 2, which it follows",
    ),
    (Finding("twin_event", 4, 2, about="m"), "4 and 2 announce one write, of m"),
    (Finding("foreign_run", 4, about="run-2"), "4 belongs to the run run-2"),
]


@pytest.mark.parametrize(("finding", "words"), WORDS)
def test_words(finding: Finding, words: str) -> None:
    assert in_words(finding) == words


def test_every_kind_has_words() -> None:
    assert {finding.kind for finding, _ in WORDS} == set(KINDS)


def test_ids_that_a_database_refuses_survive_the_state() -> None:
    events = [at(0), at(1, run="r\ud800"), written(1, "m\x00\udfff"), written(2, "m\x00\udfff", type=VENDORS)]
    state = scan(events, run_id=RUN)
    assert [one.about for one in state.findings] == ["r\ue000d800", "m\ue0000000\ue000dfff"]
    assert load(dump(state)) == state


RECORDED = {
    "openwop-app/memory-trail/events.ndjson": {},
    "openwop-app/cancelled/poll-20s-later.json": {
        "second_terminal": 1,
        "late_events": 1,
        "memory_after_terminal": 2,
    },
    "openwop-app/crash-mid-run/events-after-recovery.ndjson": {"second_start": 1},
    "openwop-app/forks/fork-branch-mid/events.ndjson": {"second_start": 1},
    "openwop-app/forks/fork-branch-end/events.ndjson": {
        "second_start": 1,
        "second_terminal": 1,
        "late_events": 1,
        "memory_after_terminal": 4,
    },
    "openwop-app/forks/fork-replay/events.ndjson": {},
    "sqlite/crash-mid-run/events.ndjson": {},
    "sqlite/memory-multi/events.ndjson": {},
    "postgres/agents/events.ndjson": {},
    "python/long-200-nodes/events.ndjson": {},
}


def recorded(name: str) -> list[RunEvent]:
    text = (RECORDINGS / name).read_text()
    raw = [json.dumps(one) for one in json.loads(text)["events"]] if name.endswith(".json") else text.splitlines()
    events = [read_event(line, index=0) for line in raw]
    assert events and all(isinstance(one, RunEvent) for one in events)
    return [one for one in events if isinstance(one, RunEvent)]


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_log(name: str) -> None:
    events = recorded(name)
    assert scan(events, run_id=events[0].run_id).counts == RECORDED[name]


def test_a_cancelled_run_that_goes_on() -> None:
    events = recorded("openwop-app/cancelled/poll-20s-later.json")
    told = [in_words(one) for one in by_place(scan(events, run_id=events[0].run_id))]
    assert len(told) == 4
    assert told[0] == "6 events from 7 on, behind the run's end at 6"
    assert told[-1] == "run.completed at 12; the run had ended at 6"
