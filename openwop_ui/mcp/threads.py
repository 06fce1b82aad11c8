"""Runs what uses the database in threads of its own, away from the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar
from weakref import WeakSet

import psycopg
from django.db import close_old_connections, connection

P = ParamSpec("P")
R = TypeVar("R")

THREADS = 8


class Threads:
    """They keep their connections from one piece of work to the next, until ``close``."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="mcp")
        self._connections: WeakSet[psycopg.Connection] = WeakSet()

    async def run(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """What ``work`` returns or raises. When the caller gives up, the statement that runs for it is cancelled."""
        at_work = _AtWork(self._connections)
        future = asyncio.get_running_loop().run_in_executor(self._executor, at_work.do, lambda: work(*args, **kwargs))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            at_work.cancel()
            raise

    def close(self) -> None:
        """What runs is finished first."""
        self._executor.shutdown()
        for used in list(self._connections):
            used.close()


class _AtWork:
    """One piece of work and the connection it uses, which may be cancelled from another thread."""

    def __init__(self, connections: WeakSet[psycopg.Connection]) -> None:
        self._connections = connections
        self._connection: psycopg.Connection | None = None

    def do(self, work: Callable[[], R]) -> R:
        close_old_connections()
        connection.ensure_connection()
        self._connection = connection.connection
        self._connections.add(connection.connection)
        try:
            return work()
        finally:
            self._connection = None
            close_old_connections()

    def cancel(self) -> None:
        if (used := self._connection) is not None:
            used.cancel_safe()
