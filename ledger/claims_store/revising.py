"""Later revisions of claims: said better, placed elsewhere, or taken back. The origin stays as it was."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.storable import storable

from ..domain.claims import Claim, revise
from ..domain.periods import Period
from ..domain.scopes import Scope
from ..queries.paging import rows_of
from .actor import Actor
from .conflict_rows import Cause
from .loading import KeyLedger, load, lock_known
from .rows import insert
from .rules import share_rules
from .settling import settle

REVISION_COLUMNS = {
    "claim_id": "uuid",
    "revision": "int",
    "scope": "text",
    "content": "text",
    "valid_from": "timestamptz",
    "valid_to": "timestamptz",
    "confidence": "float8",
    "withdrawn": "bool",
    "revised_by": "text",
    "revised_by_kind": "text",
    "reason": "text",
    "received_at": "timestamptz",
}


class NotItsWriter(ValueError):
    """A writer's key revises the claims of that writer only."""


@dataclass(frozen=True, slots=True)
class Revision:
    """What is None stays as it is."""

    content: str | None = None
    confidence: float | None = None
    scope: Scope | None = None
    valid: Period | None = None
    withdrawn: bool | None = None
    reason: str = ""


def revise_claim(
    *,
    tenant_id: int,
    claim: UUID,
    based_on: int,
    revision: Revision,
    actor: Actor,
    writer: str | None = None,
    at: datetime | None = None,
) -> int | None:
    """The number of the new revision; None when there is no such claim. StaleRevision when ``based_on`` is not the
    latest. ``writer`` is the one that the actor speaks for, if it is bound to one."""
    at = at or timezone.now()
    with tenant_scope(tenant_id, durable=True):
        rules = share_rules(tenant_id)
        keys = rows_of(
            "SELECT subject_key_id FROM ledger_claimrow WHERE tenant_id = %s AND id = %s", [tenant_id, claim]
        )
        ledgers = lock_known(tenant_id, [key for (key,) in keys])
        load(tenant_id, ledgers, rules.keys)
        for ledger in ledgers.values():
            known = next(one for one in ledger.claims if one.id == claim)
            if writer is not None and known.writer != writer:
                raise NotItsWriter("the claim is another writer's")
            changed = _revised(known, based_on, revision, actor, at)
            _store(tenant_id, [ledger], {claim: changed}, revision, actor)
            settle(tenant_id, [ledger], rules.rules, Cause(at, actor.label))
            return changed.revision
        return None


def withdraw_subject(
    *,
    tenant_id: int,
    subject: str,
    actor: Actor,
    writer: str | None = None,
    reason: str = "",
    at: datetime | None = None,
) -> int:
    """Takes back every claim about a subject that still stands, and returns how many those were."""
    at = at or timezone.now()
    with tenant_scope(tenant_id, durable=True):
        rules = share_rules(tenant_id)
        keys = rows_of(
            "SELECT id FROM ledger_subjectkey WHERE tenant_id = %s AND subject = %s", [tenant_id, storable(subject)]
        )
        ledgers = lock_known(tenant_id, [key for (key,) in keys])
        load(tenant_id, ledgers, rules.keys)
        claims = [
            claim
            for ledger in ledgers.values()
            for claim in ledger.claims
            if not claim.withdrawn and writer in (None, claim.writer)
        ]
        store_withdrawals(tenant_id, ledgers.values(), claims, actor, at, reason=reason)
        settle(tenant_id, ledgers.values(), rules.rules, Cause(at, actor.label))
        return len(claims)


def store_withdrawals(
    tenant_id: int,
    ledgers: Iterable[KeyLedger],
    claims: Iterable[Claim],
    actor: Actor,
    at: datetime,
    *,
    reason: str = "",
) -> None:
    """Takes back claims of keys that are locked and loaded. The caller settles them."""
    revision = Revision(withdrawn=True, reason=reason)
    changed = {claim.id: _revised(claim, claim.revision, revision, actor, at) for claim in claims}
    _store(tenant_id, ledgers, changed, revision, actor)


def _revised(claim: Claim, based_on: int, revision: Revision, actor: Actor, at: datetime) -> Claim:
    return revise(
        claim,
        based_on=based_on,
        by=actor.label,
        at=at,
        content=revision.content,
        confidence=revision.confidence,
        scope=revision.scope,
        valid=revision.valid,
        withdrawn=revision.withdrawn,
    )


def _store(
    tenant_id: int, ledgers: Iterable[KeyLedger], changed: dict[UUID, Claim], revision: Revision, actor: Actor
) -> None:
    rows = [_columns(claim, revision, actor) for claim in changed.values()]
    insert("ledger_claimrevision", REVISION_COLUMNS, rows, tenant_id=tenant_id)
    for ledger in ledgers:
        ledger.claims = [changed.get(claim.id, claim) for claim in ledger.claims]


def _columns(claim: Claim, revision: Revision, actor: Actor) -> tuple[Any, ...]:
    return (
        claim.id,
        claim.revision,
        claim.scope.text,
        storable(claim.content),
        claim.valid.start,
        claim.valid.end,
        claim.confidence,
        claim.withdrawn,
        storable(actor.label),
        actor.kind,
        storable(revision.reason),
        claim.received_at,
    )
