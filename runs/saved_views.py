"""Saved views: names that a person gives to states of the run page, in a menu of that page and on a page of its own."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode, urlsplit
from uuid import UUID

from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from openwop_ui.live.fragments import render_page
from openwop_ui.tenancy.access import TenantRequest, tenant_page

from .pages import Page
from .queries.saved_views import SavedViewRow, saved_views
from .store.saved_views import MOST, Kept, Person, ViewProblem, delete_view, keep_view, rename_view
from .views import may_upload

GONE = "That view is not there any more."


@dataclass(frozen=True, slots=True)
class Undo:
    """What takes back the last change: the members of a form. An ``id`` without ``name`` is deleted again."""

    act: str
    id: UUID
    name: str = ""
    query: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a change, in words, and the way back from it."""

    text: str
    undo: Undo | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownView:
    """``href`` is the run's page under this view; "" where no run is looked at."""

    view: SavedViewRow
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedViewsPage(Page):
    views: tuple[ShownView, ...]
    most: int
    done: Done | None


@require_http_methods(["GET", "POST"])
@tenant_page()
def views_page(request: TenantRequest) -> HttpResponse:
    """GET: the views of who asks. POST: one change to them, and then the same."""
    person = Person(request.tenant.pk, int(request.user.pk))  # type: ignore[arg-type]  # a member is logged in
    done = _changed(person, request) if request.method == "POST" else None
    page = SavedViewsPage(
        section="runs",
        topics="",
        may_upload=may_upload(request),
        views=_shown(request, saved_views(person.tenant_id, person.user_id)),
        most=MOST,
        done=done,
    )
    return render_page(request, "runs/saved_views.html", page, fragments=("views",))


def _shown(request: TenantRequest, views: tuple[SavedViewRow, ...]) -> tuple[ShownView, ...]:
    """The menu is on a run's page, which says where it is; the event chosen there stays chosen."""
    at = urlsplit((request.htmx and request.htmx.current_url_abs_path) or "")
    if not at.path.startswith(reverse("runs:list", kwargs={"tenant": request.tenant.slug}) + "/"):
        return tuple(ShownView(view=view, href="") for view in views)
    chosen = [("seq", seq) for seq in parse_qs(at.query).get("seq", [])[:1]]
    return tuple(
        ShownView(view=view, href=f"{at.path}?{'&'.join(filter(None, (view.query, urlencode(chosen))))}")
        for view in views
    )


def _changed(person: Person, request: TenantRequest) -> Done:
    given = request.POST
    try:
        match given.get("act"):
            case "rename":
                return _renamed(rename_view(person, _id(given.get("id", "")), given.get("name", "")))
            case "delete":
                return _deleted(delete_view(person, _id(given.get("id", ""))))
            case "restore":
                kept = keep_view(person, given.get("name", ""), given.get("query", ""), id=_id(given.get("id", "")))
                return Done(f"{kept.name} is back.")
            case _:
                return _kept(keep_view(person, given.get("name", ""), given.get("query", "")))
    except ViewProblem as problem:
        text = str(problem)
        return Done(f"{text[:1].upper()}{text[1:]}.", failed=True)


def _id(given: str) -> UUID:
    try:
        return UUID(given)
    except ValueError:
        raise ViewProblem("that is no view") from None


def _kept(view: Kept) -> Done:
    if view.replaced is None:
        return Done(f"{view.name} is saved.", Undo("delete", view.id))
    return Done(f"{view.name} was replaced.", Undo("restore", view.id, view.name, view.replaced))


def _renamed(view: Kept | None) -> Done:
    if view is None or view.replaced is None:
        return Done(GONE, failed=True)
    return Done(f"{view.replaced} is now called {view.name}.", Undo("rename", view.id, view.replaced))


def _deleted(view: Kept | None) -> Done:
    if view is None:
        return Done(GONE, failed=True)
    return Done(f"{view.name} is deleted.", Undo("restore", view.id, view.name, view.query))
