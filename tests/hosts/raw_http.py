"""An HTTP/1.1 server on bare sockets, because a well-behaved one would not let a test do what hosts do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, with lower-case header names."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]


class Reply:
    """What goes back on one connection: a whole answer, or a chunked body piece by piece, or no end at all."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def answer(self, status: int, body: object = None, headers: Mapping[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        kind = {"Content-Type": "application/json"} if body is not None else {}
        await self._head(status, {**kind, **(headers or {}), "Content-Length": str(len(data))})
        self._writer.write(data)
        await self._writer.drain()

    async def begin(self, headers: Mapping[str, str] | None = None) -> None:
        """An event stream, unless the headers say otherwise."""
        begun = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked", **(headers or {})}
        await self._head(200, begun)

    async def piece(self, data: bytes) -> None:
        if data:
            self._writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await self._writer.drain()

    async def end(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    def cut(self) -> None:
        """Breaks the connection."""
        self._writer.transport.abort()

    async def hang(self) -> None:
        """Says nothing until the other side goes."""
        await asyncio.Event().wait()

    async def _head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} -", *(f"{name}: {value}" for name, value in headers.items())]
        self._writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode())
        await self._writer.drain()


Handle = Callable[[Asked, Reply], Awaitable[None]]


@asynccontextmanager
async def serving(handle: Handle) -> AsyncIterator[str]:
    """The origin under which `handle` answers."""
    open_connections: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_connections.add(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            asked = _asked(await reader.readuntil(b"\r\n\r\n"))
            await _until_gone(asyncio.create_task(_handled(handle, asked, Reply(writer))), reader)
        open_connections.discard(task)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.close()
        for task in list(open_connections):
            task.cancel()
        await asyncio.gather(*open_connections, return_exceptions=True)


async def _handled(handle: Handle, asked: Asked, reply: Reply) -> None:
    await handle(asked, reply)


async def _until_gone(answering: asyncio.Task[None], reader: asyncio.StreamReader) -> None:
    """Answers as long as the other side is there. It sends nothing more, so the next it says is that it goes."""
    gone = asyncio.create_task(reader.read(1))
    tasks: set[asyncio.Task[Any]] = {answering, gone}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if not answering.cancelled() and (problem := answering.exception()) and not isinstance(problem, ConnectionError):
        raise problem


def _asked(head: bytes) -> Asked:
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    method, target, _ = first.split(" ", 2)
    parts = urlsplit(target)
    headers = dict(line.split(": ", 1) for line in lines)
    return Asked(
        method,
        parts.path,
        dict(parse_qsl(parts.query)),
        {name.lower(): value for name, value in headers.items()},
    )
