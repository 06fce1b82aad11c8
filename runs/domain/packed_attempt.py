"""An attempt of a node in the few numbers and words that a kept state has of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from runs.domain.folding import Attempt, AttemptStatus, Wait

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STATUSES: tuple[AttemptStatus, ...] = ("ok", "fail", "live", "wait", "cancelled", "interrupted")


def pack(attempt: Attempt) -> list[Any]:
    """Of its waits the one that is open: the others change nothing any more."""
    wait = attempt.open_wait
    return [
        *(attempt.ordinal, attempt.from_sequence, attempt.to_sequence),
        *(_micros(attempt.started_at), _micros(attempt.ended_at)),
        *(_STATUSES.index(attempt.status), attempt.start_seen, attempt.label, attempt.may_restart),
        [wait.from_sequence, _micros(wait.started_at), wait.kind] if wait else None,
    ]


def unpack(told: list[Any]) -> Attempt:
    ordinal, start, end, started, ended, status, start_seen, label, may_restart, wait = told
    return Attempt(
        ordinal=ordinal,
        from_sequence=start,
        to_sequence=end,
        started_at=_moment(started),
        ended_at=None if ended is None else _moment(ended),
        status=_STATUSES[status],
        start_seen=start_seen,
        label=label,
        waits=(Wait(wait[0], None, _moment(wait[1]), None, wait[2]),) if wait else (),
        may_restart=may_restart,
    )


def _micros(at: datetime | None) -> int | None:
    return None if at is None else (at - _EPOCH) // timedelta(microseconds=1)


def _moment(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)
