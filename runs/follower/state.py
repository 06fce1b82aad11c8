"""How following is going, in values that a page can show."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

UNANNOUNCED_END = "the host says that the run has ended; its log has no terminal event"
"""The note of a run that is FINISHED by the host's word alone."""


class Phase(StrEnum):
    """What following one run is at. FINISHED is an end; a STOPPED run is tried again now and then, and at once when its
    host's origin or credential changed; a PAUSED one rests until somebody says otherwise."""

    WAITING = "waiting"
    CONNECTING = "connecting"
    STREAMING = "streaming"
    POLLING = "polling"
    REFILLING = "refilling"
    RETRYING = "retrying"
    SETTLING = "settling"
    FINISHED = "finished"
    STOPPED = "stopped"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class FollowState:
    """One run. `through` is the last committed sequence before the first gap, `missing` the ranges (first, last) that
    the host was asked for in every way and did not give. `note` explains an end that is not the usual one."""

    run_id: str
    phase: Phase = Phase.WAITING
    through: int | None = None
    connected_since: datetime | None = None
    last_event_at: datetime | None = None
    last_error: str = ""
    retry_at: datetime | None = None
    missing: tuple[tuple[int, int], ...] = ()
    note: str = ""


class HostPhase(StrEnum):
    DISCOVERING = "discovering"
    FOLLOWING = "following"
    RETRYING = "retrying"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class HostState:
    """One host. `document` is its discovery document as it came, `listed_at` when its run list was read last; a host
    without a run list has `lists_runs` False and is followed for the runs that became known in another way."""

    phase: HostPhase = HostPhase.DISCOVERING
    major: int | None = None
    document: str = ""
    lists_runs: bool | None = None
    listed_at: datetime | None = None
    last_error: str = ""
    retry_at: datetime | None = None
