"""The demo's host: a real HTTP server that speaks both majors of the protocol, as a raw ASGI application.

It starts runs by itself. Everything is in memory: after a restart its old runs are gone, as on some real hosts, and new
ones have other ids.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any
from urllib.parse import parse_qs, unquote_to_bytes

from . import wire
from .engine import TENANT, Engine, Event, Run

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

HEARTBEAT = 15.0
"""Seconds between the comments of an idle stream."""
RETRY_MS = 1000
LARGEST_BODY = 64 * 1024
REMEMBERED_KEYS = 100
"""So many of the last idempotency keys are known again."""
MODES = frozenset({"updates", "debug"})

_ESCAPE = re.compile(rb"~([0-9A-F]{2})")


class Problem(Exception):
    """An answer of 400 and up, in the protocol's shape."""

    def __init__(self, status: int, code: str, message: str, **details: object) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": code, "message": message} | ({"details": details} if details else {})


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    major: int
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes = b""

    def number(self, *names: str, least: int, most: int) -> int | None:
        """The first of the parameters that is given."""
        for name in names:
            if name in self.query:
                return whole_number(name, self.query[name], least=least, most=most)
        return None


@dataclass(frozen=True, slots=True)
class Reply:
    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stream:
    chunks: AsyncIterator[bytes]


Handler = Callable[["DemoHost", Request, str], Awaitable[Reply | Stream]]


def whole_number(name: str, given: str, *, least: int, most: int) -> int:
    if not re.fullmatch(r"-?[0-9]{1,15}", given) or not least <= int(given) <= most:
        raise Problem(400, "validation_error", f"{name} is not a whole number from {least} to {most}", field=name)
    return int(given)


class Changes:
    """Wakes who waits for more of a run."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    def told(self, run_id: str) -> None:
        for waiter in self._waiting.pop(run_id, ()):
            if not waiter.done():
                waiter.set_result(None)

    def is_waited_for(self, run_id: str) -> bool:
        return bool(self._waiting.get(run_id))

    async def wait(self, run_id: str, seconds: float) -> bool:
        """Whether something was told in time."""
        waiter = asyncio.get_running_loop().create_future()
        waiters = self._waiting.setdefault(run_id, set())
        waiters.add(waiter)
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except TimeoutError:
            return False
        finally:
            waiters.discard(waiter)
        return True


class DemoHost:
    """`key` is the bearer key that everything but discovery asks for."""

    def __init__(self, *, key: str, seed: str, boot: str, now: Callable[[], float] = time.time) -> None:
        self._key = key
        self._now = now
        self._changes = Changes()
        self._started_by_others = asyncio.Event()
        self._forked: OrderedDict[str, tuple[bytes, Run]] = OrderedDict()
        self.engine = Engine(seed=seed, boot=boot, now=now(), changed=self._changes.told)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "lifespan":
                await self._live(receive, send)
            case "http":
                await self._answer(scope, receive, send)

    def is_waited_for(self, run_id: str) -> bool:
        """Whether a stream or a long poll of this run is open and has told everything."""
        return self._changes.is_waited_for(run_id)

    # --- life ---

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        playing = asyncio.create_task(self._play())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        playing.cancel()
        with suppress(asyncio.CancelledError):
            await playing
        await send({"type": "lifespan.shutdown.complete"})

    async def _play(self) -> None:
        while True:
            now = self._now()
            self.engine.advance(now)
            self._started_by_others.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.02, self.engine.next_due() - now)):
                    await self._started_by_others.wait()

    # --- answering ---

    async def _answer(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        major = 1
        try:
            request = await self._read(scope, receive)
            major = request.major
            reply = await self._reply(request)
        except Problem as problem:
            reply = Reply(problem.body, problem.status)
        version = wire.VERSIONS[major - 1]
        if isinstance(reply, Stream):
            await _send_stream(reply, version, receive, send)
        else:
            await _send_reply(reply, version, send, with_body=scope["method"] != "HEAD")

    async def _read(self, scope: MutableMapping[str, Any], receive: Receive) -> Request:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        path = scope["raw_path"].decode("latin-1").partition("?")[0]
        given = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        query = {name: values[-1] for name, values in given.items()}
        major, path = _negotiated(path, headers.get("openwop-version"))
        return Request(scope["method"], path, major, query, headers, await _read_body(receive))

    async def _reply(self, request: Request) -> Reply | Stream:
        if request.path != "/.well-known/openwop":
            self._authorise(request.headers.get("authorization", ""))
        allowed = set()
        for method, pattern, handler in ROUTES:
            found = re.fullmatch(pattern, request.path)
            if found is None:
                continue
            if method == request.method or (method, request.method) == ("GET", "HEAD"):
                return await handler(self, request, found[1] if found.re.groups else "")
            allowed.add(method)
        if allowed:
            raise Problem(405, "method_not_allowed", f"use {', '.join(sorted(allowed))}")
        raise Problem(404, "not_found", "there is nothing here")

    def _authorise(self, given: str) -> None:
        scheme, _, key = given.partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(key.encode(), self._key.encode()):
            raise Problem(401, "unauthenticated", "a valid bearer key is needed")

    def _run(self, major: int, segment: str) -> Run:
        run_id = _unprojected(segment)
        if "/" in run_id:
            tenant, _, run_id = run_id.partition("/")
            if tenant != TENANT:
                raise Problem(403, "id_tenant_mismatch", "the id belongs to another tenant")
        if run_id not in self.engine.runs:
            raise Problem(404, "not_found", "no such run")
        return self.engine.runs[run_id]

    # --- what there is ---

    async def discover(self, request: Request, _: str) -> Reply:
        return _tagged(request, wire.discovery(request.major))

    async def list_runs(self, request: Request, _: str) -> Reply:
        limit = request.number("limit", least=1, most=10_000) or 50
        runs = list(reversed(self.engine.runs.values()))
        start = request.number("cursor", least=0, most=len(runs)) or 0
        shown = runs[start : start + min(limit, 100)]
        body: dict[str, Any] = {"runs": [wire.snapshot(request.major, run) for run in shown]}
        if start + len(shown) < len(runs):
            body["nextCursor"] = str(start + len(shown))
        return _tagged(request, body)

    async def create_run(self, request: Request, _: str) -> Reply:
        asked = _json_object(request.body)
        workflow, inputs = asked.get("workflowId"), asked.get("inputs", {})
        if not isinstance(workflow, str) or not isinstance(inputs, dict):
            raise Problem(400, "validation_error", "workflowId is a string and inputs an object")
        self.engine.advance(self._now())
        try:
            run = self.engine.start(workflow, inputs)
        except KeyError:
            raise Problem(404, "workflow_not_found", "no such workflow") from None
        self._started_by_others.set()
        base = ("" if request.major >= 2 else "/v1") + f"/runs/{wire.projected(wire.run_id(request.major, run.run_id))}"
        links = {"eventsUrl": f"{base}/events", "statusUrl": base}
        return Reply({"runId": wire.run_id(request.major, run.run_id), "status": run.status, **links}, 201)

    async def show_run(self, request: Request, segment: str) -> Reply:
        return _tagged(request, wire.snapshot(request.major, self._run(request.major, segment)))

    async def show_ancestry(self, request: Request, segment: str) -> Reply:
        return Reply(wire.ancestry(request.major, self._run(request.major, segment)))

    async def cancel_run(self, request: Request, segment: str) -> Reply:
        run = self._run(request.major, segment)
        if run.is_over:
            raise Problem(409, "run_terminal", f"the run is {run.status}")
        reason = _json_object(request.body or b"{}").get("reason")
        self.engine.advance(self._now())
        self.engine.cancel(run, reason if isinstance(reason, str) else "cancelled by request")
        return Reply({"runId": wire.run_id(request.major, run.run_id), "status": run.status})

    async def fork_run(self, request: Request, segment: str) -> Reply:
        source = self._run(request.major, segment)
        key = request.headers.get("idempotency-key", "")
        if key in self._forked:
            body, known = self._forked[key]
            if body != request.body:
                raise Problem(409, "idempotency_key_mismatch", "another request was made under this key")
            return self._forked_reply(request, known)
        mode, from_sequence = _fork_of(request.body, source)
        self.engine.advance(self._now())
        run = self.engine.fork(source, mode, from_sequence)
        self._started_by_others.set()
        if key:
            self._forked[key] = request.body, run
            while len(self._forked) > REMEMBERED_KEYS:
                self._forked.popitem(last=False)
        return self._forked_reply(request, run)

    def _forked_reply(self, request: Request, run: Run) -> Reply:
        assert run.fork is not None  # it came from one
        return Reply(wire.forked(request.major, run, run.fork), 201)

    async def list_memory(self, request: Request, _: str) -> Reply:
        limit = request.number("limit", least=0, most=10_000) or 0
        ref = request.query.get("memoryRef", "team:support")
        return Reply(wire.entries(self.engine, ref, tag=request.query.get("tag"), limit=limit))

    async def show_memory(self, request: Request, segment: str) -> Reply:
        memory_id, ref = _unprojected(segment), request.query.get("memoryRef")
        for known, _ in list(self.engine.memory.items()):
            if ref not in (None, known):
                continue
            for entry in self.engine.entries(known):
                if entry.id == memory_id:
                    return Reply({"memoryRef": known, "entry": wire.entry(entry)})
        raise Problem(404, "not_found", "no such entry")

    # --- events ---

    async def read_events(self, request: Request, segment: str) -> Reply | Stream:
        mode = request.query.get("streamMode", "updates")
        if not set(mode.split(",")) <= MODES:
            supported = sorted(MODES)
            raise Problem(400, "unsupported_stream_mode", f"use {' or '.join(supported)}", supported=supported)
        run = self._run(request.major, segment)
        buffered = request.number("bufferMs", least=0, most=5000) or 0
        cursor = _last_event_id(request.headers)
        if not _wants_stream(request.headers.get("accept", "")):
            return Reply(self._page(request.major, run, -1))
        return Stream(self._frames(request.major, run, cursor, everything="debug" in mode, buffered=buffered / 1000))

    async def poll_events(self, request: Request, segment: str) -> Reply:
        run = self._run(request.major, segment)
        if request.major >= 2:
            after = request.number("afterSequence", least=0, most=2**53)
            seconds = request.number("timeout", least=1, most=60) or 30
        else:
            after = request.number("lastSequence", "since", "fromSeq", least=-1, most=2**53)
            seconds = request.number("timeout", least=0, most=60) or 0
        after = -1 if after is None else after
        until = time.monotonic() + seconds
        while len(run.events) <= after + 1 and not run.is_over and (left := until - time.monotonic()) > 0:
            await self._changes.wait(run.run_id, left)
        return Reply(self._page(request.major, run, after))

    def _page(self, major: int, run: Run, after: int) -> dict[str, Any]:
        events = [wire.event(major, run, told) for told in run.events[after + 1 :]]
        page = {"runId": wire.run_id(major, run.run_id), "events": events, "isTerminal": run.is_over}
        if major >= 2:
            return page | {"lastSequence": len(run.events) - 1, "status": run.status}
        return page | {"lastEventSeq": len(run.events) - 1, "runStatus": run.status}

    async def _frames(
        self, major: int, run: Run, cursor: int, *, everything: bool, buffered: float
    ) -> AsyncIterator[bytes]:
        yield f"retry: {RETRY_MS}\n\n".encode()
        at = cursor + 1
        while True:
            told = run.events[at:]
            at += len(told)
            shown = [one for one in told if everything or one.type not in wire.NOT_IN_UPDATES]
            if shown:
                yield _batch(major, run, shown) if buffered else b"".join(_frame(major, run, one) for one in shown)
            if at >= len(run.events) and run.is_over:
                return
            if at < len(run.events):
                continue
            if not await self._changes.wait(run.run_id, HEARTBEAT):
                yield b": heartbeat\n\n"
            elif buffered and not run.is_over:
                await asyncio.sleep(buffered)


ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", r"/\.well-known/openwop", DemoHost.discover),
    ("GET", r"/runs", DemoHost.list_runs),
    ("POST", r"/runs", DemoHost.create_run),
    ("GET", r"/runs/([^/:]+)", DemoHost.show_run),
    ("GET", r"/runs/([^/:]+)/events", DemoHost.read_events),
    ("GET", r"/runs/([^/:]+)/events/poll", DemoHost.poll_events),
    ("GET", r"/runs/([^/:]+)/ancestry", DemoHost.show_ancestry),
    ("POST", r"/runs/([^/:]+)/cancel", DemoHost.cancel_run),
    ("POST", r"/runs/([^/:]+):fork", DemoHost.fork_run),
    ("GET", r"/host/demo/memory", DemoHost.list_memory),
    ("GET", r"/host/demo/memory/([^/]+)", DemoHost.show_memory),
)


def _negotiated(path: str, version: str | None) -> tuple[int, str]:
    """The major to speak, and the path without its prefix (versioning, section 1.3)."""
    asked = (version or "").partition(".")[0]
    if path.startswith("/v1/"):
        if version is not None and asked != "1":
            raise Problem(400, "protocol_version_mismatch", "a /v1 path is read in major 1")
        return 1, path.removeprefix("/v1")
    if asked not in ("", "1", "2"):
        raise Problem(
            406, "protocol_version_unsupported", "majors 1 and 2 are spoken", protocolVersions=list(wire.VERSIONS)
        )
    return (2 if asked == "2" else 1), path


def _unprojected(segment: str) -> str:
    """Of both spellings, `~2F` and `%2F` (identity, section 5)."""
    plain = _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), unquote_to_bytes(segment))
    return plain.decode("utf-8", "replace")


def _fork_of(body: bytes, source: Run) -> tuple[str, int]:
    """Mode and place. A replay is of the whole log, so the run has to be over."""
    asked = _json_object(body)
    mode, from_sequence = asked.get("mode"), asked.get("fromSeq", 0)
    if mode not in ("replay", "branch"):
        raise Problem(400, "validation_error", "mode is replay or branch", field="mode")
    if mode == "branch" and "fromSeq" not in asked:
        raise Problem(400, "validation_error", "a branch needs fromSeq", field="fromSeq")
    if type(from_sequence) is not int or not 0 <= from_sequence < len(source.events):
        raise Problem(422, "fork_point_invalid", f"fromSeq is from 0 to {len(source.events) - 1}")
    if mode == "replay" and not source.is_over:
        raise Problem(409, "run_active", "only a run that has ended can be replayed")
    return mode, from_sequence


def _last_event_id(headers: dict[str, str]) -> int:
    """Exclusive; -1 when there is none."""
    given = headers.get("last-event-id")
    return -1 if given is None else whole_number("Last-Event-ID", given, least=0, most=2**53)


def _wants_stream(accept: str) -> bool:
    return "application/json" not in accept or "text/event-stream" in accept


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise Problem(400, "validation_error", "the body is not a JSON object")
    return value


def _frame(major: int, run: Run, told: Event) -> bytes:
    data = wire.as_json(wire.event(major, run, told))
    return f"id: {told.sequence}\nevent: {wire.event_type(major, told)}\ndata: ".encode() + data + b"\n\n"


def _batch(major: int, run: Run, told: list[Event]) -> bytes:
    data = wire.as_json([wire.event(major, run, one) for one in told])
    return f"id: {told[-1].sequence}\nevent: batch\ndata: ".encode() + data + b"\n\n"


def _tagged(request: Request, body: dict[str, Any]) -> Reply:
    tag = f'"{blake2b(wire.as_json(body), digest_size=8).hexdigest()}"'
    headers = {"ETag": tag, "Vary": "Accept, OpenWOP-Version"}
    if request.headers.get("if-none-match") == tag:
        return Reply(None, 304, headers)
    return Reply(body, 200, headers)


async def _read_body(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += bytes(message.get("body", b""))
        if len(body) > LARGEST_BODY:
            raise Problem(413, "payload_too_large", f"a body has at most {LARGEST_BODY} bytes")
        if not message.get("more_body"):
            return body


async def _send_reply(reply: Reply, version: str, send: Send, *, with_body: bool) -> None:
    body = b"" if reply.status == 304 else wire.as_json(reply.body)
    headers = {"OpenWOP-Version": version, **reply.headers}
    if reply.status != 304:
        headers |= {"Content-Type": "application/json; charset=utf-8", "Content-Length": str(len(body))}
    await send({"type": "http.response.start", "status": reply.status, "headers": _encoded(headers)})
    await send({"type": "http.response.body", "body": body if with_body else b""})


async def _send_stream(stream: Stream, version: str, receive: Receive, send: Send) -> None:
    """Until it ends or the other side has gone."""
    headers = {
        "OpenWOP-Version": version,
        "Content-Type": "text/event-stream",
        "Cache-Control": "no-cache, no-transform",
        "X-Accel-Buffering": "no",
    }

    async def write() -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _encoded(headers)})
        async for chunk in stream.chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    tasks = {asyncio.create_task(write()), asyncio.create_task(gone())}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
