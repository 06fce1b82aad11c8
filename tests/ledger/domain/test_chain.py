"""What a provenance chain tells, in which order and within which bounds."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.domain.chain import (
    Chain,
    EventKind,
    Fact,
    Happening,
    Kind,
    Link,
    Node,
    Origin,
    Proposal,
    Read,
    Relation,
    Version,
    chain,
    lineage,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def version(number: int) -> Version:
    return Version(UUID(int=number), 0)


ROOT = version(1)


def link(predecessor: int, successor: int, *, minutes: int = 0, relation: Relation = Relation.SUPERSEDE) -> Link:
    node = Node(version(predecessor), Kind.CLAIM, NOON + timedelta(minutes=minutes))
    return Link(node, version(successor), relation, NOON)


def ids(found: Chain) -> list[tuple[int, int]]:
    return [(one.node.version.id.int, one.depth) for one in found.lineage.nodes.items]


def of(*links: Link, cut: bool = False) -> Chain:
    return chain(Read(ROOT.id, Kind.CLAIM, links, cut))


def test_predecessors_come_by_depth_then_creation_then_id() -> None:
    found = of(link(9, 1, minutes=5), link(4, 1, minutes=5), link(7, 1, minutes=1), link(2, 7, minutes=-100))

    assert ids(found) == [(7, 1), (4, 1), (9, 1), (2, 2)]
    assert not found.lineage.nodes.truncated


def test_a_predecessor_reached_on_two_ways_is_told_once_and_at_its_least_depth() -> None:
    found = of(link(2, 1), link(3, 2), link(3, 1), link(4, 3))

    assert ids(found) == [(2, 1), (3, 1), (4, 2)]
    assert len(found.lineage.edges.items) == 4


def test_a_circle_ends_where_it_comes_back_to() -> None:
    found = of(link(2, 1), link(3, 2), link(1, 3))

    assert ids(found) == [(2, 1), (3, 2)]
    assert {(e.predecessor.version.id.int, e.successor.id.int) for e in found.lineage.edges.items} == {
        (2, 1),
        (3, 2),
        (1, 3),
    }


def test_what_leads_to_nothing_that_is_traced_is_no_part_of_it() -> None:
    assert ids(of(link(2, 1), link(8, 7))) == [(2, 1)]


@pytest.mark.parametrize(("length", "told", "truncated"), [(24, 24, False), (25, 25, False), (26, 25, True)])
def test_twenty_five_predecessors_are_told(length: int, told: int, truncated: bool) -> None:
    found = of(*(link(number + 1, number) for number in range(1, length + 1)))

    assert [depth for _, depth in ids(found)] == list(range(1, told + 1))
    assert found.lineage.nodes.truncated is truncated
    assert found.lineage.edges.truncated is truncated


@pytest.mark.parametrize(("sources", "told", "truncated"), [(2, 50, False), (3, 50, True)])
def test_fifty_edges_are_told(sources: int, told: int, truncated: bool) -> None:
    # 23 predecessors that all came out of another one, which came out of one more: 48 edges, and then some.
    near = [edge for number in range(2, 25) for edge in (link(number, 1), link(100, number))]
    far = [link(100, 1), link(101, 100)]

    found = of(*near, *far, *(link(101, number) for number in range(2, 2 + sources)))

    assert len(found.lineage.edges.items) == told
    assert found.lineage.edges.truncated is truncated
    assert not found.lineage.nodes.truncated


def test_links_that_were_not_read_are_told_of() -> None:
    found = of(link(2, 1), cut=True)

    assert found.lineage.nodes.truncated
    assert found.lineage.edges.truncated


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(0, 3)), max_size=120),
    st.randoms(use_true_random=False),
)
def test_the_order_of_reading_changes_nothing(pairs: list[tuple[int, int, int]], shuffled: random.Random) -> None:
    # A node's time is its own, however often it is linked.
    links = [link(source, target, minutes=source % 3) for source, target, _ in pairs]
    mixed = [*links, *links[: len(links) // 2]]
    shuffled.shuffle(mixed)

    assert lineage(ROOT, mixed) == lineage(ROOT, links)


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), max_size=80))
def test_depths_are_those_of_the_shortest_way(pairs: list[tuple[int, int]]) -> None:
    found = of(*(link(source, target) for source, target in pairs))

    depths = {1: 0} | dict(ids(found))
    for source, target in pairs:
        if target in depths and source in depths:
            assert depths[source] <= depths[target] + 1


def happening(number: int, minutes: int) -> Happening:
    return Happening(f"{number:03}", EventKind.PUT, NOON + timedelta(minutes=minutes))


def test_events_come_newest_first_with_the_id_as_tie_break() -> None:
    found = chain(Read(ROOT.id, Kind.ENTRY, events=[happening(1, 0), happening(3, 5), happening(2, 5)]))

    assert [one.id for one in found.events.items] == ["003", "002", "001"]


@pytest.mark.parametrize(("count", "told", "truncated"), [(50, 50, False), (51, 50, True)])
def test_fifty_events_are_told(count: int, told: int, truncated: bool) -> None:
    found = chain(Read(ROOT.id, Kind.ENTRY, events=[happening(number, number) for number in range(count)]))

    assert len(found.events.items) == told
    assert found.events.truncated is truncated
    assert found.events.items[0].id == f"{count - 1:03}"


@pytest.mark.parametrize(("count", "told", "truncated"), [(25, 25, False), (26, 25, True)])
def test_twenty_five_proposals_and_facts_are_told(count: int, told: int, truncated: bool) -> None:
    times = [NOON + timedelta(minutes=number) for number in range(count)]
    found = chain(
        Read(
            ROOT.id,
            Kind.ENTRY,
            proposals=[Proposal(UUID(int=number), "open", at) for number, at in enumerate(times)],
            facts=[Fact(UUID(int=number), "active", "crm", at) for number, at in enumerate(times)],
        )
    )

    assert (len(found.proposals.items), found.proposals.truncated) == (told, truncated)
    assert (len(found.facts.items), found.facts.truncated) == (told, truncated)
    assert found.proposals.items[0].conflict_id == UUID(int=count - 1)
    assert found.facts.items[0].id == UUID(int=count - 1)


def test_a_chain_names_its_memory_and_the_run_that_made_it() -> None:
    run = Origin("acme", "run-1", 7, "sum", None, True)
    found = chain(Read(ROOT.id, Kind.ENTRY, run=run))

    assert (found.id, found.kind, found.run) == (ROOT.id, Kind.ENTRY, run)
    assert of().run is None


def test_what_is_told_of_one_moment_comes_by_its_ids() -> None:
    one, two, three = (UUID(int=number) for number in (1, 2, 3))
    told = [
        Proposal(one, "decided", NOON, decision_id=three),
        Proposal(two, "decided", NOON, decision_id=one),
        Proposal(two, "decided", NOON, decision_id=two),
    ]
    facts = [Fact(number, "active", "crm", NOON) for number in (one, three, two)]
    found = chain(Read(ROOT.id, Kind.ENTRY, proposals=told, facts=facts))

    assert [(one.conflict_id.int, one.decision_id.int) for one in found.proposals.items if one.decision_id] == [
        (2, 2),
        (2, 1),
        (1, 3),
    ]
    assert [one.id.int for one in found.facts.items] == [3, 2, 1]


def test_links_come_by_their_successor_before_their_predecessor() -> None:
    found = of(link(4, 3, minutes=1), link(5, 2, minutes=9), link(3, 1), link(2, 1))

    pairs = [(one.predecessor.version.id.int, one.successor.id.int) for one in found.lineage.edges.items]
    assert pairs == [(2, 1), (3, 1), (5, 2), (4, 3)]


def test_links_that_differ_in_their_record_come_by_it_and_those_without_one_first() -> None:
    times = [NOON + timedelta(minutes=1), None, NOON]
    found = of(*(Link(Node(version(2), Kind.CLAIM, NOON), ROOT, Relation.SUPERSEDE, at) for at in times))

    assert [one.recorded_at for one in found.lineage.edges.items] == [None, NOON, NOON + timedelta(minutes=1)]


def test_without_links_nothing_was_cut() -> None:
    assert not lineage(ROOT, []).nodes.truncated
    assert not lineage(ROOT, []).edges.truncated


def test_links_to_what_is_traced_come_first_whatever_its_id() -> None:
    found = lineage(version(9), [link(3, 2), link(2, 9)])

    assert [(one.predecessor.version.id.int, one.successor.id.int) for one in found.edges.items] == [(2, 9), (3, 2)]
