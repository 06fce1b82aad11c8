from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.domain.attempts import NOT_IN_LOG, Evidence, LogEvent, Trace
from ledger.domain.receipts import Effect, Reason, Receipt, Receipts, Repeat, State, StoredEntry, classify
from ledger.domain.tool_calls import Address, MemoryTools

ARGUMENTS = {"key": "plan", "value": "Growth", "scope": {"type": "user"}, "agentIdentity": "scout"}
ENTRY = {"key": "plan", "scope": {"type": "user"}, "agentIdentity": "scout", "id": "m1"}
DONE = {"entry": ENTRY, "needsDecision": False}


def event(
    sequence: int,
    type_: str,
    *,
    node: str | None = "n1",
    event_id: str | None = None,
    cause: str | None = None,
    **payload: Any,
) -> LogEvent:
    return LogEvent(sequence, type_, payload, node, event_id, cause)


def called(
    sequence: int,
    arguments: Any = ARGUMENTS,
    *,
    call: str | None = "c1",
    tool: str = "remember",
    node: str | None = "n1",
    **more: Any,
) -> LogEvent:
    return event(
        sequence, "agent.toolCalled", node=node, toolName=tool, callId=call, agentId="agent-1", inputs=arguments, **more
    )


def returned(
    sequence: int,
    outcome: Any = DONE,
    *,
    call: str | None = "c1",
    tool: str = "remember",
    node: str | None = "n1",
    **more: Any,
) -> LogEvent:
    return event(
        sequence,
        "agent.toolReturned",
        node=node,
        toolName=tool,
        callId=call,
        agentId="agent-1",
        outcome=outcome,
        **more,
    )


def written(sequence: int, memory_id: str = "m1", *, node: str | None = "n1", ref: str = "notes") -> LogEvent:
    return event(sequence, "memory.written", node=node, memoryRef=ref, memoryId=memory_id)


def told(*events: LogEvent, stored: Sequence[StoredEntry] = (), tools: MemoryTools | None = None) -> Receipts:
    return classify(events, run="r1", stored=stored, tools=tools)


def only(*events: LogEvent, **more: Any) -> Receipt:
    (receipt,) = told(*events, **more).receipts
    return receipt


def states(*events: LogEvent) -> list[tuple[State, tuple[Reason, ...]]]:
    return [(receipt.state, receipt.reasons) for receipt in told(*events).receipts]


def effects(*events: LogEvent) -> list[State]:
    return [effect.state for effect in told(*events).effects]


def test_a_confirmed_write_with_everything_that_is_known_of_it() -> None:
    found = told(called(1), written(2), returned(3), stored=[StoredEntry("notes", "m1")])
    (receipt,) = found.receipts
    assert receipt.digest is not None
    assert receipt == Receipt(
        sequence=1,
        tool="remember",
        state=State.CONFIRMED,
        reasons=(Reason.ADDRESS_MATCHES,),
        evidence=(
            Evidence(Trace.CALLED, 1),
            Evidence(Trace.WRITTEN, 2),
            Evidence(Trace.RETURNED, 3),
            Evidence(Trace.READ_BACK, NOT_IN_LOG),
        ),
        call_id="c1",
        node_id="n1",
        agent_id="agent-1",
        digest=receipt.digest,
        asked=Address("plan", "user", "scout"),
        returned=Address("plan", "user", "scout"),
        memory_ref=None,
        memory_id="m1",
        write=2,
    )
    assert found.effects == (Effect(receipt.digest, State.CONFIRMED, (1,)),)
    assert (found.claimed_only, found.unasked) == ((), ())


def entry(**members: Any) -> dict[str, Any]:
    return {"entry": {**ENTRY, **members}}


ANSWERS: list[tuple[str, Any, State, tuple[Reason, ...]]] = [
    ("the address that was asked for", DONE, State.CONFIRMED, (Reason.ADDRESS_MATCHES,)),
    (
        "null fields",
        {"entry": {**ENTRY, "ttl": None, "tags": [], "note": ""}},
        State.CONFIRMED,
        (Reason.ADDRESS_MATCHES,),
    ),
    ("taken away since", {"$withheld": {"sha256": "0" * 64, "bytes": 12}}, State.UNKNOWN, (Reason.WITHHELD,)),
    ("wrong key", entry(key="other"), State.UNKNOWN, (Reason.WRONG_KEY,)),
    ("wrong scope", entry(scope={"type": "project"}), State.UNKNOWN, (Reason.WRONG_SCOPE,)),
    ("no scope", entry(scope=None), State.UNKNOWN, (Reason.WRONG_SCOPE,)),
    ("wrong identity", entry(agentIdentity="other"), State.UNKNOWN, (Reason.WRONG_IDENTITY,)),
    ("no identity", entry(agentIdentity=None), State.UNKNOWN, (Reason.WRONG_IDENTITY,)),
    (
        "all of it wrong",
        {"entry": {"key": "x"}},
        State.UNKNOWN,
        (Reason.WRONG_KEY, Reason.WRONG_SCOPE, Reason.WRONG_IDENTITY),
    ),
    ("no key", {"entry": {"id": "m1"}}, State.UNKNOWN, (Reason.NO_ADDRESS,)),
    (
        "needs a decision with a matching entry",
        {"entry": ENTRY, "needsDecision": True},
        State.WAITING,
        (Reason.NEEDS_DECISION,),
    ),
    ("error object", {"error": {"code": "full"}}, State.REFUSED, (Reason.ERROR,)),
    ("error beside a matching entry", {**DONE, "error": {"code": "full"}}, State.REFUSED, (Reason.ERROR,)),
    ("oversized error", {"error": {"message": "x" * 70_000}, "truncated": True}, State.REFUSED, (Reason.ERROR,)),
    ("oversized error cut in two", json.dumps({"error": "x" * 70_000})[:66_000], State.UNKNOWN, (Reason.UNPARSEABLE,)),
    ("MCP error", {"isError": True, "content": [{"type": "text", "text": "no"}]}, State.REFUSED, (Reason.ERROR,)),
    ("invalid JSON", '{"entry": ', State.UNKNOWN, (Reason.UNPARSEABLE,)),
    ("truncated", {**DONE, "truncated": True}, State.UNKNOWN, (Reason.TRUNCATED,)),
    ("transport failure", {"error": {"code": "ECONNRESET"}}, State.UNKNOWN, (Reason.TRANSPORT_FAILURE,)),
    ("nothing", None, State.UNKNOWN, (Reason.NO_ADDRESS,)),
]


@pytest.mark.parametrize(("what", "outcome", "state", "reasons"), ANSWERS)
def test_what_an_answer_makes_of_an_attempt(what: str, outcome: Any, state: State, reasons: tuple[Reason, ...]) -> None:
    assert states(called(1), returned(2, outcome)) == [(state, reasons)]
    assert effects(called(1), returned(2, outcome)) == [state]


@pytest.mark.parametrize(
    ("status", "reason"),
    [("forbidden", Reason.FORBIDDEN), ("rate_limited", Reason.RATE_LIMITED), ("error", Reason.ERROR)],
)
def test_a_status_that_says_no(status: str, reason: Reason) -> None:
    assert states(called(1), returned(2, status=status)) == [(State.REFUSED, (reason,))]


@pytest.mark.parametrize(("what", "outcome", "state", "reasons"), ANSWERS)
def test_a_repeat_after_each_answer(what: str, outcome: Any, state: State, reasons: tuple[Reason, ...]) -> None:
    events = (called(1), returned(2, outcome), called(3, call="c2"), returned(4, call="c2"))
    first, second = told(*events).receipts
    assert (first.state, first.repeat, first.attempt) == (state, Repeat.FIRST, 1)
    assert (second.state, second.repeats) == (State.CONFIRMED, 1)
    if state is State.CONFIRMED:
        assert (second.repeat, second.attempt, second.reasons) == (Repeat.ALREADY_MADE, 1, (Reason.ALREADY_MADE,))
    elif state is State.WAITING:
        assert (second.repeat, second.attempt) == (Repeat.PENDING, 1)
    else:
        assert (second.repeat, second.attempt) == (Repeat.NEW_ATTEMPT, 2)
    assert effects(*events) == [State.CONFIRMED]
    assert told(*events).effects[0].attempts == (1, 3)


def test_a_repeat_of_what_was_done_is_done_whatever_it_came_to() -> None:
    found = told(
        called(1), returned(2), called(3, call="c2"), returned(4, {"error": "exists"}, call="c2"), called(5, call="c3")
    )
    assert [(one.state, one.reasons, one.repeats) for one in found.receipts] == [
        (State.CONFIRMED, (Reason.ADDRESS_MATCHES,), None),
        (State.CONFIRMED, (Reason.ALREADY_MADE, Reason.ERROR), 1),
        (State.CONFIRMED, (Reason.ALREADY_MADE, Reason.IN_FLIGHT), 1),
    ]
    assert [one.state for one in found.effects] == [State.CONFIRMED]
    assert found.claimed_only == (1,)


def test_attempts_at_one_effect_are_counted() -> None:
    failed = {"error": "full"}
    found = told(
        *(one for n in range(3) for one in (called(2 * n, call=f"c{n}"), returned(2 * n + 1, failed, call=f"c{n}")))
    )
    assert [(one.attempt, one.repeat, one.repeats) for one in found.receipts] == [
        (1, Repeat.FIRST, None),
        (2, Repeat.NEW_ATTEMPT, 0),
        (3, Repeat.NEW_ATTEMPT, 2),
    ]
    assert found.effects[0].state is State.REFUSED


def test_a_second_call_before_the_first_came_back_is_the_same_attempt() -> None:
    first, second = told(called(1), called(2, call="c2"), returned(3), returned(4, call="c2")).receipts
    assert (second.repeat, second.repeats, second.attempt, second.reasons) == (
        Repeat.PENDING,
        1,
        1,
        (Reason.ADDRESS_MATCHES,),
    )
    assert told(called(1), called(2, call="c2")).receipts[1].repeat is Repeat.PENDING


def test_a_repeat_is_of_what_was_known_when_it_was_made() -> None:
    late_write = told(called(1), returned(2), called(3, call="c2"), written(4)).receipts
    assert late_write[1].repeat is Repeat.ALREADY_MADE
    denied_later = (called(1), ask(2), called(3, call="c2"), event(4, "approval.rejected", callId="c1"))
    assert told(*denied_later).receipts[1].repeat is Repeat.PENDING
    long_wait = (called(1), ask(2), event(3, "approval.received", callId="c1"), called(4, call="c2"))
    assert told(*long_wait, event(5, "approval.rejected", callId="c1")).receipts[1].repeat is Repeat.PENDING
    second_time = told(
        called(1),
        returned(2, {"error": "full"}),
        called(3, call="c2"),
        returned(4, call="c2"),
        called(5, call="c3"),
    ).receipts
    assert [(one.attempt, one.repeats) for one in second_time] == [(1, None), (2, 1), (2, 3)]


def test_runs_do_not_share_effects() -> None:
    one, other = (classify([called(1)], run=run).receipts[0].digest for run in ("r1", "r2"))
    assert one is not None
    assert one != other


def test_other_arguments_are_another_effect() -> None:
    found = told(called(1), returned(2), called(3, {**ARGUMENTS, "value": "Starter"}, call="c2"))
    assert [one.repeat for one in found.receipts] == [Repeat.FIRST, Repeat.FIRST]
    assert [one.state for one in found.effects] == [State.CONFIRMED, State.REQUESTED]


def test_calls_that_cannot_be_compared_are_effects_of_their_own() -> None:
    found = told(called(1, None), called(2, None, call="c2"))
    assert [(one.digest, one.attempts) for one in found.effects] == [(None, (1,)), (None, (2,))]
    assert [one.repeat for one in found.receipts] == [Repeat.FIRST, Repeat.FIRST]


def test_reads_never_enter_and_may_repeat_freely() -> None:
    reads = [one for n in range(4) for one in (called(2 * n, tool="recall"), returned(2 * n + 1, tool="recall"))]
    assert (
        told(*reads, called(9, tool="list_memories"), called(10, tool="echo"), returned(11, tool="echo")).receipts == ()
    )


def test_the_names_of_the_tools_are_configured() -> None:
    own = MemoryTools(writes=frozenset(("save",)))
    assert told(called(1), called(2, tool="save", call="c2"), tools=own).receipts[0].sequence == 2


def test_requested_until_more_is_known() -> None:
    assert states(called(1)) == [(State.REQUESTED, (Reason.IN_FLIGHT,))]
    assert effects(called(1)) == [State.REQUESTED]


@pytest.mark.parametrize(
    ("end", "trace"),
    [
        (event(5, "run.completed", node=None), Trace.RUN_ENDED),
        (event(5, "run.failed", node=None), Trace.RUN_ENDED),
        (event(5, "run.cancelled", node=None), Trace.RUN_ENDED),
        (event(5, "node.completed"), Trace.NODE_ENDED),
        (event(5, "node.failed"), Trace.NODE_ENDED),
        (event(5, "node.cancelled"), Trace.NODE_ENDED),
        (event(5, "node.skipped"), Trace.NODE_ENDED),
    ],
)
def test_a_return_that_is_missing_at_the_end_is_unknown(end: LogEvent, trace: Trace) -> None:
    receipt = only(called(1), end)
    assert (receipt.state, receipt.reasons) == (State.UNKNOWN, (Reason.NO_RETURN,))
    assert receipt.evidence == (Evidence(Trace.CALLED, 1), Evidence(trace, 5))
    late = only(called(1), end, returned(6))
    assert late.state is State.CONFIRMED


@pytest.mark.parametrize(
    "other", [event(5, "node.completed", node="n2"), event(5, "node.completed", node=None), event(5, "node.started")]
)
def test_what_ends_elsewhere_ends_nothing_here(other: LogEvent) -> None:
    assert only(called(1), other).state is State.REQUESTED
    assert only(called(1, node=None), other).state is State.REQUESTED


def test_what_was_under_way_when_a_run_crashed_is_lost() -> None:
    start = event(0, "run.started", node=None)
    again = event(5, "run.started", node=None)
    assert only(start, called(1)).state is State.REQUESTED
    assert only(start, called(1), again).state is State.UNKNOWN
    assert only(start, called(1), returned(2), again).state is State.CONFIRMED
    assert only(called(1), event(2, "run.started", node=None)).state is State.REQUESTED
    after = told(start, called(1), again, called(6, call="c2"), returned(7, call="c2")).receipts
    assert [(one.state, one.repeat) for one in after] == [
        (State.UNKNOWN, Repeat.FIRST),
        (State.CONFIRMED, Repeat.NEW_ATTEMPT),
    ]


def test_an_unknown_attempt_is_never_outweighed_by_a_refusal() -> None:
    events = (called(1), returned(2, "?"), called(3, call="c2"), returned(4, {"error": "no"}, call="c2"))
    assert effects(*events) == [State.UNKNOWN]
    assert effects(*events, called(5, call="c3")) == [State.REQUESTED]


def ask(sequence: int, **more: Any) -> LogEvent:
    return event(sequence, "approval.requested", **more)


@pytest.mark.parametrize(
    "request_",
    [
        ask(2),
        ask(2, callId="c1", node="elsewhere"),
        event(2, "node.suspended", kind="approval"),
        event(2, "interrupt.requested", kind="approval"),
    ],
)
def test_an_attempt_waits_for_an_approval(request_: LogEvent) -> None:
    assert states(called(1), request_) == [(State.WAITING, (Reason.AWAITS_APPROVAL,))]
    is_inferred = "callId" not in request_.members
    assert only(called(1), request_).evidence[1] == Evidence(Trace.APPROVAL_ASKED, 2, is_inferred)


@pytest.mark.parametrize(
    "other",
    [
        event(2, "node.suspended", kind="clarification"),
        event(2, "interrupt.requested"),
        ask(2, node="n2"),
        ask(2, node=None),
        ask(2, callId="other"),
    ],
)
def test_other_waits_are_not_its_own(other: LogEvent) -> None:
    assert only(called(1), other).state is State.REQUESTED
    assert only(called(1, node=None), ask(2, node=None)).state is State.REQUESTED


def test_two_attempts_in_one_node_are_not_told_apart_by_guessing() -> None:
    events = (called(1), called(2, {"key": "x"}, call="c2"), ask(3))
    assert [state for state, _ in states(*events)] == [State.REQUESTED, State.REQUESTED]
    done = (called(1), returned(2), called(3, {"key": "x"}, call="c2"), ask(4))
    assert [state for state, _ in states(*done)] == [State.CONFIRMED, State.WAITING]
    named = (called(1), called(2, {"key": "x"}, call="c2"), ask(3, callId="c2"))
    assert [state for state, _ in states(*named)] == [State.REQUESTED, State.WAITING]


VERDICTS: list[tuple[LogEvent, Trace]] = [
    (event(3, "approval.granted"), Trace.APPROVAL_GIVEN),
    (event(3, "approval.rejected"), Trace.APPROVAL_DENIED),
    (event(3, "approval.received", decision="approve"), Trace.APPROVAL_GIVEN),
    (event(3, "approval.received", decision="Rejected"), Trace.APPROVAL_DENIED),
    (event(3, "approval.received", approved=True), Trace.APPROVAL_GIVEN),
    (event(3, "approval.received", approved=False), Trace.APPROVAL_DENIED),
    (event(3, "approval.received", response={"action": "accept"}), Trace.APPROVAL_GIVEN),
    (event(3, "approval.received", resumeValue={"approved": False}), Trace.APPROVAL_DENIED),
    (event(3, "approval.received", decision="approve", action="reject"), Trace.APPROVAL_CLOSED),
    (event(3, "approval.received"), Trace.APPROVAL_CLOSED),
    (event(3, "approval.overridden", outcome="granted"), Trace.APPROVAL_GIVEN),
    (event(3, "interrupt.resolved", kind="approval", value="no"), Trace.APPROVAL_DENIED),
    (event(3, "node.interrupt.resolved", kind="approval"), Trace.APPROVAL_CLOSED),
]


@pytest.mark.parametrize(("verdict", "trace"), VERDICTS)
def test_how_an_approval_ends(verdict: LogEvent, trace: Trace) -> None:
    receipt = only(called(1), ask(2), verdict)
    assert receipt.evidence[2] == Evidence(trace, 3, True)
    is_denied = trace is Trace.APPROVAL_DENIED
    assert receipt.state is (State.REFUSED if is_denied else State.REQUESTED)
    assert receipt.reasons == ((Reason.REJECTED,) if is_denied else (Reason.IN_FLIGHT,))
    assert only(called(1), ask(2), verdict, event(9, "run.completed")).state is (
        State.REFUSED if is_denied else State.UNKNOWN
    )


def test_the_end_of_another_kind_of_wait_decides_nothing() -> None:
    other = event(3, "node.interrupt.resolved", kind="clarification", value="no")
    assert only(called(1), ask(2), other).state is State.WAITING


def test_an_approval_is_followed_by_its_interrupt() -> None:
    asked = event(2, "node.suspended", node="n1", kind="approval", interruptId="i1")
    ended = event(9, "node.interrupt.resolved", node="elsewhere", kind="approval", interruptId="i1", value="yes")
    other = event(9, "node.interrupt.resolved", node="elsewhere", kind="approval", interruptId="i2", value="no")
    assert only(called(1), asked, ended).evidence[2] == Evidence(Trace.APPROVAL_GIVEN, 9, False)
    assert only(called(1), asked, other).state is State.WAITING
    same_node = event(9, "node.interrupt.resolved", kind="approval", interruptId="i2", value="no")
    assert only(called(1), asked, same_node).state is State.WAITING
    unnamed = event(9, "node.interrupt.resolved", kind="approval", value="no")
    assert only(called(1), asked, unnamed).state is State.REFUSED
    assert only(called(1), ask(2), same_node).state is State.REFUSED
    by_approval = (
        event(2, "approval.requested", approvalId="a1"),
        event(3, "approval.rejected", node="x", approvalId="a1"),
    )
    assert only(called(1), *by_approval).state is State.REFUSED


def test_an_approval_is_followed_by_its_cause() -> None:
    begun = called(1, event_id="e1")
    assert only(begun, event(2, "approval.requested", node="x", cause="e1")).state is State.WAITING
    assert only(begun, event(2, "approval.requested", node="x", cause="e9")).state is State.REQUESTED


def test_an_approved_write_that_returned_is_confirmed_and_a_rejected_one_is_refused() -> None:
    yes, no = event(3, "approval.granted"), event(3, "approval.rejected")
    assert only(called(1), ask(2), yes, returned(4)).reasons == (Reason.ADDRESS_MATCHES,)
    assert only(called(1), ask(2), no, returned(4, "rejected by the user")).reasons == (Reason.REJECTED,)
    assert only(called(1), ask(2), no, returned(4, {"error": "no"})).reasons == (Reason.ERROR,)
    against = only(called(1), ask(2), no, returned(4))
    assert (against.state, against.reasons) == (State.UNKNOWN, (Reason.CONTRADICTION,))


ASKS = {"entry": ENTRY, "needsDecision": True}


def test_needs_decision_beats_a_matching_entry_even_one_that_can_be_read_back() -> None:
    receipt = only(called(1), returned(2, ASKS), event(9, "run.completed"), stored=[StoredEntry("notes", "m1")])
    assert (receipt.state, receipt.reasons) == (State.WAITING, (Reason.NEEDS_DECISION,))


@pytest.mark.parametrize(
    ("later", "state", "reason"),
    [
        ((event(3, "approval.rejected"),), State.REFUSED, Reason.REJECTED),
        ((event(3, "approval.granted"),), State.UNKNOWN, Reason.DECIDED_WITHOUT_OUTCOME),
        ((event(3, "approval.received"),), State.UNKNOWN, Reason.DECIDED_WITHOUT_OUTCOME),
        ((event(3, "approval.received"), written(4)), State.UNKNOWN, Reason.DECIDED_WITHOUT_OUTCOME),
        ((event(3, "approval.granted"), written(4)), State.CONFIRMED, Reason.WRITTEN_AFTER_APPROVAL),
        ((event(3, "approval.granted"), written(4, "m9")), State.UNKNOWN, Reason.DECIDED_WITHOUT_OUTCOME),
        ((written(3), event(4, "approval.granted")), State.UNKNOWN, Reason.DECIDED_WITHOUT_OUTCOME),
        ((ask(3),), State.WAITING, Reason.NEEDS_DECISION),
        ((ask(3), event(4, "approval.granted"), written(5)), State.CONFIRMED, Reason.WRITTEN_AFTER_APPROVAL),
    ],
)
def test_what_follows_a_decision_that_was_needed(later: tuple[LogEvent, ...], state: State, reason: Reason) -> None:
    assert states(called(1), returned(2, ASKS), *later) == [(state, (reason,))]


def test_an_approval_from_before_the_answer_is_not_the_decision_it_asks_for() -> None:
    assert only(called(1), ask(2), event(3, "approval.granted"), returned(4, ASKS), written(5)).state is State.WAITING


def test_a_decided_write_to_another_address_is_not_confirmed() -> None:
    other = {"entry": {**ENTRY, "key": "other"}, "needsDecision": True}
    events = (called(1), returned(2, other), event(3, "approval.granted"), written(4))
    assert states(*events) == [(State.UNKNOWN, (Reason.DECIDED_WITHOUT_OUTCOME,))]


def test_a_repeat_while_a_decision_is_awaited_and_after_it_was_made() -> None:
    events = (
        called(1),
        returned(2, ASKS),
        event(3, "approval.granted"),
        called(4, call="c2"),
        written(5),
        called(6, call="c3"),
    )
    assert [one.repeat for one in told(*events).receipts] == [Repeat.FIRST, Repeat.PENDING, Repeat.ALREADY_MADE]
    denied = told(called(1), ask(2), event(3, "approval.rejected"), called(4, call="c2")).receipts
    assert denied[-1].repeat is Repeat.NEW_ATTEMPT


def test_without_its_call_a_return_confirms_nothing() -> None:
    found = told(returned(2))
    assert [(one.state, one.reasons, one.sequence, one.digest) for one in found.receipts] == [
        (State.UNKNOWN, (Reason.NO_CALL,), 2, None)
    ]
    assert found.receipts[0].evidence == (Evidence(Trace.RETURNED, 2),)
    assert (found.receipts[0].tool, found.receipts[0].call_id) == ("remember", "c1")
    assert [one.state for one in told(returned(2), returned(3)).receipts] == [State.UNKNOWN]
    assert states(returned(2, {"error": "no"})) == [(State.REFUSED, (Reason.ERROR,))]
    assert told(returned(2, tool="recall"), returned(3, tool="")).receipts == ()


def test_without_its_arguments_a_call_is_never_confirmed() -> None:
    assert states(called(1, None), returned(2)) == [(State.UNKNOWN, (Reason.NO_ARGUMENTS,))]


def test_a_call_id_used_again_belongs_to_the_latest_call_that_has_no_return() -> None:
    found = told(called(1), called(2), returned(3), returned(4, {"error": "no"}))
    assert [(one.sequence, one.state) for one in found.receipts] == [(1, State.REFUSED), (2, State.CONFIRMED)]


def test_two_returns_that_differ_are_a_contradiction_and_two_alike_are_one() -> None:
    assert states(called(1), returned(2), returned(3, {"error": "no"})) == [(State.UNKNOWN, (Reason.CONTRADICTION,))]
    third = states(called(1), called(2), returned(3), returned(4), returned(5, {"error": "no"}))
    assert [state for state, _ in third] == [State.CONFIRMED, State.UNKNOWN]
    alike = only(called(1), returned(2), returned(3))
    assert (alike.state, len(alike.evidence)) == (State.CONFIRMED, 3)


def test_a_return_without_a_call_id_belongs_to_its_cause_or_to_the_only_open_call() -> None:
    by_cause = (called(1, call=None, event_id="e1"), called(2, {"key": "x"}, call=None, event_id="e2"))
    assert [state for state, _ in states(*by_cause, returned(3, call=None, cause="e1"))] == [
        State.CONFIRMED,
        State.REQUESTED,
    ]
    assert [state for state, _ in states(called(1, call=None), returned(2, call=None))] == [State.CONFIRMED]
    ambiguous = states(*by_cause, returned(3, call=None))
    assert [state for state, _ in ambiguous] == [State.REQUESTED, State.REQUESTED, State.UNKNOWN]
    for other in (returned(2, call=None, node="n2"), returned(2, call=None, tool="memory.remember")):
        assert [state for state, _ in states(called(1, call=None), other)] == [State.REQUESTED, State.UNKNOWN]
    answered = states(called(1, call=None), returned(2, call=None), returned(3, call=None))
    assert [state for state, _ in answered] == [State.CONFIRMED, State.UNKNOWN]


def test_an_approval_that_names_the_return_as_its_cause() -> None:
    asked = event(3, "approval.rejected", node="x", cause="e2")
    assert only(called(1), returned(2, ASKS, event_id="e2"), asked).reasons == (Reason.REJECTED,)


def test_writes_that_the_agent_claims_and_the_log_does_not_show() -> None:
    assert told(called(1), returned(2)).claimed_only == (1,)
    assert told(called(1), returned(2, {"ok": True})).claimed_only == (1,)
    assert told(called(1), returned(2, {**DONE, "truncated": True})).claimed_only == (1,)
    assert told(called(1), returned(2), written(3)).claimed_only == ()
    for outcome in ({"error": "no"}, "?", ASKS):
        assert told(called(1), returned(2, outcome)).claimed_only == ()
    assert told(called(1)).claimed_only == ()


def test_writes_that_no_call_asked_for() -> None:
    found = told(written(1, "m0"), called(2), returned(3), written(4), written(5, "summary", node=None))
    assert (found.unasked, found.receipts[0].write, found.claimed_only) == ((1, 5), 4, ())


def test_a_write_goes_with_the_call_before_it_that_names_its_entry() -> None:
    early = told(written(1), called(2), returned(3))
    assert (early.receipts[0].write, early.unasked) == (None, (1,))
    twice = told(
        called(1),
        returned(2),
        written(3),
        called(4, {**ARGUMENTS, "value": "x"}, call="c2"),
        returned(5, call="c2"),
        written(6),
    )
    assert [one.write for one in twice.receipts] == [3, 6]
    other_ref = told(called(1), returned(2, {**DONE, "memoryRef": "tasks"}), written(3, ref="notes"))
    assert (other_ref.receipts[0].write, other_ref.unasked) == (None, (3,))
    same_ref = told(called(1), returned(2, {**DONE, "memoryRef": "notes"}), written(3, ref="notes"))
    assert (same_ref.receipts[0].write, same_ref.receipts[0].memory_ref) == (3, "notes")


NAMELESS = {"entry": {key: value for key, value in ENTRY.items() if key != "id"}}


def test_an_answer_that_names_no_entry_is_linked_to_the_only_write_near_it_and_that_is_marked() -> None:
    found = told(called(1), written(2, "m7"), returned(3, NAMELESS))
    assert (found.receipts[0].write, found.unasked, found.claimed_only) == (2, (), ())
    assert Evidence(Trace.WRITTEN, 2, True) in found.receipts[0].evidence
    two = told(called(1), written(2, "m7"), written(3, "m8"), returned(4, NAMELESS))
    assert (two.receipts[0].write, two.unasked) == (None, (2, 3))
    for far in (written(0, "m7"), written(2, "m7", node="n2"), written(2, "m7", node=None)):
        assert told(called(1), far, returned(3, NAMELESS)).receipts[0].write is None
    assert (
        told(called(1, node=None), written(2, "m7", node=None), returned(3, NAMELESS, node=None)).receipts[0].write
        is None
    )
    for outcome in ({"error": "no"}, "?", {**NAMELESS, "needsDecision": True}):
        assert told(called(1), written(2, "m7"), returned(3, outcome)).receipts[0].write is None


def test_each_attempt_of_a_node_has_the_writes_up_to_the_next_one() -> None:
    other = {**ARGUMENTS, "value": "x"}
    found = told(
        called(1),
        returned(2, NAMELESS),
        written(3, "a"),
        called(4, other, call="c2"),
        written(5, "b"),
        returned(6, NAMELESS, call="c2"),
    )
    assert [one.write for one in found.receipts] == [3, 5]
    between = told(called(1), returned(2, NAMELESS), called(3, other, call="c2", node="n2"), written(4, "a"))
    assert between.receipts[0].write == 4


def test_a_write_behind_the_next_attempt_is_not_the_earlier_ones() -> None:
    other = {**ARGUMENTS, "value": "x"}
    failed = returned(5, {"error": "no"}, call="c2")
    found = told(called(1), returned(2, NAMELESS), called(3, other, call="c2"), written(4, "a"), failed)
    assert ([one.write for one in found.receipts], found.unasked) == ([None, None], (4,))


def test_a_named_write_is_not_given_away() -> None:
    other = {**ARGUMENTS, "value": "x"}
    found = told(
        called(1),
        returned(2, NAMELESS),
        called(3, other, call="c2", node="n2"),
        returned(4, call="c2", node="n2"),
        written(5, "m1"),
    )
    assert [one.write for one in found.receipts] == [None, 5]


def test_the_node_of_a_write_is_the_payloads_before_the_envelopes() -> None:
    write = LogEvent(2, "memory.written", {"memoryRef": "r", "memoryId": "m7", "nodeId": "n1"}, "outer")
    assert told(called(1), write, returned(3, NAMELESS)).receipts[0].write == 2


def test_reading_back_proves_nothing_but_is_told() -> None:
    for stored, is_told in (
        ([StoredEntry("notes", "m1")], True),
        ([StoredEntry("notes", "m2")], False),
        ([], False),
    ):
        receipt = only(called(1), returned(2, {"error": "no", "memoryId": "m1"}), stored=stored)
        assert receipt.state is State.REFUSED
        assert (Evidence(Trace.READ_BACK, NOT_IN_LOG) in receipt.evidence) is is_told
    other = only(called(1), returned(2, {**DONE, "memoryRef": "tasks"}), stored=[StoredEntry("notes", "m1")])
    assert Evidence(Trace.READ_BACK, NOT_IN_LOG) not in other.evidence
    same = only(
        called(1),
        returned(2, {**DONE, "memoryRef": "notes"}),
        stored=[StoredEntry("tasks", "m1"), StoredEntry("notes", "m1")],
    )
    assert Evidence(Trace.READ_BACK, NOT_IN_LOG) in same.evidence
    assert Evidence(Trace.READ_BACK, NOT_IN_LOG) not in only(called(1), stored=[StoredEntry("notes", "m1")]).evidence


def test_payloads_that_are_no_objects_say_nothing() -> None:
    payloads: list[tuple[str, Any]] = [
        ("agent.toolCalled", None),
        ("agent.toolReturned", [1]),
        ("memory.written", "x"),
        ("approval.requested", 7),
        ("approval.received", None),
        ("approval.received", {"callId": [1], "interruptId": {}}),
        ("node.suspended", None),
        ("unheard.of", {}),
    ]
    found = told(*(LogEvent(number, name, payload) for number, (name, payload) in enumerate(payloads)))
    assert (found.receipts, found.unasked) == ((), (2,))


STEPS: list[Any] = [
    lambda n: called(n, call=f"c{n % 3}"),
    lambda n: called(n, {"key": "x"}, call=None, event_id=f"e{n}"),
    lambda n: returned(n, call=f"c{n % 3}"),
    lambda n: returned(n, {"error": "no"}, call=None),
    lambda n: returned(n, ASKS, call=f"c{n % 3}"),
    lambda n: returned(n, NAMELESS, call=f"c{n % 3}"),
    lambda n: written(n, f"m{n % 2}"),
    lambda n: ask(n),
    lambda n: event(n, "approval.granted"),
    lambda n: event(n, "approval.rejected", callId=f"c{n % 3}"),
    lambda n: event(n, "node.completed"),
    lambda n: event(n, "run.completed", node=None),
    lambda n: event(n, "run.started", node=None),
]


@given(st.lists(st.sampled_from(STEPS), max_size=14), st.randoms(use_true_random=False))
def test_any_log_is_classified_and_order_and_repetition_of_events_do_not_matter(
    steps: list[Any], chance: Random
) -> None:
    log = [step(number) for number, step in enumerate(steps)]
    found = told(*log)
    assert told(*chance.sample(log, len(log)), *log[:3]) == found
    writes = {one.sequence for one in log if one.type == "memory.written"}
    linked = [one.write for one in found.receipts if one.write is not None]
    assert len(linked) == len(set(linked))
    assert set(found.unasked) == writes - set(linked)
    assert {one for effect in found.effects for one in effect.attempts} == {one.sequence for one in found.receipts}
    calls = {one.sequence for one in log if one.type == "agent.toolCalled"}
    assert calls <= {one.sequence for one in found.receipts}
    for receipt in found.receipts:
        if receipt.state is State.CONFIRMED and receipt.repeat is not Repeat.ALREADY_MADE:
            assert receipt.asked == receipt.returned is not None
