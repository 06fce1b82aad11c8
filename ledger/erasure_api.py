"""Erasing over REST: what would go, taking it away for good, and the tombstones that stay."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from django.http import HttpResponse
from ninja import Query, Router
from typing_extensions import TypedDict  # the documentation needs this one below Python 3.12

from openwop_ui.rest import LARGEST_PAGE, ApiError, ApiRequest, Invalid, NotFound, answer, refers_to, requires
from openwop_ui.tenancy.models import Scope
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.storable import storable
from runs.models import Host

from .claims_store.actor import Actor
from .domain.reading import LONGEST_ADDRESS, Address, entry_id
from .erasures import Plan, erase_entry, erase_subject, plan_entry, plan_subject
from .erasures.planning import TooMuch
from .policies import policy_of
from .queries.paging import BrokenCursor
from .queries.retention import Tombstone, erased_items, find_tombstone, tombstones
from .request_bodies import members, object_of, text, truth

LONGEST_SUBJECT = 4096

router = Router(tags=["retention"])


class EntryAddress(TypedDict):
    host: str
    memoryRef: str
    memoryId: str


class Going(EntryAddress):
    """`reason` is asked, derived (it was made of it, as events or tags say) or quotes (it repeats it)."""

    reason: str


class ErasurePlan(TypedDict):
    """What would go. Nothing has gone."""

    entries: list[Going]
    counts: dict[str, int]


class ErasureItem(TypedDict):
    """A tombstone. `kind` is entry, subject, payloads or events; what retention takes away in a day is one of the last
    two."""

    id: str
    kind: str
    at: datetime
    actor: str
    counts: dict[str, int]
    entry: EntryAddress | None
    subjectHash: str | None


class ErasurePage(TypedDict):
    items: list[ErasureItem]
    nextCursor: str | None


class ErasedThing(TypedDict):
    """What went: content, claim, payload or event, by its id, with the SHA-256 of what it held."""

    kind: str
    item: str
    sha256: str | None


class ErasureDetail(ErasureItem):
    items: list[ErasedThing]


_ERASE = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "subject": {
                            "type": "string",
                            "minLength": 1,
                            "description": "An external_user_id, or a memory ref of a host as host:slug/ref",
                        },
                        "entry": {
                            "type": "object",
                            "additionalProperties": False,
                            "required": ["memoryRef", "memoryId"],
                            "properties": {
                                "host": {"type": "string", "description": "A host's slug; left out: kept here"},
                                "memoryRef": {"type": "string", "minLength": 1},
                                "memoryId": {"type": "string", "minLength": 1},
                            },
                        },
                        "dryRun": {"type": "boolean", "description": "Only tell what would go"},
                    },
                }
            }
        },
    },
    "responses": {
        404: refers_to("error", "There is no such entry, or nothing is known of the subject"),
        409: refers_to("error", "`too_much`: more hangs together than is erased at once"),
        422: refers_to("error", "Neither an entry nor a subject, or both"),
    },
}


@router.post(
    "/tenant/erasures",
    auth=requires(Scope.ADMIN),
    response={201: ErasureItem, 200: ErasurePlan},
    openapi_extra=_ERASE,
)
def post_erasure(request: ApiRequest) -> HttpResponse:
    """Takes an entry or a subject away for good, with all that was made of it: content, claims, texts in events and
    payloads. Hashes and a tombstone stay. It can not be undone."""
    caller = request.auth
    body = object_of(request, "subject", "entry", "dryRun")
    subject = text(body, "subject", longest=LONGEST_SUBJECT)
    if (body.get("entry") is None) is (subject is None) or subject == "":
        raise Invalid("body", "entry", "or subject has to be given, and not both")
    entry = None if subject is not None else _entry(caller.tenant_id, body["entry"])
    if truth(body, "dryRun"):
        return answer(_planned(caller.tenant_id, entry, subject))
    actor = Actor.program(caller)
    try:
        if subject is not None:
            erased = erase_subject(tenant_id=caller.tenant_id, subject=subject, actor=actor)
        else:
            assert entry is not None
            erased = erase_entry(tenant_id=caller.tenant_id, entry=entry, actor=actor)
    except TooMuch as problem:
        raise _too_much(problem) from None
    if erased is None:
        raise NotFound("subject" if subject is not None else "entry")
    with tenant_scope(caller.tenant_id):
        stone = find_tombstone(caller.tenant_id, erased.id)
    assert stone is not None
    return answer(_item(stone), status=201)


def _entry(tenant_id: int, raw: Any) -> UUID:
    told = members(raw, ("host", "memoryRef", "memoryId"), place="entry")
    slug = text(told, "host", longest=63, place="entry")
    ref = text(told, "memoryRef", longest=LONGEST_ADDRESS, place="entry")
    memory_id = text(told, "memoryId", longest=LONGEST_ADDRESS, place="entry")
    if not ref or not memory_id:
        raise Invalid("body", "entry", "has a memoryRef and a memoryId")
    if slug is None:
        host = policy_of(tenant_id).own_host
    else:
        with tenant_scope(tenant_id):
            host = Host.objects.filter(tenant_id=tenant_id, slug=storable(slug)).values_list("pk", flat=True).first()
    if host is None:
        raise NotFound("entry")
    return entry_id(host, Address(storable(ref), storable(memory_id)))


def _planned(tenant_id: int, entry: UUID | None, subject: str | None) -> ErasurePlan:
    with tenant_scope(tenant_id):
        try:
            plan = plan_subject(tenant_id, subject) if subject is not None else entry and plan_entry(tenant_id, entry)
        except TooMuch as problem:
            raise _too_much(problem) from None
    if not plan:
        raise NotFound("subject" if subject is not None else "entry")
    return {"entries": [_going(plan, place) for place in range(len(plan.targets))], "counts": plan.counts}


def _going(plan: Plan, place: int) -> Going:
    target = plan.targets[place]
    return {
        "host": target.host,
        "memoryRef": target.memory_ref,
        "memoryId": target.memory_id,
        "reason": target.reason.value,
    }


def _too_much(problem: TooMuch) -> ApiError:
    return ApiError(409, "too_much", f"{str(problem)[:1].upper()}{str(problem)[1:]}. Nothing was erased.")


@router.get("/tenant/erasures", auth=requires(Scope.READ), response=ErasurePage)
def list_erasures(
    request: ApiRequest,
    limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="The most items on the page")] = 50,
    cursor: str | None = None,
) -> HttpResponse:
    """Tombstones, the last one first."""
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        try:
            found = tombstones(tenant, before=cursor, limit=limit)
        except BrokenCursor:
            raise Invalid("query", "cursor", "is not the nextCursor of a page") from None
    said: ErasurePage = {"items": [_item(row) for row in found.rows], "nextCursor": found.older}
    return answer(said)


@router.get("/tenant/erasures/{uuid:erasure}", auth=requires(Scope.READ), response=ErasureDetail)
def get_erasure(request: ApiRequest, erasure: UUID) -> HttpResponse:
    """One tombstone with the hashes of what went, up to a thousand of them."""
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        stone = find_tombstone(tenant, erasure)
        if stone is None:
            raise NotFound("erasure")
        items = erased_items(tenant, erasure)
    said: ErasureDetail = {
        **_item(stone),
        "items": [{"kind": one.kind, "item": one.item, "sha256": one.digest} for one in items],
    }
    return answer(said)


def _item(stone: Tombstone) -> ErasureItem:
    entry: EntryAddress | None = None
    if stone.entry is not None:
        host, ref, memory_id = stone.entry
        entry = {"host": host, "memoryRef": ref, "memoryId": memory_id}
    return {
        "id": str(stone.id),
        "kind": stone.kind,
        "at": stone.at,
        "actor": stone.actor,
        "counts": dict(stone.counts),
        "entry": entry,
        "subjectHash": stone.subject_hash,
    }
