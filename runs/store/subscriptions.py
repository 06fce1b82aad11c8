"""Webhook subscriptions: opened, changed, ended, and what became of each delivery."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from uuid import UUID

import orjson
from django.conf import settings
from django.db import connection
from django.utils import timezone

from openwop_ui import vault
from openwop_ui.live.announce import announce
from openwop_ui.tenancy.scope import tenant_scope

from ..domain.storable import storable
from ..domain.webhooks import DIALECTS, fingerprint, signing_key
from ..models import Delivery, Incident, Subscription
from .hosts import HostRef
from .incidents import Found, keep_incidents

LIVE_SECRETS = 5
KEPT_DELIVERIES = 1_000
TRIM_EVERY = 100
"""So many deliveries may be kept beyond KEPT_DELIVERIES before they are trimmed."""
LONGEST_SECRET = 512


class NotPossible(ValueError):
    """Its text is for people."""


def seal_secrets(secrets: Sequence[str]) -> str:
    return vault.seal(json.dumps(list(secrets))) if secrets else ""


def unseal_secrets(sealed: str) -> tuple[str, ...]:
    """Newest first. Raises vault.UnreadableSecret."""
    return _unsealed(sealed, settings.CREDENTIALS_KEY) if sealed else ()


@lru_cache(maxsize=256)
def _unsealed(sealed: str, _opened_with: str) -> tuple[str, ...]:
    # Each delivery asks, and the text changes with the secrets: what is sealed otherwise is another text.
    return tuple(json.loads(vault.unseal(sealed)))


def open_subscription(host: HostRef, *, dialect: str, secret: str = "", remote_id: str = "") -> Subscription:
    """Raises BadSecret. Without a secret nothing is accepted until one is added."""
    if secret:
        signing_key(DIALECTS[dialect], secret)
    with tenant_scope(host.tenant_id):
        subscription = Subscription.objects.create(
            tenant_id=host.tenant_id,
            host_id=host.id,
            dialect=dialect,
            sealed_secrets=seal_secrets([secret] if secret else []),
            remote_id=storable(remote_id),
        )
        announce(host.tenant_id, {"hosts": None})
    return subscription


def discard_subscription(tenant_id: int, subscription_id: UUID) -> None:
    """For one that its host never took: it leaves no trace."""
    with tenant_scope(tenant_id):
        Subscription.objects.filter(tenant_id=tenant_id, pk=subscription_id).delete()
        announce(tenant_id, {"hosts": None})


def keep_registration(tenant_id: int, subscription_id: UUID, *, remote_id: str, secret: str) -> None:
    """What the host answered: how it calls the subscription, and what it signs with, "" when it did not tell."""
    with tenant_scope(tenant_id):
        subscription = _locked(tenant_id, subscription_id)
        subscription.remote_id = storable(remote_id)
        subscription.sealed_secrets = seal_secrets([secret] if secret else [])
        subscription.save(update_fields=["remote_id", "sealed_secrets"])
        announce(tenant_id, {"hosts": None})


def add_secret(tenant_id: int, subscription_id: UUID, secret: str) -> None:
    """The secrets before it stay live until they are removed. Raises BadSecret and NotPossible."""
    if len(secret) > LONGEST_SECRET:
        raise NotPossible(f"a secret of more than {LONGEST_SECRET} characters")
    with tenant_scope(tenant_id):
        subscription = _locked(tenant_id, subscription_id)
        signing_key(DIALECTS[subscription.dialect], secret)
        others = [one for one in _readable_secrets(subscription) if one != secret]
        if len(others) >= LIVE_SECRETS:
            raise NotPossible(f"{LIVE_SECRETS} secrets are live; remove one that is no longer used")
        _save_secrets(subscription, [secret, *others])


def remove_secret(tenant_id: int, subscription_id: UUID, removed: str) -> None:
    """``removed`` is a fingerprint. Raises NotPossible for the last one, which only goes with its subscription."""
    with tenant_scope(tenant_id):
        subscription = _locked(tenant_id, subscription_id)
        live = _readable_secrets(subscription)
        kept = [one for one in live if fingerprint(one) != removed]
        if len(kept) == len(live):
            raise NotPossible(f"no live secret has the fingerprint {removed[:8]}")
        if not kept:
            raise NotPossible("it is the only secret; without one nothing would be accepted")
        _save_secrets(subscription, kept)


def end_subscription(tenant_id: int, subscription_id: UUID) -> None:
    """From now on its address answers as one that never was. Its secrets are forgotten."""
    with tenant_scope(tenant_id):
        Subscription.objects.filter(tenant_id=tenant_id, pk=subscription_id, state=Subscription.State.ACTIVE).update(
            state=Subscription.State.ENDED, ended_at=timezone.now(), sealed_secrets=""
        )
        announce(tenant_id, {"hosts": None})


def _locked(tenant_id: int, subscription_id: UUID) -> Subscription:
    """Raises NotPossible for one that ended: an address that was given up never comes back."""
    subscription = (
        Subscription.objects.select_for_update()
        .filter(tenant_id=tenant_id, pk=subscription_id, state=Subscription.State.ACTIVE)
        .first()
    )
    if subscription is None:
        raise NotPossible("the webhook has ended")
    return subscription


def _readable_secrets(subscription: Subscription) -> tuple[str, ...]:
    try:
        return unseal_secrets(subscription.sealed_secrets)
    except vault.UnreadableSecret:
        return ()  # its key is gone, so nothing signed with it can be accepted any more


def _save_secrets(subscription: Subscription, secrets: Sequence[str]) -> None:
    subscription.sealed_secrets = seal_secrets(secrets)
    subscription.save(update_fields=["sealed_secrets"])
    announce(subscription.tenant_id, {"hosts": None})


def note_delivery(
    *,
    tenant_id: int,
    subscription_id: UUID,
    outcome: Delivery.Outcome,
    received_at: datetime,
    reason: str = "",
    run_id: str = "",
    sequence: int | None = None,
    times: int = 1,
) -> None:
    """Counts a delivery and keeps its outcome. The caller is in the tenant's scope.

    ``times`` counts deliveries that came to nothing in the same way and are not kept one by one.
    """
    refused = times if outcome == Delivery.Outcome.REFUSED else 0
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH counted AS (
                UPDATE runs_subscription SET accepted_count = accepted_count + %(accepted)s,
                    refused_count = refused_count + %(refused)s,
                    last_delivery_at = CASE WHEN %(accepted)s > 0
                        THEN greatest(last_delivery_at, %(at)s) ELSE last_delivery_at END
                WHERE tenant_id = %(tenant)s AND id = %(subscription)s
                RETURNING accepted_count + refused_count AS total)
            INSERT INTO runs_delivery (tenant_id, subscription_id, outcome, reason, run_id, sequence, received_at)
            SELECT %(tenant)s, %(subscription)s, %(outcome)s, %(reason)s, %(run)s, %(sequence)s, %(at)s FROM counted
            RETURNING (SELECT total FROM counted)
            """,
            {
                "tenant": tenant_id,
                "subscription": subscription_id,
                "accepted": times - refused,
                "refused": refused,
                "outcome": outcome,
                "reason": storable(reason),
                "run": storable(run_id),
                "sequence": sequence,
                "at": received_at,
            },
        )
        row = cursor.fetchone()
    if row and row[0] // TRIM_EVERY != (row[0] - times) // TRIM_EVERY:
        _trim(tenant_id, subscription_id)
    announce(tenant_id, {"hosts": None})


@dataclass(frozen=True, slots=True)
class Delivered:
    """A delivery that is not refused."""

    subscription_id: UUID
    outcome: Delivery.Outcome
    received_at: datetime
    run_id: str
    sequence: int
    reason: str = ""


def keep_deliveries(tenant_id: int, delivered: Sequence[Delivered]) -> None:
    """The same as `note_delivery` for many, but told by the caller."""
    rows = [
        {
            "subscription_id": one.subscription_id,
            "outcome": one.outcome.value,
            "received_at": one.received_at,
            "run_id": storable(one.run_id),
            "sequence": one.sequence,
            "reason": storable(one.reason),
            "place": place,
        }
        for place, one in enumerate(delivered)
    ]
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH told AS (
                SELECT * FROM json_to_recordset(%(rows)s) AS t (subscription_id uuid, outcome text,
                    received_at timestamptz, run_id text, sequence bigint, reason text, place int)),
            counted AS (
                UPDATE runs_subscription s SET accepted_count = s.accepted_count + n.count,
                    last_delivery_at = greatest(s.last_delivery_at, n.at)
                FROM (SELECT subscription_id, count(*), max(received_at) AS at FROM told GROUP BY 1) n
                WHERE s.tenant_id = %(tenant)s AND s.id = n.subscription_id
                RETURNING s.id, s.accepted_count + s.refused_count AS total, n.count),
            kept AS (
                INSERT INTO runs_delivery (tenant_id, subscription_id, outcome, reason, run_id, sequence, received_at)
                SELECT %(tenant)s, t.subscription_id, t.outcome, t.reason, t.run_id, t.sequence, t.received_at
                FROM told t JOIN counted c ON c.id = t.subscription_id ORDER BY t.place)
            SELECT id FROM counted WHERE total / %(every)s <> (total - count) / %(every)s
            """,
            {"tenant": tenant_id, "rows": orjson.dumps(rows).decode(), "every": TRIM_EVERY},
        )
        grown = [subscription for (subscription,) in cursor.fetchall()]
    for subscription in grown:
        _trim(tenant_id, subscription)


def _trim(tenant_id: int, subscription_id: UUID) -> None:
    """Whoever knows the address can make rows, so only the newest are kept."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            DELETE FROM runs_delivery WHERE tenant_id = %(tenant)s AND subscription_id = %(subscription)s AND id <= (
                SELECT id FROM runs_delivery WHERE tenant_id = %(tenant)s AND subscription_id = %(subscription)s
                ORDER BY id DESC OFFSET %(kept)s LIMIT 1)
            """,
            {"tenant": tenant_id, "subscription": subscription_id, "kept": KEPT_DELIVERIES},
        )


def note_foreign_tenant(
    *, tenant_id: int, host_id: int, subscription_id: UUID, own: str, foreign: str, noticed_at: datetime
) -> None:
    """Once for each tenant of the host whose run came where it must not. The caller is in the tenant's scope.

    The other tenant is kept as a digest: its name is no business of this one, but whoever runs the host can tell.
    """
    digest = hashlib.sha256(foreign.encode("utf-8", "surrogatepass")).hexdigest()
    incident = Found(
        host=host_id,
        run=None,
        run_id="",
        kind=Incident.Kind.FOREIGN_TENANT,
        sequence=None,
        detail={"subscription": str(subscription_id), "tenant": own, "foreign_sha256": digest},
        identity=f"{subscription_id} {digest}",
    )
    keep_incidents(tenant_id, [incident], noticed_at=noticed_at)
    announce(tenant_id, {"hosts": None})


def follow_delivered_run(*, tenant_id: int, host_id: int, run_id: str, asked_here: bool = False) -> None:
    """Has a run followed that a webhook told something new of, where the host can be asked.

    What a delivery left out, or what was not subscribed to, then comes by reading the run. A run whose following had
    ended is read again. ``asked_here`` says that it was begun from here. The caller is in the tenant's scope.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO runs_follow (tenant_id, host_id, run_id, phase, last_error, leased_by, asked_here, updated_at)
            SELECT tenant_id, id, %(run)s, 'waiting', '', '', %(asked)s, now() FROM runs_host
            WHERE tenant_id = %(tenant)s AND id = %(host)s AND origin <> ''
            ON CONFLICT (tenant_id, host_id, run_id) DO UPDATE SET updated_at = now(),
                phase = CASE WHEN runs_follow.finished_at IS NULL THEN runs_follow.phase ELSE 'waiting' END,
                finished_at = NULL, asked_here = runs_follow.asked_here OR excluded.asked_here
                WHERE runs_follow.finished_at IS NOT NULL OR excluded.asked_here
            """,
            {"tenant": tenant_id, "host": host_id, "run": storable(run_id), "asked": asked_here},
        )
