"""Pages about hosts, runs and their events."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET

from openwop_ui.live.fragments import render_page, wanted_fragment
from openwop_ui.rest import dumps, json_response
from openwop_ui.tenancy.access import TenantRequest, tenant_page
from openwop_ui.tenancy.models import Role

from . import queries
from .domain.projection import project
from .domain.storable import original
from .host_pages import host_form
from .models import Follow, Host
from .pages import EventPage, FollowRow, HostListPage, HostPage, RunListPage, RunPage
from .queries import NOTHING_LISTED, EventDetail, EventFilter, Listed, RunFacts, RunFilter, View
from .queries.subscriptions import host_subscriptions
from .webhook_pages import webhook_form

RUN_FRAGMENTS = ("facts", "incidents", "events", "listed", "detail")
HOST_FRAGMENTS = ("facts", "follows", "subscriptions", "incidents", "rows")
FOLLOWS_SHOWN = 50
LIST_ROWS = 60
MOST_LIST_ROWS = 300
PINS = 12


def may_upload(request: TenantRequest) -> bool:
    return request.membership.may(Role.REVIEWER)


def number(request: HttpRequest, name: str) -> int | None:
    """A sequence or cursor of the URL. One that is no number, or out of a sequence's range, counts as not given."""
    given = request.GET.get(name, "")
    if not (given.isascii() and given.isdigit()) or len(given) > 18:
        return None
    return int(given)


def _place(request: TenantRequest, name: str) -> int | None:
    """A place in the list of runs; one that names no run counts as not given."""
    cursor = request.GET.get(name, "")
    return queries.place_of(request.tenant.pk, cursor) if cursor else None


@require_GET
@tenant_page()
def run_list(request: TenantRequest) -> HttpResponse:
    tenant = request.tenant.pk
    wanted = RunFilter(
        status=request.GET.get("status", ""),
        host=request.GET.get("host", ""),
        q=request.GET.get("q", "").strip(),
    )
    found = queries.run_list(tenant, wanted, before=_place(request, "before"), after=_place(request, "after"))
    statuses = queries.status_options(tenant)
    page = RunListPage(
        section="runs",
        topics="runs",
        may_upload=may_upload(request),
        rows=found.rows,
        total=found.total,
        total_is_estimate=False,
        all_total=sum(option.count or 0 for option in statuses),
        status=wanted.status,
        host=wanted.host,
        q=wanted.q,
        statuses=statuses,
        hosts=queries.host_options(tenant),
        newer=found.newer,
        older=found.older,
    )
    return render_page(request, "runs/run_list.html", page, fragments=("rows",))


@require_GET
@tenant_page()
def run(request: TenantRequest, host: str, run: str) -> HttpResponse:
    facts = _run_or_404(request, host, run)
    fragment = wanted_fragment(request, RUN_FRAGMENTS)
    chosen = number(request, "seq")
    event = _event(request, facts, chosen) if fragment in (None, "detail") else None
    page = _run_page(request, facts, event, chosen, fragment)
    if fragment == "incidents" and page.incidents_total == number(request, "known"):
        # What is there may stand open.
        return HttpResponse(status=204)
    return render_page(request, "runs/run.html", page, fragments=RUN_FRAGMENTS)


def event_filter(request: HttpRequest) -> EventFilter:
    """What the URL narrows a run's events to, in the list and in the timeline alike."""
    return EventFilter(
        node=request.GET.get("node", ""),
        type=request.GET.get("type", ""),
        kind=request.GET.get("kind", ""),
        q=request.GET.get("q", "").strip(),
        show=request.GET.get("show", ""),
    )


def _run_page(
    request: TenantRequest, facts: RunFacts, event: EventDetail | None, chosen: int | None, fragment: str | None
) -> RunPage:
    tenant = request.tenant.pk
    wanted = event_filter(request)
    # A fragment that comes ten times a second asks for no more than it shows.
    shows_incidents = fragment in (None, "incidents")
    incidents, incidents_total = queries.incidents(tenant, run=facts.pk, limit=20) if shows_incidents else ((), 0)
    listed = NOTHING_LISTED if fragment in ("facts", "incidents", "detail") else _listed(request, facts, wanted, chosen)
    return RunPage(
        section="runs",
        topics=f"run:{facts.host}/{project(facts.run_id)}",
        may_upload=may_upload(request),
        run=facts,
        incidents=incidents,
        incidents_total=incidents_total,
        events=listed.events,
        matching=listed.matching,
        stored=listed.stored,
        first_place=listed.first_place,
        before=listed.before,
        after=listed.after,
        node=wanted.node,
        type=wanted.type,
        kind=wanted.kind,
        q=wanted.q,
        show=wanted.show,
        nodes=listed.options.nodes,
        types=listed.options.types,
        kinds=listed.options.kinds,
        event=event,
        missing=chosen if chosen is not None and event is None else None,
    )


def _listed(request: TenantRequest, facts: RunFacts, wanted: EventFilter, chosen: int | None) -> Listed:
    """The events that the URL asks for: by their place, before or after a sequence, around the chosen one."""
    return queries.listed(
        request.tenant.pk,
        facts.pk,
        wanted,
        at=number(request, "at"),
        before=number(request, "before"),
        after=number(request, "after"),
        around=chosen,
        limit=min(number(request, "n") or LIST_ROWS, MOST_LIST_ROWS),
    )


def _run_or_404(request: TenantRequest, host: str, run: str) -> RunFacts:
    facts = queries.find_run(request.tenant.pk, host, run)
    if facts is None:
        raise Http404("No such run.")
    return facts


def _event(request: TenantRequest, facts: RunFacts, sequence: int | None) -> EventDetail | None:
    if sequence is None:
        return None
    raw = reverse(
        "runs:event_json",
        kwargs={
            "tenant": request.tenant.slug,
            "host": facts.host,
            "run": facts.run_id,
            "seq": sequence,
        },
    )
    return queries.find_event(request.tenant.pk, facts, sequence, raw_href=raw)


@require_GET
@tenant_page()
def event(request: TenantRequest, host: str, run: str, seq: int) -> HttpResponseBase:
    """The detail pane of one event; without htmx, the run's page with that event chosen."""
    if not request.htmx:
        where = reverse("runs:run", kwargs={"tenant": request.tenant.slug, "host": host, "run": run})
        return redirect(f"{where}?{urlencode({'seq': seq})}")
    facts = _run_or_404(request, host, run)
    found = _event(request, facts, seq)
    page = EventPage(run=facts, event=found, missing=None if found else seq)
    return render_page(request, "runs/run.html", page, fragments=("detail",))


@require_GET
@tenant_page()
def event_json(request: TenantRequest, host: str, run: str, seq: int) -> HttpResponse:
    """The stored JSON text of one event, to keep."""
    facts = _run_or_404(request, host, run)
    body = queries.event_body(request.tenant.pk, facts.pk, seq)
    if body is None:
        raise Http404("No such event.")
    answer = HttpResponse(body, content_type="application/json")
    answer["Content-Disposition"] = f'attachment; filename="event-{seq}.json"'
    answer["Cache-Control"] = "no-store"
    return answer


@require_GET
@tenant_page()
def timeline(request: TenantRequest, host: str, run: str) -> HttpResponse:
    """What the run page's timeline draws, with links to entries and to sub-workflow runs."""
    facts = _run_or_404(request, host, run)
    first = number(request, "row") or 0
    view = View(
        start=number(request, "from"),
        end=number(request, "to"),
        width=number(request, "width") or 1200,
        axis="sequence" if request.GET.get("axis") == "sequence" else "time",
        rows=(first, first + (number(request, "rows") or 60)),
        pins=tuple(request.GET.getlist("pin")[:PINS]),
        filter=event_filter(request),
        overview=request.GET.get("overview") != "0",
    )
    drawn = queries.timeline(request.tenant.pk, facts, view)
    for write in drawn["writes"]:
        write["href"] = _entry_href(request, facts.host, write["memoryRef"], write["memoryId"])
    for child in drawn.get("children", ()):
        child["href"] = _run_href(request, facts.host, child["run"])
    return json_response(dumps(drawn))


@require_GET
@tenant_page()
def event_links(request: TenantRequest, host: str, run: str, seq: int) -> HttpResponse:
    """What one event was caused by and what it led to, for the timeline to draw."""
    facts = _run_or_404(request, host, run)
    return json_response(dumps(queries.event_links(request.tenant.pk, facts.pk, seq)))


def _run_href(request: TenantRequest, host: str, run: str) -> str:
    return reverse("runs:run", kwargs={"tenant": request.tenant.slug, "host": host, "run": run})


def _entry_href(request: TenantRequest, host: str, ref: str | None, memory_id: str | None) -> str | None:
    """Where the ledger shows an entry: a URL's name is all that this app knows of the ledger."""
    if not ref or not memory_id:
        return None
    return reverse(
        "ledger:entry",
        kwargs={"tenant": request.tenant.slug, "host": host, "memory_ref": ref, "memory_id": memory_id},
    )


@require_GET
@tenant_page()
def host_list(request: TenantRequest) -> HttpResponse:
    rows = queries.host_rows(request.tenant.pk)
    page = HostListPage(
        section="hosts", topics="hosts runs", may_upload=may_upload(request), rows=rows, total=len(rows)
    )
    return render_page(request, "runs/host_list.html", page, fragments=("rows",))


@require_GET
@tenant_page()
def host(request: TenantRequest, host: str) -> HttpResponse:
    tenant = request.tenant.pk
    rows = queries.host_rows(tenant, slug=host)
    if not rows:
        raise Http404("No such host.")
    stored = Host.objects.get(tenant_id=tenant, slug=host)
    incidents, incidents_total = queries.incidents(tenant, host=host, limit=20)
    runs = queries.run_list(tenant, RunFilter(host=host), limit=20)
    follows, follows_total = _follows(tenant, stored)
    subscriptions, subscriptions_total = host_subscriptions(tenant, stored.pk)
    page = HostPage(
        section="hosts",
        topics="hosts runs",
        may_upload=may_upload(request),
        host=rows[0],
        created_at=stored.created_at,
        leaking_since=stored.leaking_since,
        listed_at=stored.listed_at,
        follows=follows,
        follows_total=follows_total,
        subscriptions=subscriptions,
        subscriptions_total=subscriptions_total,
        webhook_form=webhook_form(request, stored),
        host_form=host_form(request, stored),
        incidents=incidents,
        incidents_total=incidents_total,
        runs=runs.rows,
        runs_total=runs.total,
    )
    return render_page(request, "runs/host.html", page, fragments=HOST_FRAGMENTS)


def _follows(tenant: int, host: Host) -> tuple[tuple[FollowRow, ...], int]:
    open_ones = Follow.objects.filter(tenant_id=tenant, host_id=host.pk, finished_at__isnull=True)
    shown = open_ones.order_by("-id")[:FOLLOWS_SHOWN]
    rows = tuple(
        FollowRow(
            run_id=original(one.run_id),
            phase=one.phase if host.following else "paused",
            connected_since=one.connected_since,
            last_event_at=one.last_event_at,
            last_error=one.last_error,
            retry_at=one.retry_at if host.following else None,
            paused=one.paused,
        )
        for one in shown
    )
    return rows, len(rows) if len(rows) < FOLLOWS_SHOWN else open_ones.count()
