"""The one process that follows all runs of all hosts of all tenants."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from .host import HostFollow, Settings
from .schedule import Job, Schedule
from .store import FollowedHost, FollowStore

__all__ = ["FollowStore", "FollowedHost", "Settings", "follow_forever"]

logger = logging.getLogger(__name__)

HostKey = tuple[int, int]


async def follow_forever(store: FollowStore, *, stop: asyncio.Event, settings: Settings | None = None) -> None:
    """Until `stop` is set. What was not committed by then is read again by the next worker."""
    worker = _Worker(store, settings or Settings())
    hosts = asyncio.create_task(worker.keep_hosts(), name="hosts to follow")
    places = asyncio.create_task(worker.fill_places(), name="places")
    stopped = asyncio.create_task(stop.wait(), name="stop")
    try:
        done, _ = await asyncio.wait({hosts, places, stopped}, return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stopped}:
            task.result()
    finally:
        await _end(hosts, places, stopped)
        await worker.close()


async def _end(*tasks: asyncio.Task[object]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _Worker:
    def __init__(self, store: FollowStore, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._clock = settings.clock
        self._schedule = Schedule(places=settings.places, per_host=settings.per_host)
        self._hosts: dict[HostKey, HostFollow] = {}
        self._watches: dict[HostKey, asyncio.Task[None]] = {}
        self._turns: dict[Job, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()

    # --- hosts ---

    async def keep_hosts(self) -> None:
        while True:
            try:
                await self._keep(await self._store.hosts_to_follow())
            except Exception:
                logger.exception("the hosts to follow could not be read; those known are followed on")
            await self._clock.sleep(self._settings.pace.read_hosts)

    async def _keep(self, hosts: Collection[FollowedHost]) -> None:
        wanted = {(host.tenant_id, host.host_id): host for host in hosts}
        for key, follow in list(self._hosts.items()):
            if follow.is_outdated or wanted.get(key) != follow.host:
                await self._drop(key)
        for key, host in wanted.items():
            if key not in self._hosts:
                self._start(key, host)

    def _start(self, key: HostKey, host: FollowedHost) -> None:
        follow = HostFollow(
            host,
            store=self._store,
            settings=self._settings,
            want=lambda run_ids: self._want(key, run_ids),
            leave=lambda run_id: self._leave(Job(*key, run_id)),
        )
        self._hosts[key] = follow
        self._watches[key] = asyncio.create_task(follow.watch(), name=f"host {host.slug}")

    async def _drop(self, key: HostKey) -> None:
        follow = self._hosts.pop(key)
        turns = {job: task for job, task in self._turns.items() if job[:2] == key}
        await _end(self._watches.pop(key), *turns.values())
        for job in turns:
            # A task that was cancelled before its first step has not given its place back itself.
            self._turns.pop(job, None)
            self._schedule.done(job)
        self._schedule.forget_host(*key)
        await follow.close()

    async def close(self) -> None:
        for key in list(self._hosts):
            await self._drop(key)

    # --- runs ---

    def _want(self, key: HostKey, run_ids: Collection[str]) -> None:
        now = self._clock.monotonic()
        for run_id in run_ids:
            self._schedule.add(Job(*key, run_id), now)
        self._changed.set()

    async def _leave(self, job: Job) -> None:
        task = self._turns.pop(job, None)
        if task is not None:
            await _end(task)
            self._schedule.done(job)

    async def fill_places(self) -> None:
        while True:
            self._changed.clear()
            now = self._clock.monotonic()
            while (job := self._schedule.take(now)) is not None:
                task = asyncio.create_task(self._turn(job), name=f"run {job.run_id}")
                self._turns[job] = task
            await self._until_changed(self._schedule.next_due())

    async def _until_changed(self, due: float | None) -> None:
        if due is None:
            await self._changed.wait()
            return
        waiting = asyncio.ensure_future(self._changed.wait())
        try:
            await self._clock.wait(waiting, max(due - self._clock.monotonic(), 0.0))
        finally:
            waiting.cancel()

    async def _turn(self, job: Job) -> None:
        again_in: float | None = None
        try:
            follow = self._hosts[job[:2]]
            again_in = await follow.serve(job.run_id, others_wait=lambda: self._should_give_place(job))
        finally:
            # Also when cancelled: the place is free again.
            self._turns.pop(job, None)
            if again_in is None:
                self._schedule.done(job)
            else:
                self._schedule.again(job, self._clock.monotonic() + again_in)
            self._changed.set()

    def _should_give_place(self, job: Job) -> bool:
        return self._schedule.should_give_place(job, self._clock.monotonic())
