"""Runs the demo's workflows on a time that its caller moves. Nothing here waits, and nothing reads a clock."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from random import Random
from typing import Any

from .script import (
    AwaitChild,
    Compact,
    Consolidate,
    Failure,
    Inputs,
    Pause,
    Recall,
    Remember,
    Script,
    StartChild,
    Tell,
    Together,
)
from .workflows import OFTEN, OPENING, WORKFLOWS

TENANT = "acme"
SUMMARIES = "run-summaries"
KEPT_RUNS = 60
KEPT_ENTRIES = 400
ALIVE_AT_MOST = 3
PAUSE_BETWEEN_STARTS = (6.0, 15.0)
"""Seconds."""

TERMINAL = frozenset({"completed", "failed", "cancelled"})

_STATUS_AFTER = {
    "approval.requested": "waiting-approval",
    "approval.received": "running",
}


@dataclass(frozen=True, slots=True)
class Event:
    """In the words of the first major; `at` is seconds since the epoch."""

    event_id: str
    sequence: int
    type: str
    node: str | None
    payload: Mapping[str, Any]
    at: float
    cause: str | None


@dataclass(frozen=True, slots=True)
class Entry:
    """A memory entry. Times are seconds since the epoch."""

    id: str
    content: str
    tags: tuple[str, ...]
    created: float
    expires: float | None


@dataclass(frozen=True, slots=True)
class Fork:
    """What a run that came out of another one is: a replay of it, or a branch that took over what came before."""

    mode: str
    from_sequence: int


@dataclass(slots=True)
class Run:
    run_id: str
    workflow: str
    inputs: Mapping[str, Any]
    started: float
    parent: str | None = None
    parent_node: str | None = None
    fork: Fork | None = None
    status: str = "running"
    ended: float | None = None
    node: str | None = None
    error: Mapping[str, Any] | None = None
    outputs: Mapping[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return self.status in TERMINAL


@dataclass(slots=True)
class _Strand:
    """A script being played. `rest` counts the strands that it waits for."""

    run: Run
    script: Script
    parent: _Strand | None = None
    rest: int = 0


class Engine:
    """`boot` makes the ids of two lives of one host differ; with it, `seed` and the times given, all is determined."""

    def __init__(
        self, *, seed: str, boot: str, now: float, changed: Callable[[str], None] = lambda run_id: None
    ) -> None:
        self.runs: OrderedDict[str, Run] = OrderedDict()
        """In order of their start."""
        self.memory: dict[str, OrderedDict[str, Entry]] = {}
        self._chance = Random(f"{seed}/{boot}")
        self._now = now
        self._changed = changed
        self._strands: list[tuple[float, int, _Strand, Any]] = []
        self._order = count()
        self._awaited: dict[str, list[_Strand]] = {}
        self._index_version = 0
        self._next_start = now + 1.0
        self._opening = list(reversed(OPENING))

    def next_due(self) -> float:
        return min(self._next_start, self._strands[0][0]) if self._strands else self._next_start

    def advance(self, now: float) -> None:
        """Plays everything that is due up to `now`, each at its own time."""
        while self.next_due() <= now:
            if self._next_start <= now and (not self._strands or self._next_start <= self._strands[0][0]):
                self._start_another()
            else:
                at, _, strand, answer = heapq.heappop(self._strands)
                self._now = at
                self._play(strand, answer)
        self._now = now
        self._drop_expired()

    def start(
        self,
        workflow: str,
        inputs: Mapping[str, Any],
        *,
        parent: Run | None = None,
        node: str | None = None,
    ) -> Run:
        """KeyError when there is no such workflow."""
        script = WORKFLOWS[workflow](Inputs(Random(self._chance.getrandbits(64)), inputs))
        run = Run(self._new_id("8-4-4-4-12"), workflow, dict(inputs), self._now)
        if parent is not None:
            run.parent, run.parent_node = parent.run_id, node
        self.runs[run.run_id] = run
        self._forget_old_runs()
        owner = {"tenant": TENANT, "subject": {"kind": "service", "id": "scheduler"}}
        told = {"workflowId": workflow, "inputs": run.inputs, "owner": owner, "transport": "rest"}
        self._tell(run, "run.started", None, told)
        self._later(0.0, _Strand(run, script))
        return run

    def fork(self, source: Run, mode: str, from_sequence: int) -> Run:
        """A replay tells the log of a run that is over again, under the ids that its facts have. A branch takes over
        what came before and plays the workflow from its first node on, as the reference app does."""
        run = Run(self._new_id("8-4-4-4-12"), source.workflow, source.inputs, self._now, parent=source.run_id)
        run.fork = Fork(mode, from_sequence)
        self.runs[run.run_id] = run
        self._forget_old_runs()
        taken_over = source.events if mode == "replay" else source.events[: max(1, from_sequence)]
        for event in taken_over:
            if event.type.removeprefix("run.") in TERMINAL:
                run.status, run.ended = source.status, self._now
                run.outputs, run.error = source.outputs, source.error
            self._tell(run, event.type, event.node, event.payload, event.event_id)
        if mode == "branch":
            script = WORKFLOWS[run.workflow](Inputs(Random(self._chance.getrandbits(64)), run.inputs))
            self._later(0.0, _Strand(run, script))
        return run

    def cancel(self, run: Run, reason: str) -> None:
        if not run.is_over:
            self._end(run, "cancelled", {"reason": reason, "cancelledBy": "user"})

    def entries(self, ref: str) -> list[Entry]:
        """Newest first, without the expired."""
        stored = reversed(self.memory.get(ref, OrderedDict()).values())
        return [entry for entry in stored if entry.expires is None or entry.expires > self._now]

    # --- starting ---

    def _start_another(self) -> None:
        self._now = self._next_start
        self._next_start += round(self._chance.uniform(*PAUSE_BETWEEN_STARTS), 3)
        alive = sum(not run.is_over and run.parent is None for run in self.runs.values())
        if alive >= ALIVE_AT_MOST:
            return
        drawn = self._chance.choices(list(OFTEN), weights=list(OFTEN.values()))[0]
        self.start(self._opening.pop() if self._opening else drawn, {})

    def _forget_old_runs(self) -> None:
        over = [run_id for run_id, run in self.runs.items() if run.is_over]
        for run_id in over[: max(0, len(self.runs) - KEPT_RUNS)]:
            del self.runs[run_id]

    # --- playing ---

    def _later(self, seconds: float, strand: _Strand, answer: Any = None) -> None:
        heapq.heappush(self._strands, (self._now + seconds, next(self._order), strand, answer))

    def _play(self, strand: _Strand, answer: Any) -> None:
        """Plays a strand up to its next wait."""
        run = strand.run
        while not run.is_over:
            try:
                action = strand.script.send(answer)
            except StopIteration as end:
                self._finished(strand, end.value)
                return
            except Failure as failure:
                self._failed(run, failure)
                return
            match action:
                case Pause(seconds):
                    self._later(seconds, strand)
                    return
                case AwaitChild(run_id):
                    child = self.runs.get(run_id)
                    if child is None or child.is_over:
                        answer = child.status if child else "unknown"
                        continue
                    self._awaited.setdefault(run_id, []).append(strand)
                    return
                case Together(scripts):
                    strand.rest = len(scripts)
                    for script in scripts:
                        self._later(0.0, _Strand(run, script, strand))
                    return
                case _:
                    answer = self._do(run, action)

    def _do(self, run: Run, action: object) -> object:
        match action:
            case Tell(kind, node, payload, cause):
                return self._tell(run, kind, node, payload, cause).event_id
            case Remember():
                return self._remember(run, action)
            case Compact():
                return self._compact(run, action)
            case Consolidate():
                self._consolidate(run, action)
                return None
            case Recall(ref, most):
                return [entry.id for entry in self.entries(ref)[:most]]
            case StartChild(workflow, node, inputs):
                return self.start(workflow, inputs, parent=run, node=node).run_id
        raise TypeError(f"no such action: {action!r}")

    def _finished(self, strand: _Strand, outputs: object) -> None:
        if strand.parent is None:
            self._completed(strand.run, outputs if isinstance(outputs, Mapping) else {})
            return
        strand.parent.rest -= 1
        if not strand.parent.rest:
            self._later(0.0, strand.parent)

    def _completed(self, run: Run, outputs: Mapping[str, Any]) -> None:
        run.outputs = outputs
        summary = f"{run.workflow} completed: " + ", ".join(f"{key} {value}" for key, value in outputs.items())
        tags = ("run-summary", f"workflow:{run.workflow}")
        self._remember(run, Remember(SUMMARIES, summary, tags))
        self._end(run, "completed", {"outputs": outputs})

    def _failed(self, run: Run, failure: Failure) -> None:
        run.error = {"code": failure.code, "message": str(failure)}
        self._tell(run, "node.failed", failure.node, {"nodeId": failure.node, "error": run.error, "attempt": 1})
        self._end(run, "failed", {"error": run.error, "failedNodeId": failure.node})

    def _end(self, run: Run, status: str, payload: Mapping[str, Any]) -> None:
        run.status, run.ended = status, self._now
        self._tell(run, f"run.{status}", None, payload)
        for strand in self._awaited.pop(run.run_id, ()):
            self._later(0.0, strand, status)

    def _tell(
        self, run: Run, kind: str, node: str | None, payload: Mapping[str, Any], cause: str | None = None
    ) -> Event:
        event = Event(self._new_id("8-4-4-4-12"), len(run.events), kind, node, dict(payload), self._now, cause)
        run.events.append(event)
        run.node = node or run.node
        if not run.is_over:
            run.status = _STATUS_AFTER.get(kind, run.status)
        self._changed(run.run_id)
        return event

    # --- memory ---

    def _remember(self, run: Run, action: Remember) -> str:
        tags = (*action.tags, f"run-id:{run.run_id}", *((f"node:{action.node}",) if action.node else ()))
        entry = self._store(action.ref, action.content, tags, action.keep)
        payload: dict[str, Any] = {"memoryRef": action.ref, "memoryId": entry.id, "tags": list(tags)}
        payload |= {"nodeId": action.node} if action.node else {}
        payload |= {"agentId": action.agent} if action.agent else {}
        self._tell(run, "memory.written", action.node, payload)
        return entry.id

    def _store(self, ref: str, content: str, tags: tuple[str, ...], keep: float | None = None) -> Entry:
        entry = Entry(self._new_id("mem_8-3"), content, tags, self._now, None if keep is None else self._now + keep)
        entries = self.memory.setdefault(ref, OrderedDict())
        entries[entry.id] = entry
        while sum(map(len, self.memory.values())) > KEPT_ENTRIES:
            max(self.memory.values(), key=len).popitem(last=False)
        return entry

    def _compact(self, run: Run, action: Compact) -> list[str]:
        # What expires is left to expire: folded into an entry that lasts, it would outlive its time.
        stored = reversed(self.entries(action.ref))
        sources = [entry for entry in stored if "compacted" not in entry.tags and entry.expires is None]
        sources = sources[: action.most]
        if len(sources) < 2:
            return []
        content = "\n".join(dict.fromkeys(source.content for source in sources))
        ids = [source.id for source in sources]
        budget, size = 2000, len(content.encode())
        tags = ("compacted", *(f"compacted-from:{source}" for source in ids), f"run-id:{run.run_id}")
        for source in ids:
            del self.memory[action.ref][source]
        output = self._store(action.ref, content, tags)
        self._tell(
            run,
            "memory.compacted",
            action.node,
            {
                "memoryRef": action.ref,
                "outputId": output.id,
                "sourceIds": ids,
                "sourceCount": len(ids),
                "trigger": "host-managed",
                "byteSize": size,
                "distillation": {"tokenBudget": budget, "tokensUsed": min(budget, size // 4), "indexUpdated": True},
            },
        )
        self._index_version += 1
        self._tell(run, "workspace.updated", action.node, {"path": "MEMORY-INDEX.json", "version": self._index_version})
        return ids

    def _consolidate(self, run: Run, action: Consolidate) -> None:
        by_content: dict[str, list[str]] = {}
        entries = self.entries(action.ref)
        for entry in entries:
            by_content.setdefault(entry.content, []).append(entry.id)
        merged = [memory_id for ids in by_content.values() for memory_id in ids[1:]]
        for memory_id in merged:
            del self.memory[action.ref][memory_id]
        payload = {"memoryRef": action.ref, "inputCount": len(entries), "outputCount": len(entries) - len(merged)}
        self._tell(
            run,
            "agent.memory.consolidated",
            action.node,
            {**payload, "mergedIds": merged, "trigger": "scheduled"},
        )

    def _drop_expired(self) -> None:
        for entries in self.memory.values():
            for entry in [entry for entry in entries.values() if entry.expires and entry.expires <= self._now]:
                del entries[entry.id]

    def _new_id(self, shape: str) -> str:
        """`mem_8-3` is `mem_`, eight hex digits, a hyphen and three."""
        prefix, _, lengths = shape.rpartition("_")
        parts = (f"{self._chance.getrandbits(4 * int(n)):0{n}x}" for n in lengths.split("-"))
        return (f"{prefix}_" if prefix else "") + "-".join(parts)


def moment(at: float) -> str:
    """RFC 3339, UTC, milliseconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
