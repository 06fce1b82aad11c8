"""What the bar at the top of every page shows of its tenant."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest


def bar(request: HttpRequest) -> dict[str, Any]:
    """``tenant`` and ``tenants`` (to switch to); None and empty outside of a tenant's pages."""
    return {
        "tenant": getattr(request, "tenant", None),
        "membership": getattr(request, "membership", None),
        "tenants": [m.tenant for m in getattr(request, "memberships", [])],
    }
