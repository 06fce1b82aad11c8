"""Following one run: its stream, resumed from what is committed; polls where the stream does not say enough.

A run is followed in turns. A turn ends when there is nothing to do but wait, so that a waiting run holds no
connection; the worker decides when the next one begins.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import httpx

from runs.domain.limits import DEFAULT_LIMITS, Limits
from runs.domain.poll import PollPage

from . import routes
from .backoff import Backoff
from .client import (
    EVENT_STREAM,
    JSON,
    Answer,
    FollowProblem,
    HostClient,
    OutOfBounds,
    Refused,
    WrongAnswer,
    media_type,
)
from .clock import Clock
from .log import Commit, RunLog, StoreUnavailable
from .pace import DEFAULT_PACE, Pace
from .polling import NOT_SERVED, Manners, Poller, is_over, read_page
from .state import UNANNOUNCED_END, FollowState, Phase
from .store import ListedRun, ResumePoint
from .stream import StreamEnd, StreamReading

logger = logging.getLogger(__name__)

Report = Callable[[FollowState], Awaitable[None]]
NoteRun = Callable[[ListedRun], Awaitable[None]]

PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers after which it is worth asking again."""

UNPROJECTABLE = "event_type_unmapped"
"""The code of a 500 that does not pass: the host can not read the run's log in the major that was asked for."""

GONE = frozenset({404, 410})

ADVICE = {
    400: "the host does not understand what it is asked",
    401: "the host does not accept the credential",
    403: "the host does not let this credential read the run",
    404: "the host does not know the run, or hides it from this credential",
    406: "the host does not speak the protocol's major that it was asked for",
    410: "the host keeps the run, or this way to it, no longer; what was read stays",
    426: "the host wants a newer client",
}


NOT_STORED = "the events could not be stored; they are read again"


@dataclass(frozen=True, slots=True)
class Turn:
    """What comes next: another turn after `again_in` seconds, or none. `refusal` is the answer that stopped it."""

    again_in: float | None = None
    refusal: Refused | None = None


@dataclass(frozen=True, slots=True)
class Stretch:
    """One stream, read to its end. `asked` is the pause that the host asked for; `worked` says that the stream brought
    something or lasted."""

    end: StreamEnd
    problem: str = ""
    asked: float | None = None
    worked: bool = False


class RunFollow:
    def __init__(
        self,
        run_id: str,
        *,
        client: HostClient,
        major: int,
        resume: ResumePoint,
        commit: Commit,
        report: Report,
        note_run: NoteRun,
        clock: Clock,
        random: Callable[[], float],
        manners: Manners,
        pace: Pace = DEFAULT_PACE,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.state = FollowState(run_id, through=resume.through)
        self._run_id = run_id
        self._client = client
        self._major = major
        self._report = report
        self._note_run = note_run
        self._clock = clock
        self._pace = pace
        self._limits = limits
        self._backoff = Backoff(random)
        self._log = RunLog(run_id, resume=resume, commit=commit, clock=clock, limits=limits)
        self._poller = Poller(client, major=major, log=self._log, manners=manners)
        self._stream_query = 0
        self._checks_done: int | None = None
        """Of the checks for late events; None as long as the run has not ended."""
        self._runs_on = False
        """The host says that the run goes on, although its log has a terminal event."""
        self._id_is_known = major < 2 or "/" in run_id
        self._last_known: int | None = resume.through
        self._empty_polls = 0
        self._progress_at = float("-inf")

    async def turn(self, *, others_wait: Callable[[], bool] = lambda: False) -> Turn:
        try:
            return await self._turn(others_wait)
        except Refused as refusal:
            return await self._refused(refusal)
        except OutOfBounds as problem:
            return await self._stop(str(problem))
        except StoreUnavailable as problem:
            if self.state.last_error != NOT_STORED:
                logger.warning("events of run %s were not stored: %s", self._run_id, problem)
            return await self._retry(NOT_STORED)
        except FollowProblem as problem:
            return await self._retry(str(problem))

    async def _turn(self, others_wait: Callable[[], bool]) -> Turn:
        if self._checks_done is not None:
            return await self._check_for_late_events(others_wait)
        if not self._id_is_known and await self._goes_on_under_another_id():
            return Turn()
        stretch = await self._stretch(others_wait)
        if stretch.end in (StreamEnd.PLACE_GIVEN, StreamEnd.REOPEN):
            return await self._pause(0.0)
        page = await self._poller.catch_up()
        if self._poller.wants_stream:
            return await self._pause(0.0)
        if not self._poller.streams and not self._poller.reads:
            return await self._stop(f"{ADVICE[404]} ({stretch.problem or 'no stream and no poll'})")
        if await self._is_over(page):
            self._checks_done = 0
            return await self._check_for_late_events(others_wait)
        return await self._come_again(stretch)

    # --- the stream ---

    async def _stretch(self, others_wait: Callable[[], bool]) -> Stretch:
        if not self._poller.streams:
            return Stretch(StreamEnd.NOT_SERVED)
        await self._say(Phase.CONNECTING)
        try:
            return await self._stream(others_wait)
        except Refused as refusal:
            return Stretch(self._stream_refused(refusal), str(refusal))
        except WrongAnswer as problem:
            # Perhaps a proxy in between; polls may come through.
            return Stretch(StreamEnd.BROKEN, str(problem))

    async def _stream(self, others_wait: Callable[[], bool]) -> Stretch:
        async with self._client.stream(
            routes.stream(self._major, self._run_id),
            major=self._major,
            params=routes.STREAM_QUERIES[self._stream_query],
            last_event_id=self._log.cursor,
        ) as response:
            if media_type(response.headers) != EVENT_STREAM:
                return Stretch(await self._not_a_stream(response))
            await self._say(Phase.STREAMING, connected_since=self._clock.now(), last_error="", retry_at=None)
            reading = StreamReading(
                response,
                log=self._log,
                poller=self._poller,
                clock=self._clock,
                pace=self._pace,
                limits=self._limits,
                committed=self._progressed,
                others_wait=others_wait,
                runs_on=self._runs_on,
            )
            end = await reading.read()
        return Stretch(end, reading.problem, reading.retry, reading.news or reading.lived >= self._pace.lasting)

    def _stream_refused(self, refusal: Refused) -> StreamEnd:
        if refusal.status == 400 and self._stream_query + 1 < len(routes.STREAM_QUERIES):
            # Should less come by the next query than by this one, it leaves gaps, which polls fill.
            self._stream_query += 1
            return StreamEnd.REOPEN
        if refusal.status not in NOT_SERVED:
            raise refusal
        self._poller.streams = False
        return StreamEnd.NOT_SERVED

    async def _not_a_stream(self, response: httpx.Response) -> StreamEnd:
        if response.status_code == 204:
            return StreamEnd.CLOSED
        kind = media_type(response.headers)
        if kind != JSON:
            raise WrongAnswer(f"{kind or 'no content type'} where an event stream was asked for")
        try:
            async with self._clock.timeout(self._pace.silence):
                answer = Answer(response.headers, await self._client.read(response), response.status_code)
        except (TimeoutError, httpx.HTTPError) as problem:
            raise WrongAnswer("an answer that broke off") from problem
        await self._log.take(read_page(answer).events, unless_known=True)
        self._poller.streams = False
        return StreamEnd.NOT_SERVED

    # --- whether it is over ---

    async def _is_over(self, page: PollPage) -> bool:
        """Whether the run has ended: as the host says, and by its log when the host does not say.

        The status can be ahead of the log, so late events are looked for before an end is believed.
        """
        said = is_over(page)
        if said is None and (snapshot := await self._poller.snapshot()):
            said = is_over(snapshot)
        self._runs_on = said is False and self._log.has_ended
        return self._log.has_ended if said is None else said

    async def _check_for_late_events(self, others_wait: Callable[[], bool]) -> Turn:
        """A cancelled run of one host goes on for 20 s behind its terminal event, memory writes included."""
        done = self._checks_done or 0
        if done == 0 and self._log.first_partial is not None:
            await self._poller.read_again(self._log.first_partial)
            self._log.first_partial = None
        before = self._log.coverage.last
        page = await self._poller.catch_up()
        if not self._poller.reads:
            # There is the stream only, and its end is known by its closing.
            await self._stretch(others_wait)
        goes_on = is_over(page) is False
        if goes_on or self._poller.wants_stream:
            self._checks_done, self._runs_on = None, goes_on and self._log.has_ended
            return await self._pause(self._pace.poll if self._runs_on else 0.0)
        self._checks_done = done = done + 1 if self._log.coverage.last == before else 1
        if done < len(self._pace.settle):
            pause = self._pace.settle[done] - self._pace.settle[done - 1]
            await self._say(Phase.SETTLING, last_error="", retry_at=self._in(pause))
            return Turn(again_in=pause)
        await self._poller.fill_forgone()
        if snapshot := await self._poller.snapshot():
            await self._note_run(replace(snapshot, run_id=self._run_id))
        return await self._finish()

    async def _finish(self) -> Turn:
        note = "" if self._log.has_ended else UNANNOUNCED_END
        await self._say(Phase.FINISHED, last_error="", retry_at=None, note=note)
        return Turn()

    async def _goes_on_under_another_id(self) -> bool:
        """A run of the first major has another, tenant-bound id under the second (identity, section 5), by which its
        events name it there."""
        snapshot = await self._poller.snapshot()
        self._id_is_known = True
        if snapshot is None or not snapshot.run_id.endswith(f"/{self._run_id}"):
            return False
        await self._note_run(snapshot)
        await self._say(Phase.FINISHED, note=f"the host now names this run {snapshot.run_id}")
        return True

    # --- what comes next ---

    async def _come_again(self, stretch: Stretch) -> Turn:
        if stretch.end is StreamEnd.NOT_SERVED:
            return await self._poll_again()
        if stretch.worked:
            self._backoff.succeeded()
            if stretch.end is StreamEnd.CLOSED:
                return await self._pause(stretch.asked or 0.0)
        if stretch.end is StreamEnd.SILENT:
            return await self._pause(0.0)
        return await self._retry(stretch.problem or "the stream ended without an event", stretch.asked)

    async def _poll_again(self) -> Turn:
        self._backoff.succeeded()
        news = self._log.coverage.last != self._last_known
        self._last_known = self._log.coverage.last
        self._empty_polls = 0 if news else self._empty_polls + 1
        pause = min(self._pace.poll * (1 + self._empty_polls), self._pace.poll_most)
        await self._say(Phase.POLLING, last_error="", retry_at=self._in(pause))
        return Turn(again_in=pause)

    async def _pause(self, seconds: float) -> Turn:
        await self._say(Phase.WAITING, retry_at=self._in(seconds) if seconds else None)
        return Turn(again_in=seconds)

    async def _retry(self, problem: str, asked: float | None = None) -> Turn:
        pause = self._backoff.failed(asked=asked)
        await self._say(Phase.RETRYING, last_error=problem, retry_at=self._in(pause))
        return Turn(again_in=pause)

    async def _refused(self, refusal: Refused) -> Turn:
        if refusal.status in PASSING and refusal.code != UNPROJECTABLE:
            return await self._retry(str(refusal), refusal.asked)
        if refusal.status in GONE and self._log.has_ended:
            return await self._finish()
        advice = ADVICE.get(refusal.status, "the host refuses")
        return await self._stop(f"{advice} ({refusal})", refusal)

    async def _stop(self, words: str, refusal: Refused | None = None) -> Turn:
        await self._say(Phase.STOPPED, last_error=words, retry_at=None)
        return Turn(refusal=refusal)

    # --- what is said of it ---

    def _in(self, seconds: float) -> datetime:
        return self._clock.now() + timedelta(seconds=seconds)

    async def _progressed(self) -> None:
        now = self._clock.monotonic()
        if now - self._progress_at >= self._pace.report:
            self._progress_at = now
            await self._say(self.state.phase)

    async def _say(self, phase: Phase, **changes: Any) -> None:
        streaming = self.state.connected_since if phase is Phase.STREAMING else None
        self.state = replace(
            self.state,
            phase=phase,
            through=self._log.cursor,
            last_event_at=self._log.last_event_at,
            missing=tuple((span.first, span.last) for span in self._log.coverage.forgone),
            **({"connected_since": streaming} | changes),
        )
        await self._report(self.state)
