"""Work that costs about the same for many pieces as for one: what comes while it is done goes along the next time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Piece = TypeVar("Piece")


@dataclass(slots=True)
class _Queue(Generic[Piece]):
    waiting: list[tuple[Piece, asyncio.Future[None]]] = field(default_factory=list)
    task: asyncio.Task[None] | None = None
    began_at: float = float("-inf")


class Gathering(Generic[Key, Piece]):
    """Does ``work`` for the pieces of one key together, at most ``most`` of them and once in ``every`` seconds.

    A piece that comes alone waits for nothing. When the work for several fails with an error that ``is_shared`` does
    not claim, it is done for each of them alone, so that one piece can not hold up the others.
    """

    def __init__(
        self,
        work: Callable[[Key, Sequence[Piece]], Awaitable[object]],
        *,
        every: float,
        most: int,
        is_shared: Callable[[Exception], bool],
    ) -> None:
        self._work = work
        self._every = every
        self._most = most
        self._is_shared = is_shared
        self._queues: dict[Key, _Queue[Piece]] = {}

    async def add(self, key: Key, piece: Piece) -> None:
        """Returns once the work is done for this piece. Raises what it raised."""
        queue = self._queues.setdefault(key, _Queue())
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.waiting.append((piece, done))
        if queue.task is None:
            queue.task = asyncio.create_task(self._empty(key, queue))
        await done

    async def _empty(self, key: Key, queue: _Queue[Piece]) -> None:
        clock = asyncio.get_running_loop().time
        try:
            while queue.waiting:
                await asyncio.sleep(queue.began_at + self._every - clock())
                queue.began_at = clock()
                pieces, queue.waiting = queue.waiting[: self._most], queue.waiting[self._most :]
                # Whoever has gone in the meantime wants nothing done any more.
                await self._do(key, [(piece, done) for piece, done in pieces if not done.done()])
        finally:
            queue.task = None
            for _, done in queue.waiting:
                done.cancel()

    async def _do(self, key: Key, pieces: Sequence[tuple[Piece, asyncio.Future[None]]]) -> None:
        try:
            if pieces:
                await self._work(key, [piece for piece, _ in pieces])
        except Exception as problem:
            if len(pieces) > 1 and not self._is_shared(problem):
                for one in pieces:
                    await self._do(key, [one])
                return
            for _, done in pieces:
                if not done.done():
                    done.set_exception(problem)
            return
        except BaseException:
            for _, done in pieces:
                done.cancel()
            raise
        for _, done in pieces:
            if not done.done():
                done.set_result(None)
