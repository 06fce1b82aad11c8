"""Pages of source events: what writers observed, with its hash, its evidence, its job and the claims that it made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core.exceptions import BadRequest
from django.http import Http404, HttpResponse, HttpResponseBase
from django.views.decorators.http import require_GET

from openwop_ui.live.fragments import render_page, wanted_fragment
from openwop_ui.tenancy.access import TenantRequest, tenant_page
from runs.pages import Page
from runs.views import may_upload

from .domain.verification import Verification, verify_content, verify_payload
from .form_fields import read_moment
from .list_exports import PART, exported
from .models import SourceEvent
from .queries import BrokenCursor
from .queries.claims import MemoryRow, memories_by_id
from .queries.sources import (
    SourceEventRow,
    SourceFilter,
    claims_of_source,
    find_source_event,
    observed_content,
    source_count,
    source_events,
)
from .queries.writers import writer_list
from .source_items import source_item

LIST_FRAGMENTS = ("rows",)
EVENT_FRAGMENTS = ("facts", "claims", "verified")
CLAIMS_SHOWN = 200
PAYLOAD_SHOWN = 20_000
COLUMNS = (
    *("id", "kind", "source_service", "event_id", "external_user_id", "scope", "observed_at", "observed"),
    *("received_at", "received_from", "payload_hash", "payload_redacted_at", "evidence", "claims", "entry", "job"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcesPage(Page):
    """``since`` and ``until`` are as the form says them; ``time_error`` is why one of them is left aside."""

    tab: str
    rows: tuple[SourceEventRow, ...]
    total: int
    total_is_estimate: bool
    subject: str
    writer: str
    kind: str
    since: str
    until: str
    time_error: str
    writers: tuple[str, ...]
    newer: str | None
    older: str | None

    @property
    def is_narrowed(self) -> bool:
        return bool(self.subject or self.writer or self.kind or self.since or self.until)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePage(Page):
    """``payload`` is what is kept, ``payload_is_cut`` says that this is its beginning. ``verification`` is None until
    it is asked for."""

    tab: str
    event: SourceEventRow
    scope: str
    evidence: tuple[str, ...]
    payload: str | None
    payload_is_cut: bool
    claims: tuple[MemoryRow, ...]
    conflicts: tuple[UUID, ...]
    verification: Verification | None


@require_GET
@tenant_page()
def sources(request: TenantRequest) -> HttpResponse:
    tenant = request.tenant.pk
    wanted, error = _filter(request)
    try:
        found = source_events(
            tenant, wanted, before=request.GET.get("before") or None, after=request.GET.get("after") or None
        )
    except BrokenCursor as exc:
        raise BadRequest(str(exc)) from exc
    total, is_estimate = source_count(tenant, wanted)
    is_whole = wanted_fragment(request, LIST_FRAGMENTS) is None
    page = SourcesPage(
        section="claims",
        topics="sources",
        may_upload=may_upload(request),
        tab="sources",
        rows=found.rows,
        total=total,
        total_is_estimate=is_estimate,
        subject=wanted.subject,
        writer=wanted.writer,
        kind=wanted.kind,
        since=request.GET.get("since", ""),
        until=request.GET.get("until", ""),
        time_error=error,
        writers=_writers(tenant) if is_whole else (),
        newer=found.newer,
        older=found.older,
    )
    return render_page(request, "ledger/sources.html", page, fragments=LIST_FRAGMENTS)


def _writers(tenant: int) -> tuple[str, ...]:
    found = writer_list(tenant)
    return (*(row.key for row in found.rows), *(one.key for one in found.unregistered))


def _filter(request: TenantRequest) -> tuple[SourceFilter, str]:
    """What a page does not know in its URL it leaves aside; a time that it cannot read it says so of."""
    given = request.GET
    since, since_error = _moment(given.get("since", ""), "from")
    until, until_error = _moment(given.get("until", ""), "until")
    kind = given.get("kind", "")
    wanted = SourceFilter(
        subject=given.get("subject", "").strip(),
        writer=given.get("writer", ""),
        kind=kind if kind in SourceEvent.Kind.values else "",
        since=since,
        until=until,
    )
    return wanted, since_error or until_error


def _moment(given: str, field: str) -> tuple[datetime | None, str]:
    """With its zone, or as a form's field gives it, which is labelled UTC."""
    if not given:
        return None, ""
    try:
        return read_moment(given), ""
    except (ValueError, OverflowError):
        pass
    return None, f"{field}: {given[:40]} is no time, so it was left aside."


@require_GET
@tenant_page(scoped=False)
def sources_export(request: TenantRequest) -> HttpResponseBase:
    """The list that the page shows, whole, without payloads."""
    wanted, _ = _filter(request)

    def read(cursor: str | None) -> tuple[Sequence[Mapping[str, Any]], str | None]:
        found = source_events(request.tenant.pk, wanted, before=cursor, limit=PART)
        return [dict(source_item(row)) for row in found.rows], found.older

    return exported(request, "source-events", COLUMNS, read)


@require_GET
@tenant_page()
def source(request: TenantRequest, id: UUID) -> HttpResponse:
    tenant = request.tenant.pk
    event = find_source_event(tenant, id)
    if event is None:
        raise Http404("No such source event.")
    fragment = wanted_fragment(request, EVENT_FRAGMENTS)
    is_asked = "verify" in request.GET or fragment == "verified"
    claims = claims_of_source(tenant, id, limit=CLAIMS_SHOWN) if fragment in (None, "claims") else ()
    known = memories_by_id(tenant, claims) if claims else {}
    payload = _indented(event.payload)
    page = SourcePage(
        section="claims",
        topics="sources claims",
        may_upload=may_upload(request),
        tab="sources",
        event=event,
        scope=event.scope,
        evidence=tuple(json.dumps(one, ensure_ascii=False, indent=2) for one in event.evidence),
        payload=payload and payload[:PAYLOAD_SHOWN],
        payload_is_cut=bool(payload) and len(payload or "") > PAYLOAD_SHOWN,
        claims=tuple(known[claim] for claim in claims if claim in known),
        conflicts=_conflicts(event),
        verification=_verification(tenant, event) if is_asked else None,
    )
    return render_page(request, "ledger/source.html", page, fragments=EVENT_FRAGMENTS)


def _indented(payload: str | None) -> str | None:
    return None if payload is None else json.dumps(json.loads(payload), ensure_ascii=False, indent=2)


def _conflicts(event: SourceEventRow) -> tuple[UUID, ...]:
    """Those that changed with it."""
    result = event.job.result if event.job and event.job.result else {}
    return tuple(UUID(one) for one in result.get("conflicts") or ())


def _verification(tenant: int, event: SourceEventRow) -> Verification:
    if event.kind != SourceEvent.Kind.ENTRY or event.entry_id is None or event.entry_number is None:
        return verify_payload(event.payload, event.payload_hash)
    return verify_content(observed_content(tenant, event.entry_id, event.entry_number), event.payload_hash)
