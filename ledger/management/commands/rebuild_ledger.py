"""Reads a tenant's log again."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from ledger.rebuild import Difference, rebuild
from openwop_ui.tenancy.lookup import tenant_named


class Command(BaseCommand):
    help = "Reads a tenant's event log again. With --check nothing is changed; exit code 1 on any difference."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--tenant", required=True, metavar="SLUG")
        parser.add_argument("--check", action="store_true", help="compare only, change nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        tenant = tenant_named(options["tenant"])
        differences = rebuild(tenant.pk, check=options["check"])
        for difference in differences:
            self._tell(difference)
        if any(one.lost or one.gained for one in differences):
            self.stderr.write("The ledger was not what the log says." if not options["check"] else "They differ.")
            raise SystemExit(1 if options["check"] else 0)

    def _tell(self, difference: Difference) -> None:
        name = difference.table.removeprefix("ledger_")
        if not (difference.lost or difference.gained):
            self.stdout.write(f"{name}: {difference.rows:,} rows, the same")
            return
        self.stdout.write(f"{name}: {difference.rows:,} rows, {difference.lost:,} lost, {difference.gained:,} gained")
        for sample in difference.samples:
            self.stdout.write(f"  {sample}")
