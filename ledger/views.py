"""Pages about what is remembered and who wrote it."""

from __future__ import annotations

from django.core.exceptions import BadRequest
from django.http import Http404, HttpResponse
from django.views.decorators.http import require_GET

from openwop_ui.live.fragments import render_page, wanted_fragment
from openwop_ui.tenancy.access import TenantRequest, tenant_page
from runs.queries import Option
from runs.views import may_upload

from . import queries
from .pages import EntryPage, LedgerPage
from .queries import ANNOUNCED, STATES, BrokenCursor, EntryFacts, EntryFilter, EntryList, Lineage, WriteList

LEDGER_FRAGMENTS = ("rows",)
ENTRY_FRAGMENTS = ("facts", "rows")


@require_GET
@tenant_page()
def ledger(request: TenantRequest) -> HttpResponse:
    tenant = request.tenant.pk
    wanted = _filter(request)
    found = _entries(request, wanted)
    totals = queries.totals(tenant)
    is_whole = wanted_fragment(request, LEDGER_FRAGMENTS) is None
    page = LedgerPage(
        section="ledger",
        topics="ledger",
        may_upload=may_upload(request),
        rows=found.rows,
        total=found.total,
        total_is_estimate=found.total_is_estimate,
        all_total=totals.entries,
        writes_total=totals.writes,
        attributed=totals.attributed,
        q=wanted.q,
        host=wanted.host,
        ref=wanted.ref,
        node=wanted.node,
        agent=wanted.agent,
        tag=wanted.tag,
        state=wanted.state,
        hosts=queries.host_options(tenant) if is_whole else (),
        refs=queries.ref_options(tenant) if is_whole else (),
        states=(Option(ANNOUNCED, ANNOUNCED, totals.entries),),
        newer=found.newer,
        older=found.older,
    )
    return render_page(request, "ledger/ledger.html", page, fragments=LEDGER_FRAGMENTS)


def _filter(request: TenantRequest) -> EntryFilter:
    """What a page does not know, in the names or in the states of its URL, it leaves aside."""
    given = request.GET
    state = given.get("state", "")
    return EntryFilter(
        q=given.get("q", "").strip(),
        host=given.get("host", ""),
        ref=given.get("ref", ""),
        node=given.get("node", ""),
        agent=given.get("agent", ""),
        tag=given.get("tag", ""),
        state=state if state in STATES else "",
    )


def _entries(request: TenantRequest, wanted: EntryFilter) -> EntryList:
    before, after = _cursors(request)
    try:
        return queries.entry_list(request.tenant.pk, wanted, before=before, after=after)
    except BrokenCursor as exc:
        raise BadRequest(str(exc)) from exc


def _cursors(request: TenantRequest) -> tuple[str | None, str | None]:
    return request.GET.get("before") or None, request.GET.get("after") or None


@require_GET
@tenant_page()
def entry(request: TenantRequest, host: str, memory_ref: str, memory_id: str) -> HttpResponse:
    facts = queries.find_entry(request.tenant.pk, host, memory_ref, memory_id)
    if facts is None:
        raise Http404("No such entry.")
    fragment = wanted_fragment(request, ENTRY_FRAGMENTS)
    writes = _writes(request, facts) if fragment in (None, "rows") else WriteList((), None, None)
    told = queries.lineage(request.tenant.pk, facts) if fragment is None else Lineage((), ())
    page = EntryPage(
        section="ledger",
        topics="ledger",
        may_upload=may_upload(request),
        entry=facts,
        writes=writes.rows,
        writes_total=facts.writes,
        older=writes.older,
        newer=writes.newer,
        lineage_in=told.came_from,
        lineage_out=told.went_into,
    )
    return render_page(request, "ledger/entry.html", page, fragments=ENTRY_FRAGMENTS)


def _writes(request: TenantRequest, entry: EntryFacts) -> WriteList:
    before, after = _cursors(request)
    try:
        return queries.entry_writes(request.tenant.pk, entry.pk, before=before, after=after)
    except BrokenCursor as exc:
        raise BadRequest(str(exc)) from exc
