"""Keeps claims up to date in the background: reads entries, settles what a change of rules touches, works on jobs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from django.db import close_old_connections, connections

from openwop_ui.tenancy.lookup import all_tenants

from .claims_store.entries import read_entries
from .claims_store.jobs import work_on_jobs
from .claims_store.stale import settle_stale
from .http_extractor import HttpExtractor

log = logging.getLogger(__name__)

ROUND = 2.0
"""Seconds between two looks at all tenants."""
SLICES = 50
"""Of one kind of work for one tenant, before the next tenant has its turn."""


async def keep_claims_forever(stop: asyncio.Event) -> None:
    """Until ``stop`` is set. Whatever fails is told and tried again."""
    worker = ThreadPoolExecutor(1, thread_name_prefix="claims")
    loop = asyncio.get_running_loop()
    try:
        while not stop.is_set():
            await loop.run_in_executor(worker, keep_claims, stop.is_set)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), ROUND)
    finally:
        await loop.run_in_executor(worker, connections.close_all)
        worker.shutdown()


def keep_claims(is_over: Callable[[], bool] = lambda: False) -> None:
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
            work_for(tenant, is_over)
        except Exception as problem:
            # Its name only: the text of a database's error may quote rows.
            log.error("the claims of tenant %d could not be kept (%s)", tenant, type(problem).__name__)


def work_for(tenant_id: int, is_over: Callable[[], bool] = lambda: False) -> None:
    """All that there is to do for one tenant, as far as it is done in one round."""
    extractor = HttpExtractor.configured()
    _slices(lambda: read_entries(tenant_id, later=extractor is not None), is_over)
    _slices(lambda: settle_stale(tenant_id), is_over)
    if extractor is not None:
        _slices(lambda: work_on_jobs(tenant_id, extractor), is_over)


def _slices(work: Callable[[], bool], is_over: Callable[[], bool]) -> None:
    for _ in range(SLICES):
        if is_over() or not work():
            return
