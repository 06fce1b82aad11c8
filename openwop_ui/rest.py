"""What every REST endpoint shares: who is calling, the errors, and JSON that loses nothing.

Errors are raised; `openwop_ui.api` turns each into the one envelope ``{"error", "message", "details"?}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson
from django.http import HttpRequest, HttpResponse
from django.http.request import UnreadablePostError
from ninja.security.base import AuthBase

from openwop_ui.tenancy.keys import Caller, find_caller
from openwop_ui.tenancy.models import Scope

SCHEMES = ("bearer", "apikey")
LARGEST_PAGE = 1000


class ApiRequest(HttpRequest):
    """A request with a key that was found good."""

    auth: Caller


class ApiError(Exception):
    """Not the answer that was asked for. The tree below says why.

    ApiError
     ├ Unauthenticated  401
     ├ Forbidden        403
     ├ NotFound         404
     ├ Unsupported      415
     └ Invalid          422
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.details = details
        self.headers = headers


class Unauthenticated(ApiError):
    """No key, an unknown one and a revoked one answer alike."""

    def __init__(self) -> None:
        super().__init__(
            401,
            "unauthenticated",
            "This needs a valid key, sent as `Authorization: Bearer KEY` or `Authorization: ApiKey KEY`.",
            headers={"WWW-Authenticate": 'Bearer realm="OpenWOP UI"'},
        )


class Forbidden(ApiError):
    def __init__(self, scope: Scope) -> None:
        super().__init__(403, "forbidden", f"This key does not have the scope {scope}.", details={"scope": str(scope)})


class NotFound(ApiError):
    """Unknown and another tenant's answer alike, so the message may not say which."""

    def __init__(self, what: str = "resource") -> None:
        super().__init__(404, "not_found", f"There is no such {what}.")


class Unsupported(ApiError):
    def __init__(self, message: str, *, supported: list[str], headers: Mapping[str, str] | None = None) -> None:
        super().__init__(415, "unsupported_media_type", message, details={"supported": supported}, headers=headers)


class Invalid(ApiError):
    """``place`` is where the field stands: query, path, header or body."""

    def __init__(self, place: str, field: str, message: str) -> None:
        super().__init__(
            422,
            "validation_error",
            f"{field}: {message}",
            details={"fields": [{"in": place, "field": field, "message": message}]},
        )


class Key(AuthBase):
    """An API key with a scope. What it finds becomes ``request.auth``."""

    openapi_type = "http"
    openapi_scheme = "bearer"
    openapi_description = (
        "An API key of the tenant, as `Authorization: Bearer KEY` or `Authorization: ApiKey KEY`."
        " The key decides the tenant."
    )

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self.scope = scope

    def __call__(self, request: HttpRequest) -> Caller:
        caller = find_caller(key_of(request.headers.get("Authorization", "")))
        if caller is None:
            raise Unauthenticated
        if not caller.may(self.scope):
            raise Forbidden(self.scope)
        return caller


def requires(scope: Scope) -> Key:
    """For an endpoint's ``auth=``."""
    return Key(scope)


def key_of(authorization: str) -> str:
    """The key in an Authorization header. Raises Unauthenticated for any other credential and for none."""
    scheme, _, key = authorization.strip().partition(" ")
    if scheme.lower() not in SCHEMES or not key.strip():
        raise Unauthenticated
    return key.strip()


def json_body(request: HttpRequest, *, limit: str, most: int) -> bytes:
    """The whole body of a request with JSON in it. ``limit`` is what an error calls its largest size."""
    json_type = "application/json"
    if (request.content_type or "").lower() != json_type:
        said = request.content_type or "is missing"
        raise Unsupported(f"Content-Type {said}: it is {json_type}.", supported=[json_type])
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding != "identity":
        raise Unsupported(
            f"Content-Encoding {encoding}: it is identity.",
            supported=["identity"],
            headers={"Accept-Encoding": "identity"},
        )
    declared = request.headers.get("Content-Length", "")
    if declared.isdigit() and int(declared) > most:
        raise _too_large(limit, most)
    try:
        body: bytes = request.read(most + 1)
    except UnreadablePostError:
        raise ApiError(400, "incomplete_body", "The body ended before its end.") from None
    if len(body) > most:
        raise _too_large(limit, most)
    return body


def _too_large(limit: str, most: int) -> ApiError:
    return ApiError(
        413,
        "too_large",
        f"The body has more than {limit} ({most} bytes). It was not kept.",
        details={"limit": limit, "bytes": most},
    )


def answer(said: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpResponse:
    return json_response(dumps(said), status=status, headers=headers)


def json_response(text: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """``text`` is JSON already. What a key gets to see is nothing that a cache on the way may keep."""
    return HttpResponse(
        text,
        status=status,
        content_type="application/json",
        headers={"Cache-Control": "no-store", **(headers or {})},
    )


def dumps(said: Any) -> bytes:
    """Integers of any size and lone surrogates, which JSON can say and most encoders refuse, come out as they are."""
    try:
        return orjson.dumps(said, option=orjson.OPT_UTC_Z)
    except TypeError:
        return json.dumps(said, default=_moment, separators=(",", ":")).encode()


def refers_to(schema: str, description: str) -> dict[str, Any]:
    """A response in the API's documents whose shape is one of ``schemas/``."""
    reference = {"$ref": f"/schemas/{schema}.json"}
    return {"description": description, "content": {"application/json": {"schema": reference}}}


def _moment(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    raise TypeError(f"{type(value).__name__} is not a JSON value")
