"""What a run's state was: the fold over its log, with the texts and times that a person or program wants beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from ..domain.folding import Attempt
from ..domain.member_texts import member_texts, object_texts, string_in
from ..domain.state import RUN_LEVEL, Channel, Interrupt, State, Value, Variable, open_interrupts
from ..domain.storable import original
from ..store.snapshots import state_at
from .bodies import bodies_of
from .runs import RunFacts

MOST_TEXT = 256 * 1024
"""Characters of long values that are read for one answer; of a value beyond, its size and event are told."""


@dataclass(frozen=True, slots=True)
class Place:
    """The event that a state is behind."""

    sequence: int
    type: str
    node: str | None
    at: datetime
    received_at: datetime


@dataclass(frozen=True, slots=True)
class RunState:
    """``asked`` is the sequence that was asked for, ``place`` the last stored event up to it. With ``missing``
    sequences before it the state may lack something, and nothing tells what."""

    state: State
    asked: int
    place: Place | None
    missing: int


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node as it was. ``since`` is the event that put it there, ``label`` a short code of what ended it."""

    name: str
    status: str
    attempt: int
    started_sequence: int
    started_at: datetime
    start_seen: bool
    since: int
    ended_at: datetime | None
    waits_for: str
    label: str


@dataclass(frozen=True, slots=True)
class ValueText:
    """A value to be shown. ``text`` is None where it is too long to be read along."""

    text: str | None
    size: int
    sequence: int


@dataclass(frozen=True, slots=True)
class VariableRow:
    name: str
    value: ValueText | None
    node: str | None
    sequence: int
    changes: int


@dataclass(frozen=True, slots=True)
class PartRow:
    name: str
    value: ValueText


@dataclass(frozen=True, slots=True)
class ChannelRow:
    """``shape`` is value, total, parts or last: which of the members holds what the writes add up to."""

    name: str
    reducer: str
    is_known: bool
    shape: str
    value: ValueText | None
    total: str | None
    parts: tuple[PartRow, ...]
    last: tuple[ValueText, ...]
    count: int
    writes: int
    misfits: int
    reducers: int
    node: str | None
    sequence: int


@dataclass(frozen=True, slots=True)
class InterruptRow:
    node: str | None
    kind: str
    interrupt_id: str
    sequence: int
    since: datetime


def run_state(tenant_id: int, run: RunFacts, at: int | None = None) -> RunState:
    """The state behind the last event up to ``at``, or behind all."""
    last = -1 if run.last_sequence is None else run.last_sequence
    asked = last if at is None else at
    return RunState(
        state=state_at(tenant_id, run.pk, asked),
        asked=asked,
        place=_place(tenant_id, run.pk, asked),
        missing=_missing(tenant_id, run, min(asked, last)),
    )


def _place(tenant_id: int, run: int, at: int) -> Place | None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sequence, type, node_id, occurred_at, received_at FROM runs_event"
            " WHERE tenant_id = %s AND run_id = %s AND sequence <= %s ORDER BY sequence DESC LIMIT 1",
            [tenant_id, run, at],
        )
        row = cursor.fetchone()
    if row is None:
        return None
    return Place(row[0], original(row[1]), row[2] and original(row[2]), row[3], row[4])


def _missing(tenant_id: int, run: RunFacts, at: int) -> int:
    """Of the sequences up to ``at``, those between the first one and it that are not stored."""
    if run.first_sequence is None or at < run.first_sequence or (run.through is not None and at <= run.through):
        return 0
    if run.events == run.expected:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM runs_event WHERE tenant_id = %s AND run_id = %s AND sequence <= %s",
            [tenant_id, run.pk, at],
        )
        row = cursor.fetchone()
    return at - run.first_sequence + 1 - (row[0] if row else 0)


# --- rows of a state ---


def node_names(state: State) -> list[str]:
    """In the order in which nodes were first heard of."""
    return [name for name in state.nodes if name != RUN_LEVEL]


def node_row(state: State, name: str) -> NodeRow:
    attempt = state.node(name)
    assert attempt is not None  # `name` is one of the state's
    wait = attempt.open_wait
    status = state.shown_status(attempt)
    return NodeRow(
        name=original(name),
        status=status,
        attempt=attempt.ordinal,
        started_sequence=attempt.from_sequence,
        started_at=attempt.started_at,
        start_seen=attempt.start_seen,
        since=_since(attempt),
        ended_at=attempt.ended_at,
        waits_for=wait.kind if wait and status == "wait" else "",
        label=attempt.label or "",
    )


def _since(attempt: Attempt) -> int:
    if attempt.to_sequence is not None:
        return attempt.to_sequence
    return attempt.open_wait.from_sequence if attempt.open_wait else attempt.from_sequence


def variable_row(name: str, variable: Variable, texts: Mapping[str, str]) -> VariableRow:
    return VariableRow(
        name=original(name),
        value=value_text(variable.value, texts),
        node=variable.node and original(variable.node),
        sequence=variable.sequence,
        changes=variable.changes,
    )


def channel_row(name: str, channel: Channel, texts: Mapping[str, str], *, most: int) -> ChannelRow:
    """With ``most`` of its parts."""
    parts = list(channel.parts.items())
    return ChannelRow(
        name=original(name),
        reducer=original(channel.reducer),
        is_known=channel.is_known,
        shape=channel.shape,
        value=value_text(channel.value, texts),
        total=channel.total,
        parts=tuple(PartRow(original(part), _text(value, texts)) for part, value in parts[:most]),
        last=tuple(_text(value, texts) for value in channel.last),
        count=len(parts) if channel.shape == "parts" else channel.count,
        writes=channel.writes,
        misfits=channel.misfits,
        reducers=channel.reducers,
        node=channel.node and original(channel.node),
        sequence=channel.sequence,
    )


def value_text(value: Value | None, texts: Mapping[str, str]) -> ValueText | None:
    return None if value is None else _text(value, texts)


def _text(value: Value, texts: Mapping[str, str]) -> ValueText:
    return ValueText(value.text if value.text is not None else texts.get(value.digest), value.size, value.sequence)


def values_of(channel: Channel, *, most: int) -> Iterator[Value]:
    if channel.value:
        yield channel.value
    yield from list(channel.parts.values())[:most]
    yield from channel.last


def long_texts(tenant_id: int, run: int, values: Iterable[Value | None]) -> dict[str, str]:
    """The texts of values that a state does not hold itself, by their digests, as far as there is room for them."""
    wanted: dict[int, set[str]] = {}
    room = MOST_TEXT
    for value in values:
        if value is not None and value.text is None and value.size <= room:
            wanted.setdefault(value.sequence, set()).add(value.digest)
            room -= value.size
    texts: dict[str, str] = {}
    for sequence, body in bodies_of(tenant_id, run, list(wanted)).items():
        for text in _candidates(body):
            digest = Value.of(text, sequence).digest
            if digest in wanted[sequence]:
                texts[digest] = text
    return texts


def _candidates(body: str) -> Iterator[str]:
    """Wherever in an event a value of the state may stand."""
    for text in member_texts(body).values():
        yield text
        if text.lstrip().startswith("{"):
            yield from object_texts(text).values()


def interrupt_rows(tenant_id: int, run: int, state: State, *, most: int) -> tuple[tuple[InterruptRow, ...], int]:
    """The open interrupts, and how many there are."""
    found = open_interrupts(state)
    bodies = bodies_of(tenant_id, run, [one.sequence for one in found[:most]])
    return tuple(_interrupt_row(one, bodies.get(one.sequence, "{}")) for one in found[:most]), len(found)


def _interrupt_row(interrupt: Interrupt, body: str) -> InterruptRow:
    return InterruptRow(
        node=interrupt.node and original(interrupt.node),
        kind=interrupt.kind,
        interrupt_id=string_in(member_texts(body).get("interruptId")) or "",
        sequence=interrupt.sequence,
        since=interrupt.since,
    )
