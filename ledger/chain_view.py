"""A provenance chain as a page draws it: rows that a person can walk, with the drawing beside them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from .domain.chain import Chain, Fact, Happening, Kind, Node, Origin, Placed, Proposal, Relation, Version
from .domain.chain_drawing import Drawing, draw


@dataclass(frozen=True, slots=True)
class ChainRow:
    """A memory of the chain. ``relation`` says how it became the one before it; "" for what is traced itself."""

    id: UUID
    version: int
    kind: str
    depth: int
    relation: str
    is_root: bool
    created_at: datetime | None
    host: str | None
    memory_ref: str | None
    memory_id: str | None
    writer: str | None
    run: Origin | None


@dataclass(frozen=True, slots=True)
class ChainView:
    """``rows`` begin with what is traced. The lists are cut where their flags say so."""

    rows: tuple[ChainRow, ...]
    drawing: Drawing
    lineage_cut: bool
    events: tuple[Happening, ...]
    events_cut: bool
    proposals: tuple[Proposal, ...]
    proposals_cut: bool
    facts: tuple[Fact, ...]
    facts_cut: bool
    run: Origin | None

    @property
    def is_alone(self) -> bool:
        return len(self.rows) == 1


def view(chain: Chain, root: Node) -> ChainView:
    relations: dict[Version, Relation] = {}
    for link in chain.lineage.edges.items:
        relations.setdefault(link.predecessor.version, link.relation)
    return ChainView(
        rows=(
            _row(Placed(root, 0), ""),
            *(_row(placed, relations.get(placed.node.version, "")) for placed in chain.lineage.nodes.items),
        ),
        drawing=draw(chain),
        lineage_cut=chain.lineage.nodes.truncated,
        events=chain.events.items,
        events_cut=chain.events.truncated,
        proposals=chain.proposals.items,
        proposals_cut=chain.proposals.truncated,
        facts=chain.facts.items,
        facts_cut=chain.facts.truncated,
        run=chain.run,
    )


def _row(placed: Placed, relation: str) -> ChainRow:
    node = placed.node
    return ChainRow(
        id=node.version.id,
        version=node.version.number,
        kind=node.kind.value,
        depth=placed.depth,
        relation=str(relation),
        is_root=placed.depth == 0,
        created_at=node.created_at,
        host=node.host,
        memory_ref=node.memory_ref,
        memory_id=node.memory_id,
        writer=node.writer,
        run=node.origin,
    )


def entry_root(id: UUID, created_at: datetime | None, host: str, memory_ref: str, memory_id: str) -> Node:
    return Node(Version(id, 0), Kind.ENTRY, created_at, host=host, memory_ref=memory_ref, memory_id=memory_id)


def claim_root(id: UUID, created_at: datetime, writer: str) -> Node:
    return Node(Version(id, 0), Kind.CLAIM, created_at, writer=writer)
