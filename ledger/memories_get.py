"""Memories by their ids over REST, and the provenance chain of each."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from ninja import Router
from typing_extensions import TypedDict

from openwop_ui.rest import ApiRequest, Invalid, NotFound, answer, refers_to, requires
from openwop_ui.tenancy.models import Scope

from .provenance import told
from .recall import MAX_PLAIN, MAX_TRACED, chain_of, recall
from .request_bodies import object_of

PROVENANCE = "provenance"

router = Router(tags=["memories"])


class Found(TypedDict):
    """Claims and entries, however each of them stands, in the order asked for. An id that is unknown and another
    tenant's are not told apart. With `include: ["provenance"]` each has a `chain`: `/schemas/provenance-chain.json`."""

    found: list[dict[str, Any]]
    notFound: list[str]


_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["ids"],
                    "additionalProperties": False,
                    "properties": {
                        "ids": {
                            "type": "array",
                            "minItems": 1,
                            "maxItems": MAX_PLAIN,
                            "items": {"type": "string"},
                            "description": f"At most {MAX_TRACED} with provenance",
                        },
                        "include": {"type": "array", "items": {"enum": [PROVENANCE]}},
                    },
                }
            }
        },
    },
    "responses": {504: refers_to("error", "Tracing took longer than TRACE_TIMEOUT")},
}


@router.post("/memories/get", auth=requires(Scope.READ), response=Found, openapi_extra=_BODY)
def get_memories(request: ApiRequest) -> HttpResponse:
    """Memories by their ids. What makes them up is told one level deep: to go on, ask for a predecessor's id."""
    body = object_of(request, "ids", "include")
    provenance = read_include(body.get("include", []))
    ids = read_ids(body.get("ids"), most=MAX_TRACED if provenance else MAX_PLAIN)
    return answer(recall(request.auth.tenant_id, ids, provenance=provenance))


@router.get(
    "/memories/{memory}/history",
    auth=requires(Scope.READ),
    openapi_extra={
        "responses": {
            200: refers_to("provenance-chain", "The chain"),
            504: refers_to("error", "Tracing took longer than TRACE_TIMEOUT"),
        }
    },
)
def get_history(request: ApiRequest, memory: str) -> HttpResponse:
    """The provenance chain of one memory."""
    found = chain_of(request.auth.tenant_id, memory)
    if found is None:
        raise NotFound("memory")
    return answer(told(found))


def read_ids(raw: Any, *, most: int) -> list[str]:
    if not isinstance(raw, list) or not raw or not all(isinstance(one, str) for one in raw):
        raise Invalid("body", "ids", f"is not a list of 1 to {most} ids")
    if len(raw) > most:
        raise Invalid("body", "ids", f"has {len(raw)} ids, more than {most}")
    return list(dict.fromkeys(raw))


def read_include(raw: Any) -> bool:
    """Whether provenance is asked for, which is all that can be."""
    if not isinstance(raw, list) or any(one != PROVENANCE for one in raw):
        raise Invalid("body", "include", f"is not a list of {PROVENANCE!r}")
    return bool(raw)
