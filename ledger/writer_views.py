"""Pages of writers: how much whose word weighs in which category. Admins register, weigh and retire them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods

from openwop_ui.live.fragments import render_page
from openwop_ui.tenancy.access import TenantRequest, tenant_page
from openwop_ui.tenancy.models import Role
from openwop_ui.tenancy.scope import tenant_scope
from runs.pages import Page
from runs.views import may_upload

from . import claims_store
from .claims_store.stale import settle_stale
from .domain.errors import LedgerError
from .domain.writers import DEFAULT_PRIORITY, AuthorityRules, read_authority_rules, read_service_key
from .list_exports import exported
from .queries.writers import KeyRow, WriterList, WriterRow, category_options, writer_keys, writer_list, writer_row

LONGEST_NAME = 200
EMPTY_ROWS = 3
COLUMNS = (
    *("service_key", "display_name", "default_priority", "categories", "claims", "source_events", "keys"),
    *("created_at", "updated_at", "retired_at"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityForm:
    """A writer's rules as a form says them: texts, whatever they are."""

    key: str = ""
    name: str = ""
    default: str = str(DEFAULT_PRIORITY)
    rows: tuple[tuple[str, str], ...] = ()
    revision: str = ""
    error: str = ""

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        return (*self.rows, *((("", ""),) * EMPTY_ROWS))


@dataclass(frozen=True, slots=True, kw_only=True)
class WritersPage(Page):
    tab: str
    found: WriterList
    may_change: bool
    form: AuthorityForm
    categories: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterPage(Page):
    tab: str
    writer: WriterRow
    keys: tuple[KeyRow, ...]
    may_change: bool
    form: AuthorityForm
    categories: tuple[str, ...]


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(scoped=False)
def writers(request: TenantRequest) -> HttpResponseBase:
    """The matrix; a form that comes back registers one more."""
    if request.method != "POST":
        return _writers_page(request, AuthorityForm())
    _require_admin(request)
    form = _form(request)
    try:
        claims_store.register_writer(
            tenant_id=request.tenant.pk,
            service_key=read_service_key(form.key),
            display_name=form.name,
            authority=_authority(form),
        )
    except LedgerError as problem:
        return _writers_page(request, replace(form, error=_sentence(problem)), status=422)
    except claims_store.WriterExists:
        return _writers_page(request, replace(form, error="There is a writer with this service key."), status=409)
    settle_stale(request.tenant.pk)
    messages.success(request, f"{form.key} is registered.")
    return redirect(_writer_url(request, form.key))


def _require_admin(request: TenantRequest) -> None:
    if not request.membership.may(Role.ADMIN):
        raise PermissionDenied(f"This needs the role admin in {request.tenant.slug}.")


def _writers_page(request: TenantRequest, form: AuthorityForm, *, status: int = 200) -> HttpResponse:
    with tenant_scope(request.tenant.pk):
        page = WritersPage(
            section="claims",
            topics="writers sources",
            may_upload=may_upload(request),
            tab="writers",
            found=writer_list(request.tenant.pk),
            may_change=request.membership.may(Role.ADMIN),
            form=form,
            categories=category_options(request.tenant.pk),
        )
        return render_page(request, "ledger/writers.html", page, fragments=("rows",), status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@tenant_page(scoped=False)
def writer(request: TenantRequest, key: str) -> HttpResponseBase:
    """One writer; a form that comes back changes its name and authority, or retires it and takes it back."""
    try:
        read_service_key(key)
    except LedgerError:
        raise Http404("No such writer.") from None
    if request.method != "POST":
        return _writer_page(request, key, None)
    _require_admin(request)
    return _retire(request, key) if "retired" in request.POST else _weigh(request, key)


def _retire(request: TenantRequest, key: str) -> HttpResponseBase:
    retired = request.POST["retired"] == "true"
    changed = claims_store.change_writer(tenant_id=request.tenant.pk, service_key=key, retired=retired)
    if changed is None:
        raise Http404("No such writer.")
    said = "is retired: it can say nothing new, and what it said stays." if retired else "may write again."
    messages.success(request, f"{key} {said}")
    return redirect(_writer_url(request, key))


def _weigh(request: TenantRequest, key: str) -> HttpResponseBase:
    form = replace(_form(request), key=key)
    try:
        changed = claims_store.change_writer(
            tenant_id=request.tenant.pk,
            service_key=key,
            based_on=int(form.revision) if form.revision.isascii() and form.revision.isdigit() else -1,
            display_name=form.name,
            authority=_authority(form),
        )
    except LedgerError as problem:
        return _writer_page(request, key, replace(form, error=_sentence(problem)), status=422)
    except claims_store.StaleWriter as problem:
        error = (
            "Somebody changed this writer meanwhile. This is what you wanted it to be: save it again if you still do."
        )
        return _writer_page(request, key, replace(form, revision=str(problem.latest), error=error), status=409)
    if changed is None:
        raise Http404("No such writer.")
    settle_stale(request.tenant.pk)
    messages.success(
        request, "Saved. Where its word is disputed, that is being settled again; decisions of people stand."
    )
    return redirect(_writer_url(request, key))


def _writer_page(request: TenantRequest, key: str, form: AuthorityForm | None, *, status: int = 200) -> HttpResponse:
    tenant = request.tenant.pk
    with tenant_scope(tenant):
        found = writer_row(tenant, key)
        if found is None:
            raise Http404("No such writer.")
        page = WriterPage(
            section="claims",
            topics="writers sources",
            may_upload=may_upload(request),
            tab="writers",
            writer=found,
            keys=writer_keys(tenant, key),
            may_change=request.membership.may(Role.ADMIN),
            form=form or _form_of(found),
            categories=category_options(tenant),
        )
        return render_page(request, "ledger/writer.html", page, fragments=("facts",), status=status)


def _writer_url(request: TenantRequest, key: str) -> str:
    return reverse("ledger:writer", kwargs={"tenant": request.tenant.slug, "key": key})


def _form(request: TenantRequest) -> AuthorityForm:
    given = request.POST
    pairs = zip(given.getlist("category"), given.getlist("priority"), strict=False)
    return AuthorityForm(
        key=given.get("service_key", "").strip(),
        name=given.get("display_name", "").strip()[:LONGEST_NAME],
        default=given.get("default_priority", "").strip(),
        rows=tuple((category.strip(), priority.strip()) for category, priority in pairs if category.strip()),
        revision=given.get("revision", ""),
    )


def _form_of(writer: WriterRow) -> AuthorityForm:
    return AuthorityForm(
        key=writer.key,
        name=writer.name,
        default=str(writer.default),
        rows=tuple((category, str(priority)) for category, priority in sorted(writer.own.items())),
        revision=str(writer.revision),
    )


def _authority(form: AuthorityForm) -> AuthorityRules:
    """A category without a priority loses the one that it had. Raises BadWriter."""
    return read_authority_rules(
        {
            "default_priority": _number(form.default),
            "categories": {category: _number(priority) for category, priority in form.rows if priority},
        }
    )


def _number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else text


_FIELDS = {"service_key": "The service key", "authority_rules.default_priority": "The default priority"}


def _sentence(problem: LedgerError) -> str:
    field = problem.field or ""
    name = _FIELDS.get(field) or f"The priority of {field.removeprefix('authority_rules.categories.')}"
    return f"{name}: {str(problem).removeprefix(field).strip()}."


@require_GET
@tenant_page(scoped=False)
def writers_export(request: TenantRequest) -> HttpResponseBase:
    def read(cursor: str | None) -> tuple[Sequence[Mapping[str, Any]], str | None]:
        return [_item(row) for row in writer_list(request.tenant.pk).rows], None

    return exported(request, "writers", COLUMNS, read)


def _item(row: WriterRow) -> Mapping[str, Any]:
    return {
        "service_key": row.key,
        "display_name": row.name,
        "default_priority": row.default,
        "categories": row.own,
        "claims": row.claims,
        "source_events": row.events,
        "keys": row.keys,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "retired_at": row.retired_at,
    }
