"""The provenance chain as REST and MCP tell it: one mapping of fields, so that all surfaces say the same."""

from __future__ import annotations

from typing import Any

from runs.domain.projection import project

from .domain.chain import Chain, Fact, Happening, Link, Origin, Placed, Proposal, Section, Version


def told(chain: Chain) -> dict[str, Any]:
    """``{id, kind, lineage, events, proposals, facts, run}``; each section is ``{items, truncated}``."""
    return {
        "id": str(chain.id),
        "kind": chain.kind.value,
        "lineage": {
            **_section(chain.lineage.nodes, _node),
            "edges": _section(chain.lineage.edges, _edge),
        },
        "events": _section(chain.events, _event),
        "proposals": _section(chain.proposals, _proposal),
        "facts": _section(chain.facts, _fact),
        **_run(chain.run),
    }


def _section(section: Section[Any], item: Any) -> dict[str, Any]:
    return {"items": [item(one) for one in section.items], "truncated": section.truncated}


def _version(version: Version) -> dict[str, Any]:
    return {"id": str(version.id), "version": version.number or None}


def _node(placed: Placed) -> dict[str, Any]:
    node = placed.node
    return {
        **_version(node.version),
        "kind": node.kind.value,
        "depth": placed.depth,
        "host": node.host,
        "memoryRef": node.memory_ref,
        "memoryId": node.memory_id,
        "writer": node.writer,
        "createdAt": node.created_at,
        **_run(node.origin),
    }


def _edge(link: Link) -> dict[str, Any]:
    return {
        "from": _version(link.predecessor.version),
        "to": _version(link.successor),
        "relation": link.relation.value,
        "recordedAt": link.recorded_at,
    }


def _run(origin: Origin | None) -> dict[str, Any]:
    """``run`` is null when the caller has no such run; ``runId`` is what was recorded all the same."""
    if origin is None:
        return {"runId": None, "run": None}
    run = {
        "host": origin.host,
        "runId": origin.run_id,
        "path": f"{origin.host}/{project(origin.run_id or '')}",
        "sequence": origin.sequence,
        "nodeId": origin.node_id,
        "agentId": origin.agent_id,
    }
    return {"runId": origin.run_id, "run": run if origin.is_known else None}


def _event(one: Happening) -> dict[str, Any]:
    return {
        "kind": one.kind.value,
        "at": one.at,
        "receivedAt": one.received_at,
        **_run(one.origin),
        "eventId": one.event_id,
        "sourceEventId": None if one.source_event_id is None else str(one.source_event_id),
        "writer": one.writer,
        "actor": one.actor,
        "payloadHash": one.payload_hash,
    }


def _proposal(one: Proposal) -> dict[str, Any]:
    return {
        "conflictId": str(one.conflict_id),
        "state": one.state,
        "openedAt": one.opened_at,
        "rule": one.rule,
        "policy": one.policy,
        "decisionId": None if one.decision_id is None else str(one.decision_id),
        "outcome": one.outcome,
        "actor": one.actor,
        "decidedAt": one.decided_at,
        "undone": one.was_undone,
        "follows": None if one.follows is None else str(one.follows),
    }


def _fact(one: Fact) -> dict[str, Any]:
    return {"id": str(one.id), "status": one.status, "writer": one.writer, "observedAt": one.observed_at}
