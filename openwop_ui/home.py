"""The first page of a tenant, and the way to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET

from ledger import queries as ledger
from ledger.queries import WriteRow
from openwop_ui.live.fragments import render_page, wanted_fragment
from openwop_ui.tenancy.access import TenantRequest, memberships_of, tenant_page
from runs import queries as runs
from runs.domain.storable import original
from runs.pages import Page
from runs.queries import HostRow, IncidentRow, RunRow
from runs.views import may_upload

FRAGMENTS = ("totals", "attention", "live-runs", "writes", "hosts")
LIVE = 12
ENDED = 8
WRITES = 12
HOSTS = 50
ATTENTION = 8

RECENT = timedelta(days=7)
"""What once happened asks for attention for so long after we learned of it. What stands does until it is mended."""
SETTLED = timedelta(seconds=15)
"""A gap in a log is one when nothing has come for so long; before that, events may be on their way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomePage(Page):
    runs_total: int
    events_total: int
    entries_total: int
    hosts_total: int
    live_runs: tuple[RunRow, ...]
    live_total: int
    recent_runs: tuple[RunRow, ...]
    writes: tuple[WriteRow, ...]
    writes_total: int
    hosts: tuple[HostRow, ...]
    attention: tuple[IncidentRow, ...]
    attention_total: int


@require_GET
@login_required
def start(request: HttpRequest) -> HttpResponseBase:
    """To the visitor's first tenant."""
    memberships = memberships_of(int(request.user.pk))  # type: ignore[arg-type]  # logged in
    if memberships:
        return redirect("home", tenant=memberships[0].tenant.slug)
    answer = render(request, "home/start.html")
    answer["Cache-Control"] = "no-store"
    return answer


@require_GET
@tenant_page()
def home(request: TenantRequest) -> HttpResponse:
    tenant = request.tenant.pk
    fragment = wanted_fragment(request, FRAGMENTS)
    hosts = runs.host_rows(tenant)
    totals = ledger.totals(tenant)
    live, live_total = runs.live_runs(tenant, limit=LIVE) if fragment in (None, "live-runs") else ((), 0)
    attention, attention_total = _attention(tenant, hosts) if fragment in (None, "attention") else ((), 0)
    page = HomePage(
        section="home",
        topics="runs ledger hosts",
        may_upload=may_upload(request),
        runs_total=sum(host.runs for host in hosts),
        events_total=sum(host.events for host in hosts),
        entries_total=totals.entries,
        hosts_total=len(hosts),
        live_runs=live,
        live_total=live_total,
        recent_runs=runs.ended_runs(tenant, limit=ENDED) if fragment in (None, "live-runs") else (),
        writes=ledger.latest_writes(tenant, limit=WRITES) if fragment in (None, "writes") else (),
        writes_total=totals.writes,
        hosts=hosts[:HOSTS],
        attention=attention,
        attention_total=attention_total,
    )
    return render_page(request, "home/home.html", page, fragments=FRAGMENTS)


def _attention(tenant_id: int, hosts: Sequence[HostRow]) -> tuple[tuple[IncidentRow, ...], int]:
    """Newest first, what stands before what once happened at the same time."""
    now = timezone.now()
    failing = [
        (now, IncidentRow("failing-host", f"Cannot be followed: {host.detail}", host.slug, None, None, None))
        for host in hosts
        if host.state == "failing"
    ]
    gaps, gaps_total = _gaps(tenant_id, now)
    failed, failed_total = _failed(tenant_id, now)
    noticed, noticed_total = _noticed(tenant_id, now)
    newest = sorted([*failing, *gaps, *failed, *noticed], key=lambda one: one[0], reverse=True)
    total = len(failing) + gaps_total + failed_total + noticed_total
    return tuple(row for _, row in newest[:ATTENTION]), total


def _gaps(tenant_id: int, now: datetime) -> tuple[list[tuple[datetime, IncidentRow]], int]:
    found = _rows(
        """
        SELECT h.slug, r.run_id, r.last_received_at, r.contiguous_through, r.first_sequence,
            r.last_sequence - r.first_sequence + 1 - r.event_count, count(*) OVER ()
        FROM runs_run r JOIN runs_host h ON h.tenant_id = r.tenant_id AND h.id = r.host_id
        WHERE r.tenant_id = %(tenant)s AND r.contiguous_through < r.last_sequence
            AND r.last_received_at < %(settled)s
        ORDER BY r.last_received_at DESC, r.id DESC LIMIT %(most)s
        """,
        {"tenant": tenant_id, "settled": now - SETTLED, "most": ATTENTION},
    )
    gaps = [
        (at, IncidentRow("gap", _missing(through, first, missing), host, original(run), max(through + 1, first), None))
        for host, run, at, through, first, missing, _ in found
    ]
    return gaps, found[0][-1] if found else 0


def _missing(through: int, first: int, missing: int) -> str:
    if through >= 0:
        events = "1 event is" if missing == 1 else f"{missing:,} events are"
        return f"{events} missing in its log, the first one is #{through + 1}."
    further = f", and {missing:,} more further on" if missing else ""
    return f"The beginning of its log is missing, all before #{first}{further}."


def _failed(tenant_id: int, now: datetime) -> tuple[list[tuple[datetime, IncidentRow]], int]:
    found = _rows(
        """
        SELECT h.slug, r.run_id, r.last_received_at, r.workflow_id, r.status_sequence, count(*) OVER ()
        FROM runs_run r JOIN runs_host h ON h.tenant_id = r.tenant_id AND h.id = r.host_id
        WHERE r.tenant_id = %(tenant)s AND r.status = 'failed' AND r.last_received_at > %(since)s
        ORDER BY r.last_received_at DESC, r.id DESC LIMIT %(most)s
        """,
        {"tenant": tenant_id, "since": now - RECENT, "most": ATTENTION},
    )
    failed = [
        (at, IncidentRow("failed", _failure(original(workflow)), host, original(run), sequence, at))
        for host, run, at, workflow, sequence, _ in found
    ]
    return failed, found[0][-1] if found else 0


def _failure(workflow: str) -> str:
    return f"A run of {workflow} failed." if workflow else "A run failed."


def _noticed(tenant_id: int, now: datetime) -> tuple[list[tuple[datetime, IncidentRow]], int]:
    newest, total = runs.pressing_incidents(tenant_id, since=now - RECENT, limit=ATTENTION)
    return [(row.at, row) for row in newest if row.at is not None], total


def _rows(sql: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found
