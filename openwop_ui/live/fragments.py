"""Pages and the pieces of them that htmx asks for: one template, one page object, one URL."""

from __future__ import annotations

from collections.abc import Collection

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers

from openwop_ui.tenancy.access import TenantRequest


def wanted_fragment(request: TenantRequest, fragments: Collection[str]) -> str | None:
    """The fragment that an htmx request is going to put in its place; None for the whole page."""
    target = request.htmx.target if request.htmx else None
    return target if target in fragments else None


def render_page(
    request: TenantRequest,
    template: str,
    page: object,
    *,
    fragments: Collection[str] = (),
    status: int = 200,
) -> HttpResponse:
    """The template with ``page``, or the one fragment of it that was asked for.

    A fragment has its page's URL, so neither may be taken from a cache for the other.
    """
    fragment = wanted_fragment(request, fragments)
    name = f"{template}#{fragment}" if fragment else template
    response = render(request, name, {"page": page}, status=status)
    response["Cache-Control"] = "no-store"
    patch_vary_headers(response, ("HX-Request", "HX-Target"))
    return response
