"""Which events of a run belong together: a call and its return, a question and its answer, a dispatch and its child.

What an event names itself is a link. Where it names nothing, the next or last one of the same node may stand in, and
is told apart: it is a guess by order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

MOST_CHILDREN = 20

Way = Literal["after", "before"]


@dataclass(frozen=True, slots=True)
class Pair:
    """``opens`` is answered by one of ``closes``. They name each other by one of ``ids``; where neither names
    anything, by order in the same node (or, with ``is_of_run``, in the run)."""

    opens: str
    closes: tuple[str, ...]
    ids: tuple[str, ...]
    opened: str
    closed: str
    is_of_run: bool = False


PAIRS = (
    Pair("agent.toolCalled", ("agent.toolReturned",), ("callId",), "call", "return"),
    Pair("agent.invocation.started", ("agent.invocation.completed",), ("invocationId",), "invocation", "completion"),
    Pair(
        "approval.requested", ("approval.received",), ("approvalId", "interruptId", "requestId"), "request", "decision"
    ),
    Pair(
        "clarification.requested",
        ("clarification.resolved", "clarification.received"),
        ("clarificationId", "interruptId", "requestId"),
        "question",
        "answer",
    ),
    Pair("interrupt.requested", ("interrupt.resolved",), ("interruptId",), "interrupt", "resolution"),
    Pair("node.suspended", ("node.resumed",), ("interruptId", "suspensionId"), "suspension", "resume"),
    Pair("run.paused", ("run.resumed", "run.resuming"), (), "pause", "resume", is_of_run=True),
    Pair("core.dispatch.fanOut", ("core.dispatch.join",), ("dispatchId", "fanOutId"), "fan-out", "join"),
)


@dataclass(frozen=True, slots=True)
class Search:
    """Where the other half of a pair is: events of ``types`` on one side, nearest first. ``word`` says what it is."""

    types: tuple[str, ...]
    way: Way
    pair: Pair
    word: str


def searches(type: str) -> Iterator[Search]:
    for pair in PAIRS:
        if type == pair.opens:
            yield Search(pair.closes, "after", pair, pair.closed)
        elif type in pair.closes:
            yield Search((pair.opens,), "before", pair, pair.opened)


@dataclass(frozen=True, slots=True)
class Half:
    """What is looked at of an event to tell whether it is the other half."""

    sequence: int
    node: str | None
    payload: Any


@dataclass(frozen=True, slots=True)
class Found:
    sequence: int
    is_guess: bool


def other_half(search: Search, mine: Half, others: Sequence[Half]) -> Found | None:
    """``others`` are the candidates, nearest first."""
    named = _names(mine.payload, search.pair.ids)
    if named:
        for other in others:
            if named & _names(other.payload, search.pair.ids):
                return Found(other.sequence, is_guess=False)
        return None
    for other in others:
        if _names(other.payload, search.pair.ids):
            continue
        if search.pair.is_of_run or (mine.node is not None and other.node == mine.node):
            return Found(other.sequence, is_guess=True)
    return None


def _names(payload: Any, members: Sequence[str]) -> set[tuple[str, str]]:
    """A name counts under the member that holds it: two hosts' ids may look alike."""
    if not isinstance(payload, Mapping):
        return set()
    return {(name, value) for name in members if isinstance(value := payload.get(name), str) and value}


def children_named(payload: Any) -> tuple[str, ...]:
    """The runs that an event says it started or waited for."""
    if not isinstance(payload, Mapping):
        return ()
    holders = [payload, *(one for name in ("outputs", "output") if isinstance(one := payload.get(name), Mapping))]
    found = dict.fromkeys(name for holder in holders for name in _children(holder))
    return tuple(found)[:MOST_CHILDREN]


def _children(holder: Mapping[str, Any]) -> Iterator[str]:
    told: list[Any] = [holder.get("childRunId")]
    for member in ("childRunIds", "childRuns", "children"):
        several = holder.get(member)
        told += several if isinstance(several, list) else []
    for one in told:
        name = one.get("runId") if isinstance(one, Mapping) else one
        if isinstance(name, str) and name:
            yield name


def replay_source(type: str, payload: Any) -> tuple[str, int | None] | None:
    """The run and the sequence that an event about a replay points to."""
    if not type.startswith("replay.") or not isinstance(payload, Mapping):
        return None
    source, at = payload.get("sourceRunId"), payload.get("atSequence")
    if not isinstance(source, str) or not source:
        return None
    return source, at if isinstance(at, int) and not isinstance(at, bool) and at >= 0 else None
