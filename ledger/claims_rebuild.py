"""Proves that what holds follows from what was said and decided: settles every key from scratch and compares.

Claims, revisions and decisions are facts. A conflict's id and its revisions are kept, since people and programs hold
them; what it says is worked out again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.utils import timezone

from openwop_ui.tenancy.scope import tenant_scope

from .claims_store.conflict_rows import Cause
from .claims_store.loading import KeyLedger, load, lock_known
from .claims_store.rules import TenantRules, share_rules
from .claims_store.settling import Settled, settle, work_out
from .claims_store.stale import settle_stale
from .queries.paging import rows_of

AT_ONCE = 500
SAMPLES = 5
FIRST = UUID(int=0)


@dataclass(slots=True)
class ClaimsDifference:
    """Rows of one table that only the ledger before (``lost``) or only the one worked out again (``gained``) has."""

    table: str
    rows: int = 0
    lost: int = 0
    gained: int = 0
    samples: list[str] = field(default_factory=list)

    def compare(self, before: Iterable[Any], after: Iterable[Any]) -> None:
        known, found = set(before), set(after)
        self.rows += len(found)
        for name, rows in (("lost", known - found), ("gained", found - known)):
            setattr(self, name, getattr(self, name) + len(rows))
            self.samples += [f"{name} {row}" for row in sorted(map(str, rows))][: SAMPLES - len(self.samples)]


def check_claims(tenant_id: int, *, mend: bool = False) -> list[ClaimsDifference]:
    """How each table compares, without the keys that wait to be settled again. With ``mend`` these are settled first,
    and what differs is put right. Pages keep seeing the ledger, and writers wait for single keys only."""
    while mend and settle_stale(tenant_id):
        pass
    found = {name: ClaimsDifference(name) for name in ("ledger_claimstate", "ledger_holding", "ledger_conflict")}
    last = FIRST
    while True:
        with tenant_scope(tenant_id, durable=True):
            rules = share_rules(tenant_id)
            keys = _keys_after(tenant_id, last)
            if keys:
                _check(tenant_id, keys, rules, found, mend)
        if len(keys) < AT_ONCE:
            return list(found.values())
        last = keys[-1]


def _keys_after(tenant_id: int, last: UUID) -> list[UUID]:
    rows = rows_of(
        "SELECT id FROM ledger_subjectkey WHERE tenant_id = %s AND id > %s AND stale_since IS NULL"
        " ORDER BY id LIMIT %s",
        [tenant_id, last, AT_ONCE],
    )
    return [key for (key,) in rows]


def _check(
    tenant_id: int, keys: Sequence[UUID], rules: TenantRules, found: dict[str, ClaimsDifference], mend: bool
) -> None:
    ledgers = lock_known(tenant_id, keys)
    for ledger in ledgers.values():
        ledger.reading = ""  # so that every value is read again
    load(tenant_id, ledgers, rules.keys)
    cause = Cause(timezone.now())
    for ledger in ledgers.values():
        fresh = Settled()
        work_out(replace(ledger, states={}, holdings=set()), rules.rules, cause, fresh)
        found["ledger_claimstate"].compare(ledger.states.values(), fresh.states)
        found["ledger_holding"].compare(ledger.holdings, fresh.held)
        _compare_conflicts(ledger, fresh, found["ledger_conflict"])
    if mend:
        settle(tenant_id, ledgers.values(), rules.rules, cause)


def _compare_conflicts(ledger: KeyLedger, fresh: Settled, difference: ClaimsDifference) -> None:
    """What is the same was not written again."""
    changed = {row.id for row in fresh.writes.rows}
    difference.compare(
        [f"{one.id} {one.state} at {one.revision}" for one in ledger.conflicts if one.id in changed],
        [f"{one.id} {one.state} at {one.revision}" for one in fresh.writes.rows],
    )
    difference.rows += len(ledger.conflicts) - len(changed)
