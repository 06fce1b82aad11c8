"""A host with one run that behaves as a test tells it to, one act per event stream, and honestly after the last."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.hosts.raw_http import Asked, Reply, serving

Event = dict[str, Any]

RUN = "run-1"
TERMINAL = frozenset({"run.completed", "run.failed", "run.cancelled"})
STATUS = {"run.completed": "completed", "run.failed": "failed", "run.cancelled": "cancelled"}


def log_of(length: int, *, first: int = 0, run_id: str = RUN, end: str = "run.completed") -> list[Event]:
    """A run's log of `length` events from sequence `first` to its end."""
    middle = [("memory.written", {"memoryRef": "m", "memoryId": f"mem-{n}"}) for n in range(length - 2)]
    told = [("run.started", {"workflowId": "w"}), *middle, (end, {})]
    return [event(first + n, kind, payload, run_id=run_id) for n, (kind, payload) in enumerate(told)]


def event(sequence: int, kind: str, payload: Mapping[str, Any], *, run_id: str = RUN) -> Event:
    return {
        "eventId": f"evt-{sequence}-{'0' * 16}",
        "runId": run_id,
        "sequence": sequence,
        "type": kind,
        "nodeId": "n1",
        "timestamp": f"2026-11-29T18:{sequence // 60 % 60:02d}:{sequence % 60:02d}.000Z",
        "payload": dict(payload),
    }


def frame(told: Event) -> bytes:
    return f"id: {told['sequence']}\nevent: {told['type']}\ndata: {json.dumps(told, ensure_ascii=False)}\n\n".encode()


@dataclass(frozen=True, slots=True)
class PollManners:
    """How the poll address behaves. `page` is the most events of an answer; `skips_next` leaves out the event next to
    the cursor of `lastSequence`; `says` picks the members around the events; `status_early` says that the run has
    ended before the log does; `says_over` claims an end, or none, whatever the log says."""

    is_served: bool = True
    page: int | None = None
    skips_next: bool = False
    says: str = "isTerminal"
    status_early: bool = False
    says_over: bool | None = None


@dataclass
class MisbehavingHost:
    """`visible` events of `log` are there by now; `grow` lets more of them happen. Sequences in `lost` are on no
    answer, those in `lost_in_streams` only on streams not. `asked` are the requests, in order."""

    log: list[Event]
    acts: list[Act] = field(default_factory=list)
    poll: PollManners = field(default_factory=PollManners)
    visible: int | None = None
    major: int = 1
    lost: frozenset[int] = frozenset()
    lost_in_streams: frozenset[int] = frozenset()
    serves_stream: bool = True
    serves_json: bool = True
    knows_run: bool = True
    poll_answers: list[tuple[int, Mapping[str, str]]] = field(default_factory=list)
    """Statuses and headers with which the first polls are answered instead."""
    run_id: str = RUN
    asked: list[Asked] = field(default_factory=list)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _later: list[asyncio.Task[None]] = field(default_factory=list)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        async with serving(self.handle) as origin:
            yield origin
        for task in self._later:
            task.cancel()

    def happened(self) -> list[Event]:
        return self.log if self.visible is None else self.log[: self.visible]

    async def grow(self, by: int) -> None:
        async with self._changed:
            self.visible = (self.visible or 0) + by
            self._changed.notify_all()

    def grow_later(self, *steps: tuple[float, int]) -> None:
        """Each step: after so many real seconds, so many events more."""

        async def growing() -> None:
            for seconds, by in steps:
                await asyncio.sleep(seconds)
                await self.grow(by)

        self._later.append(asyncio.create_task(growing()))

    @property
    def is_over(self) -> bool:
        return bool(self.happened()) and self.happened()[-1]["type"] in TERMINAL

    @property
    def streams_asked(self) -> list[Asked]:
        return [asked for asked in self.asked if asked.headers.get("accept") == "text/event-stream"]

    @property
    def polls_asked(self) -> list[Asked]:
        return [asked for asked in self.asked if asked.path.endswith("/events/poll")]

    def shown(self, after: int, *, in_stream: bool) -> list[Event]:
        lost = self.lost | (self.lost_in_streams if in_stream else frozenset())
        return [told for told in self.happened() if told["sequence"] > after and told["sequence"] not in lost]

    # --- answering ---

    def snapshot(self) -> dict[str, Any]:
        return {"runId": self.run_id, "status": self._status(), "workflowId": "w"}

    async def handle(self, asked: Asked, reply: Reply) -> None:
        self.asked.append(asked)
        prefix = "" if self.major >= 2 else "/v1"
        base = f"{prefix}/runs/{self.run_id.replace('/', '~2F')}"
        if not self.knows_run and asked.path.startswith(base):
            await reply.answer(404, {"error": "run_not_found", "message": "no such run"})
        elif asked.path == f"{base}/events/poll":
            await self._answer_poll(asked, reply)
        elif asked.path == f"{base}/events" and "text/event-stream" in asked.headers.get("accept", ""):
            await self._answer_stream(asked, reply)
        elif asked.path == f"{base}/events" and self.serves_json:
            await reply.answer(200, {"events": self.shown(-1, in_stream=False)})
        elif asked.path == base:
            await reply.answer(200, self.snapshot())
        elif asked.path == f"{prefix}/runs":
            await reply.answer(200, {"runs": [self.snapshot()]})
        elif asked.path == "/.well-known/openwop":
            await reply.answer(200, {"protocolVersion": f"{self.major}.0"})
        else:
            await reply.answer(404, {"error": "not_found", "message": "nothing here"})

    def _status(self) -> str:
        if self.poll.says_over is not None:
            return "completed" if self.poll.says_over else "running"
        if self.is_over:
            return STATUS[self.happened()[-1]["type"]]
        return "completed" if self.poll.status_early else "running"

    async def _answer_stream(self, asked: Asked, reply: Reply) -> None:
        if not self.serves_stream:
            await reply.answer(404, {"error": "not_found", "message": "no streams"})
            return
        cursor = int(asked.headers.get("last-event-id", "-1"))
        act = self.acts.pop(0) if self.acts else behave
        await act(self, cursor, reply)

    async def _answer_poll(self, asked: Asked, reply: Reply) -> None:
        if self.poll_answers:
            status, headers = self.poll_answers.pop(0)
            await reply.answer(status, {"error": "told_to", "message": "as the test wants"}, headers)
            return
        if not self.poll.is_served:
            await reply.answer(404, {"error": "not_found", "message": "no polls"})
            return
        cursor = "afterSequence" if self.major >= 2 else "lastSequence"
        after = int(asked.query.get(cursor, asked.query.get("fromSeq", "-1")))
        if self.poll.skips_next and cursor in asked.query:
            after += 1
        events = self.shown(after, in_stream=False)
        events = events[: self.poll.page] if self.poll.page else events
        await reply.answer(200, {"events": events, **self._said()})

    def _said(self) -> dict[str, Any]:
        status = self._status()
        over = status != "running"
        match self.poll.says:
            case "isTerminal":
                return {"runId": self.run_id, "isTerminal": over, "runStatus": status}
            case "isComplete":
                return {"isComplete": over}
            case "status":
                return {"runId": self.run_id, "runStatus": status}
        return {}

    async def changed(self, known: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.happened()) != known)


@dataclass
class HostOfMany:
    """Runs of one host, each with its own behaviour, listed newest (last) first while `lists_runs`. Another key than
    `key` is refused."""

    runs: list[MisbehavingHost]
    lists_runs: bool = True
    key: str = "key-of-the-host"
    streams_now: int = 0
    streams_most: int = 0
    asked: list[Asked] = field(default_factory=list)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        async with serving(self._handle) as origin:
            yield origin

    async def _handle(self, asked: Asked, reply: Reply) -> None:
        self.asked.append(asked)
        if asked.headers.get("authorization") != f"Bearer {self.key}":
            await reply.answer(401, {"error": "unauthenticated", "message": "who are you"})
        elif asked.path == "/.well-known/openwop":
            await reply.answer(200, {"protocolVersion": "1.0"})
        elif asked.path == "/v1/runs" and self.lists_runs:
            await self._answer_list(asked, reply)
        else:
            await self._handle_run(asked, reply)

    async def _answer_list(self, asked: Asked, reply: Reply) -> None:
        runs = [run.snapshot() for run in reversed(self.runs)]
        tag = json.dumps([(run["runId"], run["status"]) for run in runs])
        if asked.headers.get("if-none-match") == tag:
            await reply.answer(304)
        else:
            await reply.answer(200, {"runs": runs}, {"ETag": tag})

    async def _handle_run(self, asked: Asked, reply: Reply) -> None:
        path = asked.path.partition("/events")[0]
        run = next((run for run in self.runs if path == f"/v1/runs/{run.run_id}"), None)
        if run is None:
            await reply.answer(404, {"error": "not_found", "message": "nothing here"})
            return
        is_stream = asked.headers.get("accept") == "text/event-stream"
        self.streams_now += is_stream
        self.streams_most = max(self.streams_most, self.streams_now)
        try:
            await run.handle(asked, reply)
        finally:
            self.streams_now -= is_stream


Act = Callable[[MisbehavingHost, int, Reply], Awaitable[None]]


# --- acts: how one event stream goes ---


async def behave(host: MisbehavingHost, cursor: int, reply: Reply) -> None:
    """Tells all there is and all that happens, and ends when the run has."""
    await reply.begin()
    await _tell_on(host, cursor, reply, frame)
    await reply.end()


async def _tell_on(host: MisbehavingHost, cursor: int, reply: Reply, spelt: Callable[[Event], bytes]) -> None:
    while True:
        known = len(host.happened())
        for told in host.shown(cursor, in_stream=True):
            await reply.piece(spelt(told))
            cursor = told["sequence"]
        if host.is_over and known == len(host.happened()):
            return
        await host.changed(known)


def cut_in_frame(events: int, *, cleanly: bool = False, at: float = 0.5) -> Act:
    """Tells `events`, then a part of the next one's frame; then the connection breaks, or ends as if all was well."""

    async def act(host: MisbehavingHost, cursor: int, reply: Reply) -> None:
        await reply.begin()
        told = host.shown(cursor, in_stream=True)
        await reply.piece(b"".join(frame(one) for one in told[:events]))
        if len(told) > events:
            unfinished = frame(told[events])
            await reply.piece(unfinished[: int(len(unfinished) * at)])
        if cleanly:
            await reply.end()
        else:
            await asyncio.sleep(0.02)
            reply.cut()

    return act


def close_early(events: int) -> Act:
    """Ends cleanly in the middle of the run."""

    async def act(host: MisbehavingHost, cursor: int, reply: Reply) -> None:
        await reply.begin()
        await reply.piece(b"".join(frame(one) for one in host.shown(cursor, in_stream=True)[:events]))
        await reply.end()

    return act


def stall(events: int, *, beats: bool = False) -> Act:
    """Tells `events` and then nothing for ever, or heartbeats only."""

    async def act(host: MisbehavingHost, cursor: int, reply: Reply) -> None:
        await reply.begin()
        await reply.piece(b"".join(frame(one) for one in host.shown(cursor, in_stream=True)[:events]))
        while beats:
            await asyncio.sleep(0.05)
            await reply.piece(b": heartbeat\n\n")
        await reply.hang()

    return act


async def say_nothing(host: MisbehavingHost, cursor: int, reply: Reply) -> None:
    """Takes the request and never answers."""
    await reply.hang()


async def repeat(host: MisbehavingHost, cursor: int, reply: Reply) -> None:
    """Pays no heed to the cursor and tells each event twice."""
    await reply.begin()
    for told in host.shown(-1, in_stream=True):
        await reply.piece(frame(told) * 2)
    await reply.end()


async def reorder(host: MisbehavingHost, cursor: int, reply: Reply) -> None:
    """Tells every second event before the one in front of it."""
    await reply.begin()
    told = host.shown(cursor, in_stream=True)
    for pair in (told[at : at + 2] for at in range(0, len(told), 2)):
        await reply.piece(b"".join(frame(one) for one in reversed(pair)))
    await reply.end()


def answer(status: int, headers: Mapping[str, str] | None = None, body: object = None) -> Act:
    async def act(host: MisbehavingHost, cursor: int, reply: Reply) -> None:
        told = {"error": "told_to", "message": "as the test wants"} if body is None else body
        await reply.answer(status, told, headers)

    return act


def batches(size: int) -> Act:
    """Frames `batch` without an id."""

    async def act(host: MisbehavingHost, cursor: int, reply: Reply) -> None:
        await reply.begin()
        told = host.shown(cursor, in_stream=True)
        for batch in (told[at : at + size] for at in range(0, len(told), size)):
            await reply.piece(f"event: batch\ndata: {json.dumps(batch)}\n\n".encode())
        await reply.end()

    return act


async def speak_in_memory_dialect(host: MisbehavingHost, cursor: int, reply: Reply) -> None:
    """`seq` and no event id; `data` where there is something to say."""

    def spelt(told: Event) -> bytes:
        body = {"seq": told["sequence"], "runId": told["runId"], "type": told["type"], "timestamp": told["timestamp"]}
        body |= {"nodeId": told["nodeId"]} | ({"data": told["payload"]} if told["payload"] else {})
        return f"id: {told['sequence']}\nevent: {told['type']}\ndata: {json.dumps(body)}\n\n".encode()

    await reply.begin()
    await _tell_on(host, cursor, reply, spelt)
    await reply.end()


async def talk_garbage(host: MisbehavingHost, cursor: int, reply: Reply) -> None:
    """Bytes that are no frames, frames that are no events, and one event of another run between the true ones."""
    noise = [
        b"\x00\xff\xfe\x80garbage\n\n",
        b"id: 999\ndata: {broken\n\n",
        b"id: 998\ndata: [1, 2\n\n",
        b"data: 42\n\n",
        b'event: state.snapshot\ndata: {"status": "running"}\n\n',
        b'event: run.annotated\nid: 997\ndata: {"type": "run.annotated", "payload": {}}\n\n',
        frame(event(1, "memory.written", {"memoryRef": "x", "memoryId": "y"}, run_id="somebody-else")),
    ]
    await reply.begin()
    for at, told in enumerate(host.shown(cursor, in_stream=True)):
        await reply.piece(noise[at % len(noise)] + frame(told))
    await reply.end()


async def send_html(host: MisbehavingHost, cursor: int, reply: Reply) -> None:
    await reply.begin({"Content-Type": "text/html"})
    await reply.piece(b"<!doctype html><title>Log in</title>")
    await reply.end()


def in_pieces(size: int) -> Act:
    """All there is, in network chunks of `size` bytes."""

    async def act(host: MisbehavingHost, cursor: int, reply: Reply) -> None:
        await reply.begin()
        body = b"".join(frame(one) for one in host.shown(cursor, in_stream=True))
        for at in range(0, len(body), size):
            await reply.piece(body[at : at + size])
        await reply.end()

    return act


def play(*acts: Act) -> Sequence[Act]:
    return list(acts)
