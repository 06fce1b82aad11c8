"""The site as an ASGI application.

HTTP goes to threads, which serves a synchronous site four times as fast as Django's own ASGI handler. Sockets
stay on the event loop, with one relay of database notifications beside them.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any, cast

from a2wsgi import WSGIMiddleware

from openwop_ui import environment
from openwop_ui.wsgi import application as site  # sets Django up, which the imports below need

# isort: split
from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.urls import path, re_path

from openwop_ui.live.consumer import LiveConsumer
from openwop_ui.live.relay import relay_forever
from openwop_ui.mcp.door import Door, is_for_mcp

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

NOT_FOUND = 4404
SWITCH_AFTER = 0.0005
"""Seconds after which a thread that computes lets another one go on, which has its answer from PostgreSQL or a message
for its socket. By default it is ten times as long, and each round trip waits for it."""

logger = logging.getLogger(__name__)
sys.setswitchinterval(SWITCH_AFTER)


async def no_socket_here(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    # Only an accepted socket can be closed with a code that the page gets to see.
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.close", "code": NOT_FOUND})


# a2wsgi describes both protocols with types of its own, which nothing else uses.
_http: Any = WSGIMiddleware(cast(Any, site), workers=environment.WEB_THREADS.value())
_sockets = AllowedHostsOriginValidator(
    AuthMiddlewareStack(URLRouter([path("ws/", LiveConsumer.as_asgi()), re_path(r"", cast(Any, no_socket_here))]))
)
_mcp = Door()


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    match scope["type"]:
        case "http" if is_for_mcp(scope):
            await _mcp(scope, receive, send)
        case "http":
            await _http(scope, _whole(receive), send)
        case "websocket":
            await _sockets(scope, receive, send)
        case "lifespan":
            await _live_through(receive, send)


def _whole(receive: Receive) -> Receive:
    """A client that leaves within a body is an error for who reads it, not the end of the body."""

    async def receive_or_raise() -> Message:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError("the client left before the end of its request")
        return message

    return receive_or_raise


async def _live_through(receive: Receive, send: Send) -> None:
    await receive()
    relay = asyncio.create_task(relay_forever(), name="live relay")
    relay.add_done_callback(_tell_why)
    async with _mcp.running():
        await send({"type": "lifespan.startup.complete"})
        await receive()
    relay.cancel()
    with suppress(asyncio.CancelledError):
        await relay
    await send({"type": "lifespan.shutdown.complete"})


def _tell_why(relay: asyncio.Task[None]) -> None:
    if not relay.cancelled() and (problem := relay.exception()):
        logger.critical("The live relay ended; pages no longer hear of changes", exc_info=problem)
