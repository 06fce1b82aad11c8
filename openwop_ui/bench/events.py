"""Made-up events of a believable mix: 20 events a node visit, one of them a memory write, about 330 bytes each."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import orjson

MOMENT = datetime(2026, 11, 29, 12, tzinfo=UTC)
_NAMES = uuid.UUID("6f2f8f44-5b2f-4a4e-9d3b-0c7d3f1d6a10")
_VISIT = 20
"""Events from a node's start to its end."""


@dataclass(frozen=True, slots=True)
class Shape:
    """``boot`` makes the run ids of one benchmark its own."""

    boot: str
    runs: int
    events: int

    def run_id(self, run: int) -> str:
        return f"run-{uuid.uuid5(_NAMES, f'{self.boot} {run}')}"


def events(shape: Shape) -> Iterator[bytes]:
    """The runs' events in turn, each run's in order of sequence from 0."""
    ids = [shape.run_id(run) for run in range(shape.runs)]
    for place in range(shape.events):
        run, sequence = place % shape.runs, place // shape.runs
        yield event(ids[run], sequence, place)


def event(run_id: str, sequence: int, place: int, *, at: datetime | None = None) -> bytes:
    """Without ``at``, the event's time follows from its place."""
    node = f"step-{sequence // _VISIT % 40:02d}"
    type_, payload = _said(run_id, sequence, node, place)
    moment = at or MOMENT + timedelta(milliseconds=place)
    return orjson.dumps(
        {
            "eventId": f"{place:08x}-5b2f-4a4e-9d3b-{sequence:012x}",
            "runId": run_id,
            "sequence": sequence,
            "type": type_,
            **({} if type_.startswith("run.") else {"nodeId": node}),
            "payload": payload,
            "timestamp": moment.isoformat(timespec="microseconds" if at else "milliseconds").replace("+00:00", "Z"),
        }
    )


def _said(run_id: str, sequence: int, node: str, place: int) -> tuple[str, dict[str, object]]:
    if sequence == 0:
        return "run.started", {"workflowId": "bench.ingest", "inputs": {"note": "n" * 90}}
    match sequence % _VISIT:
        case 1:
            return "node.started", {"attempt": 1, "typeId": "bench.step", "note": "s" * 80}
        case 10:
            return "memory.written", {
                "memoryRef": "agent:bench:notes",
                "memoryId": f"mem_{place:012x}",
                "nodeId": node,
                "agentId": "bench-agent",
                "tags": ["bench", f"run-id:{run_id}"],
            }
        case 19:
            return "node.completed", {"durationMs": 18, "outputs": {"text": "o" * 80}}
        case 4 | 5:
            kind = "agent.toolCalled" if sequence % _VISIT == 4 else "agent.toolReturned"
            return kind, {"agentId": "bench-agent", "toolName": "search", "callId": f"c{place}", "note": "t" * 50}
    return "log.appended", {"level": "info", "message": "m" * 110}
