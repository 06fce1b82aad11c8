"""The demo's host over HTTP, in both majors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import uvicorn

from openwop_ui.demo.engine import Run
from openwop_ui.demo.host import DemoHost
from runs.domain.sse import FrameReader, events_of
from runs.follower.state import Phase
from runs.follower.worker import follow_forever
from tests.hosts.follow_doubles import MemoryStore, followed

KEY = "key"
V2 = {"OpenWOP-Version": "2"}
BEGINNING = 1_795_975_200.0


class Time:
    """The host's time, which a test moves."""

    def __init__(self) -> None:
        self.seconds = BEGINNING

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
async def host() -> DemoHost:
    return DemoHost(key=KEY, seed="s", boot="b", now=Time())


@pytest.fixture
async def client(host: DemoHost) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {KEY}"}
    transport = httpx.ASGITransport(host)
    async with httpx.AsyncClient(transport=transport, base_url="http://host", headers=headers) as client:
        yield client


def finished_run(host: DemoHost, workflow: str = "crm.sync-accounts") -> Run:
    run = host.engine.start(workflow, {})
    while not run.is_over:
        host.engine.advance(host.engine.next_due())
    return run


@asynccontextmanager
async def listening(host: DemoHost) -> AsyncIterator[str]:
    """On a port, for streams: the transport above hands a body over only once it has ended."""
    config = uvicorn.Config(
        host, host="127.0.0.1", port=0, log_level="warning", lifespan="on", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


def frames(body: bytes) -> list[tuple[str, str | None, list[dict[str, Any]]]]:
    return [(one.event, one.id, [json.loads(event) for event in events_of(one)]) for one in FrameReader().feed(body)]


# --- discovery and who may ask ---


async def test_discovery_needs_no_key(host: DemoHost) -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(host), base_url="http://host") as stranger:
        first = (await stranger.get("/.well-known/openwop")).json()
        second = await stranger.get("/.well-known/openwop", headers=V2)

    assert first["protocolVersions"] == ["1.1", "2.0"]
    assert first["preferredVersion"] == "1.1"
    assert first["memory"]["attribution"] == {"supported": True, "emitsWriteEvents": True}
    assert "webhooks" not in first
    assert second.headers["openwop-version"] == "2.0"
    assert second.json()["memory"]["facets"]["attribution"] == {"emitsWriteEvents": True}


@pytest.mark.parametrize("key", ["", "Bearer", "Bearer wrong", "Basic a2V5", f"{KEY}"])
async def test_everything_else_needs_the_key(host: DemoHost, client: httpx.AsyncClient, key: str) -> None:
    run = finished_run(host)
    for path in ("/v1/runs", f"/v1/runs/{run.run_id}/events", "/v1/host/demo/memory", "/nowhere"):
        answer = await client.get(path, headers={"Authorization": key})
        assert answer.status_code == 401
        assert answer.json()["error"] == "unauthenticated"


@pytest.mark.parametrize(
    ("path", "headers", "status", "code"),
    [
        ("/runs", {"OpenWOP-Version": "3"}, 406, "protocol_version_unsupported"),
        ("/runs", {"OpenWOP-Version": "two"}, 406, "protocol_version_unsupported"),
        ("/v1/runs", {"OpenWOP-Version": "2"}, 400, "protocol_version_mismatch"),
        ("/v1/runs/unknown", {}, 404, "not_found"),
        ("/runs/other~2Frun", V2, 403, "id_tenant_mismatch"),
        ("/runs?limit=none", V2, 400, "validation_error"),
        ("/runs?cursor=9999", V2, 400, "validation_error"),
        ("/nowhere", {}, 404, "not_found"),
    ],
)
async def test_refusals(client: httpx.AsyncClient, path: str, headers: dict[str, str], status: int, code: str) -> None:
    answer = await client.get(path, headers=headers)

    assert (answer.status_code, answer.json()["error"]) == (status, code)


async def test_a_known_path_with_another_method(client: httpx.AsyncClient) -> None:
    assert (await client.delete("/v1/runs")).status_code == 405


# --- runs ---


async def test_runs_are_listed_newest_first_in_pages(host: DemoHost, client: httpx.AsyncClient) -> None:
    runs = [host.engine.start("onboarding.profile", {}) for _ in range(5)]

    first = (await client.get("/runs", params={"limit": "2"}, headers=V2)).json()
    second = (await client.get("/runs", params={"limit": "9", "cursor": first["nextCursor"]}, headers=V2)).json()

    listed = [run["runId"] for run in first["runs"] + second["runs"]]
    assert listed == [f"acme/{run.run_id}" for run in reversed(runs)]
    assert "nextCursor" not in second
    assert [run["runId"] for run in (await client.get("/v1/runs")).json()["runs"]] == [
        run.run_id for run in reversed(runs)
    ]


async def test_an_unchanged_list_is_not_sent_again(host: DemoHost, client: httpx.AsyncClient) -> None:
    finished_run(host)
    first = await client.get("/v1/runs")
    again = await client.get("/v1/runs", headers={"If-None-Match": first.headers["etag"]})
    host.engine.start("onboarding.profile", {})
    later = await client.get("/v1/runs", headers={"If-None-Match": first.headers["etag"]})

    assert (again.status_code, again.content) == (304, b"")
    assert later.status_code == 200


async def test_a_run_is_started_by_name(host: DemoHost, client: httpx.AsyncClient) -> None:
    made = await client.post("/v1/runs", json={"workflowId": "onboarding.profile", "inputs": {"account": "2093"}})
    run = host.engine.runs[made.json()["runId"]]

    assert made.status_code == 201
    assert (run.workflow, run.inputs) == ("onboarding.profile", {"account": "2093"})
    assert (await client.get(made.json()["statusUrl"])).json()["status"] == "running"
    assert (await client.post("/v1/runs", json={"workflowId": "none"})).status_code == 404
    assert (await client.post("/v1/runs", json=[])).status_code == 400
    assert (await client.post("/v1/runs", content=b"x" * 70_000)).status_code == 413


async def test_a_run_started_under_the_second_major_has_a_bound_id(client: httpx.AsyncClient) -> None:
    made = (await client.post("/runs", json={"workflowId": "onboarding.profile"}, headers=V2)).json()

    assert made["runId"].startswith("acme/")
    for path in (made["statusUrl"], f"/runs/{made['runId'].replace('/', '%2F')}"):
        assert (await client.get(path, headers=V2)).json()["runId"] == made["runId"]


async def test_a_run_is_cancelled_once(host: DemoHost, client: httpx.AsyncClient) -> None:
    run = host.engine.start("research.fan-out", {})

    assert (await client.post(f"/v1/runs/{run.run_id}/cancel", json={"reason": "enough"})).json()[
        "status"
    ] == "cancelled"
    assert run.events[-1].payload["reason"] == "enough"
    assert (await client.post(f"/v1/runs/{run.run_id}/cancel")).status_code == 409


async def test_ancestry_names_the_parent(host: DemoHost, client: httpx.AsyncClient) -> None:
    parent = finished_run(host, "onboarding.customer")
    child = next(run for run in host.engine.runs.values() if run.parent == parent.run_id)

    told = (await client.get(f"/runs/acme~2F{child.run_id}/ancestry", headers=V2)).json()

    assert told["parent"] == {
        "runId": f"acme/{parent.run_id}",
        "hostId": "openwop-demo-host",
        "cause": "core.subWorkflow",
    }
    assert (await client.get(f"/v1/runs/{parent.run_id}/ancestry")).json()["parent"] is None


# --- events ---


async def test_a_finished_runs_stream_tells_all_and_closes(host: DemoHost, client: httpx.AsyncClient) -> None:
    run = finished_run(host)

    answer = await client.get(f"/v1/runs/{run.run_id}/events?streamMode=debug", headers={"Accept": "text/event-stream"})

    assert answer.headers["content-type"] == "text/event-stream"
    told = frames(answer.content)
    assert [frame_id for _, frame_id, _ in told] == [str(n) for n in range(len(run.events))]
    assert [kind for kind, _, _ in told] == [event.type for event in run.events]
    assert answer.content.startswith(b"retry: 1000\n\n")


async def test_updates_leave_out_what_only_debug_tells(host: DemoHost, client: httpx.AsyncClient) -> None:
    run = finished_run(host)

    answer = await client.get(f"/v1/runs/{run.run_id}/events", headers={"Accept": "text/event-stream"})

    kinds = {kind for kind, _, _ in frames(answer.content)}
    assert {"node.started", "node.retried"}.isdisjoint(kinds)
    assert {"node.completed", "memory.written", "run.completed"} <= kinds


@pytest.mark.parametrize(("cursor", "expected"), [("3", 4), ("999", None)])
async def test_the_cursor_is_exclusive(
    host: DemoHost, client: httpx.AsyncClient, cursor: str, expected: int | None
) -> None:
    run = finished_run(host)

    headers = {"Accept": "text/event-stream", "Last-Event-ID": cursor}
    answer = await client.get(f"/v1/runs/{run.run_id}/events?streamMode=debug", headers=headers)

    told = frames(answer.content)
    assert answer.status_code == 200
    assert (told[0][2][0]["sequence"] if told else None) == expected


@pytest.mark.parametrize("query", ["streamMode=values", "streamMode=debug,messages", "bufferMs=9000", "bufferMs=x"])
async def test_what_a_stream_does_not_do(host: DemoHost, client: httpx.AsyncClient, query: str) -> None:
    run = finished_run(host)

    answer = await client.get(f"/v1/runs/{run.run_id}/events?{query}", headers={"Accept": "text/event-stream"})

    assert answer.status_code == 400


async def test_a_cursor_that_is_none(host: DemoHost, client: httpx.AsyncClient) -> None:
    run = finished_run(host)

    answer = await client.get(f"/v1/runs/{run.run_id}/events", headers={"Last-Event-ID": "evt-1"})

    assert (answer.status_code, answer.json()["error"]) == (400, "validation_error")


async def test_batches(host: DemoHost, client: httpx.AsyncClient) -> None:
    run = finished_run(host)

    headers = {"Accept": "text/event-stream"}
    answer = await client.get(f"/v1/runs/{run.run_id}/events?streamMode=debug&bufferMs=50", headers=headers)

    ((kind, frame_id, events),) = frames(answer.content)
    assert (kind, frame_id, len(events)) == ("batch", str(len(run.events) - 1), len(run.events))


async def test_the_log_as_a_document(host: DemoHost, client: httpx.AsyncClient) -> None:
    run = finished_run(host)

    answer = await client.get(f"/v1/runs/{run.run_id}/events", headers={"Accept": "application/json"})

    assert [event["sequence"] for event in answer.json()["events"]] == list(range(len(run.events)))


async def test_polls_of_both_majors(host: DemoHost, client: httpx.AsyncClient) -> None:
    run = finished_run(host)
    last = len(run.events) - 1

    first = (await client.get(f"/v1/runs/{run.run_id}/events/poll?lastSequence={last - 2}")).json()
    second = (await client.get(f"/runs/acme~2F{run.run_id}/events/poll?afterSequence={last}", headers=V2)).json()

    assert [event["sequence"] for event in first["events"]] == [last - 1, last]
    assert (first["isTerminal"], first["runStatus"], first["lastEventSeq"]) == (True, "completed", last)
    assert second == {
        "runId": f"acme/{run.run_id}",
        "events": [],
        "lastSequence": last,
        "status": "completed",
        "isTerminal": True,
    }


async def test_a_long_poll_is_answered_when_something_happens(host: DemoHost, client: httpx.AsyncClient) -> None:
    run = host.engine.start("crm.sync-accounts", {})
    host.engine.advance(BEGINNING + 0.1)
    known = len(run.events)
    asking = asyncio.create_task(client.get(f"/v1/runs/{run.run_id}/events/poll?lastSequence={known - 1}&timeout=30"))
    await asyncio.sleep(0.05)
    assert not asking.done()
    host.engine.advance(BEGINNING + 20)

    events = (await asyncio.wait_for(asking, 2)).json()["events"]
    assert events[0]["sequence"] == known


async def test_a_long_poll_gives_up_in_time(host: DemoHost, client: httpx.AsyncClient) -> None:
    run = host.engine.start("crm.sync-accounts", {})

    answer = await asyncio.wait_for(
        client.get(f"/v1/runs/{run.run_id}/events/poll?lastSequence=50&timeout=1"), timeout=3
    )

    assert answer.json()["events"] == []


# --- memory ---


async def test_memory_is_read_by_ref_and_by_id(host: DemoHost, client: httpx.AsyncClient) -> None:
    run = finished_run(host)
    (entry,) = host.engine.entries("team:support")

    listed = (await client.get("/v1/host/demo/memory", params={"memoryRef": "team:support"})).json()
    tagged = (
        await client.get("/host/demo/memory", params={"memoryRef": "team:support", "tag": f"run-id:{run.run_id}"})
    ).json()
    shown = (await client.get(f"/v1/host/demo/memory/{entry.id}", params={"memoryRef": "team:support"})).json()

    assert listed["memoryRef"] == "team:support"
    assert [one["id"] for one in listed["entries"]] == [one["id"] for one in tagged["entries"]] == [entry.id]
    assert set(shown["entry"]) == {"id", "content", "tags", "createdAt", "expiresAt"}
    assert (await client.get("/v1/host/demo/memory/none")).status_code == 404
    elsewhere = await client.get(f"/v1/host/demo/memory/{entry.id}", params={"memoryRef": "run-summaries"})
    assert elsewhere.status_code == 404


# --- alive ---


async def test_a_live_run_is_streamed_as_it_happens_and_the_other_side_may_go() -> None:
    time = Time()
    host = DemoHost(key=KEY, seed="s", boot="b", now=time)
    headers = {"Authorization": f"Bearer {KEY}", "Accept": "text/event-stream"}
    async with listening(host) as origin, httpx.AsyncClient(base_url=origin, headers=headers) as client:
        run = host.engine.start("onboarding.profile", {})
        reader, seen = FrameReader(), 0
        async with client.stream("GET", f"/v1/runs/{run.run_id}/events?streamMode=debug") as answer:
            async for chunk in answer.aiter_raw():
                seen += len(reader.feed(chunk))
                time.seconds += 3
                host.engine.advance(time.seconds)
        assert seen == len(run.events)
        assert run.is_over

        gone = host.engine.start("research.fan-out", {})
        async with client.stream("GET", f"/v1/runs/{gone.run_id}/events") as answer:
            await anext(answer.aiter_raw())
        async with asyncio.timeout(2):
            while host.is_waited_for(gone.run_id):
                await asyncio.sleep(0.01)


async def test_the_follower_ends_with_the_hosts_own_logs() -> None:
    class Hurry(Time):
        def __call__(self) -> float:
            return BEGINNING + (asyncio.get_running_loop().time() - started) * 60

    started = asyncio.get_running_loop().time()
    host = DemoHost(key=KEY, seed="s", boot="b", now=Hurry())
    async with listening(host) as origin:
        store, stop = MemoryStore(hosts=[followed(origin, credential=KEY)]), asyncio.Event()
        worker = asyncio.create_task(follow_forever(store, stop=stop))
        async with asyncio.timeout(20):
            while sum(len(store.log(f"acme/{run.run_id}")) == len(run.events) for run in ended(host)) < 6:
                await asyncio.sleep(0.05)
        stop.set()
        await worker

    assert store.refusals == []
    assert store.contradictions == []
    assert not any(state.phase is Phase.STOPPED for state in store.states)
    assert store.host_states[-1].major == 2


def ended(host: DemoHost) -> list[Run]:
    return [run for run in host.engine.runs.values() if run.is_over]


# --- forks ---


async def forked(client: httpx.AsyncClient, path: str, **body: Any) -> httpx.Response:
    headers = V2 if not path.startswith("/v1") else {}
    return await client.post(f"{path}:fork", json=body, headers=headers)


def facts(run: Run) -> list[tuple[str, str | None, Any]]:
    return [(event.type, event.node, event.payload) for event in run.events]


async def test_a_replay_tells_the_same_facts_under_other_event_ids(host: DemoHost, client: httpx.AsyncClient) -> None:
    source = finished_run(host)
    answer = await forked(client, f"/runs/acme~2F{source.run_id}", mode="replay")
    assert answer.status_code == 201
    told = answer.json()
    assert (told["sourceRunId"], told["fromSeq"], told["mode"]) == (f"acme/{source.run_id}", 0, "replay")
    replay = host.engine.runs[told["runId"].removeprefix("acme/")]
    assert facts(replay) == facts(source)
    assert not {event.event_id for event in replay.events} & {event.event_id for event in source.events}
    assert (replay.status, replay.is_over) == (source.status, True)


async def test_a_branch_takes_over_what_came_before_and_goes_on(host: DemoHost, client: httpx.AsyncClient) -> None:
    source = finished_run(host)
    answer = await forked(client, f"/v1/runs/{source.run_id}", mode="branch", fromSeq=3)
    branch = host.engine.runs[answer.json()["runId"]]
    assert facts(branch)[:3] == facts(source)[:3]
    assert [event.cause for event in branch.events[:3]] == [event.event_id for event in source.events[:3]]
    host.engine.advance(host._now() + 600)
    assert branch.is_over and len(branch.events) > 3
    snapshot = (await client.get(f"/v1/runs/{branch.run_id}")).json()
    assert (snapshot["parentRunId"], snapshot["parentSeq"], snapshot["forkMode"]) == (source.run_id, 3, "branch")
    bound = (await client.get(f"/runs/acme~2F{branch.run_id}", headers=V2)).json()
    assert bound["parentRunId"] == f"acme/{source.run_id}"
    assert (await client.get(f"/v1/runs/{branch.run_id}/ancestry")).json()["parent"] is None


async def test_a_fork_under_one_key_is_one_fork(host: DemoHost, client: httpx.AsyncClient) -> None:
    path, headers = f"/v1/runs/{finished_run(host).run_id}:fork", {"Idempotency-Key": "k"}
    first = await client.post(path, json={"mode": "replay"}, headers=headers)
    again = await client.post(path, json={"mode": "replay"}, headers=headers)
    assert first.json() == again.json()
    other = await client.post(path, json={"mode": "branch", "fromSeq": 1}, headers=headers)
    assert (other.status_code, other.json()["error"]) == (409, "idempotency_key_mismatch")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"mode": "rewind"}, 400, "validation_error"),
        ({"mode": "branch"}, 400, "validation_error"),
        ({"mode": "branch", "fromSeq": 10_000}, 422, "fork_point_invalid"),
        ({"mode": "branch", "fromSeq": -1}, 422, "fork_point_invalid"),
        ({"mode": "branch", "fromSeq": True}, 422, "fork_point_invalid"),
    ],
)
async def test_what_can_not_be_forked(
    host: DemoHost, client: httpx.AsyncClient, body: dict[str, Any], status: int, code: str
) -> None:
    answer = await forked(client, f"/v1/runs/{finished_run(host).run_id}", **body)
    assert (answer.status_code, answer.json()["error"]) == (status, code)


async def test_a_run_that_goes_on_is_not_replayed(host: DemoHost, client: httpx.AsyncClient) -> None:
    run = host.engine.start("crm.sync-accounts", {})
    answer = await forked(client, f"/v1/runs/{run.run_id}", mode="replay")
    assert (answer.status_code, answer.json()["error"]) == (409, "run_active")
