"""Keeps house in the background: secrets of runs that are over go, and what a tenant keeps no longer."""

from __future__ import annotations

import asyncio

from .retention import retain_batch
from .rounds import IsOver, never, one_round, round_after_round
from .run_secrets import forget_ended

NAME = "house"
ROUND = 5.0
"""Seconds between two rounds: for so long the secrets of a run that is over may still be there."""
BATCHES = 20
"""Of one tenant's retention in one round, before the next tenant has its turn."""


async def keep_house_forever(stop: asyncio.Event) -> None:
    await round_after_round(NAME, keep_house_of, stop, pause=ROUND)


def keep_house(is_over: IsOver = never) -> None:
    """One round over all tenants."""
    one_round(NAME, keep_house_of, is_over)


def keep_house_of(tenant_id: int, is_over: IsOver) -> None:
    forget_ended(tenant_id)
    for _ in range(BATCHES):
        if is_over() or retain_batch(tenant_id).is_all:
            return
