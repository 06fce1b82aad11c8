"""Makes the demo's tenants, logins, hosts and runs."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from openwop_ui import environment
from openwop_ui.demo.seeding import seed


class Command(BaseCommand):
    help = "Makes the demo's tenants, logins, hosts and runs. Running it again changes nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--host-port",
            type=int,
            default=environment.DEMO_HOST_PORT.value(),
            help="Port of the demo's host on 127.0.0.1; its address follows when it changes.",
        )

    def handle(self, *, host_port: int, verbosity: int, **_: Any) -> None:
        brought = seed(host_port=host_port)
        if verbosity:
            self.stdout.write(f"{brought} runs brought in" if brought else "the demo is there already")
