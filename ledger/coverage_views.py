"""How much of the ledger is attributed, as a page and over REST; what is not, to be handed in by those who know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any, Literal

from django.core.exceptions import BadRequest
from django.http import HttpResponse, HttpResponseBase
from django.views.decorators.http import require_GET
from ninja import Query, Router
from typing_extensions import TypedDict  # the documentation needs this one below Python 3.12

from openwop_ui.live.fragments import render_page
from openwop_ui.rest import LARGEST_PAGE, ApiRequest, Invalid, answer, requires
from openwop_ui.tenancy.access import TenantRequest, tenant_page
from openwop_ui.tenancy.models import Scope
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.projection import project
from runs.pages import Page
from runs.views import may_upload

from .list_exports import PART, exported
from .queries import BrokenCursor
from .queries.coverage import Coverage, DayShare, Gap, GapRow, Share, coverage, gap_list

FRAGMENTS = ("coverage", "rows")
GAP_COLUMNS = ("gap", "what", "host", "runId", "sequence", "at", "node", "agent", "memoryRef", "memoryId")

WORDS = {
    Gap.NODE: "writes whose event names no node",
    Gap.ENTRY: "writes whose event names no entry",
    Gap.WRITE: "entries that no write names",
    Gap.SOURCES: "merges that name no sources",
}
MENDING = {
    Gap.NODE: "The host can send the event again with its node: what it left out is then completed.",
    Gap.ENTRY: "The host masked the entry’s address or dropped it. A copy of the event that has it completes this one.",
    Gap.WRITE: "The runs that wrote them have not been brought in. Upload their logs, or have them sent.",
    Gap.SOURCES: "The host may name the sources in a copy of the event. Tags are shown as hints and never counted.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One column of the chart, in its own units: ``height`` and ``lit`` of 40."""

    x: int
    day: date
    total: int
    attributed: int
    height: int
    lit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GapTab:
    gap: str
    words: str
    count: int
    is_estimate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveragePage(Page):
    tab: str
    found: Coverage
    bars: tuple[Bar, ...]
    chart_width: int
    chart_words: str
    gaps: tuple[GapTab, ...]
    gap: str
    mending: str
    rows: tuple[GapRow, ...]
    total: int
    total_is_estimate: bool
    newer: str | None
    older: str | None


@require_GET
@tenant_page()
def coverage_page(request: TenantRequest) -> HttpResponse:
    tenant, gap = request.tenant.pk, _gap(request)
    found = coverage(tenant)
    try:
        listed = gap_list(tenant, gap, before=request.GET.get("before") or None, after=request.GET.get("after") or None)
    except BrokenCursor as exc:
        raise BadRequest(str(exc)) from exc
    page = CoveragePage(
        section="claims",
        topics="ledger sources",
        may_upload=may_upload(request),
        tab="coverage",
        found=found,
        bars=_bars(found.days),
        chart_width=len(found.days) * STEP,
        chart_words=_chart_words(found.days),
        gaps=tuple(
            GapTab(gap=one.gap.value, words=WORDS[one.gap], count=one.count, is_estimate=one.is_estimate)
            for one in found.gaps
        ),
        gap=gap.value,
        mending=MENDING[gap],
        rows=listed.rows,
        total=found.gap(gap).count,
        total_is_estimate=found.gap(gap).is_estimate,
        newer=listed.newer,
        older=listed.older,
    )
    return render_page(request, "ledger/coverage.html", page, fragments=FRAGMENTS)


def _gap(request: TenantRequest) -> Gap:
    given = request.GET.get("gap", "")
    return Gap(given) if given in WORDS else Gap.NODE


STEP = 12
HEIGHT = 40


def _bars(days: Sequence[DayShare]) -> tuple[Bar, ...]:
    """What is there at all is one unit high at least."""
    most = max((one.total for one in days), default=1)
    return tuple(
        Bar(
            x=place * STEP,
            day=one.day,
            total=one.total,
            attributed=one.attributed,
            height=max(1, HEIGHT * one.total // most),
            lit=HEIGHT * one.attributed // most,
        )
        for place, one in enumerate(days)
    )


def _chart_words(days: Sequence[DayShare]) -> str:
    return "; ".join(f"{one.day.isoformat()}: {one.attributed} of {one.total}" for one in days)


@require_GET
@tenant_page(scoped=False)
def gaps_export(request: TenantRequest) -> HttpResponseBase:
    """What is not attributed, whole."""
    gap = _gap(request)

    def read(cursor: str | None) -> tuple[Sequence[Any], str | None]:
        found = gap_list(request.tenant.pk, gap, before=cursor, limit=PART)
        return [_gap_item(gap, row) for row in found.rows], found.older

    return exported(request, f"unattributed-{gap.value}", GAP_COLUMNS, read)


# --- REST ---


class ShareItem(TypedDict):
    """`attributed` of `total`. `name` is null for what names nobody."""

    name: str | None
    total: int
    attributed: int


class DayItem(TypedDict):
    day: date
    total: int
    attributed: int


class WriterShareItem(TypedDict):
    """A writer's claims, and its source events among the newest: `observed` of them come with the writer's own time,
    `kept` can still be held against their hash."""

    writer: str
    registered: bool
    claims: int
    events: int
    observed: int
    kept: int


class GapsItem(TypedDict):
    """How much has no provenance: writes that name no node, writes that name no entry, entries that no write names,
    merges that name no sources."""

    node: int
    entry: int
    write: int
    sources: int


class CoverageItem(TypedDict):
    """`writes` are attributed when their event names a node. `nodes`, `agents` and `days` are of the `lookedAt` newest
    writes, and of them the most frequent ones; everything else is of all there is. Nothing is inferred."""

    writes: ShareItem
    hosts: list[ShareItem]
    nodes: list[ShareItem]
    agents: list[ShareItem]
    days: list[DayItem]
    lookedAt: int
    entries: ShareItem
    merges: ShareItem
    claims: int
    writers: list[WriterShareItem]
    gaps: GapsItem


class GapItem(TypedDict):
    gap: str
    what: str
    host: str
    runId: str | None
    runPath: str | None
    sequence: int | None
    at: datetime
    node: str | None
    agent: str | None
    memoryRef: str | None
    memoryId: str | None


class GapPage(TypedDict):
    items: list[GapItem]
    nextCursor: str | None


router = Router(tags=["coverage"])


@router.get("/tenant/coverage", auth=requires(Scope.READ), response=CoverageItem)
def get_coverage(request: ApiRequest) -> HttpResponse:
    """How much of the ledger is attributed: by host, node, agent, day and writer."""
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        found = coverage(tenant)
    return answer(_coverage_item(found))


@router.get("/tenant/coverage/gaps", auth=requires(Scope.READ), response=GapPage)
def list_gaps(
    request: ApiRequest,
    gap: Literal["node", "entry", "write", "sources"],
    limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="The most items on the page")] = 50,
    cursor: str | None = None,
) -> HttpResponse:
    """What is not attributed, one by one and newest first, for those who can hand it in. Nothing is filled in by
    guess."""
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        try:
            found = gap_list(tenant, Gap(gap), before=cursor, limit=limit)
        except BrokenCursor:
            raise Invalid("query", "cursor", "is not the nextCursor of a page") from None
    return answer({"items": [_gap_item(Gap(gap), row) for row in found.rows], "nextCursor": found.older})


def _coverage_item(found: Coverage) -> CoverageItem:
    return {
        "writes": _share(found.writes),
        "hosts": list(map(_share, found.hosts)),
        "nodes": list(map(_share, found.nodes)),
        "agents": list(map(_share, found.agents)),
        "days": [{"day": one.day, "total": one.total, "attributed": one.attributed} for one in found.days],
        "lookedAt": found.looked_at,
        "entries": _share(found.entries),
        "merges": _share(found.merges),
        "claims": found.claims,
        "writers": [
            {
                "writer": one.writer,
                "registered": one.is_registered,
                "claims": one.claims,
                "events": one.events,
                "observed": one.observed,
                "kept": one.kept,
            }
            for one in found.writers
        ],
        "gaps": {
            "node": found.gap(Gap.NODE).count,
            "entry": found.gap(Gap.ENTRY).count,
            "write": found.gap(Gap.WRITE).count,
            "sources": found.gap(Gap.SOURCES).count,
        },
    }


def _share(one: Share) -> ShareItem:
    return {"name": one.name, "total": one.total, "attributed": one.attributed}


def _gap_item(gap: Gap, row: GapRow) -> GapItem:
    return {
        "gap": gap.value,
        "what": row.what,
        "host": row.host,
        "runId": row.run_id,
        "runPath": project(row.run_id) if row.run_id is not None else None,
        "sequence": row.sequence,
        "at": row.at,
        "node": row.node,
        "agent": row.agent,
        "memoryRef": row.memory_ref,
        "memoryId": row.memory_id,
    }
