"""A site of its own for a benchmark: the real server and worker, on a database and data folder that go again."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings
from django.core.management import call_command
from django.db import connection, connections
from psycopg import sql

from openwop_ui.launch import ports
from openwop_ui.launch.assets import collect_assets
from openwop_ui.tenancy.keys import create_api_key
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import operator_scope
from runs.store import HostRef, ref, register_host

START_WITHIN = 60
VACUUMED_WITHIN = 120
"""Seconds."""


@dataclass(frozen=True, slots=True)
class Site:
    """A running site with one tenant, one host and a key for it."""

    port: int
    host: HostRef
    key: str
    database_url: str
    web: subprocess.Popen[bytes]
    worker: subprocess.Popen[bytes]

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self.database_url, autocommit=True)

    def post(self, client: http.client.HTTPConnection, body: bytes) -> bytes:
        client.request(
            "POST",
            f"/v1/hosts/{self.host.slug}/events",
            body,
            {"Authorization": f"Bearer {self.key}", "Content-Type": "application/x-ndjson"},
        )
        answer = client.getresponse()
        said = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status} {said[:300]!r}")
        return said

    def client(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)


@contextmanager
def site(*, with_worker: bool = True, allow_private_hosts: bool = False) -> Iterator[Site]:
    """The site's database is a fresh one on the server that this process is connected to."""
    name = f"openwop_bench_{os.getpid()}"
    collect_assets(settings.STATIC_ROOT)
    with _database(name) as url:
        host, key = _tenant()
        port = ports.free_port("127.0.0.1", 18000)
        env = os.environ | {"DATABASE_URL": url, "PORT": str(port), "LOG_LEVEL": "WARNING"}
        env["ALLOW_PRIVATE_HOSTS"] = str(int(allow_private_hosts))
        web = _start("serve", env)
        worker = _start("work", env) if with_worker else _start_nothing()
        try:
            _wait_until_ready(port, web)
            yield Site(port, host, key, url, web, worker)
        finally:
            for process in (web, worker):
                process.terminate()
            for process in (web, worker):
                with suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                process.kill()


@contextmanager
def fresh_database(purpose: str) -> Iterator[str]:
    """A database of its own for what needs no server, on the server that this process is connected to."""
    with _database(f"openwop_bench_{purpose}_{os.getpid()}") as url:
        yield url


@contextmanager
def _database(name: str) -> Iterator[str]:
    params = connection.get_connection_params()
    kept = {key: str(params[key]) for key in ("host", "port", "user", "password") if params.get(key)}
    before = connection.settings_dict["NAME"]
    with psycopg.connect(**kept, dbname=str(before), autocommit=True) as admin:  # type: ignore[arg-type]
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        connections.close_all()
        connection.settings_dict["NAME"] = name
        try:
            call_command("migrate", interactive=False, verbosity=0)
            yield _url(params, name)
        finally:
            connections.close_all()
            connection.settings_dict["NAME"] = before
            _drop(admin, name)


def _drop(admin: psycopg.Connection[Any], name: str) -> None:
    """The server may be vacuuming the database, which nobody but a superuser may stop: that ends by itself."""
    deadline = time.monotonic() + VACUUMED_WITHIN
    while True:
        try:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
            return
        except psycopg.errors.InsufficientPrivilege:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def _url(params: dict[str, object], name: str) -> str:
    who = f"{params['user']}:{params['password']}" if params.get("password") else str(params["user"])
    return f"postgresql://{who}@{params['host']}:{params['port']}/{name}"


def _tenant() -> tuple[HostRef, str]:
    with operator_scope():
        tenant = Tenant.objects.create(slug="bench")
    host = register_host(tenant_id=tenant.pk, slug="bench")
    _, key = create_api_key(tenant_id=tenant.pk, name="bench", scopes=["ingest", "read"])
    return ref(host), key


def _start(command: str, env: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(settings.BASE_DIR / "manage.py"), command], env=env)


def _start_nothing() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "pass"])


def _wait_until_ready(port: int, web: subprocess.Popen[bytes]) -> None:
    for _ in range(START_WITHIN * 10):
        if web.poll() is not None:
            raise RuntimeError(f"the server ended with {web.returncode}")
        if ports.answers("127.0.0.1", port, "/healthz", host_name="localhost"):
            return
        time.sleep(0.1)
    raise RuntimeError(f"the server was not ready within {START_WITHIN} s")


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    """What a process has used of the processors so far (Linux); 0 where it can not be told."""
    return _cpu_seconds(process.pid)


def _cpu_seconds(pid: int) -> float:
    with suppress(OSError, IndexError):
        spent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(spent[11]) + int(spent[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def database_cpu_seconds(running: Site) -> float:
    """The same of the database's processes that serve the site, where they are on this machine."""
    with running.connect() as connection:
        served = connection.execute("SELECT pid FROM pg_stat_activity WHERE datname = current_database()").fetchall()
    pids = [int(str(pid)) for (pid,) in served]
    return sum(_cpu_seconds(pid) for pid in pids if _is_postgres(pid))


def _is_postgres(pid: int) -> bool:
    with suppress(OSError):
        return b"postgres" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def resident_bytes(process: subprocess.Popen[bytes]) -> int:
    """The resident memory of a process now (Linux); 0 where it can not be told."""
    with suppress(OSError):
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0
