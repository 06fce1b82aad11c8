"""Runs what uses the database in threads of its own, away from the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

import psycopg
from django.db import close_old_connections, connection

P = ParamSpec("P")
R = TypeVar("R")

_threads = ThreadPoolExecutor(max_workers=8, thread_name_prefix="mcp")


async def in_thread(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What ``work`` returns or raises. When the caller gives up, the statement that runs for it is cancelled."""
    at_work = _AtWork()
    future = asyncio.get_running_loop().run_in_executor(_threads, at_work.do, lambda: work(*args, **kwargs))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        at_work.cancel()
        raise


class _AtWork:
    """One piece of work and the connection it uses, which may be cancelled from another thread."""

    def __init__(self) -> None:
        self._connection: psycopg.Connection | None = None

    def do(self, work: Callable[[], R]) -> R:
        close_old_connections()
        connection.ensure_connection()
        self._connection = connection.connection
        try:
            return work()
        finally:
            self._connection = None
            close_old_connections()

    def cancel(self) -> None:
        if (used := self._connection) is not None:
            used.cancel_safe()
