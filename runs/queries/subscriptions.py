"""Webhook subscriptions: the one that a delivery is for, and a host's for its page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from openwop_ui.tenancy.scope import hook_scope
from openwop_ui.vault import UnreadableSecret

from ..domain.storable import original
from ..domain.webhooks import DIALECTS, Dialect, fingerprint, tenant_in
from ..models import HostDocument, Run, Subscription
from ..store.hosts import HostRef
from ..store.subscriptions import unseal_secrets

SHOWN = 20
RUNS_LOOKED_AT = 100
SECOND_MAJOR = frozenset({"openwop-2", "standard-webhooks"})
"""Dialects whose subscription ids are bound to a tenant of the host in the way that run ids are."""


@dataclass(frozen=True, slots=True)
class Hook:
    """A live subscription as its address finds it."""

    id: UUID
    tenant_id: int
    host_id: int
    dialect: Dialect
    remote_id: str
    sealed_secrets: str = field(repr=False)

    def secrets(self) -> tuple[str, ...]:
        """Raises UnreadableSecret."""
        return unseal_secrets(self.sealed_secrets)


def find_hook(hook_id: UUID) -> Hook | None:
    """None for one that never was and for one that ended alike."""
    with hook_scope(hook_id), connection.cursor() as cursor:
        cursor.execute(
            "SELECT tenant_id, host_id, dialect, remote_id, sealed_secrets FROM runs_subscription"
            " WHERE id = %s AND state = %s",
            [hook_id, Subscription.State.ACTIVE],
        )
        found = cursor.fetchone()
    if found is None:
        return None
    tenant_id, host_id, dialect, remote_id, sealed_secrets = found
    return Hook(hook_id, tenant_id, host_id, DIALECTS[dialect], original(remote_id), sealed_secrets)


def host_of(hook: Hook) -> tuple[HostRef, bool]:
    """The host, and whether it can be asked for what it does not deliver."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT slug, origin <> '' FROM runs_host WHERE tenant_id = %s AND id = %s", [hook.tenant_id, hook.host_id]
        )
        slug, can_be_asked = cursor.fetchone()
    return HostRef(hook.tenant_id, hook.host_id, slug), can_be_asked


def own_tenant(hook: Hook) -> str | None:
    """The tenant of the host that a subscription belongs to, None while nothing says which.

    The subscription's own id says it in the second major. Otherwise the first run that it delivered does, or before
    that the host's runs here, where all of the newest are of one tenant.
    """
    told = tenant_in(hook.remote_id) if hook.dialect.name in SECOND_MAJOR else None
    return told or _first_delivered(hook) or _of_the_hosts_runs(hook)


def _first_delivered(hook: Hook) -> str | None:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT run_id FROM runs_delivery
            WHERE tenant_id = %s AND subscription_id = %s AND outcome IN ('accepted', 'repeated')
                AND run_id LIKE '%%/%%'
            ORDER BY id LIMIT 1
            """,
            [hook.tenant_id, hook.id],
        )
        row = cursor.fetchone()
    return tenant_in(original(row[0])) if row else None


def _of_the_hosts_runs(hook: Hook) -> str | None:
    newest = (
        Run.objects.filter(tenant_id=hook.tenant_id, host_id=hook.host_id)
        .order_by("-id")
        .values_list("run_id", flat=True)[:RUNS_LOOKED_AT]
    )
    tenants = {tenant_in(original(run_id)) for run_id in newest} - {None}
    return tenants.pop() if len(tenants) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRow:
    """``fingerprints`` of its live secrets are newest first, None where CREDENTIALS_KEY does not open them."""

    key: str
    state: str
    dialect: str
    remote_id: str
    fingerprints: tuple[str, ...] | None
    created_at: datetime
    ended_at: datetime | None
    last_delivery_at: datetime | None
    accepted: int
    refused: int
    refused_reason: str
    refused_at: datetime | None
    dead: int
    last_dead_at: datetime | None

    @property
    def is_active(self) -> bool:
        return self.state == Subscription.State.ACTIVE

    @property
    def signs_standard(self) -> bool:
        return DIALECTS[self.dialect].is_standard


def host_subscriptions(tenant_id: int, host_id: int) -> tuple[tuple[SubscriptionRow, ...], int]:
    """A host's subscriptions, live ones first, then the newest, and how many there are."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT s.id, s.state, s.dialect, s.remote_id, s.sealed_secrets, s.created_at, s.ended_at,
                s.last_delivery_at, s.accepted_count, s.refused_count, d.reason, d.received_at, s.dead_count,
                s.last_dead_at, count(*) OVER ()
            FROM runs_subscription s
            LEFT JOIN LATERAL (
                SELECT reason, received_at FROM runs_delivery
                WHERE tenant_id = s.tenant_id AND subscription_id = s.id AND outcome = 'refused'
                ORDER BY id DESC LIMIT 1) d ON true
            WHERE s.tenant_id = %s AND s.host_id = %s
            ORDER BY s.state = 'active' DESC, s.created_at DESC, s.id LIMIT %s
            """,
            [tenant_id, host_id, SHOWN],
        )
        found = cursor.fetchall()
    return tuple(_row(row) for row in found), found[0][-1] if found else 0


def _row(row: Sequence[Any]) -> SubscriptionRow:
    key, state, dialect, remote_id, sealed, created, ended, last, accepted, refused, reason, refused_at = row[:12]
    dead, last_dead_at = row[12:14]
    return SubscriptionRow(
        key=str(key),
        state=state,
        dialect=dialect,
        remote_id=original(remote_id),
        fingerprints=_fingerprints(sealed),
        created_at=created,
        ended_at=ended,
        last_delivery_at=last,
        accepted=accepted,
        refused=refused,
        refused_reason=original(reason or ""),
        refused_at=refused_at,
        dead=dead,
        last_dead_at=last_dead_at,
    )


def _fingerprints(sealed: str) -> tuple[str, ...] | None:
    try:
        return tuple(fingerprint(secret) for secret in unseal_secrets(sealed))
    except UnreadableSecret:
        return None


def implementation_of(tenant_id: int, host_id: int) -> str:
    """What a host calls its software in its newest discovery document, "" where there is none."""
    newest = HostDocument.objects.filter(tenant_id=tenant_id, host_id=host_id).order_by("-id").first()
    told = json.loads(newest.body).get("implementation") if newest else None
    name = told.get("name") if isinstance(told, dict) else None
    return name if isinstance(name, str) else ""
