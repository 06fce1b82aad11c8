"""Makes an API key and prints it, alone, once."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from openwop_ui.tenancy.keys import create_api_key
from openwop_ui.tenancy.lookup import tenant_named
from openwop_ui.tenancy.models import Scope


class Command(BaseCommand):
    help = "Makes an API key and prints it. It is not stored and can not be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--tenant", required=True, metavar="SLUG")
        parser.add_argument("--name", required=True, help="what the key is for")
        parser.add_argument("--scopes", required=True, help=f"some of {','.join(Scope.values)}")
        parser.add_argument("--writer", default="", metavar="KEY", help="the service key that it speaks for")

    def handle(self, *args: Any, **options: Any) -> None:
        tenant = tenant_named(options["tenant"])
        scopes = [scope.strip() for scope in options["scopes"].split(",") if scope.strip()]
        try:
            _, plain = create_api_key(
                tenant_id=tenant.pk, name=options["name"], scopes=scopes, writer=options["writer"].strip() or None
            )
        except ValueError as exc:
            raise CommandError(str(exc)) from exc
        self.stdout.write(plain)
