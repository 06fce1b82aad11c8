"""Follows one host in the foreground."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from openwop_ui.tenancy.lookup import tenant_named
from openwop_ui.tenancy.scope import tenant_scope
from runs.follow_store import DatabaseFollowStore, configured
from runs.follower.worker import follow_forever
from runs.models import Host
from runs.store import HostRef, ref
from runs.store.hosts import follow_run

LOOK_EVERY = 0.5
"""Seconds between two looks at whether the run is over."""


class Command(BaseCommand):
    help = (
        "Follows a host's runs until told to stop (Ctrl-C); with --run until that run has ended and a poll says so too."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--tenant", required=True, metavar="SLUG")
        parser.add_argument("--host", required=True, metavar="SLUG")
        parser.add_argument("--run", metavar="ID", help="only this run")

    def handle(self, *args: Any, **options: Any) -> None:
        tenant = tenant_named(options["tenant"])
        with tenant_scope(tenant.pk):
            host = Host.objects.filter(tenant_id=tenant.pk, slug=options["host"]).first()
        if host is None or not host.origin:
            raise CommandError(f"There is no host {options['host']!r} with an origin in {tenant.slug}.")
        if options["run"]:
            # A host without a list of its runs is followed for those that are known in another way.
            follow_run(ref(host), options["run"])
        store = DatabaseFollowStore(only=ref(host), run_id=options["run"])
        self.stderr.write(f"Following {host.slug} at {host.origin}. Ctrl-C stops.")
        try:
            has_ended = asyncio.run(_until_told(store, ref(host), options["run"]))
        finally:
            store.close()
        if has_ended:
            self.stderr.write("The run has ended.")


async def _until_told(store: DatabaseFollowStore, host: HostRef, run_id: str | None) -> bool:
    """Whether the run has ended."""
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(follow_forever(store, stop=stop, settings=configured()), name="follower")
        tasks.create_task(store.renew_leases(stop), name="leases")
        while run_id is not None and not stop.is_set():
            if await store.has_ended(host, run_id):
                stop.set()
                return True
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), LOOK_EVERY)
    return False
