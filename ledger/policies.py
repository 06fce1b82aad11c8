"""What a tenant laid down about its memory, with what holds where it laid down nothing. The only writer of it."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection

from openwop_ui.live.announce import announce
from openwop_ui.tenancy.scope import tenant_scope

from .domain.redaction import Policy
from .models import LedgerSettings
from .models.policies import DEFAULT_ENTRY_BYTES


@dataclass(frozen=True, slots=True)
class LedgerPolicy:
    """A period of None keeps for ever. ``own_host`` is the host of what is put here, None before there is any."""

    secrets: Policy = Policy.REWRITE
    max_entry_bytes: int = DEFAULT_ENTRY_BYTES
    payload_days: int | None = None
    event_days: int | None = None
    own_host: int | None = None


def policy_of(tenant_id: int) -> LedgerPolicy:
    """Enters the tenant's scope by itself."""
    with tenant_scope(tenant_id):
        stored = LedgerSettings.objects.filter(tenant_id=tenant_id).first()
    if stored is None:
        return LedgerPolicy()
    return LedgerPolicy(
        secrets=Policy(stored.secret_policy),
        max_entry_bytes=stored.max_entry_bytes,
        payload_days=stored.payload_days,
        event_days=stored.event_days,
        own_host=stored.own_host_id,
    )


def lay_down(
    *, tenant_id: int, secrets: Policy, max_entry_bytes: int, payload_days: int | None, event_days: int | None
) -> None:
    """Raises ValidationError for a size or period that can not be."""
    with tenant_scope(tenant_id):
        stored = held_settings(tenant_id)
        stored.secret_policy = secrets
        stored.max_entry_bytes = max_entry_bytes
        stored.payload_days, stored.event_days = payload_days, event_days
        stored.full_clean(exclude=["tenant"])
        stored.save()
        announce(tenant_id, {"retention": None})


def held_settings(tenant_id: int) -> LedgerSettings:
    """The tenant's row, made when there is none, which nobody else changes until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO ledger_ledgersettings (tenant_id, secret_policy, max_entry_bytes, changed_at)"
            " VALUES (%s, %s, %s, now()) ON CONFLICT (tenant_id) DO NOTHING",
            [tenant_id, Policy.REWRITE.value, DEFAULT_ENTRY_BYTES],
        )
    return LedgerSettings.objects.select_for_update().get(tenant_id=tenant_id)
