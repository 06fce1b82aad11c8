"""Keeps the columns and states of large runs ready, so that the first look at one does not wait for them."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime

from django.db import close_old_connections, connections
from django.utils import timezone

from openwop_ui.tenancy.lookup import all_tenants

from .store.columns import QUIET, keep_ready, large_runs
from .store.snapshots import keep_states

log = logging.getLogger(__name__)

EVERY = 5.0


async def keep_ready_forever(stop: asyncio.Event) -> None:
    """Until ``stop`` is set. The first look is at all large runs, the others at those that have received events."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="readying")
    looked: dict[int, datetime] = {}
    loop = asyncio.get_running_loop()
    try:
        while not stop.is_set():
            await loop.run_in_executor(thread, _look, looked, stop)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), EVERY)
    finally:
        await loop.run_in_executor(thread, connections.close_all)
        thread.shutdown()


def _look(looked: dict[int, datetime], stop: asyncio.Event) -> None:
    close_old_connections()
    now = timezone.now()
    try:
        for tenant in all_tenants():
            for run in large_runs(tenant.pk, since=looked.get(tenant.pk), now=now):
                if stop.is_set():
                    return
                keep_ready(tenant.pk, run)
                keep_states(tenant.pk, run)
            looked[tenant.pk] = now - 2 * QUIET
    except Exception:
        log.exception("the columns of large runs could not be built, trying again")
