"""What a run's log holds of each attempted memory write: its call, its return, approvals, and the `memory.written`.

What is not said outright but follows from where it stands (an approval in the one node that waits for one, a write that
names no attempt between two attempts of a node) is marked as inferred.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ledger.domain.tool_calls import Answer, Call, MemoryTools, Said, read_answer, read_call, text_of

NOT_IN_LOG = -1
CLAIMS = frozenset((Said.ADDRESS, Said.NO_ADDRESS, Said.TRUNCATED))
"""Answers that say, more or less, that it was done."""


class Trace(StrEnum):
    CALLED = "called"
    RETURNED = "returned"
    APPROVAL_ASKED = "approval_asked"
    APPROVAL_GIVEN = "approval_given"
    APPROVAL_DENIED = "approval_denied"
    APPROVAL_CLOSED = "approval_closed"
    WRITTEN = "written"
    NODE_ENDED = "node_ended"
    RUN_ENDED = "run_ended"
    READ_BACK = "read_back"


@dataclass(frozen=True, slots=True)
class Evidence:
    """`sequence` is the event's; NOT_IN_LOG for what was read from the host's memory instead of the log."""

    trace: Trace
    sequence: int
    is_inferred: bool = False


@dataclass(frozen=True, slots=True)
class LogEvent:
    """An event of the run as far as receipts need it. `type` is the canonical name."""

    sequence: int
    type: str
    payload: Any = None
    node_id: str | None = None
    event_id: str | None = None
    causation_id: str | None = None

    @property
    def members(self) -> Mapping[str, Any]:
        return self.payload if isinstance(self.payload, Mapping) else {}


@dataclass(slots=True)
class Write:
    """A `memory.written`. `is_taken` says that an attempt accounts for it."""

    sequence: int
    node_id: str | None
    memory_ref: str | None
    memory_id: str | None
    is_taken: bool = False


@dataclass(slots=True, eq=False)
class Attempt:
    """`ended` is the event after which no return is to be expected."""

    call: Call
    sequence: int
    node_id: str | None
    agent_id: str | None
    evidence: tuple[Evidence, ...] = ()
    returned: list[tuple[int, Answer]] = field(default_factory=list)
    approvals: list[Evidence] = field(default_factory=list)
    has_interrupt: bool = False
    ended: Evidence | None = None
    write: Evidence | None = None

    @property
    def answer(self) -> Answer | None:
        return self.returned[0][1] if self.returned else None

    @property
    def verdict(self) -> Trace | None:
        """How the last approval stands."""
        return self.approvals[-1].trace if self.approvals else None

    @property
    def claims_success(self) -> bool:
        return self.answer is not None and self.answer.said in CLAIMS

    def show(self, trace: Trace, sequence: int, *, is_inferred: bool = False) -> Evidence:
        found = Evidence(trace, sequence, is_inferred)
        self.evidence = tuple(sorted((*self.evidence, found), key=lambda evidence: evidence.sequence))
        return found


class Log:
    """Reads a run's events, which come in the order of their sequence and once each."""

    def __init__(self, run: str, tools: MemoryTools) -> None:
        self.run = run
        self.tools = tools
        self.attempts: list[Attempt] = []
        self.writes: list[Write] = []
        self._has_started = False
        self._under_way: dict[Attempt, None] = {}
        self._named: dict[tuple[str, str], list[Attempt]] = defaultdict(list)

    def read(self, event: LogEvent) -> None:
        step = _STEPS.get(event.type)
        if step is not None:
            step(self, event)

    def called(self, event: LogEvent) -> None:
        if self.tools.is_write(event.members.get("toolName")):
            attempt = self._begin(event, read_call(event.members, run=self.run))
            attempt.show(Trace.CALLED, event.sequence)

    def returned(self, event: LogEvent) -> None:
        attempt = self._called_by(event)
        if attempt is None:
            tool = text_of(event.members.get("toolName"))
            if tool is None or not self.tools.is_write(tool):
                return
            attempt = self._begin(event, Call(tool, text_of(event.members.get("callId")), is_seen=False))
        attempt.returned.append((event.sequence, read_answer(event.members)))
        attempt.show(Trace.RETURNED, event.sequence)
        self._name(attempt, "event", event.event_id)
        if attempt.answer is not None and attempt.answer.said is not Said.NEEDS_DECISION:
            self._under_way.pop(attempt, None)

    def _begin(self, event: LogEvent, call: Call) -> Attempt:
        attempt = Attempt(call, event.sequence, event.node_id, text_of(event.members.get("agentId")))
        self.attempts.append(attempt)
        self._under_way[attempt] = None
        self._name(attempt, "event", event.event_id)
        self._name(attempt, "call", call.call_id)
        return attempt

    def _name(self, attempt: Attempt, kind: str, name: str | None) -> None:
        if name is not None:
            self._named[kind, name].append(attempt)

    def _by_name(self, kind: str, name: object) -> Sequence[Attempt]:
        return self._named.get((kind, name), ()) if isinstance(name, str) else ()

    def _called_by(self, event: LogEvent) -> Attempt | None:
        """The call that a return belongs to: by its call id, by what it says caused it, or as the only open one."""
        call_id = text_of(event.members.get("callId"))
        if call_id is not None:
            same = self._by_name("call", call_id)
            unanswered = [attempt for attempt in same if not attempt.returned]
            return next(iter((*unanswered[-1:], *same[-1:])), None)
        caused = self._by_name("event", event.causation_id)
        if caused:
            return caused[-1]
        asked = (event.members.get("toolName"), event.node_id)
        open_ones = [
            attempt
            for attempt in self._under_way
            if not attempt.returned and (attempt.call.tool, attempt.node_id) == asked
        ]
        return open_ones[0] if len(open_ones) == 1 else None

    def asked(self, event: LogEvent) -> None:
        """Somebody is asked for an approval."""
        if event.type == "approval.requested" or event.members.get("kind") == "approval":
            self._approve(event, Trace.APPROVAL_ASKED)

    def answered(self, event: LogEvent) -> None:
        """Somebody said yes or no, or an interrupt ended without telling which."""
        if event.members.get("kind") in (None, "approval"):
            self._approve(event, _verdict(event))

    def _approve(self, event: LogEvent, trace: Trace) -> None:
        named = self._meant(event)
        meant = [named] if named else self._waiting_for(event)
        if len(meant) != 1:
            return
        attempt = meant[0]
        attempt.approvals.append(attempt.show(trace, event.sequence, is_inferred=named is None))
        for interrupt in _interrupts(event):
            attempt.has_interrupt = True
            self._name(attempt, "interrupt", interrupt)

    def _meant(self, event: LogEvent) -> Attempt | None:
        names = [("call", event.members.get("callId")), ("event", event.causation_id)]
        names += [("interrupt", interrupt) for interrupt in _interrupts(event)]
        return next((found[-1] for kind, name in names if (found := self._by_name(kind, name))), None)

    def _waiting_for(self, event: LogEvent) -> list[Attempt]:
        """Attempts in the event's node that it may be about: it names neither another call nor another interrupt."""
        if text_of(event.members.get("callId")) is not None:
            return []
        is_another = bool(_interrupts(event))
        return [attempt for attempt in self._waiting_in(event.node_id) if not (is_another and attempt.has_interrupt)]

    def _waiting_in(self, node_id: str | None) -> list[Attempt]:
        return [attempt for attempt in self._under_way if node_id is not None and attempt.node_id == node_id]

    def written(self, event: LogEvent) -> None:
        node_id = text_of(event.members.get("nodeId")) or event.node_id
        ref, memory_id = (text_of(event.members.get(name)) for name in ("memoryRef", "memoryId"))
        self.writes.append(Write(event.sequence, node_id, ref, memory_id))

    def node_ended(self, event: LogEvent) -> None:
        self._end(self._waiting_in(event.node_id), Trace.NODE_ENDED, event)

    def run_ended(self, event: LogEvent) -> None:
        self._end(list(self._under_way), Trace.RUN_ENDED, event)

    def started(self, event: LogEvent) -> None:
        """A second start is the recovery of a run that had crashed: what was under way is lost."""
        if self._has_started:
            self.run_ended(event)
        self._has_started = True

    def _end(self, attempts: Iterable[Attempt], trace: Trace, event: LogEvent) -> None:
        for attempt in attempts:
            if not attempt.returned:
                attempt.ended = attempt.show(trace, event.sequence)
                del self._under_way[attempt]

    def link_writes(self) -> None:
        """Each attempt with the first write after it of the entry that its answer names; then, where an answer names
        none, with the only write in its node before the next attempt there."""
        by_id: dict[str | None, list[Write]] = defaultdict(list)
        by_node: dict[str | None, list[Write]] = defaultdict(list)
        for write in self.writes:
            by_id[write.memory_id].append(write)
            by_node[write.node_id].append(write)
        for attempt in self.attempts:
            _link(attempt, _of_entry(attempt, by_id), is_inferred=False)
        next_in_node: dict[str | None, int] = {}
        for attempt in reversed(self.attempts):
            near = _near(attempt, by_node, next_in_node.get(attempt.node_id))
            _link(attempt, near if len(near) == 1 else [], is_inferred=True)
            next_in_node[attempt.node_id] = attempt.sequence


def _of_entry(attempt: Attempt, by_id: Mapping[str | None, list[Write]]) -> list[Write]:
    answer = attempt.answer
    if answer is None or answer.memory_id is None:
        return []
    return [
        write
        for write in by_id.get(answer.memory_id, ())
        if not write.is_taken and answer.memory_ref in (None, write.memory_ref) and write.sequence > attempt.sequence
    ]


def _near(attempt: Attempt, by_node: Mapping[str | None, list[Write]], end: int | None) -> list[Write]:
    answer = attempt.answer
    if attempt.node_id is None or answer is None or answer.memory_id is not None or answer.said not in CLAIMS:
        return []
    return [
        write
        for write in by_node.get(attempt.node_id, ())
        if not write.is_taken and attempt.sequence < write.sequence and (end is None or write.sequence < end)
    ]


def _link(attempt: Attempt, writes: Sequence[Write], *, is_inferred: bool) -> None:
    if writes:
        writes[0].is_taken = True
        attempt.write = attempt.show(Trace.WRITTEN, writes[0].sequence, is_inferred=is_inferred)


def _interrupts(event: LogEvent) -> set[str]:
    told = (text_of(event.members.get(name)) for name in ("interruptId", "approvalId"))
    return {interrupt for interrupt in told if interrupt is not None}


_STEPS: Mapping[str, Callable[[Log, LogEvent], None]] = {
    "run.started": Log.started,
    "agent.toolCalled": Log.called,
    "agent.toolReturned": Log.returned,
    "memory.written": Log.written,
    **dict.fromkeys(("approval.requested", "interrupt.requested", "node.suspended"), Log.asked),
    **dict.fromkeys(
        ("approval.received", "approval.granted", "approval.rejected", "approval.overridden"), Log.answered
    ),
    **dict.fromkeys(("interrupt.resolved", "node.interrupt.resolved"), Log.answered),
    **dict.fromkeys(("node.completed", "node.failed", "node.cancelled", "node.skipped"), Log.node_ended),
    **dict.fromkeys(("run.completed", "run.failed", "run.cancelled"), Log.run_ended),
}

TYPES = tuple(_STEPS)
"""The types of the events that receipts rest on."""

_VERDICTS = ("decision", "outcome", "verdict", "action", "approved", "response", "resolution", "value", "resumeValue")
_YES = frozenset(("approve", "approved", "accept", "accepted", "grant", "granted", "allow", "allowed", "yes", "true"))
_NO = frozenset(("reject", "rejected", "deny", "denied", "refuse", "refused", "decline", "declined", "no", "false"))
_BY_TYPE = {"approval.granted": Trace.APPROVAL_GIVEN, "approval.rejected": Trace.APPROVAL_DENIED}


def _verdict(event: LogEvent) -> Trace:
    if event.type in _BY_TYPE:
        return _BY_TYPE[event.type]
    told = _words(event.members)
    if told.isdisjoint(_YES) == told.isdisjoint(_NO):
        return Trace.APPROVAL_CLOSED
    return Trace.APPROVAL_DENIED if told.isdisjoint(_YES) else Trace.APPROVAL_GIVEN


def _words(members: Mapping[str, Any]) -> set[str]:
    """What the members that can hold a verdict say, one level deep."""
    values = [members.get(name) for name in _VERDICTS]
    inner = [value.get(name) for value in values if isinstance(value, Mapping) for name in _VERDICTS]
    return {str(value).lower() for value in (*values, *inner) if isinstance(value, str | bool)}
