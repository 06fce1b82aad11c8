"""What an event is connected with: its cause, its effects, the other half of a pair, runs it started or came from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from ..domain.links import Half, Search, children_named, other_half, replay_source, searches
from ..domain.storable import original, storable
from ..domain.summary import payload_of
from .bodies import WHOLE
from .runs import RunFacts

WITHIN = 10_000
"""What belongs to an event is looked for among so many events before it, and after it."""
NEAR_COPY = 1_000
"""The prefix of a fork is copied place by place; the event that one was copied from is looked for this near."""
CANDIDATES = 50
MOST_EFFECTS = 20
READ = 64 * 1024
"""Bodies up to so many bytes are read to find the other half of a pair."""

CAUSED_BY = "caused by"


@dataclass(frozen=True, slots=True)
class EventLink:
    """One thing that an event is connected with. ``word`` says how.

    ``run_id`` is None for an event of the same run, ``sequence`` for a whole run. ``is_known`` says whether that run,
    or event, is stored here. ``is_guess``: nothing names it, it is the nearest one that can be meant.
    """

    word: str
    sequence: int | None = None
    type: str = ""
    node: str | None = None
    run_id: str | None = None
    is_known: bool = True
    is_guess: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """The event whose connections are asked for; its texts as they are stored."""

    tenant_id: int
    run: RunFacts
    sequence: int
    type: str
    node: str | None
    event_id: str | None
    causation_id: str | None
    payload: Any


def connections(asked: Asked) -> tuple[EventLink, ...]:
    return (*_causes(asked), *_halves(asked), *_effects(asked), *_runs(asked))


def _rows(sql: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found


def _link(word: str, row: Sequence[Any], **told: Any) -> EventLink:
    sequence, type_, node = row[:3]
    return EventLink(word, sequence, original(type_), node and original(node), **told)


_BEFORE = "tenant_id = %(tenant)s AND run_id = %(run)s AND sequence < %(sequence)s AND sequence >= %(sequence)s - %(n)s"
_AFTER = "tenant_id = %(tenant)s AND run_id = %(run)s AND sequence > %(sequence)s AND sequence <= %(sequence)s + %(n)s"


def _values(asked: Asked, **more: Any) -> dict[str, Any]:
    return {"tenant": asked.tenant_id, "run": asked.run.pk, "sequence": asked.sequence, "n": WITHIN, **more}


def _causes(asked: Asked) -> Iterator[EventLink]:
    if not asked.causation_id:
        return
    found = _rows(
        f"SELECT sequence, type, node_id FROM runs_event WHERE {_BEFORE} AND event_id = %(cause)s"  # noqa: S608
        " ORDER BY sequence DESC LIMIT 1",
        _values(asked, cause=asked.causation_id),
    )
    yield from (_link(CAUSED_BY, row) for row in found)
    if not found and asked.run.parent_run_id:
        yield from _causes_in_source(asked, asked.run.parent_run_id)


def _causes_in_source(asked: Asked, source: str) -> Iterator[EventLink]:
    """Hosts that copy the prefix of a fork name the event that was copied as the cause of its copy."""
    found = _rows(
        """
        SELECT e.sequence, e.type, e.node_id FROM runs_event e
        WHERE e.tenant_id = %(tenant)s AND e.event_id = %(cause)s
            AND e.sequence BETWEEN %(sequence)s - %(near)s AND %(sequence)s + %(near)s
            AND e.run_id = (SELECT s.id FROM runs_run s JOIN runs_run r ON r.tenant_id = s.tenant_id
                AND r.host_id = s.host_id WHERE r.tenant_id = %(tenant)s AND r.id = %(run)s AND s.run_id = %(source)s)
        ORDER BY e.sequence LIMIT 1
        """,
        _values(asked, cause=asked.causation_id, near=NEAR_COPY, source=storable(source)),
    )
    yield from (_link(CAUSED_BY, row, run_id=source) for row in found)


def _effects(asked: Asked) -> Iterator[EventLink]:
    if not asked.event_id:
        return
    found = _rows(
        f"SELECT sequence, type, node_id FROM runs_event WHERE {_AFTER} AND causation_id = %(id)s"  # noqa: S608
        " ORDER BY sequence LIMIT %(most)s",
        _values(asked, id=asked.event_id, most=MOST_EFFECTS),
    )
    yield from (_link("effect", row) for row in found)


def _halves(asked: Asked) -> Iterator[EventLink]:
    mine = Half(asked.sequence, asked.node, asked.payload)
    for search in searches(asked.type):
        candidates = _candidates(asked, search)
        found = other_half(search, mine, [Half(row[0], row[2], _read(row[3])) for row in candidates])
        if found is not None:
            row = next(row for row in candidates if row[0] == found.sequence)
            yield _link(search.word, row, is_guess=found.is_guess)


def _candidates(asked: Asked, search: Search) -> list[tuple[Any, ...]]:
    where, order = (_AFTER, "ASC") if search.way == "after" else (_BEFORE, "DESC")
    return _rows(
        f"SELECT e.sequence, e.type, e.node_id, CASE WHEN octet_length(e.body) <= %(read)s THEN {WHOLE} END"
        f" FROM runs_event e WHERE {where} AND type = ANY (%(types)s) ORDER BY sequence {order} LIMIT %(most)s",  # noqa: S608
        _values(asked, types=list(search.types), read=READ, most=CANDIDATES),
    )


def _read(body: str | None) -> Any:
    return None if body is None else payload_of(body)


def _runs(asked: Asked) -> Iterator[EventLink]:
    """Other runs: those that the event names as its children, and what the run as a whole came out of."""
    children = children_named(asked.payload)
    known = _known(asked, children)
    yield from (EventLink("child run", run_id=child, is_known=child in known) for child in children)
    source = replay_source(asked.type, asked.payload)
    if source is not None:
        run_id, at = source
        yield EventLink("in the source", at, run_id=run_id, is_known=bool(_known(asked, (run_id,))))
    parent = asked.run.parent_run_id
    if asked.type == "run.started" and parent:
        word = f"{asked.run.relation or 'came out'} of"
        at = asked.run.parent_sequence
        yield EventLink(word, at, run_id=parent, is_known=bool(_known(asked, (parent,))))


def _known(asked: Asked, run_ids: Sequence[str]) -> set[str]:
    if not run_ids:
        return set()
    found = _rows(
        """
        SELECT k.run_id FROM runs_run k JOIN runs_run r ON r.tenant_id = k.tenant_id AND r.host_id = k.host_id
        WHERE r.tenant_id = %(tenant)s AND r.id = %(run)s AND k.run_id = ANY (%(ids)s)
        """,
        _values(asked, ids=[storable(one) for one in run_ids]),
    )
    return {original(run_id) for (run_id,) in found}
