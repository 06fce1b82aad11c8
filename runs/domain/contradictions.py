"""Where a run's log contradicts itself: read in the order of sequence, batch by batch or all at once.

Reading is a fold over a small state, so a log may be read on from where reading stopped. An event that arrives late
stands in front of what was read already; then the log is read again from its beginning. Both ways give the same
findings, whatever the batches.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from runs.domain.event import RunEvent
from runs.domain.event_types import is_about_memory
from runs.domain.folding import is_terminal, status_of
from runs.domain.storable import storable
from runs.domain.summary import FIRST_SEQUENCES, payload_of

Kind = Literal[
    "gap",
    "second_start",
    "second_terminal",
    "late_events",
    "memory_after_terminal",
    "time_reversal",
    "twin_event",
    "foreign_run",
]
KINDS: tuple[Kind, ...] = (
    *("gap", "second_start", "second_terminal", "late_events"),
    *("memory_after_terminal", "time_reversal", "twin_event", "foreign_run"),
)

LISTED = 100
"""So many findings of a kind are kept one by one; all of them are counted."""

TWIN_REACH = 256
"""A vendor's own event for a write stands near the protocol's; so many sequences apart they are two writes."""

# A compensation may follow the end of a run (RFC 0194), and so does its burial.
_MAY_FOLLOW_THE_END = ("compensation.", "run.dead_lettered")

_WRITTEN = "memory.written"
_TWIN_MARK = "written"


@dataclass(frozen=True, slots=True)
class Finding:
    """One contradiction. `sequence` is where it shows, `other` the sequence it is measured against.

    ============================ ======================= ============== =====================
    kind                         sequence                other          count; about
    ============================ ======================= ============== =====================
    gap                          first one missing       last missing   how many are missing
    second_start                 the later run.started   the first
    second_terminal              the later end           the first      1; its type
    late_events                  first behind the end    the end        how many there are
    memory_after_terminal        the memory event        the end        1; the memory id
    time_reversal                the earlier time        the one before 1; see `backwards`
    twin_event                   the later of the two    the earlier    1; the memory id
    foreign_run                  the event               None           1; its run
    ============================ ======================= ============== =====================
    """

    kind: Kind
    sequence: int
    other: int | None = None
    count: int = 1
    about: str = ""
    backwards: timedelta | None = None


class OutOfOrder(ValueError):
    """The batch does not follow what was read: the log has to be read from its beginning."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An announcement of a write, waiting for its twin."""

    sequence: int
    memory_ref: str
    memory_id: str
    is_vendors: bool


@dataclass(frozen=True, slots=True)
class State:
    """What reading has to remember. `counts` may be larger than what `findings` lists."""

    last_sequence: int = -1
    last_timestamp: datetime | None = None
    first_start: int | None = None
    first_terminal: int | None = None
    recent: tuple[Seen, ...] = ()
    findings: tuple[Finding, ...] = ()
    counts: dict[Kind, int] = field(default_factory=dict)


def scan(events: Iterable[RunEvent], *, run_id: str) -> State:
    """From the beginning."""
    return advance(State(), events, run_id=run_id)


def advance(state: State, events: Iterable[RunEvent], *, run_id: str) -> State:
    """On from `state`, with events whose sequences rise. Raises OutOfOrder."""
    reader = _Reader(state)
    for event in events:
        if event.run_id != run_id:
            reader.find(Finding("foreign_run", event.sequence, about=storable(event.run_id)))
            continue
        if event.sequence <= reader.last_sequence:
            raise OutOfOrder(f"sequence {event.sequence} behind {reader.last_sequence}")
        reader.read(event)
    return reader.state()


class _Reader:
    def __init__(self, state: State) -> None:
        self.last_sequence = state.last_sequence
        self._last_timestamp = state.last_timestamp
        self._first_start = state.first_start
        self._first_terminal = state.first_terminal
        self._recent = {
            is_vendors: deque(one for one in state.recent if one.is_vendors == is_vendors)
            for is_vendors in (False, True)
        }
        self._findings = list(state.findings)
        self._counts = dict(state.counts)
        self._late = next((at for at, one in enumerate(self._findings) if one.kind == "late_events"), None)

    def state(self) -> State:
        return State(
            last_sequence=self.last_sequence,
            last_timestamp=self._last_timestamp,
            first_start=self._first_start,
            first_terminal=self._first_terminal,
            recent=(*self._recent[False], *self._recent[True]),
            findings=tuple(self._findings),
            counts=self._counts,
        )

    def find(self, finding: Finding) -> None:
        count = self._counts.get(finding.kind, 0) + 1
        self._counts[finding.kind] = count
        if count <= LISTED:
            self._findings.append(finding)

    def read(self, event: RunEvent) -> None:
        self._gap(event)
        self._time(event)
        self._end(event)
        self._start(event)
        if is_about_memory(event.type):
            self._memory(event)
        self.last_sequence = event.sequence
        self._last_timestamp = event.timestamp

    def _gap(self, event: RunEvent) -> None:
        first = self.last_sequence + 1
        if event.sequence > first and event.sequence not in FIRST_SEQUENCES:
            self.find(Finding("gap", first, event.sequence - 1, count=event.sequence - first))

    def _time(self, event: RunEvent) -> None:
        if self._last_timestamp is not None and event.timestamp < self._last_timestamp:
            backwards = self._last_timestamp - event.timestamp
            self.find(Finding("time_reversal", event.sequence, self.last_sequence, backwards=backwards))

    def _start(self, event: RunEvent) -> None:
        if event.type != "run.started":
            return
        if self._first_start is None:
            self._first_start = event.sequence
        else:
            self.find(Finding("second_start", event.sequence, self._first_start))

    def _end(self, event: RunEvent) -> None:
        ended = self._first_terminal
        if ended is not None and not event.type.startswith(_MAY_FOLLOW_THE_END):
            self._behind_the_end(event, ended)
        if not _is_end(event.type):
            return
        if ended is None:
            self._first_terminal = event.sequence
        else:
            self.find(Finding("second_terminal", event.sequence, ended, about=event.type))

    def _behind_the_end(self, event: RunEvent, ended: int) -> None:
        if self._late is None:
            self._late = len(self._findings)
            self.find(Finding("late_events", event.sequence, ended))
            return
        known = self._findings[self._late]
        self._findings[self._late] = replace(known, count=known.count + 1)

    def _memory(self, event: RunEvent) -> None:
        ref, memory_id = _ids(event)
        if self._first_terminal is not None:
            finding = Finding("memory_after_terminal", event.sequence, self._first_terminal, about=memory_id)
            self.find(finding)
        if memory_id and (event.type == _WRITTEN or _TWIN_MARK in event.type.lower()):
            self._twin(Seen(event.sequence, ref, memory_id, event.type != _WRITTEN))

    def _twin(self, seen: Seen) -> None:
        waiting = self._recent[seen.is_vendors]
        others = self._recent[not seen.is_vendors]
        for queue in (waiting, others):
            while queue and seen.sequence - queue[0].sequence > TWIN_REACH:
                queue.popleft()
        twin = next((one for one in others if _are_twins(one, seen)), None)
        if twin is None:
            waiting.append(seen)
        else:
            others.remove(twin)
            self.find(Finding("twin_event", seen.sequence, twin.sequence, about=seen.memory_id))


def _is_end(type: str) -> bool:
    status = status_of(type)
    return status is not None and is_terminal(status)


def _are_twins(one: Seen, other: Seen) -> bool:
    """A vendor's event may leave the ref out, but never names another one."""
    is_same_ref = one.memory_ref == other.memory_ref or not one.memory_ref or not other.memory_ref
    return one.memory_id == other.memory_id and is_same_ref


def _ids(event: RunEvent) -> tuple[str, str]:
    payload = payload_of(event.body)
    members = payload if isinstance(payload, dict) else {}
    ref, memory_id = members.get("memoryRef"), members.get("memoryId") or members.get("outputId")
    return (
        storable(ref) if isinstance(ref, str) else "",
        storable(memory_id) if isinstance(memory_id, str) else "",
    )


def in_words(finding: Finding) -> str:
    return _WORDS[finding.kind](finding)


def _missing(finding: Finding) -> str:
    if finding.count == 1:
        return f"sequence {finding.sequence} is missing"
    return f"{finding.count:,} sequences are missing, {finding.sequence} to {finding.other}"


def _reversed(finding: Finding) -> str:
    return f"{finding.sequence} is timed {finding.backwards} before {finding.other}, which it follows"


def _late(finding: Finding) -> str:
    if finding.count == 1:
        return f"an event at {finding.sequence}"
    return f"{finding.count:,} events from {finding.sequence} on"


_WORDS: Mapping[Kind, Callable[[Finding], str]] = {
    "gap": _missing,
    "second_start": lambda one: f"run.started again at {one.sequence}; the run had started at {one.other}",
    "second_terminal": lambda one: f"{one.about} at {one.sequence}; the run had ended at {one.other}",
    "late_events": lambda one: f"{_late(one)}, behind the run's end at {one.other}",
    "memory_after_terminal": lambda one: (
        f"memory {one.about or 'without an id'} at {one.sequence}, behind the run's end at {one.other}"
    ),
    "time_reversal": _reversed,
    "twin_event": lambda one: f"{one.sequence} and {one.other} announce one write, of {one.about}",
    "foreign_run": lambda one: f"{one.sequence} belongs to the run {one.about}",
}


def dump(state: State) -> bytes:
    """JSON for `load`."""
    return msgspec.json.encode(state)


def load(dumped: bytes) -> State:
    return msgspec.json.decode(dumped, type=State)


def order_of(finding: Finding) -> tuple[int, int]:
    """For showing findings of all kinds in one list: by place, then as KINDS has them."""
    return finding.sequence, KINDS.index(finding.kind)


def by_place(state: State) -> Iterator[Finding]:
    yield from sorted(state.findings, key=order_of)
