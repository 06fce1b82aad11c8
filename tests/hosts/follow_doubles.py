"""The follower's other side in tests: a store in memory, and a time that runs faster."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from runs.domain.dead_letters import DeadLetter
from runs.domain.event import Refusal, RunEvent
from runs.follower.state import FollowState, HostState, Phase
from runs.follower.store import FollowedHost, ListedRun, ResumePoint

BEGINNING = datetime(2026, 11, 29, 18, 0, tzinfo=UTC)

RunKey = tuple[int, int, str]


SLOWER = 5


class FastClock:
    """One real second is `speed` seconds of the follower's.

    But for the time that an answer is given: servers do not become faster, and a busy machine stands still at times.
    """

    def __init__(self, speed: float = 100.0) -> None:
        self.speed = speed
        self._started = time.monotonic()
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return (time.monotonic() - self._started) * self.speed

    def now(self) -> datetime:
        return BEGINNING + timedelta(seconds=self.monotonic())

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(seconds / self.speed)

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:
        return asyncio.timeout(SLOWER * seconds / self.speed)

    async def wait(self, future: asyncio.Future[Any], seconds: float) -> bool:
        done, _ = await asyncio.wait({future}, timeout=max(seconds, 0.0) / self.speed)
        return bool(done)


class StoreIsDown(Exception):
    pass


@dataclass
class MemoryStore:
    """`fail_commits` is how many commits fail from now on, as when the database is away."""

    hosts: list[FollowedHost] = field(default_factory=list)
    known: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    resume_points: dict[str, ResumePoint] = field(default_factory=dict)
    events: dict[RunKey, dict[int, RunEvent]] = field(default_factory=dict)
    repeated: int = 0
    contradictions: list[RunEvent] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    states: list[FollowState] = field(default_factory=list)
    host_states: list[HostState] = field(default_factory=list)
    listed: list[ListedRun] = field(default_factory=list)
    fail_commits: int = 0
    registered: list[str] = field(default_factory=list)
    resting: list[str] = field(default_factory=list)
    dead_letters: list[DeadLetter] = field(default_factory=list)

    async def hosts_to_follow(self) -> Sequence[FollowedHost]:
        return list(self.hosts)

    async def discovered(self, host: FollowedHost, runs: Sequence[ListedRun]) -> Collection[str]:
        self.listed += runs
        known = self.known.setdefault((host.tenant_id, host.host_id), [])
        known += [run.run_id for run in runs if run.run_id not in known]
        finished = {state.run_id for state in self.states if state.phase is Phase.FINISHED}
        return [run_id for run_id in known if run_id not in finished and run_id not in self.resting]

    async def paused(self, host: FollowedHost) -> Collection[str]:
        return self.resting

    async def resume_point(self, host: FollowedHost, run_id: str) -> ResumePoint:
        return self.resume_points.get(run_id, ResumePoint())

    async def commit(self, host: FollowedHost, run_id: str, items: Sequence[RunEvent | Refusal]) -> None:
        await asyncio.sleep(0)
        if self.fail_commits:
            self.fail_commits -= 1
            raise StoreIsDown
        self.batches.append(len(items))
        log = self.events.setdefault((host.tenant_id, host.host_id, run_id), {})
        for item in items:
            if isinstance(item, Refusal):
                self.refusals.append(item)
            else:
                self._take(log, item)

    def _take(self, log: dict[int, RunEvent], event: RunEvent) -> None:
        known = log.get(event.sequence)
        if known is None or (event.has_payload and not known.has_payload):
            log[event.sequence] = event
            return
        self.repeated += 1
        if known.digest != event.digest and event.has_payload:
            self.contradictions.append(event)

    async def webhooks(self, host: FollowedHost) -> Sequence[str]:
        return self.registered

    async def keep_dead_letters(
        self, host: FollowedHost, remote_id: str, letters: Sequence[DeadLetter]
    ) -> Collection[str]:
        self.dead_letters += letters
        return [letter.run_id for letter in letters]

    async def save_state(self, host: FollowedHost, state: FollowState) -> None:
        self.states.append(state)

    async def save_host_state(self, host: FollowedHost, state: HostState) -> None:
        self.host_states.append(state)

    def log(self, run_id: str, *, tenant_id: int = 1, host_id: int = 1) -> list[dict[str, Any]]:
        """The events as they came, by sequence."""
        events = self.events.get((tenant_id, host_id, run_id), {})
        return [json.loads(events[sequence].body) for sequence in sorted(events)]


def followed(origin: str, *, tenant_id: int = 1, host_id: int = 1, credential: str = "key-of-the-host") -> FollowedHost:
    return FollowedHost(
        tenant_id=tenant_id,
        host_id=host_id,
        slug=f"host-{host_id}",
        origin=origin,
        credential=credential,
        allow_private=True,
    )
