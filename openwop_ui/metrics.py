"""What this process counts of itself, for Prometheus. No label ever holds an id, a name or a path of a tenant."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from django.http import HttpRequest, HttpResponseBase
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

disable_created_metrics()  # type: ignore[no-untyped-call]
REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

events = Counter(
    "openwop_events", "Events handed in by push, upload or file, by what became of them", ["outcome"], registry=REGISTRY
)
batch_seconds = Histogram(
    "openwop_intake_batch_seconds",
    "Time from a complete batch of events to its commit",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    registry=REGISTRY,
)
requests = Counter("openwop_requests", "Requests answered", ["view", "method", "status"], registry=REGISTRY)
request_seconds = Histogram(
    "openwop_request_seconds",
    "Time to an answer's first byte",
    ["view"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
    registry=REGISTRY,
)
sockets = Gauge("openwop_sockets_open", "Pages that are connected for live messages", registry=REGISTRY)

METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

for outcome in ("accepted", "repeated", "refused"):
    events.labels(outcome)  # present from the start, so that a rate has a zero to begin from


def count_requests(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware. Requests are told apart by the name of the view, which only the code decides."""

    def counting(request: HttpRequest) -> HttpResponseBase:
        began = perf_counter()
        method = request.method if request.method in METHODS else "other"
        response = get_response(request)
        view = (request.resolver_match and request.resolver_match.view_name) or "none"
        requests.labels(view, method, response.status_code).inc()
        request_seconds.labels(view).observe(perf_counter() - began)
        return response

    return counting
