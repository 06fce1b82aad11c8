"""Keeps claims up to date in the background: reads entries, settles what a change of rules touches, works on jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .claims_store.entries import read_entries
from .claims_store.jobs import work_on_jobs
from .claims_store.stale import settle_stale
from .http_extractor import HttpExtractor
from .rounds import IsOver, never, one_round, round_after_round

NAME = "claims"
ROUND = 2.0
"""Seconds between two looks at all tenants."""
SLICES = 50
"""Of one kind of work for one tenant, before the next tenant has its turn."""


async def keep_claims_forever(stop: asyncio.Event) -> None:
    await round_after_round(NAME, work_for, stop, pause=ROUND)


def keep_claims(is_over: IsOver = never) -> None:
    """One round over all tenants."""
    one_round(NAME, work_for, is_over)


def work_for(tenant_id: int, is_over: IsOver = never) -> None:
    """All that there is to do for one tenant, as far as it is done in one round."""
    extractor = HttpExtractor.configured()
    _slices(lambda: read_entries(tenant_id, later=extractor is not None), is_over)
    _slices(lambda: settle_stale(tenant_id), is_over)
    if extractor is not None:
        _slices(lambda: work_on_jobs(tenant_id, extractor), is_over)


def _slices(work: Callable[[], bool], is_over: IsOver) -> None:
    for _ in range(SLICES):
        if is_over() or not work():
            return
