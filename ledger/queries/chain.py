"""What is recorded about where memories come from, read for a provenance chain.

A constant number of statements, whatever is traced, each bounded for each memory. Every hop names its tenant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from runs.domain.storable import original

from ..domain.chain import (
    EDGES,
    EVENTS,
    FACTS,
    LINEAGE,
    PROPOSALS,
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
)
from . import chain_sql as sql
from .paging import Row, rows_of
from .rows import maybe

_HOP = EDGES + 1
"""Links read of one memory: more are not told."""
_LINKS = (LINEAGE + 1) * _HOP
"""Links read in all, nearest first: more than there are between as many memories as are told."""


def chains(tenant_id: int, ids: Sequence[UUID]) -> list[Chain]:
    """The chains of those ids that the tenant has, in the order asked for. Each id once."""
    kinds = kinds_of(tenant_id, ids)
    if not kinds:
        return []
    reading = _Reading(tenant_id, kinds)
    return [chain(reading.read(id)) for id in dict.fromkeys(ids) if id in kinds]


def kinds_of(tenant_id: int, ids: Iterable[UUID]) -> dict[UUID, Kind]:
    """What each id is; without those that the tenant does not have."""
    found = rows_of(
        """
        SELECT id, 'entry' FROM ledger_memoryentry WHERE tenant_id = %(tenant)s AND id = ANY (%(ids)s)
        UNION ALL
        SELECT id, 'claim' FROM ledger_claimrow WHERE tenant_id = %(tenant)s AND id = ANY (%(ids)s)
        """,
        {"tenant": tenant_id, "ids": list(dict.fromkeys(ids))},
    )
    return {id: Kind(kind) for id, kind in found}


@dataclass(slots=True)
class _Found:
    links: list[Link] = field(default_factory=list)
    links_cut: bool = False
    events: list[Happening] = field(default_factory=list)
    proposals: list[Proposal] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    run: Origin | None = None


class _Reading:
    def __init__(self, tenant_id: int, kinds: dict[UUID, Kind]) -> None:
        self.kinds = kinds
        self.found: dict[UUID, _Found] = defaultdict(_Found)
        self.values: dict[str, Any] = {
            "tenant": tenant_id,
            "entries": [id for id, kind in kinds.items() if kind is Kind.ENTRY],
            "claims": [id for id, kind in kinds.items() if kind is Kind.CLAIM],
            "hop": _HOP,
            "nodes": LINEAGE + 1,
            "links": _LINKS,
            "events": EVENTS + 1,
            "proposals": PROPOSALS + 1,
            "facts": FACTS + 1,
        }
        self._read_links()
        self._read_events()
        self._read_proposals()
        self._read_facts()

    def read(self, id: UUID) -> Read:
        found = self.found[id]
        return Read(
            id=id,
            kind=self.kinds[id],
            links=found.links,
            links_cut=found.links_cut,
            events=found.events,
            proposals=found.proposals,
            facts=found.facts,
            run=found.run,
        )

    def _read_links(self) -> None:
        merged = rows_of(sql.MERGED, self.values)
        replaced = rows_of(sql.REPLACED, self.values)
        for rows in (merged, replaced):
            counts: dict[UUID, int] = defaultdict(int)
            for root, *_ in rows:
                counts[root] += 1
            for root, count in counts.items():
                self.found[root].links_cut |= count > _LINKS
        nodes = self._nodes([*merged, *replaced])
        for root, successor, predecessor, relation, at in (*merged, *replaced):
            node = nodes.get(predecessor)
            if node is not None:
                link = Link(node, Version(successor, 0), Relation(relation), at)
                self.found[root].links.append(link)
        self._read_earlier_versions(nodes)

    def _nodes(self, links: Iterable[Row]) -> dict[UUID, Node]:
        """The memories that links name, and those that are traced."""
        ids = list(dict.fromkeys(id for link in links for id in (link[1], link[2])))
        return {
            row[0]: Node(
                version=Version(row[0], 0),
                kind=Kind(row[1]),
                created_at=row[2],
                host=row[3],
                memory_ref=maybe(row[4]),
                memory_id=maybe(row[5]),
                writer=maybe(row[6]),
                origin=_origin(row[7:]),
            )
            for row in rows_of(sql.NODES, {**self.values, "ids": [*ids, *self.kinds]})
        }

    def _read_earlier_versions(self, nodes: dict[UUID, Node]) -> None:
        """A claim as it was before it was revised, an entry as it was in the run that its last one was forked from."""
        for id, node in nodes.items():
            if id in self.kinds:
                self.found[id].run = node.origin
        for id, number, of, relation, at, created_at, *origin in rows_of(sql.EARLIER, self.values):
            node = nodes[id]
            earlier = Node(
                version=Version(id, number),
                kind=node.kind,
                created_at=created_at,
                host=node.host,
                memory_ref=node.memory_ref,
                memory_id=node.memory_id,
                writer=node.writer,
                origin=_origin(origin),
            )
            self.found[id].links.append(Link(earlier, Version(id, of), Relation(relation), at))

    def _read_events(self) -> None:
        for root, key, kind, at, received_at, event_id, source, writer, actor, digest, *origin in rows_of(
            sql.EVENTS, self.values
        ):
            self.found[root].events.append(
                Happening(
                    id=key,
                    kind=EventKind(kind),
                    at=at,
                    received_at=received_at,
                    origin=_origin(origin),
                    event_id=maybe(event_id),
                    source_event_id=source,
                    writer=maybe(writer),
                    actor=maybe(actor),
                    payload_hash=None if digest is None else bytes(digest).hex(),
                )
            )

    def _read_proposals(self) -> None:
        for root, *values in rows_of(sql.PROPOSALS, self.values):
            (conflict, state, opened, rule, policy, follows, decision, verdict, actor, decided, is_undone) = values
            self.found[root].proposals.append(
                Proposal(
                    conflict_id=conflict,
                    state=state,
                    opened_at=opened,
                    rule=rule or None,
                    policy=policy or None,
                    decision_id=decision,
                    outcome=verdict,
                    actor=maybe(actor),
                    decided_at=decided,
                    was_undone=bool(is_undone),
                    follows=follows,
                )
            )

    def _read_facts(self) -> None:
        for root, id, status, writer, observed_at in rows_of(sql.FACTS, self.values):
            self.found[root].facts.append(Fact(id, status, original(writer), observed_at))


def _origin(row: Sequence[Any]) -> Origin | None:
    """From (host, run id, sequence, node, agent, whether there is such a run); None where no run was recorded."""
    host, run_id, sequence, node, agent, is_known = row
    if run_id is None:
        return None
    return Origin(host, original(run_id), sequence, maybe(node), maybe(agent), is_known=bool(is_known))
