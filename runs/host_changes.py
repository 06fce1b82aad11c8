"""How a tenant's admin changes a host from its page: what was posted is done, and the page says so."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from django.contrib import messages
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from openwop_ui.tenancy.access import TenantRequest, tenant_page
from openwop_ui.tenancy.models import Role
from openwop_ui.tenancy.scope import tenant_scope

from .domain.webhooks import BadSecret
from .models import Host
from .store.subscriptions import NotPossible
from .webhook_registration import RegistrationProblem

LONGEST = 512

Change = Callable[[TenantRequest, Host], str]


def changes_host(change: Change) -> Callable[..., HttpResponseBase]:
    """``change`` does what was posted and says what it did, or raises with the words why not.

    A GET leads to the host's page: that is where a login in between comes back to.
    """

    @require_http_methods(["GET", "POST"])
    @tenant_page(role=Role.ADMIN, scoped=False)
    @wraps(change)
    def view(request: TenantRequest, host: str) -> HttpResponse:
        with tenant_scope(request.tenant.pk):
            stored = Host.objects.filter(tenant_id=request.tenant.pk, slug=host).first()
        if stored is None:
            raise Http404("No such host.")
        if request.method == "POST":
            try:
                messages.success(request, change(request, stored))
            except (RegistrationProblem, NotPossible, BadSecret) as problem:
                messages.error(request, _sentence(str(problem)))
        return _back(request, host)

    return view


def _back(request: TenantRequest, host: str) -> HttpResponse:
    page = reverse("runs:host", kwargs={"tenant": request.tenant.slug, "host": host})
    if request.htmx:
        return HttpResponse(status=204, headers={"HX-Redirect": page})
    return redirect(page)


def _sentence(text: str) -> str:
    return text if text.endswith((".", ")")) else f"{text[:1].upper()}{text[1:]}."


def field(request: TenantRequest, name: str) -> str:
    given = request.POST.get(name, "").strip()
    if len(given) > LONGEST:
        raise NotPossible(f"{name.replace('_', ' ')}: more than {LONGEST} characters")
    return given
