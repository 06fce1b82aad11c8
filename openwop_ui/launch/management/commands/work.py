"""The worker: follows hosts, reads their memory and the ledger on, and watches the logs for contradictions."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from django.core.management.base import BaseCommand

from ledger.reader import read_memory_forever
from ledger.worker import read_forever
from runs.follow_store import DatabaseFollowStore, configured
from runs.follower.worker import follow_forever
from runs.watch import watch_forever


class Command(BaseCommand):
    help = (
        "Follows all hosts that have an origin, reads their memory and the ledger on, and watches the logs for"
        " contradictions, until told to stop. `up` starts one."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        store = DatabaseFollowStore()
        try:
            asyncio.run(_work(store))
        finally:
            store.close()


async def _work(store: DatabaseFollowStore) -> None:
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(follow_forever(store, stop=stop, settings=configured()), name="follower")
        tasks.create_task(store.renew_leases(stop), name="leases")
        tasks.create_task(read_forever(stop), name="ledger")
        tasks.create_task(read_memory_forever(stop), name="memory")
        tasks.create_task(watch_forever(stop), name="watch")
