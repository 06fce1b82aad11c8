"""What a run's events add up to. Adding is commutative: order of arrival and cutting into batches do not matter."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

import orjson

from .event import RunEvent
from .folding import STATUS_TYPES, Lifecycle, RunStatus, StatusAt, is_terminal, later_status

FIRST_SEQUENCES = (0, 1)
"""A log begins at 0; some hosts begin at 1. A lowest sequence above these means that the beginning is missing."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """``status`` is the earliest terminal one by sequence, else the latest one (a terminal status never goes back)."""

    workflow_id: str = ""
    status: str = "pending"
    status_sequence: int = -1
    status_is_terminal: bool = False
    started_at: datetime | None = None
    started_sequence: int | None = None
    ended_at: datetime | None = None
    first_sequence: int | None = None
    last_sequence: int = -1
    event_count: int = 0
    write_count: int = 0
    attributed_count: int = 0
    """Writes that name the node they were made by."""

    def adding(self, events: Sequence[RunEvent]) -> RunSummary:
        """With events that were not added before."""
        if not events:
            return self
        sequences = [event.sequence for event in events]
        lowest = min(sequences)
        writes = [event for event in events if event.type == "memory.written"]
        summed = replace(
            self,
            first_sequence=lowest if self.first_sequence is None else min(self.first_sequence, lowest),
            last_sequence=max(self.last_sequence, *sequences),
            event_count=self.event_count + len(events),
            write_count=self.write_count + len(writes),
            attributed_count=self.attributed_count + sum(event.node_id is not None for event in writes),
        )
        for event in events:
            if event.type in STATUS_TYPES:
                summed = summed._with_status_of(event)
        return summed

    def _with_status_of(self, event: RunEvent) -> RunSummary:
        told = self
        if event.type == "run.started" and (told.started_sequence is None or event.sequence < told.started_sequence):
            told = replace(
                told,
                started_at=event.timestamp,
                started_sequence=event.sequence,
                workflow_id=_workflow_id(event),
            )
        known = StatusAt(cast(RunStatus, told.status), told.status_sequence) if told.status_sequence >= 0 else None
        latest = later_status(known, Lifecycle(event.sequence, event.type, event.timestamp, detail_for(event)))
        if latest is None or latest == known:
            return told
        ends = is_terminal(latest.status)
        return replace(
            told,
            status=latest.status,
            status_sequence=latest.sequence,
            status_is_terminal=ends,
            ended_at=event.timestamp if ends else None,
        )


_TELLING = ("suspended", "requested", "failed", "retried")
"""Endings of the types whose payload matters to folding: what is waited for, what went wrong."""


def detail_for(event: RunEvent) -> Mapping[str, object] | None:
    return lifecycle_detail(event.type, event.body)


def lifecycle_detail(type: str, body: str) -> Mapping[str, object] | None:
    """The payload of an event, where folding looks at it."""
    if not type.endswith(_TELLING):
        return None
    payload = payload_of(body)
    return payload if isinstance(payload, dict) else None


def payload_of(body: str) -> Any:
    """The payload of a stored event, for reading names and codes in it; numbers beyond 64 bits are not exact here."""
    try:
        event = orjson.loads(body)
    except orjson.JSONDecodeError:
        # It refuses lone surrogates and numbers that are infinite for it, which the log takes.
        event = json.loads(body, parse_int=_whole_number)
    payload = event.get("payload")
    return event.get("data") if payload is None else payload


def _whole_number(digits: str) -> int | float:
    return int(digits) if len(digits) < 20 else float(digits)


def _workflow_id(event: RunEvent) -> str:
    payload = payload_of(event.body)
    named = payload.get("workflowId") if isinstance(payload, dict) else None
    return named if isinstance(named, str) else ""


def contiguous_after(*, through: int, first: int | None, last: int, added: Iterable[int]) -> int | None:
    """How far the log reaches without a gap once ``added`` sequences, all new, are in.

    ``through`` is how far it reached before; ``first`` and ``last`` are the ends of the log, ``added`` included.
    None means that the log has to be asked: what was waiting behind a gap may follow on now.
    """
    if first is None or first not in FIRST_SEQUENCES:
        return -1
    ordered = sorted(added)
    next_one = max(through + 1, first)
    if not ordered or ordered[0] > next_one:
        return through
    if ordered[0] == next_one and ordered[-1] == last and last - next_one == len(ordered) - 1:
        return last
    return None
