"""Following one host: which major it speaks, which runs it lists, and which of them are wanted."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from datetime import timedelta
from random import random as system_random

from runs.domain.limits import DEFAULT_LIMITS, Limits

from .backoff import Backoff
from .client import FollowProblem, HostClient, OutOfBounds, Refused
from .clock import Clock, SystemClock
from .dead_letters import dead_letters
from .discovery import Reading, RunList, negotiate, read_run_list
from .follow_run import ADVICE, PASSING, RunFollow
from .log import StoreUnavailable
from .pace import DEFAULT_PACE, Pace
from .polling import Manners, is_over
from .state import FollowState, HostPhase, HostState, Phase
from .store import FollowedHost, FollowStore, ListedRun

logger = logging.getLogger(__name__)

RENEGOTIATE = frozenset({400, 406, 410, 426})
"""Answers that may mean that the host speaks another major by now."""

UNAUTHENTICATED = 401

OUR_FAULT = "following failed on this side; the worker's log says how"


@dataclass(frozen=True, slots=True)
class Settings:
    """`places` is how many runs are followed at the same moment, `per_host` how many of them on one host."""

    places: int = 200
    per_host: int = 32
    pace: Pace = DEFAULT_PACE
    limits: Limits = DEFAULT_LIMITS
    clock: Clock = SystemClock()
    random: Callable[[], float] = system_random


class HostFollow:
    """`want` is called with the ids of runs that are to be followed now, `leave` with the id of one that is not."""

    def __init__(
        self,
        host: FollowedHost,
        *,
        store: FollowStore,
        settings: Settings,
        want: Callable[[Collection[str]], None],
        leave: Callable[[str], Awaitable[None]],
    ) -> None:
        self.host = host
        self.state = HostState(major=host.major)
        self.is_outdated = False
        """The host speaks another major now: all of its following has to begin anew."""
        self._store = store
        self._settings = settings
        self._pace = settings.pace
        self._clock = settings.clock
        self._want = want
        self._leave = leave
        self._client = HostClient(host, clock=self._clock, connections=settings.per_host * 2 + 4)
        self._backoff = Backoff(settings.random)
        self._manners = Manners()
        self._reading: Reading | None = None
        self._negotiate_at = 0.0
        self._ask_store_at = 0.0
        self._dead_letters_at = 0.0
        self._left_alone_until = 0.0
        self._etag = ""
        self._listed: dict[str, ListedRun] = {}
        self._follows: dict[str, RunFollow] = {}
        self._stopped_until: dict[str, float] = {}
        self._paused: frozenset[str] = frozenset()
        self._status_at_end: dict[str, str | None] = {}
        """Of runs that finished here: the status that was listed, so that another one brings them back. None while
        the list is behind."""

    async def close(self) -> None:
        await self._client.aclose()

    # --- the host ---

    async def watch(self) -> None:
        """For ever."""
        while True:
            await self._clock.sleep(await self._look())

    async def _look(self) -> float:
        """Seconds until the next look."""
        alone = self._left_alone_until - self._clock.monotonic()
        if alone > 0:
            return alone
        try:
            if self._reading is None or self._clock.monotonic() >= self._negotiate_at:
                await self._negotiate()
            await self._read_list()
            await self._read_dead_letters()
        except Refused as refusal:
            return await self._refused(refusal)
        except OutOfBounds as problem:
            return await self._failed(HostPhase.REFUSED, str(problem), self._pace.try_refused)
        except FollowProblem as problem:
            return await self._failed(HostPhase.RETRYING, str(problem), self._backoff.failed())
        except Exception:
            logger.exception("looking at host %s failed", self.host.slug)
            return self._backoff.failed()
        self._backoff.succeeded()
        return self._pace.list_runs

    async def _negotiate(self) -> None:
        if self._reading is None:
            await self._say(phase=HostPhase.DISCOVERING)
        reading = await negotiate(self._client)
        if self._reading is not None and reading.major != self._reading.major:
            self.is_outdated = True
        self._reading = reading
        self._negotiate_at = self._clock.monotonic() + self._pace.negotiate
        await self._say(
            phase=HostPhase.FOLLOWING,
            major=reading.major,
            document=reading.document,
            lists_runs=reading.lists_runs,
            last_error="",
            retry_at=None,
        )

    async def _read_list(self) -> None:
        reading = self._reading
        if reading is None or self.is_outdated:
            return
        listed = await self._list(reading)
        news = [run for run in listed.runs or () if self._listed.get(run.run_id) != run]
        now = self._clock.monotonic()
        if news or now >= self._ask_store_at:
            wanted = await self._store.discovered(self.host, news)
            await self._pause(frozenset(await self._store.paused(self.host)))
            self._listed |= {run.run_id: run for run in news}
            self._ask_store_at = now + self._pace.ask_store
            self._enqueue({*wanted, *self._changed_since_end(news)})
            lists_runs = self._reading is not None and self._reading.lists_runs
            listed_at = self._clock.now() if lists_runs else None
            await self._say(
                phase=HostPhase.FOLLOWING, last_error="", retry_at=None, lists_runs=lists_runs, listed_at=listed_at
            )
        # Only now: had the store failed, an unchanged list would hide the news from the next look.
        self._etag = listed.etag

    async def _list(self, reading: Reading) -> RunList:
        if not reading.lists_runs:
            return RunList([], "")
        listed = await read_run_list(self._client, reading.major, known=self._listed, etag=self._etag)
        if listed is None:
            self._reading = replace(reading, lists_runs=False)
            return RunList([], "")
        if listed.runs is not None:
            # What is no longer listed need not be remembered: should it come back, it is news.
            shown = {run.run_id for run in listed.runs}
            self._listed = {run_id: run for run_id, run in self._listed.items() if run_id in shown}
            self._status_at_end = {run_id: at_end for run_id, at_end in self._status_at_end.items() if run_id in shown}
        return listed

    async def _read_dead_letters(self) -> None:
        """What a webhook could not bring is read as a run is. A host that does not show it is followed all the same."""
        now = self._clock.monotonic()
        if self._reading is None or self._reading.major < 2 or now < self._dead_letters_at:
            return
        self._dead_letters_at = now + self._pace.dead_letters
        for remote_id in await self._store.webhooks(self.host):
            try:
                letters = await dead_letters(self._client, remote_id)
            except FollowProblem as problem:
                logger.info("host %s: its dead letters were not read: %s", self.host.slug, problem)
                continue
            if letters:
                self._enqueue(await self._store.keep_dead_letters(self.host, remote_id, letters))

    def _changed_since_end(self, runs: list[ListedRun]) -> list[str]:
        """A host can go on with a run that it had ended: its status then changes once more."""
        changed = []
        for run in runs:
            if run.run_id not in self._status_at_end:
                continue
            before, self._status_at_end[run.run_id] = self._status_at_end[run.run_id], run.status
            if before not in (None, run.status):
                changed.append(run.run_id)
        return changed

    def _enqueue(self, run_ids: Collection[str]) -> None:
        now = self._clock.monotonic()
        self._stopped_until = {run_id: until for run_id, until in self._stopped_until.items() if until > now}
        self._want([run_id for run_id in run_ids if run_id not in self._stopped_until and run_id not in self._paused])

    async def _pause(self, paused: frozenset[str]) -> None:
        new, self._paused = paused - self._paused, paused
        for run_id in new:
            await self._leave(run_id)
            follow = self._follows.pop(run_id, None)
            if follow is not None:
                await self._report(replace(follow.state, phase=Phase.PAUSED, connected_since=None, retry_at=None))

    async def _refused(self, refusal: Refused) -> float:
        if refusal.status in PASSING:
            return await self._failed(HostPhase.RETRYING, str(refusal), self._backoff.failed(asked=refusal.asked))
        if refusal.status in RENEGOTIATE:
            self._negotiate_at = 0.0
        self._left_alone_until = self._clock.monotonic() + self._pace.try_refused
        words = f"{ADVICE.get(refusal.status, 'the host refuses')} ({refusal})"
        return await self._failed(HostPhase.REFUSED, words, self._pace.try_refused)

    async def _failed(self, phase: HostPhase, words: str, pause: float) -> float:
        if words != self.state.last_error:
            logger.info("host %s: %s", self.host.slug, words)
        await self._say(phase=phase, last_error=words, retry_at=self._clock.now() + timedelta(seconds=pause))
        return pause

    async def _say(self, **changes: object) -> None:
        self.state = replace(self.state, **changes)  # type: ignore[arg-type]  # names and kinds are those of HostState
        try:
            await self._store.save_host_state(self.host, self.state)
        except Exception as problem:
            logger.warning("the state of host %s was not saved: %r", self.host.slug, problem)

    # --- its runs ---

    async def serve(self, run_id: str, *, others_wait: Callable[[], bool]) -> float | None:
        """One turn of a run. Seconds until its next one, None when there is none for now."""
        if run_id in self._paused:
            return None
        try:
            follow = self._follows.get(run_id) or await self._begin(run_id)
            turn = await follow.turn(others_wait=others_wait)
        except StoreUnavailable as problem:
            logger.warning("where to resume run %s is not known: %s", run_id, problem)
            return self._backoff.failed()
        except Exception:
            logger.exception("following run %s of host %s failed", run_id, self.host.slug)
            self._follows.pop(run_id, None)
            await self._report(FollowState(run_id, Phase.RETRYING, last_error=OUR_FAULT))
            return self._settings.random() * self._pace.silence
        if turn.again_in is None:
            await self._ended(run_id, follow.state, turn.refusal)
        return turn.again_in

    async def _begin(self, run_id: str) -> RunFollow:
        assert self._reading is not None, "runs are wanted only after negotiation"
        try:
            resume = await self._store.resume_point(self.host, run_id)
        except Exception as problem:
            raise StoreUnavailable(repr(problem)) from problem
        follow = RunFollow(
            run_id,
            client=self._client,
            major=self._reading.major,
            resume=resume,
            commit=lambda run_id, items: self._store.commit(self.host, run_id, items),
            report=self._report,
            note_run=self._note_run,
            clock=self._clock,
            random=self._settings.random,
            manners=self._manners,
            pace=self._pace,
            limits=self._settings.limits,
        )
        self._follows[run_id] = follow
        return follow

    async def _ended(self, run_id: str, state: FollowState, refusal: Refused | None) -> None:
        del self._follows[run_id]
        if state.phase is Phase.FINISHED:
            if listed := self._listed.get(run_id):
                self._status_at_end[run_id] = listed.status if is_over(listed) else None
            return
        self._stopped_until[run_id] = self._clock.monotonic() + self._pace.try_stopped
        if refusal is not None and refusal.status in RENEGOTIATE:
            self._negotiate_at = 0.0
        if refusal is not None and refusal.status == UNAUTHENTICATED:
            await self._refused(refusal)

    async def _report(self, state: FollowState) -> None:
        try:
            await self._store.save_state(self.host, state)
        except Exception as problem:
            logger.warning("the state of run %s was not saved: %r", state.run_id, problem)

    async def _note_run(self, run: ListedRun) -> None:
        self._enqueue(await self._store.discovered(self.host, [run]))
