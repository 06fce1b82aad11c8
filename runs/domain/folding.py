"""What a run's events say about its state: the attempts of a node, the status of the run. Pure, and resumable."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

AttemptStatus = Literal["ok", "fail", "live", "wait", "cancelled", "interrupted"]

RunStatus = Literal[
    "pending",
    "running",
    "paused",
    "waiting-approval",
    "waiting-input",
    "waiting-external",
    "cancelling",
    "completed",
    "failed",
    "cancelled",
]

ACTIVE: frozenset[str] = frozenset(
    (
        *("pending", "running", "paused", "cancelling"),
        *("waiting-approval", "waiting-input", "waiting-external"),
    )
)

MAX_LABEL_LENGTH = 64


class Lifecycle(Struct, frozen=True):
    """An event as far as folding needs it. `type` is the canonical name, `detail` the payload when it is an object."""

    sequence: int
    type: str
    timestamp: datetime
    detail: Mapping[str, object] | None = None


class Wait(Struct, frozen=True):
    """A time in which a node waited for somebody or something. `kind` is "suspended" while nothing names one."""

    from_sequence: int
    to_sequence: int | None
    started_at: datetime
    ended_at: datetime | None
    kind: str


class Attempt(Struct, frozen=True):
    """One visit of a node. `ordinal` counts from 1.

    `start_seen` is False when the log shows the attempt without its node.started. `label` is a short code of what
    ended it. `may_restart` says that the next node.started goes on with this attempt: a host announces the node again
    when it resumes after a suspension, and the announcement after node.retried belongs to the retry.
    """

    ordinal: int
    from_sequence: int
    to_sequence: int | None
    started_at: datetime
    ended_at: datetime | None
    status: AttemptStatus
    start_seen: bool
    label: str | None = None
    waits: tuple[Wait, ...] = ()
    may_restart: bool = False

    @property
    def is_open(self) -> bool:
        return self.to_sequence is None

    @property
    def open_wait(self) -> Wait | None:
        """At most one: a node either waits or does not, however many events announce it."""
        return self.waits[-1] if self.waits and self.waits[-1].to_sequence is None else None


UNNAMED_WAIT = "suspended"
PAUSE = "paused"

_ENDS: Mapping[str, AttemptStatus] = MappingProxyType(
    {
        "node.completed": "ok",
        "node.failed": "fail",
        "node.cancelled": "cancelled",
        "node.skipped": "cancelled",
    }
)

_OPENS_WAIT: Mapping[str, str] = MappingProxyType(
    {
        "node.suspended": UNNAMED_WAIT,
        "interrupt.requested": UNNAMED_WAIT,
        "approval.requested": "approval",
        "clarification.requested": "clarification",
        "run.paused": PAUSE,
    }
)

_CLOSES_WAIT = frozenset(
    (
        *("node.resumed", "node.suspend-failed", "interrupt.resolved", "node.interrupt.resolved"),
        *("approval.received", "approval.granted", "approval.rejected", "approval.overridden"),
        "clarification.resolved",
    )
)

# A run-level pause stops every open node. A store that folds node by node passes these to each of them.
PAUSE_TYPES = frozenset(("run.paused", "run.resumed"))

LIFECYCLE_TYPES = frozenset(("node.started", "node.retried", *_ENDS, *_OPENS_WAIT.keys() - PAUSE_TYPES, *_CLOSES_WAIT))


def fold_attempts(events: Iterable[Lifecycle]) -> list[Attempt]:
    """The attempts of one node, whose events come in order of sequence. Other types are passed over."""
    attempts: list[Attempt] = []
    for event in events:
        attempts[-1:] = advance(attempts[-1] if attempts else None, event)
    return attempts


def advance(tail: Attempt | None, event: Lifecycle) -> tuple[Attempt, ...]:
    """What stands in place of the last attempt once `event`, which follows everything folded so far, is in.

    Nothing or one attempt when there was none; the attempt, changed or not, and perhaps a new one behind it when
    there was one.
    """
    step = _STEPS.get(event.type)
    if step is None:
        return () if tail is None else (tail,)
    return step(tail, event)


def _started(tail: Attempt | None, event: Lifecycle) -> tuple[Attempt, ...]:
    if tail is None or not tail.is_open:
        return _with(tail, _opened(tail, event, start_seen=True))
    if tail.may_restart:
        return (replace(_without_wait(tail, event), may_restart=False),)
    # No suspension explains a second start: the host went down and runs the node again.
    interrupted = _ended(tail, event, "interrupted", label=None)
    return interrupted, _opened(tail, event, start_seen=True)


def _retried(tail: Attempt | None, event: Lifecycle) -> tuple[Attempt, ...]:
    before = tail
    if tail is not None and tail.is_open:
        before = _ended(tail, event, "fail", _code(event.detail, "lastError", "error"))
    following = _opened(before, event, start_seen=True)
    return _with(before, replace(following, may_restart=True))


def _finished(tail: Attempt | None, event: Lifecycle) -> tuple[Attempt, ...]:
    status = _ENDS[event.type]
    label = "skipped" if event.type == "node.skipped" else None
    if status == "fail":
        label = _code(event.detail, "error")
    if tail is not None and tail.is_open:
        return (_ended(tail, event, status, label),)
    return _with(tail, _ended(_opened(tail, event, start_seen=False), event, status, label))


def _wait_opened(tail: Attempt | None, event: Lifecycle) -> tuple[Attempt, ...]:
    is_pause = event.type == "run.paused"
    if tail is None or not tail.is_open:
        if is_pause:
            return () if tail is None else (tail,)
        return _with(tail, _waiting(_opened(tail, event, start_seen=False), event))
    return (_waiting(tail, event),)


def _wait_closed(tail: Attempt | None, event: Lifecycle) -> tuple[Attempt, ...]:
    if tail is not None and tail.is_open:
        return (_without_wait(tail, event),)
    if event.type == "node.resumed":
        return _with(tail, _opened(tail, event, start_seen=False))
    return () if tail is None else (tail,)


def _run_resumed(tail: Attempt | None, event: Lifecycle) -> tuple[Attempt, ...]:
    if tail is None:
        return ()
    wait = tail.open_wait
    return (_without_wait(tail, event),) if wait is not None and wait.kind == PAUSE else (tail,)


_Step = Callable[[Attempt | None, Lifecycle], tuple[Attempt, ...]]

_STEPS: Mapping[str, _Step] = MappingProxyType(
    {
        "node.started": _started,
        "node.retried": _retried,
        "run.resumed": _run_resumed,
        **dict.fromkeys(_ENDS, _finished),
        **dict.fromkeys(_OPENS_WAIT, _wait_opened),
        **dict.fromkeys(_CLOSES_WAIT, _wait_closed),
    }
)


def _with(tail: Attempt | None, following: Attempt) -> tuple[Attempt, ...]:
    return (following,) if tail is None else (tail, following)


def _opened(tail: Attempt | None, event: Lifecycle, *, start_seen: bool) -> Attempt:
    return Attempt(
        ordinal=1 if tail is None else tail.ordinal + 1,
        from_sequence=event.sequence,
        to_sequence=None,
        started_at=event.timestamp,
        ended_at=None,
        status="live",
        start_seen=start_seen,
    )


def _ended(attempt: Attempt, event: Lifecycle, status: AttemptStatus, label: str | None) -> Attempt:
    return replace(
        _without_wait(attempt, event),
        to_sequence=event.sequence,
        ended_at=event.timestamp,
        status=status,
        label=label,
        may_restart=False,
    )


def _waiting(attempt: Attempt, event: Lifecycle) -> Attempt:
    kind = _kind(event)
    wait = attempt.open_wait
    if wait is None:
        opened = Wait(event.sequence, None, event.timestamp, None, kind)
        return replace(attempt, status="wait", waits=(*attempt.waits, opened), may_restart=True)
    if wait.kind == UNNAMED_WAIT:
        return replace(attempt, waits=(*attempt.waits[:-1], replace(wait, kind=kind)))
    return attempt


def _without_wait(attempt: Attempt, event: Lifecycle) -> Attempt:
    wait = attempt.open_wait
    if wait is None:
        return attempt
    closed = replace(wait, to_sequence=event.sequence, ended_at=event.timestamp)
    return replace(attempt, status="live", waits=(*attempt.waits[:-1], closed))


def _kind(event: Lifecycle) -> str:
    named = event.detail.get("kind") if event.detail is not None else None
    if isinstance(named, str) and named:
        return _short(named)
    return _OPENS_WAIT[event.type]


def _code(detail: Mapping[str, object] | None, *members: str) -> str | None:
    """The error code: hosts write `{"error": {"code": …}}`, `{"code": …}` or `{"error": "code"}`."""
    if detail is None:
        return None
    for candidate in (*(detail.get(member) for member in members), detail):
        code = candidate.get("code") if isinstance(candidate, Mapping) else candidate
        if isinstance(code, str) and code:
            return _short(code)
    return None


def _short(text: str) -> str:
    return text if len(text) <= MAX_LABEL_LENGTH else f"{text[: MAX_LABEL_LENGTH - 1]}…"


_RUN_STATUSES: Mapping[str, RunStatus] = MappingProxyType(
    {
        "run.started": "running",
        "run.resuming": "running",
        "run.resumed": "running",
        "run.restored-from-snapshot": "running",
        "run.paused": "paused",
        "run.completed": "completed",
        "run.failed": "failed",
        "run.cancelled": "cancelled",
        "approval.requested": "waiting-approval",
        "clarification.requested": "waiting-input",
        "interrupt.requested": "waiting-external",
        "node.suspended": "waiting-external",
        **dict.fromkeys(_CLOSES_WAIT, "running"),
    }
)

STATUS_TYPES = frozenset(_RUN_STATUSES)
"""The types that `status_of` knows."""

_WAITING_FOR: Mapping[str, RunStatus] = MappingProxyType(
    {
        "approval": "waiting-approval",
        "clarification": "waiting-input",
        "low-confidence": "waiting-input",
        "conversation.start": "waiting-input",
        "conversation.exchange": "waiting-input",
        "conversation.close": "waiting-input",
    }
)


def status_of(event_type: str, detail: Mapping[str, object] | None = None) -> RunStatus | None:
    """The status that a canonical type puts its run into; None for a type that leaves it as it is.

    With the payload, a suspension says what is waited for; without it, or for kinds that no person answers, it is
    something external. The other end of a log, run.dead_lettered, follows a terminal event and is none itself.
    """
    status = _RUN_STATUSES.get(event_type)
    if status == "waiting-external" and detail is not None:
        kind = detail.get("kind")
        return _WAITING_FOR.get(kind, status) if isinstance(kind, str) else status
    return status


def is_terminal(status: str) -> bool:
    """A status that nobody knows counts as terminal, or a poller would wait for its end for ever."""
    return status not in ACTIVE and not status.startswith("waiting-")


class StatusAt(Struct, frozen=True):
    status: RunStatus
    sequence: int


def later_status(known: StatusAt | None, event: Lifecycle) -> StatusAt | None:
    """`known` with one more event, in any order: the first terminal status by sequence stays, else the last one."""
    status = status_of(event.type, event.detail)
    if status is None:
        return known
    told = StatusAt(status, event.sequence)
    if known is None:
        return told
    if is_terminal(known.status) != is_terminal(status):
        return known if is_terminal(known.status) else told
    if is_terminal(status):
        return min(known, told, key=_sequence)
    return max(known, told, key=_sequence)


def fold_status(events: Iterable[Lifecycle]) -> RunStatus | None:
    """None when no event says anything about it. The order of `events` does not matter."""
    known: StatusAt | None = None
    for event in events:
        known = later_status(known, event)
    return None if known is None else known.status


def _sequence(told: StatusAt) -> int:
    return told.sequence
