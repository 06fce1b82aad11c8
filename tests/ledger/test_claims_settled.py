"""Whatever the order, the batches, the repeats and the ids: the same claims end in the same state."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger.claims_rebuild import check_claims
from ledger.claims_store.settling import alone
from ledger.domain.periods import Period
from ledger.domain.settlement import resolve
from ledger.models import ClaimRow, ClaimState, Conflict, ConflictClaim, Holding, SubjectKey
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from tests.factories import make_tenant
from tests.ledger.claims import at, body, make_writer, say
from tests.ledger.domain.making import claim, rules

pytestmark = pytest.mark.django_db
NUMBERS = count(1)
WRITERS = {"billing": 50, "crm": 50, "chat": 30}
CLAIMS = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["plan", "tags"]),
        "value": st.sampled_from(["Growth", "growth", "Starter"]),
    },
    optional={
        "valid_from": st.sampled_from(["2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"]),
        "confidence": st.sampled_from([0.4, 0.9]),
        "scope": st.sampled_from([{"team": "a"}, {"team": ""}]),
    },
)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(sorted(WRITERS)),
        st.sampled_from(["user-1", "user-2"]),
        st.integers(0, 3),
        st.lists(CLAIMS, min_size=1, max_size=2),
    ),
    min_size=1,
    max_size=6,
)


def new_tenant() -> Tenant:
    tenant = make_tenant(f"t{next(NUMBERS)}")
    for writer, priority in WRITERS.items():
        make_writer(tenant, writer, priority)
    return tenant


def bodies(events: list[Any], prefix: str) -> list[dict[str, Any]]:
    return [
        body(f"{prefix}{number}", service=writer, subject=subject, hour=hour, claims=claims)
        for number, (writer, subject, hour, claims) in enumerate(events)
    ]


def told(tenant: Tenant) -> dict[str, Any]:
    """How things stand, without any id."""
    with tenant_scope(tenant.pk):
        keys = {row.id: (row.subject, row.key) for row in SubjectKey.objects.filter(tenant_id=tenant.pk)}
        rows = {
            row.id: (*keys[row.subject_key_id], row.scope, row.writer, row.normal, row.observed_at, row.confidence)
            for row in ClaimRow.objects.filter(tenant_id=tenant.pk)
        }
        members: dict[Any, list[Any]] = {}
        for one in ConflictClaim.objects.filter(tenant_id=tenant.pk):
            members.setdefault(one.conflict_id, []).append((str(rows[one.claim_id]), one.side, one.is_contender))
        live = Conflict.objects.filter(tenant_id=tenant.pk, state__in=("open", "decided"))
        return {
            "states": sorted(
                (str(rows[one.claim_id]), one.status, one.rule)
                for one in ClaimState.objects.filter(tenant_id=tenant.pk)
            ),
            "held": sorted(
                (str(rows[one.claim_id][:5]), str(one.valid), one.is_open)
                for one in Holding.objects.filter(tenant_id=tenant.pk)
            ),
            "conflicts": sorted(
                (keys[one.subject_key_id], one.scope, one.state, one.rule, str(sorted(members[one.id]))) for one in live
            ),
        }


def batches(told: list[Any], sizes: list[int]) -> Iterator[list[Any]]:
    left = list(told)
    for size in sizes:
        if left:
            yield left[:size]
            left = left[size:]
    if left:
        yield left


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=EVENTS, sizes=st.lists(st.integers(1, 3), max_size=6), data=st.data())
def test_order_batches_repeats_and_ids_change_nothing(
    db: None, events: list[Any], sizes: list[int], data: st.DataObject
) -> None:
    at_once, shuffled = new_tenant(), new_tenant()
    say(at_once, *bodies(events, "a"))
    # Other event ids make other source events and claims: everything else is the same.
    order = data.draw(st.permutations(range(len(events))))
    again = bodies(events, "z")
    repeated = [again[number] for number in order] + data.draw(st.lists(st.sampled_from(again), max_size=3))
    for batch in batches(repeated, sizes):
        say(shuffled, *batch)
    assert told(shuffled) == told(at_once)
    assert differing(at_once) == differing(shuffled) == set()


def differing(tenant: Tenant, *, mend: bool = False) -> set[str]:
    return {one.table for one in check_claims(tenant.pk, mend=mend) if one.lost or one.gained}


def test_a_claim_alone_stands_as_the_rules_say() -> None:
    for one in (claim(1), claim(2, valid=Period(at(1), None)), claim(3, scope={"team": "a"}, confidence=0.1)):
        short, whole = alone(one), resolve([one], (), rules())
        assert (short.holdings, short.conflicts, dict(short.places)) == (
            whole.holdings,
            whole.conflicts,
            dict(whole.places),
        )


def test_a_tenant_has_nothing_of_another(db: None) -> None:
    one, other = new_tenant(), new_tenant()
    say(one, body("e1", claims=[{"key": "plan", "value": "Growth"}]))
    assert told(other) == {"states": [], "held": [], "conflicts": []}
    with tenant_scope(other.pk):
        assert ClaimRow.objects.count() == 0


def test_the_check_finds_what_was_tampered_with(db: None) -> None:
    tenant = new_tenant()
    say(tenant, body("e1", claims=[{"key": "plan", "value": "Growth"}]))
    say(tenant, body("e2", service="crm", hour=1, claims=[{"key": "plan", "value": "Starter"}]))
    assert differing(tenant) == set()
    with tenant_scope(tenant.pk):
        ClaimState.objects.filter(tenant_id=tenant.pk, status="contested").update(status="active")
        Holding.objects.filter(tenant_id=tenant.pk).update(is_open=False)
        Conflict.objects.filter(tenant_id=tenant.pk).update(state="decided")
    assert differing(tenant) == {"ledger_claimstate", "ledger_holding", "ledger_conflict"}
    assert differing(tenant, mend=True) == {"ledger_claimstate", "ledger_holding", "ledger_conflict"}
    assert differing(tenant) == set()
