"""What writers say and what is remembered of it, over REST."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse
from django.utils import timezone
from ninja import Query, Router
from typing_extensions import TypedDict

from openwop_ui.rest import (
    LARGEST_PAGE,
    ApiError,
    ApiRequest,
    Invalid,
    NotFound,
    answer,
    dumps,
    json_response,
    refers_to,
    requires,
)
from openwop_ui.tenancy.keys import Caller
from openwop_ui.tenancy.models import Scope
from openwop_ui.tenancy.scope import tenant_scope

from . import claims_store
from .claims_store.idempotency import LONGEST_KEY, Kept, KeyReused, first_answer, keep_answer
from .domain.claims import MAX_SUBJECT_LENGTH, StaleRevision
from .domain.errors import LedgerError
from .domain.scopes import read_scope
from .domain.submissions import Permitted, read_submission
from .memory_items import MemoryPage, memory_item
from .policies import policy_of
from .queries.claims import ClaimFilter, MemoryList, memories, memories_by_id
from .queries.claims_as_of import memories_as_of
from .queries.paging import BrokenCursor
from .queries.sources import (
    JobRow,
    SourceEventRow,
    SourceFilter,
    find_job,
    find_source_event,
    source_events,
)
from .request_bodies import json_of, moment, moment_of, object_of, period, refusal, text, truth, whole
from .source_items import JobItem, SourceItem, SourcePage, job_item, source_item

LONGEST = 1000

router = Router(tags=["memories"])

Limit = Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="The most items on the page")]
Subject = Annotated[str | None, Query(min_length=1, max_length=MAX_SUBJECT_LENGTH, description="Whom it is about")]
Text = Annotated[str | None, Query(min_length=1, max_length=LONGEST)]
Moment = Annotated[str | None, Query(max_length=64, description="RFC 3339, with its zone")]


# --- add ---


class Accepted(TypedDict):
    """The same event sent again gets the same job."""

    job_id: UUID
    status: str
    source_event_id: UUID


_ADD = {
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "schema": {"type": "string", "maxLength": LONGEST_KEY},
            "description": "The same key with the same request gets the same answer",
        }
    ],
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "/schemas/memories-add.json"}}},
    },
    "responses": {
        403: refers_to("error", "PROV_403: the key speaks for another writer"),
        404: refers_to("error", "PROV_404: no such writer is registered"),
        409: refers_to("error", "PROV_409: the event is known with another payload"),
        413: refers_to("error", "Larger than MAX_CLAIMS_BYTES"),
        422: refers_to("error", "PROV_422: malformed, `secret_leakage`, or `idempotency_key_reused`"),
    },
}


@router.post("/memories/add", auth=requires(Scope.WRITE), response={202: Accepted}, openapi_extra=_ADD)
def add_memories(request: ApiRequest) -> HttpResponse:
    """Takes in what a registered writer observed: messages that claims are read in, explicit claims, or both.

    It is on disk, once, when the answer comes. Who writes is decided by the key. Secrets are taken out before
    anything is stored; the hash is over the body as it was sent (RFC 8785, SHA-256).
    """
    caller, now = request.auth, timezone.now()
    body = json_of(request)
    key = request.headers.get("Idempotency-Key")
    if key is not None and not 0 < len(key) <= LONGEST_KEY:
        raise Invalid("header", "Idempotency-Key", f"has 1 to {LONGEST_KEY} characters")
    if key is None:
        return answer(add_submission(caller, body, now), status=202)
    digest = hashlib.sha256(request.method.encode() + dumps(body)).digest()  # type: ignore[union-attr]  # it has one
    with tenant_scope(caller.tenant_id, durable=True):
        try:
            kept = first_answer(
                caller.tenant_id, key_id=caller.key_id, idempotency_key=key, request_hash=digest, at=now
            )
        except KeyReused as problem:
            raise ApiError(422, "idempotency_key_reused", f"{problem}.") from None
        if kept is None:
            kept = Kept(202, dumps(add_submission(caller, body, now)).decode())
            keep_answer(caller.tenant_id, key_id=caller.key_id, idempotency_key=key, kept=kept)
    return json_response(kept.body.encode(), status=kept.status)


def add_submission(caller: Caller, body: Any, now: datetime) -> Accepted:
    """What `POST /v1/memories/add` does with its body, for every door of programs."""
    tenant = caller.tenant_id
    policy = policy_of(tenant).secrets
    with tenant_scope(tenant):
        rules = claims_store.share_rules(tenant)
        try:
            submission = read_submission(
                body, Permitted(caller.writer, rules.registered, rules.keys, policy), received_at=now
            )
        except LedgerError as problem:
            raise refusal(problem) from None
        (taken,) = claims_store.add(
            tenant,
            [submission],
            received_from=claims_store.Actor.program(caller).label,
            received_at=now,
            later=bool(settings.EXTRACTOR_URL),
        )
    if taken.refused is not None:
        raise refusal(taken.refused)
    return {"job_id": taken.job, "status": taken.status, "source_event_id": taken.source_event}


@router.get("/jobs/{uuid:job}", auth=requires(Scope.READ), response=JobItem)
def get_job(request: ApiRequest, job: UUID) -> HttpResponse:
    """What became of reading one source event."""
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        found: JobRow | None = find_job(tenant, job)
    if found is None:
        raise NotFound("job")
    return answer(job_item(found))


# --- retrieve ---

_WANTED = (
    "external_user_id",
    "query",
    "category",
    "key",
    "limit",
    "cursor",
    "include_superseded",
    "as_of",
    "valid_at",
)
_RETRIEVE = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["external_user_id"],
                    "additionalProperties": False,
                    "properties": {
                        "external_user_id": {"type": "string"},
                        "query": {"type": "string", "description": "Words, all of which are in a memory"},
                        "category": {"type": "string"},
                        "key": {"type": "string"},
                        "limit": {"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE},
                        "cursor": {"type": ["string", "null"]},
                        "include_superseded": {"type": "boolean"},
                        "as_of": {"type": "string", "format": "date-time", "description": "When we knew it"},
                        "valid_at": {"type": "string", "format": "date-time", "description": "When it is true"},
                    },
                }
            }
        },
    }
}


@router.post("/memories/retrieve", auth=requires(Scope.READ), response=MemoryPage, openapi_extra=_RETRIEVE)
def retrieve_memories(request: ApiRequest) -> HttpResponse:
    """What is remembered about one subject, the last observed first, each with where it comes from. Only what is active
    now, or for `valid_at`; with `as_of` as far as was known then."""
    body = object_of(request, *_WANTED)
    subject = text(body, "external_user_id", longest=MAX_SUBJECT_LENGTH)
    if not subject:
        raise Invalid("body", "external_user_id", "is missing")
    return _memories(
        request,
        ClaimFilter(
            subject=subject,
            query=text(body, "query", longest=LONGEST) or "",
            category=text(body, "category", longest=LONGEST) or "",
            key=text(body, "key", longest=LONGEST) or "",
            every=bool(truth(body, "include_superseded")),
        ),
        valid_at=moment(body, "valid_at"),
        as_of=moment(body, "as_of"),
        cursor=text(body, "cursor", longest=LONGEST),
        limit=whole(body, "limit", least=1, most=LARGEST_PAGE) or 50,
        place="body",
    )


@router.get("/memories", auth=requires(Scope.READ), response=MemoryPage)
def list_memories(
    request: ApiRequest,
    external_user_id: Subject = None,
    query: Text = None,
    category: Text = None,
    key: Text = None,
    include_superseded: bool = False,
    as_of: Moment = None,
    valid_at: Moment = None,
    limit: Limit = 50,
    cursor: str | None = None,
) -> HttpResponse:
    """The same, of all subjects where none is named; `as_of` needs one."""
    return _memories(
        request,
        ClaimFilter(
            subject=external_user_id or "",
            query=query or "",
            category=category or "",
            key=key or "",
            every=include_superseded,
        ),
        valid_at=None if valid_at is None else moment_of("query", "valid_at", valid_at),
        as_of=None if as_of is None else moment_of("query", "as_of", as_of),
        cursor=cursor,
        limit=limit,
        place="query",
    )


def _memories(
    request: ApiRequest,
    wanted: ClaimFilter,
    *,
    valid_at: datetime | None,
    as_of: datetime | None,
    cursor: str | None,
    limit: int,
    place: str,
) -> HttpResponse:
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        try:
            found = found_memories(
                tenant, wanted, valid_at=valid_at, as_of=as_of, cursor=cursor, limit=limit, place=place
            )
        except BrokenCursor:
            raise Invalid(place, "cursor", "is not the nextCursor of a page") from None
    said: MemoryPage = {"memories": [memory_item(row) for row in found.rows], "nextCursor": found.older}
    return answer(said)


def found_memories(
    tenant: int,
    wanted: ClaimFilter,
    *,
    valid_at: datetime | None,
    as_of: datetime | None,
    cursor: str | None,
    limit: int,
    place: str,
) -> MemoryList:
    if as_of is None:
        asked = ClaimFilter(
            subject=wanted.subject,
            query=wanted.query,
            category=wanted.category,
            key=wanted.key,
            every=wanted.every,
            valid_at=valid_at,
        )
        return memories(tenant, asked, before=cursor, limit=limit)
    if not wanted.subject:
        raise Invalid(place, "as_of", "needs external_user_id")
    if wanted.every:
        raise Invalid(place, "include_superseded", "does not go with as_of, which tells what was active then")
    return memories_as_of(tenant, wanted, as_of=as_of, valid_at=valid_at or as_of, before=cursor, limit=limit)


# --- revise ---


class Revised(TypedDict):
    id: UUID
    revision: int


class Withdrawn(TypedDict):
    withdrawn: int


_REVISE = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["revision"],
                    "additionalProperties": False,
                    "properties": {
                        "revision": {"type": "integer", "description": "The one that the change is based on"},
                        "content": {"type": "string"},
                        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
                        "scope": {"type": "object"},
                        "valid_from": {"type": "string", "format": "date-time"},
                        "valid_to": {"type": "string", "format": "date-time"},
                        "withdrawn": {"type": "boolean"},
                        "reason": {"type": "string"},
                    },
                }
            }
        },
    },
    "responses": {
        403: refers_to("error", "PROV_403: the claim is another writer's"),
        409: refers_to("error", "It was changed since the revision that was named"),
    },
}


@router.patch("/memories/{uuid:claim}", auth=requires(Scope.WRITE), response=Revised, openapi_extra=_REVISE)
def revise_memory(request: ApiRequest, claim: UUID) -> HttpResponse:
    """A new revision of a memory: other wording, confidence, scope or validity, or that it is taken back. Its origin
    stays as it was, and the revision has the key as its actor. Another value is another memory."""
    caller = request.auth
    with tenant_scope(caller.tenant_id):
        if claim not in memories_by_id(caller.tenant_id, [claim]):
            raise NotFound("memory")
    body = object_of(
        request, "revision", "content", "confidence", "scope", "valid_from", "valid_to", "withdrawn", "reason"
    )
    based_on = whole(body, "revision", least=1)
    if based_on is None:
        raise Invalid("body", "revision", "is missing: the one that the change is based on")
    try:
        revision = claims_store.revise_claim(
            tenant_id=caller.tenant_id,
            claim=claim,
            based_on=based_on,
            revision=claims_store.Revision(
                content=text(body, "content", longest=65_536),
                confidence=_confidence(body),
                scope=read_scope(body["scope"]) if body.get("scope") is not None else None,
                valid=period(body),
                withdrawn=truth(body, "withdrawn"),
                reason=text(body, "reason", longest=LONGEST) or "",
            ),
            actor=claims_store.Actor.program(caller),
            writer=caller.writer,
        )
    except StaleRevision as problem:
        raise ApiError(409, "conflict", f"The {problem}.", details={"revision": problem.latest}) from None
    except claims_store.NotItsWriter as problem:
        raise ApiError(403, "PROV_403", f"{str(problem).capitalize()}.") from None
    except LedgerError as problem:
        raise refusal(problem) from None
    if revision is None:
        raise NotFound("memory")
    said: Revised = {"id": claim, "revision": revision}
    return answer(said)


def _confidence(body: dict[str, Any]) -> float | None:
    told = body.get("confidence")
    if told is not None and (isinstance(told, bool) or not isinstance(told, int | float) or not 0 <= told <= 1):
        raise Invalid("body", "confidence", "is not a number from 0 to 1")
    return told


@router.delete("/memories", auth=requires(Scope.WRITE), response=Withdrawn)
def withdraw_memories(
    request: ApiRequest,
    external_user_id: Annotated[str, Query(min_length=1, max_length=MAX_SUBJECT_LENGTH)],
    reason: Annotated[str, Query(max_length=LONGEST)] = "",
) -> HttpResponse:
    """Takes back everything that is remembered about one subject and says how much that was. It stays readable as
    withdrawn; erasing it for good is another thing. A key that speaks for a writer takes back what that one said."""
    caller = request.auth
    count = claims_store.withdraw_subject(
        tenant_id=caller.tenant_id,
        subject=external_user_id,
        actor=claims_store.Actor.program(caller),
        writer=caller.writer,
        reason=reason,
    )
    said: Withdrawn = {"withdrawn": count}
    return answer(said)


# --- source events ---


@router.get("/tenant/source-events", auth=requires(Scope.READ), response=SourcePage)
def list_source_events(
    request: ApiRequest,
    external_user_id: Subject = None,
    source_service: Text = None,
    limit: Limit = 50,
    cursor: str | None = None,
) -> HttpResponse:
    """What writers observed, the last received first, with the jobs that read it. Payloads are in the single events."""
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        try:
            found = source_events(
                tenant,
                SourceFilter(subject=external_user_id or "", writer=source_service or ""),
                before=cursor,
                limit=limit,
            )
        except BrokenCursor:
            raise Invalid("query", "cursor", "is not the nextCursor of a page") from None
    said: SourcePage = {"items": [source_item(row) for row in found.rows], "nextCursor": found.older}
    return answer(said)


@router.get("/tenant/source-events/{uuid:source_event}", auth=requires(Scope.READ), response=SourceItem)
def get_source_event(request: ApiRequest, source_event: UUID) -> HttpResponse:
    """One of them, with its payload until retention has taken it away; the hash stays."""
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        found: SourceEventRow | None = find_source_event(tenant, source_event)
    if found is None:
        raise NotFound("source event")
    return answer(source_item(found))
