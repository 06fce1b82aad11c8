"""Logging in: one page for the whole site, the admin site included."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.views import LoginView
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse

from openwop_ui import environment

from .models import Tenant
from .scope import operator_scope

DEMO_TENANT = "demo"


class Login(LoginView):
    template_name = "tenancy/login.html"
    redirect_authenticated_user = True

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.user.is_authenticated and self._asks_for_console() and not admin.site.has_permission(request):
            # Sent on, they would be sent back here, and so on for ever.
            raise PermissionDenied("This account runs no tenant.")
        return super().dispatch(request, *args, **kwargs)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(**kwargs) | {"demo": _has_demo()}

    def _asks_for_console(self) -> bool:
        return self.get_redirect_url().startswith(reverse("admin:index"))


def _has_demo() -> bool:
    """The demo's logins are public; a site without the demo has no such accounts to name."""
    if not environment.DEMO.value():
        return False
    with operator_scope():
        return Tenant.objects.filter(slug=DEMO_TENANT).exists()
