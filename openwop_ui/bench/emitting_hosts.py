"""Hosts of one process, whose runs all go on at once: each event is told on its run's stream the moment it happens.

``python -m openwop_ui.bench.emitting_hosts HOSTS RUNS EVENTS RATE``: so many hosts with so many runs each, events of a
run, and events a second of all runs together. The first line of the output is the hosts' origins. The runs begin once
each of them has a stream open; this and their end are a line each. It ends when its input does.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlsplit

from .events import Shape, event

_TICK = 0.002
_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass(slots=True)
class Run:
    run_id: str
    length: int
    log: list[bytes] = field(default_factory=list)
    streams: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def is_over(self) -> bool:
        return len(self.log) == self.length

    def go_on(self, place: int) -> None:
        sequence = len(self.log)
        now = datetime.now(UTC)
        told = _end(self.run_id, sequence, now) if sequence == self.length - 1 else None
        self.log.append(told or event(self.run_id, sequence, place, at=now))
        for writer in self.streams:
            writer.write(_chunk(_frame(sequence, self.log[sequence])) + (b"0\r\n\r\n" if self.is_over else b""))

    def tell_from(self, cursor: int, writer: asyncio.StreamWriter) -> None:
        """What happened after the cursor; what happens from now on comes when it does."""
        known = b"".join(_frame(sequence, self.log[sequence]) for sequence in range(cursor + 1, len(self.log)))
        writer.write(_STREAM + (_chunk(known) if known else b""))
        if self.is_over:
            writer.write(b"0\r\n\r\n")
        else:
            self.streams.add(writer)


def _end(run_id: str, sequence: int, at: datetime) -> bytes:
    told = {"eventId": f"end-{run_id}", "runId": run_id, "sequence": sequence, "type": "run.completed", "payload": {}}
    return json.dumps(told | {"timestamp": at.isoformat(timespec="microseconds").replace("+00:00", "Z")}).encode()


def _frame(sequence: int, told: bytes) -> bytes:
    return b"id: %d\ndata: %b\n\n" % (sequence, told)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Host:
    def __init__(self, runs: list[Run]) -> None:
        self._runs = {run.run_id: run for run in runs}

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Requests of one connection, one after the other."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                self._answer(await reader.readuntil(b"\r\n\r\n"), writer)
                await writer.drain()
        for run in self._runs.values():
            run.streams.discard(writer)
        writer.close()

    def _answer(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        first, *lines = head.decode("latin-1").strip().split("\r\n")
        target = urlsplit(first.split(" ")[1])
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        run = self._runs.get(target.path.removeprefix("/v1/runs/").partition("/")[0])
        if target.path == "/.well-known/openwop":
            writer.write(_json({"protocolVersion": "1.0"}))
        elif target.path == "/v1/runs":
            writer.write(_json({"runs": [_snapshot(run) for run in self._runs.values()]}))
        elif run is None:
            writer.write(_json({"error": "not_found", "message": "nothing here"}, "404 Not Found"))
        elif "text/event-stream" in headers.get("accept", ""):
            run.tell_from(int(headers.get("last-event-id", "-1")), writer)
        elif target.path.endswith("/events/poll"):
            after = int(dict(parse_qsl(target.query)).get("lastSequence", "-1"))
            events = [json.loads(told) for told in run.log[after + 1 :]]
            writer.write(_json({"events": events, "isTerminal": run.is_over}))
        else:
            writer.write(_json(_snapshot(run)))


def _snapshot(run: Run) -> dict[str, str]:
    return {"runId": run.run_id, "status": "completed" if run.is_over else "running", "workflowId": "bench.follow"}


def _json(body: object, status: str = "200 OK") -> bytes:
    data = json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


async def serve(hosts: int, runs: int, events: int, rate: float) -> None:
    shape = Shape(f"follow {time.time()}", hosts * runs, hosts * runs * events)
    every = [Run(shape.run_id(run), events) for run in range(shape.runs)]
    servers = [
        await asyncio.start_server(Host(every[first : first + runs]).connected, "127.0.0.1", 0)
        for first in range(0, len(every), runs)
    ]
    _say([f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}" for server in servers])
    while not all(run.streams for run in every):
        await asyncio.sleep(0.05)
    _say("begun")
    started, place = time.monotonic(), 0
    while place < shape.events:
        due = min(shape.events, int((time.monotonic() - started) * rate))
        while place < due:
            every[place % len(every)].go_on(place)
            place += 1
        await asyncio.sleep(_TICK)
    _say("ended")
    await asyncio.Event().wait()


def _say(what: object) -> None:
    print(json.dumps(what), flush=True)


async def _until_input_ends() -> None:
    hosts, runs, events, rate = (int(argument) for argument in sys.argv[1:])
    serving = asyncio.create_task(serve(hosts, runs, events, rate))
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    done, _ = await asyncio.wait({serving, ended}, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(_until_input_ends())
