"""What people decide about conflicts, and how they take it back. The decision and what follows from it are one
transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from django.utils import timezone

from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.storable import storable

from ..domain import policy
from ..domain.claims import Slot
from ..domain.decisions import Decision, MissingPart, NotOpen, Placement, StaleDecision, Verdict
from ..domain.key_registry import KeyRule
from ..domain.normalisers import Value, normalise
from ..domain.periods import Period
from ..domain.review import Request, Ruling, Signature, decide, undo
from ..domain.review import preview as preview_ruling
from ..domain.scopes import Scope
from ..domain.settlement import Conflict as Found
from ..domain.settlement import ConflictState, Settlement
from ..models import Conflict
from ..queries.paging import rows_of
from .actor import Actor
from .conflict_rows import Cause, ConflictWrites
from .facts import NewClaim, add_claims
from .loading import KeyLedger, KnownConflict, load, lock_known, placement_json
from .rows import insert
from .rules import TenantRules, rules_of, share_rules
from .settling import Settled, settle, tell

States = Conflict.State
DECISION_COLUMNS = {
    "id": "uuid",
    "subject_key_id": "uuid",
    "ordinal": "int",
    "conflict_id": "uuid",
    "verdict": "text",
    "considered": "uuid[]",
    "kept": "uuid",
    "placements": "jsonb",
    "undoes": "uuid",
    "follows": "uuid",
    "reason": "text",
    "evidence": "text",
    "revision": "int",
    "actor": "text",
    "actor_kind": "text",
    "user_id": "int8",
    "key_id": "int8",
    "decided_at": "timestamptz",
    "policy": "text",
    "rule": "text",
    "inputs": "jsonb",
}
_WITHOUT_COMPARISON = frozenset((Verdict.NEITHER, Verdict.CORRECT))


@dataclass(frozen=True, slots=True)
class Ask:
    """What a person wants. ``revision`` is that of the conflict as they saw it; ``value`` is a corrected one, as it is
    said in JSON, with its ``evidence``."""

    revision: int
    verdict: Verdict
    claim: UUID | None = None
    placements: tuple[Placement, ...] = ()
    value: Any = None
    evidence: str = ""
    valid: Period | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Decided:
    """``decision`` is None for a suggestion that was dismissed. ``revision`` and ``state`` are the conflict's now."""

    conflict: UUID
    decision: UUID | None
    revision: int
    state: str
    correction: UUID | None = None


def decide_conflict(
    *, tenant_id: int, conflict: UUID, ask: Ask, actor: Actor, at: datetime | None = None
) -> Decided | None:
    """None when there is no such conflict; a DecisionError when it cannot be decided so, StaleDecision among them."""
    at = at or timezone.now()
    with tenant_scope(tenant_id, durable=True):
        rules = share_rules(tenant_id)
        key_id = _key_of_conflict(tenant_id, conflict)
        if key_id is None:
            return None
        ledger = _locked(tenant_id, key_id, rules)
        known = _known(ledger, conflict)
        if known.kind == Conflict.Kind.SUGGESTION and ask.verdict is Verdict.BOTH:
            return _dismiss(tenant_id, known, ask, actor, at)
        ruling = _rule(ledger, known, ask, actor, at, rules)
        settled = _store(tenant_id, ledger, known, ruling, ask, actor, rules)
        now = next((row for row in settled.writes.rows if row.id == conflict), known)
        correction = ruling.correction.id if ruling.correction else None
        return Decided(conflict, ruling.decision.id, now.revision, now.state, correction)


def preview(*, tenant_id: int, conflict: UUID, ask: Ask, actor: Actor) -> Settlement | None:
    """What the decision would change, within the caller's scope. Raises what deciding would raise."""
    rules = rules_of(tenant_id)
    key_id = _key_of_conflict(tenant_id, conflict)
    if key_id is None:
        return None
    ledger = _locked(tenant_id, key_id, rules, lock=False)
    ruling = _rule(ledger, _known(ledger, conflict), ask, actor, timezone.now(), rules)
    return preview_ruling(ruling, ledger.claims, ledger.decisions, rules.rules)


def undo_decision(
    *, tenant_id: int, decision: UUID, actor: Actor, reason: str = "", at: datetime | None = None
) -> Decided | None:
    """Takes a decision back by another one. An undoing can be undone in the same way. None when there is none such;
    NothingToUndo when it is not in force."""
    at = at or timezone.now()
    with tenant_scope(tenant_id, durable=True):
        rules = share_rules(tenant_id)
        rows = rows_of(
            "SELECT subject_key_id, conflict_id FROM ledger_decision WHERE tenant_id = %s AND id = %s",
            [tenant_id, decision],
        )
        if not rows:
            return None
        key_id, conflict = rows[0]
        ledger = _locked(tenant_id, key_id, rules)
        known = _known(ledger, conflict)
        made = undo(_head(decision, ledger.decisions), _signature(ledger, actor, at), ledger.decisions, reason=reason)
        settled = _store(
            tenant_id, ledger, known, Ruling(made), Ask(known.revision, Verdict.UNDO, reason=reason), actor, rules
        )
        now = next((row for row in settled.writes.rows if row.id == conflict), known)
        return Decided(conflict, made.id, now.revision, now.state)


def _head(decision: UUID, decisions: list[Decision]) -> UUID:
    """A decision that was undone and brought back is taken back by undoing what brought it back."""
    undone_by = {one.undoes: one.id for one in decisions if one.undoes}
    chain = [decision]
    while chain[-1] in undone_by:
        chain.append(undone_by[chain[-1]])
    return chain[-1] if len(chain) % 2 else decision


def _key_of_conflict(tenant_id: int, conflict: UUID) -> UUID | None:
    rows = rows_of("SELECT subject_key_id FROM ledger_conflict WHERE tenant_id = %s AND id = %s", [tenant_id, conflict])
    return rows[0][0] if rows else None


def _locked(tenant_id: int, key_id: UUID, rules: TenantRules, *, lock: bool = True) -> KeyLedger:
    ledgers = lock_known(tenant_id, [key_id], lock=lock)
    load(tenant_id, ledgers, rules.keys)
    return ledgers[key_id]


def _known(ledger: KeyLedger, conflict: UUID) -> KnownConflict:
    return next(one for one in ledger.conflicts if one.id == conflict)


def _rule(ledger: KeyLedger, known: KnownConflict, ask: Ask, actor: Actor, at: datetime, rules: TenantRules) -> Ruling:
    if ask.revision != known.revision:
        raise StaleDecision(ask.revision, known.revision)
    if known.state in (States.DISSOLVED, States.DISMISSED):
        raise NotOpen("nothing is left to decide in the conflict")
    if known.state == States.CHECK_FAILED and ask.verdict not in _WITHOUT_COMPARISON:
        raise MissingPart("values that could not be compared can be corrected or refused", field="outcome")
    is_open = known.state != States.DECIDED
    found = Found(
        slot=Slot(ledger.subject, ledger.key, Scope(known.scope)),
        claims=frozenset(known.claims),
        state=ConflictState.OPEN if is_open else ConflictState.DECIDED,
        follows=known.follows,
        decision=known.decision_id,
    )
    request = _request(ask, rules.keys.rule(ledger.key))
    return decide(found, request, _signature(ledger, actor, at), revision=known.revision, claims=ledger.claims)


def _request(ask: Ask, rule: KeyRule) -> Request:
    value: Value | None = None if ask.value is None else normalise(ask.value, rule.kind, unit=rule.unit)
    return Request(
        revision=ask.revision,
        verdict=ask.verdict,
        claim=ask.claim,
        placements=ask.placements,
        value=value,
        evidence=ask.evidence or ask.reason,
        valid=ask.valid,
        reason=ask.reason,
    )


def _signature(ledger: KeyLedger, actor: Actor, at: datetime) -> Signature:
    return Signature(uuid4(), uuid4(), ledger.decision_count + 1, actor.label, at)


def _store(
    tenant_id: int,
    ledger: KeyLedger,
    known: KnownConflict,
    ruling: Ruling,
    ask: Ask,
    actor: Actor,
    rules: TenantRules,
) -> Settled:
    decision = ruling.decision
    insert(
        "ledger_decision",
        DECISION_COLUMNS,
        [_columns(ledger, known, decision, ask, actor)],
        tenant_id=tenant_id,
    )
    if ruling.correction is not None:
        said = json.dumps(ask.value)
        add_claims(tenant_id, {ledger.id: ledger}, [(ledger.id, NewClaim(ruling.correction, said))])
        ledger.claims.append(ruling.correction)
        ledger.values[ruling.correction.id] = said
    ledger.decisions.append(decision)
    ledger.decided[decision.id] = known.id
    ledger.weighed[decision.id] = known.inputs
    ledger.decision_count += 1
    ledger.is_due = True
    return settle(tenant_id, [ledger], rules.rules, Cause(decision.decided_at, actor.label, decision.id))


def _columns(ledger: KeyLedger, known: KnownConflict, decision: Decision, ask: Ask, actor: Actor) -> tuple[Any, ...]:
    told: Mapping[str, Any] = {
        "id": decision.id,
        "subject_key_id": ledger.id,
        "ordinal": decision.ordinal,
        "conflict_id": known.id,
        "verdict": decision.verdict.value,
        "considered": sorted(decision.considered),
        "kept": decision.kept,
        "placements": [placement_json(placement) for placement in decision.placements],
        "undoes": decision.undoes,
        "follows": decision.follows,
        "reason": storable(decision.reason),
        "evidence": storable(ask.evidence),
        "revision": known.revision,
        "actor": storable(actor.label),
        "actor_kind": actor.kind,
        "user_id": actor.user_id,
        "key_id": actor.key_id,
        "decided_at": decision.decided_at,
        "policy": policy.VERSION,
        "rule": known.rule,
        "inputs": known.inputs,
    }
    return tuple(told[name] for name in DECISION_COLUMNS)


def _dismiss(tenant_id: int, known: KnownConflict, ask: Ask, actor: Actor, at: datetime) -> Decided:
    """Text and claim both stand: there is nothing to decide between them."""
    if ask.revision != known.revision:
        raise StaleDecision(ask.revision, known.revision)
    if known.state != States.SUGGESTED:
        raise NotOpen("the suggestion is no longer open")
    writes = ConflictWrites()
    now = replace(
        known, state=States.DISMISSED.value, decided_at=at, explanation={**known.explanation, "reason": ask.reason}
    )
    writes.put(known, now, Cause(at, actor.label), change="dismissed")
    writes.write(tenant_id)
    tell(tenant_id, Settled(writes=writes))
    return Decided(known.id, None, now.revision, now.state)
