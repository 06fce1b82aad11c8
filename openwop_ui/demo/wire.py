"""The demo host's values in the words of both majors of the protocol."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from .engine import TENANT, Engine, Entry, Event, Fork, Run, moment

VERSIONS = ("1.1", "2.0")
NAME = "openwop-demo-host"

TYPES_IN_2: Mapping[str, str] = MappingProxyType(
    {
        "agent.toolCalled": "agent.tool-called",
        "agent.toolReturned": "agent.tool-returned",
        "agent.invocation.started": "agent.invocation-started",
        "agent.invocation.completed": "agent.invocation-completed",
        "agent.memory.consolidated": "agent.memory-consolidated",
        "core.dispatch.fanOut": "dispatch.fanned-out",
        "core.dispatch.join": "dispatch.joined",
    }
)
"""Of the types that this host tells; the others are the same in both majors."""

NOT_IN_UPDATES = frozenset({"node.started", "node.retried"})


def as_json(body: object) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def run_id(major: int, run: str) -> str:
    """The second major binds a run's id to its tenant."""
    return f"{TENANT}/{run}" if major >= 2 else run


def projected(identifier: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", lambda found: "".join(f"~{byte:02X}" for byte in found[0].encode()), identifier)


def event(major: int, run: Run, told: Event) -> dict[str, Any]:
    body: dict[str, Any] = {
        "eventId": told.event_id,
        "runId": run_id(major, run.run_id),
        "sequence": told.sequence,
        "type": event_type(major, told),
        "payload": _payload(major, told.payload),
        "timestamp": moment(told.at),
    }
    body |= {"nodeId": told.node} if told.node else {}
    body |= {"causationId": told.cause} if told.cause else {}
    return body | ({"schemaVersion": 1} if major >= 2 else {})


def event_type(major: int, told: Event) -> str:
    return TYPES_IN_2.get(told.type, told.type) if major >= 2 else told.type


def _payload(major: int, payload: Mapping[str, Any]) -> dict[str, Any]:
    outputs = payload.get("outputs")
    if major < 2 or not isinstance(outputs, Mapping) or "childRunId" not in outputs:
        return dict(payload)
    return {**payload, "outputs": {**outputs, "childRunId": run_id(major, outputs["childRunId"])}}


def snapshot(major: int, run: Run) -> dict[str, Any]:
    body: dict[str, Any] = {
        "runId": run_id(major, run.run_id),
        "workflowId": run.workflow,
        "status": run.status,
    }
    body |= {"currentNodeId": run.node} if run.node and not run.is_over else {}
    body |= {"error": run.error} if run.error else {}
    if major >= 2:
        owner = {"tenant": TENANT, "subject": {"kind": "service", "id": "scheduler"}}
        body |= {"parentRunId": run_id(major, run.parent)} if run.parent and run.fork else {}
        return body | {"owner": owner, "eventLogSchemaVersion": 3}
    body |= {"inputs": run.inputs, "variables": run.outputs, "startedAt": moment(run.started)}
    body |= {"completedAt": moment(run.ended)} if run.ended else {}
    if run.fork:
        return body | {"parentRunId": run.parent, "parentSeq": run.fork.from_sequence, "forkMode": run.fork.mode}
    return body | ({"parentRunId": run.parent, "parentNodeId": run.parent_node} if run.parent else {})


def ancestry(major: int, run: Run) -> dict[str, Any]:
    """A fork has no caller: its source is in the snapshot."""
    called = run.parent if run.parent and not run.fork else None
    parent = {"runId": run_id(major, called), "hostId": NAME, "cause": "core.subWorkflow"} if called else None
    return {"runId": run_id(major, run.run_id), "hostId": NAME, "parent": parent}


def forked(major: int, run: Run, fork: Fork) -> dict[str, Any]:
    """The answer to a fork."""
    base = ("" if major >= 2 else "/v1") + f"/runs/{projected(run_id(major, run.run_id))}"
    told = {"runId": run_id(major, run.run_id), "sourceRunId": run_id(major, run.parent or "")}
    return told | {
        "fromSeq": fork.from_sequence,
        "mode": fork.mode,
        "status": run.status,
        "eventsUrl": f"{base}/events",
    }


def entry(stored: Entry) -> dict[str, Any]:
    body = {
        "id": stored.id,
        "content": stored.content,
        "tags": list(stored.tags),
        "createdAt": moment(stored.created),
    }
    return body | ({"expiresAt": moment(stored.expires)} if stored.expires else {})


def entries(engine: Engine, ref: str, *, tag: str | None, limit: int) -> dict[str, Any]:
    """A limit of 0 is none."""
    found = [stored for stored in engine.entries(ref) if tag is None or tag in stored.tags]
    return {"memoryRef": ref, "entries": [entry(stored) for stored in (found[:limit] if limit else found)]}


def discovery(major: int) -> dict[str, Any]:
    """Without webhooks: what this host tells is read from it."""
    implementation = {"name": NAME, "version": "1.0.0", "vendor": "openwop-ui"}
    root = {
        "protocolVersion": VERSIONS[0],
        "protocolVersions": list(VERSIONS),
        "preferredVersion": VERSIONS[0],
        "implementation": implementation,
        "supportedTransports": ["rest", "sse"],
    }
    if major >= 2:
        return root | _records()
    return root | {
        "supportedEnvelopes": [],
        "schemaVersions": {},
        "limits": {"maxNodeExecutions": 1000, "maxRunDurationMs": 600_000},
        "stream": {"modes": ["updates", "debug"]},
        "replay": {"supported": True, "modes": ["replay", "branch"]},
        "memory": {
            "supported": True,
            "writable": False,
            "ttlSupported": True,
            "compaction": {"supported": True, "trigger": "host-managed"},
            "attribution": {"supported": True, "emitsWriteEvents": True},
        },
        "agents": {"memoryConsolidation": {"supported": True}},
    }


def _records() -> dict[str, Any]:
    """The second major's capability records: a family that is there has a status."""
    stable = {"status": "stable", "since": "2.0", "witness": "none"}
    return {
        "runList": {**stable, "facets": {"maxPageSize": 100}},
        "replay": {**stable, "facets": {"modes": ["replay", "branch"]}},
        "memory": {
            **stable,
            "facets": {
                "writable": False,
                "retention": {"ttl": True},
                "compaction": {"trigger": "host-managed"},
                "attribution": {"emitsWriteEvents": True},
            },
        },
        "agents": {**stable, "facets": {"memoryConsolidation": True}},
        "eventLogSchemaVersion": 3,
        "engineVersion": 1,
    }
