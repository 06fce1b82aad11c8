"""The memory contract over REST: what is remembered, put and deleted here, and what was seen of a host's entries."""

from __future__ import annotations

from datetime import datetime
from typing import (
    Annotated,
    Any,
    NotRequired,  # the documentation needs this one below Python 3.12
)

import orjson
from django.http import HttpResponse
from ninja import Query, Router
from typing_extensions import TypedDict

from openwop_ui.rest import ApiError, ApiRequest, Invalid, NotFound, answer, json_body, refers_to, requires
from openwop_ui.tenancy.models import Scope
from openwop_ui.tenancy.scope import tenant_scope
from runs import converters as _converters  # noqa: F401 - registers <projected:…>
from runs.models import Host

from . import own_memory, run_secrets
from .domain.errors import LedgerError
from .domain.memory_put import is_ref, read_put
from .domain.redaction import SecretLeakage
from .domain.snapshot_rule import MAX_PAGE, MAX_TAG_LENGTH
from .policies import policy_of
from .queries.own_memory import (
    ManyRuns,
    MemoryEntryRow,
    NamedRun,
    Visible,
    memory_entry,
    memory_list,
    named_run,
)
from .queries.paging import BrokenCursor

MAX_PUT_BYTES = 8 * 1024 * 1024
"""Largest body with one entry: JSON may spell a byte with six, and an entry has its own limit."""
MAX_SECRETS_BYTES = 4 * 1024 * 1024
JSON = "application/json"

Ref = Annotated[str, Query(description="A memory ref. One that is unknown, foreign or malformed has no entries")]
RunName = Annotated[
    str | None,
    Query(
        max_length=1500, description="The calling run, by its id or as host/id: what is seen is what it saw at start"
    ),
]
HostName = Annotated[
    str | None, Query(pattern=r"^[a-z0-9-]{1,63}$", description="A host's slug: what was seen of its entries")
]

router = Router(tags=["memory"])


class Entry(TypedDict):
    """As `/schemas/memory-entry.json`. `createdAt` never changes, `expiresAt` is only there when it was given."""

    id: str
    content: str
    tags: list[str]
    createdAt: datetime
    expiresAt: NotRequired[datetime]


class Entries(TypedDict):
    memoryRef: str
    entries: list[Entry]
    nextCursor: str | None


class OneEntry(TypedDict):
    memoryRef: str
    entry: Entry


class Removed(TypedDict):
    """`removed` says whether this call took it away: False for one that is not there, for whatever reason."""

    memoryRef: str
    memoryId: str
    removed: bool


@router.get("/memory", auth=requires(Scope.READ), response=Entries)
def list_memory(
    request: ApiRequest,
    memoryRef: Ref,
    host: HostName = None,
    tag: Annotated[str | None, Query(max_length=MAX_TAG_LENGTH, description="Only entries that have this tag")] = None,
    limit: Annotated[int, Query(ge=0, description=f"The most entries; 0 for no limit. A page has {MAX_PAGE}")] = 0,
    run: RunName = None,
    cursor: str | None = None,
) -> HttpResponse:
    """Entries of a memory ref, newest first: those that are kept here, or with `host` those that were seen of a host's,
    where `createdAt` is the time at which an entry was first seen if its host gives none.

    With `run` the answer is what was visible when that run started, or the run that it replays, whatever has been
    written, expired or deleted since.
    """
    tenant = request.auth.tenant_id
    visible = _visible(tenant, run)
    said: Entries = {"memoryRef": memoryRef, "entries": [], "nextCursor": None}
    place = _place(tenant, host) if is_ref(memoryRef) else None
    if place is not None:
        with tenant_scope(tenant):
            try:
                found = memory_list(
                    tenant,
                    place[0],
                    memoryRef,
                    is_own=place[1],
                    visible=visible,
                    tag=tag,
                    limit=limit,
                    cursor=cursor,
                )
            except BrokenCursor:
                raise Invalid("query", "cursor", "is not the nextCursor of a page") from None
        said["entries"] = [_entry(row) for row in found.rows]
        said["nextCursor"] = found.next
    return answer(said)


@router.get("/memory/{projected:memory_id}", auth=requires(Scope.READ), response=OneEntry)
def get_memory(
    request: ApiRequest, memory_id: str, memoryRef: Ref, host: HostName = None, run: RunName = None
) -> HttpResponse:
    """One entry; 404 for one that is unknown, expired, deleted or another tenant's alike."""
    tenant = request.auth.tenant_id
    visible = _visible(tenant, run)
    place = _place(tenant, host) if is_ref(memoryRef) else None
    found = None
    if place is not None:
        with tenant_scope(tenant):
            found = memory_entry(tenant, place[0], memoryRef, memory_id, is_own=place[1], visible=visible)
    if found is None:
        raise NotFound("entry")
    said: OneEntry = {"memoryRef": memoryRef, "entry": _entry(found)}
    return answer(said)


_PUT = {
    "requestBody": {
        "required": True,
        "content": {JSON: {"schema": {"$ref": "/schemas/memory-put.json"}}},
    },
    "responses": {
        413: refers_to("error", "Larger than the maxEntrySizeBytes of the tenant, or than MAX_PUT_BYTES"),
        415: refers_to("error", "Not JSON"),
        422: refers_to("error", "Not an entry, one that has expired already, or `secret_leakage`"),
    },
}


@router.post("/memory", auth=requires(Scope.WRITE), response={201: OneEntry}, openapi_extra=_PUT)
def put_memory_entry(request: ApiRequest) -> HttpResponse:
    """Keeps an entry. Its id and time of creation are made here; who wrote it is the key, whatever the body says.

    Secrets in content and tags are replaced by `[REDACTED:<id>]` before anything is stored, those registered for the
    `run` that is named and those that look like one, or the entry is refused with `secret_leakage`: as the tenant has
    it.
    """
    caller = request.auth
    body = json_body(request, limit="MAX_PUT_BYTES", most=MAX_PUT_BYTES)
    try:
        asked = read_put(body)
        run = _run(caller.tenant_id, asked.run, place="body") if asked.run else None
        kept = own_memory.put(caller=caller, asked=asked, run=run)
    except own_memory.EntryTooLarge as problem:
        details = {"limit": "maxEntrySizeBytes", "bytes": problem.limit}
        raise ApiError(413, "too_large", f"{_sentence(problem)} It was not kept.", details=details) from None
    except LedgerError as problem:
        raise _refused(problem) from None
    said: OneEntry = {"memoryRef": asked.memory_ref, "entry": _entry(kept.entry)}
    return answer(said, status=201)


@router.delete("/memory/{projected:memory_id}", auth=requires(Scope.WRITE), response=Removed)
def delete_memory(request: ApiRequest, memory_id: str, memoryRef: Ref) -> HttpResponse:
    """Takes an entry out of memory: from now on neither list nor get gives it, but for runs that began before. Its
    content is kept for those; erasing it for good is another thing."""
    is_removed = is_ref(memoryRef) and own_memory.delete(caller=request.auth, memory_ref=memoryRef, memory_id=memory_id)
    said: Removed = {"memoryRef": memoryRef, "memoryId": memory_id, "removed": is_removed}
    return answer(said)


# --- The secrets of a run ---


class Registered(TypedDict):
    """The ids of what is known of this call, and of the values that are too short to be looked for."""

    registered: list[str]
    tooShort: list[str]


class Forgotten(TypedDict):
    forgotten: int


_SECRETS = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {
                "schema": {
                    "type": "object",
                    "required": ["secrets"],
                    "additionalProperties": False,
                    "properties": {
                        "secrets": {
                            "type": "object",
                            "additionalProperties": {"type": "string", "minLength": 1},
                            "description": "Value by id. The id stands in the mark that replaces the value.",
                        }
                    },
                }
            }
        },
    },
    "responses": {
        409: refers_to("error", "`run_ended`: the run is over"),
        413: refers_to("error", "Larger than MAX_SECRETS_BYTES"),
        415: refers_to("error", "Not JSON"),
        422: refers_to("error", "Not secrets by their ids"),
    },
}


@router.put(
    "/hosts/{slug:host}/runs/{projected:run}/secrets",
    auth=requires(Scope.WRITE),
    response=Registered,
    openapi_extra=_SECRETS,
)
def put_run_secrets(request: ApiRequest, host: str, run: str) -> HttpResponse:
    """Makes secrets known for as long as the run lasts, sealed: they are taken out of what is put for it. They are gone
    with the run's end, and a day later where nothing is ever heard of the run."""
    tenant = request.auth.tenant_id
    known = _host(tenant, host)
    secrets = _secrets(json_body(request, limit="MAX_SECRETS_BYTES", most=MAX_SECRETS_BYTES))
    try:
        short = run_secrets.register(tenant_id=tenant, host_id=known.pk, run_id=run, secrets=secrets)
    except run_secrets.RunHasEnded:
        raise ApiError(409, "run_ended", "The run is over, and so are its secrets.") from None
    except run_secrets.SecretRefused as problem:
        raise Invalid("body", "secrets", str(problem)) from None
    said: Registered = {"registered": sorted(secrets.keys() - set(short)), "tooShort": short}
    return answer(said)


@router.delete("/hosts/{slug:host}/runs/{projected:run}/secrets", auth=requires(Scope.WRITE), response=Forgotten)
def delete_run_secrets(request: ApiRequest, host: str, run: str) -> HttpResponse:
    """Forgets the secrets of a run before its end."""
    tenant = request.auth.tenant_id
    count = run_secrets.forget(tenant_id=tenant, host_id=_host(tenant, host).pk, run_id=run)
    said: Forgotten = {"forgotten": count}
    return answer(said)


def _secrets(body: bytes) -> dict[str, str]:
    try:
        told = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise Invalid("body", "body", "is no JSON") from None
    if not isinstance(told, dict) or told.keys() != {"secrets"} or not isinstance(told["secrets"], dict):
        raise Invalid("body", "secrets", "is the one member of the body: an object of values by id")
    secrets: dict[str, Any] = told["secrets"]
    if not all(isinstance(value, str) for value in secrets.values()):
        raise Invalid("body", "secrets", "has a value that is no text")
    return secrets


# --- What the calls share ---


def _visible(tenant_id: int, run: str | None) -> Visible:
    if run is None:
        return Visible()
    named = _run(tenant_id, run, place="query")
    if named.pk is None:
        raise NotFound("run")
    return own_memory.snapshot_of(tenant_id=tenant_id, run=named.pk)


def _run(tenant_id: int, name: str, *, place: str) -> NamedRun:
    try:
        with tenant_scope(tenant_id):
            named = named_run(tenant_id, name)
    except ManyRuns:
        raise Invalid(place, "run", "is a run of several hosts; say it as host/run") from None
    if named is None:
        raise NotFound("run")
    return named


def _place(tenant_id: int, host: str | None) -> tuple[int, bool] | None:
    """The host whose entries are meant, and whether they are those kept here. None where there can be no entries."""
    own = policy_of(tenant_id).own_host
    if host is None:
        return None if own is None else (own, True)
    with tenant_scope(tenant_id):
        named = Host.objects.filter(tenant_id=tenant_id, slug=host).first()
    return None if named is None else (named.pk, named.pk == own)


def _host(tenant_id: int, slug: str) -> Host:
    with tenant_scope(tenant_id):
        found = Host.objects.filter(tenant_id=tenant_id, slug=slug).first()
    if found is None:
        raise NotFound("host")
    return found


def _entry(row: MemoryEntryRow) -> Entry:
    said: Entry = {"id": row.id, "content": row.content, "tags": list(row.tags), "createdAt": row.created_at}
    if row.expires_at is not None:
        said["expiresAt"] = row.expires_at
    return said


def _refused(problem: LedgerError) -> ApiError:
    if isinstance(problem, SecretLeakage):
        return ApiError(422, problem.code, _sentence(problem), details={"found": list(problem.found)})
    field = problem.field or "body"
    return Invalid("body", field, str(problem).removeprefix(f"{field.rpartition('.')[2]} "))


def _sentence(problem: LedgerError) -> str:
    words = str(problem)
    return f"{words[:1].upper()}{words[1:]}."
