"""Time as the follower sees it, so that a test can make it run faster."""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any, Protocol


class Clock(Protocol):
    """All durations are seconds."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:
        """Raises TimeoutError in its block when it takes longer."""

    async def wait(self, future: asyncio.Future[Any], seconds: float) -> bool:
        """True when `future` is done in time. It is not cancelled when it is not."""


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def timeout(self, seconds: float) -> AbstractAsyncContextManager[object]:
        return asyncio.timeout(seconds)

    async def wait(self, future: asyncio.Future[Any], seconds: float) -> bool:
        done, _ = await asyncio.wait({future}, timeout=max(seconds, 0))
        return bool(done)
