"""What is done in the background again and again, for one tenant after the other, in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from django.db import close_old_connections, connections

from openwop_ui.tenancy.lookup import all_tenants

log = logging.getLogger(__name__)

IsOver = Callable[[], bool]
Work = Callable[[int, IsOver], None]
"""All that there is to do for one tenant in one round; it stops early once the second argument says that it is over."""


def never() -> bool:
    return False


async def round_after_round(name: str, work: Work, stop: asyncio.Event, *, pause: float) -> None:
    """Until ``stop`` is set, with ``pause`` seconds between two rounds. Whatever fails is told and tried again."""
    worker = ThreadPoolExecutor(1, thread_name_prefix=name)
    loop = asyncio.get_running_loop()
    try:
        while not stop.is_set():
            await loop.run_in_executor(worker, one_round, name, work, stop.is_set)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), pause)
    finally:
        await loop.run_in_executor(worker, connections.close_all)
        worker.shutdown()


def one_round(name: str, work: Work, is_over: IsOver = never) -> None:
    """Over all tenants: one that fails keeps no other waiting."""
    close_old_connections()
    try:
        tenants = [tenant.pk for tenant in all_tenants()]
    except Exception:
        log.exception("%s: the tenants could not be listed", name)
        return
    for tenant in tenants:
        if is_over():
            return
        try:
            work(tenant, is_over)
        except Exception as problem:
            # Its name only: the text of a database's error may quote rows.
            log.error("%s: tenant %d could not be worked on (%s)", name, tenant, type(problem).__name__)
