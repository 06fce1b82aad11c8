"""Hosts: registered, found, marked."""

from __future__ import annotations

from dataclasses import dataclass

from openwop_ui import vault
from openwop_ui.live.announce import announce
from openwop_ui.tenancy.scope import tenant_scope

from ..domain.storable import storable
from ..models import Follow, Host


@dataclass(frozen=True, slots=True)
class HostRef:
    """A host as the intake knows it: whose it is and which."""

    tenant_id: int
    id: int
    slug: str


def register_host(
    *, tenant_id: int, slug: str, name: str = "", origin: str = "", credential: str = "", memory_route: str = ""
) -> Host:
    """Makes the host if it is new; changes what is given and differs.

    Raises ValidationError for a slug or name that can not be.
    """
    with tenant_scope(tenant_id):
        host = Host.objects.filter(tenant_id=tenant_id, slug=slug).first() or Host(tenant_id=tenant_id, slug=slug)
        changed = host.pk is None
        for field, value in (("name", name), ("origin", origin.rstrip("/")), ("memory_route", memory_route)):
            if value and getattr(host, field) != value:
                setattr(host, field, value)
                changed = True
        if credential and _credential(host) != credential:
            host.sealed_credential, changed = vault.seal(credential), True
        if changed:
            host.full_clean(exclude=["tenant"])
            host.save()
            announce(tenant_id, {"hosts": None})
    return host


def set_memory_route(host: HostRef, route: str) -> None:
    """How the host's memory is read from now on: "" for not at all."""
    with tenant_scope(host.tenant_id):
        Host.objects.filter(tenant_id=host.tenant_id, pk=host.id).update(memory_route=route)
        announce(host.tenant_id, {"hosts": None, "ledger": None})


def follow_run(host: HostRef, run_id: str) -> bool:
    """Has a run followed that nobody listed. False when it was followed to its end already."""
    with tenant_scope(host.tenant_id):
        follow, _ = Follow.objects.get_or_create(tenant_id=host.tenant_id, host_id=host.id, run_id=storable(run_id))
        if follow.finished_at is not None:
            return False
        Follow.objects.filter(tenant_id=host.tenant_id, pk=follow.pk, paused=True).update(paused=False, phase="waiting")
        announce(host.tenant_id, {"hosts": None})
    return True


def set_following(host: HostRef, following: bool) -> None:
    """Whether the host's runs are followed. The worker hears of it within seconds."""
    with tenant_scope(host.tenant_id):
        Host.objects.filter(tenant_id=host.tenant_id, pk=host.id).update(following=following)
        announce(host.tenant_id, {"hosts": None, "runs": None})


def set_run_following(host: HostRef, run_id: str, following: bool) -> bool:
    """Whether one run is followed. False when it is not being followed at all, or to its end already."""
    with tenant_scope(host.tenant_id):
        changed = Follow.objects.filter(
            tenant_id=host.tenant_id, host_id=host.id, run_id=storable(run_id), finished_at__isnull=True
        ).update(paused=not following, phase="waiting" if following else "paused", retry_at=None, connected_since=None)
        announce(host.tenant_id, {"hosts": None})
    return bool(changed)


def set_credential(host: HostRef, credential: str) -> None:
    """What the host wants as a bearer token; "" for none. Following begins anew with it."""
    with tenant_scope(host.tenant_id):
        Host.objects.filter(tenant_id=host.tenant_id, pk=host.id).update(
            sealed_credential=vault.seal(credential), last_error=""
        )
        announce(host.tenant_id, {"hosts": None})


def _credential(host: Host) -> str:
    try:
        return vault.unseal(host.sealed_credential)
    except vault.UnreadableSecret:
        return ""


def ref(host: Host) -> HostRef:
    return HostRef(tenant_id=host.tenant_id, id=host.pk, slug=host.slug)
