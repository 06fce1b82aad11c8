"""The page of everything that contradicts itself in what hosts told us."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpResponse
from django.views.decorators.http import require_GET

from openwop_ui.live.fragments import render_page
from openwop_ui.tenancy.access import TenantRequest, tenant_page

from . import queries
from .pages import Page
from .queries import IncidentFilter, IncidentRow, Option
from .views import may_upload, number


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentListPage(Page):
    rows: tuple[IncidentRow, ...]
    total: int
    all_total: int
    kind: str
    host: str
    kinds: tuple[Option, ...]
    hosts: tuple[Option, ...]
    newer: str | None
    older: str | None


@require_GET
@tenant_page()
def incident_list(request: TenantRequest) -> HttpResponse:
    tenant = request.tenant.pk
    wanted = IncidentFilter(kind=request.GET.get("kind", ""), host=request.GET.get("host", ""))
    found = queries.incidents_page(tenant, wanted, before=number(request, "before"), after=number(request, "after"))
    kinds, hosts = queries.incident_options(tenant)
    page = IncidentListPage(
        section="incidents",
        topics="hosts runs",
        may_upload=may_upload(request),
        rows=found.rows,
        total=found.total,
        all_total=sum(option.count or 0 for option in kinds),
        kind=wanted.kind,
        host=wanted.host,
        kinds=kinds,
        hosts=hosts,
        newer=found.newer,
        older=found.older,
    )
    return render_page(request, "runs/incidents.html", page, fragments=("rows",))
