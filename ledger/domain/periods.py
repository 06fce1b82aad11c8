"""When something is true: half-open spans of time, `[start, end)`, either end of which may be open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from ledger.domain.errors import LedgerError


class PeriodError(LedgerError):
    """A bound without a zone, or an end that is not after its start."""


def aware(moment: datetime, field: str) -> datetime:
    """`moment` itself; a time without a zone names no instant and is refused."""
    if moment.utcoffset() is None:
        raise PeriodError(f"{field} has no time zone", field=field)
    return moment


@dataclass(frozen=True, slots=True)
class Period:
    """`start` is in, `end` is out; None leaves that side open."""

    start: datetime | None = None
    end: datetime | None = None

    def __post_init__(self) -> None:
        if self.start is not None:
            aware(self.start, "valid_from")
        if self.end is not None:
            aware(self.end, "valid_to")
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise PeriodError("valid_to is not after valid_from", field="valid_to")

    def overlaps(self, other: Period) -> bool:
        return _before(self.start, other.end) and _before(other.start, self.end)

    def contains(self, moment: datetime) -> bool:
        return (self.start is None or self.start <= moment) and _before(moment, self.end)

    def covers(self, other: Period) -> bool:
        starts = self.start is None or (other.start is not None and self.start <= other.start)
        return starts and (self.end is None or (other.end is not None and other.end <= self.end))


ALWAYS = Period()


def _before(start: datetime | None, end: datetime | None) -> bool:
    return start is None or end is None or start < end


def hull(periods: Iterable[Period]) -> Period:
    """The shortest period that covers all of them; ALWAYS for none."""
    known = list(periods)
    starts = [period.start for period in known]
    ends = [period.end for period in known]
    return Period(
        min((start for start in starts if start is not None), default=None) if None not in starts else None,
        max((end for end in ends if end is not None), default=None) if None not in ends else None,
    )


def pieces(periods: Iterable[Period]) -> list[Period]:
    """The line of time cut at every bound: within one piece, the same periods hold throughout. Earliest first."""
    bounds = {bound for period in periods for bound in (period.start, period.end) if bound is not None}
    cuts = [None, *sorted(bounds), None]
    return [Period(start, end) for start, end in pairwise(cuts)]
