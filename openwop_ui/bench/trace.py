"""One traced memory, in a small log and in one of ten million events."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import orjson
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ledger.domain.reading import Address, entry_id
from ledger.queries.chain import chains
from ledger.store import read_backlog
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import operator_scope, tenant_scope
from runs.domain.event import Refusal, RunEvent
from runs.domain.normalise import read_event
from runs.store import HostRef, ref, register_host, take_in

from .big_run import START, make_run
from .figures import median, percentile, remark, tell
from .site import fresh_database

SMALL = 10_000
LARGE = 10_000_000
PART = 1_000_000
"""Events of one run of the large log."""
SUMMARIES = 40
SOURCES = 20
"""Entries that became each summary; every summary came out of the one before it too."""
WRITTEN = SMALL // 80
"""Entries of the small log, eighty events apart, that go into summaries."""
READS = 1_000
AIM_P50_MS = 15.0


def trace() -> None:
    """p50 and p99 of one read, how much they grow with the log, and the number of statements."""
    with fresh_database("trace"):
        host = _host()
        make_run(host, "run-0", SMALL)
        take_in(host, _summaries())
        _read(host)
        ids = _traced(host)
        small = _reads(host, ids)
        statements = _statements(host, ids[:1])
        remark(f"growing from {SMALL:,} to {LARGE:,} events")
        for number in range(1, LARGE // PART + 1):
            make_run(host, f"run-{number}", PART)
        _read(host)
        large = _reads(host, ids)
        if (now := _statements(host, ids[:1])) != statements:
            raise RuntimeError(f"{statements} statements became {now}")
    tell("trace.statements", statements, "statements")
    tell("trace.p50", median(large), "ms", ratio=median(large) / AIM_P50_MS, against=f"{AIM_P50_MS:.0f} ms")
    p99 = percentile(large, 99)
    tell("trace", p99, "ms", ratio=p99 / percentile(small, 99), against=f"p99 at {SMALL:,} events")


def _host() -> HostRef:
    with operator_scope():
        tenant: int = Tenant.objects.create(slug="bench").pk
    return ref(register_host(tenant_id=tenant, slug="bench", name="Bench"))


def _summaries() -> Iterator[RunEvent | Refusal]:
    """A run in which entries are compacted, each time together with what came of it before."""
    for sequence in range(SUMMARIES):
        payload = {
            "memoryRef": "notes",
            "outputId": f"summary-{sequence}",
            "sourceIds": [
                *(f"mem_{41 + 80 * ((sequence * SOURCES + place) % WRITTEN)}" for place in range(SOURCES)),
                *([f"summary-{sequence - 1}"] if sequence else []),
            ],
            "sourceCount": SOURCES + bool(sequence),
            "trigger": "host-managed",
            "byteSize": 1_000,
        }
        event = {
            "eventId": f"evt-summary-{sequence:08d}",
            "runId": "summaries",
            "sequence": sequence,
            "type": "memory.compacted",
            "timestamp": (START + timedelta(seconds=sequence)).isoformat(),
            "payload": payload,
        }
        yield read_event(orjson.dumps(event), index=sequence)


def _read(host: HostRef) -> None:
    while read_backlog(host.tenant_id):
        pass
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")


def _traced(host: HostRef) -> list[UUID]:
    names = [f"summary-{number}" for number in range(SUMMARIES)]
    return [entry_id(host.id, Address("notes", name)) for name in names]


def _reads(host: HostRef, ids: list[UUID]) -> list[float]:
    """Milliseconds of single reads, the first ones apart: they warm the cache up."""
    chosen = random.Random(7)  # noqa: S311 - nothing secret
    spent = []
    for place in range(READS + READS // 5):
        id = chosen.choice(ids)
        started = time.perf_counter()
        with tenant_scope(host.tenant_id):
            (chain,) = chains(host.tenant_id, [id])
        took = (time.perf_counter() - started) * 1_000
        if not chain.lineage.nodes.items:
            raise RuntimeError(f"{id} came from nothing")
        if place >= READS // 5:
            spent.append(took)
    return spent


def _statements(host: HostRef, ids: list[UUID]) -> int:
    with tenant_scope(host.tenant_id), CaptureQueriesContext(connection) as caught:
        chains(host.tenant_id, ids)
    return len(caught)
