"""What the follower needs from whoever keeps the events."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from runs.domain.dead_letters import DeadLetter
from runs.domain.event import Refusal, RunEvent

from .state import FollowState, HostState


@dataclass(frozen=True, slots=True)
class FollowedHost:
    """One host of one tenant. `allow_private` lets `origin` be on a loopback or private address; `major` is the one
    that worked last, if any. A value that differs in any field makes the worker begin anew with this host."""

    tenant_id: int
    host_id: int
    slug: str
    origin: str
    credential: str = field(default="", repr=False)
    major: int | None = field(default=None, compare=False)
    allow_private: bool = False


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """`through` is the last committed sequence before the first gap, None when there is none; `ended` says whether
    a terminal event is committed."""

    through: int | None = None
    ended: bool = False


@dataclass(frozen=True, slots=True)
class ListedRun:
    """What a host says of a run outside of its events. `parent_run_id` names the source of a fork when `fork_mode` is
    set, else the parent of a sub-workflow or a fork: the second major does not tell the two apart."""

    run_id: str
    status: str = ""
    workflow_id: str = ""
    parent_run_id: str = ""
    parent_node_id: str = ""
    parent_sequence: int | None = None
    fork_mode: str = ""


class FollowStore(Protocol):
    """Every method may raise; the follower logs it, backs off and comes again."""

    async def hosts_to_follow(self) -> Sequence[FollowedHost]: ...

    async def discovered(self, host: FollowedHost, runs: Sequence[ListedRun]) -> Collection[str]:
        """Notes what the host lists (newest first, maybe nothing) and answers the ids of this host's runs that are to
        be followed: of these and of those known before, each whose following is not FINISHED."""

    async def paused(self, host: FollowedHost) -> Collection[str]:
        """The ids of runs that are not to be followed for now; `discovered` leaves them out."""

    async def resume_point(self, host: FollowedHost, run_id: str) -> ResumePoint: ...

    async def commit(self, host: FollowedHost, run_id: str, items: Sequence[RunEvent | Refusal]) -> object:
        """Returns once the events are durable."""

    async def webhooks(self, host: FollowedHost) -> Sequence[str]:
        """The host's own ids of the webhooks that are registered on it."""

    async def keep_dead_letters(
        self, host: FollowedHost, remote_id: str, letters: Sequence[DeadLetter]
    ) -> Collection[str]:
        """Notes what a webhook did not bring and answers the ids of runs that are to be read for it."""

    async def save_state(self, host: FollowedHost, state: FollowState) -> None: ...

    async def save_host_state(self, host: FollowedHost, state: HostState) -> None: ...
