"""The state behind any event: nodes, variables, channels, interrupts, and that folding in parts is the same."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runs.domain.state import State, Step, advance_state, is_telling, open_interrupts
from runs.domain.state_changes import channel_words, compare_states
from runs.domain.state_kept import dump, load

BEGINNING = datetime(2026, 3, 1, 9, tzinfo=UTC)
BIG = 3544790567247868102


def steps(*told: tuple[str, str | None, Any]) -> list[Step]:
    """(type, node, payload), one after the other from sequence 0."""
    return [
        Step(
            sequence,
            type_,
            node,
            BEGINNING + timedelta(seconds=sequence),
            json.dumps({"payload": payload}) if is_telling(type_) else None,
        )
        for sequence, (type_, node, payload) in enumerate(told)
    ]


def state_of(events: Iterable[Step], at: int | None = None) -> State:
    return advance_state(State(), (one for one in events if at is None or one.sequence <= at))


RUN = steps(
    ("run.started", None, {"inputs": {"topic": "memory"}}),  # 0
    ("node.started", "plan", {}),  # 1
    ("variable.changed", "plan", {"name": "goal", "next": "draft"}),  # 2
    ("node.completed", "plan", {}),  # 3
    ("node.started", "ask", {}),  # 4
    ("node.suspended", "ask", {"kind": "approval", "interruptId": "i-1"}),  # 5
    ("variable.changed", None, {"name": "goal", "previous": "draft", "next": "final"}),  # 6
    ("approval.received", "ask", {"action": "accept"}),  # 7
    ("node.completed", "ask", {}),  # 8
    ("run.completed", None, {}),  # 9
)


@pytest.mark.parametrize(
    ("at", "status", "nodes", "goal", "waits"),
    [
        (-1, None, {}, None, []),
        (0, "running", {}, None, []),
        (1, "running", {"plan": "live"}, None, []),
        (2, "running", {"plan": "live"}, '"draft"', []),
        (3, "running", {"plan": "ok"}, '"draft"', []),
        (5, "waiting-approval", {"plan": "ok", "ask": "wait"}, '"draft"', [("ask", "approval", 5)]),
        (6, "waiting-approval", {"plan": "ok", "ask": "wait"}, '"final"', [("ask", "approval", 5)]),
        (7, "running", {"plan": "ok", "ask": "live"}, '"final"', []),
        (9, "completed", {"plan": "ok", "ask": "ok"}, '"final"', []),
    ],
)
def test_the_state_behind_each_event(
    at: int, status: str | None, nodes: dict[str, str], goal: str | None, waits: list[tuple[str, str, int]]
) -> None:
    state = state_of(RUN, at)
    assert (state.status.status if state.status else None) == status
    assert {name: attempt.status for name in state.nodes if (attempt := state.node(name))} == nodes
    value = state.variables["goal"].value if "goal" in state.variables else None
    assert (value.text if value else None) == goal
    assert [(one.node, one.kind, one.sequence) for one in open_interrupts(state)] == waits


def test_inputs_and_numbers_keep_their_digits() -> None:
    state = state_of(
        [
            Step(0, "run.started", None, BEGINNING, f'{{"payload": {{"inputs": {{"n": {BIG}, "x": 1.10}}}}}}'),
            Step(1, "variable.changed", None, BEGINNING, f'{{"payload": {{"name": "n", "next": {BIG}}}}}'),
        ]
    )
    assert state.inputs is not None and state.inputs.text == f'{{"n": {BIG}, "x": 1.10}}'
    assert state.variables["n"].value is not None and state.variables["n"].value.text == str(BIG)


def test_a_variable_without_a_next_value_is_known_and_has_none() -> None:
    state = state_of(
        steps(("variable.changed", "a", {"name": "x", "next": 1}), ("variable.changed", "b", {"name": "x"}))
    )
    assert state.variables["x"].value is None
    assert (state.variables["x"].node, state.variables["x"].changes) == ("b", 2)


@pytest.mark.parametrize(
    ("reducer", "writes", "shape", "words", "misfits"),
    [
        ("replace", [1, {"a": 2}], "value", '{"a": 2}', 0),
        ("vendor.acme.dedupe", [1, 2], "value", "2", 0),
        ("append", [1, 2, 3], "last", "3 entries", 0),
        ("feedback", [{"text": "no"}], "last", "1 entry", 0),
        ("merge", [{"a": 1, "b": 2}, {"b": 3}, "text"], "parts", "2 members", 1),
        ("counter", [1, -3, 0.5], "total", "-1.5", 0),
        ("counter", [BIG, 1, "two"], "total", str(BIG + 1), 1),
        ("counter", [0.1, 0.2], "total", "0.3", 0),
        ("votes", [{"userId": "u", "action": "no"}, {"userId": "v"}, {"userId": "u"}, {}], "parts", "2 votes", 1),
        ("message", [{"messageId": "m"}, {"messageId": "m"}, {"messageId": "n"}, 7], "last", "2 entries", 1),
    ],
)
def test_channels_are_folded_by_the_reducer_of_the_write(
    reducer: str, writes: Sequence[Any], shape: str, words: str, misfits: int
) -> None:
    told = steps(*(("channel.written", "n", {"channel": "c", "reducer": reducer, "value": one}) for one in writes))
    channel = state_of(told).channels["c"]
    said = channel_words(channel)
    assert (channel.shape, channel.misfits, channel.writes) == (shape, misfits, len(writes))
    assert said == words or (not isinstance(said, str) and said is not None and said.text == words)
    assert channel.is_known is (not reducer.startswith("vendor."))


def test_votes_of_one_voter_replace_each_other() -> None:
    told = steps(
        *(
            ("channel.written", None, {"channel": "c", "reducer": "votes", "value": {"voter": who, "vote": vote}})
            for who, vote in [("a", "no"), ("b", "yes"), ("a", "yes")]
        )
    )
    assert {name: json.loads(part.text or "")["vote"] for name, part in state_of(told).channels["c"].parts.items()} == {
        "b": "yes",
        "a": "yes",
    }


def test_another_reducer_begins_the_channel_anew() -> None:
    told = steps(
        ("channel.written", None, {"channel": "c", "reducer": "append", "value": 1}),
        ("channel.written", None, {"channel": "c", "reducer": "counter", "value": 5}),
    )
    channel = state_of(told).channels["c"]
    assert (channel.total, channel.count, channel.writes, channel.reducers) == ("5", 0, 2, 2)


def test_a_pause_of_the_run_holds_its_open_nodes_and_is_no_interrupt() -> None:
    state = state_of(
        steps(
            ("run.started", None, {}),
            ("node.started", "a", {}),
            ("node.started", "b", {}),
            ("node.completed", "b", {}),
            ("run.paused", None, {}),
        )
    )
    assert {name: state.node(name) and state.node(name).status for name in state.nodes} == {"a": "wait", "b": "ok"}  # type: ignore[union-attr]
    assert open_interrupts(state) == []


def test_what_waits_without_a_node_is_an_interrupt_of_the_run() -> None:
    state = state_of(steps(("interrupt.requested", None, {"kind": "custom"})))
    assert [(one.node, one.kind) for one in open_interrupts(state)] == [(None, "custom")]


def test_nothing_is_live_in_a_run_that_has_ended() -> None:
    state = state_of(
        steps(("node.started", "a", {}), ("node.suspended", "a", {"kind": "custom"}), ("run.failed", None, {}))
    )
    attempt = state.node("a")
    assert attempt is not None and state.shown_status(attempt) == "unknown"
    assert open_interrupts(state) == []


def test_long_values_are_told_apart_without_being_kept() -> None:
    one, other = (
        state_of(steps(("variable.changed", None, {"name": "v", "next": "x" * 5000 + end}))).variables["v"].value
        for end in ("a", "b")
    )
    assert one is not None and other is not None
    assert one.text is None and one.size == 5003
    assert one.digest != other.digest


@pytest.mark.parametrize(
    ("at", "against", "changes"),
    [
        (9, 9, []),
        (2, 6, [("status", "changed"), ("node", "changed"), ("node", "added"), ("variable", "changed")]),
        (6, 2, [("status", "changed"), ("node", "removed"), ("node", "changed"), ("variable", "changed")]),
        (-1, 0, [("status", "added"), ("inputs", "added")]),
    ],
)
def test_two_states_side_by_side(at: int, against: int, changes: list[tuple[str, str]]) -> None:
    found = compare_states(state_of(RUN, at), state_of(RUN, against))
    assert sorted((one.section, one.op) for one in found) == sorted(changes)


def test_a_change_says_on_which_events_it_rests() -> None:
    (change,) = [one for one in compare_states(state_of(RUN, 2), state_of(RUN, 9)) if one.section == "variable"]
    assert (change.name, change.from_sequence, change.to_sequence) == ("goal", 2, 6)


TOLD: st.SearchStrategy[tuple[str, str | None, Any]] = st.one_of(
    st.tuples(
        st.just("variable.changed"),
        st.none(),
        st.fixed_dictionaries({"name": st.sampled_from("xy"), "next": st.integers()}),
    ),
    st.tuples(
        st.just("channel.written"),
        st.none(),
        st.fixed_dictionaries(
            {
                "channel": st.sampled_from("cd"),
                "reducer": st.sampled_from(["replace", "append", "merge", "counter", "votes", "message", "vendor.a.b"]),
                "value": st.one_of(
                    st.integers(),
                    st.text(max_size=3),
                    st.fixed_dictionaries({"userId": st.sampled_from("uv"), "messageId": st.sampled_from("mn")}),
                ),
            }
        ),
    ),
    st.tuples(
        st.sampled_from(
            [
                *("node.started", "node.completed", "node.failed", "node.suspended", "node.resumed", "node.retried"),
                *(
                    "approval.requested",
                    "approval.received",
                    "run.started",
                    "run.paused",
                    "run.resumed",
                    "run.completed",
                ),
            ]
        ),
        st.sampled_from([None, "a", "b"]),
        st.just({}),
    ),
)


@settings(max_examples=200, deadline=None)
@given(told=st.lists(TOLD, max_size=30), cut=st.integers(0, 30))
def test_a_state_that_was_kept_goes_on_as_if_it_had_not_been(told: list[tuple[str, str | None, Any]], cut: int) -> None:
    events = steps(*told)
    kept = load(dump(advance_state(State(), events[:cut])))
    assert dump(advance_state(kept, events[cut:])) == dump(advance_state(State(), events))
    assert compare_states(advance_state(State(), events), advance_state(State(), events)) == []


@settings(max_examples=100, deadline=None)
@given(told=st.lists(TOLD, max_size=20), at=st.integers(-1, 20), against=st.integers(-1, 20))
def test_comparing_backwards_swaps_both_sides(told: list[tuple[str, str | None, Any]], at: int, against: int) -> None:
    events = steps(*told)
    there = compare_states(state_of(events, at), state_of(events, against))
    back = compare_states(state_of(events, against), state_of(events, at))
    swapped = {"added": "removed", "removed": "added", "changed": "changed"}
    assert [(one.section, swapped[one.op], one.name, one.after, one.before) for one in there] == [
        (one.section, one.op, one.name, one.before, one.after) for one in back
    ]
