"""Recorded streams of public hosts, followed: in the end the store holds what the host's own poll told afterwards."""

from __future__ import annotations

import asyncio

import pytest

from openwop_ui.demo import RECORDINGS as DEMO_RECORDINGS
from runs.follower.client import HostClient
from runs.follower.follow_run import RunFollow
from runs.follower.polling import Manners
from runs.follower.state import Phase
from runs.follower.store import ResumePoint
from tests.hosts.follow_doubles import FastClock, MemoryStore, followed
from tests.hosts.misbehaving import Event, MisbehavingHost, PollManners
from tests.hosts.recorded import RECORDINGS, read_log, recorded_host

SPEED = 100.0

APP = PollManners(page=100, skips_next=True, says="isComplete")
EXAMPLES = PollManners()
POLLS = {
    "python-long-200-nodes": EXAMPLES,
    "sqlite-crash-mid-run": EXAMPLES,
    "openwop-app-cancelled": APP,
    "openwop-app-approval": APP,
    "in-memory-slow-live": EXAMPLES,
    "postgres-agents": PollManners(says="isComplete"),
}


def test_every_recording_is_played() -> None:
    assert set(POLLS) == {folder.name for folder in RECORDINGS.iterdir() if folder.is_dir()}


async def follow(host: MisbehavingHost, store: MemoryStore) -> RunFollow:
    clock = FastClock(SPEED)
    async with host.serving() as origin:
        to_follow = followed(origin)
        client = HostClient(to_follow, clock=clock)
        run = RunFollow(
            host.run_id,
            client=client,
            major=1,
            resume=ResumePoint(),
            commit=lambda run_id, items: store.commit(to_follow, run_id, items),
            report=lambda state: store.save_state(to_follow, state),
            note_run=lambda _: asyncio.sleep(0),
            clock=clock,
            random=lambda: 0.5,
            manners=Manners(),
        )
        try:
            async with asyncio.timeout(10):
                while (again_in := (await run.turn()).again_in) is not None:
                    await clock.sleep(again_in)
        finally:
            await client.aclose()
    return run


def said(log: list[Event]) -> list[tuple[object, ...]]:
    return [(event["sequence"], event["type"], event.get("nodeId"), event["timestamp"]) for event in log]


def stored(log: list[Event]) -> list[Event]:
    return [{"sequence": event.get("sequence", event.get("seq")), **event} for event in log]


@pytest.mark.parametrize(("name", "poll"), POLLS.items())
async def test_ends_equal_to_what_the_host_polled(name: str, poll: PollManners) -> None:
    store = MemoryStore()
    host = recorded_host(RECORDINGS / name, speed=SPEED, poll=poll)

    run = await follow(host, store)

    assert said(stored(store.log(host.run_id))) == said(host.log)
    assert store.refusals == []
    assert store.contradictions == []
    assert run.state.phase is Phase.FINISHED
    assert run.state.missing == ()


async def test_every_page_of_the_app_is_whole() -> None:
    """Its poll leaves out one event a page: 553 events, five pages, five events lost to who trusts the cursor."""
    log = read_log(DEMO_RECORDINGS / "openwop-app" / "long-250-nodes.ndjson")
    store = MemoryStore()
    host = MisbehavingHost(log, serves_stream=False, poll=APP, run_id=log[0]["runId"])

    await follow(host, store)

    assert store.log(host.run_id) == log
    assert len(log) == 553
