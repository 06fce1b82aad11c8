"""What the bar at the top of every page shows of its tenant's ledger."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from ledger.queries.review import open_count


def bar(request: HttpRequest) -> dict[str, Any]:
    """``open_conflicts``, asked for only where a whole page is drawn: fragments have no bar.

    To be called in the tenant's scope. A page that says what went wrong is drawn outside of it, and asks by itself.
    """
    tenant = getattr(request, "tenant", None)
    return {} if tenant is None else {"open_conflicts": lambda: open_count(tenant.pk)}
