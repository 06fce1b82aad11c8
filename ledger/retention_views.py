"""Pages about what is kept for how long, what was taken away and by whom, and erasing for good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from openwop_ui.live.fragments import render_page
from openwop_ui.tenancy.access import TenantRequest, tenant_page
from openwop_ui.tenancy.models import Role
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.storable import storable
from runs.models import Host
from runs.pages import Page
from runs.queries import Option
from runs.views import may_upload

from .claims_store.actor import Actor
from .domain.reading import Address, entry_id
from .domain.redaction import Policy
from .erasures import Erased, Plan, erase_entry, erase_subject, plan_entry, plan_subject
from .erasures.planning import TooMuch
from .models import LedgerSettings
from .models.policies import LARGEST_ENTRY_BYTES, LONGEST_DAYS, SMALLEST_ENTRY_BYTES
from .policies import LedgerPolicy, lay_down, policy_of
from .queries.paging import BrokenCursor
from .queries.retention import DueRun, Tombstone, payloads_due, runs_due, tombstones

LONGEST_FIELD = 4096
LISTED = 200
"""So many of the entries that go are named; all of them are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyForm:
    """What a tenant lays down, as a form says it: texts, whatever they are."""

    secrets: str
    largest: str
    payload_days: str
    event_days: str
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPage(Page):
    tab: str = "retention"
    form: PolicyForm
    may_change: bool
    policies: tuple[Option, ...]
    smallest: int
    largest: int
    longest: int
    payloads_due: int
    runs_due: tuple[DueRun, ...]
    rows: tuple[Tombstone, ...]
    total: int
    newer: str | None
    older: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasePage(Page):
    """What is going to go. ``entry`` is an address, "" in all its parts for a subject."""

    tab: str = "retention"
    subject: str
    entry: tuple[str, str, str]
    plan: Plan
    listed: int
    back: str
    error: str


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page()
def retention(request: TenantRequest) -> HttpResponseBase:
    """What is kept for how long; a form that comes back lays it down."""
    policy = policy_of(request.tenant.pk)
    if request.method != "POST":
        return _retention_page(request, policy, _form_of(policy))
    _require_admin(request)
    form = _posted(request.POST)
    try:
        lay_down(
            tenant_id=request.tenant.pk,
            secrets=Policy(form.secrets) if form.secrets in set(Policy) else _wrong("Choose what becomes of secrets."),
            max_entry_bytes=_number(form.largest, "The largest entry"),
            payload_days=_number(form.payload_days, "The payload retention") if form.payload_days else None,
            event_days=_number(form.event_days, "The event retention") if form.event_days else None,
        )
    except ValidationError as problem:
        return _retention_page(request, policy, replace(form, error=_words(problem)), status=422)
    messages.success(request, "Saved. What is due goes within seconds, in batches.")
    return redirect(request.path)


def _retention_page(
    request: TenantRequest, policy: LedgerPolicy, form: PolicyForm, *, status: int = 200
) -> HttpResponse:
    tenant, now = request.tenant.pk, timezone.now()
    try:
        found = tombstones(tenant, before=request.GET.get("before") or None, after=request.GET.get("after") or None)
    except BrokenCursor as exc:
        raise BadRequest(str(exc)) from exc
    page = RetentionPage(
        section="claims",
        topics="retention",
        may_upload=may_upload(request),
        form=form,
        may_change=request.membership.may(Role.ADMIN),
        policies=tuple(
            Option(value, str(label)) for value, label in LedgerSettings._meta.get_field("secret_policy").flatchoices
        ),
        smallest=SMALLEST_ENTRY_BYTES,
        largest=LARGEST_ENTRY_BYTES,
        longest=LONGEST_DAYS,
        payloads_due=payloads_due(tenant, policy, now=now),
        runs_due=runs_due(tenant, policy, now=now),
        rows=found.rows,
        total=found.total,
        newer=found.newer,
        older=found.older,
    )
    return render_page(request, "ledger/retention.html", page, fragments=("rows", "due"), status=status)


def _form_of(policy: LedgerPolicy) -> PolicyForm:
    return PolicyForm(
        secrets=policy.secrets.value,
        largest=str(policy.max_entry_bytes),
        payload_days="" if policy.payload_days is None else str(policy.payload_days),
        event_days="" if policy.event_days is None else str(policy.event_days),
    )


def _posted(given: Mapping[str, Any]) -> PolicyForm:
    def said(name: str) -> str:
        return str(given.get(name, "")).strip()[:64]

    return PolicyForm(
        secrets=said("secrets"),
        largest=said("largest"),
        payload_days=said("payload_days"),
        event_days=said("event_days"),
    )


def _number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        _wrong(f"{what} is no whole number.")
    return int(text)


def _wrong(words: str) -> Any:
    raise ValidationError(words)


def _words(problem: ValidationError) -> str:
    if not hasattr(problem, "error_dict"):
        return " ".join(problem.messages)
    names = {"max_entry_bytes": "Largest entry", "payload_days": "Payload retention", "event_days": "Event retention"}
    return " ".join(f"{names.get(name, name)}: {' '.join(said)}" for name, said in problem.message_dict.items())


def _require_admin(request: TenantRequest) -> None:
    if not request.membership.may(Role.ADMIN):
        raise PermissionDenied("Only an admin of the tenant changes what is kept, or erases.")


# --- Erasing ---


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(role=Role.ADMIN, scoped=False)
def erase(request: TenantRequest) -> HttpResponseBase:
    """Lists what would go; the form that comes back, with its confirmation, takes it away."""
    given = request.POST if request.method == "POST" else request.GET
    subject = given.get("subject", "").strip()[:LONGEST_FIELD]
    address = (
        given.get("host", "")[:63],
        given.get("ref", "")[:LONGEST_FIELD],
        given.get("id", "")[:LONGEST_FIELD],
    )
    if not subject and not all(address):
        raise BadRequest("Neither a subject nor an entry is named.")
    entry = None if subject else _entry(request, address)
    if request.method != "POST":
        return _erase_page(request, subject, address, entry, error="")
    if given.get("confirmed") != "yes":
        return _erase_page(request, subject, address, entry, error="Confirm that it is to go for good.", status=422)
    try:
        erased = _erase(request, subject, entry)
    except TooMuch as problem:
        return _erase_page(request, subject, address, entry, error=f"Nothing was erased: {problem}.", status=409)
    if erased is None:
        raise Http404("Nothing of that name.")
    told = ", ".join(f"{count:,} {_NAMES[name][count != 1]}" for name, count in erased.counts.items() if count)
    messages.success(request, f"Erased: {told or 'nothing was left of it'}.")
    return redirect(reverse("ledger:retention", args=[request.tenant.slug]))


_NAMES = {
    "entries": ("entry", "entries"),
    "claims": ("claim", "claims"),
    "sourceEvents": ("source event", "source events"),
    "events": ("event", "events"),
}


def _entry(request: TenantRequest, address: tuple[str, str, str]) -> UUID:
    slug, ref, memory_id = address
    with tenant_scope(request.tenant.pk):
        host = Host.objects.filter(tenant_id=request.tenant.pk, slug=storable(slug)).first()
    if host is None:
        raise Http404("No such entry.")
    return entry_id(host.pk, Address(storable(ref), storable(memory_id)))


def _erase(request: TenantRequest, subject: str, entry: UUID | None) -> Erased | None:
    assert request.user.is_authenticated
    actor = Actor.person(request.user)
    if entry is not None:
        return erase_entry(tenant_id=request.tenant.pk, entry=entry, actor=actor)
    return erase_subject(tenant_id=request.tenant.pk, subject=subject, actor=actor)


def _erase_page(
    request: TenantRequest,
    subject: str,
    address: tuple[str, str, str],
    entry: UUID | None,
    *,
    error: str,
    status: int = 200,
) -> HttpResponse:
    tenant = request.tenant.pk
    with tenant_scope(tenant):
        try:
            plan = plan_subject(tenant, subject) if entry is None else plan_entry(tenant, entry)
        except TooMuch as problem:
            plan, error = Plan(), f"This is too much for one erasure: {problem}."
        if plan is None:
            raise Http404("Nothing of that name.")
        page = ErasePage(
            section="claims",
            topics="",
            may_upload=may_upload(request),
            subject=subject,
            entry=("", "", "") if subject else address,
            plan=plan,
            listed=LISTED,
            back=_back(request, subject, address),
            error=error,
        )
        return render_page(request, "ledger/erase.html", page, status=status)


def _back(request: TenantRequest, subject: str, address: tuple[str, str, str]) -> str:
    if not subject:
        host, ref, memory_id = address
        return reverse(
            "ledger:entry",
            kwargs={"tenant": request.tenant.slug, "host": host, "memory_ref": ref, "memory_id": memory_id},
        )
    claims = reverse("ledger:claims", args=[request.tenant.slug])
    return f"{claims}?{urlencode({'subject': subject, 'status': 'all'})}"
