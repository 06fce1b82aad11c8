"""A host that does all that hosts do wrong, under a site whose worker and database are killed meanwhile."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.misbehaving import (
    Act,
    Event,
    HostOfMany,
    MisbehavingHost,
    PollManners,
    answer,
    batches,
    close_early,
    cut_in_frame,
    frame,
    in_pieces,
    log_of,
    reorder,
    repeat,
    say_nothing,
    stall,
    talk_garbage,
)
from tests.hosts.raw_http import Reply

from .running_site import RunningSite

pytestmark = pytest.mark.whole

RUNS = 9
LENGTH = 400
GROWTH = 2
EVERY = 0.5
"""In so many seconds GROWTH events more happen in each run; LAST of them only when everything has been killed."""
LAST = 30
SUCCEEDED_WITHIN = 45
"""Seconds: the lease of a killed worker has to end, and the supervisor waits longer after each kill."""
COMPLETE_WITHIN = 40
SEED = 20261129


def cut_after_a_stall(events: int, seconds: float) -> Act:
    async def act(host: MisbehavingHost, cursor: int, reply: Reply) -> None:
        await reply.begin()
        await reply.piece(b"".join(frame(one) for one in host.shown(cursor, in_stream=True)[:events]))
        await asyncio.sleep(seconds)
        reply.cut()

    return act


async def restart_with_lost_memory(host: MisbehavingHost, cursor: int, reply: Reply) -> None:
    """The host breaks off and is away for two answers. Its streams then know only what happens from now on."""
    await reply.begin()
    host.lost_in_streams |= {told["sequence"] for told in host.happened()}
    host.poll_answers += [(503, {}), (503, {"Retry-After": "1"})]
    reply.cut()


ACTS: Mapping[str, Act] = {
    "cut in mid-frame": cut_in_frame(2),
    "ends in mid-frame": cut_in_frame(3, cleanly=True, at=0.9),
    "stalls": cut_after_a_stall(2, 2.0),
    "repeats": repeat,
    "reorders": reorder,
    "restarts": restart_with_lost_memory,
    "429": answer(429, {"Retry-After": "1"}),
    "503": answer(503),
    "closes early": close_early(3),
    "batches": batches(4),
    "pieces": in_pieces(7),
    "garbage": talk_garbage,
}
HANGS: Mapping[str, Act] = {"stalls for ever": stall(3), "never answers": say_nothing}


MANNERS = (
    PollManners(skips_next=True),
    PollManners(page=3),
    PollManners(says="status"),
    PollManners(skips_next=True, page=5, says="isComplete"),
    PollManners(says="nothing"),
)


def misbehaving_runs(played: Counter[str]) -> list[MisbehavingHost]:
    """Each run's streams go wrong in all ways, in an order of its own, and twice; those of HANGS before that."""

    def noted(name: str) -> Act:
        async def act(host: MisbehavingHost, cursor: int, reply: Reply) -> None:
            played[name] += 1
            await {**ACTS, **HANGS}[name](host, cursor, reply)

        return act

    order = random.Random(SEED)
    hangs = list(HANGS)
    runs = []
    for place in range(RUNS):
        run_id = f"run-{place}"
        names = [*hangs[place : place + 1], *order.sample(list(ACTS), len(ACTS)), *order.sample(list(ACTS), len(ACTS))]
        runs.append(
            MisbehavingHost(
                log_of(LENGTH, run_id=run_id),
                run_id=run_id,
                acts=[noted(name) for name in names],
                poll=MANNERS[place % len(MANNERS)],
                visible=1,
            )
        )
    return runs


@dataclass
class Chaos:
    """The host, in a thread and an event loop of its own. `finish` lets the runs come to their ends."""

    runs: list[MisbehavingHost]
    origin: str = ""
    _may_end: threading.Event = field(default_factory=threading.Event)
    _stop: threading.Event = field(default_factory=threading.Event)
    _ready: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def going_on(self) -> Iterator[HostOfMany]:
        host = HostOfMany(self.runs)
        thread = threading.Thread(target=lambda: asyncio.run(self._serve(host)))
        thread.start()
        try:
            assert self._ready.wait(10)
            yield host
        finally:
            self._stop.set()
            thread.join(20)

    def finish(self) -> None:
        self._may_end.set()

    async def _serve(self, host: HostOfMany) -> None:
        async with host.serving() as self.origin:
            self._ready.set()
            while not self._stop.is_set():
                await asyncio.sleep(EVERY)
                may_end = self._may_end.is_set()
                for run in self.runs:
                    left = LENGTH - len(run.happened()) - (0 if may_end else LAST)
                    # In the end all that is left happens within seconds.
                    await run.grow(max(0, min(left, GROWTH * 20 if may_end else GROWTH)))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningSite]:
    monkeypatch.setenv("ALLOW_PRIVATE_HOSTS", "1")
    running = RunningSite(tmp_path)
    running.start()
    try:
        yield running
    finally:
        running.stop()


def test_the_log_equals_the_hosts_whatever_goes_wrong_and_whoever_is_killed(site: RunningSite) -> None:
    played: Counter[str] = Counter()
    chaos = Chaos(misbehaving_runs(played))
    with chaos.going_on() as host:
        site.manage("create_tenant", "chaos")
        site.manage("create_host", "robot", "--tenant", "chaos", "--origin", chaos.origin, "--credential", host.key)
        key = site.manage("create_api_key", "--tenant", "chaos", "--name", "read", "--scopes", "read")
        reader = Reader(site, key)

        reader.wait_for_news()
        first = kill_worker(site)
        # The next one is killed as well before it can have done much.
        wait_until(lambda: site.children().get("work", first) != first, SUCCEEDED_WITHIN)
        kill_worker(site)
        reader.wait_for_news()
        kill_worker(site)
        os.kill(site.postmaster(), signal.SIGKILL)
        site.wait_until_ready()
        reader.wait_for_news()
        chaos.finish()
        reader.wait_until_complete()

    stored = {run.run_id: reader.events(run.run_id) for run in chaos.runs}
    for run in chaos.runs:
        assert stored[run.run_id] == run.log, first_difference(stored[run.run_id], run.log)
    facts = reader.facts()
    assert {name: (said["events"], said["missing"]) for name, said in facts.items()} == {
        run.run_id: (LENGTH, 0) for run in chaos.runs
    }
    assert {said["status"] for said in facts.values()} == {"completed"}
    reader.wait_for_ledger(RUNS * (LENGTH - 2))
    assert set(played) == {*ACTS, *HANGS}, "the test shows less than it says"


def kill_worker(site: RunningSite) -> int:
    pid = site.children()["work"]
    os.kill(pid, signal.SIGKILL)
    return pid


def wait_until(is_so: Callable[[], bool], seconds: float, *, told: Callable[[], object] = str) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, told()
        time.sleep(0.2)


def first_difference(stored: Sequence[Event], told: Sequence[Event]) -> str:
    place = next((at for at, (one, other) in enumerate(zip(stored, told, strict=False)) if one != other), None)
    return f"{len(stored)} stored, {len(told)} told, the first that differs is at {place}"


@dataclass
class Reader:
    """What the site says over its API."""

    site: RunningSite
    key: str

    def _get(self, path: str) -> Any:
        """Asked again while the database is away, as the answer says: it was killed, and the site may not know yet."""
        deadline = time.monotonic() + SUCCEEDED_WITHIN
        while True:
            status, said = self.site.request("GET", path, headers={"Authorization": f"Bearer {self.key}"})
            if status != 503 or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        assert status == 200, said
        return said

    def events(self, run_id: str) -> list[Event]:
        found: list[Event] = []
        cursor = ""
        while True:
            page = self._get(f"/v1/hosts/robot/runs/{run_id}/events?limit=500{cursor}")
            found += page["items"]
            if not page["nextCursor"]:
                return found
            cursor = f"&after={page['nextCursor']}"

    def facts(self) -> dict[str, dict[str, Any]]:
        return {said["runId"]: said for said in self._get("/v1/runs?limit=100")["items"]}

    def wait_for_news(self) -> None:
        """Until the runs have got events that they had not, but for those whose first stream hangs."""
        before = {name: said["events"] for name, said in self.facts().items()}

        def is_news() -> bool:
            moved = [name for name, said in self.facts().items() if said["events"] > before.get(name, 0)]
            return len(moved) >= RUNS - len(HANGS)

        self._wait(is_news, SUCCEEDED_WITHIN)

    def wait_until_complete(self) -> None:
        self._wait(lambda: all(said["events"] == LENGTH for said in self.facts().values()), COMPLETE_WITHIN)

    def wait_for_ledger(self, writes: int) -> None:
        self._wait(lambda: self._writes_of_entries() == writes, 30)

    def _writes_of_entries(self) -> int:
        """The runs write the same entries, so that one page has them all."""
        return sum(int(entry["writes"]) for entry in self._get("/v1/ledger/entries?limit=500")["items"])

    def _wait(self, is_so: Callable[[], bool], seconds: float) -> None:
        wait_until(is_so, seconds, told=lambda: {n: (f["events"], f["missing"]) for n, f in self.facts().items()})
