"""What was active for a moment as far as was known at another: worked out from the facts of that time.

Of the tenant's rules only those of now are known; they are applied to the facts of then.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from runs.domain.storable import original, storable

from ..claims_store.loading import KeyLedger, load, lock_known, period
from ..claims_store.rules import rules_of
from ..domain.bitemporal import active
from ..domain.claims import Claim
from ..domain.scopes import Scope
from .claims import BY_OBSERVED, ClaimFilter, MemoryList, MemoryRow, cursor_at, memories_by_id
from .paging import Keyset, rows_of


def memories_as_of(
    tenant_id: int, wanted: ClaimFilter, *, as_of: datetime, valid_at: datetime, before: str | None, limit: int
) -> MemoryList:
    """The last observed first, of one subject. Raises BrokenCursor."""
    page = Keyset.reading(BY_OBSERVED, limit, before=before, after=None)
    ids = [
        key
        for (key,) in rows_of(
            "SELECT id FROM ledger_subjectkey WHERE tenant_id = %s AND subject = %s",
            [tenant_id, storable(wanted.subject)],
        )
    ]
    rules = rules_of(tenant_id)
    ledgers = lock_known(tenant_id, ids, lock=False)
    load(tenant_id, ledgers, rules.keys)
    held = []
    for ledger in ledgers.values():
        if wanted.category in ("", ledger.key.category) and wanted.key in ("", ledger.key.name):
            known = {claim.id: claim for claim in _known_then(tenant_id, ledger, as_of)}
            holdings = active(known.values(), ledger.decisions, valid_at=valid_at, as_of=as_of, rules=rules.rules)
            held += [(known[holding.claim], holding.rule.value, holding.is_open) for holding in holdings]
    rows = memories_by_id(tenant_id, [claim.id for claim, _, _ in held])
    told = [_then(rows[claim.id], claim, rule, is_open) for claim, rule, is_open in held if claim.id in rows]
    shown = sorted(filter(lambda row: _says(row, wanted.query), told), key=_place, reverse=True)
    if page.edge is not None:
        shown = [row for row in shown if _place(row) < page.edge]
    older = cursor_at(shown[limit - 1]) if len(shown) > limit else None
    return MemoryList(tuple(shown[:limit]), None, older)


def _place(row: MemoryRow) -> tuple[datetime, UUID]:
    return row.observed_at, row.id


def _says(row: MemoryRow, query: str) -> bool:
    text = f"{row.key} {row.display} {row.content}".lower()
    return all(word in text for word in query.lower().split())


def _known_then(tenant_id: int, ledger: KeyLedger, as_of: datetime) -> Sequence[Claim]:
    """Each claim in its latest revision of that time."""
    if not ledger.claims:
        return []
    origins = rows_of(
        "SELECT id, scope, content, valid_from, valid_to, confidence, received_at, 1, NULL, false"
        " FROM ledger_claimrow WHERE tenant_id = %(tenant)s AND subject_key_id = %(key)s AND received_at <= %(as_of)s",
        {"tenant": tenant_id, "key": ledger.id, "as_of": as_of},
    )
    later = rows_of(
        "SELECT r.claim_id, r.scope, r.content, r.valid_from, r.valid_to, r.confidence, r.received_at, r.revision,"
        " r.revised_by, r.withdrawn FROM ledger_claimrevision r"
        " JOIN ledger_claimrow c ON c.tenant_id = r.tenant_id AND c.id = r.claim_id"
        " WHERE r.tenant_id = %(tenant)s AND c.subject_key_id = %(key)s AND r.received_at <= %(as_of)s"
        " ORDER BY r.revision",
        {"tenant": tenant_id, "key": ledger.id, "as_of": as_of},
    )
    latest = {claim.id: claim for claim in ledger.claims}
    known: dict[UUID, Claim] = {}
    for row in (*origins, *later):
        known[row[0]] = replace(
            latest[row[0]],
            scope=Scope(row[1]),
            content=original(row[2]),
            valid=period(row[3], row[4]),
            confidence=row[5],
            received_at=row[6],
            revision=row[7],
            revised_by=row[8],
            withdrawn=row[9],
        )
    return list(known.values())


def _then(row: MemoryRow, claim: Claim, rule: str, is_open: bool) -> MemoryRow:
    return replace(
        row,
        status="active",
        rule=rule,
        to_claim=None,
        content=claim.content,
        scope=json.dumps(claim.scope.members, sort_keys=True),
        valid_from=claim.valid.start,
        valid_to=claim.valid.end,
        confidence=claim.confidence,
        revision=claim.revision,
        is_disputed=is_open,
    )
