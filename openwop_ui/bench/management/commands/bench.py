"""Runs the benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from openwop_ui.bench.claims import claims
from openwop_ui.bench.compare import compare
from openwop_ui.bench.follow import follow
from openwop_ui.bench.ingest import ingest, ingest_file
from openwop_ui.bench.live import live
from openwop_ui.bench.retrieve import retrieve
from openwop_ui.bench.state import state
from openwop_ui.bench.timeline import timeline
from openwop_ui.bench.trace import trace
from openwop_ui.bench.webhook import webhook

BENCHMARKS: Mapping[str, Callable[[], None]] = {
    "ingest": ingest,
    "ingest_file": ingest_file,
    "live": live,
    "timeline": timeline,
    "state": state,
    "compare": compare,
    "follow": follow,
    "webhook": webhook,
    "claims": claims,
    "retrieve": retrieve,
    "trace": trace,
}


class Command(BaseCommand):
    help = "Runs the named benchmarks, or all of them; prints one JSON object a line."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))

    def handle(self, *args: Any, **options: Any) -> None:
        names = options["names"] or list(BENCHMARKS)
        unknown = [name for name in names if name not in BENCHMARKS]
        if unknown:
            raise CommandError(f"There is no benchmark {unknown[0]!r}. There are: {', '.join(BENCHMARKS)}.")
        for name in names:
            BENCHMARKS[name]()
