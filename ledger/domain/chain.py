"""The provenance chain of a memory: where it comes from, in bounds, as ids, enumerations, booleans and times.

A memory is an entry or a claim. Nothing here is inferred: a link is one that was recorded, or there is none. Content,
tags, payloads and reasons never enter. What is left out for want of room is told of by `truncated`, section by section,
and what is kept does not depend on the order in which it was read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

VERSION = "chain-1"

MAX_TRACED = 5
"""Ids of one call that are traced; MAX_PLAIN where no provenance is asked for."""
MAX_PLAIN = 20

LINEAGE, EDGES, EVENTS, PROPOSALS, FACTS = 25, 50, 50, 25, 25
"""So many of each are told."""

_FOREVER_AGO = datetime.min.replace(tzinfo=UTC)


class Kind(StrEnum):
    ENTRY = "entry"
    CLAIM = "claim"


class Relation(StrEnum):
    """How a predecessor became what is traced."""

    SUPERSEDE = "supersede"
    REVISE = "revise"
    COMPACTION = "compaction"
    CONSOLIDATION = "consolidation"
    FORK = "fork"


class Version(NamedTuple):
    """A memory as it was once. `number` tells the versions of one memory apart; 0 is the memory as such."""

    id: UUID
    number: int


@dataclass(frozen=True, slots=True)
class Origin:
    """The run that created something, as recorded. `is_known` says whether the caller can open that run."""

    host: str | None
    run_id: str | None
    sequence: int | None
    node_id: str | None
    agent_id: str | None
    is_known: bool


@dataclass(frozen=True, slots=True)
class Node:
    """An identity row of a predecessor: trace its id to go on."""

    version: Version
    kind: Kind
    created_at: datetime | None
    host: str | None = None
    memory_ref: str | None = None
    memory_id: str | None = None
    writer: str | None = None
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """`predecessor` became `successor`, as was recorded then."""

    predecessor: Node
    successor: Version
    relation: Relation
    recorded_at: datetime | None


@dataclass(frozen=True, slots=True)
class Placed:
    """A predecessor and how many links away it is at least."""

    node: Node
    depth: int


class EventKind(StrEnum):
    MEMORY_WRITTEN = "memory.written"
    MEMORY_COMPACTED = "memory.compacted"
    MEMORY_CONSOLIDATED = "agent.memory-consolidated"
    SOURCE_EVENT = "source_event"
    PUT = "put"
    DELETED = "deleted"
    OBSERVED = "observed"
    SEEN_GONE = "seen_gone"
    REVISED = "revised"
    ERASED = "erased"


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that was recorded about the memory. `id` parts those of one moment."""

    id: str
    kind: EventKind
    at: datetime
    received_at: datetime | None = None
    origin: Origin | None = None
    event_id: str | None = None
    source_event_id: UUID | None = None
    writer: str | None = None
    actor: str | None = None
    payload_hash: str | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """A conflict that the memory was in, and the decision that settled it, as they were linked when it was accepted."""

    conflict_id: UUID
    state: str
    opened_at: datetime
    rule: str | None = None
    policy: str | None = None
    decision_id: UUID | None = None
    outcome: str | None = None
    actor: str | None = None
    decided_at: datetime | None = None
    was_undone: bool = False
    follows: UUID | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """A claim that was read from the memory."""

    id: UUID
    status: str
    writer: str
    observed_at: datetime


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Section(Generic[T]):
    items: tuple[T, ...]
    truncated: bool


@dataclass(frozen=True, slots=True)
class Lineage:
    nodes: Section[Placed]
    edges: Section[Link]


@dataclass(frozen=True, slots=True)
class Chain:
    id: UUID
    kind: Kind
    lineage: Lineage
    events: Section[Happening]
    proposals: Section[Proposal]
    facts: Section[Fact]
    run: Origin | None


@dataclass(frozen=True, slots=True)
class Read:
    """What was read of one memory, in any order. `links_cut` says that there are more links than were read."""

    id: UUID
    kind: Kind
    links: Iterable[Link] = ()
    links_cut: bool = False
    events: Iterable[Happening] = ()
    proposals: Iterable[Proposal] = ()
    facts: Iterable[Fact] = ()
    run: Origin | None = None


def chain(read: Read) -> Chain:
    return Chain(
        id=read.id,
        kind=read.kind,
        lineage=lineage(Version(read.id, 0), read.links, links_cut=read.links_cut),
        events=_newest(read.events, EVENTS, lambda one: (one.at, one.id)),
        proposals=_newest(
            read.proposals, PROPOSALS, lambda one: (one.opened_at, str(one.conflict_id), str(one.decision_id))
        ),
        facts=_newest(read.facts, FACTS, lambda one: (one.observed_at, str(one.id))),
        run=read.run,
    )


def lineage(root: Version, links: Iterable[Link], *, links_cut: bool = False) -> Lineage:
    """The predecessors of `root` by depth, then creation, then id, and the links between what is told of them.

    Links that lead in a circle end where they come back to.
    """
    by_successor: dict[Version, list[Link]] = defaultdict(list)
    for link in dict.fromkeys(links):
        by_successor[link.successor].append(link)
    placed, followed = _walk(root, by_successor)
    kept = placed[:LINEAGE]
    depths = {root: 0} | {one.node.version: one.depth for one in kept}
    between = [link for link in followed if link.predecessor.version in depths and link.successor in depths]
    between.sort(key=lambda link: (depths[link.successor], *_edge_order(link)))
    return Lineage(
        Section(tuple(kept), links_cut or len(placed) > LINEAGE),
        Section(tuple(between[:EDGES]), links_cut or len(followed) > len(between[:EDGES])),
    )


def _walk(root: Version, by_successor: Mapping[Version, list[Link]]) -> tuple[list[Placed], list[Link]]:
    seen, front, depth = {root}, [root], 0
    placed: list[Placed] = []
    followed: list[Link] = []
    while front:
        depth += 1
        reached: dict[Version, Node] = {}
        for link in (link for version in front for link in by_successor[version]):
            followed.append(link)
            if link.predecessor.version not in seen:
                reached.setdefault(link.predecessor.version, link.predecessor)
        seen |= reached.keys()
        placed += [Placed(node, depth) for node in sorted(reached.values(), key=_node_order)]
        front = [one.node.version for one in placed if one.depth == depth]
    return placed, followed


def _node_order(node: Node) -> tuple[datetime, str, int]:
    return node.created_at or _FOREVER_AGO, str(node.version.id), node.version.number


def _edge_order(link: Link) -> tuple[Any, ...]:
    successor = (str(link.successor.id), link.successor.number)
    return (*successor, *_node_order(link.predecessor), link.relation, link.recorded_at or _FOREVER_AGO)


def _newest(found: Iterable[T], most: int, order: Callable[[T], Any]) -> Section[T]:
    ordered = sorted(dict.fromkeys(found), key=order, reverse=True)
    return Section(tuple(ordered[:most]), len(ordered) > most)
