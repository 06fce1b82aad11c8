"""Reading one open event stream: frames into batches, batches into the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from enum import Enum, auto

import httpx

from runs.domain.limits import LimitExceeded, Limits
from runs.domain.sse import FrameReader, events_of

from .client import network_words
from .clock import Clock
from .log import RunLog
from .pace import Pace
from .polling import Poller


class StreamEnd(Enum):
    """Why a stream is read no further. None of them means that the run has ended."""

    CLOSED = auto()
    BROKEN = auto()
    SILENT = auto()
    AFTER_END = auto()
    OVERSIZE = auto()
    REOPEN = auto()
    PLACE_GIVEN = auto()
    NOT_SERVED = auto()


class StreamReading:
    """`problem` says in words what broke, `retry` is the pause the host asked for (seconds), `news` whether anything
    new was committed, `lived` how long the stream was read (seconds)."""

    def __init__(
        self,
        response: httpx.Response,
        *,
        log: RunLog,
        poller: Poller,
        clock: Clock,
        pace: Pace,
        limits: Limits,
        committed: Callable[[], Awaitable[None]],
        others_wait: Callable[[], bool],
        runs_on: bool,
    ) -> None:
        self.problem = ""
        self.retry: float | None = None
        self.news = False
        self._chunks: AsyncIterator[bytes] = response.aiter_bytes()
        self._frames = FrameReader(limits)
        self._log = log
        self._poller = poller
        self._clock = clock
        self._pace = pace
        self._committed = committed
        self._others_wait = others_wait
        self._runs_on = runs_on
        self._batch: list[bytes] = []
        self._flush_at = float("inf")
        self._opened_at = self._byte_at = self._event_at = clock.monotonic()
        self._turn_at = self._byte_at + pace.turn

    @property
    def lived(self) -> float:
        return self._clock.monotonic() - self._opened_at

    async def read(self) -> StreamEnd:
        """Raises StoreUnavailable and FollowProblem, of a poll in between. What was not committed is read again
        later; so is the frame that was not finished when the stream ended."""
        arriving: asyncio.Future[bytes | None] | None = None
        try:
            while True:
                arriving = arriving or asyncio.ensure_future(anext(self._chunks, None))
                if not await self._clock.wait(arriving, self._patience()):
                    end = await self._overdue()
                else:
                    chunk, arriving = arriving.result(), None
                    end = await self._arrived(chunk)
                if end is not None:
                    return end
        except httpx.HTTPError as broken:
            self.problem = network_words(broken)
            return await self._flush() or StreamEnd.BROKEN
        finally:
            if arriving is not None:
                arriving.cancel()
                with suppress(asyncio.CancelledError, httpx.HTTPError, StopAsyncIteration):
                    await arriving

    def _patience(self) -> float:
        """Until the first of the deadlines."""
        deadline = min(self._flush_at, self._silent_at(), self._quiet_at(), self._turn_at)
        return deadline - self._clock.monotonic()

    def _silent_at(self) -> float:
        return self._byte_at + self._pace.silence

    def _quiet_at(self) -> float:
        may_be_over = self._log.ends and not self._runs_on and not self._batch
        return self._event_at + (self._pace.after_end if may_be_over else self._pace.quiet)

    async def _arrived(self, chunk: bytes | None) -> StreamEnd | None:
        if chunk is None:
            return await self._flush() or StreamEnd.CLOSED
        self._byte_at = self._clock.monotonic()
        try:
            frames = self._frames.feed(chunk)
        except LimitExceeded as limit:
            self.problem = f"an event in the stream has {limit}"
            return await self._flush() or StreamEnd.OVERSIZE
        if self._frames.retry is not None:
            self.retry = self._frames.retry / 1000
        for frame in frames:
            self._batch += events_of(frame)
            if len(self._batch) >= self._pace.batch and (end := await self._flush()):
                return end
        if self._batch:
            self._event_at = self._byte_at
            self._flush_at = min(self._flush_at, self._byte_at + self._pace.flush)
        # Also reached under a steady flow of chunks, in which waiting is never overdue.
        return await self._flush_when_due()

    async def _overdue(self) -> StreamEnd | None:
        now = self._clock.monotonic()
        if now >= self._flush_at:
            return await self._flush()
        if now >= self._silent_at():
            return StreamEnd.SILENT
        if now < self._quiet_at():
            return self._give_place()
        if self._log.ends and not self._runs_on:
            return StreamEnd.AFTER_END
        # The stream beats, and yet an event may have been lost on the way into it: ask beside it.
        self._event_at = now
        await self._poller.catch_up()
        await self._committed()
        return StreamEnd.REOPEN if self._poller.wants_stream else None

    async def _flush_when_due(self) -> StreamEnd | None:
        return await self._flush() if self._clock.monotonic() >= self._flush_at else None

    async def _flush(self) -> StreamEnd | None:
        batch, self._batch, self._flush_at = self._batch, [], float("inf")
        for start in range(0, len(batch), self._pace.batch):
            taken = await self._log.take(batch[start : start + self._pace.batch])
            if taken.new:
                self.news, self._runs_on = True, False
                await self._committed()
        await self._poller.fill_holes()
        return StreamEnd.REOPEN if self._poller.wants_stream else self._give_place()

    def _give_place(self) -> StreamEnd | None:
        now = self._clock.monotonic()
        if now < self._turn_at:
            return None
        self._turn_at = now + self._pace.turn
        return StreamEnd.PLACE_GIVEN if self._others_wait() else None
