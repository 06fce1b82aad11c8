"""`manage.py up`: the whole site in the foreground, from its database to its last worker."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from openwop_ui import environment
from openwop_ui.launch import ports
from openwop_ui.launch.assets import collect_assets
from openwop_ui.launch.database import DatabaseWatch
from openwop_ui.launch.processes import GaveUp, Program, Supervisor
from openwop_ui.postgres import locks

DEMO_LOGINS = """
    Logins   dev, reviewer, admin in tenant demo; outsider in tenant other
             (the password is the name)"""


class Command(BaseCommand):
    help = "Run the site in the foreground: database, migrations, demo, web server and workers."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        address, port = environment.BIND_ADDRESS.value(), environment.PORT.value()
        with_demo = environment.DEMO.value()
        if not ports.is_free(address, port):
            raise CommandError(
                f"PORT {port} on {address} is taken or not allowed. Choose another, such as PORT={port + 1}."
            )
        # Held until this process ends.
        if locks.seize(settings.DATA_DIR / "up.lock") is None:
            raise CommandError(f"Another one runs on DATA_DIR {settings.DATA_DIR}. Stop it, or choose another folder.")
        self._prepare(with_demo=with_demo)
        supervisor = Supervisor(
            _programs(with_demo=with_demo),
            print_line=self._print,
            look_after_the_rest=DatabaseWatch(settings.DATA_DIR, print_line=self._print),
        )
        try:
            supervisor.run(
                is_ready=lambda: ports.answers(address, port, "/healthz", host_name=_own_name()),
                when_ready=lambda: self._print(_welcome(address, port, with_demo=with_demo)),
            )
        except GaveUp as problem:
            raise CommandError(str(problem)) from problem
        self._print("Stopped.")

    def _prepare(self, *, with_demo: bool) -> None:
        self._print("Preparing the database")
        call_command("migrate", interactive=False, verbosity=0)
        collect_assets(settings.STATIC_ROOT)
        if with_demo:
            port = ports.free_port("127.0.0.1", environment.DEMO_HOST_PORT.value())
            os.environ[environment.DEMO_HOST_PORT.name] = str(port)
            # The demo's host answers on loopback, and is there to be followed.
            os.environ[environment.ALLOW_PRIVATE_HOSTS.name] = "1"
            self._print("Preparing the demo")
            call_command("seed_demo", verbosity=0)
        # From here on the programs talk to the database; this process only watches them.
        connections.close_all()
        self._print("Starting")

    def _print(self, line: str) -> None:
        # `make run | head` closes the output; the site goes on until it is told to stop.
        with suppress(BrokenPipeError):
            self.stdout.write(line)
            self.stdout.flush()


def _programs(*, with_demo: bool) -> list[Program]:
    names = {"web": "serve", "worker": "work"} | ({"demo host": "demo_host"} if with_demo else {})
    manage = str(settings.BASE_DIR / "manage.py")
    return [Program(name, (sys.executable, manage, command)) for name, command in names.items()]


def _own_name() -> str:
    """A host name under which the site answers, for asking it itself."""
    name = str(next(iter(settings.ALLOWED_HOSTS), "*"))
    return "localhost" if name == "*" else name.removeprefix(".")


def _welcome(address: str, port: int, *, with_demo: bool) -> str:
    shown = ports.reachable_at(address)
    url = f"http://[{shown}]:{port}/" if ":" in shown else f"http://{shown}:{port}/"
    open_demo = with_demo and not ip_address(address).is_loopback
    return f"""
  OpenWOP UI is ready

    Site     {url}{DEMO_LOGINS if with_demo else ""}
    API      {url}v1/docs
    Data     {settings.DATA_DIR}
{"    Warning  the demo's logins are open to the network; set DEMO=0" if open_demo else ""}
  Ctrl-C stops everything.
"""
