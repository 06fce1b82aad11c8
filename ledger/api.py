"""What is remembered and who wrote it, over REST. Reads only: the ledger follows the events."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from django.http import HttpResponse
from ninja import Query, Router
from typing_extensions import TypedDict  # the documentation needs this one below Python 3.12

from openwop_ui.rest import LARGEST_PAGE, ApiRequest, Invalid, NotFound, answer, requires
from openwop_ui.tenancy.models import Scope
from openwop_ui.tenancy.scope import tenant_scope
from runs import converters as _converters  # noqa: F401 - registers <projected:…>
from runs.domain.projection import project

from . import queries
from .queries import BrokenCursor, EntryFacts, EntryFilter, EntryRow, WriteList, WriteRow

LONGEST_ID = 1500
"""Characters, as the protocol's schema of a memory entry has it."""

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
    """An entry that events speak of. `path` is its address behind `/v1/ledger/entries/`; `writers` counts the
    different pairs of node and agent among its writes. `tags` are those of its newest write."""

    host: str
    memoryRef: str
    memoryId: str
    path: str
    state: str
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


class EntryDetail(TypedDict):
    """`unattributed` counts the writes that name no node. `stateReason` is empty where the state needs none."""

    host: str
    memoryRef: str
    memoryId: str
    path: str
    state: str
    stateReason: str
    tags: list[str]
    firstWriteAt: datetime | None
    lastWriteAt: datetime | None
    writesTotal: int
    writers: int
    runs: int
    unattributed: int
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
    """Memory entries, the last written first. Events announce entries and never hold their content."""
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
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        found = queries.find_entry(tenant, host, memory_ref, memory_id)
        if found is None:
            raise NotFound("entry")
        try:
            writes = queries.entry_writes(tenant, found.pk, before=cursor, limit=limit)
        except BrokenCursor:
            raise _not_a_cursor() from None
    return answer(_entry_detail(found, writes))


def _entry_detail(entry: EntryFacts, writes: WriteList) -> EntryDetail:
    return {
        "host": entry.host,
        "memoryRef": entry.memory_ref,
        "memoryId": entry.memory_id,
        "path": _path(entry),
        "state": entry.state,
        "stateReason": entry.state_reason,
        "tags": list(entry.tags),
        "firstWriteAt": entry.first_write_at,
        "lastWriteAt": entry.last_write_at,
        "writesTotal": entry.writes,
        "writers": entry.writers,
        "runs": entry.runs,
        "unattributed": entry.unattributed,
        "writes": {"items": [_write_item(row) for row in writes.rows], "nextCursor": writes.older},
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
