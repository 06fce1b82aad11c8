"""Registered writers and what a tenant laid down about its keys, over REST."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpResponse
from ninja import Router
from typing_extensions import TypedDict

from openwop_ui.rest import ApiError, ApiRequest, Invalid, NotFound, answer, refers_to, requires
from openwop_ui.tenancy.models import Scope
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.storable import original

from . import claims_store
from .claims_store.stale import settle_stale
from .domain.errors import LedgerError
from .domain.key_registry import Key, KeyRule, read_key
from .domain.normalisers import Kind
from .domain.units import find_unit
from .domain.writers import read_authority_rules, read_service_key
from .models import ClaimKey, ServiceWriter
from .queries.sources import find_writer, writers
from .request_bodies import members, object_of, refusal, text, truth, whole

LONGEST_NAME = 200
MOST_KEYS = 1000

router = Router(tags=["writers"])


class Authority(TypedDict):
    """Priorities from 0 to 100: the default, and those of single categories."""

    default_priority: int
    categories: dict[str, int]


class WriterItem(TypedDict):
    """A writer that is retired says nothing new; what it said keeps its authority."""

    service_key: str
    display_name: str
    authority_rules: Authority
    revision: int
    created_at: datetime
    updated_at: datetime
    retired_at: datetime | None


class WriterPage(TypedDict):
    items: list[WriterItem]
    nextCursor: str | None


_WRITER = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "service_key": {"type": "string", "pattern": "^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$"},
        "display_name": {"type": "string", "maxLength": LONGEST_NAME},
        "authority_rules": {
            "type": "object",
            "properties": {
                "default_priority": {"type": "integer", "minimum": 0, "maximum": 100},
                "categories": {
                    "type": "object",
                    "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 100},
                },
            },
        },
        "retired": {"type": "boolean"},
        "revision": {"type": "integer"},
    },
}
_BODY = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": _WRITER}}},
    "responses": {409: refers_to("error", "The service key is taken, or the writer was changed since")},
}


@router.post("/tenant/service-writers", auth=requires(Scope.ADMIN), response={201: WriterItem}, openapi_extra=_BODY)
def register_writer(request: ApiRequest) -> HttpResponse:
    """Registers a service that may write under its key, with its authority."""
    tenant = request.auth.tenant_id
    body = object_of(request, "service_key", "display_name", "authority_rules")
    try:
        key = read_service_key(body.get("service_key"))
        writer = claims_store.register_writer(
            tenant_id=tenant,
            service_key=key,
            display_name=text(body, "display_name", longest=LONGEST_NAME) or "",
            authority=read_authority_rules(body.get("authority_rules")),
        )
    except LedgerError as problem:
        raise refusal(problem) from None
    except claims_store.WriterExists:
        raise ApiError(409, "conflict", "There is a writer with this service key already.") from None
    settle_stale(tenant)
    return answer(_item(writer), status=201)


@router.get("/tenant/service-writers", auth=requires(Scope.READ), response=WriterPage)
def list_writers(request: ApiRequest) -> HttpResponse:
    """All of them, in the order of their service keys."""
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        said: WriterPage = {"items": [_item(writer) for writer in writers(tenant)], "nextCursor": None}
    return answer(said)


@router.get("/tenant/service-writers/{service_key}", auth=requires(Scope.READ), response=WriterItem)
def get_writer(request: ApiRequest, service_key: str) -> HttpResponse:
    """One writer, retired or not."""
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        return answer(_item(_found(find_writer(tenant, service_key))))


@router.patch(
    "/tenant/service-writers/{service_key}", auth=requires(Scope.ADMIN), response=WriterItem, openapi_extra=_BODY
)
def change_writer(request: ApiRequest, service_key: str) -> HttpResponse:
    """Changes what is given. With another authority, what the writer spoke of is settled again; what people decided
    stands. With `revision` a change of what somebody else changed meanwhile is refused."""
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        _found(find_writer(tenant, service_key))
    body = object_of(request, "display_name", "authority_rules", "retired", "revision")
    rules = body.get("authority_rules")
    try:
        writer = claims_store.change_writer(
            tenant_id=tenant,
            service_key=service_key,
            based_on=whole(body, "revision"),
            display_name=text(body, "display_name", longest=LONGEST_NAME),
            authority=None if rules is None else read_authority_rules(rules),
            retired=truth(body, "retired"),
        )
    except LedgerError as problem:
        raise refusal(problem) from None
    except claims_store.StaleWriter as problem:
        raise ApiError(409, "conflict", f"{problem}.", details={"revision": problem.latest}) from None
    settle_stale(tenant)
    return answer(_item(_found(writer)))


def _found(writer: ServiceWriter | None) -> ServiceWriter:
    if writer is None:
        raise NotFound("writer")
    return writer


def _item(writer: ServiceWriter) -> WriterItem:
    return {
        "service_key": writer.service_key,
        "display_name": original(writer.display_name),
        "authority_rules": {"default_priority": writer.default_priority, "categories": writer.categories},
        "revision": writer.revision,
        "created_at": writer.created_at,
        "updated_at": writer.updated_at,
        "retired_at": writer.retired_at,
    }


# --- keys ---


class KeyItem(TypedDict):
    """`kind` is how values are compared, `unit` what a bare number means. With `recency_between_equals` the newer of
    two writers of equal authority wins; otherwise a person is asked."""

    category: str
    key: str
    cardinality: str
    kind: str
    unit: str | None
    recency_between_equals: bool


class KeyRules(TypedDict):
    """The tenant's own rules; a key that is not among them has a built-in one."""

    keys: list[KeyItem]


_KEY_MEMBERS = ("category", "key", "cardinality", "kind", "unit", "recency_between_equals")
_KEYS = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["keys"],
                    "properties": {
                        "keys": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "required": ["key"],
                                "additionalProperties": False,
                                "properties": {
                                    "category": {"type": "string", "default": "fact"},
                                    "key": {"type": "string"},
                                    "cardinality": {"enum": ["single", "many"], "default": "single"},
                                    "kind": {"enum": [kind.value for kind in Kind], "default": "plain"},
                                    "unit": {"type": ["string", "null"]},
                                    "recency_between_equals": {"type": "boolean", "default": False},
                                },
                            },
                        }
                    },
                }
            }
        },
    },
}


@router.get("/tenant/claim-keys", auth=requires(Scope.READ), response=KeyRules)
def list_claim_keys(request: ApiRequest) -> HttpResponse:
    """The tenant's own rules for keys; a key that is not among them has a built-in one."""
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        said: KeyRules = {"keys": [_key_item(row) for row in claims_store.key_rows(tenant)]}
    return answer(said)


@router.put("/tenant/claim-keys", auth=requires(Scope.ADMIN), response=KeyRules, openapi_extra=_KEYS)
def put_claim_keys(request: ApiRequest) -> HttpResponse:
    """Lays down exactly these rules. Values of keys whose rule changes are read again, and what claims them is settled
    again."""
    tenant = request.auth.tenant_id
    told = object_of(request, "keys").get("keys")
    if not isinstance(told, list) or len(told) > MOST_KEYS:
        raise Invalid("body", "keys", f"is not a list of at most {MOST_KEYS} rules")
    rules: dict[Key, KeyRule] = {}
    for index, raw in enumerate(told):
        key, rule = _rule(raw, f"keys.{index}")
        if key in rules:
            raise Invalid("body", f"keys.{index}.key", "is told twice")
        rules[key] = rule
    claims_store.set_key_rules(tenant_id=tenant, rules=rules)
    settle_stale(tenant)
    return list_claim_keys(request)


def _rule(raw: Any, place: str) -> tuple[Key, KeyRule]:
    body = members(raw, _KEY_MEMBERS, place=place)
    is_many = _is_many(body.get("cardinality") or "single", place)
    kind = body.get("kind") or Kind.PLAIN.value
    unit = text(body, "unit", longest=64, place=place) or None
    recency = body.get("recency_between_equals", False)
    if kind not in Kind.__members__.values():
        raise Invalid("body", f"{place}.kind", f"is none of {', '.join(Kind)}")
    if unit is not None and (kind not in (Kind.NUMBER, Kind.PLAIN) or find_unit(unit) is None):
        raise Invalid("body", f"{place}.unit", "is no known unit, or the kind has none")
    if not isinstance(recency, bool):
        raise Invalid("body", f"{place}.recency_between_equals", "is neither true nor false")
    try:
        key = read_key(
            text(body, "category", longest=1000, place=place), text(body, "key", longest=1000, place=place) or ""
        )
    except LedgerError as problem:
        raise refusal(problem, place=place) from None
    return key, KeyRule("many" if is_many else "single", Kind(kind), unit, recency)


def _is_many(told: Any, place: str) -> bool:
    if told not in ("single", "many"):
        raise Invalid("body", f"{place}.cardinality", "is neither single nor many")
    return bool(told == "many")


def _key_item(row: ClaimKey) -> KeyItem:
    return {
        "category": original(row.category),
        "key": original(row.name),
        "cardinality": row.cardinality,
        "kind": row.kind,
        "unit": row.unit or None,
        "recency_between_equals": row.recency_between_equals,
    }
