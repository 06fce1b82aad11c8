"""A write that a fork tells again is no second write, wherever writes are counted."""

from __future__ import annotations

from typing import Any

import pytest

from ledger import queries
from ledger.store import read_backlog
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.snapshots import Parent
from runs.models import Host
from runs.store import keep_parents, ref
from tests.factories import make_event, take

pytestmark = pytest.mark.django_db


def written(sequence: int, memory_id: str, *, run: str, node: str | None = "n") -> dict[str, Any]:
    return make_event(sequence, "memory.written", run=run, node=node, payload={"memoryRef": "r", "memoryId": memory_id})


def take_pair(tenant: Tenant, host: Host, mode: Any, point: int | None) -> None:
    """A source with two writes, and a run that tells both again, writes one of them once more and one of its own."""
    take(host, [written(1, "m", run="source"), written(2, "n", run="source", node=None)])
    fork = [written(1, "m", run="fork"), written(2, "n", run="fork", node=None)]
    take(host, [*fork, written(3, "m", run="fork"), written(4, "own", run="fork")])
    if mode:
        with tenant_scope(tenant.pk):
            keep_parents(ref(host), {"fork": Parent("source", "fork", "told", mode, point)})
    while read_backlog(tenant.pk):
        pass


@pytest.mark.parametrize(
    ("mode", "point", "of_m", "of_n", "repeats", "all_writes", "attributed"),
    [
        # m, n: written by the source; m, n, m, own: by the fork.
        (None, None, 3, 2, 0, 6, 66),
        ("replay", 0, 1, 1, 2, 3, 66),
        ("branch", 2, 2, 1, 1, 4, 75),
        ("branch", None, 1, 1, 2, 3, 66),
    ],
)
def test_repeats_count_once(
    tenant: Tenant,
    host: Host,
    mode: str | None,
    point: int | None,
    of_m: int,
    of_n: int,
    repeats: int,
    all_writes: int,
    attributed: int,
) -> None:
    take_pair(tenant, host, mode, point)
    with tenant_scope(tenant.pk):
        entries = {name: queries.find_entry(tenant.pk, "alpha", "r", name) for name in ("m", "n", "own")}
        listed = {row.memory_id: row.writes for row in queries.entry_list(tenant.pk).rows}
        totals = queries.totals(tenant.pk)
    m, n, own = entries["m"], entries["n"], entries["own"]
    assert m is not None and n is not None and own is not None
    assert (m.writes, n.writes, own.writes) == (of_m, of_n, 1)
    assert (m.repeats, m.unattributed, n.unattributed) == (repeats, 0, of_n)
    assert listed == {"m": of_m, "n": of_n, "own": 1}
    assert (totals.writes, totals.attributed) == (all_writes, attributed)


def test_a_fork_of_a_fork_repeats_too(tenant: Tenant, host: Host) -> None:
    for run in ("one", "two", "three"):
        take(host, [written(1, "m", run=run)])
    with tenant_scope(tenant.pk):
        parents = {
            "two": Parent("one", "fork", "told", "branch", 1),
            "three": Parent("two", "fork", "told", "branch", 1),
        }
        keep_parents(ref(host), parents)
    while read_backlog(tenant.pk):
        pass
    with tenant_scope(tenant.pk):
        entry = queries.find_entry(tenant.pk, "alpha", "r", "m")
    assert entry is not None and (entry.writes, entry.repeats) == (1, 2)


def test_a_sub_workflow_repeats_nothing(tenant: Tenant, host: Host) -> None:
    for run in ("one", "two"):
        take(host, [written(1, "m", run=run)])
    with tenant_scope(tenant.pk):
        keep_parents(ref(host), {"two": Parent("one", "sub-workflow", "told")})
    while read_backlog(tenant.pk):
        pass
    with tenant_scope(tenant.pk):
        entry = queries.find_entry(tenant.pk, "alpha", "r", "m")
    assert entry is not None and (entry.writes, entry.repeats) == (2, 0)
