"""Takes in memory entries from files: what a host's read side once answered."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ledger.domain.memory_batch import Batch, NotABatch, read_batch
from ledger.observations import Source, take_batch
from openwop_ui.tenancy.lookup import tenant_named
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.moments import read_timestamp
from runs.models import Host
from runs.store import HostRef, ref

SHOWN = 20


class Command(BaseCommand):
    help = (
        "Takes in memory entries from files of the form {memoryRef, entries}, or from an array of entries with --ref."
        " Exit code 2 when some were refused."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
        parser.add_argument("--tenant", required=True, metavar="SLUG")
        parser.add_argument("--host", required=True, metavar="SLUG")
        parser.add_argument("--ref", metavar="MEMORY_REF", help="of files that name none")
        parser.add_argument("--at", type=_moment, metavar="TIME", help="when the host answered so; now if left out")

    def handle(self, *args: Any, **options: Any) -> None:
        host = _host(options["tenant"], options["host"])
        refused = 0
        for file in options["files"]:
            batch = _batch(file, options["ref"])
            kept = take_batch(host, batch, source=Source.IMPORT, at=options["at"])
            refused += len(batch.refused)
            late = f", {kept.late:,} older than what is known" if kept.late else ""
            self.stdout.write(
                f"{file}: {kept.changed:,} accepted, {kept.same:,} repeated, {len(batch.refused):,} refused{late}"
            )
            for one in batch.refused[:SHOWN]:
                self.stdout.write(f"  entry {one.index}: {one.reason}")
        if refused:
            raise SystemExit(2)


def _moment(text: str) -> datetime:
    try:
        return read_timestamp(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(f"{text!r} {problem}") from None


def _host(tenant: str, slug: str) -> HostRef:
    owner = tenant_named(tenant)
    with tenant_scope(owner.pk):
        host = Host.objects.filter(tenant_id=owner.pk, slug=slug).first()
    if host is None:
        raise CommandError(f"There is no host {slug} in {tenant}.")
    return ref(host)


def _batch(file: Path, memory_ref: str | None) -> Batch:
    try:
        return read_batch(file.read_bytes(), memory_ref=memory_ref)
    except OSError as problem:
        raise CommandError(f"{file}: {problem.strerror}.") from None
    except NotABatch as problem:
        raise CommandError(f"{file}: {problem.field} {problem}.") from None
