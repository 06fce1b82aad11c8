"""The worker that keeps the ledger at the end of the log, whatever happens to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
import pytest
from django.db import connection, connections

from ledger import worker
from ledger.store import read_backlog
from ledger.worker import Backlog, read_forever
from openwop_ui.tenancy.models import Tenant
from runs.models import Host
from tests.factories import make_host, make_tenant, take
from tests.ledger.ledger_rows import ledger_rows
from tests.ledger.test_store import write

T = TypeVar("T")


class Elsewhere:
    """A thread with a connection of its own, for what a test does beside the event loop."""

    def __init__(self) -> None:
        self.thread = ThreadPoolExecutor(1)

    async def run(self, act: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.thread, act, *arguments)

    async def until(self, holds: Callable[[], bool], *, within: float = 10.0) -> None:
        async with asyncio.timeout(within):
            while not await self.run(holds):
                await asyncio.sleep(0.02)


@pytest.fixture
async def elsewhere(committed: None) -> AsyncIterator[Elsewhere]:
    one = Elsewhere()
    yield one
    await one.run(connections.close_all)
    one.thread.shutdown()


@dataclass(frozen=True)
class Working:
    task: asyncio.Task[None]
    others: frozenset[int]
    """Connections that are not the worker's."""


@pytest.fixture
async def working(elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Working]:
    """The worker at work, looking round only as it connects: what it does later comes from announcements."""
    monkeypatch.setattr(worker, "ROUND", 3600.0)
    stop = asyncio.Event()
    others = frozenset(await elsewhere.run(connected))
    task = asyncio.create_task(read_forever(stop))
    await elsewhere.until(lambda: len(listeners()) == 1)
    yield Working(task, others)
    stop.set()
    async with asyncio.timeout(5):
        await task
    await elsewhere.until(lambda: listeners() == [])


def connected() -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
        return [pid for (pid,) in cursor.fetchall()]


def listeners() -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'openwop-ui ledger'"
            " AND datname = current_database() AND query LIKE 'LISTEN%'"
        )
        return [pid for (pid,) in cursor.fetchall()]


def make_tenants(*slugs: str) -> list[tuple[Tenant, Host]]:
    return [(tenant, make_host(tenant)) for tenant in map(make_tenant, slugs)]


def has_writes(tenant: Tenant, number: int) -> Callable[[], bool]:
    return lambda: len(ledger_rows(tenant)["writes"]) == number


async def test_new_events_are_read_when_they_are_announced(working: Working, elsewhere: Elsewhere) -> None:
    (first, host), (second, other) = await elsewhere.run(make_tenants, "acme", "globex")
    await elsewhere.run(take, host, [write(0), write(1)])
    await elsewhere.until(has_writes(first, 2))
    await elsewhere.run(take, other, [write(0)])
    await elsewhere.run(take, host, [write(2)])
    await elsewhere.until(has_writes(second, 1))
    await elsewhere.until(has_writes(first, 3))


async def test_what_was_there_before_is_read_at_the_start(elsewhere: Elsewhere) -> None:
    ((tenant, host),) = await elsewhere.run(make_tenants, "acme")
    await elsewhere.run(take, host, [write(0)])
    stop = asyncio.Event()
    task = asyncio.create_task(read_forever(stop))
    await elsewhere.until(has_writes(tenant, 1))
    stop.set()
    await task


async def test_a_backlog_larger_than_one_reading_is_read_to_its_end(
    working: Working, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.store.EVENTS_AT_ONCE", 2)
    ((tenant, host),) = await elsewhere.run(make_tenants, "acme")
    await elsewhere.run(take, host, [write(place, f"m{place}") for place in range(9)])
    await elsewhere.until(has_writes(tenant, 9))


async def test_a_lost_connection_is_made_again(working: Working, elsewhere: Elsewhere) -> None:
    ((tenant, host),) = await elsewhere.run(make_tenants, "acme")
    await elsewhere.run(take, host, [write(0)])
    await elsewhere.until(has_writes(tenant, 1))
    await elsewhere.run(end, set(await elsewhere.run(connected)) - working.others)
    await elsewhere.run(take, host, [write(1)])
    await elsewhere.until(has_writes(tenant, 2))
    assert not working.task.done()


def end(pids: set[int]) -> None:
    assert len(pids) >= 2, "the one that listens and the one that reads"
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s::int[]) pid", [list(pids)])


async def test_a_tenant_that_can_not_be_read_is_told_and_tried_again_while_others_are_read(
    working: Working,
    elsewhere: Elsewhere,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (broken, host), (fine, other) = await elsewhere.run(make_tenants, "acme", "globex")
    failures = 2

    def fail_at_first(tenant_id: int, *, recent: bool) -> bool:
        nonlocal failures
        if tenant_id == broken.pk and failures:
            failures -= 1
            raise psycopg.OperationalError("the database is away")
        return read_backlog(tenant_id, recent=recent)

    monkeypatch.setattr(worker, "read_backlog", fail_at_first)
    with caplog.at_level(logging.ERROR, "ledger.worker"):
        await elsewhere.run(take, host, [write(0)])
        await elsewhere.run(take, other, [write(0)])
        await elsewhere.until(has_writes(fine, 1))
        await elsewhere.until(has_writes(broken, 1))
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert f"tenant {broken.pk} could not be read on, trying again in 1 s" in caplog.messages[0]


async def test_announcements_in_quick_succession_are_one_reading(
    working: Working, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((tenant, host),) = await elsewhere.run(make_tenants, "acme")
    readings = 0

    def count(tenant_id: int, *, recent: bool) -> bool:
        nonlocal readings
        readings += 1
        return read_backlog(tenant_id, recent=recent)

    monkeypatch.setattr(worker, "read_backlog", count)
    loop = asyncio.get_running_loop()
    began = loop.time()
    for place in range(30):
        await elsewhere.run(take, host, [write(place)])
    await elsewhere.until(has_writes(tenant, 30))
    assert readings <= (loop.time() - began) / worker.EVERY + 2


async def test_the_look_round_finds_what_was_not_announced(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "ROUND", 0.1)
    monkeypatch.setattr(worker, "CHANNEL", "another_channel")
    stop = asyncio.Event()
    task = asyncio.create_task(read_forever(stop))
    ((tenant, host),) = await elsewhere.run(make_tenants, "acme")
    await elsewhere.run(take, host, [write(0)])
    await elsewhere.until(has_writes(tenant, 1))
    stop.set()
    await task


@pytest.mark.parametrize(
    "payload, tenant",
    [
        ('{"tenant":7,"topics":{"run:alpha/r":3,"runs":null}}', 7),
        ('{"tenant":7,"topics":{"ledger":null}}', None),
        ('{"tenant":7,"topics":{"runs":null,"hosts":null}}', None),
        ('{"tenant":7,"topics":["run:alpha/r"]}', 7),
        ('{"tenant":"x","topics":{"run:a/b":1}}', None),
        ('{"topics":{"run:a/b":1}}', None),
        ('{"tenant":7}', None),
        ("[]", None),
        ("not json", None),
        ("", None),
        ('{"tenant":7,"topics":{"1":2}}', None),
    ],
)
def test_only_announcements_of_runs_mean_that_there_is_something_to_read(payload: str, tenant: int | None) -> None:
    assert worker._tenant_of(payload) == tenant


def test_a_backlog_has_each_tenant_once_in_order() -> None:
    backlog = Backlog()
    for tenant in (3, 1, 3, 2, 1):
        backlog.add(tenant)
    assert list(backlog.take(0.0)) == [3, 1, 2]
    assert backlog.take(0.0) == {}


@pytest.mark.parametrize(
    ("ended", "heard", "expected"),
    [
        (100.01, 99.0, 100.1),  # not more often than that
        (100.01, 100.01, 100.1),  # a short reading asks for no longer rest
        (100.2, 100.0, 100.1),  # it is quiet already, and over the time: at once
        (100.2, 100.3, 100.4),  # waits for quiet
        (100.2, 109.9, 101.0),  # but four times as long as the reading took at most
    ],
)
def test_after_a_long_reading_the_next_one_waits_for_quiet(ended: float, heard: float, expected: float) -> None:
    assert worker.next_reading(100.0, ended, heard) == pytest.approx(expected)


def test_a_look_at_all_runs_is_not_forgotten_over_one_at_recent_ones() -> None:
    backlog = Backlog()
    for tenant, recent in ((1, True), (2, False), (2, True), (3, True), (3, False)):
        backlog.add(tenant, recent=recent)
    assert backlog.take(0.0) == {1: True, 2: False, 3: False}


def test_a_tenant_that_fails_rests_longer_each_time_and_no_announcement_wakes_it() -> None:
    backlog = Backlog()
    pauses = [backlog.has_failed(1, 100.0) for _ in range(9)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    backlog.add(1)
    backlog.add(2)
    assert list(backlog.take(159.0)) == [2]
    assert list(backlog.take(160.0)) == [1]
    backlog.has_read(1)
    assert backlog.has_failed(1, 200.0) == 1
