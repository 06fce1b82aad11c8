"""Carries PostgreSQL's notifications to the sockets of this process, coalesced.

Announcements are ids only, so merging two of them loses nothing: the later one says all that the first did.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import connections

from .announce import CHANNEL

log = logging.getLogger(__name__)

EVERY = 0.1
"""Seconds between two messages about one topic: at most ten a second."""

LEADER = 0x6F776F70
"""Advisory lock: with a shared channel layer only one process may relay, or each page would hear all of them."""


def group_of(tenant_id: int, topic: str) -> str:
    """The channel group of a tenant's topic. A topic may be longer than a group's name, and freer."""
    return f"t{tenant_id}.{hashlib.blake2b(topic.encode(), digest_size=16).hexdigest()}"


@dataclass(slots=True)
class Pending:
    """What has been announced since the last round. Pure; the relay empties it ten times a second."""

    topics: dict[tuple[int, str], int | None] = field(default_factory=dict)

    def add(self, payload: str) -> None:
        try:
            said = json.loads(payload)
            tenant, topics = int(said["tenant"]), dict(said["topics"])
        except (ValueError, KeyError, TypeError):
            log.warning("a notification that is none of ours was ignored")
            return
        for topic, through in topics.items():
            before = self.topics.get((tenant, topic))
            self.topics[tenant, topic] = through if before is None else max(before, through or 0)

    def take(self) -> dict[tuple[int, str], int | None]:
        taken, self.topics = self.topics, {}
        return taken


state = {"connected": False}
"""Whether this process hears announcements now; ``/readyz`` asks."""


async def relay_forever() -> None:
    """Listens until cancelled. A lost connection is made again; pages catch up by themselves."""
    pause = 0.5
    while True:
        try:
            async with _listening() as connection:
                state["connected"] = True
                pause = 0.5
                await _relay(connection)
        except (psycopg.Error, OSError) as exc:
            log.warning("live relay lost its connection (%s), trying again in %.1f s", type(exc).__name__, pause)
        finally:
            state["connected"] = False
        await asyncio.sleep(pause)
        pause = min(pause * 2, 10)


@asynccontextmanager
async def _listening() -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    params = connections["default"].get_connection_params()
    kept = {key: params[key] for key in ("host", "port", "user", "password", "dbname", "sslmode") if params.get(key)}
    connection = await psycopg.AsyncConnection.connect(**kept, autocommit=True, application_name="openwop-ui relay")
    async with connection:
        while settings.CHANNEL_LAYER_URL and not await _leads(connection):
            await asyncio.sleep(2)
        await connection.execute(f"LISTEN {CHANNEL}")
        yield connection


async def _leads(connection: psycopg.AsyncConnection[Any]) -> bool:
    row = await (await connection.execute("SELECT pg_try_advisory_lock(%s)", [LEADER])).fetchone()
    return bool(row and row[0])


async def _relay(connection: psycopg.AsyncConnection[Any]) -> None:
    pending, arrived = Pending(), asyncio.Event()
    sender = asyncio.create_task(_send(pending, arrived))
    try:
        async for notice in connection.notifies():
            pending.add(notice.payload)
            arrived.set()
            if sender.done():
                sender.result()
    finally:
        sender.cancel()


async def _send(pending: Pending, arrived: asyncio.Event) -> None:
    """What comes after a while of silence is sent at once, what follows it soon waits for the next round."""
    layer = get_channel_layer()
    assert layer is not None  # configured in settings
    while True:
        await arrived.wait()
        arrived.clear()
        for (tenant, topic), through in pending.take().items():
            await layer.group_send(group_of(tenant, topic), {"type": "live.notice", "topic": topic, "through": through})
        await asyncio.sleep(EVERY)
