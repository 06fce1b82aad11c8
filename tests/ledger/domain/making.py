"""Claims, decisions and rules for the tests of the ledger's domain, made by plain functions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from ledger.domain.claims import Claim
from ledger.domain.decisions import Decision, Placement, Verdict
from ledger.domain.key_registry import Key, KeyRegistry, KeyRule, read_key
from ledger.domain.normalisers import Kind, Value, read_value
from ledger.domain.periods import ALWAYS, Period
from ledger.domain.scopes import Scope, read_scope
from ledger.domain.settlement import Rules
from ledger.domain.writers import Authorities, AuthorityRules

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLAN = read_key("fact", "subscription_plan")


def at(hours: float) -> datetime:
    return NOON + timedelta(hours=hours)


def uid(number: int) -> UUID:
    return UUID(int=number)


def claim(
    number: int,
    value: Any = "Growth",
    *,
    writer: str = "billing",
    hour: float = 0,
    received: float | None = None,
    subject: str = "user-1",
    key: Key = PLAN,
    scope: dict[str, Any] | str | None = None,
    valid: Period = ALWAYS,
    confidence: float | None = None,
    event: int | None = None,
    ordinal: int = 0,
    kind: Kind = Kind.PLAIN,
    revision: int = 1,
    withdrawn: bool = False,
    content: str = "",
    decision: UUID | None = None,
) -> Claim:
    return Claim(
        id=uid(number),
        subject=subject,
        key=key,
        value=value if isinstance(value, Value) else read_value(value, kind),
        writer=writer,
        observed_at=at(hour),
        received_at=at(hour if received is None else received),
        scope=scope if isinstance(scope, Scope) else read_scope(scope),
        content=content,
        valid=valid,
        confidence=confidence,
        source_event=uid(event) if event is not None else None,
        ordinal=ordinal,
        revision=revision,
        withdrawn=withdrawn,
        decision=decision,
    )


def decision(
    number: int,
    verdict: Verdict,
    considered: set[int],
    *,
    kept: int | None = None,
    hour: float = 100,
    ordinal: int | None = None,
    placements: tuple[Placement, ...] = (),
    undoes: int | None = None,
    follows: int | None = None,
) -> Decision:
    return Decision(
        id=uid(number),
        ordinal=number if ordinal is None else ordinal,
        verdict=verdict,
        considered=frozenset(uid(one) for one in considered),
        actor="person:ada",
        decided_at=at(hour),
        kept=None if kept is None else uid(kept),
        placements=placements,
        undoes=None if undoes is None else uid(undoes),
        follows=None if follows is None else uid(follows),
    )


def authorities(**priorities: int) -> Authorities:
    return Authorities({name.replace("_", "-"): AuthorityRules(priority) for name, priority in priorities.items()})


EQUALS = authorities(billing=50, crm=50, chat=50)


def rules(*, writers: Authorities = EQUALS, keys: dict[Key, KeyRule] | None = None, recency: bool = False) -> Rules:
    known = {PLAN: KeyRule(recency_between_equals=recency)} if keys is None else keys
    return Rules(KeyRegistry(known), writers)
