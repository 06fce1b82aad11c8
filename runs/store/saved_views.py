"""A person's saved views of the run page: made, renamed, deleted, brought back.

Everything is done as that person (``principal_scope``), so that the database itself keeps people's views apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode
from uuid import UUID, uuid4

from django.db import connection
from django.utils import timezone

from openwop_ui.tenancy.scope import principal_scope

from ..domain.storable import original, storable
from ..models import SavedView

MOST = 100
LONGEST_NAME = 80
LONGEST_QUERY = 4_000
PASSING = frozenset({"before", "after", "at", "n", "seq", "csrfmiddlewaretoken"})
"""Parameters that say where one is in a run, and nothing about how one looks at it."""


class ViewProblem(ValueError):
    """Its text is for people."""


@dataclass(frozen=True, slots=True)
class Person:
    """A member of a tenant. Their id is the user's."""

    tenant_id: int
    user_id: int


@dataclass(frozen=True, slots=True)
class Kept:
    """A view as it is now. ``replaced`` is what was kept under its name before, None when there was nothing."""

    id: UUID
    name: str
    query: str
    replaced: str | None = None


def worth_keeping(query: str) -> str:
    """The part of an address's query that another run's page can have as well. Raises ViewProblem."""
    if len(query) > LONGEST_QUERY:
        raise ViewProblem(f"the address is longer than {LONGEST_QUERY} characters")
    pairs = parse_qsl(query.removeprefix("?"), keep_blank_values=False, max_num_fields=100)
    return urlencode([(name, value) for name, value in pairs if name not in PASSING])


def keep_view(person: Person, name: str, query: str, *, id: UUID | None = None) -> Kept:
    """A view of that name takes on the new query. ``id`` is that of a deleted view, which comes back as what it was.

    Raises ViewProblem.
    """
    name, query = _name(name), storable(worth_keeping(query))
    with principal_scope(person.user_id), connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, query FROM runs_savedview WHERE tenant_id = %s AND user_id = %s AND name = %s FOR UPDATE",
            [person.tenant_id, person.user_id, storable(name)],
        )
        before = cursor.fetchone()
        if before is None and _count(person) >= MOST:
            raise ViewProblem(f"there are {MOST} views already; delete one first")
        cursor.execute(
            """
            INSERT INTO runs_savedview (tenant_id, id, user_id, name, query, created_at)
            VALUES (%s, %s, %s, %s, %s, %s)
            ON CONFLICT (tenant_id, user_id, name) DO UPDATE SET query = excluded.query
            RETURNING id
            """,
            [person.tenant_id, id or uuid4(), person.user_id, storable(name), query, timezone.now()],
        )
        (kept,) = cursor.fetchone() or (None,)
    assert kept is not None  # inserted or updated
    return Kept(kept, name, original(query), original(before[1]) if before else None)


def rename_view(person: Person, id: UUID, name: str) -> Kept | None:
    """The view with its new name; its old one is in ``replaced``. None when there is none. Raises ViewProblem."""
    name = _name(name)
    with principal_scope(person.user_id):
        mine = SavedView.objects.filter(tenant_id=person.tenant_id, user_id=person.user_id)
        view = mine.select_for_update().filter(id=id).first()
        if view is None:
            return None
        if mine.filter(name=storable(name)).exclude(id=id).exists():
            raise ViewProblem(f"another view is called {name}")
        before, view.name = original(view.name), storable(name)
        view.save(update_fields=["name"])
    return Kept(view.id, name, original(view.query), before)


def delete_view(person: Person, id: UUID) -> Kept | None:
    """The view that is gone now, None when there was none."""
    with principal_scope(person.user_id):
        view = SavedView.objects.filter(tenant_id=person.tenant_id, user_id=person.user_id, id=id).first()
        if view is None:
            return None
        kept = Kept(view.id, original(view.name), original(view.query))
        view.delete()
    return kept


def _name(given: str) -> str:
    name = " ".join(given.split())
    if not name:
        raise ViewProblem("a view needs a name")
    if len(name) > LONGEST_NAME:
        raise ViewProblem(f"a name has at most {LONGEST_NAME} characters")
    return name


def _count(person: Person) -> int:
    return SavedView.objects.filter(tenant_id=person.tenant_id, user_id=person.user_id).count()
