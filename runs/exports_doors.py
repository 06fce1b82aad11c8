"""Where a run's exports are had: from its page, and over REST."""

from __future__ import annotations

from typing import Annotated

from django.http import Http404, HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_GET
from ninja import Query, Router

from openwop_ui.rest import ApiRequest, Invalid, NotFound, requires
from openwop_ui.tenancy.access import TenantRequest, tenant_page
from openwop_ui.tenancy.models import Scope
from openwop_ui.tenancy.scope import tenant_scope

from . import converters as _converters  # noqa: F401 - registers <projected:…>
from . import exports_report as _report  # noqa: F401 - registers a form
from .exports import Source, exported, exports, find_export
from .queries import RunFacts, find_run

DEFAULT = "ndjson"

router = Router(tags=["runs"])

_EXPORTED = {
    "responses": {
        200: {
            "description": "The run in the form that was asked for, as a file",
            "content": {
                "application/x-ndjson": {"schema": {"type": "string", "description": "One event a line, ascending"}},
                "application/json": {"schema": {"type": "object", "description": "A debug bundle"}},
                "text/csv": {"schema": {"type": "string", "description": "One memory write a line"}},
                "text/html": {"schema": {"type": "string", "description": "A report without scripts or network"}},
            },
        }
    }
}


@require_GET
@tenant_page(scoped=False)
def export_page(request: TenantRequest, host: str, run: str) -> HttpResponseBase:
    export = find_export(request.GET.get("format", DEFAULT))
    found = _run(request.tenant.pk, host, run)
    if export is None or found is None:
        raise Http404("No such run, or no such form of it.")
    here = reverse("runs:run", kwargs={"tenant": request.tenant.slug, "host": host, "run": run})
    return exported(export, Source(request.tenant.pk, found, request.build_absolute_uri(here)))


@router.get("/hosts/{slug:host}/runs/{projected:run}/export", auth=requires(Scope.READ), openapi_extra=_EXPORTED)
def export_run(
    request: ApiRequest,
    host: str,
    run: str,
    format: Annotated[str, Query(description="ndjson, bundle, csv (the memory trail) or html (a report)")] = DEFAULT,
) -> HttpResponseBase:
    """A run to take away, streamed. `ndjson` and `bundle` are ascending and hold what the host sent; taking them in
    again changes nothing."""
    export = find_export(format)
    if export is None:
        raise Invalid("query", "format", f"is one of {', '.join(one.format for one in exports())}")
    found = _run(request.auth.tenant_id, host, run)
    if found is None:
        raise NotFound("run")
    return exported(export, Source(request.auth.tenant_id, found))


def _run(tenant: int, host: str, run: str) -> RunFacts | None:
    with tenant_scope(tenant):
        return find_run(tenant, host, run)
