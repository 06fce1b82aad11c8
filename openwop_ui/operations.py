"""What machines ask of the site: is it alive, is it ready, what does it count.

None of it needs a key, and none of it tells anything about a tenant: /metrics has sums over all of them only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache

from django.conf import settings
from django.db import Error, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import Gauge
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from openwop_ui.live import relay
from openwop_ui.metrics import REGISTRY
from openwop_ui.tenancy.checks import role_problem

logger = logging.getLogger(__name__)

relay_connected = Gauge(
    "openwop_relay_connected", "1 while this process hears the database's notifications", registry=REGISTRY
)
relay_connected.set_function(lambda: float(relay.state["connected"]))


@require_safe
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers. Asks nothing of the database: its absence is no reason to restart this process."""
    return JsonResponse({"alive": True})


@require_safe
@never_cache
def readyz(request: HttpRequest) -> HttpResponse:
    """Whether requests should come here; 503 and the reasons when not."""
    checks: dict[str, Callable[[], str | None]] = {
        "database": _database_problem,
        "migrations": _migration_problem,
        "role": role_problem,
    }
    # Only the ASGI application has a relay; a server of the WSGI one leaves live messages to others.
    if "asgi.scope" in request.META:
        checks["relay"] = _relay_problem
    problems = {name: _outcome(name, check) for name, check in checks.items()}
    ready = not any(problems.values())
    said = {name: {"ok": problem is None, "message": problem or "ok"} for name, problem in problems.items()}
    return JsonResponse({"ready": ready, "checks": said}, status=200 if ready else 503)


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    return HttpResponse(generate_latest(REGISTRY), content_type=CONTENT_TYPE_LATEST)


def _outcome(name: str, check: Callable[[], str | None]) -> str | None:
    try:
        return check()
    except Error as problem:
        # The driver's words may hold the database's address: they are for the log.
        logger.warning("not ready, %s: %s", name, problem)
        return f"The database does not answer ({type(problem).__name__})."


def _database_problem() -> str | None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return None


def _migration_problem() -> str | None:
    missing = sorted(_shipped_migrations() - MigrationRecorder(connection).applied_migrations().keys())
    if not missing:
        return None
    return "Not applied: " + ", ".join(f"{app}.{name}" for app, name in missing) + "."


@lru_cache(maxsize=1)
def _shipped_migrations() -> frozenset[tuple[str, str]]:
    return frozenset(MigrationLoader(None).disk_migrations)


def _relay_problem() -> str | None:
    # With a shared channel layer one process relays for all of them, and the others wait for its place.
    if relay.state["connected"] or settings.CHANNEL_LAYER_URL:
        return None
    return "Live messages are not connected to the database."
