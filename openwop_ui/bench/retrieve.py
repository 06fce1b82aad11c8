"""One subject's active claims with their provenance, in a small tenant and in a large one."""

from __future__ import annotations

import random
import time

from django.db import connection

from ledger.models import ClaimState
from ledger.queries.claims import ClaimFilter, memories
from openwop_ui.tenancy.scope import tenant_scope

from . import claims as bench
from .figures import percentile, remark, tell
from .site import fresh_database

SMALL = 10_000
LARGE = 1_000_000
OF_ONE = 10
"""Claims of one subject."""
READS = 1000


def retrieve() -> None:
    """p99 of one read, and how much it grows from the small tenant to the large one."""
    with fresh_database("retrieve"):
        tenant = bench.make_tenant()
        bench.take_in(tenant, list(bench.events(SMALL, SMALL // OF_ONE)))
        small = _p99(tenant, SMALL // OF_ONE)
        tell("retrieve.small", small * 1e3, "ms")
        remark(f"growing from {SMALL:,} to {LARGE:,} claims by copies of what was settled")
        _grow(tenant, LARGE // SMALL)
        _check(tenant)
        large = _p99(tenant, LARGE // OF_ONE)
    tell("retrieve", large * 1e3, "ms", ratio=large / small, against=f"p99 at {SMALL:,} claims")


def _p99(tenant: int, subjects: int) -> float:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    chosen = random.Random(7)
    names = [f"user-{chosen.randrange(subjects):07d}" for _ in range(READS)]
    spent = []
    for place, name in enumerate([*names[: READS // 5], *names]):
        started = time.perf_counter()
        with tenant_scope(tenant):
            found = memories(tenant, ClaimFilter(subject=name))
        if place >= READS // 5:  # the first ones warm the cache up
            spent.append(time.perf_counter() - started)
        if not 1 <= len(found.rows) <= OF_ONE:
            raise RuntimeError(f"{len(found.rows)} claims of {name}")
    return percentile(spent, 99)


_COPIED = {
    "ledger_sourceevent": ("id", "event_id", "subject"),
    "ledger_subjectkey": ("id", "subject"),
    "ledger_claimrow": ("id", "subject_key_id", "source_event_id"),
    "ledger_claimstate": ("claim_id", "subject_key_id", "subject", "to_claim"),
    "ledger_holding": ("claim_id", "subject_key_id", "lane"),
}
"""The tables that retrieving reads, with the columns that tell the copies apart."""


def _grow(tenant: int, times: int) -> None:
    """Copies of all claims, each of other subjects: taking in a million would measure something else."""
    for table, told_apart in _COPIED.items():
        with tenant_scope(tenant), connection.cursor() as cursor:
            cursor.execute(
                "SELECT column_name, data_type FROM information_schema.columns"
                " WHERE table_schema = current_schema() AND table_name = %s ORDER BY ordinal_position",
                [table],
            )
            columns = cursor.fetchall()
            cursor.execute(f"CREATE TEMPORARY TABLE origin AS SELECT * FROM {table}")  # noqa: S608 - a constant
            for copy in range(1, times):
                values = [_value(name, kind, copy) if name in told_apart else name for name, kind in columns]
                cursor.execute(
                    f"INSERT INTO {table} ({', '.join(name for name, _ in columns)})"  # noqa: S608 - constants
                    f" SELECT {', '.join(values)} FROM origin"
                )
            cursor.execute("DROP TABLE origin")


def _value(name: str, kind: str, copy: int) -> str:
    if kind == "uuid":
        return f"md5({name}::text || '{copy}')::uuid"
    if name == "subject":
        return f"'user-' || lpad((substr(subject, 6)::int + {copy * (SMALL // OF_ONE)})::text, 7, '0')"
    return f"{name} || '/{copy}'"


def _check(tenant: int) -> None:
    with tenant_scope(tenant):
        count = ClaimState.objects.filter(tenant_id=tenant).count()
    if count != LARGE:
        raise RuntimeError(f"{count} claims are stored")
