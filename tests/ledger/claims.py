"""Claims for tests that go through the store, by plain functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from ledger.claims_store import Taken, add, register_writer
from ledger.claims_store.rules import share_rules
from ledger.domain.submissions import Permitted, Submission, read_submission
from ledger.domain.writers import AuthorityRules
from ledger.models import ClaimRow, ClaimState, Conflict, Holding
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLAN = "subscription_plan"


def at(hours: float) -> datetime:
    return NOON + timedelta(hours=hours)


def make_writer(tenant: Tenant, key: str, priority: int = 50, **categories: int) -> None:
    register_writer(tenant_id=tenant.pk, service_key=key, authority=AuthorityRules(priority, categories))


def body(
    event: str,
    *,
    service: str = "billing",
    subject: str = "user-1",
    hour: float | None = 0,
    messages: Sequence[str] = (),
    claims: Sequence[Mapping[str, Any]] = (),
    **source: Any,
) -> dict[str, Any]:
    """What a program sends to ``add``."""
    told: dict[str, Any] = {"external_user_id": subject, "source": {"service": service, "event_id": event, **source}}
    if hour is not None:
        told["source"]["observed_at"] = at(hour).isoformat()
    if messages:
        told["messages"] = [{"role": "user", "content": text} for text in messages]
    if claims:
        told["claims"] = list(claims)
    return told


def plan(value: Any, **told: Any) -> dict[str, Any]:
    return {"key": PLAN, "value": value, **told}


def say(tenant: Tenant, *bodies: Mapping[str, Any], received: float = 1000) -> list[Taken]:
    """In one batch."""
    with tenant_scope(tenant.pk):
        rules = share_rules(tenant.pk)
        permitted = Permitted(None, rules.registered, rules.keys)
        told: list[Submission] = [read_submission(one, permitted, received_at=at(received)) for one in bodies]
        return add(tenant.pk, told, received_from="key:test", received_at=at(received))


def shown(tenant: Tenant) -> list[tuple[str, str]]:
    """(subject, value) of what is active."""
    with tenant_scope(tenant.pk):
        active = Holding.objects.filter(tenant_id=tenant.pk).values_list("claim_id", flat=True)
        subjects = dict(ClaimState.objects.filter(tenant_id=tenant.pk).values_list("claim_id", "subject"))
        rows = ClaimRow.objects.filter(tenant_id=tenant.pk, id__in=active).values_list("id", "display")
        return sorted((subjects[claim], display) for claim, display in rows)


def conflicts(tenant: Tenant, *states: str) -> list[Conflict]:
    with tenant_scope(tenant.pk):
        found = Conflict.objects.filter(tenant_id=tenant.pk, state__in=states or Conflict.State.values)
        return list(found.order_by("opened_at", "id"))


def statuses(tenant: Tenant) -> dict[UUID, str]:
    with tenant_scope(tenant.pk):
        return dict(ClaimState.objects.filter(tenant_id=tenant.pk).values_list("claim_id", "status"))
