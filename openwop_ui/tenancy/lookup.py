"""Tenants by name, for commands and workers: whoever can run those may name any tenant."""

from __future__ import annotations

from django.core.management.base import CommandError

from .models import Tenant
from .scope import operator_scope


def tenant_named(slug: str) -> Tenant:
    """Raises CommandError with the slugs that there are."""
    with operator_scope():
        tenant = Tenant.objects.filter(slug=slug).first()
        if tenant is None:
            known = ", ".join(Tenant.objects.order_by("slug").values_list("slug", flat=True)[:20])
            raise CommandError(f"There is no tenant {slug!r}. There are: {known or 'none yet'}.")
        return tenant


def all_tenants() -> list[Tenant]:
    with operator_scope():
        return list(Tenant.objects.order_by("id"))
