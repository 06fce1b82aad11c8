from __future__ import annotations

from typing import Any

import pytest

from runs.domain.links import Found, Half, children_named, other_half, replay_source, searches


def half(sequence: int, node: str | None = None, **payload: Any) -> Half:
    return Half(sequence, node, payload)


CASES = {
    # type, the event, candidates nearest first → the other half
    "by call id": (
        "agent.toolCalled",
        half(1, callId="b"),
        [half(2, callId="a"), half(3, callId="b")],
        Found(3, is_guess=False),
    ),
    "a call that never returned": ("agent.toolCalled", half(1, "n", callId="b"), [half(2, "n", callId="a")], None),
    "a return names its call": (
        "agent.toolReturned",
        half(9, callId="b"),
        [half(8, callId="a"), half(7, callId="b")],
        Found(7, is_guess=False),
    ),
    "by node where nothing is named": (
        "approval.requested",
        half(1, "gate"),
        [half(2, "other"), half(3, "gate")],
        Found(3, is_guess=True),
    ),
    "not by node where the other one is named": (
        "approval.requested",
        half(1, "gate"),
        [half(2, "gate", approvalId="x")],
        None,
    ),
    "an id under another member is another id": (
        "approval.requested",
        half(1, "gate", approvalId="x"),
        [half(2, "gate", interruptId="x")],
        None,
    ),
    "no node, no guess": ("node.suspended", half(1, None), [half(2, None)], None),
    "a pause is the run's": ("run.paused", half(1), [half(5)], Found(5, is_guess=True)),
    "a number is no id": (
        "agent.toolCalled",
        half(1, "n", callId=7),
        [half(2, "n", callId=7)],
        Found(2, is_guess=True),
    ),
}


@pytest.mark.parametrize(("type", "mine", "others", "expected"), CASES.values(), ids=CASES.keys())
def test_the_other_half(type: str, mine: Half, others: list[Half], expected: Found | None) -> None:
    (search,) = searches(type)
    assert other_half(search, mine, others) == expected


def test_other_types_have_no_other_half() -> None:
    assert list(searches("node.started")) == []


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"childRunId": "c"}, ("c",)),
        ({"outputs": {"childRunId": "c"}}, ("c",)),
        ({"output": {"childRunId": "c"}, "childRunId": "c"}, ("c",)),
        ({"childRunIds": ["a", "b", 3, ""]}, ("a", "b")),
        ({"children": [{"runId": "a"}, {"x": 1}]}, ("a",)),
        ({"childRunId": {"x": 1}}, ()),
        (None, ()),
        ([1], ()),
    ],
)
def test_children(payload: Any, expected: tuple[str, ...]) -> None:
    assert children_named(payload) == expected


@pytest.mark.parametrize(
    ("type", "payload", "expected"),
    [
        ("replay.diverged", {"sourceRunId": "s", "atSequence": 4}, ("s", 4)),
        ("replay.divergedAtRefusal", {"sourceRunId": "s"}, ("s", None)),
        ("replay.diverged", {"sourceRunId": "s", "atSequence": True}, ("s", None)),
        ("replay.diverged", {"atSequence": 4}, None),
        ("run.started", {"sourceRunId": "s", "atSequence": 4}, None),
    ],
)
def test_a_replays_source(type: str, payload: Any, expected: Any) -> None:
    assert replay_source(type, payload) == expected
