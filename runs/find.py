"""What the command palette finds: places of a tenant by a few letters of their name.

Each kind of place has a source, and each source asks the database once or twice, whatever there is. Other apps add
theirs with ``register`` when they are loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from django.db import connection
from django.http import HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_GET

from openwop_ui.live.fragments import render_page
from openwop_ui.tenancy.access import TenantRequest, tenant_page
from openwop_ui.tenancy.models import Role

from .domain.projection import unproject
from .domain.storable import original, storable
from .pages import Page
from .queries import RunFacts, find_run, like
from .views import may_upload

LONGEST = 300
EACH = 6
"""The most that one source tells."""
NEWEST_RUNS = 20_000
RUNS_WITH_NODES = 300
"""Names are looked for among the newest; an id that is given whole is found wherever it is."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody looks for, and from where: ``run`` is the run whose page they are on."""

    tenant_id: int
    tenant: str
    role: Role
    q: str
    run: RunFacts | None = None

    def url(self, name: str, **parts: object) -> str:
        return reverse(name, kwargs={"tenant": self.tenant, **parts})


@dataclass(frozen=True, slots=True)
class Place:
    """One place to go to. ``is_id``: its name is one that a program gave."""

    label: str
    detail: str
    href: str
    is_id: bool = False
    is_memory: bool = False


Source = Callable[[Wanted], Iterator[Place]]


@dataclass(frozen=True, slots=True)
class _Registered:
    name: str
    place: int
    source: Source


_SOURCES: list[_Registered] = []


def register(name: str, source: Source, *, place: int) -> None:
    """``name`` is the heading of what ``source`` finds, ``place`` where it stands: pages are 0, searches 100. Several
    sources may share a heading."""
    _SOURCES.append(_Registered(name, place, source))


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    places: tuple[Place, ...]


def find(wanted: Wanted) -> tuple[Group, ...]:
    """The caller is in the tenant's scope."""
    found: dict[str, list[Place]] = {}
    for one in sorted(_SOURCES, key=lambda one: one.place):
        found.setdefault(one.name, []).extend(islice(one.source(wanted), EACH))
    return tuple(Group(name, tuple(places)) for name, places in found.items() if places)


# --- the page ---


@dataclass(frozen=True, slots=True, kw_only=True)
class FindPage(Page):
    q: str
    groups: tuple[Group, ...]
    total: int


@require_GET
@tenant_page()
def find_page(request: TenantRequest) -> HttpResponse:
    """``?q=`` is looked for; ``?at=`` is the run that one is at, as ``host/segment``."""
    q = request.GET.get("q", "").strip()[:LONGEST]
    tenant = request.tenant
    wanted = Wanted(tenant.pk, tenant.slug, Role(request.membership.role), q, _run_at(request))
    groups = find(wanted)
    page = FindPage(
        section="find",
        topics="",
        may_upload=may_upload(request),
        q=q,
        groups=groups,
        total=sum(len(group.places) for group in groups),
    )
    return render_page(request, "find.html", page, fragments=("find-list",))


def _run_at(request: TenantRequest) -> RunFacts | None:
    host, _, segment = request.GET.get("at", "").partition("/")
    try:
        return find_run(request.tenant.pk, storable(host), unproject(segment)) if host and segment else None
    except ValueError:
        return None


# --- sources ---


def _pages(wanted: Wanted) -> Iterator[Place]:
    """Those that every tenant has, by any part of their name."""
    pages = [
        ("Home", "home", "what happens now"),
        ("Runs", "runs:list", "all runs"),
        ("Ledger", "ledger:ledger", "all memory entries"),
        ("Hosts", "runs:hosts", "where runs come from"),
        ("Incidents", "runs:incidents", "contradictions in what hosts told"),
        ("Saved views", "runs:saved_views", "your views of the run page"),
    ]
    if wanted.role.includes(Role.REVIEWER):
        pages.append(("Upload", "runs:upload", "bring in a file of events"))
    for label, name, detail in pages:
        if wanted.q.lower() in label.lower():
            yield Place(label, detail, wanted.url(name))


def _events(wanted: Wanted) -> Iterator[Place]:
    """``#12``, or 12, of the run that one is at."""
    digits = wanted.q.removeprefix("#")
    run = wanted.run
    if run is None or not (digits.isascii() and digits.isdigit()) or len(digits) > 16:
        return
    if run.last_sequence is not None and int(digits) <= run.last_sequence:
        href = wanted.url("runs:run", host=run.host, run=run.run_id)
        yield Place(f"#{int(digits)}", f"event of {run.run_id}", f"{href}?seq={int(digits)}")


_RUN = "r.run_id, r.workflow_id, h.slug, r.status"
_RUNS = f"""
SELECT {_RUN}, r.id, true AS is_exact FROM runs_host h
JOIN runs_run r ON r.tenant_id = h.tenant_id AND r.host_id = h.id AND r.run_id = %(exact)s
WHERE h.tenant_id = %(tenant)s
UNION
SELECT {_RUN}, r.id, r.run_id = %(exact)s FROM (SELECT * FROM runs_run
    WHERE tenant_id = %(tenant)s ORDER BY id DESC LIMIT %(newest)s) AS r
JOIN runs_host h ON h.tenant_id = r.tenant_id AND h.id = r.host_id
WHERE %(exact)s = '' OR r.run_id ILIKE %(like)s OR r.workflow_id ILIKE %(like)s
ORDER BY 6 DESC, 5 DESC LIMIT %(each)s
"""  # noqa: S608 - constants


def _runs(wanted: Wanted) -> Iterator[Place]:
    newest = NEWEST_RUNS if wanted.q else EACH
    for run_id, workflow, host, status, *_ in _rows(_RUNS, wanted, newest=newest):
        run = original(run_id)
        told = " · ".join(part for part in (original(workflow), host, original(status)) if part)
        yield Place(run, told, wanted.url("runs:run", host=host, run=run), is_id=True)


_NODES = """
SELECT n.node_id, r.run_id, h.slug, r.workflow_id FROM (
    (SELECT * FROM runs_run WHERE tenant_id = %(tenant)s ORDER BY id DESC LIMIT %(newest)s)
    UNION SELECT * FROM runs_run WHERE tenant_id = %(tenant)s AND id = %(at)s) AS r
JOIN runs_host h ON h.tenant_id = r.tenant_id AND h.id = r.host_id
JOIN runs_runnode n ON n.tenant_id = r.tenant_id AND n.run_id = r.id AND n.node_id ILIKE %(like)s
ORDER BY (r.id = %(at)s) DESC, (n.node_id = %(exact)s) DESC, r.id DESC, n.first_sequence LIMIT %(each)s
"""


def _nodes(wanted: Wanted) -> Iterator[Place]:
    if not wanted.q:
        return
    at = wanted.run.pk if wanted.run else -1
    for node_id, run_id, host, workflow in _rows(_NODES, wanted, newest=RUNS_WITH_NODES, at=at):
        node, run = original(node_id), original(run_id)
        href = wanted.url("runs:run", host=host, run=run)
        told = f"in {original(workflow) or run}" + (" · this run" if wanted.run and run == wanted.run.run_id else "")
        yield Place(node, told, f"{href}?{_query(node=node)}", is_id=True)


_HOSTS = """
SELECT slug, name, origin FROM runs_host
WHERE tenant_id = %(tenant)s AND (slug ILIKE %(like)s OR name ILIKE %(like)s OR origin ILIKE %(like)s)
ORDER BY (slug = %(exact)s) DESC, slug LIMIT %(each)s
"""


def _hosts(wanted: Wanted) -> Iterator[Place]:
    for slug, name, origin in _rows(_HOSTS, wanted):
        yield Place(
            name or slug, " · ".join(filter(None, (slug if name else "", origin))), wanted.url("runs:host", host=slug)
        )


def _searches(wanted: Wanted) -> Iterator[Place]:
    """What is found by more than a name is found by the pages' own searches."""
    if not wanted.q:
        return
    if wanted.run is not None:
        href = wanted.url("runs:run", host=wanted.run.host, run=wanted.run.run_id)
        yield Place(f"Search this run for {wanted.q}", "ids, types, payloads", f"{href}?{_query(q=wanted.q)}")
    yield Place(f"Search runs for {wanted.q}", "", f"{wanted.url('runs:list')}?{_query(q=wanted.q)}")
    yield Place(f"Search the ledger for {wanted.q}", "", f"{wanted.url('ledger:ledger')}?{_query(q=wanted.q)}")


def _query(**parts: str) -> str:
    """A lone surrogate has no UTF-8 form: the link is there, and finds nothing."""
    return urlencode({name: value.encode("utf-8", "replace") for name, value in parts.items()})


def _rows(sql: str, wanted: Wanted, **values: int) -> list[tuple[str, ...]]:
    told: dict[str, str | int] = {
        "tenant": wanted.tenant_id,
        "exact": storable(wanted.q),
        "like": like(wanted.q),
        "each": EACH,
    }
    with connection.cursor() as cursor:
        cursor.execute(sql, {**told, **values})
        found: list[tuple[str, ...]] = cursor.fetchall()
        return found


register("Pages", _pages, place=0)
register("Events", _events, place=10)
register("Runs", _runs, place=20)
register("Nodes", _nodes, place=30)
register("Hosts", _hosts, place=60)
register("Searches", _searches, place=100)
