"""The REST API: its routers, its documents, and the one translator of errors into answers.

Whatever goes wrong under /v1 is answered as ``{"error": code, "message": text, "details"?: {…}}``, never as a page.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotAllowed
from django.urls import URLPattern, URLResolver, re_path
from django.views import defaults
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation

from ledger.api import router as ledger
from ledger.claims_api import router as claims
from ledger.compare_api import router as comparisons
from ledger.conflicts_api import router as conflicts
from ledger.coverage_views import router as coverage
from ledger.erasure_api import router as erasures
from ledger.memories_get import router as memories_get
from ledger.memory_api import router as memory
from ledger.receipt_api import router as receipts
from ledger.state_api import router as states
from ledger.writers_api import router as writers
from openwop_ui import VERSION
from openwop_ui.rest import ApiError, Invalid, NotFound, answer, refers_to
from runs.api import router as runs
from runs.exports_doors import router as exports

ROOT = "/v1"
SECONDS_UNTIL_BACK = "5"

logger = logging.getLogger(__name__)

Answer = Callable[..., HttpResponseBase]

DESCRIPTION = """
What hosts reported and what agents remember, of the tenant that the key belongs to.

* **Keys**: `Authorization: Bearer KEY` or `Authorization: ApiKey KEY`.
* **Ids in paths** are one segment: every UTF-8 byte outside `A-Za-z0-9._-` is written `~HH` with upper-case hex
  digits, once (`acme/r-9` is `acme~2Fr-9`). Answers carry the segment as `path` beside the id itself.
* **Pages** are `{items, nextCursor}`. `nextCursor` is given back as it is, and is `null` at the end only.
* **Errors** are `{error, message, details?}`. A query parameter that an endpoint does not know is one (422), so that
  a misspelt filter never gives everything. What does not exist and what belongs to somebody else answer alike (404).
"""


class Api(NinjaAPI):
    def _get_urls(self) -> list[URLResolver | URLPattern]:
        patterns = super()._get_urls()
        for pattern in patterns:
            assert isinstance(pattern, URLPattern)  # none of them includes others
            pattern.callback = _in_envelope(pattern.callback)
        return [*patterns, re_path(r"", _in_envelope(_nothing_here), name="nothing")]

    def get_openapi_operation_id(self, operation: Operation) -> str:
        return operation.view_func.__name__

    def get_openapi_schema(
        self, *, path_prefix: str | None = None, path_params: dict[str, Any] | None = None
    ) -> OpenAPISchema:
        schema = super().get_openapi_schema(path_prefix=path_prefix, path_params=path_params)
        for operations in schema["paths"].values():
            for operation in operations.values():
                operation["responses"]["default"] = refers_to("error", "Not the answer that was asked for")
        return schema


def _in_envelope(view: Answer) -> Answer:
    """What the framework answers by itself, without raising, in the shape of all other errors."""

    @wraps(view)
    def enveloped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        method = request.method
        if method == "HEAD":
            request.method = "GET"  # the server leaves the body out (RFC 9110, section 9.3.2)
        try:
            response = view(request, *args, **kwargs)
        except Http404:
            return error_answer(NotFound())
        finally:
            request.method = method
        if isinstance(response, HttpResponseNotAllowed):
            return error_answer(_not_allowed(request, response["Allow"]))
        return response

    enveloped.csrf_exempt = True  # type: ignore[attr-defined]  # keys, not cookies
    return enveloped


def _nothing_here(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
    raise Http404


def _not_allowed(request: HttpRequest, allowed: str) -> ApiError:
    return ApiError(
        405,
        "method_not_allowed",
        f"{request.method} is not among the methods of this resource: {allowed}.",
        details={"allowed": sorted(allowed.split(", "))},
        headers={"Allow": allowed},
    )


def error_answer(error: ApiError) -> HttpResponse:
    said: dict[str, Any] = {"error": error.code, "message": error.message}
    if error.details is not None:
        said["details"] = error.details
    return answer(said, status=error.status, headers=error.headers)


def only_known_parameters(view: Callable[..., Any]) -> Callable[..., Any]:
    """Refuses query parameters that the endpoint does not have, and those given twice."""
    operation = view._ninja_operation  # type: ignore[attr-defined]  # where the framework keeps what it read
    known = sorted(
        name
        for model in operation.models
        if model.__ninja_param_source__ == "query"
        for name in model.__ninja_flatten_map__
    )

    @wraps(view)
    def strict(request: HttpRequest, *args: Any, **values: Any) -> Any:
        for name, given in request.GET.lists():
            if name not in known:
                raise Invalid("query", name, f"is not known here; there are {', '.join(known) or 'none'}")
            if len(given) > 1:
                raise Invalid("query", name, "is given more than once")
        return view(request, *args, **values)

    return strict


api = Api(
    title="OpenWOP UI",
    version=VERSION,
    description=DESCRIPTION.strip(),
    urls_namespace="v1",
)
api.add_decorator(only_known_parameters, mode="operation")
api.add_router("", runs)
api.add_router("", exports)
api.add_router("", ledger)
api.add_router("", receipts)
api.add_router("", coverage)
api.add_router("", memory)
api.add_router("", erasures)
api.add_router("", writers)
api.add_router("", claims)
api.add_router("", memories_get)
api.add_router("", conflicts)
api.add_router("", states)
api.add_router("", comparisons)


@api.exception_handler(ApiError)
def _refused(request: HttpRequest, error: ApiError) -> HttpResponse:
    return error_answer(error)


@api.exception_handler(Http404)
def _missing(request: HttpRequest, error: Http404) -> HttpResponse:
    return error_answer(NotFound())


@api.exception_handler(ValidationError)
def _invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    fields = [
        {"in": place, "field": ".".join(str(step) for step in path), "message": problem["msg"]}
        for problem in error.errors
        for place, *path in [problem["loc"]]
    ]
    first = fields[0]
    message = f"{first['field']}: {first['message']}"
    return error_answer(ApiError(422, "validation_error", message, details={"fields": fields}))


@api.exception_handler(HttpError)
def _http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    code = {400: "bad_request", 401: "unauthenticated", 403: "forbidden", 429: "rate_limited"}
    return error_answer(ApiError(error.status_code, code.get(error.status_code, "error"), str(error)))


@api.exception_handler(OperationalError)
@api.exception_handler(InterfaceError)
def _database_away(request: HttpRequest, error: Exception) -> HttpResponse:
    logger.error("the database did not answer %s: %s", request.method, type(error).__name__, exc_info=error)
    return error_answer(
        ApiError(
            503,
            "unavailable",
            "The database did not answer. Send it again: what was stored before then counts as repeated.",
            headers={"Retry-After": SECONDS_UNTIL_BACK},
        )
    )


@api.exception_handler(Exception)
def _failed(request: HttpRequest, error: Exception) -> HttpResponse:
    route = request.resolver_match and request.resolver_match.route  # not the path, which holds ids
    logger.error("%s %s failed", request.method, route, exc_info=error)
    return error_answer(ApiError(500, "internal", "This is a fault of the server. It has been logged."))


# Errors that Django finds before or outside of the API's own views: JSON under /v1, pages elsewhere.


def _below_root(request: HttpRequest) -> bool:
    return request.path == ROOT or request.path.startswith(f"{ROOT}/")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if _below_root(request):
        return error_answer(ApiError(400, "bad_request", "The request can not be read."))
    return defaults.bad_request(request, exception)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    if _below_root(request):
        return error_answer(ApiError(403, "forbidden", "This is not allowed."))
    return defaults.permission_denied(request, exception)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    return error_answer(NotFound()) if _below_root(request) else defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponseBase:
    if _below_root(request):
        return error_answer(ApiError(500, "internal", "This is a fault of the server. It has been logged."))
    return defaults.server_error(request)
