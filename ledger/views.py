"""Pages about what is remembered and who wrote it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.core.exceptions import BadRequest
from django.http import Http404, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_GET

from openwop_ui.live.fragments import render_page, wanted_fragment
from openwop_ui.tenancy.access import TenantRequest, tenant_page
from runs.views import may_upload, number

from . import queries
from .chain_view import entry_root
from .chain_view import view as chain_view
from .form_fields import read_moment
from .pages import EntryPage, LedgerPage
from .queries import STATES, STORED, BrokenCursor, EntryContent, EntryFacts, EntryFilter, EntryList, Lineage, WriteList
from .queries.chain import chains
from .queries.receipts import entry_receipts
from .queries.resting import entry_then, resting

LEDGER_FRAGMENTS = ("rows",)
ENTRY_FRAGMENTS = ("facts", "content", "rows", "receipts")
NO_PROVENANCE: dict[str, Any] = {"chain": None, "resting": None, "then": None, "as_of": "", "as_of_error": ""}
NOTHING_SEEN = EntryContent(None, (), 0, None, None, None, "", None, None, None, frozenset())


@require_GET
@tenant_page()
def ledger(request: TenantRequest) -> HttpResponse:
    tenant = request.tenant.pk
    wanted, now = _filter(request), timezone.now()
    found = _entries(request, wanted, now)
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
        states=queries.state_options(tenant, totals.entries, now=now) if is_whole else (),
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


def _entries(request: TenantRequest, wanted: EntryFilter, now: datetime) -> EntryList:
    before, after = _cursors(request)
    try:
        return queries.entry_list(request.tenant.pk, wanted, before=before, after=after, now=now)
    except BrokenCursor as exc:
        raise BadRequest(str(exc)) from exc


def _cursors(request: TenantRequest) -> tuple[str | None, str | None]:
    return request.GET.get("before") or None, request.GET.get("after") or None


@require_GET
@tenant_page()
def entry(request: TenantRequest, host: str, memory_ref: str, memory_id: str) -> HttpResponse:
    now = timezone.now()
    facts = queries.find_entry(request.tenant.pk, host, memory_ref, memory_id, now=now)
    if facts is None:
        raise Http404("No such entry.")
    fragment = wanted_fragment(request, ENTRY_FRAGMENTS)
    content = _content(request, facts, now) if fragment in (None, "content") else NOTHING_SEEN
    writes = _writes(request, facts) if fragment in (None, "rows") else WriteList((), None, None)
    told = queries.lineage(request.tenant.pk, facts) if fragment is None else Lineage((), ())
    receipts = entry_receipts(request.tenant.pk, facts.pk) if fragment in (None, "receipts") else ()
    page = EntryPage(
        section="ledger",
        topics="ledger",
        may_upload=may_upload(request),
        entry=facts,
        content=content,
        writes=writes.rows,
        writes_total=facts.writes + facts.repeats,
        older=writes.older,
        newer=writes.newer,
        lineage_in=told.came_from,
        lineage_out=told.went_into,
        receipts=receipts,
        **(_provenance(request, facts) if fragment is None else NO_PROVENANCE),
    )
    return render_page(request, "ledger/entry.html", page, fragments=ENTRY_FRAGMENTS)


def _provenance(request: TenantRequest, entry: EntryFacts) -> dict[str, Any]:
    tenant, text = request.tenant.pk, request.GET.get("as_of", "").strip()
    root = entry_root(entry.pk, entry.first_write_at, entry.host, entry.memory_ref, entry.memory_id)
    then, error = None, ""
    if text:
        try:
            then = entry_then(tenant, entry, read_moment(text), may_show=entry.state == STORED)
        except ValueError as problem:
            error = f"moment: {problem}"
    (chain,) = chains(tenant, [entry.pk])
    return {
        "chain": chain_view(chain, root),
        "resting": resting(tenant, entry),
        "then": then,
        "as_of": text,
        "as_of_error": error,
    }


def _content(request: TenantRequest, entry: EntryFacts, now: datetime) -> EntryContent:
    return queries.entry_content(request.tenant.pk, entry, now=now, before=number(request, "seen_before"))


def _writes(request: TenantRequest, entry: EntryFacts) -> WriteList:
    before, after = _cursors(request)
    try:
        return queries.entry_writes(request.tenant.pk, entry.pk, before=before, after=after)
    except BrokenCursor as exc:
        raise BadRequest(str(exc)) from exc
