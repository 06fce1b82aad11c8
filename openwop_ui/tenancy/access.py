"""The way every page enters its tenant: who is asking, whether they belong to it, and then the scope.

An unknown tenant and one that the visitor does not belong to answer alike: 404.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.template.response import SimpleTemplateResponse
from django_htmx.middleware import HtmxDetails

from .models import Membership, Role, Tenant
from .scope import principal_scope, tenant_scope

P = ParamSpec("P")

LAST_ADMINISTERED = "last_administered"
"""Where a session keeps the slug of the tenant that its user last visited as one of its admins."""


class TenantRequest(HttpRequest):
    """A request of a member of ``tenant``. ``memberships`` are all of theirs, for the switcher."""

    htmx: HtmxDetails
    tenant: Tenant
    membership: Membership
    memberships: list[Membership]


def memberships_of(user_id: int) -> list[Membership]:
    with principal_scope(user_id):
        return list(Membership.objects.filter(user_id=user_id).select_related("tenant").order_by("tenant__slug"))


def tenant_page(
    *, role: Role = Role.VIEWER, scoped: bool = True
) -> Callable[
    [Callable[Concatenate[TenantRequest, P], HttpResponseBase]],
    Callable[..., HttpResponseBase],
]:
    """Turns ``view(request, …)`` into a view of ``/t/<tenant>/…`` for members with ``role``.

    ``scoped=False`` leaves entering the scope to the view, for one that commits in pieces.
    """

    def decorate(
        view: Callable[Concatenate[TenantRequest, P], HttpResponseBase],
    ) -> Callable[..., HttpResponseBase]:
        @wraps(view)
        def page(request: HttpRequest, tenant: str, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return _ask_to_log_in(request)
            asked = _as_member(request, tenant)
            _note_visit(asked)
            if not asked.membership.may(role):
                raise PermissionDenied(f"This needs the role {role.value} in {tenant}.")
            if not scoped:
                return view(asked, *args, **kwargs)
            with tenant_scope(asked.tenant.id):
                return _rendered(view(asked, *args, **kwargs))

        return page

    return decorate


def _as_member(request: HttpRequest, slug: str) -> TenantRequest:
    asked: TenantRequest = request  # type: ignore[assignment]  # the attributes are set here
    asked.memberships = memberships_of(int(request.user.pk))  # type: ignore[arg-type]  # authenticated
    for membership in asked.memberships:
        if membership.tenant.slug == slug:
            asked.membership, asked.tenant = membership, membership.tenant
            return asked
    raise Http404("No such tenant.")


def _note_visit(request: TenantRequest) -> None:
    """The admin site has one tenant at a time for who is admin of several: the one whose pages they came from."""
    if request.membership.may(Role.ADMIN) and request.session.get(LAST_ADMINISTERED) != request.tenant.slug:
        request.session[LAST_ADMINISTERED] = request.tenant.slug


def _ask_to_log_in(request: HttpRequest) -> HttpResponse:
    if request.headers.get("HX-Request"):
        # A fragment can not show a login page in its place: the whole page goes there.
        answer = HttpResponse(status=401)
        answer["HX-Refresh"] = "true"
        return answer
    return redirect_to_login(request.get_full_path())


def _rendered(response: HttpResponseBase) -> HttpResponseBase:
    """Templates read the database too, so they have to be done before the scope ends."""
    if isinstance(response, SimpleTemplateResponse) and not response.is_rendered:
        response.render()
    return response
