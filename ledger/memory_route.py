"""The page that says how a host's memory is read, and where its tenant's admins set it."""

from __future__ import annotations

from dataclasses import replace

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from openwop_ui.live.fragments import render_page
from openwop_ui.tenancy.access import TenantRequest, tenant_page
from openwop_ui.tenancy.models import Role
from runs.domain.memory_read import PRESETS, BadRoute, MemoryRoute, preset_for
from runs.models import Host
from runs.queries import Option
from runs.queries.subscriptions import implementation_of
from runs.store import ref
from runs.store.hosts import set_memory_route
from runs.views import may_upload

from . import queries
from .domain.route_text import read_route, write_route
from .pages import HostMemoryPage, RouteForm

CUSTOM = "custom"
LONGEST = 512


@require_http_methods(["GET", "POST"])
@tenant_page()
def host_memory(request: TenantRequest, host: str) -> HttpResponse:
    stored = Host.objects.filter(tenant_id=request.tenant.pk, slug=host).first()
    if stored is None:
        raise Http404("No such host.")
    if request.method == "GET":
        return _answer(request, stored, _form_of(stored.memory_route))
    if not request.membership.may(Role.ADMIN):
        raise PermissionDenied("Only an admin of the tenant changes how a host is read.")
    form = _posted(request)
    try:
        route = _route(form)
    except BadRoute as problem:
        words = str(problem)
        return _answer(request, stored, replace(form, error=f"{words[:1].upper()}{words[1:]}."), status=422)
    set_memory_route(ref(stored), route)
    messages.success(request, "Saved. What is due is read within seconds." if route else "Saved. It is not read.")
    return redirect(request.path)


def _route(form: RouteForm) -> str:
    """The text that is kept. Raises BadRoute."""
    if form.way == CUSTOM:
        return write_route(form.list_path, form.entry_path, major=form.major, ref=form.ref)
    if form.way and PRESETS.get(form.way) is None:
        raise BadRoute("choose one of the ways listed")
    return form.way


def _posted(request: TenantRequest) -> RouteForm:
    def given(name: str) -> str:
        return request.POST.get(name, "").strip()[:LONGEST]

    return RouteForm(
        way=given("way"),
        list_path=given("list"),
        entry_path=given("entry"),
        major=2 if given("major") == "2" else 1,
        ref=given("ref"),
        error="",
    )


def _form_of(text: str) -> RouteForm:
    try:
        route = read_route(text)
    except BadRoute:
        text, route = "", None
    way = text if text in PRESETS or not text else CUSTOM
    shown = route if way == CUSTOM and route is not None else MemoryRoute("", "", 1)
    return RouteForm(
        way=way,
        list_path=shown.list_path,
        entry_path=shown.entry_path,
        major=shown.major,
        ref=shown.default_ref or "",
        error="",
    )


def _answer(request: TenantRequest, host: Host, form: RouteForm, *, status: int = 200) -> HttpResponse:
    implementation = implementation_of(host.tenant_id, host.pk)
    page = HostMemoryPage(
        section="hosts",
        topics="hosts ledger",
        may_upload=may_upload(request),
        slug=host.slug,
        name=host.name or host.slug,
        origin=host.origin,
        following=host.following,
        form=form,
        may_change=request.membership.may(Role.ADMIN),
        presets=tuple(
            Option(name, f"{name}: {route.list_path}") for name, route in PRESETS.items() if route is not None
        ),
        suggested=_suggested(implementation, host.major or 1),
        implementation=implementation,
        reading=queries.host_reading(host.tenant_id, host.pk),
    )
    return render_page(request, "ledger/host_memory.html", page, fragments=("reading",), status=status)


def _suggested(implementation: str, major: int) -> str:
    wanted = preset_for(implementation, major=major)
    return next((name for name, route in PRESETS.items() if route is not None and route == wanted), "")
