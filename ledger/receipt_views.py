"""Pages of what became of attempted memory writes: of the tenant, of a run, and the names of its memory tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from openwop_ui.live.fragments import render_page, wanted_fragment
from openwop_ui.tenancy.access import TenantRequest, tenant_page
from openwop_ui.tenancy.models import Role
from runs.pages import Page
from runs.queries import Option, RunFacts, find_run
from runs.views import may_upload

from . import queries
from .domain.receipt_words import STATES as STATE_WORDS
from .domain.receipts import State
from .domain.tool_calls import MemoryTools
from .list_exports import PART, exported
from .queries import BrokenCursor
from .queries.receipts import (
    ReceiptCounts,
    ReceiptFilter,
    ReceiptList,
    ReceiptRow,
    receipt_counts,
    receipt_list,
    tool_options,
    unasked_writes,
)
from .queries.rows import WriteList, WriteRow
from .receipt_items import RECEIPT_COLUMNS, UNASKED_COLUMNS, receipt_item, unasked_item
from .receipt_store import memory_tools, name_memory_tools

FRAGMENTS = ("rows",)
SHOWS = ("", "claimed_only", "unasked")
MOST_NAMES = 50
LONGEST_NAME = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTally:
    """``words`` say what the state means, ``share`` is its part of all attempts in per cent."""

    state: str
    words: str
    count: int
    share: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lists(Page):
    """``receipts`` or, where ``show`` is unasked, ``writes``."""

    counts: ReceiptCounts
    tally: tuple[StateTally, ...]
    show: str
    state: str
    receipts: tuple[ReceiptRow, ...]
    writes: tuple[WriteRow, ...]
    total: int
    newer: str | None
    older: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptsPage(_Lists):
    tab: str
    host: str
    tool: str
    run: str
    entry: str
    hosts: tuple[Option, ...]
    tools: tuple[Option, ...]
    writing: tuple[str, ...]
    reading: tuple[str, ...]
    may_change: bool

    @property
    def is_narrowed(self) -> bool:
        return bool(self.host or self.tool or self.run or self.entry or self.state or self.show)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReceiptsPage(_Lists):
    run: RunFacts


@require_GET
@tenant_page()
def receipts(request: TenantRequest) -> HttpResponse:
    tenant, wanted, show = request.tenant.pk, _filter(request), _show(request)
    is_whole = wanted_fragment(request, FRAGMENTS) is None
    tools = memory_tools(tenant) if is_whole else MemoryTools()
    page = ReceiptsPage(
        section="claims",
        topics="ledger",
        may_upload=may_upload(request),
        tab="receipts",
        host=wanted.host,
        tool=wanted.tool,
        run=wanted.run,
        entry=str(wanted.entry or ""),
        hosts=queries.host_options(tenant) if is_whole else (),
        tools=tool_options(tenant) if is_whole else (),
        writing=tuple(sorted(tools.writes)),
        reading=tuple(sorted(tools.reads)),
        may_change=request.membership.may(Role.ADMIN),
        **_lists(request, wanted, show),
    )
    return render_page(request, "ledger/receipts.html", page, fragments=FRAGMENTS)


def _filter(request: TenantRequest) -> ReceiptFilter:
    """What a page does not know, in the names or in the states of its URL, it leaves aside."""
    given = request.GET
    entry = None
    with suppress(ValueError):
        entry = UUID(given.get("entry", ""))
    return ReceiptFilter(
        state=_state(request),
        host=given.get("host", ""),
        tool=given.get("tool", "").strip(),
        run=given.get("run", "").strip(),
        entry=entry,
    )


def _state(request: TenantRequest) -> str:
    state = request.GET.get("state", "")
    return state if state in STATE_WORDS else ""


def _show(request: TenantRequest) -> str:
    show = request.GET.get("show", "")
    return show if show in SHOWS else ""


def _lists(request: TenantRequest, wanted: ReceiptFilter, show: str) -> dict[str, Any]:
    tenant = request.tenant.pk
    before, after = request.GET.get("before") or None, request.GET.get("after") or None
    counts = receipt_counts(tenant, wanted)
    attempts, writes = ReceiptList((), None, None), WriteList((), None, None)
    found: ReceiptList | WriteList
    try:
        if show == "unasked":
            found = writes = unasked_writes(tenant, wanted, before=before, after=after)
        else:
            found = attempts = receipt_list(tenant, wanted.only(show), before=before, after=after)
    except BrokenCursor as exc:
        raise BadRequest(str(exc)) from exc
    return {
        "counts": counts,
        "tally": _tally(counts),
        "show": show,
        "state": wanted.state,
        "receipts": attempts.rows,
        "writes": writes.rows,
        "total": _total(counts, wanted.state, show),
        "newer": found.newer,
        "older": found.older,
    }


def _total(counts: ReceiptCounts, state: str, show: str) -> int:
    if show:
        return counts.unasked if show == "unasked" else counts.claimed_only
    return counts.of(state) if state else counts.attempts


def _tally(counts: ReceiptCounts) -> tuple[StateTally, ...]:
    whole = counts.attempts or 1
    return tuple(
        StateTally(state=state.value, words=STATE_WORDS[state], count=count, share=round(100 * count / whole))
        for state, count in counts.by_state
    )


@require_GET
@tenant_page(scoped=False)
def receipts_export(request: TenantRequest) -> HttpResponseBase:
    """The list that the page shows, whole."""
    tenant, wanted, show = request.tenant.pk, _filter(request), _show(request)

    def attempts(cursor: str | None) -> tuple[Sequence[Any], str | None]:
        found = receipt_list(tenant, wanted.only(show), before=cursor, limit=PART)
        return list(map(receipt_item, found.rows)), found.older

    def writes(cursor: str | None) -> tuple[Sequence[Any], str | None]:
        found = unasked_writes(tenant, wanted, before=cursor, limit=PART)
        return list(map(unasked_item, found.rows)), found.older

    if show == "unasked":
        return exported(request, "unasked-writes", UNASKED_COLUMNS, writes)
    return exported(request, "receipts", RECEIPT_COLUMNS, attempts)


# --- Of a run ---


@require_GET
@tenant_page()
def run_receipts(request: TenantRequest, host: str, run: str) -> HttpResponse:
    facts = _run(request, host, run)
    page = RunReceiptsPage(
        section="runs",
        topics="ledger",
        may_upload=may_upload(request),
        run=facts,
        **_lists(request, ReceiptFilter(state=_state(request), run_pk=facts.pk), _show(request)),
    )
    return render_page(request, "ledger/run_receipts.html", page, fragments=FRAGMENTS)


def _run(request: TenantRequest, host: str, run: str) -> RunFacts:
    facts = find_run(request.tenant.pk, host, run)
    if facts is None:
        raise Http404("No such run.")
    return facts


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptsPanel:
    """The receipts of a run in short, for the run's own page. ``pressing`` are the attempts that are not confirmed."""

    host: str
    run_id: str
    counts: ReceiptCounts
    tally: tuple[StateTally, ...]
    pressing: tuple[ReceiptRow, ...]


PRESSING = 5


@require_GET
@tenant_page()
def run_receipts_panel(request: TenantRequest, host: str, run: str) -> HttpResponse:
    tenant, facts = request.tenant.pk, _run(request, host, run)
    counts = receipt_counts(tenant, ReceiptFilter(run_pk=facts.pk))
    page = ReceiptsPanel(
        host=host,
        run_id=run,
        counts=counts,
        tally=_tally(counts),
        pressing=_pressing(tenant, facts.pk) if counts.attempts > counts.of(State.CONFIRMED) else (),
    )
    return render_page(request, "ledger/_receipts_panel.html", page)


def _pressing(tenant: int, run: int) -> tuple[ReceiptRow, ...]:
    found = receipt_list(tenant, ReceiptFilter(run_pk=run, unproven=True), limit=PRESSING)
    return found.rows


# --- The names of memory tools ---


@require_POST
@tenant_page(role=Role.ADMIN)
def change_memory_tools(request: TenantRequest) -> HttpResponse:
    """From a form: one name a line, or with commas between them."""
    writes, reads = _names(request, "writes"), _names(request, "reads")
    complaint = _complaint(writes, reads)
    if complaint:
        messages.error(request, complaint)
    else:
        name_memory_tools(
            request.tenant.pk, MemoryTools(frozenset(writes), frozenset(reads)), by=request.user.get_username()
        )
        messages.success(request, "Saved. The receipts of all runs with tool calls are being read again.")
    return redirect(reverse("ledger:receipts", kwargs={"tenant": request.tenant.slug}))


def _names(request: TenantRequest, field: str) -> tuple[str, ...]:
    given = request.POST.get(field, "").replace(",", "\n").splitlines()
    return tuple(dict.fromkeys(name.strip() for name in given if name.strip()))


_COMPLAINTS: tuple[tuple[Callable[[tuple[str, ...], tuple[str, ...]], bool], str], ...] = (
    (lambda writes, reads: not writes, "Name one tool that writes at least. Nothing was changed."),
    (lambda writes, reads: bool(set(writes) & set(reads)), "A tool either writes or reads. Nothing was changed."),
    (lambda writes, reads: len(writes) + len(reads) > MOST_NAMES, f"{MOST_NAMES} names at most. Nothing was changed."),
    (
        lambda writes, reads: any(len(name) > LONGEST_NAME for name in (*writes, *reads)),
        f"A name has {LONGEST_NAME} characters at most. Nothing was changed.",
    ),
)


def _complaint(writes: tuple[str, ...], reads: tuple[str, ...]) -> str:
    return next((words for is_so, words in _COMPLAINTS if is_so(writes, reads)), "")
