"""Claims from the body of a request to what holds: hashing, redaction, reading, settling, committing.

Over REST an `add` is one source event. Here the store's own door takes them in batches, as it does for each of those.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from django.db import connection
from django.utils import timezone

from ledger.claims_store import add, register_writer, share_rules
from ledger.domain.submissions import Permitted, read_submission
from ledger.models import ClaimRow, ClaimState, Conflict, Holding
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import operator_scope, tenant_scope

from .figures import median, remark, tell
from .site import fresh_database

CLAIMS = 100_000
SUBJECTS = 10_000
EVENT = 5
"""Claims of one source event."""
BATCH = 100
"""Source events of one batch, which is one transaction."""
CLIENTS = 2
CONFLICTING = 20
"""One claim in so many contradicts another writer's."""
WRITERS = ("billing", "crm")
START = datetime(2026, 1, 1, tzinfo=UTC)


def claims() -> None:
    """Claims/s, and the ratio to a bare insert of the same claims in batches of the same size."""
    with fresh_database("claims") as url:
        tenant = make_tenant()
        remark(
            f"{CLAIMS:,} claims of {SUBJECTS:,} subjects, {EVENT} to a source event, {BATCH} of those to a batch,"
            f" {CLIENTS} clients"
        )
        rate = CLAIMS / _take_in_at_once(url, tenant)
        _check(tenant)
        bare = median([_bare_insert(url, tenant) for _ in range(3)])
    tell("claims.bare_insert", bare, "claims/s")
    tell("claims", rate, "claims/s", ratio=rate / bare, against="bare insert of the same claims, same batches")


def make_tenant() -> int:
    with operator_scope():
        tenant: int = Tenant.objects.create(slug="bench").pk
    for writer in WRITERS:
        register_writer(tenant_id=tenant, service_key=writer)
    return tenant


def events(claims: int, subjects: int) -> Iterator[dict[str, Any]]:
    """Each subject is spoken of again and again, by one writer and then by the other."""
    for number in range(claims // EVENT):
        subject, turn = number % subjects, number // subjects
        writer = WRITERS[turn % len(WRITERS)]
        yield {
            "external_user_id": f"user-{subject:07d}",
            "source": {
                "service": writer,
                "event_id": f"{writer}-{number}",
                "observed_at": (START + timedelta(seconds=number)).isoformat(),
            },
            "claims": [_claim(number, turn, place) for place in range(EVENT)],
        }


def _claim(number: int, turn: int, place: int) -> dict[str, Any]:
    contradicts = turn > 0 and (number * EVENT + place) % (CONFLICTING // 2) == 0
    key = f"attribute_{place if contradicts else turn * EVENT + place}"
    value = f"value {number}" if contradicts else f"value {number % 97}"
    return {"key": key, "value": value, "content": f"The user says: number {place} is {value}.", "confidence": 0.9}


def take_in(tenant: int, bodies: Sequence[dict[str, Any]]) -> None:
    for start in range(0, len(bodies), BATCH):
        now = timezone.now()
        with tenant_scope(tenant, durable=True):
            rules = share_rules(tenant)
            permitted = Permitted(None, rules.registered, rules.keys)
            batch = [read_submission(body, permitted, received_at=now) for body in bodies[start : start + BATCH]]
            add(tenant, batch, received_from="key:bench", received_at=now)


def bodies_of(client: int) -> list[dict[str, Any]]:
    """Each client has its own subjects."""
    return [body for body in events(CLAIMS, SUBJECTS) if int(body["external_user_id"][-1]) % CLIENTS == client]


def _take_in_at_once(url: str, tenant: int) -> float:
    """Seconds until all clients, each a process as a web server is one, have had their claims committed."""
    clients = [
        subprocess.Popen(
            [sys.executable, "-m", "openwop_ui.bench.claims_client", str(tenant), str(number)],
            env=os.environ | {"DATABASE_URL": url},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(CLIENTS)
    ]
    for client in clients:
        if client.stdout is None or not client.stdout.readline():
            raise RuntimeError("a client did not start")
    started = time.perf_counter()
    for client in clients:
        _begin(client)
    if any(client.wait() for client in clients):
        raise RuntimeError("a client failed")
    return time.perf_counter() - started


def _begin(client: subprocess.Popen[bytes]) -> None:
    if client.stdin is not None:
        client.stdin.write(b"go\n")
        client.stdin.flush()


def _check(tenant: int) -> None:
    with tenant_scope(tenant):
        stored = ClaimState.objects.filter(tenant_id=tenant).count()
        held = Holding.objects.filter(tenant_id=tenant).count()
        disputed = Conflict.objects.filter(tenant_id=tenant, state="open").count()
    if stored != CLAIMS or held != CLAIMS - disputed or abs(disputed / CLAIMS - 1 / CONFLICTING) > 0.005:
        raise RuntimeError(f"{stored} claims are stored, {held} hold, {disputed} are disputed")
    remark(f"{held:,} hold, {disputed:,} conflicts are open")


def _bare_insert(url: str, tenant: int) -> float:
    """The same rows into a table of the same columns and key, without any other index, rule or reading."""
    table = ClaimRow._meta.db_table
    with tenant_scope(tenant), connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table}")  # noqa: S608 - a constant
        rows = cursor.fetchall()
    holes = ", ".join(["%s"] * len(rows[0]))
    with psycopg.connect(url) as bare:
        bare.execute(f"CREATE TABLE bare (LIKE {table}, PRIMARY KEY (tenant_id, id))")
        bare.commit()
        started = time.perf_counter()
        for start in range(0, len(rows), EVENT * BATCH):
            with bare.cursor() as cursor:
                cursor.executemany(f"INSERT INTO bare VALUES ({holes})", rows[start : start + EVENT * BATCH])  # noqa: S608
            bare.commit()
        rate = len(rows) / (time.perf_counter() - started)
        bare.execute("DROP TABLE bare")
        return rate
