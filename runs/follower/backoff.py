"""How long to wait before asking a host again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

CAP = 30.0
"""Longest pause of our own choosing, seconds."""

FIRST = 0.5
"""Upper end of the first pause, seconds."""

LONGEST_ASKED = 3600.0
"""What a host asks for beyond this is cut to it, seconds."""


class Backoff:
    """Doubling pauses with full jitter: each is drawn evenly from nothing to its upper end."""

    def __init__(self, random: Callable[[], float], *, first: float = FIRST, cap: float = CAP) -> None:
        self._random = random
        self._first = first
        self._cap = cap
        self.failures = 0

    def failed(self, *, asked: float | None = None) -> float:
        """Seconds to wait after one more failure; at least what the host asked for."""
        # The exponent is bounded before the power, which would overflow a float after a thousand failures.
        upper = min(self._cap, self._first * 2.0 ** min(self.failures, 16))
        self.failures += 1
        return max(self._random() * upper, min(asked or 0.0, LONGEST_ASKED))

    def succeeded(self) -> None:
        self.failures = 0


def retry_after(headers: Mapping[str, str], body: object, *, now: datetime) -> float | None:
    """Seconds a host asks to wait: `Retry-After` as seconds or as a date (RFC 9110 section 10.2.3), else the first
    major's `details.retryAfterMs`. None when it does not say, or says it in a way that makes no sense."""
    given = headers.get("retry-after", "").strip()
    if given:
        return _seconds(given) if given.isascii() and given.isdigit() else _until(given, now)
    return _milliseconds(body)


def _seconds(given: str) -> float:
    return min(float(given[:12]), LONGEST_ASKED)


def _until(given: str, now: datetime) -> float | None:
    try:
        at = parsedate_to_datetime(given)
    except ValueError:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max(0.0, (at - now).total_seconds())


def _milliseconds(body: object) -> float | None:
    details = body.get("details") if isinstance(body, dict) else None
    asked = details.get("retryAfterMs") if isinstance(details, dict) else None
    if isinstance(asked, bool) or not isinstance(asked, int | float) or not 0 <= asked < float("inf"):
        return None
    return asked / 1000
