"""Words for events: what kind one is, how it ended, and one short line of what it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

Kind = Literal["run", "node", "agent", "memory", "wait", "replay", "other"]
Outcome = Literal["", "ok", "fail", "wait", "live", "cancelled"]

KIND_PREFIXES: Mapping[Kind, tuple[str, ...]] = {
    # The first kind with a matching prefix is the event's: memory before agent, waits before nodes.
    "memory": ("memory.", "agent.memory.", "commitment."),
    "wait": (
        "approval.",
        "clarification.",
        "interrupt.",
        "node.interrupt.",
        "node.suspended",
        "node.resumed",
        "conversation.",
    ),
    "replay": ("replay.",),
    "run": ("run.", "runOrchestrator."),
    "node": ("node.",),
    "agent": ("agent.", "tool.", "ai.", "model."),
}
KINDS: tuple[Kind, ...] = ("run", "node", "agent", "memory", "wait", "replay", "other")

_ENDINGS: Mapping[str, Outcome] = {
    "completed": "ok",
    "failed": "fail",
    "dead_lettered": "fail",
    "cancelled": "cancelled",
    "suspended": "wait",
    "requested": "wait",
    "started": "live",
}


def kind_of(type: str) -> Kind:
    for kind, prefixes in KIND_PREFIXES.items():
        if type.startswith(prefixes):
            return kind
    return "other"


def outcome_of(type: str) -> Outcome:
    """The status that the event itself says a run or node has; "" for an event that says none."""
    family, _, ending = type.rpartition(".")
    if family in ("run", "node") or type in ("approval.requested", "clarification.requested"):
        return _ENDINGS.get(ending, "")
    return ""


def detail_of(type: str, payload: Any) -> str:
    """One line for a list of events; "" where the payload says nothing short."""
    if not isinstance(payload, Mapping):
        return ""
    for prefix, read in _DETAILS:
        if type.startswith(prefix):
            return _short(read(payload))
    return ""


def error_of(payload: Any) -> str:
    """The short code of a failure: ``error.code``, ``code``, or ``error`` itself (hosts differ)."""
    if not isinstance(payload, Mapping):
        return ""
    error = payload.get("error")
    if isinstance(error, Mapping):
        return _text(error.get("code")) or _text(error.get("message"))
    return _text(payload.get("code")) or _text(error) or _text(payload.get("message"))


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return ""
    return value if isinstance(value, str) else str(value) if isinstance(value, int | float) else ""


def _short(text: str, longest: int = 120) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def _joined(*parts: str) -> str:
    return " · ".join(part for part in parts if part)


def _tool_called(payload: Mapping[str, Any]) -> str:
    call = _text(payload.get("callId"))
    return _joined(_text(payload.get("toolName")), f"call {call}" if call else "")


def _tool_returned(payload: Mapping[str, Any]) -> str:
    status = _text(payload.get("status")) or ("error" if payload.get("error") else "")
    return _joined(_text(payload.get("toolName")), status, _milliseconds(payload))


def _milliseconds(payload: Mapping[str, Any]) -> str:
    duration = payload.get("durationMs")
    return f"{duration:,} ms" if isinstance(duration, int | float) and not isinstance(duration, bool) else ""


def _started(payload: Mapping[str, Any]) -> str:
    attempt = _text(payload.get("attempt"))
    return _joined(_text(payload.get("typeId")), f"attempt {attempt}" if attempt else "")


def _compacted(payload: Mapping[str, Any]) -> str:
    count = _text(payload.get("sourceCount"))
    return _joined(_text(payload.get("outputId")), f"from {count}" if count else "")


def _consolidated(payload: Mapping[str, Any]) -> str:
    before, after = _text(payload.get("inputCount")), _text(payload.get("outputCount"))
    return f"{before} to {after}" if before and after else ""


_DETAILS: tuple[tuple[str, Callable[[Mapping[str, Any]], str]], ...] = (
    ("memory.written", lambda p: _text(p.get("memoryId"))),
    ("memory.compacted", _compacted),
    ("agent.memory.consolidated", _consolidated),
    ("commitment.fired", lambda p: _text(p.get("commitmentId"))),
    ("run.started", lambda p: _text(p.get("workflowId"))),
    ("run.failed", error_of),
    ("run.cancelled", lambda p: _text(p.get("reason"))),
    ("run.resum", lambda p: _text(p.get("resumedAtNode"))),
    ("node.failed", error_of),
    ("node.completed", _milliseconds),
    ("node.dispatched", lambda p: _text(p.get("childRunId"))),
    ("node.suspended", lambda p: _text(p.get("kind"))),
    ("node.interrupt", lambda p: _text(p.get("kind"))),
    ("node.started", _started),
    ("approval.", lambda p: _text(p.get("decision")) or _text(p.get("title")) or _text(p.get("action"))),
    ("agent.toolCalled", _tool_called),
    ("agent.toolReturned", _tool_returned),
    ("agent.handoff", lambda p: _joined(_text(p.get("fromAgentId")), _text(p.get("toAgentId")))),
    ("agent.", lambda p: _text(p.get("agentId"))),
    ("proposal.", lambda p: _joined(_text(p.get("kind")), _text(p.get("proposalId")))),
    ("workspace.updated", lambda p: _text(p.get("path"))),
    ("replay.", lambda p: _text(p.get("divergenceKind"))),
)
