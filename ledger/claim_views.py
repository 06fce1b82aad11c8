"""Pages about claims: who is spoken of, what is said of them, and one claim with all that it went through."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import Http404, HttpResponse, HttpResponseBase, HttpResponseRedirect, StreamingHttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from openwop_ui.live.fragments import render_page
from openwop_ui.tenancy.access import TenantRequest, tenant_page
from openwop_ui.tenancy.models import Role
from openwop_ui.tenancy.scope import tenant_scope
from runs.queries import Option
from runs.views import may_upload

from .chain_view import claim_root, view
from .claim_pages import ClaimListPage, ClaimPage, RevisionForm, SubjectListPage
from .claims_store.actor import Actor
from .claims_store.revising import Revision, revise_claim
from .domain.chain import Chain
from .domain.claims import StaleRevision
from .domain.errors import LedgerError
from .domain.periods import Period
from .domain.settlement import Status
from .form_fields import read_moment
from .list_exports import exported
from .queries.chain import chains
from .queries.claims import ClaimDetail, ClaimFilter, MemoryRow, find_claim, memories, memories_by_id, subjects
from .queries.paging import BrokenCursor
from .queries.review import written

CLAIM_FRAGMENTS = ("facts",)
EVERY = "all"
RIVALS = 50
EXPORTED = (
    "id",
    "subject",
    "category",
    "key",
    "value",
    "status",
    "rule",
    "scope",
    "writer",
    "observed_at",
    "received_at",
    "valid_from",
    "valid_to",
    "confidence",
    "content",
    "revision",
    "source_event_id",
    "event_id",
    "payload_hash",
)


@require_GET
@tenant_page()
def claims(request: TenantRequest) -> HttpResponse:
    tenant = request.tenant.pk
    wanted, error = _filter(request)
    before, after = _cursors(request)
    try:
        found = memories(tenant, wanted, before=before, after=after)
    except BrokenCursor as exc:
        raise BadRequest(str(exc)) from exc
    about = subjects(tenant, query=wanted.subject).rows if wanted.subject else ()
    page = ClaimListPage(
        section="claims",
        topics="claims",
        may_upload=may_upload(request),
        rows=found.rows,
        q=wanted.query,
        subject=wanted.subject,
        key=wanted.key,
        category=wanted.category,
        writer=wanted.writer,
        status=_status(request),
        valid_at=request.GET.get("valid_at", ""),
        valid_at_error=error,
        statuses=(
            Option(Status.ACTIVE.value, "active", None),
            *(Option(one.value, one.value, None) for one in Status if one is not Status.ACTIVE),
            Option(EVERY, "all, with history", None),
        ),
        about=next((row for row in about if row.subject == wanted.subject), None),
        newer=found.newer,
        older=found.older,
    )
    return render_page(request, "ledger/claims.html", page, fragments=("rows",))


def _cursors(request: TenantRequest) -> tuple[str | None, str | None]:
    return request.GET.get("before") or None, request.GET.get("after") or None


def _status(request: TenantRequest) -> str:
    """Active ones, where nothing else was asked for."""
    given = request.GET.get("status", "")
    return given if given in (*Status, EVERY) else Status.ACTIVE.value


def _filter(request: TenantRequest) -> tuple[ClaimFilter, str]:
    """The filter, and what is wrong with the moment that it is asked for."""
    given, status, error = request.GET, _status(request), ""
    valid_at: datetime | None = None
    if text := given.get("valid_at", "").strip():
        try:
            valid_at = read_moment(text)
        except ValueError as problem:
            error = f"valid at: {problem}"
    wanted = ClaimFilter(
        subject=given.get("subject", ""),
        query=given.get("q", "").strip(),
        category=given.get("category", ""),
        key=given.get("key", ""),
        writer=given.get("writer", "").strip(),
        statuses=() if status in (EVERY, Status.ACTIVE) else (status,),
        every=status == EVERY,
        valid_at=valid_at,
    )
    return wanted, error


@require_GET
@tenant_page()
def subject_list(request: TenantRequest) -> HttpResponse:
    before, after = _cursors(request)
    query = request.GET.get("q", "").strip()
    try:
        found = subjects(request.tenant.pk, query=query, before=before, after=after)
    except BrokenCursor as exc:
        raise BadRequest(str(exc)) from exc
    page = SubjectListPage(
        section="claims",
        topics="claims conflicts",
        may_upload=may_upload(request),
        rows=found.rows,
        q=query,
        newer=found.newer,
        older=found.older,
    )
    return render_page(request, "ledger/subjects.html", page, fragments=("rows",))


@require_GET
@tenant_page(scoped=False)
def claims_export(request: TenantRequest) -> StreamingHttpResponse:
    wanted, error = _filter(request)
    if error:
        raise BadRequest(error)

    def read(cursor: str | None) -> tuple[list[Mapping[str, Any]], str | None]:
        found = memories(request.tenant.pk, wanted, before=cursor, limit=1_000)
        return [_exported(row) for row in found.rows], found.older

    return exported(request, "claims", EXPORTED, read)


def _exported(row: MemoryRow) -> Mapping[str, Any]:
    return {
        "id": str(row.id),
        "subject": row.subject,
        "category": row.category,
        "key": row.key,
        "value": json.loads(row.value),
        "status": row.status,
        "rule": row.rule or None,
        "scope": json.loads(row.scope),
        "writer": row.writer,
        "observed_at": row.observed_at,
        "received_at": row.received_at,
        "valid_from": row.valid_from,
        "valid_to": row.valid_to,
        "confidence": row.confidence,
        "content": row.content,
        "revision": row.revision,
        "source_event_id": None if row.source_event is None else str(row.source_event),
        "event_id": row.event_id,
        "payload_hash": row.payload_hash,
    }


@require_GET
@tenant_page()
def claim(request: TenantRequest, id: UUID) -> HttpResponse:
    found = find_claim(request.tenant.pk, id)
    if found is None:
        raise Http404("No such claim.")
    return _claim_page(request, found, {})


def _claim_page(
    request: TenantRequest, found: ClaimDetail, form: Mapping[str, str], *, error: str = "", status: int = 200
) -> HttpResponse:
    tenant, row = request.tenant.pk, found.claim
    related = memories_by_id(tenant, [row.to_claim]) if row.to_claim else {}
    of_key = memories(
        tenant, ClaimFilter(subject=row.subject, category=row.category, key=row.key, every=True), limit=RIVALS
    )
    entries = written(tenant, [row.entry]) if row.entry else {}
    page = ClaimPage(
        section="claims",
        topics="claims conflicts",
        may_upload=may_upload(request),
        detail=found,
        evidence=row.evidence_texts,
        written=entries.get(row.entry) if row.entry else None,
        in_place=related.get(row.to_claim) if row.to_claim else None,
        rivals=tuple(one for one in of_key.rows if one.id != row.id),
        chain=view(_chain(tenant, row.id), claim_root(row.id, row.received_at, row.writer)),
        may_revise=request.membership.may(Role.REVIEWER) and row.status != Status.WITHDRAWN,
        form=_revision_form(row, form, error),
        now=timezone.now(),
    )
    return render_page(request, "ledger/claim.html", page, fragments=CLAIM_FRAGMENTS, status=status)


def _chain(tenant_id: int, id: UUID) -> Chain:
    (found,) = chains(tenant_id, [id])
    return found


def _revision_form(row: MemoryRow, form: Mapping[str, str], error: str) -> RevisionForm:
    return RevisionForm(
        content=form.get("content", row.content),
        confidence=form.get("confidence", "" if row.confidence is None else str(row.confidence)),
        start=form.get("from", _field(row.valid_from)),
        end=form.get("to", _field(row.valid_to)),
        reason=form.get("reason", ""),
        error=error,
    )


def _field(moment: datetime | None) -> str:
    return "" if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S")


@require_POST
@tenant_page(role=Role.REVIEWER, scoped=False)
def revise(request: TenantRequest, id: UUID) -> HttpResponseBase:
    """The next revision of a claim: what it says better, or that it is taken back. Its origin stays."""
    assert request.user.is_authenticated  # as a member of the tenant
    try:
        made = revise_claim(
            tenant_id=request.tenant.pk,
            claim=id,
            based_on=_based_on(request.POST),
            revision=_read_revision(request.POST),
            actor=Actor.person(request.user),
        )
    except StaleRevision as problem:
        return _refused(request, id, f"You revised revision {problem.seen}, which is no longer the latest.", 409)
    except LedgerError as problem:
        return _refused(request, id, f"{problem.field}: {problem}" if problem.field else str(problem), 422)
    if made is None:
        raise Http404("No such claim.")
    messages.success(request, f"Revision {made} is stored. Those before it stay in the history.")
    return HttpResponseRedirect(reverse("ledger:claim", kwargs={"tenant": request.tenant.slug, "id": id}))


def _based_on(form: Mapping[str, str]) -> int:
    text = form.get("revision", "")
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise LedgerError("is missing", field="revision")
    return int(text)


def _read_revision(form: Mapping[str, str]) -> Revision:
    reason = form.get("reason", "").strip()
    if form.get("withdraw"):
        return Revision(withdrawn=True, reason=reason)
    return Revision(
        content=form.get("content", ""),
        confidence=_confidence(form.get("confidence", "").strip()),
        valid=Period(_moment(form, "from"), _moment(form, "to")),
        reason=reason,
    )


def _confidence(text: str) -> float | None:
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise LedgerError("is not a number from 0 to 1", field="confidence") from None


def _moment(form: Mapping[str, str], name: str) -> datetime | None:
    text = form.get(name, "").strip()
    if not text:
        return None
    try:
        return read_moment(text)
    except ValueError as problem:
        raise LedgerError(str(problem), field=name) from None


def _refused(request: TenantRequest, id: UUID, error: str, status: int) -> HttpResponse:
    with tenant_scope(request.tenant.pk):
        found = find_claim(request.tenant.pk, id)
        if found is None:
            raise Http404("No such claim.")
        return _claim_page(request, found, request.POST, error=error, status=status)
