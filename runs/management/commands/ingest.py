"""Takes in files of events."""

from __future__ import annotations

import json
import sys
from argparse import RawDescriptionHelpFormatter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError

from openwop_ui.tenancy.lookup import tenant_named
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.doors import CHUNK, read_items, take
from runs.models import Host
from runs.store import HostRef, Receipt, ref, register_host

REFUSED = 2
STDIN = "-"
SHOWN = 20


class Command(BaseCommand):
    help = (
        "Takes in files of events: NDJSON, a JSON array or one event, debug bundles, CloudEvents (one, one a line, a\n"
        "batch); plain, .gz or .zst. What a file holds is told by its first bytes. Taking a file in again changes\n"
        "nothing. Prints a receipt for each file; with --json one JSON object a line, which names its file when\n"
        "there are several. A host that does not exist is made, without an origin.\n\n"
        "Exit status: 0 when nothing was refused, 2 when something was, 1 on a failure."
    )

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return super().create_parser(prog_name, subcommand, formatter_class=RawDescriptionHelpFormatter, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="+", metavar="FILE", help="- reads standard input")
        parser.add_argument("--tenant", required=True, metavar="SLUG")
        parser.add_argument("--host", required=True, metavar="SLUG", help="the host that the events are of")
        parser.add_argument(
            "--run", metavar="ID", help="refuse events of another run; events that name none are of this one"
        )
        parser.add_argument("--json", action="store_true", help="print receipts as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        host = self._host(tenant_named(options["tenant"]), options["host"])
        refused = 0
        for name in options["files"]:
            receipt = self._ingest(host, name, options["run"])
            refused += receipt.refused_total
            told = {"file": name} if len(options["files"]) > 1 else {}
            self.stdout.write(json.dumps(told | receipt.as_json()) if options["json"] else readable(name, receipt))
        if refused:
            sys.exit(REFUSED)

    def _host(self, tenant: Tenant, slug: str) -> HostRef:
        with tenant_scope(tenant.pk):
            known = Host.objects.filter(tenant_id=tenant.pk, slug=slug).first()
        if known:
            return ref(known)
        try:
            made = register_host(tenant_id=tenant.pk, slug=slug)
        except ValidationError as exc:
            raise CommandError(f"--host: {'; '.join(exc.messages)}") from exc
        self.stderr.write(f"{slug} is a new host of {tenant.slug}, without an origin: it is not followed.")
        return ref(made)

    def _ingest(self, host: HostRef, name: str, run_id: str | None) -> Receipt:
        so_far = Receipt()

        def show(receipt: Receipt) -> None:
            nonlocal so_far
            so_far = receipt
            if self.stderr.isatty():
                self.stderr.write(f"\r{name}: {receipt.taken:,} events", ending="")

        try:
            with _opened(name) as file:
                items = read_items(_chunks(file), name=name, run_id=run_id)
                return take(host, items, on_batch=show)
        except (OSError, OperationalError) as exc:
            raise CommandError(
                f"{name}: {exc}\n{so_far.taken:,} of its events are stored; taking it in again adds the rest."
            ) from exc
        finally:
            if self.stderr.isatty():
                self.stderr.write("\r\x1b[K", ending="")


@contextmanager
def _opened(name: str) -> Iterator[IO[bytes]]:
    if name == STDIN:
        yield sys.stdin.buffer
        return
    with Path(name).open("rb") as file:
        yield file


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: file.read(CHUNK), b"")


def readable(name: str, receipt: Receipt) -> str:
    lines = [
        f"{'standard input' if name == STDIN else name}: {receipt.accepted:,} accepted,"
        f" {receipt.repeated:,} known already, {receipt.refused_total:,} refused"
    ]
    for refusal in receipt.refused[:SHOWN]:
        lines.append(f"  refused, event {refusal.index}: {refusal.reason}")
    if receipt.refused_total > SHOWN:
        lines.append(f"  … and {receipt.refused_total - SHOWN:,} more; --json lists the first 1,000")
    for noticed in receipt.incidents[:SHOWN]:
        place = "" if noticed.sequence is None else f" at {noticed.sequence}"
        lines.append(f"  noticed, {noticed.run_id}{place}: {noticed.message}")
    if receipt.incidents_total > SHOWN:
        lines.append(f"  … and {receipt.incidents_total - SHOWN:,} more; --json lists the first 1,000")
    for run_id, through in list(receipt.runs.items())[:SHOWN]:
        lines.append(f"  run {run_id}: " + (f"whole through {through}" if through >= 0 else "its beginning is missing"))
    if len(receipt.runs) > SHOWN:
        lines.append(f"  … and {len(receipt.runs) - SHOWN:,} more runs")
    return "\n".join(lines)
