"""The worker: follows hosts, reads their memory and the ledger on, keeps claims, watches logs for contradictions."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

from django.core.management.base import BaseCommand

from ledger.claims_worker import keep_claims_forever
from ledger.housekeeping import keep_house_forever
from ledger.reader import read_memory_forever
from ledger.worker import read_forever
from runs.follow_store import DatabaseFollowStore, configured
from runs.follower.worker import follow_forever
from runs.readying import keep_ready_forever
from runs.watch import watch_forever

SWITCH_AFTER = 0.0005
"""Seconds after which a thread that computes lets another one go on, by default ten times as long: what is followed
shares the process with the readers of the log."""


class Command(BaseCommand):
    help = (
        "Follows all hosts that have an origin, reads their memory and the ledger on, and watches the logs for"
        " contradictions, until told to stop. `up` starts one."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        sys.setswitchinterval(SWITCH_AFTER)
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
        tasks.create_task(keep_claims_forever(stop), name="claims")
        tasks.create_task(keep_house_forever(stop), name="house")
        tasks.create_task(watch_forever(stop), name="watch")
        tasks.create_task(keep_ready_forever(stop), name="readying")
