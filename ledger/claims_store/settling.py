"""Settles subjects' keys: works out how their claims stand, and writes what differs from before.

What stands is a function of the claims, the decisions and the tenant's rules. Whoever calls this has stored the facts
and holds the locks of the keys; there is no other way to an active claim.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID, uuid5

from django.db import connection

from openwop_ui.live.announce import announce
from runs.domain.storable import storable

from ..domain.claims import Claim
from ..domain.key_registry import KeyRule
from ..domain.policy import Rule
from ..domain.settlement import Holding, Place, Rules, State, Status, resolve
from .conflict_rows import Cause, ConflictWrites, conflict_writes
from .loading import HoldingRow, KeyLedger, StateRow
from .rows import insert, update, upsert_columns
from .rules import reading_of

logger = logging.getLogger(__name__)

DETECTION_FAILED = "detection_failed"

STATE_COLUMNS = {
    "claim_id": "uuid",
    "subject_key_id": "uuid",
    "subject": "text",
    "status": "text",
    "rule": "text",
    "to_claim": "uuid",
    "revision": "int",
    "normal": "text",
    "normaliser": "text",
    "problem": "text",
    "observed_at": "timestamptz",
}
HOLDING_COLUMNS = {
    "claim_id": "uuid",
    "valid": "tstzrange",
    "lane": "uuid",
    "subject_key_id": "uuid",
    "scope": "text",
    "rule": "text",
    "is_open": "bool",
    "decision_id": "uuid",
}


@dataclass(slots=True)
class Settled:
    """What settling changed. ``conflicts`` are those that have a new revision, by id, and ``of_claim`` says which
    conflicts a claim is in now."""

    states: list[StateRow] = field(default_factory=list)
    released: list[HoldingRow] = field(default_factory=list)
    held: list[HoldingRow] = field(default_factory=list)
    writes: ConflictWrites = field(default_factory=ConflictWrites)

    @property
    def conflicts(self) -> dict[UUID, int]:
        return {row.id: row.revision for row in self.writes.rows}

    @property
    def is_empty(self) -> bool:
        return not (self.states or self.released or self.held or self.writes.rows)


def settle(tenant_id: int, ledgers: Iterable[KeyLedger], rules: Rules, cause: Cause) -> Settled:
    """Settles the keys, which are locked and loaded, and writes what changed."""
    settled = Settled()
    touched = []
    for ledger in ledgers:
        before = len(settled.states), len(settled.released), len(settled.held), len(settled.writes.rows)
        work_out(ledger, rules, cause, settled)
        after = len(settled.states), len(settled.released), len(settled.held), len(settled.writes.rows)
        reading = reading_of(rules.keys.rule(ledger.key))
        if not ledger.is_new and (before != after or ledger.reading != reading or ledger.is_due):
            touched.append((ledger.id, ledger.revision + (before != after), reading, ledger.decision_count, None))
    write(tenant_id, settled)
    update(
        "ledger_subjectkey",
        {"id": "uuid", "revision": "int", "reading": "text", "decision_count": "int", "stale_since": "timestamptz"},
        touched,
        tenant_id=tenant_id,
        keys=("id",),
    )
    tell(tenant_id, settled)
    return settled


def work_out(ledger: KeyLedger, rules: Rules, cause: Cause, settled: Settled) -> None:
    """Adds to ``settled`` what differs from what the ledger has."""
    rule = rules.keys.rule(ledger.key)
    try:
        state = _state(ledger, rules)
    except Exception as problem:
        # The claims are facts and stay; that they could not be compared is told as a state of its own.
        logger.error("the claims of a key could not be compared (%s)", type(problem).__name__, exc_info=problem)
        _could_not(ledger, type(problem).__name__, cause, settled)
        return
    for claim in ledger.claims:
        row = _state_row(ledger, claim, state.places[claim.id])
        if ledger.states.get(claim.id) != row:
            settled.states.append(row)
    values = {claim.id: claim.value.normal for claim in ledger.claims} if rule.cardinality == "many" else {}
    holdings = {_holding_row(ledger, holding, rule, values) for holding in state.holdings}
    if holdings != ledger.holdings:
        settled.released += ledger.holdings - holdings
        settled.held += holdings - ledger.holdings
    if state.conflicts or ledger.conflicts or state.of_status(Status.UNCHECKED):
        conflict_writes(ledger, state, cause, settled.writes)


def _state(ledger: KeyLedger, rules: Rules) -> State:
    """Most claims are the only ones of their key when they come: with nothing to weigh, the answer is known."""
    if len(ledger.claims) == 1 and not ledger.decisions and not ledger.conflicts:
        (claim,) = ledger.claims
        if claim.is_checkable and not claim.withdrawn and claim.decision is None:
            return alone(claim)
    return resolve(ledger.claims, ledger.decisions, rules)


def alone(claim: Claim) -> State:
    """What ``resolve`` says of the holdings, conflicts and places of a claim that nothing stands beside."""
    holding = Holding(claim.id, claim.slot, claim.valid, Rule.UNOPPOSED, is_open=False)
    return State((), (holding,), (), {claim.id: Place(Status.ACTIVE, Rule.UNOPPOSED)})


def _could_not(ledger: KeyLedger, error: str, cause: Cause, settled: Settled) -> None:
    for claim in ledger.claims:
        if claim.id not in ledger.states:
            row = _state_row(ledger, claim, Place(Status.UNCHECKED))
            settled.states.append(row._replace(problem=DETECTION_FAILED))
    unchecked = {
        claim.id: Place(Status.UNCHECKED)
        for claim in ledger.claims
        if claim.id not in ledger.states or ledger.states[claim.id].status == Status.UNCHECKED
    }
    conflict_writes(ledger, State((), (), (), unchecked), cause, settled.writes, failed=error)


def _state_row(ledger: KeyLedger, claim: Claim, place: Place) -> StateRow:
    value = claim.value
    return StateRow(
        claim.id,
        ledger.id,
        storable(ledger.subject),
        place.status.value,
        place.rule.value if place.rule else "",
        place.to,
        claim.revision,
        None if value.normal is None else storable(value.normal),
        value.normaliser,
        value.problem.value if value.problem else "",
        claim.observed_at,
    )


def _holding_row(ledger: KeyLedger, holding: Holding, rule: KeyRule, values: Mapping[UUID, str | None]) -> HoldingRow:
    scope = holding.slot.scope.text
    return HoldingRow(
        holding.claim,
        holding.period.start,
        holding.period.end,
        lane(ledger.id, scope, values.get(holding.claim)),
        ledger.id,
        scope,
        holding.rule.value,
        holding.is_open,
        holding.decision,
    )


def lane(key: UUID, scope: str, value: str | None = None) -> UUID:
    """Where no two claims may be active at once. ``value`` is that of a many-valued key."""
    return uuid5(key, scope if value is None else f"{scope}\n{value}")


def _range(holding: HoldingRow) -> str:
    start = holding.start.isoformat() if holding.start else ""
    return f"[{start},{holding.end.isoformat() if holding.end else ''})"


def write(tenant_id: int, settled: Settled) -> None:
    insert(
        "ledger_claimstate",
        STATE_COLUMNS,
        settled.states,
        tenant_id=tenant_id,
        then=upsert_columns(STATE_COLUMNS, keys=("claim_id",)),
    )
    _release(tenant_id, settled.released)
    held = [(row.claim_id, _range(row), *row[3:]) for row in settled.held]
    insert("ledger_holding", HOLDING_COLUMNS, held, tenant_id=tenant_id)
    settled.writes.write(tenant_id)


def _release(tenant_id: int, released: list[HoldingRow]) -> None:
    if not released:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM ledger_holding h USING unnest(%s::uuid[], %s::text[]) AS n (claim_id, valid)"
            " WHERE h.tenant_id = %s AND h.claim_id = n.claim_id AND h.valid = n.valid::tstzrange",
            [[row.claim_id for row in released], [_range(row) for row in released], tenant_id],
        )


def tell(tenant_id: int, settled: Settled) -> None:
    if settled.is_empty:
        return
    topics: dict[str, int | None] = {"claims": None}
    if settled.conflicts:
        topics["conflicts"] = None
    announce(tenant_id, topics | {f"conflict:{conflict}": revision for conflict, revision in settled.conflicts.items()})
