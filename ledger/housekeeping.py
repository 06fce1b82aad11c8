"""Keeps house in the background: secrets of runs that are over go, and what a tenant keeps no longer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from django.db import close_old_connections, connections

from openwop_ui.tenancy.lookup import all_tenants

from .retention import retain_batch
from .run_secrets import forget_ended

log = logging.getLogger(__name__)

ROUND = 5.0
"""Seconds between two rounds: for so long the secrets of a run that is over may still be there."""
BATCHES = 20
"""Of one tenant's retention in one round, before the next tenant has its turn."""


async def keep_house_forever(stop: asyncio.Event) -> None:
    """Until ``stop`` is set. Whatever fails is told and tried again."""
    worker = ThreadPoolExecutor(1, thread_name_prefix="house")
    loop = asyncio.get_running_loop()
    try:
        while not stop.is_set():
            await loop.run_in_executor(worker, keep_house, stop.is_set)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), ROUND)
    finally:
        await loop.run_in_executor(worker, connections.close_all)
        worker.shutdown()


def keep_house(is_over: Callable[[], bool] = lambda: False) -> None:
    """One round over all tenants."""
    close_old_connections()
    try:
        tenants = [tenant.pk for tenant in all_tenants()]
    except Exception:
        log.exception("the tenants could not be listed")
        return
    for tenant in tenants:
        if is_over():
            return
        try:
            keep_house_of(tenant, is_over)
        except Exception as problem:
            # Its name only: the text of a database's error may quote rows.
            log.error("the house of tenant %d could not be kept (%s)", tenant, type(problem).__name__)


def keep_house_of(tenant_id: int, is_over: Callable[[], bool]) -> None:
    forget_ended(tenant_id)
    for _ in range(BATCHES):
        if is_over() or retain_batch(tenant_id).is_all:
            return
