"""What a demo workflow can do, one action after another. Plain values: nothing happens until an engine acts on them."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

Payload = Mapping[str, Any]

SLOWED = 1.8


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class Tell:
    """An event. The script gets its event id back, to name it as a cause later."""

    type: str
    node: str | None = None
    payload: Payload = field(default_factory=dict)
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class Remember:
    """Writes a memory entry and tells it. The script gets the entry's id back. `keep` is its lifetime in seconds."""

    ref: str
    content: str
    tags: tuple[str, ...] = ()
    node: str | None = None
    agent: str | None = None
    keep: float | None = None


@dataclass(frozen=True, slots=True)
class Compact:
    """Replaces the oldest entries of a ref by one and tells it. The script gets the ids of the sources back, which
    may be none."""

    ref: str
    node: str
    most: int = 6


@dataclass(frozen=True, slots=True)
class Consolidate:
    """Merges entries of a ref and tells it, when there is anything to merge."""

    ref: str
    node: str


@dataclass(frozen=True, slots=True)
class Recall:
    """The script gets up to `most` of the newest ids of a ref back. Reading is no event."""

    ref: str
    most: int = 3


@dataclass(frozen=True, slots=True)
class StartChild:
    """Starts a sub-workflow. The script gets the child's run id back."""

    workflow: str
    node: str
    inputs: Payload = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AwaitChild:
    """Waits for a child's end. The script gets its status back."""

    run_id: str


@dataclass(frozen=True, slots=True)
class Together:
    """Runs scripts beside each other until all have ended."""

    scripts: tuple[Script, ...]


Action = Pause | Tell | Remember | Compact | Consolidate | Recall | StartChild | AwaitChild | Together
Script = Generator[Action, Any, Any]


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a script is given: its chance, and the inputs of its run."""

    chance: Random
    given: Payload

    def work(self, least: float, most: float) -> Pause:
        """As long as such work takes, in seconds, slowed down so that a run can be watched."""
        return Pause(round(self.chance.uniform(least, most) * SLOWED, 3))

    def between(self, least: float, most: float) -> Pause:
        return Pause(round(self.chance.uniform(least, most), 3))


class Failure(Exception):
    """Ends a run as failed."""

    def __init__(self, node: str, code: str, message: str) -> None:
        super().__init__(message)
        self.node = node
        self.code = code
