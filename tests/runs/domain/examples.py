"""Made-up events and the recorded ones."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from runs.domain.event import Refusal, RunEvent
from runs.domain.folding import Lifecycle
from runs.domain.normalise import read_event

RECORDINGS = Path(__file__).resolve().parents[2] / "fixtures" / "recordings"
START = datetime(2026, 11, 29, 19, 0, tzinfo=UTC)


def event(**members: Any) -> dict[str, Any]:
    """An event of the first major; a member given as `...` is left out."""
    told = {
        "eventId": "7d7abf9a-ba0a-49a5-af96-9db1f865054b",
        "runId": "run-1",
        "sequence": 7,
        "type": "node.completed",
        "nodeId": "research",
        "payload": {"outputs": {"pages": 3}},
        "timestamp": "2026-11-29T19:00:03.677Z",
        **members,
    }
    return {name: value for name, value in told.items() if value is not ...}


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def taken(raw: bytes | str, **options: Any) -> RunEvent:
    item = read_event(raw, index=0, **options)
    assert isinstance(item, RunEvent), item
    return item


def refused(raw: bytes | str, **options: Any) -> Refusal:
    item = read_event(raw, index=0, **options)
    assert isinstance(item, Refusal), item
    return item


def step(sequence: int, type: str, **detail: Any) -> Lifecycle:
    return Lifecycle(sequence, type, START + timedelta(seconds=sequence), detail or None)


def recorded(name: str = "*.ndjson") -> list[Path]:
    return sorted(RECORDINGS.rglob(name))
