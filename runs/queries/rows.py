"""The shapes in which runs, hosts and incidents are shown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Option:
    """One choice of a filter; ``count`` is how many rows it would leave, where that is known."""

    value: str
    label: str
    count: int | None = None


@dataclass(frozen=True, slots=True)
class RunRow:
    """``missing`` counts the sequences between the first and the last that are not stored; the gaps that these make are
    not counted among the ``incidents`` once more."""

    key: str
    host: str
    run_id: str
    workflow: str | None
    status: str
    started_at: datetime | None
    ended_at: datetime | None
    last_at: datetime | None
    received_at: datetime | None
    events: int
    missing: int
    nodes: int | None
    writes: int
    incidents: int


@dataclass(frozen=True, slots=True)
class HostRow:
    """``state`` is following, reconnecting, failing, paused, idle, or delivers for a host without an origin."""

    key: str
    slug: str
    name: str
    origin: str | None
    major: int | None
    state: str
    detail: str
    runs: int
    events: int
    writes: int
    attributed: int | None
    leaking: bool
    incidents: int
    received_at: datetime | None
    lists_runs: bool | None


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """``text`` says what was seen, ``done`` what was done about it. ``at`` is when it was noticed; None for something
    that stands, like an open gap. ``closed_at`` is when the log no longer bore it out."""

    kind: str
    text: str
    host: str | None
    run_id: str | None
    sequence: int | None
    at: datetime | None
    key: str = ""
    done: str = ""
    closed_at: datetime | None = None


def percent(part: int, whole: int) -> int | None:
    """Rounded down, so that 100 means all of them; None of none."""
    return part * 100 // whole if whole else None
