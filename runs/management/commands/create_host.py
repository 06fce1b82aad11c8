"""Makes a host."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from openwop_ui.tenancy.lookup import tenant_named
from runs.store import register_host


class Command(BaseCommand):
    help = (
        "Makes a host, or changes its origin and credential where they are given. Running it again changes nothing."
        " A host with an origin is discovered and followed by the workers."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug")
        parser.add_argument("--tenant", required=True, metavar="SLUG")
        parser.add_argument("--name", default="")
        parser.add_argument("--origin", default="", metavar="URL", help="where the host answers")
        parser.add_argument("--credential", default="", metavar="KEY", help="what the host wants as a bearer token")

    def handle(self, *args: Any, **options: Any) -> None:
        tenant = tenant_named(options["tenant"])
        try:
            host = register_host(
                tenant_id=tenant.pk,
                slug=options["slug"],
                name=options["name"],
                origin=options["origin"],
                credential=options["credential"],
            )
        except ValidationError as exc:
            raise CommandError("; ".join(exc.messages)) from exc
        self.stdout.write(f"{host.slug} is in {tenant.slug}")
