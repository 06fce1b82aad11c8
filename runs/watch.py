"""Looks for contradictions in what hosts report, beside everything else: it delays no event and drops none.

Nobody waits for what is found here, so tenants are looked at in turn, and not at each announcement.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from django.db import close_old_connections, connections

from openwop_ui.tenancy.lookup import all_tenants

from .store.watching import watch_on

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

EVERY = 3.0
"""Seconds between two looks at the runs that have just received events."""
ROUND = 30.0
"""Seconds between two looks at all runs: what a look has missed, whatever the reason, is found then."""
LONGEST_PAUSE = 60.0


@dataclass(slots=True)
class Rounds:
    """Which tenants are looked at next, and which of them in full."""

    looked_round: dict[int, float] = field(default_factory=dict)
    failures: dict[int, int] = field(default_factory=dict)
    resting: dict[int, float] = field(default_factory=dict)

    def due(self, tenants: Iterable[int], now: float) -> list[int]:
        return [tenant for tenant in tenants if self.resting.get(tenant, 0.0) <= now]

    def recent_is_enough(self, tenant: int, now: float) -> bool:
        """Whether all of its runs were looked at not long ago."""
        return now - self.looked_round.get(tenant, float("-inf")) < ROUND

    def has_looked(self, tenant: int, now: float, *, recent: bool) -> None:
        self.failures.pop(tenant, None)
        self.resting.pop(tenant, None)
        if not recent:
            self.looked_round[tenant] = now

    def has_failed(self, tenant: int, now: float) -> float:
        """Returns the seconds for which the tenant is left alone. Then all of it is looked at."""
        self.failures[tenant] = self.failures.get(tenant, 0) + 1
        pause = min(LONGEST_PAUSE, EVERY * (1 << min(self.failures[tenant], 16)))
        self.resting[tenant] = now + pause
        self.looked_round.pop(tenant, None)
        return pause


async def watch_forever(stop: asyncio.Event) -> None:
    """Until ``stop`` is set. Whatever fails is told and tried again."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="watch")
    rounds = Rounds()
    try:
        while not stop.is_set():
            await _look_at_all(stop, rounds, thread)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), EVERY)
    finally:
        # A part that has begun is finished first: it is one transaction.
        await asyncio.get_running_loop().run_in_executor(thread, connections.close_all)
        thread.shutdown()


async def _look_at_all(stop: asyncio.Event, rounds: Rounds, thread: ThreadPoolExecutor) -> None:
    clock = asyncio.get_running_loop().time
    try:
        tenants = await _in(thread, _all_tenants)
    except Exception:
        log.exception("the tenants could not be listed")
        return
    waiting = rounds.due(tenants, clock())
    while waiting and not stop.is_set():
        # Part by part in turn, so that a tenant with a large log does not keep the others waiting.
        waiting = [tenant for tenant in waiting if not stop.is_set() and await _look_at(tenant, rounds, thread)]


async def _look_at(tenant: int, rounds: Rounds, thread: ThreadPoolExecutor) -> bool:
    """Reads a part of a tenant's logs. True when there is more."""
    clock = asyncio.get_running_loop().time
    recent = rounds.recent_is_enough(tenant, clock())
    try:
        more = await _in(thread, watch_on, tenant, recent=recent)
    except Exception:
        pause = rounds.has_failed(tenant, clock())
        log.exception("the log of tenant %d could not be watched, trying again in %.0f s", tenant, pause)
        return False
    if not more:
        rounds.has_looked(tenant, clock(), recent=recent)
    return more


async def _in(thread: ThreadPoolExecutor, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    def acting() -> T:
        close_old_connections()
        return act(*args, **kwargs)

    return await asyncio.get_running_loop().run_in_executor(thread, acting)


def _all_tenants() -> list[int]:
    return [tenant.pk for tenant in all_tenants()]
