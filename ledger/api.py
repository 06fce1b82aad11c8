"""What is remembered and who wrote it, over REST. The ledger follows the events; what can be handed in are entries as
they were read from a host's memory."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpResponse
from django.utils import timezone
from ninja import Query, Router
from typing_extensions import TypedDict  # the documentation needs this one below Python 3.12

from openwop_ui.rest import (
    LARGEST_PAGE,
    ApiError,
    ApiRequest,
    Invalid,
    NotFound,
    answer,
    json_body,
    refers_to,
    requires,
)
from openwop_ui.tenancy.models import Scope
from openwop_ui.tenancy.scope import tenant_scope
from runs import converters as _converters  # noqa: F401 - registers <projected:…>
from runs.domain.event import Refusal
from runs.domain.projection import project
from runs.models import Host
from runs.store import HostRef, ref

from . import queries
from .domain.memory_batch import NotABatch, read_batch
from .observations import Kept, Source, take_batch
from .policies import policy_of
from .queries import (
    BrokenCursor,
    EntryContent,
    EntryFacts,
    EntryFilter,
    EntryRow,
    ObservationRow,
    WriteList,
    WriteRow,
)

LONGEST_ID = 1500
"""Characters, as the protocol's schema of a memory entry has it."""
MAX_MEMORY_BYTES = 8 * 1024 * 1024
"""Largest body with memory entries: all of it is read before any of it is kept."""
LISTED = 1000
JSON = "application/json"

Limit = Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="The most items on the page")]

router = Router(tags=["ledger"])


class LastWrite(TypedDict):
    """The newest write by its reported time. `node` and `agent` are null where its event names none."""

    runId: str | None
    sequence: int | None
    at: datetime | None
    node: str | None
    agent: str | None


class EntryItem(TypedDict):
    """An entry that events speak of or that was seen. `path` is its address behind `/v1/ledger/entries/`; `writers`
    counts the different pairs of node and agent among its writes. `tags` are those of its newest write. `state` is
    announced, stored, expired, gone (no longer readable), deleted or erased; `excerpt` is the beginning of its content,
    where it is known and may be shown in a list."""

    host: str
    memoryRef: str
    memoryId: str
    path: str
    state: str
    excerpt: str | None
    expiresAt: datetime | None
    tags: list[str]
    writes: int
    writers: int
    lastWrite: LastWrite


class EntryPage(TypedDict):
    items: list[EntryItem]
    nextCursor: str | None


class WriteItem(TypedDict):
    """One `memory.written` event: the sequence of a run at which the entry was written. `at` is the host's time."""

    host: str
    runId: str
    runPath: str
    sequence: int
    at: datetime
    receivedAt: datetime | None
    node: str | None
    agent: str | None
    tags: list[str]


class WritePage(TypedDict):
    items: list[WriteItem]
    nextCursor: str | None


class ObservationItem(TypedDict):
    """The entry as it was found at `observedAt`, and unchanged at `until`. `outcome` is content, gone, deleted or
    erased, `source` is read, push, import or here. `content` is null where there was none, and once its time is past or
    it was deleted or erased; with `cut` it is the beginning of it only. `sha256` is over its UTF-8. `redactions` counts
    the markers that stand in place of secrets."""

    observedAt: datetime
    until: datetime
    outcome: str
    source: str
    content: str | None
    cut: bool
    sha256: str | None
    tags: list[str]
    createdAt: datetime | None
    expiresAt: datetime | None
    redactions: int
    looksSecret: bool
    changed: list[str]


class EntryDetail(TypedDict):
    """`unattributed` counts the writes that name no node; `repeats` are the times that forks told a source's write
    again: they are listed among the writes, and not counted as any. `stateReason` is empty where the state needs none.
    `content` is the newest that was seen, whole, and null unless the state is stored. `observations` are the newest of
    `observationsTotal`; `error` says why the last attempt to read the entry failed, which says nothing about the entry.
    """

    host: str
    memoryRef: str
    memoryId: str
    path: str
    state: str
    stateReason: str
    content: str | None
    createdAt: datetime | None
    expiresAt: datetime | None
    seenAt: datetime | None
    error: str | None
    observations: list[ObservationItem]
    observationsTotal: int
    tags: list[str]
    firstWriteAt: datetime | None
    lastWriteAt: datetime | None
    writesTotal: int
    writers: int
    runs: int
    unattributed: int
    repeats: int
    writes: WritePage


@router.get("/ledger/entries", auth=requires(Scope.READ), response=EntryPage)
def list_entries(
    request: ApiRequest,
    host: Annotated[str | None, Query(description="A host's slug", pattern=r"^[a-z0-9-]{1,63}$")] = None,
    ref: Annotated[str | None, Query(min_length=1, max_length=LONGEST_ID, description="A memory ref")] = None,
    node: Annotated[str | None, Query(min_length=1, max_length=LONGEST_ID, description="A node that wrote it")] = None,
    limit: Limit = 50,
    cursor: str | None = None,
) -> HttpResponse:
    """Memory entries, the last written first. Events announce entries and never hold their content, which is known only
    where a host's memory is read or was handed in."""
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        try:
            found = queries.entry_list(
                tenant, EntryFilter(host=host or "", ref=ref or "", node=node or ""), before=cursor, limit=limit
            )
        except BrokenCursor:
            raise _not_a_cursor() from None
    return answer({"items": [_entry_item(row) for row in found.rows], "nextCursor": found.older})


def _not_a_cursor() -> Invalid:
    return Invalid("query", "cursor", "is not the nextCursor of a page")


def _entry_item(row: EntryRow) -> EntryItem:
    return {
        "host": row.host,
        "memoryRef": row.memory_ref,
        "memoryId": row.memory_id,
        "path": _path(row),
        "state": row.state,
        "excerpt": row.excerpt,
        "expiresAt": row.expires_at,
        "tags": list(row.tags),
        "writes": row.writes,
        "writers": row.writers,
        "lastWrite": {
            "runId": row.run_id,
            "sequence": row.sequence,
            "at": row.last_write_at,
            "node": row.node,
            "agent": row.agent,
        },
    }


def _path(entry: EntryRow | EntryFacts) -> str:
    return f"{entry.host}/{project(entry.memory_ref)}/{project(entry.memory_id)}"


@router.get(
    "/ledger/entries/{slug:host}/{projected:memory_ref}/{projected:memory_id}",
    auth=requires(Scope.READ),
    response=EntryDetail,
)
def get_entry(
    request: ApiRequest, host: str, memory_ref: str, memory_id: str, limit: Limit = 50, cursor: str | None = None
) -> HttpResponse:
    """One entry with all of its writes, newest first and in pages: who wrote it, in which run, at which event."""
    tenant, now = request.auth.tenant_id, timezone.now()
    with tenant_scope(tenant):
        found = queries.find_entry(tenant, host, memory_ref, memory_id, now=now)
        if found is None:
            raise NotFound("entry")
        try:
            writes = queries.entry_writes(tenant, found.pk, before=cursor, limit=limit)
        except BrokenCursor:
            raise _not_a_cursor() from None
        content = queries.entry_content(tenant, found, now=now, whole=True)
    return answer(_entry_detail(found, writes, content))


def _entry_detail(entry: EntryFacts, writes: WriteList, content: EntryContent) -> EntryDetail:
    shown = content.shown
    return {
        "host": entry.host,
        "memoryRef": entry.memory_ref,
        "memoryId": entry.memory_id,
        "path": _path(entry),
        "state": entry.state,
        "stateReason": entry.state_reason,
        "content": shown.content if shown and entry.state == queries.STORED else None,
        "createdAt": shown.created_at if shown else None,
        "expiresAt": shown.expires_at if shown else None,
        "seenAt": content.seen_at,
        "error": content.error or None,
        "observations": [_observation_item(row) for row in content.rows],
        "observationsTotal": content.total,
        "tags": list(entry.tags),
        "firstWriteAt": entry.first_write_at,
        "lastWriteAt": entry.last_write_at,
        "writesTotal": entry.writes,
        "writers": entry.writers,
        "runs": entry.runs,
        "unattributed": entry.unattributed,
        "repeats": entry.repeats,
        "writes": {"items": [_write_item(row) for row in writes.rows], "nextCursor": writes.older},
    }


def _observation_item(row: ObservationRow) -> ObservationItem:
    return {
        "observedAt": row.observed_at,
        "until": row.until,
        "outcome": row.outcome,
        "source": row.source,
        "content": row.content,
        "cut": row.is_cut,
        "sha256": row.digest,
        "tags": list(row.tags),
        "createdAt": row.created_at,
        "expiresAt": row.expires_at,
        "redactions": row.redactions,
        "looksSecret": row.looks_secret,
        "changed": list(row.changed),
    }


def _write_item(row: WriteRow) -> WriteItem:
    return {
        "host": row.host,
        "runId": row.run_id,
        "runPath": project(row.run_id),
        "sequence": row.sequence,
        "at": row.at,
        "receivedAt": row.received_at,
        "node": row.node,
        "agent": row.agent,
        "tags": list(row.tags),
    }


class RefusedEntry(TypedDict):
    """`index` is the entry's place among those handed in, from 0. `field` is the member that is to blame, if one is."""

    index: int
    reason: str
    field: str | None


class MemoryReceipt(TypedDict):
    """What became of the entries. `accepted` ones say something new about what memory holds, `repeated` ones what was
    known. The first thousand refused ones are listed."""

    accepted: int
    repeated: int
    refused: list[RefusedEntry]
    refusedTotal: int


_ENTRIES_IN = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {
                "schema": {
                    "type": "object",
                    "required": ["memoryRef", "entries"],
                    "properties": {
                        "memoryRef": {"type": "string", "minLength": 1, "description": "The scope they were read in"},
                        "entries": {"type": "array", "items": {"$ref": "/schemas/memory-entry.json"}},
                    },
                }
            }
        },
    },
    "responses": {
        409: refers_to("error", "`own_memory`: the host is this ledger itself"),
        413: refers_to("error", "Larger than MAX_MEMORY_BYTES"),
        415: refers_to("error", "Not JSON"),
        422: {"description": "Not entries of one scope, or every entry was refused"},
    },
}


@router.put("/hosts/{slug:host}/memory", auth=requires(Scope.INGEST), response=MemoryReceipt, openapi_extra=_ENTRIES_IN)
def put_memory(request: ApiRequest, host: str) -> HttpResponse:
    """Takes entries as they were read from a host's memory. Each is kept as what was seen now: what was seen before
    stays beside it. Bad entries are refused by themselves; the others are on disk when the answer comes.
    """
    known = _host(request, host)
    if known.id == policy_of(known.tenant_id).own_host:
        raise ApiError(409, "own_memory", "What is kept here is not read from a host: POST /v1/memory puts an entry.")
    try:
        batch = read_batch(json_body(request, limit="MAX_MEMORY_BYTES", most=MAX_MEMORY_BYTES))
    except NotABatch as problem:
        raise Invalid("body", problem.field, str(problem)) from None
    return _receipt_answer(take_batch(known, batch, source=Source.PUSH), batch.refused)


def _host(request: ApiRequest, slug: str) -> HostRef:
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        host = Host.objects.filter(tenant_id=tenant, slug=slug).first()
    if host is None:
        raise NotFound("host")
    return ref(host)


def _receipt_answer(kept: Kept, refused: tuple[Refusal, ...]) -> HttpResponse:
    said: MemoryReceipt = {
        "accepted": kept.changed,
        "repeated": kept.same + kept.late,
        "refused": [{"index": one.index, "reason": one.reason, "field": one.field} for one in refused[:LISTED]],
        "refusedTotal": len(refused),
    }
    if refused and not kept.changed + kept.same + kept.late:
        failed: dict[str, Any] = {"error": "all_refused", "message": "Every entry was refused.", **said}
        return answer(failed, status=422)
    return answer(said)
