"""One worker for many runs of many hosts of many tenants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest

from runs.follower.host import Settings
from runs.follower.pace import Pace
from runs.follower.state import FollowState, HostPhase, Phase
from runs.follower.store import FollowedHost, ListedRun, ResumePoint
from runs.follower.worker import follow_forever
from tests.hosts import misbehaving as acts
from tests.hosts.follow_doubles import FastClock, MemoryStore, StoreIsDown, followed
from tests.hosts.misbehaving import HostOfMany, MisbehavingHost, PollManners, log_of

SPEED = 100.0
QUICK = Pace(settle=(0.0, 0.5, 1.0))


def run_of(run_id: str, length: int = 6, *behaviour: acts.Act, visible: int | None = None) -> MisbehavingHost:
    return MisbehavingHost(log_of(length, run_id=run_id), acts=list(behaviour), run_id=run_id, visible=visible)


def beating_run(run_id: str) -> MisbehavingHost:
    """Never ends, and its streams never fall silent: nothing but a place given lets another one in."""
    return run_of(run_id, 6, *[acts.stall(2, beats=True)] * 99, visible=2)


@asynccontextmanager
async def working(
    store: MemoryStore, *, places: int = 200, per_host: int = 32, pace: Pace = QUICK
) -> AsyncIterator[asyncio.Event]:
    stop = asyncio.Event()
    settings = Settings(places=places, per_host=per_host, pace=pace, clock=FastClock(SPEED), random=lambda: 0.5)
    worker = asyncio.create_task(follow_forever(store, stop=stop, settings=settings))
    try:
        yield stop
    finally:
        stop.set()
        async with asyncio.timeout(5):
            await worker


async def until(condition: Callable[[], object], *, seconds: float = 6.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def finished(store: MemoryStore) -> set[str]:
    return {state.run_id for state in store.states if state.phase is Phase.FINISHED}


async def test_follows_all_runs_of_all_hosts_of_all_tenants() -> None:
    hosts = [HostOfMany([run_of(f"run-{h}-{n}", 5 + n) for n in range(6)]) for h in range(4)]
    store = MemoryStore()
    async with AsyncExitStack() as stack:
        for number, host in enumerate(hosts):
            origin = await stack.enter_async_context(host.serving())
            store.hosts.append(followed(origin, tenant_id=number // 2, host_id=number))
        async with working(store):
            await until(lambda: len(finished(store)) == 24)

    for number, host in enumerate(hosts):
        for run in host.runs:
            assert store.log(run.run_id, tenant_id=number // 2, host_id=number) == run.log
    assert len(store.events) == 24, "nothing under a host that it is not of"


async def test_runs_that_appear_later_are_followed() -> None:
    host, store = HostOfMany([run_of("first")]), MemoryStore()
    async with host.serving() as origin:
        store.hosts = [followed(origin)]
        async with working(store):
            await until(lambda: finished(store) == {"first"})
            host.runs.append(run_of("second"))
            await until(lambda: finished(store) == {"first", "second"})

    assert store.log("second") == host.runs[1].log
    assert store.listed[0] == ListedRun("first", "completed", "w")


async def test_a_host_without_a_list_is_followed_for_the_runs_that_are_known() -> None:
    host, store = HostOfMany([run_of("known"), run_of("unknown")], lists_runs=False), MemoryStore()
    async with host.serving() as origin:
        store.hosts = [followed(origin)]
        store.known[(1, 1)] = ["known"]
        async with working(store):
            await until(lambda: finished(store) == {"known"})

    assert store.log("known") == host.runs[0].log
    assert store.log("unknown") == []
    assert store.host_states[-1].lists_runs is False


async def test_a_run_that_changes_after_its_end_is_looked_at_again() -> None:
    late = acts.event(6, "memory.written", {"memoryRef": "m", "memoryId": "late"}, run_id="run")
    run = MisbehavingHost([*log_of(6, run_id="run", end="run.cancelled"), late], run_id="run", visible=6)
    end = acts.event(7, "run.completed", {}, run_id="run")
    host, store = HostOfMany([run]), MemoryStore()
    async with host.serving() as origin:
        store.hosts = [followed(origin)]
        async with working(store):
            await until(lambda: finished(store))
            await asyncio.sleep(10 / SPEED)
            run.log.append(end)
            await run.grow(2)
            await until(lambda: len(store.log("run")) == 8)

    assert store.log("run") == run.log


async def test_one_tenant_with_many_live_runs_does_not_keep_another_waiting() -> None:
    busy = HostOfMany([beating_run(f"busy-{n}") for n in range(30)])
    small, store = HostOfMany([run_of("small")]), MemoryStore()
    async with busy.serving() as one, small.serving() as two:
        store.hosts = [followed(one, tenant_id=1, host_id=1)]
        async with working(store, places=4):
            await until(lambda: busy.streams_now == 4)
            store.hosts.append(followed(two, tenant_id=2, host_id=2))
            await until(lambda: "small" in finished(store))

    assert busy.streams_most == 4
    assert store.log("small", tenant_id=2, host_id=2) == small.runs[0].log


async def test_places_are_shared_by_all_runs_in_turn() -> None:
    host, store = HostOfMany([beating_run(f"run-{n}") for n in range(10)]), MemoryStore()
    async with host.serving() as origin:
        store.hosts = [followed(origin)]
        async with working(store, places=3):
            await until(lambda: len(store.events) == 10)

    assert host.streams_most == 3


async def test_a_host_takes_no_more_streams_than_its_share() -> None:
    host, store = HostOfMany([beating_run(f"run-{n}") for n in range(10)]), MemoryStore()
    async with host.serving() as origin:
        store.hosts = [followed(origin)]
        async with working(store, per_host=2):
            await until(lambda: len(store.events) == 10)

    assert host.streams_most == 2


async def test_a_wrong_credential_is_said_and_a_new_one_is_used_at_once() -> None:
    host, store = HostOfMany([run_of("run")]), MemoryStore()
    async with host.serving() as origin:
        store.hosts = [followed(origin, credential="old")]
        async with working(store):
            await until(lambda: store.host_states and store.host_states[-1].phase is HostPhase.REFUSED)
            assert store.host_states[-1].last_error == (
                "the host does not accept the credential (401 unauthenticated: who are you)"
            )
            asked = len(host.asked)
            await asyncio.sleep(60 / SPEED)
            assert len(host.asked) - asked <= 1, "a refused host is left alone for minutes"
            store.hosts = [followed(origin)]
            await until(lambda: finished(store) == {"run"})

    assert store.host_states[-1].last_error == ""
    assert store.host_states[-1].phase is HostPhase.FOLLOWING


ORIGINS_THAT_ARE_NONE = [
    "",
    "agents.example",
    "ftp://agents.example",
    "http://a:b@agents.example",
    "http://agents.example:99999",
    "http://agents..example",
    f"http://{'a' * 64}.example",
    "http://\x7f",
]


async def test_a_credential_that_only_runs_are_asked_for_marks_the_host() -> None:
    host, store = HostOfMany([run_of("run", 6, acts.answer(401))], lists_runs=False), MemoryStore()
    async with host.serving() as origin:
        store.hosts = [followed(origin)]
        store.known[(1, 1)] = ["run"]
        async with working(store):
            await until(lambda: store.host_states and store.host_states[-1].phase is HostPhase.REFUSED)
            await asyncio.sleep(60 / SPEED)

    assert store.host_states[-1].phase is HostPhase.REFUSED
    assert store.host_states[-1].last_error.startswith("the host does not accept the credential")


@pytest.mark.parametrize("origin", ORIGINS_THAT_ARE_NONE)
async def test_an_origin_that_is_none_stands_in_nobodys_way(origin: str) -> None:
    host, store = HostOfMany([run_of("run")]), MemoryStore()
    async with host.serving() as good:
        store.hosts = [followed(origin, tenant_id=1, host_id=1), followed(good, tenant_id=2, host_id=2)]
        async with working(store):
            await until(lambda: finished(store) == {"run"})
            await until(lambda: any(state.phase is HostPhase.REFUSED for state in store.host_states))

    refused = [state.last_error for state in store.host_states if state.phase is HostPhase.REFUSED]
    assert refused[0].startswith("the origin is")


async def test_a_run_that_was_stopped_is_tried_again_later() -> None:
    run = run_of("run", 6, acts.answer(403))
    host, store = HostOfMany([run]), MemoryStore()
    async with host.serving() as origin:
        store.hosts = [followed(origin)]
        async with working(store, pace=replace(QUICK, try_stopped=30.0)):
            await until(lambda: any(state.phase is Phase.STOPPED for state in store.states))
            await until(lambda: finished(store) == {"run"})

    assert store.log("run") == run.log
    assert len(run.streams_asked) == 2


async def test_a_host_that_is_away_is_found_when_it_comes_back() -> None:
    store = MemoryStore(hosts=[followed("http://127.0.0.1:9")])
    host = HostOfMany([run_of("run")])
    async with working(store):
        await until(lambda: store.host_states and store.host_states[-1].phase is HostPhase.RETRYING)
        assert store.host_states[-1].last_error.startswith("no connection")
        assert store.host_states[-1].retry_at is not None
        async with host.serving() as origin:
            store.hosts = [followed(origin)]
            await until(lambda: finished(store) == {"run"})


async def test_a_host_that_is_no_longer_to_be_followed_is_left() -> None:
    host, store = HostOfMany([run_of("run", visible=2)]), MemoryStore()
    async with host.serving() as origin:
        store.hosts = [followed(origin)]
        async with working(store):
            await until(lambda: host.streams_now == 1)
            store.hosts = []
            await until(lambda: host.streams_now == 0)
            asked = len(host.asked)
            await asyncio.sleep(20 / SPEED)

    assert len(host.asked) == asked


class Shaky(MemoryStore):
    """Fails every second call of everything but commits."""

    calls = 0

    def _stumble(self) -> None:
        self.calls += 1
        if self.calls % 2:
            raise StoreIsDown

    async def hosts_to_follow(self) -> Sequence[FollowedHost]:
        self._stumble()
        return await super().hosts_to_follow()

    async def discovered(self, host: FollowedHost, runs: Sequence[ListedRun]) -> Collection[str]:
        self._stumble()
        return await super().discovered(host, runs)

    async def resume_point(self, host: FollowedHost, run_id: str) -> ResumePoint:
        self._stumble()
        return await super().resume_point(host, run_id)

    async def save_state(self, host: FollowedHost, state: FollowState) -> None:
        if state.phase is not Phase.FINISHED:
            self._stumble()
        await super().save_state(host, state)


@pytest.mark.parametrize("failures", [0, 5])
async def test_a_store_that_fails_now_and_then_loses_nothing(failures: int) -> None:
    host = HostOfMany([run_of(f"run-{n}", 9, acts.cut_in_frame(3)) for n in range(3)])
    store = Shaky(fail_commits=failures)
    async with host.serving() as origin:
        store.hosts = [followed(origin)]
        async with working(store):
            await until(lambda: len(finished(store)) == 3)

    for run in host.runs:
        assert store.log(run.run_id) == run.log


async def test_stops_in_the_middle_without_waiting_for_streams() -> None:
    host, store = HostOfMany([run_of(f"run-{n}", visible=2) for n in range(5)]), MemoryStore()
    async with host.serving() as origin:
        store.hosts = [followed(origin)]
        before = asyncio.all_tasks()
        async with working(store) as stop:
            await until(lambda: host.streams_now == 5)
            started = asyncio.get_running_loop().time()
            stop.set()
        took = asyncio.get_running_loop().time() - started
        await until(lambda: host.streams_now == 0)
        left = asyncio.all_tasks() - before

    assert took < 1.0
    assert not [task for task in left if task.get_name().startswith(("run ", "host ", "places"))]


async def test_a_second_worker_goes_on_where_the_first_one_stopped() -> None:
    run = run_of("run", 9, visible=4)
    host, store = HostOfMany([run]), MemoryStore()
    async with host.serving() as origin:
        store.hosts = [followed(origin)]
        async with working(store):
            await until(lambda: len(store.log("run")) == 4)
        store.resume_points["run"] = ResumePoint(through=3)
        await run.grow(5)
        async with working(store):
            await until(lambda: finished(store))

    assert store.log("run") == run.log
    assert run.streams_asked[-1].headers["last-event-id"] == "3"
    assert store.repeated <= 1


async def test_a_host_that_moves_on_to_the_second_major_is_followed_anew() -> None:
    run = MisbehavingHost(log_of(6), visible=3)
    store = MemoryStore()
    async with run.serving() as origin:
        store.hosts = [followed(origin)]
        async with working(store, pace=replace(QUICK, negotiate=20.0)):
            await until(lambda: len(store.log("run-1")) == 3)
            bound = "acme/run-1"
            run.major, run.run_id, run.log = 2, bound, log_of(6, run_id=bound)
            run.visible, run.poll = None, PollManners(says="status")
            await until(lambda: bound in finished(store))

    assert store.log(bound) == run.log
    assert store.host_states[-1].major == 2
