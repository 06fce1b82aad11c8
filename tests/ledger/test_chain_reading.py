"""What a chain tells of graphs of every shape is what a walk over all of their links finds."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID

import pytest

from ledger.domain.reading import Address, entry_id
from ledger.models import MemoryEntry
from ledger.queries.chain import chains
from ledger.store import read_backlog
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.models import Host
from tests.factories import BEGINNING, make_event, take

NODES, EDGES = 25, 50
"""What the chain tells at most."""

Sources = Mapping[int, set[int]]
"""Entry → the entries that it was compacted from."""


def written(host: Host, sources: Sources, count: int) -> dict[int, UUID]:
    """The entries are first heard of in an order that is not the one of their names."""
    order = random.Random(3).sample(range(count), count)
    writes = [
        make_event(place, "memory.written", payload={"memoryRef": "notes", "memoryId": f"m{number}"})
        for place, number in enumerate(order)
    ]
    merges = [
        make_event(
            count + place,
            "memory.compacted",
            payload={"memoryRef": "notes", "outputId": f"m{into}", "sourceIds": [f"m{one}" for one in sorted(of)]},
        )
        for place, (into, of) in enumerate(one for one in sources.items() if one[1])
    ]
    assert take(host, [*writes, *merges]).refused_total == 0
    while read_backlog(host.tenant_id, now=BEGINNING + timedelta(days=1)):
        pass
    return {number: entry_id(host.pk, Address("notes", f"m{number}")) for number in range(count)}


def told(tenant: Tenant, id: UUID) -> tuple[list[tuple[UUID, int]], set[tuple[UUID, UUID]], int, tuple[bool, bool]]:
    with tenant_scope(tenant.pk):
        (found,) = chains(tenant.pk, [id])
    nodes, edges = found.lineage.nodes, found.lineage.edges
    pairs = [(edge.successor.id, edge.predecessor.version.id) for edge in edges.items]
    return (
        [(one.node.version.id, one.depth) for one in nodes.items],
        set(pairs),
        len(pairs),
        (nodes.truncated, edges.truncated),
    )


def walked(root: int, sources: Sources, ids: Mapping[int, UUID]) -> tuple[list[tuple[UUID, int]], set[tuple[int, int]]]:
    """Every predecessor with its distance, in the order in which they are told, and every link that leads to one."""
    with_times = dict(MemoryEntry.objects.values_list("id", "first_at"))
    depth, front, order, links = {root: 0}, [root], [], set()
    while front:
        links |= {(successor, one) for successor in front for one in sources.get(successor, ())}
        reached = {one for successor in front for one in sources.get(successor, ())} - depth.keys()
        front = sorted(reached, key=lambda one: (with_times[ids[one]], str(ids[one])))
        depth |= {one: max(depth.values()) + 1 for one in front}
        order += front
    return [(ids[one], depth[one]) for one in order], links


def graphs() -> dict[str, tuple[Sources, int]]:
    chance = random.Random(11)
    return {
        "alone": ({}, 1),
        "a long row": ({n: {n - 1} for n in range(1, 60)}, 60),
        "25 in all": ({0: set(range(1, 26))}, 26),
        "26 in all": ({0: set(range(1, 27))}, 27),
        "more than a hop holds": ({0: set(range(1, 61)), 60: {0}}, 61),
        "a circle": ({n: {(n + 1) % 7} for n in range(7)}, 7),
        "itself": ({0: {0, 1}}, 2),
        "all of all": ({n: set(range(12)) - {n} for n in range(12)}, 12),
        "diamonds": ({n: {n + 1, n + 2} for n in range(40)}, 42),
        "few of many": ({n: set(chance.sample(range(50), chance.randint(0, 3))) for n in range(50)}, 50),
        "many of many": ({n: set(chance.sample(range(50), chance.randint(0, 12))) for n in range(50)}, 50),
        "wide at the end": ({0: {1, 2, 3}, 3: {4, 5}, 5: set(range(6, 50)), 6: {1, 2}}, 50),
    }


@pytest.mark.parametrize("shape", graphs())
def test_a_chain_is_the_beginning_of_the_whole_walk(tenant: Tenant, host: Host, shape: str) -> None:
    sources, count = graphs()[shape]
    ids = written(host, sources, count)
    for root in range(0, count, 1 if count < 30 else 7):
        with tenant_scope(tenant.pk):
            nodes, links = walked(root, sources, ids)
        kept = nodes[:NODES]
        among = {ids[root], *(id for id, _ in kept)}
        between = {(ids[one], ids[other]) for one, other in links if ids[one] in among and ids[other] in among}
        got_nodes, got_edges, edges, truncated = told(tenant, ids[root])
        assert got_nodes == kept
        assert edges == min(len(between), EDGES) and got_edges <= between
        assert truncated == (len(nodes) > NODES, len(links) > edges)
