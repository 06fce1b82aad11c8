"""What a run's state was behind any of its events: a fold over the log in the order of sequence.

A state is small on purpose, so that one can be kept every so often and the fold go on from there: of nodes it knows
the last attempt, of long values no more than where they are and what tells them apart. Names are in their stored form.

Channels are folded by the reducer that each write names (the write and not the workflow decides, so that a replay
comes to the same). What only the workflow's definition says, such as a channel's bounds, is in no log, and so nothing
is ever dropped here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Context, Decimal, InvalidOperation
from hashlib import blake2b
from typing import Any

from runs.domain.folding import (
    LIFECYCLE_TYPES,
    PAUSE,
    PAUSE_TYPES,
    STATUS_TYPES,
    Attempt,
    Lifecycle,
    StatusAt,
    advance,
    is_terminal,
    later_status,
)
from runs.domain.member_texts import member_texts, object_texts, string_in
from runs.domain.packed_attempt import unpack
from runs.domain.storable import storable
from runs.domain.summary import lifecycle_detail

VARIABLE = "variable.changed"
CHANNEL = "channel.written"
STARTED = "run.started"
STATE_TYPES = LIFECYCLE_TYPES | PAUSE_TYPES | STATUS_TYPES | {VARIABLE, CHANNEL}
"""Events of every other type leave the state as it is."""

RUN_LEVEL = ""
"""The lane of what waits without a node."""

LONGEST_KEPT = 512
"""Characters of a value that a state holds itself."""
LISTED = 20
"""So many of a channel's last entries are kept one by one; all of them are counted."""

REDUCERS = ("replace", "append", "merge", "counter", "votes", "feedback", "message")
_LISTS = ("append", "feedback", "message")
_EXACT = Context(prec=400)


def is_telling(type: str) -> bool:
    """Whether the fold looks at the payload of events of this type."""
    return type in (VARIABLE, CHANNEL, STARTED) or type.endswith(("suspended", "requested", "failed", "retried"))


@dataclass(frozen=True, slots=True)
class Step:
    """An event as far as the fold needs it: `body` only where `is_telling` holds."""

    sequence: int
    type: str
    node: str | None
    at: datetime
    body: str | None = None


@dataclass(frozen=True, slots=True)
class Value:
    """A JSON value: its text, unless it is long; then it is to be found in the event at `sequence`."""

    sequence: int
    size: int
    digest: str
    text: str | None

    @classmethod
    def of(cls, text: str, sequence: int) -> Value:
        kept = text if len(text) <= LONGEST_KEPT else None
        return cls(sequence, len(text), blake2b(text.encode(), digest_size=8).hexdigest(), kept)


@dataclass(frozen=True, slots=True)
class Variable:
    """`value` is None where the last change told none: the variable was taken away, or the host keeps it back."""

    value: Value | None
    node: str | None
    sequence: int
    changes: int


@dataclass(slots=True)
class Channel:
    """What a channel's writes add up to.

    `value` is what `replace` and reducers that nobody knows leave, `total` what `counter` does, `parts` what `merge`
    and `votes` do, by name, and `last` the end of what `append`, `feedback` and `message` gather, of `count` entries.
    `misfits` counts the writes that the reducer can make nothing of, and `reducers` how often it has changed: a channel
    begins anew then.
    """

    reducer: str
    writes: int = 0
    sequence: int = -1
    node: str | None = None
    value: Value | None = None
    total: str | None = None
    parts: dict[str, Value] = field(default_factory=dict)
    last: list[Value] = field(default_factory=list)
    count: int = 0
    seen: set[str] = field(default_factory=set)
    misfits: int = 0
    reducers: int = 1

    @property
    def is_known(self) -> bool:
        return self.reducer in REDUCERS

    @property
    def shape(self) -> str:
        """Which of the members holds the value: value, total, parts or last."""
        if self.reducer in _LISTS:
            return "last"
        return {"counter": "total", "merge": "parts", "votes": "parts"}.get(self.reducer, "value")


@dataclass(slots=True)
class State:
    """The state behind `sequence`. Nodes are attempts, or what `dump` wrote of them until somebody looks."""

    sequence: int = -1
    status: StatusAt | None = None
    inputs: Value | None = None
    nodes: dict[str, Attempt | list[Any]] = field(default_factory=dict)
    open_nodes: set[str] = field(default_factory=set)
    variables: dict[str, Variable] = field(default_factory=dict)
    channels: dict[str, Channel] = field(default_factory=dict)

    @property
    def has_ended(self) -> bool:
        return self.status is not None and is_terminal(self.status.status)

    @property
    def entries(self) -> int:
        parts = sum(len(channel.parts) + len(channel.seen) for channel in self.channels.values())
        return len(self.nodes) + len(self.variables) + len(self.channels) + parts

    def node(self, name: str) -> Attempt | None:
        known = self.nodes.get(name)
        if isinstance(known, list):
            known = self.nodes[name] = unpack(known)
        return known

    def shown_status(self, attempt: Attempt) -> str:
        """Nothing is live in a run that has ended: how such a node ended is not known."""
        return "unknown" if self.has_ended and attempt.status in ("live", "wait") else attempt.status


def advance_state(state: State, steps: Iterable[Step]) -> State:
    """`state` with steps that follow it, in the order of sequence. It is changed in place."""
    for step in steps:
        state.sequence = step.sequence
        if step.type == VARIABLE:
            _change(state, step)
        elif step.type == CHANNEL:
            _write(state, step)
        elif step.type in STATE_TYPES:
            _live_on(state, step)
    return state


# --- nodes and the run ---


def _live_on(state: State, step: Step) -> None:
    detail = lifecycle_detail(step.type, step.body) if step.body else None
    event = Lifecycle(step.sequence, step.type, step.at, detail)
    state.status = later_status(state.status, event)
    if step.type == STARTED:
        text = member_texts(step.body or "{}").get("inputs")
        state.inputs = Value.of(text, step.sequence) if text is not None else state.inputs
    if step.type in PAUSE_TYPES:
        for name in state.open_nodes if step.node is None else {step.node}:
            _fold(state, name, event)
    elif step.type in LIFECYCLE_TYPES:
        _fold(state, RUN_LEVEL if step.node is None else step.node, event)


def _fold(state: State, name: str, event: Lifecycle) -> None:
    folded = advance(state.node(name), event)
    if not folded:
        return
    last = folded[-1]
    state.nodes[name] = last
    if last.is_open and name not in state.open_nodes:
        state.open_nodes = state.open_nodes | {name}
    elif not last.is_open and name in state.open_nodes:
        state.open_nodes = state.open_nodes - {name}


# --- variables ---


def _change(state: State, step: Step) -> None:
    told = member_texts(step.body or "{}")
    name = string_in(told.get("name"))
    if name is None:
        return
    name = storable(name)
    text = told.get("next", told.get("value"))
    before = state.variables.get(name)
    state.variables[name] = Variable(
        value=None if text is None else Value.of(text, step.sequence),
        node=step.node,
        sequence=step.sequence,
        changes=before.changes + 1 if before else 1,
    )


# --- channels ---


def _write(state: State, step: Step) -> None:
    told = member_texts(step.body or "{}")
    name = string_in(told.get("channel"))
    if name is None:
        return
    name = storable(name)
    reducer = storable(string_in(told.get("reducer")) or "replace")
    channel = state.channels.get(name)
    if channel is None:
        channel = Channel(reducer)
    elif channel.reducer != reducer:
        channel = Channel(reducer, writes=channel.writes, misfits=channel.misfits, reducers=channel.reducers + 1)
    state.channels[name] = channel
    channel.writes += 1
    channel.sequence, channel.node = step.sequence, step.node
    text = told.get("value")
    if text is None or not _reduce(channel, text, step.sequence):
        channel.misfits += 1


def _reduce(channel: Channel, text: str, sequence: int) -> bool:
    """False for a write that the reducer can make nothing of."""
    match channel.reducer:
        case "append" | "feedback":
            _append(channel, text, sequence)
        case "message":
            return _add_message(channel, text, sequence)
        case "merge":
            if not text.lstrip().startswith("{"):
                return False
            parts = {storable(name): Value.of(part, sequence) for name, part in object_texts(text).items()}
            channel.parts = channel.parts | parts
        case "votes":
            return _vote(channel, text, sequence)
        case "counter":
            return _add(channel, text)
        case _:
            channel.value = Value.of(text, sequence)
    return True


def _append(channel: Channel, text: str, sequence: int) -> None:
    channel.last = [*channel.last[-(LISTED - 1) :], Value.of(text, sequence)]
    channel.count += 1


def _add_message(channel: Channel, text: str, sequence: int) -> bool:
    """The same message again is none (channels, section `message`)."""
    told = object_texts(text) if text.lstrip().startswith("{") else {}
    message_id = string_in(told.get("messageId"))
    if message_id is None:
        return False
    digest = blake2b(message_id.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    if digest not in channel.seen:
        channel.seen.add(digest)
        _append(channel, text, sequence)
    return True


def _vote(channel: Channel, text: str, sequence: int) -> bool:
    """Whoever votes again replaces their vote, and goes to the end. Hosts name the voter in two ways."""
    told = object_texts(text) if text.lstrip().startswith("{") else {}
    voter = string_in(told.get("userId")) or string_in(told.get("voter"))
    if voter is None:
        return False
    name = storable(voter)
    channel.parts = {one: vote for one, vote in channel.parts.items() if one != name}
    channel.parts[name] = Value.of(text, sequence)
    return True


def _add(channel: Channel, text: str) -> bool:
    """In decimal, so that no digit is lost."""
    try:
        increment = Decimal(text.strip())
        total = _EXACT.add(Decimal(channel.total or "0"), increment)
    except InvalidOperation:
        return False
    if not total.is_finite() or abs(total.adjusted()) > LONGEST_KEPT:
        return False
    channel.total = f"{total:f}"
    return True


# --- interrupts ---


@dataclass(frozen=True, slots=True)
class Interrupt:
    """What is waited for. `sequence` is the event that opened it; `node` is None for one of the run's own."""

    node: str | None
    kind: str
    sequence: int
    since: datetime


def open_interrupts(state: State) -> list[Interrupt]:
    """In the order in which they were opened. A run that has ended waits for nothing."""
    if state.has_ended:
        return []
    found = []
    for name in state.open_nodes:
        attempt = state.node(name)
        wait = attempt.open_wait if attempt else None
        if wait is not None and wait.kind != PAUSE:
            found.append(Interrupt(name or None, wait.kind, wait.from_sequence, wait.started_at))
    return sorted(found, key=lambda one: (one.sequence, one.node or ""))
