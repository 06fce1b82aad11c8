"""Makes a tenant."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import operator_scope


class Command(BaseCommand):
    help = "Makes a tenant. Running it again changes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug")
        parser.add_argument("--name", default="")

    def handle(self, *args: Any, **options: Any) -> None:
        with operator_scope():
            tenant = Tenant(slug=options["slug"], name=options["name"])
            if Tenant.objects.filter(slug=tenant.slug).exists():
                self.stdout.write(f"{tenant.slug} is there already")
                return
            try:
                tenant.full_clean()
            except ValidationError as exc:
                raise CommandError("; ".join(exc.messages)) from exc
            tenant.save()
        self.stdout.write(f"{tenant.slug} made")
