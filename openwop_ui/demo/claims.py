"""What the demo's services say about its customers: agreements, corrections, and disagreements that await a person.

Said again at every start: a source event that is known already adds nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils import timezone

from ledger.claims_store import WriterExists, add, register_writer
from ledger.claims_store.rules import rules_of
from ledger.domain.submissions import Permitted, read_submission
from ledger.domain.writers import AuthorityRules
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope

RECEIVED_FROM = "key:demo"
NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Writer:
    key: str
    name: str
    priority: int
    categories: dict[str, int]


WRITERS = (
    Writer("billing-service", "Billing", 60, {"fact": 80}),
    Writer("support-service", "Support desk", 60, {"fact": 80, "preference": 70}),
    Writer("crm-sync", "CRM sync", 40, {}),
    Writer("chat-assistant", "Chat assistant", 20, {"preference": 60}),
)

Said = tuple[str, str, str, dict[str, Any]]


def say(tenant: Tenant) -> None:
    """Registers the writers and hands in what they say."""
    for writer in WRITERS:
        try:
            register_writer(
                tenant_id=tenant.pk,
                service_key=writer.key,
                display_name=writer.name,
                authority=AuthorityRules(writer.priority, writer.categories),
            )
        except WriterExists:
            continue
    now = timezone.now()
    with tenant_scope(tenant.pk):
        permitted = Permitted(None, frozenset(writer.key for writer in WRITERS), rules_of(tenant.pk).keys)
        submissions = [read_submission(body, permitted, received_at=now) for body in _bodies()]
        add(tenant.pk, submissions, received_from=RECEIVED_FROM, received_at=now)


def _bodies() -> Iterator[dict[str, Any]]:
    for number, (writer, subject, when, what) in enumerate(_said(), start=1):
        minutes, _, evidence = when.partition(" ")
        yield {
            "external_user_id": subject,
            "source": {
                "service": writer,
                "event_id": f"{writer}-2026-11-{number:03d}",
                "observed_at": (NOON + timedelta(minutes=int(minutes))).isoformat(),
                "evidence": [evidence] if evidence else [],
            },
            **what,
        }


def _said() -> Iterator[Said]:
    yield (
        "billing-service",
        "customer_123",
        "0 billing/subscriptions/ws_123",
        _claim("fact", "subscription.plan", "Growth", 0.98),
    )
    yield "support-service", "customer_123", "19 tickets/48211", _claim("fact", "subscription.plan", "Starter", 0.71)
    yield "crm-sync", "customer_123", "4 crm/accounts/123", _claim("fact", "subscription.plan", "Growth", 0.9)
    yield "crm-sync", "customer_123", "5", _claim("fact", "seats", 40, 0.8)
    yield "billing-service", "customer_123", "9 billing/invoices/9931", _claim("fact", "seats", 45, 1.0)
    yield "chat-assistant", "customer_123", "30", _message("I prefer tea. My name is Ada Byron.")
    yield "chat-assistant", "customer_123", "95", _message("Actually I don't like tea.")
    yield "support-service", "customer_456", "2 tickets/48220", _claim("fact", "contact.language", "de", None)
    yield "billing-service", "customer_456", "3 billing/accounts/456", _claim("fact", "contact.language", "en", None)
    yield "crm-sync", "customer_456", "7", _claim("fact", "company.name", "Müller & Söhne GmbH", 0.7)
    yield "crm-sync", "customer_456", "400", _claim("fact", "company.name", "Müller Söhne AG", 0.7)
    yield "support-service", "customer_789", "11 tickets/48301", _claim("fact", "renewal.date", "2027-03-01", 0.6)
    yield (
        "billing-service",
        "customer_789",
        "12 billing/contracts/789",
        _claim("fact", "renewal.date", "2027-04-01", 0.6),
    )
    yield "chat-assistant", "customer_789", "14", _message("我喜欢咖啡")
    yield "chat-assistant", "customer_789", "50", _message("我不喜欢咖啡")
    yield "support-service", "customer_789", "21", _message("Let's look at the dashboard together next week.")


def _claim(category: str, key: str, value: Any, confidence: float | None) -> dict[str, Any]:
    claim = {"category": category, "key": key, "value": value, "content": f"The {key.replace('.', ' ')} is {value}."}
    return {"claims": [claim | ({} if confidence is None else {"confidence": confidence})]}


def _message(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}
