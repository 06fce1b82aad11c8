"""Conflicts, their changes and decisions as REST and MCP tell them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from typing_extensions import TypedDict

from .memory_items import MemoryItem, memory_item
from .queries.conflicts import ChangeRow, ConflictDetail, ConflictRow, DecisionRow


class SideItem(TypedDict):
    """One value of a conflict, with those who say it. Sides are numbered by who spoke first."""

    side: int
    value: str
    writers: list[str]
    claims: int


class ConflictItem(TypedDict):
    """`kind` is contest, suggestion (a text resembles a memory) or check (values could not be compared). `rule` says
    what decided, or why a person has to; `explanation` has what goes into its sentence. `follows` is the decision that
    it came after."""

    id: UUID
    kind: str
    state: str
    revision: int
    external_user_id: str
    category: str
    key: str
    scope: dict[str, Any]
    rule: str
    policy: str
    explanation: Mapping[str, Any]
    opened_at: datetime
    changed_at: datetime
    decided_at: datetime | None
    follows: UUID | None
    decision_id: UUID | None
    merged_into: UUID | None
    sides: list[SideItem]


class ConflictClaimItem(TypedDict):
    """A memory of a conflict. `authority` is its writer's, where it was weighed."""

    memory: MemoryItem
    side: int
    contender: bool
    authority: int | None


class ChangeItem(TypedDict):
    """What made one revision of a conflict."""

    revision: int
    at: datetime
    change: str
    state: str
    added: list[UUID]
    removed: list[UUID]
    decision_id: UUID | None
    actor: str | None
    rule: str


class DecisionItem(TypedDict):
    id: UUID
    conflict_id: UUID
    outcome: str
    claim_id: UUID | None
    considered: list[UUID]
    placements: list[Any]
    undoes: UUID | None
    undone_by: UUID | None
    follows: UUID | None
    reason: str
    evidence: str
    revision: int
    actor: str
    actor_kind: str
    decided_at: datetime
    policy: str
    rule: str


class ConflictDetailItem(ConflictItem):
    """`inputs` is what was weighed, a finding for each period in question. `decisions` are all of those about the key,
    in the order in which they were made."""

    claims: list[ConflictClaimItem]
    inputs: list[Any]
    changes: list[ChangeItem]
    decisions: list[DecisionItem]


def conflict_item(row: ConflictRow) -> ConflictItem:
    return {
        "id": row.id,
        "kind": row.kind,
        "state": row.state,
        "revision": row.revision,
        "external_user_id": row.subject,
        "category": row.category,
        "key": row.key,
        "scope": json.loads(row.scope),
        "rule": row.rule,
        "policy": row.policy,
        "explanation": row.explanation,
        "opened_at": row.opened_at,
        "changed_at": row.changed_at,
        "decided_at": row.decided_at,
        "follows": row.follows,
        "decision_id": row.decision,
        "merged_into": row.merged_into,
        "sides": [
            {"side": side.number, "value": side.value, "writers": list(side.writers), "claims": side.claims}
            for side in row.sides
        ],
    }


def conflict_detail_item(found: ConflictDetail) -> ConflictDetailItem:
    return {
        **conflict_item(found.conflict),
        "claims": [
            {
                "memory": memory_item(member.claim),
                "side": member.side,
                "contender": member.is_contender,
                "authority": member.authority,
            }
            for member in found.members
        ],
        "inputs": list(found.conflict.inputs),
        "changes": list(map(change_item, found.changes)),
        "decisions": list(map(decision_item, found.decisions)),
    }


def change_item(row: ChangeRow) -> ChangeItem:
    return {
        "revision": row.revision,
        "at": row.at,
        "change": row.change,
        "state": row.state,
        "added": list(row.added),
        "removed": list(row.removed),
        "decision_id": row.decision,
        "actor": row.actor or None,
        "rule": row.rule,
    }


def decision_item(row: DecisionRow) -> DecisionItem:
    return {
        "id": row.id,
        "conflict_id": row.conflict,
        "outcome": row.verdict,
        "claim_id": row.kept,
        "considered": list(row.considered),
        "placements": list(row.placements),
        "undoes": row.undoes,
        "undone_by": row.undone_by,
        "follows": row.follows,
        "reason": row.reason,
        "evidence": row.evidence,
        "revision": row.revision,
        "actor": row.actor,
        "actor_kind": row.actor_kind,
        "decided_at": row.decided_at,
        "policy": row.policy,
        "rule": row.rule,
    }
