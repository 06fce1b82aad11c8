from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.domain.folding import (
    LIFECYCLE_TYPES,
    PAUSE_TYPES,
    Attempt,
    Lifecycle,
    Wait,
    advance,
    fold_attempts,
    fold_status,
    is_terminal,
    later_status,
    status_of,
)

from .examples import RECORDINGS, START, step, taken


def at(sequence: int | None) -> Any:
    return None if sequence is None else START + timedelta(seconds=sequence)


def attempt(ordinal: int, first: int, last: int | None, status: str, label: str | None = None, **more: Any) -> Attempt:
    return Attempt(
        ordinal,
        first,
        last,
        at(first),
        at(last),
        status,  # type: ignore[arg-type]
        start_seen=more.pop("start_seen", True),
        label=label,
        **more,
    )


def wait(first: int, last: int | None, kind: str) -> Wait:
    return Wait(first, last, at(first), at(last), kind)


def test_node_that_runs_through() -> None:
    assert fold_attempts([step(3, "node.started"), step(9, "node.completed")]) == [attempt(1, 3, 9, "ok")]


def test_node_that_still_runs() -> None:
    assert fold_attempts([step(3, "node.started")]) == [attempt(1, 3, None, "live")]


def test_nothing_gives_nothing() -> None:
    assert fold_attempts([]) == []
    assert fold_attempts([step(1, "log.appended"), step(2, "memory.written"), step(3, "interrupt.resolved")]) == []


@pytest.mark.parametrize(
    ("end", "status", "label"),
    [
        (step(9, "node.completed", outputs={}), "ok", None),
        (step(9, "node.failed", error={"code": "timeout", "message": "text"}), "fail", "timeout"),
        (step(9, "node.failed", code="unsupported_node_type"), "fail", "unsupported_node_type"),
        (step(9, "node.failed", error="refused"), "fail", "refused"),
        (step(9, "node.failed", error={"message": "only words"}), "fail", None),
        (step(9, "node.failed", error={"code": 500}, code="x"), "fail", "x"),
        (step(9, "node.failed"), "fail", None),
        (step(9, "node.failed", code="c" * 65), "fail", "c" * 63 + "…"),
        (step(9, "node.cancelled", reason="secret words"), "cancelled", None),
        (step(9, "node.skipped"), "cancelled", "skipped"),
    ],
)
def test_what_ends_an_attempt(end: Lifecycle, status: str, label: str | None) -> None:
    assert fold_attempts([step(3, "node.started"), end]) == [attempt(1, 3, 9, status, label)]


def test_end_without_a_start_is_an_attempt_of_its_own() -> None:
    assert fold_attempts([step(4, "node.completed")]) == [attempt(1, 4, 4, "ok", start_seen=False)]
    assert fold_attempts([step(1, "node.started"), step(2, "node.failed"), step(5, "node.completed")]) == [
        attempt(1, 1, 2, "fail"),
        attempt(2, 5, 5, "ok", start_seen=False),
    ]


def test_start_again_after_a_suspension_is_the_same_attempt() -> None:
    told = [
        step(1, "node.started"),
        step(2, "node.suspended", kind="approval"),
        step(5, "node.resumed", action="accept"),
        step(6, "node.started"),
        step(9, "node.completed"),
    ]
    assert fold_attempts(told) == [attempt(1, 1, 9, "ok", waits=(wait(2, 5, "approval"),))]


def test_start_again_ends_a_wait_that_nothing_else_ended() -> None:
    told = [step(1, "node.started"), step(2, "node.suspended"), step(6, "node.started")]
    assert fold_attempts(told) == [attempt(1, 1, None, "live", waits=(wait(2, 6, "suspended"),))]


def test_start_again_after_a_crash_is_a_new_attempt() -> None:
    told = [step(1, "node.started"), step(3, "node.started"), step(4, "node.completed")]
    assert fold_attempts(told) == [attempt(1, 1, 3, "interrupted"), attempt(2, 3, 4, "ok")]


def test_one_suspension_explains_one_start_only() -> None:
    told = [
        step(1, "node.started"),
        step(2, "node.suspended"),
        step(3, "node.resumed"),
        step(4, "node.started"),
        step(5, "node.started"),
    ]
    assert fold_attempts(told) == [
        attempt(1, 1, 5, "interrupted", waits=(wait(2, 3, "suspended"),)),
        attempt(2, 5, None, "live"),
    ]


def test_suspension_told_twice_is_one_wait_with_the_kind_that_was_named() -> None:
    told = [
        step(1, "node.started"),
        step(2, "node.suspended", reason="low-confidence"),
        step(3, "node.suspended", interruptId="i", kind="approval"),
        step(4, "approval.requested"),
        step(5, "interrupt.requested", kind="clarification"),
    ]
    assert fold_attempts(told) == [attempt(1, 1, None, "wait", waits=(wait(2, None, "approval"),), may_restart=True)]


@pytest.mark.parametrize(
    ("opening", "kind"),
    [
        (step(2, "node.suspended"), "suspended"),
        (step(2, "node.suspended", kind="external-event"), "external-event"),
        (step(2, "node.suspended", kind=""), "suspended"),
        (step(2, "node.suspended", kind=5), "suspended"),
        (step(2, "interrupt.requested", kind="conversation.start"), "conversation.start"),
        (step(2, "approval.requested"), "approval"),
        (step(2, "clarification.requested"), "clarification"),
    ],
)
@pytest.mark.parametrize(
    "closing",
    [
        "node.resumed",
        "interrupt.resolved",
        "node.interrupt.resolved",
        "approval.received",
        "approval.granted",
        "approval.rejected",
        "approval.overridden",
        "clarification.resolved",
        "node.suspend-failed",
    ],
)
def test_wait_opens_and_closes(opening: Lifecycle, kind: str, closing: str) -> None:
    told = [step(1, "node.started"), opening]
    assert fold_attempts(told)[0].open_wait == wait(2, None, kind)
    assert fold_attempts(told)[0].status == "wait"
    assert fold_attempts([*told, step(7, closing)]) == [
        attempt(1, 1, None, "live", waits=(wait(2, 7, kind),), may_restart=True)
    ]


def test_two_waits_of_one_attempt() -> None:
    told = [
        step(1, "node.started"),
        step(2, "clarification.requested"),
        step(3, "clarification.resolved"),
        step(4, "approval.requested"),
        step(5, "node.cancelled"),
    ]
    assert fold_attempts(told) == [
        attempt(1, 1, 5, "cancelled", waits=(wait(2, 3, "clarification"), wait(4, 5, "approval")))
    ]


def test_log_that_begins_in_the_middle() -> None:
    assert fold_attempts([step(5, "approval.requested"), step(6, "approval.received"), step(7, "node.completed")]) == [
        attempt(1, 5, 7, "ok", start_seen=False, waits=(wait(5, 6, "approval"),))
    ]
    assert fold_attempts([step(5, "node.resumed")]) == [attempt(1, 5, None, "live", start_seen=False)]
    assert fold_attempts([step(5, "approval.received")]) == []


@pytest.mark.parametrize(
    ("told", "attempts"),
    [
        (
            [
                step(1, "node.started"),
                step(2, "node.retried", attempt=1, lastError={"code": "rate_limited"}),
                step(5, "node.completed"),
            ],
            [attempt(1, 1, 2, "fail", "rate_limited"), attempt(2, 2, 5, "ok")],
        ),
        (
            [
                step(1, "node.started"),
                step(2, "node.failed", code="x"),
                step(3, "node.retried"),
                step(4, "node.started"),
                step(5, "node.completed"),
            ],
            [attempt(1, 1, 2, "fail", "x"), attempt(2, 3, 5, "ok")],
        ),
        (
            [step(1, "node.started"), step(2, "node.failed", code="x"), step(4, "node.started")],
            [attempt(1, 1, 2, "fail", "x"), attempt(2, 4, None, "live")],
        ),
        ([step(3, "node.retried")], [attempt(1, 3, None, "live", may_restart=True)]),
    ],
)
def test_retry_is_a_new_attempt(told: list[Lifecycle], attempts: list[Attempt]) -> None:
    assert fold_attempts(told) == attempts


def test_pause_of_the_run_explains_a_second_start() -> None:
    told = [step(1, "node.started"), step(2, "run.paused"), step(3, "run.resumed"), step(4, "node.started")]
    assert fold_attempts(told) == [attempt(1, 1, None, "live", waits=(wait(2, 3, "paused"),))]
    assert fold_attempts([step(1, "run.paused"), step(2, "run.resumed")]) == []


def test_run_resumed_after_a_crash_explains_nothing() -> None:
    told = [step(1, "node.started"), step(2, "run.resumed"), step(3, "node.started")]
    assert [one.status for one in fold_attempts(told)] == ["interrupted", "live"]


def test_run_resumed_leaves_a_wait_for_a_person_alone() -> None:
    told = [step(1, "node.started"), step(2, "approval.requested"), step(3, "run.resumed")]
    assert fold_attempts(told)[0].status == "wait"


def of_node(path: str, node: str) -> list[Lifecycle]:
    steps = []
    for line in (RECORDINGS / path).read_text().splitlines():
        event = taken(line)
        payload = json.loads(line)["payload"]
        if event.node_id == node:
            steps.append(Lifecycle(event.sequence, event.type, event.timestamp, payload or None))
    return steps


@pytest.mark.parametrize(
    ("path", "node", "attempts"),
    [
        ("openwop-app/approval-accepted/events.ndjson", "gate", [(5, 9, "ok", [(6, 7, "approval")])]),
        ("sqlite/approval-accepted/events.ndjson", "gate", [(3, 6, "ok", [(4, 5, "approval")])]),
        ("sqlite/crash-mid-run/events.ndjson", "wait", [(1, 3, "interrupted", []), (3, 4, "ok", [])]),
        (
            "openwop-app/crash-mid-run/events-after-recovery.ndjson",
            "slow",
            [(5, 10, "interrupted", []), (10, 11, "ok", [])],
        ),
        ("python/approval-accepted/events.ndjson", "gate", [(3, 4, "fail", [])]),
    ],
)
def test_recorded_nodes(path: str, node: str, attempts: list[Any]) -> None:
    assert [
        (one.from_sequence, one.to_sequence, one.status, [(w.from_sequence, w.to_sequence, w.kind) for w in one.waits])
        for one in fold_attempts(of_node(path, node))
    ] == attempts


details = st.none() | st.fixed_dictionaries(
    {}, optional={"kind": st.sampled_from(["approval", "custom"]), "code": st.just("x")}
)
logs = st.lists(
    st.tuples(st.sampled_from(sorted(LIFECYCLE_TYPES | PAUSE_TYPES | {"log.appended"})), details), max_size=12
).map(lambda told: [Lifecycle(number, type, START, detail) for number, (type, detail) in enumerate(told)])


@given(logs, st.integers(0, 12))
def test_folding_on_is_folding_from_scratch(log: list[Lifecycle], cut: int) -> None:
    attempts = fold_attempts(log[:cut])
    for event in log[cut:]:
        tail = attempts.pop() if attempts else None
        attempts += advance(tail, event)
    assert attempts == fold_attempts(log)


@given(logs)
def test_what_holds_for_all_attempts(log: list[Lifecycle]) -> None:
    attempts = fold_attempts(log)
    assert [one.ordinal for one in attempts] == list(range(1, len(attempts) + 1))
    for number, one in enumerate(attempts):
        is_last = number == len(attempts) - 1
        assert is_last or not one.is_open
        assert one.is_open == (one.status in ("live", "wait")) == (one.ended_at is None)
        assert (one.status == "wait") == (one.open_wait is not None)
        assert all(waited.to_sequence is not None for waited in one.waits[:-1])
        edges = [
            one.from_sequence,
            *(edge for w in one.waits for edge in (w.from_sequence, w.to_sequence)),
            one.to_sequence,
        ]
        known = [edge for edge in edges if edge is not None]
        assert known == sorted(known)
        assert is_last or known[-1] <= attempts[number + 1].from_sequence


@pytest.mark.parametrize(
    ("type", "status"),
    [
        ("run.started", "running"),
        ("run.resuming", "running"),
        ("run.resumed", "running"),
        ("run.restored-from-snapshot", "running"),
        ("run.paused", "paused"),
        ("run.completed", "completed"),
        ("run.failed", "failed"),
        ("run.cancelled", "cancelled"),
        ("approval.requested", "waiting-approval"),
        ("clarification.requested", "waiting-input"),
        ("node.suspended", "waiting-external"),
        ("node.resumed", "running"),
        ("node.interrupt.resolved", "running"),
        ("approval.received", "running"),
        ("node.started", None),
        ("node.completed", None),
        ("memory.written", None),
        ("run.dead_lettered", None),
        ("acme.any", None),
    ],
)
def test_status_of_a_type(type: str, status: str | None) -> None:
    assert status_of(type) == status


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("approval", "waiting-approval"),
        ("clarification", "waiting-input"),
        ("conversation.exchange", "waiting-input"),
        ("low-confidence", "waiting-input"),
        ("external-event", "waiting-external"),
        ("custom", "waiting-external"),
        ("acme.unknown", "waiting-external"),
        (5, "waiting-external"),
    ],
)
@pytest.mark.parametrize("type", ["node.suspended", "interrupt.requested"])
def test_status_of_a_suspension_by_its_kind(type: str, kind: Any, status: str) -> None:
    assert status_of(type, {"kind": kind}) == status


@pytest.mark.parametrize(
    ("types", "status"),
    [
        ([], None),
        (["memory.written"], None),
        (["run.started"], "running"),
        (["run.started", "approval.requested"], "waiting-approval"),
        (["run.started", "approval.requested", "approval.received"], "running"),
        (["run.started", "run.completed"], "completed"),
        (["run.started", "run.completed", "run.started", "run.failed"], "completed"),
        (["run.started", "run.cancelled", "node.resumed", "run.completed"], "cancelled"),
        (["run.completed", "memory.written"], "completed"),
    ],
)
def test_first_terminal_status_stays(types: list[str], status: str | None) -> None:
    told = [step(number, type) for number, type in enumerate(types)]
    assert fold_status(told) == status
    assert fold_status(reversed(told)) == status


def test_late_event_of_a_lower_sequence_decides() -> None:
    assert fold_status([step(12, "run.completed"), step(6, "run.cancelled")]) == "cancelled"
    assert fold_status([step(9, "approval.requested"), step(4, "run.started")]) == "waiting-approval"


@given(logs.flatmap(st.permutations))
def test_status_does_not_depend_on_the_order_of_arrival(log: list[Lifecycle]) -> None:
    assert fold_status(log) == fold_status(sorted(log, key=lambda event: event.sequence))


@given(
    st.lists(
        st.sampled_from(["run.started", "run.completed", "run.failed", "run.paused", "node.suspended"]), min_size=1
    ).flatmap(lambda types: st.permutations([step(number, type) for number, type in enumerate(types)]))
)
def test_terminal_never_goes_back(log: list[Lifecycle]) -> None:
    known = None
    was_terminal = False
    for event in log:
        known = later_status(known, event)
        assert known is not None
        assert is_terminal(known.status) or not was_terminal
        was_terminal = is_terminal(known.status)


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "expired", "a-status-nobody-knows"])
def test_unknown_status_counts_as_terminal(status: str) -> None:
    assert is_terminal(status)


@pytest.mark.parametrize(
    "status",
    [
        "pending",
        "running",
        "paused",
        "cancelling",
        "waiting-approval",
        "waiting-input",
        "waiting-external",
        "waiting-clarification",
    ],
)
def test_active_status_is_not_terminal(status: str) -> None:
    assert not is_terminal(status)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("openwop-app/approval-accepted/events.ndjson", "completed"),
        ("openwop-app/forks/fork-branch-end/events.ndjson", "completed"),
        ("sqlite/failed/events.ndjson", "failed"),
        ("python/cancelled/events.ndjson", "cancelled"),
    ],
)
def test_recorded_runs(path: str, status: str) -> None:
    log = [taken(line) for line in (RECORDINGS / path).read_text().splitlines()]
    assert fold_status(Lifecycle(event.sequence, event.type, event.timestamp) for event in log) == status
