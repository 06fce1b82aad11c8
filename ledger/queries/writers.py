"""Registered writers with what they have said, the keys that speak for them, and the categories there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from openwop_ui.tenancy.models import ApiKey
from runs.domain.storable import original

from ..domain.writers import UNREGISTERED_PRIORITY, AuthorityRules
from ..models import ServiceWriter
from .paging import rows_of

MOST_CATEGORIES = 12
"""Columns of the matrix. A writer's own page has all of its categories."""
MOST_UNREGISTERED = 50


@dataclass(frozen=True, slots=True)
class Cell:
    """A priority, and whether the category has one of its own."""

    category: str
    priority: int
    is_own: bool


@dataclass(frozen=True, slots=True)
class WriterRow:
    key: str
    name: str
    default: int
    cells: tuple[Cell, ...]
    own: Mapping[str, int]
    revision: int
    created_at: datetime
    updated_at: datetime
    retired_at: datetime | None
    claims: int
    events: int
    keys: int


@dataclass(frozen=True, slots=True)
class Unregistered:
    """A writer that spoke without being registered, such as a host whose entries were read."""

    key: str
    claims: int
    events: int


@dataclass(frozen=True, slots=True)
class WriterList:
    """``categories`` are the columns, the most used first; ``categories_total`` is how many there are. Without a rule a
    writer's word weighs ``unregistered_priority``."""

    rows: tuple[WriterRow, ...]
    categories: tuple[str, ...]
    categories_total: int
    unregistered: tuple[Unregistered, ...]
    unregistered_priority: int = UNREGISTERED_PRIORITY


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A credential that speaks for a writer."""

    name: str
    prefix: str
    scopes: tuple[str, ...]
    created_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None


def writer_list(tenant_id: int) -> WriterList:
    """All of them, in the order of their service keys."""
    found = list(ServiceWriter.objects.filter(tenant_id=tenant_id).order_by("service_key"))
    said, keys = _said(tenant_id), _keys(tenant_id)
    categories = _categories(tenant_id, found)
    shown = categories[:MOST_CATEGORIES]
    rows = tuple(_row(writer, shown, said.get(writer.service_key, (0, 0)), keys) for writer in found)
    registered = {row.key for row in rows}
    others = [Unregistered(original(key), *counts) for key, counts in said.items() if key not in registered]
    others.sort(key=lambda one: (-one.claims, one.key))
    return WriterList(rows, tuple(shown), len(categories), tuple(others[:MOST_UNREGISTERED]))


def writer_row(tenant_id: int, service_key: str) -> WriterRow | None:
    """With a cell for each category that it has a priority of its own in."""
    writer = ServiceWriter.objects.filter(tenant_id=tenant_id, service_key=service_key).first()
    if writer is None:
        return None
    ((claims, events),) = rows_of(
        "SELECT (SELECT count(*) FROM ledger_claimrow WHERE tenant_id = %(tenant)s AND writer = %(writer)s),"
        " (SELECT count(*) FROM ledger_sourceevent WHERE tenant_id = %(tenant)s AND writer = %(writer)s)",
        {"tenant": tenant_id, "writer": service_key},
    )
    return _row(writer, sorted(writer.categories), (claims, events), _keys(tenant_id))


def writer_keys(tenant_id: int, service_key: str) -> tuple[KeyRow, ...]:
    """Newest first, the revoked ones among them."""
    found = ApiKey.objects.filter(tenant_id=tenant_id, writer=service_key).order_by("-created_at", "-id")
    return tuple(
        KeyRow(key.name, key.prefix, tuple(key.scopes), key.created_at, key.last_used_at, key.revoked_at)
        for key in found
    )


def category_options(tenant_id: int) -> tuple[str, ...]:
    """For a form: every category that a claim or a rule names, the most used first."""
    return tuple(_categories(tenant_id, list(ServiceWriter.objects.filter(tenant_id=tenant_id))))


def _row(writer: ServiceWriter, categories: list[str], said: tuple[int, int], keys: Mapping[str, int]) -> WriterRow:
    rules = AuthorityRules(writer.default_priority, writer.categories)
    return WriterRow(
        key=writer.service_key,
        name=original(writer.display_name),
        default=writer.default_priority,
        cells=tuple(Cell(one, rules.priority(one), one in writer.categories) for one in categories),
        own=dict(writer.categories),
        revision=writer.revision,
        created_at=writer.created_at,
        updated_at=writer.updated_at,
        retired_at=writer.retired_at,
        claims=said[0],
        events=said[1],
        keys=keys.get(writer.service_key, 0),
    )


def _said(tenant_id: int) -> dict[str, tuple[int, int]]:
    """(claims, source events) by writer. Both counts come out of an index."""
    found = rows_of(
        """
        SELECT writer, coalesce(c.count, 0), coalesce(e.count, 0)
        FROM (SELECT writer, count(*) AS count FROM ledger_claimrow
            WHERE tenant_id = %(tenant)s AND source_event_id IS NOT NULL GROUP BY writer) AS c
        FULL JOIN (SELECT writer, count(*) AS count FROM ledger_sourceevent
            WHERE tenant_id = %(tenant)s GROUP BY writer) AS e USING (writer)
        """,
        {"tenant": tenant_id},
    )
    return {writer: (claims, events) for writer, claims, events in found}


def _keys(tenant_id: int) -> dict[str, int]:
    """How many keys that work speak for each writer."""
    found = rows_of(
        "SELECT writer, count(*) FROM tenancy_apikey"
        " WHERE tenant_id = %s AND writer IS NOT NULL AND revoked_at IS NULL GROUP BY writer",
        [tenant_id],
    )
    return dict(found)


def _categories(tenant_id: int, writers: list[ServiceWriter]) -> list[str]:
    found = rows_of(
        "SELECT category, count(*) FROM ledger_subjectkey WHERE tenant_id = %s GROUP BY category ORDER BY 2 DESC, 1",
        [tenant_id],
    )
    used = [original(category) for category, _ in found]
    ruled = sorted({category for writer in writers for category in writer.categories} - set(used))
    return [*used, *ruled]
