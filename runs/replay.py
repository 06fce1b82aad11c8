"""Replay from here: how a run is replayed or branched from one of its events, and doing it on the host."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID, uuid4

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from openwop_ui.live.fragments import render_page
from openwop_ui.tenancy.access import TenantRequest, tenant_page
from openwop_ui.tenancy.models import Role
from openwop_ui.tenancy.scope import tenant_scope

from .domain.forking import MODES, Fork, Mode, SideEffects
from .domain.projection import project
from .pages import Page
from .queries import RunFacts, find_run
from .queries.forking import ForkHost, fork_host, side_effects
from .replay_host import Forked, ForkProblem, fork_on_host
from .views import may_upload

FRAGMENT = "replay-body"


@dataclass(frozen=True, slots=True)
class ForkWay:
    """One way to fork, in one major. ``is_offered`` is None where no document of the host says."""

    mode: Mode
    major: int
    address: str
    command: str
    is_offered: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPage(Page):
    """``why_not`` says why the button is not there, "" where it is. ``key`` makes the request one request."""

    run: RunFacts
    sequence: int
    ways: tuple[ForkWay, ...]
    is_major_known: bool
    effects: SideEffects
    why_not: str
    key: str
    problem: str
    mode: str


@require_http_methods(["GET", "POST"])
@tenant_page(scoped=False)
def replay(request: TenantRequest, host: str, run: str, seq: int) -> HttpResponse:
    tenant = request.tenant.pk
    with tenant_scope(tenant):
        facts, known = find_run(tenant, host, run), fork_host(tenant, host)
    if facts is None or known is None:
        raise Http404("No such run.")
    if request.method == "GET":
        return _shown(request, facts, known, seq)
    return _done(request, facts, known, seq)


def _done(request: TenantRequest, facts: RunFacts, known: ForkHost, sequence: int) -> HttpResponse:
    mode: Mode = "branch" if request.POST.get("mode") == "branch" else "replay"
    why_not = _why_not(request, known)
    if why_not:
        return _shown(request, facts, known, sequence, problem=why_not, mode=mode, status=403)
    if mode == "branch" and request.POST.get("confirmed") != "yes":
        said = "A branch does things again. Say that you know what it does, then start it."
        return _shown(request, facts, known, sequence, problem=said, mode=mode, status=422)
    key = _key(request.POST.get("key", ""))
    fork = Fork(known.host.major or 1, facts.run_id, mode, sequence)
    try:
        forked = fork_on_host(known.host, fork, key=key)
    except ForkProblem as problem:
        return _shown(request, facts, known, sequence, problem=str(problem), mode=mode, key=key, status=422)
    return _opened(request, facts, forked, mode)


def _opened(request: TenantRequest, facts: RunFacts, forked: Forked, mode: Mode) -> HttpResponse:
    """Source and fork side by side; the source alone while nothing of the fork is here."""
    started = "The branch has started." if mode == "branch" else "The replay has started."
    if forked.has_events:
        messages.success(request, started)
        where = _comparison(request, facts, forked)
    else:
        messages.success(
            request, f"{started} The host calls it {forked.run_id}; it is listed once it has told something."
        )
        where = reverse("runs:list", kwargs={"tenant": request.tenant.slug}) + f"?host={facts.host}"
    if request.htmx:
        return HttpResponse(status=204, headers={"HX-Redirect": where})
    return redirect(where)


def _comparison(request: TenantRequest, facts: RunFacts, forked: Forked) -> str:
    a, b = f"{facts.host}/{project(facts.run_id)}", f"{facts.host}/{project(forked.run_id)}"
    return reverse("home", kwargs={"tenant": request.tenant.slug}) + f"compare?a={a}&b={b}"


def _key(given: str) -> str:
    try:
        return str(UUID(given))
    except ValueError:
        return str(uuid4())


def _why_not(request: TenantRequest, known: ForkHost) -> str:
    if not known.host.origin:
        return "This host delivers to us and has no origin, so it can not be asked from here."
    if not known.has_credential:
        return "No credential of this host is kept here, so it can not be asked from here."
    if not request.membership.may(Role.ADMIN):
        return "An admin of this tenant can start it from here."
    return ""


def _shown(
    request: TenantRequest,
    facts: RunFacts,
    known: ForkHost,
    sequence: int,
    *,
    problem: str = "",
    mode: str = "replay",
    key: str = "",
    status: int = 200,
) -> HttpResponse:
    tenant = request.tenant.pk
    with tenant_scope(tenant):
        effects = side_effects(tenant, facts.pk, sequence)
    page = ReplayPage(
        section="runs",
        topics="",
        may_upload=may_upload(request),
        run=facts,
        sequence=sequence,
        ways=tuple(_ways(facts, known, sequence)),
        is_major_known=known.host.major is not None,
        effects=effects,
        why_not=_why_not(request, known),
        key=key or str(uuid4()),
        problem=problem,
        mode=mode,
    )
    # A fragment that htmx asked for is swapped only when it comes with a good status; what went wrong is in its words.
    shown = 200 if request.htmx else status
    return render_page(request, "runs/replay.html", page, fragments=(FRAGMENT,), status=shown)


def _ways(facts: RunFacts, known: ForkHost, sequence: int) -> list[ForkWay]:
    majors = (known.host.major,) if known.host.major else (1, 2)
    return [
        ForkWay(
            mode=mode,
            major=major,
            address=fork.address(known.host.origin),
            command=fork.command(known.host.origin),
            is_offered=None if known.modes is None else mode in known.modes,
        )
        for mode in MODES
        for major in majors
        for fork in (Fork(major, facts.run_id, mode, sequence),)
    ]
