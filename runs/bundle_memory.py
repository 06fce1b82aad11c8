"""Offers the memory entries that a debug bundle holds to whoever keeps such things: this app does not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from .domain.bundle import BundleFacts
from .domain.bundle_memory import FoundEntry
from .store import HostRef

Listener = Callable[[HostRef, str, tuple[FoundEntry, ...], datetime | None], None]
"""Called with the run and when the bundle says it was made, once the bundle's events are committed."""

_listeners: list[Listener] = []


def listen(listener: Listener) -> None:
    if listener not in _listeners:
        _listeners.append(listener)


def offer(host: HostRef, run_id: str, facts: BundleFacts) -> None:
    if facts.memory:
        for listener in _listeners:
            listener(host, run_id, facts.memory, facts.generated_at)
