"""The list of a run's events: any stretch of it by place, with exact counts, whatever it is narrowed to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..domain.columns import Columns, Ints
from ..domain.describe import KINDS
from ..domain.storable import original
from ..store.columns import columns_of
from .events import NO_OPTIONS, EventFilter, EventRow, FilterOptions, events_of
from .matching import matching, places_of
from .rows import Option

MOST_OPTIONS = 500


@dataclass(frozen=True, slots=True)
class Listed:
    """Ascending by sequence. ``first_place`` counts from 0 among the ``matching`` ones of the ``stored`` events.
    ``before`` and ``after`` are None where the matches end."""

    events: tuple[EventRow, ...]
    first_place: int
    matching: int
    stored: int
    before: int | None
    after: int | None
    options: FilterOptions


NOTHING_LISTED = Listed((), 0, 0, 0, None, None, NO_OPTIONS)


def listed(
    tenant_id: int,
    run: int,
    filter: EventFilter = EventFilter(),  # noqa: B008 - frozen
    *,
    at: int | None = None,
    before: int | None = None,
    after: int | None = None,
    around: int | None = None,
    limit: int = 60,
) -> Listed:
    """The stretch from a place on, before or after a sequence, around one, or the first one."""
    columns = columns_of(tenant_id, run)
    places = places_of(columns, matching(tenant_id, run, columns, filter))
    first = _first(columns.sequences[places], at, before, after, around, limit)
    sequences = columns.sequences[places[first : first + limit]].tolist()
    end = first + len(sequences)
    return Listed(
        events=events_of(tenant_id, run, sequences),
        first_place=first,
        matching=len(places),
        stored=len(columns),
        before=sequences[0] if sequences and first > 0 else None,
        after=sequences[-1] if sequences and end < len(places) else None,
        options=_options(columns),
    )


def _first(
    sequences: Ints, at: int | None, before: int | None, after: int | None, around: int | None, limit: int
) -> int:
    if at is not None:
        place = at
    elif before is not None:
        place = int(np.searchsorted(sequences, before)) - limit
    elif after is not None:
        place = int(np.searchsorted(sequences, after, "right"))
    elif around is not None:
        place = int(np.searchsorted(sequences, around)) - limit // 2
    else:
        place = 0
    return max(0, min(place, len(sequences) - 1 if at is not None or after is not None else len(sequences) - limit))


def _options(columns: Columns) -> FilterOptions:
    """The nodes, types and kinds that the run's events have, with their counts."""
    of_types = np.bincount(columns.types, minlength=len(columns.type_names))
    types: dict[str, int] = {}
    kinds: dict[str, int] = {}
    for (name, _), meaning, count in zip(columns.type_names, columns.meanings, of_types.tolist(), strict=True):
        types[name] = types.get(name, 0) + count
        kinds[KINDS[meaning.kind]] = kinds.get(KINDS[meaning.kind], 0) + count
    nodes = list(zip(columns.nodes[1:], columns.lane_counts[1:].tolist(), strict=True))[:MOST_OPTIONS]
    return FilterOptions(
        nodes=tuple(Option(original(node), original(node), count) for node, count in nodes),
        types=tuple(Option(original(name), original(name), types[name]) for name in sorted(types)),
        kinds=tuple(Option(kind, kind, kinds[kind]) for kind in KINDS if kind in kinds),
    )
