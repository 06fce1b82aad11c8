"""Items in the parts in which they are stored, each of them read while the one before it is stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Thread

from ..domain.event import Refusal, RunEvent

BATCH_EVENTS = 10_000
BATCH_CHARACTERS = 8 * 1024 * 1024
"""A batch ends with the first event that takes it over either: big enough for set-based SQL, small enough for RAM."""


@dataclass(slots=True)
class Batch:
    """What is stored in one transaction. Behind one that ``is_full`` there may be more."""

    events: list[RunEvent] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    is_full: bool = False


def batches(items: Iterable[RunEvent | Refusal]) -> Iterator[Batch]:
    """The last one is not full, and may be empty."""
    batch = Batch()
    events, room = batch.events, BATCH_CHARACTERS
    left = BATCH_EVENTS
    for item in items:
        if isinstance(item, Refusal):
            batch.refused.append(item)
        else:
            events.append(item)
            room -= len(item.body)
        left -= 1
        if not left or room <= 0:
            batch.is_full = True
            yield batch
            batch = Batch()
            events, room, left = batch.events, BATCH_CHARACTERS, BATCH_EVENTS
    yield batch


def read_ahead(parts: Iterator[Batch]) -> Iterator[Batch]:
    """The same ones. While one is stored the next one is read, in a thread: PostgreSQL and we work side by side."""
    batch: Batch | None = next(parts)
    while batch is not None:
        if not batch.is_full:
            yield batch
            return
        following: Future[Batch | None] = Future()
        # A daemon: whoever gives up does not wait for a client who may never send the rest.
        Thread(target=_read_one, args=(parts, following), name="intake", daemon=True).start()
        yield batch
        batch = following.result()


def _read_one(parts: Iterator[Batch], told: Future[Batch | None]) -> None:
    try:
        told.set_result(next(parts, None))
    except BaseException as problem:
        told.set_exception(problem)
