"""Seals everything again that is sealed with an older key of CREDENTIALS_KEY."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError
from django.db import models

from openwop_ui import vault
from openwop_ui.tenancy.lookup import all_tenants
from openwop_ui.tenancy.scope import tenant_scope

SEALED = "sealed"
"""How the columns that hold sealed values begin, in every app."""


class Command(BaseCommand):
    help = (
        "Seals the credentials of hosts and all other secrets again that are sealed with an older key of"
        " CREDENTIALS_KEY, whose first key seals. Afterwards the older keys can be left out. Prints counts only."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        unreadable = 0
        for model, field in sealed_columns():
            counts: Counter[str] = Counter()
            for tenant in all_tenants():
                with tenant_scope(tenant.pk):
                    counts += _rotated(model, field, tenant.pk)
            unreadable += counts["unreadable"]
            self.stdout.write(
                f"{model._meta.verbose_name_plural}: {counts['again']:,} sealed again, {counts['current']:,} sealed"
                f" with the first key already, {counts['unreadable']:,} that no key opens"
            )
        if unreadable:
            raise CommandError("What no key opens was left as it is. Add the key that sealed it, or set it anew.")


def sealed_columns() -> Iterator[tuple[type[models.Model], str]]:
    for model in apps.get_models():
        for field in model._meta.get_fields():
            if isinstance(field, models.TextField) and (field.name == SEALED or field.name.startswith(f"{SEALED}_")):
                yield model, field.name


def _rotated(model: type[models.Model], field: str, tenant_id: int) -> Counter[str]:
    counts: Counter[str] = Counter()
    rows = model._default_manager.filter(tenant_id=tenant_id).exclude(**{field: ""})
    for sealed in set(rows.values_list(field, flat=True)):
        try:
            again = vault.sealed_again(sealed)
        except vault.UnreadableSecret:
            counts["unreadable"] += rows.filter(**{field: sealed}).count()
            continue
        if again == sealed:
            counts["current"] += rows.filter(**{field: sealed}).count()
        else:
            # One that has been set anew in the meantime is left alone.
            counts["again"] += rows.filter(**{field: sealed}).update(**{field: again})
    return counts
