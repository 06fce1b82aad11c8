"""The admin site: an operator (superuser) runs all tenants, a tenant's admin runs one.

Each request works in the scope of whoever asks, so the database itself holds a tenant's admin to that tenant.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.template.response import SimpleTemplateResponse
from django.urls import reverse

from .access import LAST_ADMINISTERED, memberships_of
from .models import Role, Tenant
from .scope import operator_scope, tenant_scope


def administered(request: HttpRequest) -> Tenant | None:
    """The one tenant whose admin is asking: the one last visited, else their first. None for an operator."""
    user = request.user
    if not user.is_authenticated or user.is_superuser:
        return None
    cached: Tenant | None | bool = getattr(request, "_administered", False)
    if cached is False:
        tenants = [m.tenant for m in memberships_of(user.pk) if m.may(Role.ADMIN)]
        chosen = request.session.get(LAST_ADMINISTERED)
        cached = next((t for t in tenants if t.slug == chosen), tenants[0] if tenants else None)
        request._administered = cached  # type: ignore[attr-defined]  # a cache for one request
    return cached or None  # type: ignore[return-value]  # the sentinel is gone


class ConsoleSite(AdminSite):
    site_header = "OpenWOP UI"
    site_title = "OpenWOP UI"
    index_title = "Tenants, members, keys and hosts"
    enable_nav_sidebar = True

    def has_permission(self, request: HttpRequest) -> bool:
        user = request.user
        return bool(user.is_active and user.is_authenticated and (user.is_superuser or administered(request)))

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponseBase:  # type: ignore[override]
        """One login for the whole site. Somebody logged in without the right to be here is told so there."""
        if request.user.is_authenticated and self.has_permission(request):
            return redirect("admin:index")
        return redirect(f"{reverse('login')}?next={reverse('admin:index')}")

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        inner: Callable[..., HttpResponseBase] = super().admin_view(view, cacheable)

        @wraps(view)
        def scoped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not self.has_permission(request):
                return inner(request, *args, **kwargs)
            with self.scope_for(request):
                response = inner(request, *args, **kwargs)
                if isinstance(response, SimpleTemplateResponse) and not response.is_rendered:
                    response.render()
                return response

        return scoped

    def scope_for(self, request: HttpRequest) -> AbstractContextManager[None]:
        tenant = administered(request)
        return tenant_scope(tenant.id) if tenant else operator_scope()
