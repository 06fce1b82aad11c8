"""Which events of a run a filter admits, as a mask over its columns: counts and places are exact at any size."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from django.db import connection

from ..domain.columns import Columns, Ints, Mask
from ..domain.describe import KINDS
from ..domain.storable import storable
from .events import EventFilter

SHOWS = ("relevant", "memory", "errors")
MOST_FOUND = 200_000
"""A search ends with so many events, the lowest sequences first."""
SEARCHES_KEPT = 32

_FLAG = {"relevant": "is_relevant", "memory": "is_memory", "errors": "is_error"}


_Key = tuple[int, int, str, int]


class _Searches:
    """What the last searches found; a search of a log that has grown is another one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[_Key, Ints] = OrderedDict()
        self._looking: dict[_Key, threading.Lock] = {}

    def get(self, key: _Key, look: Callable[[], Ints]) -> Ints:
        """The list and the timeline ask for the same search at once; it is made once."""
        with self._lock:
            if key in self._found:
                return self._found[key]
            looking = self._looking.setdefault(key, threading.Lock())
        with looking:
            if key not in self._found:
                found = look()
                with self._lock:
                    self._found[key] = found
                    while len(self._found) > SEARCHES_KEPT:
                        self._found.popitem(last=False)
                    self._looking.pop(key, None)
                return found
        return self.get(key, look)


_searches = _Searches()


def matching(tenant_id: int, run: int, columns: Columns, wanted: EventFilter) -> Mask | None:
    """None where the filter admits every event."""
    if wanted.is_empty:
        return None
    mask = np.ones(len(columns), dtype=np.bool_)
    if wanted.node:
        mask &= columns.lanes == columns.place_of_node.get(storable(wanted.node), -1)
    if wanted.type:
        mask &= _of_types(columns, storable(wanted.type))
    if wanted.kind:
        kind = KINDS.index(wanted.kind) if wanted.kind in KINDS else len(KINDS)
        mask &= columns.each("kind") == kind
    if wanted.show:
        mask &= columns.each(_FLAG[wanted.show]) if wanted.show in _FLAG else False
    if wanted.q:
        mask &= np.isin(columns.sequences, _found(tenant_id, run, wanted.q, len(columns)), assume_unique=True)
    return mask


def _of_types(columns: Columns, type_: str) -> Mask:
    wanted = np.array([name == type_ for name, _ in columns.type_names] or [False])
    of_events: Mask = wanted[columns.types]
    return of_events


def _found(tenant_id: int, run: int, q: str, count: int) -> Ints:
    return _searches.get((tenant_id, run, q, count), lambda: _search(tenant_id, run, q))


def _search(tenant_id: int, run: int, q: str) -> Ints:
    where, values = EventFilter(q=q).where()
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT e.sequence FROM runs_event e WHERE e.tenant_id = %(tenant)s AND e.run_id = %(run)s"  # noqa: S608
            f" AND {where} ORDER BY e.sequence LIMIT %(most)s",
            values | {"tenant": tenant_id, "run": run, "most": MOST_FOUND},
        )
        return np.array([row[0] for row in cursor.fetchall()], dtype=np.int64)


def places_of(columns: Columns, mask: Mask | None) -> Ints:
    """The places of the admitted events; the list of a run shows them by number."""
    return np.flatnonzero(mask).astype(np.int64) if mask is not None else _all(len(columns))


@lru_cache(8)
def _all(count: int) -> Ints:
    return np.arange(count, dtype=np.int64)
