"""Who may come in at /mcp, and the ASGI application that takes them to the server.

Every request stands alone: it carries its key, and there is no session that another key could take up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from openwop_ui.mcp.server import CALLER, THREADS, build_server
from openwop_ui.mcp.threads import Threads
from openwop_ui.rest import Unauthenticated, dumps, key_of
from openwop_ui.tenancy.keys import Caller, find_caller

PATH = "/mcp"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def is_for_mcp(scope: Scope) -> bool:
    path: str = scope["path"]
    return path.rstrip("/") == PATH


class Door:
    """Answers while ``running``; the SDK wants a manager of its own for each time that it runs."""

    def __init__(self) -> None:
        self._manager: StreamableHTTPSessionManager | None = None
        self._threads: Threads | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        manager = StreamableHTTPSessionManager(build_server(), json_response=True, stateless=True)
        threads = Threads()
        try:
            async with manager.run():
                self._manager, self._threads = manager, threads
                yield
        finally:
            self._manager = self._threads = None
            await asyncio.to_thread(threads.close)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._manager is None or self._threads is None:
            await _refuse(send, 503, "unavailable", "The site is starting or stopping.", {"Retry-After": "5"})
            return
        if scope["method"] != "POST":
            # There is nothing to listen for and no session to end (MCP, streamable HTTP: 405 says so).
            await _refuse(send, 405, "method_not_allowed", "This takes POST.", {"Allow": "POST"})
            return
        try:
            caller = await self._threads.run(_caller, _header(scope, b"authorization"))
        except Unauthenticated as problem:
            await _refuse(send, problem.status, problem.code, problem.message, dict(problem.headers or {}))
            return
        await self._manager.handle_request({**scope, CALLER: caller, THREADS: self._threads}, receive, send)


def _caller(authorization: str) -> Caller:
    caller = find_caller(key_of(authorization))
    if caller is None:
        raise Unauthenticated
    return caller


def _header(scope: Scope, wanted: bytes) -> str:
    found = [value for name, value in scope["headers"] if name.lower() == wanted]
    return found[0].decode("latin-1") if len(found) == 1 else ""


async def _refuse(send: Send, status: int, code: str, message: str, headers: dict[str, str]) -> None:
    body = dumps({"error": code, "message": message})
    sent = {
        "Content-Type": "application/json",
        "Cache-Control": "no-store",
        "Content-Length": str(len(body)),
        **headers,
    }
    encoded = [(name.lower().encode(), value.encode("latin-1")) for name, value in sent.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
