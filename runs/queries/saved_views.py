"""The views of the run page that a person has saved."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl
from uuid import UUID

from openwop_ui.tenancy.scope import principal_scope

from ..domain.storable import original
from ..models import SavedView


@dataclass(frozen=True, slots=True)
class SavedViewRow:
    """``says`` is the query in words, one a parameter."""

    id: UUID
    name: str
    query: str
    says: tuple[str, ...]


def saved_views(tenant_id: int, user_id: int) -> tuple[SavedViewRow, ...]:
    """By name. The caller is in the tenant's scope."""
    with principal_scope(user_id):
        found = SavedView.objects.filter(tenant_id=tenant_id, user_id=user_id).order_by("name")
        return tuple(_row(view) for view in found)


def _row(view: SavedView) -> SavedViewRow:
    query = original(view.query)
    says = tuple(f"{name} {value}" for name, value in parse_qsl(query))
    return SavedViewRow(view.id, original(view.name), query, says)
