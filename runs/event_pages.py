"""What is had of one event beside its detail: its differences from the one before of its kind."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import Http404, HttpResponse
from django.views.decorators.http import require_GET

from openwop_ui.live.fragments import render_page
from openwop_ui.tenancy.access import TenantRequest, tenant_page

from .pages import Page
from .queries import RunFacts, find_run
from .queries.event import EventDifferences, event_differences
from .views import may_upload, number


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDiffPage(Page):
    """``found`` is None where there is nothing to compare with."""

    run: RunFacts
    sequence: int
    found: EventDifferences | None


@require_GET
@tenant_page()
def event_diff(request: TenantRequest, host: str, run: str, seq: int) -> HttpResponse:
    """Against the event before it of the same type and node, or against ``?against=``."""
    facts = find_run(request.tenant.pk, host, run)
    if facts is None:
        raise Http404("No such run.")
    page = EventDiffPage(
        section="runs",
        topics="",
        may_upload=may_upload(request),
        run=facts,
        sequence=seq,
        found=event_differences(request.tenant.pk, facts.pk, seq, number(request, "against")),
    )
    return render_page(request, "runs/event_diff.html", page, fragments=("diff-body",))
