"""`manage.py retain`: takes away what a tenant keeps no longer."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from ledger.policies import policy_of
from ledger.retention import retain
from openwop_ui.tenancy.lookup import tenant_named


class Command(BaseCommand):
    help = (
        "Takes away the payloads of source events and of runs' events that are older than the tenant keeps them."
        " Hashes and a tombstone stay. The worker does the same by itself."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--tenant", required=True, metavar="SLUG")
        parser.add_argument("--dry-run", action="store_true", help="only say how much it would be")

    def handle(self, *args: Any, **options: Any) -> None:
        tenant = tenant_named(options["tenant"])
        policy = policy_of(tenant.pk)
        if policy.payload_days is None and policy.event_days is None:
            self.stdout.write("This tenant keeps everything: no period is set.")
            return
        done = retain(tenant.pk, dry_run=options["dry_run"])
        words = "are due" if options["dry_run"] else "were taken away"
        self.stdout.write(f"{done.payloads} payloads of source events and {done.events} of runs' events {words}.")
