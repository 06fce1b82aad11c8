"""The page that holds a host's claims against its log."""

from __future__ import annotations

import json
from dataclasses import dataclass

from django.http import Http404, HttpResponse
from django.views.decorators.http import require_GET

from openwop_ui.live.fragments import render_page
from openwop_ui.tenancy.access import TenantRequest, tenant_page

from .models import Host
from .pages import Page
from .queries.lens import Lens, lens
from .views import may_upload


@dataclass(frozen=True, slots=True, kw_only=True)
class LensPage(Page):
    slug: str
    name: str
    lens: Lens
    node_percent: int | None
    document: str


@require_GET
@tenant_page()
def host_lens(request: TenantRequest, host: str) -> HttpResponse:
    stored = Host.objects.filter(tenant_id=request.tenant.pk, slug=host).first()
    if stored is None:
        raise Http404("No such host.")
    seen = lens(request.tenant.pk, stored.pk)
    coverage = seen.verdict.node_coverage
    page = LensPage(
        section="hosts",
        topics="hosts runs",
        may_upload=may_upload(request),
        slug=stored.slug,
        name=stored.name or stored.slug,
        lens=seen,
        node_percent=None if coverage is None else int(coverage * 100),
        document=json.dumps(seen.capabilities.document, default=dict, ensure_ascii=False) if seen.capabilities else "",
    )
    return render_page(request, "runs/lens.html", page, fragments=("lens",))
