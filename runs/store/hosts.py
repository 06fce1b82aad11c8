"""Hosts: registered, found, marked."""

from __future__ import annotations

from dataclasses import dataclass

from openwop_ui import vault
from openwop_ui.live.announce import announce
from openwop_ui.tenancy.scope import tenant_scope

from ..models import Host


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


def _credential(host: Host) -> str:
    try:
        return vault.unseal(host.sealed_credential)
    except vault.UnreadableSecret:
        return ""


def ref(host: Host) -> HostRef:
    return HostRef(tenant_id=host.tenant_id, id=host.pk, slug=host.slug)
