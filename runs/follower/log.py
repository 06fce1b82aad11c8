"""The committed part of one run's log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import NamedTuple

from runs.domain.event import Refusal, RunEvent
from runs.domain.folding import is_terminal, status_of
from runs.domain.limits import DEFAULT_LIMITS, Limits
from runs.domain.normalise import read_event

from .clock import Clock
from .coverage import Coverage
from .store import ResumePoint

Commit = Callable[[str, Sequence[RunEvent | Refusal]], Awaitable[object]]

REMEMBERED_REFUSALS = 1000


class StoreUnavailable(Exception):
    """The events were read but not committed: they will be read again."""


class Taken(NamedTuple):
    """How many events were new, and the highest sequence among all of them, None when there was no event."""

    new: int
    highest: int | None


class RunLog:
    """Takes events in by committing them; nothing counts as known before."""

    def __init__(
        self,
        run_id: str,
        *,
        resume: ResumePoint,
        commit: Commit,
        clock: Clock,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.run_id = run_id
        self.coverage = Coverage(resume.through)
        self.last_event_at: datetime | None = None
        self.first_partial: int | None = None
        """The lowest sequence that first came without its payload."""
        self._commit = commit
        self._clock = clock
        self._limits = limits
        self._last_terminal = resume.through if resume.ended else None
        self._refused: dict[bytes, None] = {}

    @property
    def cursor(self) -> int | None:
        """Where to resume: what is committed without a gap."""
        return self.coverage.through

    @property
    def ends(self) -> bool:
        """The last known event is a terminal one."""
        return self._last_terminal is not None and self._last_terminal == self.coverage.last

    @property
    def has_ended(self) -> bool:
        """A terminal event is known, whatever came after it."""
        return self._last_terminal is not None

    async def take(self, raws: Iterable[bytes], *, unless_known: bool = False) -> Taken:
        """Commits. With `unless_known`, events that are all known already are left alone."""
        events: list[RunEvent] = []
        refusals: dict[bytes, Refusal] = {}
        for index, raw in enumerate(raws):
            item = read_event(raw, index=index, run_id=self.run_id, limits=self._limits)
            if isinstance(item, RunEvent):
                events.append(item)
            else:
                refusals[blake2b(raw, digest_size=16).digest()] = item
        highest = max((event.sequence for event in events), default=None)
        if unless_known and all(event.sequence in self.coverage for event in events):
            events = []
        # Asking again for a gap brings the same unreadable text again: it is refused once.
        news = {digest: item for digest, item in refusals.items() if digest not in self._refused}
        if not events and not news:
            return Taken(0, highest)
        try:
            await self._commit(self.run_id, [*events, *news.values()])
        except Exception as problem:
            raise StoreUnavailable(type(problem).__name__) from problem
        self._remember(news)
        return Taken(self._committed(events), highest)

    def _committed(self, events: list[RunEvent]) -> int:
        for event in events:
            status = status_of(event.type)
            if status is not None and is_terminal(status):
                self._last_terminal = max(event.sequence, self._last_terminal or 0)
            if not event.has_payload and event.sequence not in self.coverage:
                known = self.first_partial
                self.first_partial = event.sequence if known is None else min(event.sequence, known)
        new = self.coverage.add(event.sequence for event in events)
        if new:
            self.last_event_at = self._clock.now()
        return new

    def _remember(self, refused: Iterable[bytes]) -> None:
        self._refused.update(dict.fromkeys(refused))
        while len(self._refused) > REMEMBERED_REFUSALS:
            del self._refused[next(iter(self._refused))]
