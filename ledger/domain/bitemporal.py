"""What was active for a moment, as far as was known at another: `valid_at` is when it is true, `as_of` when we knew."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ledger.domain.claims import Claim
from ledger.domain.decisions import Decision
from ledger.domain.periods import aware
from ledger.domain.settlement import Holding, Rules, State, resolve


def state_as_of(
    claims: Iterable[Claim], decisions: Iterable[Decision], *, as_of: datetime, rules: Rules | None = None
) -> State:
    """`claims` with all their revisions. `rules` are those of that time: they are not kept here."""
    aware(as_of, "as_of")
    return resolve(
        (claim for claim in claims if claim.received_at <= as_of),
        (decision for decision in decisions if decision.decided_at <= as_of),
        rules,
    )


def active(
    claims: Iterable[Claim],
    decisions: Iterable[Decision] = (),
    *,
    valid_at: datetime,
    as_of: datetime,
    rules: Rules | None = None,
) -> tuple[Holding, ...]:
    aware(valid_at, "valid_at")
    state = state_as_of(claims, decisions, as_of=as_of, rules=rules)
    return tuple(holding for holding in state.holdings if holding.period.contains(valid_at))
