"""Keeps the ledger at the end of the log: reads on when new events are announced, and looks round by itself.

An announcement that is lost costs a few seconds, never a row: what there is to read is asked of the database.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
from django.db import close_old_connections, connections

from openwop_ui.live.announce import CHANNEL
from openwop_ui.tenancy.lookup import all_tenants

from .store import read_backlog

log = logging.getLogger(__name__)

EVERY = 0.1
"""Seconds between two readings of one tenant that announcements cause, and without one until it counts as quiet."""
REST = 4
"""So many times as long as a reading took the next one waits for quiet: what comes together is read together, and the
reading takes little from the intake that goes on meanwhile."""
ROUND = 5.0
"""Seconds between two looks at all tenants. They find gaps that have stood too long, and lost announcements."""
LONGEST_PAUSE = 60.0


@dataclass(slots=True)
class Backlog:
    """The tenants that are to be read, each once, in the order in which they were announced.

    A tenant that could not be read waits, twice as long each time, whoever announces it.
    """

    waiting: dict[int, bool] = field(default_factory=dict)
    """Whether only recent runs are to be looked at."""
    failures: dict[int, int] = field(default_factory=dict)
    resting: dict[int, float] = field(default_factory=dict)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    heard: float = float("-inf")
    """When the last announcement came."""
    missed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when announcements may have been missed: it is time to look at all tenants."""

    def add(self, tenant_id: int, *, recent: bool = False) -> None:
        self.waiting[tenant_id] = recent and self.waiting.get(tenant_id, True)
        self.arrived.set()

    def take(self, now: float) -> dict[int, bool]:
        """Those that may be read now; what rests goes back in line."""
        taken = {tenant: recent for tenant, recent in self.waiting.items() if self.resting.get(tenant, 0.0) <= now}
        for tenant in taken:
            del self.waiting[tenant]
        self.arrived.clear()
        return taken

    def has_read(self, tenant_id: int) -> None:
        self.failures.pop(tenant_id, None)
        self.resting.pop(tenant_id, None)

    def has_failed(self, tenant_id: int, now: float) -> float:
        """Returns the seconds for which the tenant is left alone."""
        self.failures[tenant_id] = self.failures.get(tenant_id, 0) + 1
        pause = min(LONGEST_PAUSE, 0.5 * (1 << min(self.failures[tenant_id], 16)))
        self.resting[tenant_id] = now + pause
        return pause


async def read_forever(stop: asyncio.Event) -> None:
    """Reads every tenant's log on until ``stop`` is set. Whatever fails is told and tried again."""
    backlog = Backlog()
    reader = ThreadPoolExecutor(1, thread_name_prefix="ledger")
    tasks = [
        asyncio.create_task(_listen(backlog), name="ledger: listen"),
        asyncio.create_task(_look_round(backlog, reader), name="ledger: look round"),
        asyncio.create_task(_read(backlog, reader), name="ledger: read"),
    ]
    ended = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([*tasks, ended], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (*tasks, ended):
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        # A reading that has begun is finished first: it is one transaction.
        await asyncio.get_running_loop().run_in_executor(reader, connections.close_all)
        reader.shutdown()
    for result in results:
        if isinstance(result, Exception):
            raise result


async def _read(backlog: Backlog, reader: ThreadPoolExecutor) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await backlog.arrived.wait()
        began, is_all = loop.time(), True
        for tenant, recent in backlog.take(began).items():
            if await _read_tenant(tenant, backlog, reader, recent=recent):
                backlog.add(tenant, recent=recent)
                is_all = False
        ended = loop.time()
        # Announcements that come now are one reading later.
        while is_all and (left := next_reading(began, ended, backlog.heard) - loop.time()) > 0:
            await asyncio.sleep(left)


def next_reading(began: float, ended: float, heard: float) -> float:
    """When to read on after a reading, ``heard`` being the moment of the last announcement so far."""
    return max(began + EVERY, min(heard + EVERY, ended + REST * (ended - began)))


async def _read_tenant(tenant: int, backlog: Backlog, reader: ThreadPoolExecutor, *, recent: bool) -> bool:
    """Reads a part. True when there is more to read at once."""
    loop = asyncio.get_running_loop()
    try:
        more = await loop.run_in_executor(reader, _in_thread, tenant, recent)
    except Exception:
        pause = backlog.has_failed(tenant, loop.time())
        log.exception("the log of tenant %d could not be read on, trying again in %.0f s", tenant, pause)
        loop.call_later(pause, backlog.add, tenant)
        return False
    backlog.has_read(tenant)
    return more


def _in_thread(tenant: int, recent: bool) -> bool:
    close_old_connections()
    return read_backlog(tenant, recent=recent)


async def _look_round(backlog: Backlog, reader: ThreadPoolExecutor) -> None:
    loop = asyncio.get_running_loop()
    while True:
        try:
            for tenant in await loop.run_in_executor(reader, _all_tenants_in_thread):
                backlog.add(tenant)
        except Exception:
            log.exception("the tenants could not be listed")
        with suppress(TimeoutError):
            await asyncio.wait_for(backlog.missed.wait(), ROUND)
        backlog.missed.clear()


def _all_tenants_in_thread() -> list[int]:
    close_old_connections()
    return [tenant.pk for tenant in all_tenants()]


async def _listen(backlog: Backlog) -> None:
    pause = 0.5
    while True:
        try:
            async with _connected() as connection:
                await connection.execute(f"LISTEN {CHANNEL}")
                backlog.missed.set()
                pause = 0.5
                async for notice in connection.notifies():
                    tenant = _tenant_of(notice.payload)
                    if tenant is not None:
                        backlog.heard = asyncio.get_running_loop().time()
                        backlog.add(tenant, recent=True)
        except (psycopg.Error, OSError) as exc:
            log.warning("the ledger hears no announcements (%s), trying again in %.1f s", type(exc).__name__, pause)
        except Exception:
            log.exception("the ledger hears no announcements, trying again in %.1f s", pause)
        await asyncio.sleep(pause)
        pause = min(pause * 2, 10.0)


@asynccontextmanager
async def _connected() -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    params = connections["default"].get_connection_params()
    kept = {key: params[key] for key in ("host", "port", "user", "password", "dbname", "sslmode") if params.get(key)}
    connection = await psycopg.AsyncConnection.connect(**kept, autocommit=True, application_name="openwop-ui ledger")
    async with connection:
        yield connection


def _tenant_of(payload: str) -> int | None:
    """The tenant of an announcement that names runs; None for any other."""
    with suppress(ValueError, TypeError, AttributeError, KeyError):
        said = json.loads(payload)
        if any(topic.startswith("run:") for topic in said["topics"]):
            return int(said["tenant"])
    return None
