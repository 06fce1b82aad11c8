"""Reads the content of memory entries from the hosts that serve it, in the background and never faster than agreed.

What memory holds is read with the follower's care for addresses and credentials. A host that is busy, away or broken is
left alone for a while; what failed is told beside the entry and nowhere else. No content, and no word of a host's, is
logged here.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import random as system_random
from threading import Barrier
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import close_old_connections, connections

from openwop_ui import vault
from openwop_ui.tenancy.scope import operator_scope, tenant_scope
from runs.domain.memory_read import (
    BadRoute,
    MemoryEntry,
    MemoryPage,
    MemoryRoute,
    NotRead,
    read_list,
    read_one,
)
from runs.domain.storable import original
from runs.follower.backoff import Backoff
from runs.follower.client import FollowProblem, HostClient, OutOfBounds, Refused, Unreachable
from runs.follower.clock import Clock, SystemClock
from runs.follower.store import FollowedHost
from runs.models import Host

from . import observations
from .domain.observing import GONE, Sight, retry_look
from .domain.route_text import read_route
from .models import MemoryScope
from .observations import Due, Look, Source

T = TypeVar("T")
logger = logging.getLogger(__name__)

LARGEST_ANSWER = 4 * 1024 * 1024
SLOW = 0.1
"""Seconds that understanding an answer may take before its host has to pay for them."""
REST = 20
"""So many times as long it is left alone then: all hosts are read, and followed, by one thread."""
THREADS = 4
CLOSED = ("no_route", "not_allowed")
"""What one entry's answer says about all of them."""


@dataclass(frozen=True, slots=True)
class ReadPace:
    """Of one worker. ``per_second`` requests are begun on one host and ``at_once`` of them are open, ``in_all`` on all
    hosts; ``batch`` entries are taken to be read at a time.

    ``scopes`` of a host are listed every ``list_every``, and one of which ``list_from`` entries are due at that moment:
    ``list_limit`` entries of it. The rest is in seconds: between two looks at a host with nothing to read and at the
    hosts, within which an answer has to come, before an entry that failed is tried again at first, and before a host
    that has no such route or does not let us in is asked again.
    """

    per_second: float = 5.0
    at_once: int = 4
    in_all: int = 32
    batch: int = 20
    list_every: float = 600.0
    list_from: int = 5
    list_limit: int = 100
    scopes: int = 20
    idle: float = 2.0
    read_hosts: float = 5.0
    within: float = 15.0
    retry: float = 15.0
    closed: float = 900.0


@dataclass(frozen=True, slots=True)
class Settings:
    pace: ReadPace = field(default_factory=ReadPace)
    clock: Clock = field(default_factory=SystemClock)
    random: Callable[[], float] = system_random


@dataclass(frozen=True, slots=True)
class ReadHost:
    """One host and the way to its memory. A reader of one that differs begins anew."""

    host: FollowedHost
    route: MemoryRoute


async def read_memory_forever(stop: asyncio.Event, *, settings: Settings | None = None) -> None:
    """Until ``stop`` is set. Whatever fails is told and tried again."""
    settings = settings or Settings()
    worker = _Worker(settings)
    stopped = asyncio.create_task(stop.wait(), name="stop")
    try:
        while not stopped.done():
            await worker.keep_hosts()
            await settings.clock.wait(stopped, settings.pace.read_hosts)
    finally:
        stopped.cancel()
        await worker.close()


class _Worker:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store = _Store()
        self._open = asyncio.Semaphore(settings.pace.in_all)
        self._readers: dict[ReadHost, asyncio.Task[None]] = {}

    async def keep_hosts(self) -> None:
        try:
            wanted = set(await self._store.run(hosts_to_read))
        except Exception as problem:
            _told("the hosts whose memory is read could not be listed", problem)
            return
        for target in self._readers.keys() - wanted:
            await _ended(self._readers.pop(target))
        for target in wanted - self._readers.keys():
            reader = HostReader(target, self._settings, store=self._store, open_requests=self._open)
            self._readers[target] = asyncio.create_task(reader.read_forever(), name=f"memory of {target.host.slug}")

    async def close(self) -> None:
        await _ended(*self._readers.values())
        await self._store.close()


async def _ended(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _told(what: str, problem: Exception) -> None:
    # Its name only: the text of a database's error may quote rows.
    logger.error("%s (%s)", what, type(problem).__name__)


class _Store:
    """The database, which may keep a thread waiting."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="memory")

    async def run(self, work: Callable[..., T], **told: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, _fresh, work, told)

    async def close(self) -> None:
        """What has begun is finished, and every thread gives its connection back."""
        all_threads = Barrier(THREADS)
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(self._threads, _let_go, all_threads) for _ in range(THREADS)))
        self._threads.shutdown()


def _fresh(work: Callable[..., T], told: Mapping[str, Any]) -> T:
    close_old_connections()
    return work(**told)


def _let_go(all_threads: Barrier) -> None:
    connections.close_all()
    all_threads.wait()


class _Gate:
    """Lets one through every so often."""

    def __init__(self, interval: float, clock: Clock) -> None:
        self._interval = interval
        self._clock = clock
        self._next = 0.0

    async def through(self) -> None:
        now = self._clock.monotonic()
        at = max(now, self._next)
        self._next = at + self._interval
        if at > now:
            await self._clock.sleep(at - now)


@dataclass(slots=True)
class _Backlog:
    """How far the entries of before have been asked for."""

    after: UUID | None = None
    is_done: bool = False


@dataclass(slots=True)
class _Scopes:
    """The memory refs of a host with the time, by the clock, at which each is listed next."""

    next_at: dict[str, float] = field(default_factory=dict)
    look_at: float = 0.0
    are_served: bool = True


class HostReader:
    """Reads the memory of one host."""

    def __init__(
        self,
        target: ReadHost,
        settings: Settings,
        *,
        store: _Store,
        open_requests: asyncio.Semaphore,
    ) -> None:
        self._host, self._route = target.host, target.route
        self._store = store
        self._pace, self._clock = settings.pace, settings.clock
        self._client = HostClient(
            target.host,
            clock=settings.clock,
            connections=settings.pace.at_once + 1,
            max_answer_bytes=LARGEST_ANSWER,
        )
        self._backoff = Backoff(settings.random)
        self._gate = _Gate(1 / settings.pace.per_second, settings.clock)
        self._open, self._open_here = open_requests, asyncio.Semaphore(settings.pace.at_once)
        self._paused_until = 0.0
        self._backlog = _Backlog()
        self._scopes = _Scopes()

    async def read_forever(self) -> None:
        try:
            while True:
                await self._clock.sleep(await self._look())
        finally:
            await self._client.aclose()

    async def _look(self) -> float:
        """Seconds until the next look."""
        try:
            if not self._is_paused:
                await self._ask_for_backlog()
                await self._list_scopes()
                due = await self._keep(observations.claim, most=self._pace.batch, now=self._clock.now())
                await self._read(due)
                if not due and self._backlog.is_done:
                    return self._pace.idle
        except Exception as problem:
            _told(f"the memory of host {self._host.slug} could not be read on", problem)
            return max(self._pace.idle, self._backoff.failed())
        return max(0.0, self._paused_until - self._clock.monotonic())

    async def _keep(self, work: Callable[..., T], **told: Any) -> T:
        return await self._store.run(work, tenant_id=self._host.tenant_id, host_id=self._host.host_id, **told)

    @property
    def _is_paused(self) -> bool:
        return self._clock.monotonic() < self._paused_until

    def _pause(self, seconds: float) -> None:
        self._paused_until = max(self._paused_until, self._clock.monotonic() + seconds)

    async def _ask_for_backlog(self) -> None:
        """One slice of it, so that what was just written does not wait for all that was there before."""
        if self._backlog.is_done:
            return
        if self._backlog.after is None:
            await self._keep(observations.retry_failed, now=self._clock.now())
        after = await self._keep(observations.ask_for_backlog, after=self._backlog.after, now=self._clock.now())
        self._backlog = _Backlog(after, is_done=after is None)

    # --- scopes ---

    async def _list_scopes(self) -> None:
        """Lists the scopes whose time has come. That is how entries are found that no event speaks of."""
        now = self._clock.monotonic()
        if now >= self._scopes.look_at:
            self._scopes.look_at = now + self._pace.list_every
            refs = await self._keep(scopes_of, most=self._pace.scopes)
            for ref in dict.fromkeys((*refs, *filter(None, [self._route.default_ref]))):
                self._scopes.next_at.setdefault(ref, now)
        for ref, at in list(self._scopes.next_at.items()):
            if at <= now:
                await self._list(ref)

    async def _list(self, ref: str) -> Collection[str]:
        """The ids of the entries that the list held, which are as good as read. An entry that is not in it may be gone,
        or only left out."""
        await self._gate.through()
        if self._is_paused or not self._scopes.are_served:
            return ()
        self._scopes.next_at[ref] = self._clock.monotonic() + self._pace.list_every
        path, query = self._route.list_request(memory_ref=ref, limit=self._pace.list_limit)
        begun = self._clock.now()
        try:
            told = self._understood(read_list, *await self._ask(path, query))
        except FollowProblem as problem:
            self._mind(problem)
            return ()
        if isinstance(told, NotRead):
            # The entries themselves may be served all the same.
            self._scopes.are_served = told.why not in ("no_route", "not_understood")
            return ()
        return await self._observe_page(ref, told, begun)

    async def _observe_page(self, ref: str, page: MemoryPage, begun: datetime) -> Collection[str]:
        if page.memory_ref not in (None, ref):
            return ()
        looks = [Look(ref, entry.id, Sight.of(entry)) for entry in page.entries]
        await self._keep(observations.observe, looks=looks, source=Source.READ, at=begun)
        return {entry.id for entry in page.entries}

    # --- entries ---

    async def _read(self, due: Sequence[Due]) -> None:
        left = await self._less_what_is_listed(due)
        async with asyncio.TaskGroup() as tasks:
            readings = [tasks.create_task(self._read_entry(one)) for one in left]
        untried = [one.entry for one, reading in zip(left, readings, strict=True) if not reading.result()]
        if untried:
            await self._store.run(
                observations.put_back, tenant_id=self._host.tenant_id, entries=untried, until=self._clock.now()
            )

    async def _less_what_is_listed(self, due: Sequence[Due]) -> Sequence[Due]:
        """Where many entries of one scope are due, one list may have them all."""
        scopes: dict[str, int] = defaultdict(int)
        for one in due:
            scopes[one.memory_ref] += 1
        listed = {
            (ref, memory_id)
            for ref, count in scopes.items()
            if count >= self._pace.list_from
            for memory_id in await self._list(ref)
        }
        return [one for one in due if (one.memory_ref, one.memory_id) not in listed]

    async def _read_entry(self, due: Due) -> bool:
        """False when it was not even tried, since the host is left alone."""
        async with self._open_here:
            await self._gate.through()
            if self._is_paused:
                return False
            begun = self._clock.now()
            try:
                path, query = self._route.entry_request(due.memory_id, memory_ref=due.memory_ref)
                told = self._understood(read_one, *await self._ask(path, query))
            except ValueError as problem:
                await self._failed(due, f"It can not be asked for: {problem}.")
            except FollowProblem as problem:
                self._mind(problem)
                await self._failed(due, _words(problem), asked=getattr(problem, "asked", None))
            else:
                await self._took(due, told, begun)
        return True

    async def _took(self, due: Due, told: MemoryEntry | NotRead, begun: datetime) -> None:
        self._backoff.succeeded()
        if isinstance(told, MemoryEntry) and told.id != due.memory_id:
            await self._failed(due, "The host answered with another entry.")
        elif isinstance(told, MemoryEntry):
            await self._saw(due, Sight.of(told), begun)
        elif told.why == "no_longer_readable":
            await self._saw(due, GONE, begun)
        else:
            if told.why in CLOSED:
                self._pause(self._pace.closed)
            await self._failed(due, _WORDS[told.why])

    async def _saw(self, due: Due, sight: Sight, begun: datetime) -> None:
        look = Look(due.memory_ref, due.memory_id, sight)
        await self._keep(observations.observe, looks=[look], source=Source.READ, at=begun)

    async def _failed(self, due: Due, error: str, *, asked: float | None = None) -> None:
        now = self._clock.now()
        first = timedelta(seconds=self._pace.retry)
        await self._store.run(
            observations.failed,
            tenant_id=self._host.tenant_id,
            due=due,
            error=error,
            at=now,
            retry_at=retry_look(due.failures + 1, now=now, first=first, asked=asked),
        )

    # --- the host ---

    async def _ask(self, path: str, query: Mapping[str, str]) -> tuple[int, bytes]:
        """Status and body of an answer that says something about memory; FollowProblem for any other."""
        try:
            async with self._open, self._clock.timeout(self._pace.within):
                answer = await self._client.get(path, major=self._route.major, params=query)
        except TimeoutError as problem:
            raise Unreachable(f"no answer within {self._pace.within:.0f} s") from problem
        except Refused as refused:
            if refused.status == 429 or refused.status >= 500 and refused.status != 501:
                raise
            return refused.status, _body_of(refused)
        return answer.status, answer.body

    def _understood(self, read: Callable[[int, bytes], T], status: int, body: bytes) -> T:
        begun = time.perf_counter()
        told = read(status, body)
        spent = time.perf_counter() - begun
        if spent > SLOW:
            self._pause(spent * REST)
        return told

    def _mind(self, problem: FollowProblem) -> None:
        """Leaves the host alone after what is not about one entry alone."""
        if isinstance(problem, Refused):
            self._pause(self._backoff.failed(asked=problem.asked))
        elif isinstance(problem, Unreachable):
            self._pause(self._backoff.failed())
        elif isinstance(problem, OutOfBounds):
            self._pause(self._pace.closed)


def _body_of(refused: Refused) -> bytes:
    """What the host said in its error, again as a body: a missing route can be told from a missing entry by it."""
    message = str(refused).removeprefix(f"{refused.status} ").removeprefix(f"{refused.code}: ")
    return json.dumps({"error": refused.code, "message": message}).encode()


_WORDS: Mapping[str, str] = {
    "no_route": "The host has no such route: the way to its memory is set wrongly, or it serves none.",
    "not_allowed": "The host does not let this credential read its memory.",
    "unavailable": "The host could not answer.",
    "not_understood": "The host answered with something that is no memory entry.",
}


def _words(problem: FollowProblem) -> str:
    text = str(problem)
    return f"The host answered {text}." if isinstance(problem, Refused) else f"{text[:1].upper()}{text[1:]}."


# --- What is to be read ---


def hosts_to_read() -> list[ReadHost]:
    """Of all tenants: those that are followed and whose memory has a way to it."""
    with operator_scope():
        hosts = Host.objects.filter(following=True).exclude(origin="").exclude(memory_route="").order_by("id")
        return [target for target in map(_target, hosts) if target is not None]


def _target(host: Host) -> ReadHost | None:
    try:
        route = read_route(host.memory_route)
    except BadRoute:
        route = None
    return None if route is None else ReadHost(_followed(host), route)


def _followed(host: Host) -> FollowedHost:
    try:
        credential = vault.unseal(host.sealed_credential)
    except vault.UnreadableSecret:
        credential = ""
    return FollowedHost(
        tenant_id=host.tenant_id,
        host_id=host.pk,
        slug=host.slug,
        origin=host.origin,
        credential=credential,
        major=host.major,
        allow_private=settings.ALLOW_PRIVATE_HOSTS,
    )


def scopes_of(*, tenant_id: int, host_id: int, most: int) -> list[str]:
    """The memory refs of a host with the most entries."""
    with tenant_scope(tenant_id):
        found = MemoryScope.objects.filter(tenant_id=tenant_id, host_id=host_id).order_by("-entry_count", "memory_ref")
        return list(map(original, found.values_list("memory_ref", flat=True)[:most]))
