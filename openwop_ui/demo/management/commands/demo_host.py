"""Runs the demo's host."""

from __future__ import annotations

import secrets
from argparse import ArgumentParser
from typing import Any

import uvicorn
from django.core.management.base import BaseCommand

from openwop_ui import environment
from openwop_ui.demo.host import DemoHost
from openwop_ui.demo.seeding import HOST_KEY


class Command(BaseCommand):
    help = "Runs the demo's OpenWOP host, which starts runs by itself, until it is told to stop."
    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own spelling

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port", type=int, default=environment.DEMO_HOST_PORT.value())
        parser.add_argument("--seed", default="openwop", help="What the host's runs are drawn from.")

    def handle(self, *, port: int, seed: str, **_: Any) -> None:
        host = DemoHost(key=HOST_KEY, seed=seed, boot=secrets.token_hex(8))
        # Streams stay open for as long as somebody listens: stopping does not wait for them.
        config = uvicorn.Config(
            host,
            host="127.0.0.1",
            port=port,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=1,
            lifespan="on",
        )
        uvicorn.Server(config).run()
