"""What a tenant's admin does to the webhooks of a host, from the host's page and back to it."""

from __future__ import annotations

import re
from uuid import UUID

from django.http import Http404
from django.urls import reverse

from openwop_ui.tenancy.access import TenantRequest
from openwop_ui.tenancy.models import Role
from openwop_ui.tenancy.scope import tenant_scope

from .domain.storable import original
from .domain.webhooks import DIALECTS, Dialect, fingerprint
from .host_changes import changes_host, field
from .models import Host, Subscription
from .pages import WebhookForm
from .queries import Option
from .queries.subscriptions import implementation_of
from .store import ref
from .store.subscriptions import (
    NotPossible,
    add_secret,
    discard_subscription,
    end_subscription,
    keep_registration,
    open_subscription,
    remove_secret,
)
from .webhook_registration import (
    STANDARD,
    SUGGESTED_EVENTS,
    HostRefused,
    RegistrationProblem,
    new_secret,
    register,
    rotate,
    suggested_dialect,
    target_of,
    unregister,
)

DIALECT_WORDS = {
    "openwop-2": "OpenWOP 2 (OpenWOP-Signature: sha256=…)",
    "openwop-1": "OpenWOP 1 (X-openwop-Signature: sha256=…)",
    "standard-webhooks": "Standard Webhooks (webhook-signature: v1,…)",
    "openwop-app": "openwop-app (openwop-signature: t=…,v1=…)",
    "reference-hosts": "Example hosts (X-openwop-Signature: …)",
    "client-1": "First client libraries (openwop-Webhook-Signature: v1=…)",
}
MOST_EVENTS = 200
_EVENT_NAME = re.compile(r"[A-Za-z0-9*][A-Za-z0-9._*-]{0,127}")


def webhook_form(request: TenantRequest, host: Host) -> WebhookForm | None:
    """None for who may not change webhooks. The caller is in the tenant's scope."""
    if not request.membership.may(Role.ADMIN):
        return None
    return WebhookForm(
        may_register=bool(host.origin),
        dialects=tuple(Option(name, words) for name, words in DIALECT_WORDS.items()),
        dialect=suggested_dialect(host.major, implementation_of(host.tenant_id, host.pk)),
        events=SUGGESTED_EVENTS,
    )


@changes_host
def register_webhook(request: TenantRequest, host: Host) -> str:
    target = target_of(host)
    dialect, events = _dialect(request), _events(request)
    secret = new_secret(dialect)
    # Before the host hears of it, since it may ask the address for a challenge while it registers it.
    subscription = open_subscription(ref(host), dialect=dialect.name, secret=secret)
    try:
        registered = register(
            target,
            subscription=subscription.pk,
            url=_address(request, subscription),
            events=events,
            dialect=dialect,
            secret=secret,
            tenant=field(request, "tenant"),
        )
    except RegistrationProblem:
        discard_subscription(host.tenant_id, subscription.pk)
        raise
    keep_registration(host.tenant_id, subscription.pk, remote_id=registered.remote_id, secret=registered.secret)
    if not registered.secret:
        return "Registered, but the host told no secret. Until you paste it, its deliveries are refused."
    return "Registered. The host delivers to this site from now on."


@changes_host
def adopt_webhook(request: TenantRequest, host: Host) -> str:
    """For a webhook that is registered by hand: the address is made here, the secret is pasted now or later."""
    secret = field(request, "secret")
    open_subscription(ref(host), dialect=_dialect(request).name, secret=secret, remote_id=field(request, "remote_id"))
    return "Made. Register its address on the host" + (
        "." if secret else ", then paste the secret that the host gives you."
    )


@changes_host
def paste_secret(request: TenantRequest, host: Host) -> str:
    secret = field(request, "secret")
    if not secret:
        raise NotPossible("there is no secret in the field")
    add_secret(host.tenant_id, _subscription(request, host).pk, secret)
    return "Added. The secrets before it stay live until you remove them."


@changes_host
def rotate_secret(request: TenantRequest, host: Host) -> str:
    """Has the host sign with a new secret of ours, which is live here before the host hears of it."""
    subscription = _subscription(request, host)
    dialect = DIALECTS[subscription.dialect]
    if not dialect.is_standard or not subscription.remote_id:
        raise NotPossible(f"only a webhook registered from here by {STANDARD} can be rotated on its host")
    secret = new_secret(dialect)
    target = target_of(host)
    add_secret(host.tenant_id, subscription.pk, secret)
    try:
        rotate(target, remote_id=original(subscription.remote_id), secret=secret)
    except HostRefused:
        remove_secret(host.tenant_id, subscription.pk, fingerprint(secret))
        raise
    return "The host signs with a new secret. Remove the old one when deliveries come signed with the new one only."


@changes_host
def forget_secret(request: TenantRequest, host: Host) -> str:
    remove_secret(host.tenant_id, _subscription(request, host).pk, field(request, "fingerprint"))
    return "Removed. What is signed with that secret is refused."


@changes_host
def end_webhook(request: TenantRequest, host: Host) -> str:
    """Unregisters it on the host where this side knows it there; with ``here``, ends it on this side alone."""
    subscription = _subscription(request, host)
    told = bool(subscription.remote_id and host.origin and not field(request, "here"))
    if told:
        unregister(target_of(host), subscription=subscription.pk, remote_id=original(subscription.remote_id))
    end_subscription(host.tenant_id, subscription.pk)
    return "Unregistered on the host." if told else "Ended. What the host still delivers to its address is refused."


def _subscription(request: TenantRequest, host: Host) -> Subscription:
    try:
        wanted = UUID(field(request, "subscription"))
    except ValueError:
        raise Http404("No such webhook.") from None
    with tenant_scope(host.tenant_id):
        found = Subscription.objects.filter(tenant_id=host.tenant_id, host_id=host.pk, pk=wanted).first()
    if found is None:
        raise Http404("No such webhook.")
    return found


def _dialect(request: TenantRequest) -> Dialect:
    dialect = DIALECTS.get(field(request, "dialect"))
    if dialect is None:
        raise NotPossible("choose how the host signs")
    return dialect


def _events(request: TenantRequest) -> list[str]:
    names = list(dict.fromkeys(request.POST.get("events", "").replace(",", " ").split())) or list(SUGGESTED_EVENTS)
    unreadable = next((name for name in names if not _EVENT_NAME.fullmatch(name)), None)
    if unreadable is not None:
        raise NotPossible(f"{unreadable[:40]} is not the name of an event")
    if len(names) > MOST_EVENTS:
        raise NotPossible(f"more than {MOST_EVENTS} events")
    return names


def _address(request: TenantRequest, subscription: Subscription) -> str:
    return request.build_absolute_uri(reverse("hook", args=[subscription.pk]))
