"""A run's log as columns: what its events are, in a few bytes each. Derived from the log, in chunks of sequences.

A chunk holds the events of one stretch of sequences, so that an event that comes late concerns one chunk only. Names
are kept once a chunk; columns hold their numbers. What a type means is asked of its name when the columns are read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from .describe import KINDS, kind_of

CHUNK = 8192
"""Sequences of a chunk. Fewer than 65,536, so that a number of a name or a place fits two bytes."""

NO_NODE = 0
"""The place of the lane of events that name no node; it is there whether or not such events are."""

MOST_ANSWERS = 32

T = TypeVar("T")
Ints = NDArray[np.int64]
Places = NDArray[np.int32]
Small = NDArray[np.uint16]
Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]


class Row(NamedTuple):
    """An event as it goes into a chunk. ``at`` is in microseconds since 1970."""

    sequence: int
    at: int
    node: str | None
    type: str
    failed: bool


class Packed(msgspec.Struct, array_like=True):
    """A chunk as it is stored. ``offsets`` is empty where the sequences follow each other without a gap."""

    first: int
    base: int
    offsets: bytes
    nodes: bytes
    types: bytes
    times: bytes
    node_names: list[str]
    type_names: list[tuple[str, bool]]


@dataclass(frozen=True, slots=True)
class Chunk:
    """``node_names`` begins with "" for no node; ``type_names`` says beside the type whether it failed."""

    sequences: Ints
    at: Ints
    nodes: Small
    types: Small
    node_names: tuple[str, ...]
    type_names: tuple[tuple[str, bool], ...]

    def __len__(self) -> int:
        return len(self.sequences)

    @property
    def nbytes(self) -> int:
        return int(self.sequences.nbytes + self.at.nbytes + self.nodes.nbytes + self.types.nbytes)


def chunk_of(rows: Sequence[Row]) -> Chunk:
    """Rows of one stretch, ascending by sequence; at least one."""
    return _chunk(rows, {"": NO_NODE}, {})


def extended(chunk: Chunk, rows: Sequence[Row]) -> Chunk:
    """A chunk and the rows that follow its last one."""
    added = _chunk(
        rows,
        {name: number for number, name in enumerate(chunk.node_names)},
        {name: number for number, name in enumerate(chunk.type_names)},
    )
    return Chunk(
        sequences=np.concatenate((chunk.sequences, added.sequences)),
        at=np.concatenate((chunk.at, added.at)),
        nodes=np.concatenate((chunk.nodes, added.nodes)),
        types=np.concatenate((chunk.types, added.types)),
        node_names=added.node_names,
        type_names=added.type_names,
    )


def _chunk(rows: Sequence[Row], nodes: dict[str, int], types: dict[tuple[str, bool], int]) -> Chunk:
    node_numbers = [nodes.setdefault(row[2] or "", len(nodes)) for row in rows]
    type_numbers = [types.setdefault((row[3], row[4]), len(types)) for row in rows]
    return Chunk(
        sequences=np.array([row[0] for row in rows], dtype=np.int64),
        at=np.array([row[1] for row in rows], dtype=np.int64),
        nodes=np.array(node_numbers, dtype=np.uint16),
        types=np.array(type_numbers, dtype=np.uint16),
        node_names=tuple(nodes),
        type_names=tuple(types),
    )


def pack(chunk: Chunk) -> bytes:
    first, base = int(chunk.sequences[0]), int(chunk.at.min())
    offsets, times = chunk.sequences - first, chunk.at - base
    is_whole = int(offsets[-1]) == len(chunk) - 1
    is_short = int(times.max()) < 2**32
    return msgspec.msgpack.encode(
        Packed(
            first=first,
            base=base,
            offsets=b"" if is_whole else offsets.astype("<u2").tobytes(),
            nodes=chunk.nodes.astype("<u2").tobytes(),
            types=chunk.types.astype("<u2").tobytes(),
            times=times.astype("<u4" if is_short else "<i8").tobytes(),
            node_names=list(chunk.node_names),
            type_names=list(chunk.type_names),
        )
    )


_unpacked = msgspec.msgpack.Decoder(Packed)


def unpack(body: bytes) -> Chunk:
    told = _unpacked.decode(body)
    types = np.frombuffer(told.types, "<u2")
    offsets = np.frombuffer(told.offsets, "<u2") if told.offsets else np.arange(len(types))
    times = np.frombuffer(told.times, "<u4" if len(told.times) == 4 * len(types) else "<i8")
    return Chunk(
        sequences=offsets.astype(np.int64) + told.first,
        at=times.astype(np.int64) + told.base,
        nodes=np.frombuffer(told.nodes, "<u2"),
        types=types,
        node_names=tuple(told.node_names),
        type_names=tuple(told.type_names),
    )


class State:
    """What an event leaves its lane in. Above ``WAIT`` the attempt is over."""

    SAME, LIVE, WAIT, OK, CANCELLED, FAIL = range(6)


STATES = ("", "live", "wait", "ok", "cancelled", "fail")

_STATE_OF: Mapping[str, int] = {
    "node.started": State.LIVE,
    "node.retried": State.LIVE,
    "node.resumed": State.LIVE,
    "node.completed": State.OK,
    "node.failed": State.FAIL,
    "node.cancelled": State.CANCELLED,
    "node.skipped": State.CANCELLED,
    **dict.fromkeys(
        ("node.suspended", "interrupt.requested", "approval.requested", "clarification.requested"), State.WAIT
    ),
    **dict.fromkeys(("node.suspend-failed", "interrupt.resolved", "node.interrupt.resolved"), State.LIVE),
    **dict.fromkeys(
        ("approval.received", "approval.granted", "approval.rejected", "approval.overridden", "clarification.resolved"),
        State.LIVE,
    ),
    "run.started": State.LIVE,
    "run.resumed": State.LIVE,
    "run.resuming": State.LIVE,
    "run.paused": State.WAIT,
    "run.completed": State.OK,
    "run.failed": State.FAIL,
    "run.cancelled": State.CANCELLED,
}
BOOKKEEPING = (
    *("lease.", "log.appended", "version.pinned", "ai.message.chunk", "agent.reasoning.delta", "voice.synthesis_chunk"),
    *("state.snapshot", "channel.", "variable.changed", "connector.heartbeat"),
)
"""Types that a reader of a run usually skips. A type that nobody knows is none of them."""
FAILURES = (".failed", ".dead_lettered", ".error", ".diverged", ".divergedAtRefusal", ".exhausted", ".denied")

WRITTEN = "memory.written"


class Meaning(NamedTuple):
    state: int
    kind: int
    is_write: bool
    is_memory: bool
    is_error: bool
    is_relevant: bool
    is_mark: bool


@lru_cache(4096)
def meaning_of(type: str, failed: bool) -> Meaning:
    kind = kind_of(type)
    return Meaning(
        state=_STATE_OF.get(type, State.SAME),
        kind=KINDS.index(kind),
        is_write=type == WRITTEN,
        is_memory=kind == "memory",
        is_error=failed or type.endswith(FAILURES),
        is_relevant=not type.startswith(BOOKKEEPING),
        is_mark=type.startswith("run."),
    )


@dataclass(frozen=True, slots=True)
class Stretches:
    """Times in which a lane was open without a step, between two of its steps. Numbers are places in the columns.

    ``state`` is live or wait, ``result`` what the attempt that it belongs to ended as, SAME while it has not.
    ``end`` is -1 where no step follows.
    """

    lane: Places
    start: Places
    end: Places
    state: Bytes
    result: Bytes


@dataclass(frozen=True)
class Columns:
    """All events of a run, ascending by sequence. ``lanes`` are places in ``nodes``, in the order of first events."""

    sequences: Ints
    at: Ints
    lanes: Places
    types: Places
    nodes: tuple[str, ...]
    type_names: tuple[tuple[str, bool], ...]
    answers: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    """What was asked of the whole run before; it holds as long as these columns do."""

    def __len__(self) -> int:
        return len(self.sequences)

    def once(self, key: Hashable, answer: Callable[[], T]) -> T:
        """``answer()``, or what it was before."""
        if key not in self.answers:
            if len(self.answers) >= MOST_ANSWERS:
                self.answers.clear()
            self.answers[key] = answer()
        found: T = self.answers[key]
        return found

    @property
    def nbytes(self) -> int:
        # What follows from the columns and is kept with them comes to about as much again.
        return int(self.sequences.nbytes + self.at.nbytes + self.lanes.nbytes + self.types.nbytes) * 2

    @cached_property
    def meanings(self) -> tuple[Meaning, ...]:
        return tuple(meaning_of(type_, failed) for type_, failed in self.type_names)

    def each(self, name: str) -> NDArray[Any]:
        """One member of ``Meaning``, for every event."""
        return self.of_types(name)[self.types]

    def of_types(self, name: str) -> NDArray[Any]:
        place = Meaning._fields.index(name)
        told = np.array([meaning[place] for meaning in self.meanings] or [0])
        return told.astype(np.bool_ if name.startswith("is_") else np.uint8)

    @cached_property
    def states(self) -> Bytes:
        return self.each("state")

    @cached_property
    def lane_counts(self) -> Ints:
        return np.bincount(self.lanes, minlength=len(self.nodes)).astype(np.int64)

    @cached_property
    def place_of_node(self) -> Mapping[str, int]:
        return {node: place for place, node in enumerate(self.nodes)}

    @cached_property
    def writes(self) -> Places:
        """Where the memory writes stand."""
        return np.flatnonzero(self.each("is_write")).astype(np.int32)

    @cached_property
    def reversals(self) -> Places:
        """Events reported earlier than the one before them."""
        return (np.flatnonzero(np.diff(self.at) < 0) + 1).astype(np.int32)

    @cached_property
    def stretches(self) -> Stretches:
        return _stretches(self)

    def window(self, start: int, end: int) -> tuple[int, int]:
        """The places [low, high) of the events from ``start`` to ``end``."""
        low, high = np.searchsorted(self.sequences, (start, end + 1))
        return int(low), int(high)


def _stretches(columns: Columns) -> Stretches:
    steps = np.flatnonzero(columns.states).astype(np.int32)
    lanes = columns.lanes[steps]
    order = steps[np.argsort(lanes, kind="stable")]
    lane, state = columns.lanes[order], columns.states[order]
    count = len(order)
    following = np.full(count, -1, dtype=np.int32)
    same = lane[:-1] == lane[1:]
    following[:-1][same] = order[1:][same]
    # The next step that ends an attempt, if it is one of the same lane.
    closing = np.flatnonzero(state > State.WAIT)
    at = np.searchsorted(closing, np.arange(count))
    has_end = at < len(closing)
    ends = closing[np.minimum(at, max(len(closing) - 1, 0))] if len(closing) else np.zeros(count, dtype=np.int64)
    result = np.where(has_end & (lane[ends] == lane), state[ends], State.SAME) if count else state
    is_open = (state == State.LIVE) | (state == State.WAIT)
    return Stretches(
        lane=lane[is_open],
        start=order[is_open],
        end=following[is_open],
        state=state[is_open],
        result=result[is_open].astype(np.uint8),
    )


def join(chunks: Iterable[Chunk]) -> Columns:
    """The columns of a run from its chunks, ascending."""
    nodes: dict[str, int] = {"": NO_NODE}
    types: dict[tuple[str, bool], int] = {}
    parts: list[tuple[Ints, Ints, Places, Places]] = []
    for chunk in chunks:
        node_places = np.array([nodes.setdefault(name, len(nodes)) for name in chunk.node_names], dtype=np.int32)
        type_places = np.array([types.setdefault(name, len(types)) for name in chunk.type_names], dtype=np.int32)
        parts.append((chunk.sequences, chunk.at, node_places[chunk.nodes], type_places[chunk.types]))
    empty = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))
    sequences, at, lanes, kinds = (np.concatenate(column) for column in zip(*parts, strict=True)) if parts else empty
    return Columns(sequences, at, lanes, kinds, tuple(nodes), tuple(types))
