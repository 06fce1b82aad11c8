"""What a browser's own fields send."""

from __future__ import annotations

from datetime import datetime

from runs.domain.moments import read_timestamp


def read_moment(text: str) -> datetime:
    """A moment as a browser's field gives it, which names no zone: the page says that it is UTC. Raises ValueError."""
    zoned = text if text[-1] in "Zz" or "+" in text or text.count("-") > 2 else f"{text}Z"
    return read_timestamp(zoned if zoned.count(":") > 1 else zoned.replace("Z", ":00Z"))
