"""Asks a host of the second major what it could not deliver, so that those runs are read instead."""

from __future__ import annotations

from collections.abc import AsyncIterator

from runs.domain.dead_letters import DeadLetter, read_dead_letters

from . import routes
from .client import HostClient, Refused, read_json

PAGE = 100
MAX_PAGES = 10

NOT_SERVED = frozenset({404, 405, 410, 501})
"""The host keeps no dead letters, or none any more: once a webhook is unregistered its letters are gone."""


async def dead_letters(client: HostClient, remote_id: str) -> list[DeadLetter]:
    """Of one webhook, as the host lists them. Raises FollowProblem."""
    try:
        return [letter async for letter in _listed(client, remote_id)]
    except Refused as refusal:
        if refusal.status in NOT_SERVED:
            return []
        raise


async def _listed(client: HostClient, remote_id: str) -> AsyncIterator[DeadLetter]:
    cursor = ""
    for _ in range(MAX_PAGES):
        params = {"limit": str(PAGE)} | ({"cursor": cursor} if cursor else {})
        answer = await client.get(routes.dead_letters(remote_id), major=2, params=params)
        page = read_dead_letters(read_json(answer.body))
        for letter in page.letters:
            yield letter
        cursor = page.next_cursor
        if not cursor:
            return
