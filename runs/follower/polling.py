"""Reading a run's log by asking: to catch up, and to fill gaps."""

from __future__ import annotations

from dataclasses import dataclass

from runs.domain.folding import is_terminal
from runs.domain.poll import NotAPollBody, PollPage, read_poll

from . import routes
from .client import Answer, HostClient, Refused, TooLarge, WrongAnswer, read_json
from .coverage import Span
from .discovery import read_snapshot
from .log import RunLog
from .store import ListedRun

NOT_SERVED = frozenset({404, 405, 501})
_NO_WAY = frozenset({400, 404, 405, 406, 410, 422, 501})
"""Answers by which a host says that this is not a way to ask. Others say that it can not be asked now."""

NO_PAGE = PollPage(())


@dataclass(slots=True)
class Manners:
    """What was learned about a host, for all of its runs: `way` is the spelling that filled a gap last."""

    way: int = 0


class Poller:
    """`streams` says whether the event stream is served as well; `wants_stream` that a hole is left which only a
    stream opened from before it could fill."""

    def __init__(self, client: HostClient, *, major: int, log: RunLog, manners: Manners) -> None:
        self.streams = True
        self.wants_stream = False
        self._polls = True
        self._whole = True
        """The stream's address answers a JSON document with the whole log."""
        self._client = client
        self._major = major
        self._log = log
        self._manners = manners
        self._asked_by_stream: set[int] = set()

    @property
    def reads(self) -> bool:
        """Whether anything but the stream is served."""
        return self._polls or self._whole

    async def catch_up(self) -> PollPage:
        """Pages up to one without news, which is returned."""
        while True:
            # From one before the cursor: a host that leaves out the event next to the cursor would never give it.
            page = await self._page((self._log.cursor or 0) - 1)
            if not (await self._log.take(page.events, unless_known=True)).new:
                return page
            await self.fill_holes()

    async def read_again(self, first: int) -> None:
        """Takes the log in once more from `first`, for copies that say more than those of the stream."""
        after = first - 1
        while True:
            page = await self._page(after)
            highest = (await self._log.take(page.events)).highest
            if highest is None or highest - 1 <= after:
                return
            after = highest - 1

    async def _page(self, after: int) -> PollPage:
        """An empty page when nothing of the kind is served."""
        if self._polls:
            try:
                return await self._ask(routes.poll(self._major, self._log.run_id, after))
            except Refused as refusal:
                if refusal.status not in NOT_SERVED:
                    raise
                self._polls = False
        if self._whole:
            try:
                return await self._ask(routes.whole_log(self._major, self._log.run_id))
            except WrongAnswer:
                self._whole = False
            except Refused as refusal:
                if refusal.status not in _NO_WAY:
                    raise
                self._whole = False
        return NO_PAGE

    async def fill_holes(self) -> None:
        """Asks for what is missing, and forgoes what no way of asking brings."""
        self.wants_stream = False
        for hole in self._log.coverage.holes():
            left = await self._fill(hole)
            if left is None:
                continue
            if self._begins_here(left):
                self._log.coverage.begin_at(left.last + 1)
            elif self.streams and left.first not in self._asked_by_stream:
                self._asked_by_stream.add(left.first)
                self.wants_stream = True
                return
            else:
                self._log.coverage.forgo(left)

    async def fill_forgone(self) -> None:
        """Asks once more for what the host did not have when it was asked before."""
        for hole in list(self._log.coverage.forgone):
            await self._fill(hole)

    def _begins_here(self, left: Span) -> bool:
        return left == Span(0, 0) and self._log.cursor is None

    async def _fill(self, hole: Span) -> Span | None:
        """What is still missing of a hole after all ways of asking."""
        left: Span | None = hole
        ways = len(list(routes.ways_to(self._major, self._log.run_id, hole.first)))
        for way in sorted(range(ways), key=lambda way: way != self._manners.way):
            while left is not None:
                before = left
                left = await self._fill_one_way(left, way)
                if left == before:
                    break
                self._manners.way = way
            if left is None:
                return None
        return left

    async def _fill_one_way(self, hole: Span, way: int) -> Span | None:
        asks = list(routes.ways_to(self._major, self._log.run_id, hole.first))
        if way >= len(asks):
            return hole
        try:
            page = await self._ask(asks[way])
        except (WrongAnswer, TooLarge):
            return hole
        except Refused as refusal:
            if refusal.status in _NO_WAY:
                return hole
            raise
        await self._log.take(page.events, unless_known=True)
        return self._log.coverage.missing_in(hole)

    async def _ask(self, ask: routes.Ask) -> PollPage:
        return read_page(await self._client.get(ask.path, major=self._major, params=ask.params, accept=ask.accept))

    async def snapshot(self) -> ListedRun | None:
        """None when the host shows none."""
        try:
            answer = await self._client.get(routes.run(self._major, self._log.run_id), major=self._major)
        except Refused as refusal:
            if refusal.status in _NO_WAY:
                return None
            raise
        return read_snapshot(read_json(answer.body))


def read_page(answer: Answer) -> PollPage:
    try:
        return read_poll(answer.body)
    except NotAPollBody as problem:
        kind = answer.headers.get("content-type") or "no content type"
        raise WrongAnswer(f"an answer without a list of events ({kind})") from problem


def is_over(said: PollPage | ListedRun) -> bool | None:
    """Whether the host takes the run for ended; None when it does not say."""
    if isinstance(said, PollPage) and said.is_terminal is not None:
        return said.is_terminal
    return is_terminal(said.status) if said.status else None
