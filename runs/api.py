"""Hosts, runs and their events over REST."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal

from django.conf import settings
from django.http import HttpResponse
from django.http.request import UnreadablePostError
from ninja import Query, Router
from typing_extensions import TypedDict  # the documentation needs this one below Python 3.12

from openwop_ui.rest import (
    LARGEST_PAGE,
    ApiError,
    ApiRequest,
    Invalid,
    NotFound,
    Unsupported,
    answer,
    dumps,
    json_response,
    refers_to,
    requires,
)
from openwop_ui.tenancy.models import Scope
from openwop_ui.tenancy.scope import tenant_scope

from . import converters as _converters  # noqa: F401 - registers <projected:…>
from . import queries
from .domain.formats import CLOUDEVENT, CLOUDEVENT_BATCH, NDJSON_TYPES, Format
from .domain.limits import LimitExceeded
from .domain.normalise import MAX_ID_LENGTH, MAX_SEQUENCE
from .domain.projection import project, unproject
from .doors import BUNDLE, CHUNK, ENCODINGS, JSON, NDJSON, Items, read_items, take
from .models import Host
from .queries import EventFilter, HostRow, RunFacts, RunFilter, RunRow, View
from .store import HostRef, Receipt, ref

EVENT_TYPES = [JSON, NDJSON, CLOUDEVENT, CLOUDEVENT_BATCH]
BUNDLE_TYPES = [JSON]
SUPPORTED_ENCODINGS = [*ENCODINGS, "identity"]
PAGE_BYTES = 8 * 1024 * 1024
"""A page of events ends with the one that takes it over this, however many were asked for."""
FIRST_STEP = 16

Limit = Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="The most items on the page")]

router = Router(tags=["runs"])


class RunItem(TypedDict):
    """A run. `path` is its id as a path segment; `missing` counts the sequences that its log has a gap at."""

    host: str
    runId: str
    path: str
    workflowId: str | None
    status: str
    startedAt: datetime | None
    endedAt: datetime | None
    lastEventAt: datetime | None
    receivedAt: datetime | None
    events: int
    missing: int
    nodes: int
    writes: int


class RunDetail(RunItem):
    """`through` is the last sequence up to which the log has no gap, null while its beginning is missing.
    `attributedPercent` of the memory writes name their node, null when there are none."""

    terminal: bool
    major: int | None
    firstSequence: int | None
    lastSequence: int | None
    through: int | None
    durationSeconds: float | None
    attributedPercent: int | None
    leaks: int


class RunPage(TypedDict):
    items: list[RunItem]
    nextCursor: str | None


class HostItem(TypedDict):
    """`state` is following, reconnecting, failing, paused or idle, or delivers for a host without an origin."""

    slug: str
    name: str
    origin: str | None
    major: int | None
    state: str
    detail: str
    runs: int
    events: int
    writes: int
    attributedPercent: int | None
    leaking: bool
    incidents: int
    receivedAt: datetime | None


class HostPage(TypedDict):
    items: list[HostItem]
    nextCursor: str | None


_RECEIVED = {
    200: refers_to("receipt", "Committed. The receipt says what became of each event"),
    400: refers_to("error", "The packing is broken; `details.receipt` says what was stored before that"),
    413: refers_to("error", "Larger than the limit that it names; `details.receipt` says what was stored before that"),
    415: refers_to("error", "Not a form that is read here; `details.supported` names those that are"),
    422: refers_to("receipt", "Every event was refused; the receipt says why"),
}
_EVENTS_IN = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {
                "schema": {
                    "oneOf": [
                        {"type": "array", "items": {"$ref": "/schemas/run-event.json"}},
                        {"$ref": "/schemas/run-event.json"},
                    ]
                }
            },
            NDJSON: {"schema": {"type": "string", "description": "One event a line"}},
            CLOUDEVENT: {"schema": {"type": "object", "description": "One event in a CloudEvents 1.0 envelope"}},
            CLOUDEVENT_BATCH: {"schema": {"type": "array", "items": {"type": "object"}}},
        },
    },
    "responses": _RECEIVED,
}
_BUNDLE_IN = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {
                "schema": {
                    "type": "object",
                    "required": ["events"],
                    "properties": {"events": {"type": "array", "items": {"type": "object"}}},
                }
            }
        },
    },
    "responses": _RECEIVED,
}
_EVENTS_OUT = {
    "responses": {
        200: {
            "description": "The events as the host sent them",
            "content": {
                JSON: {
                    "schema": {
                        "type": "object",
                        "required": ["items", "nextCursor"],
                        "properties": {
                            "items": {"type": "array", "items": {"$ref": "/schemas/run-event.json"}},
                            "nextCursor": {"type": ["string", "null"]},
                        },
                    }
                }
            },
        }
    }
}


OneRun = Annotated[
    str | None, Query(min_length=1, max_length=MAX_ID_LENGTH, description="Refuse events of any other run")
]


@router.post("/hosts/{slug:host}/events", auth=requires(Scope.INGEST), openapi_extra=_EVENTS_IN)
def push_events(request: ApiRequest, host: str, run: OneRun = None) -> HttpResponse:
    """Takes in events of a host, in any order and as often as you like: a known event is counted as repeated.

    The answer comes once everything that it counts is on disk. Send gzip or zstd with a `Content-Encoding`.
    """
    return _taken_in(request, host, run=run, supported=EVENT_TYPES)


@router.post("/hosts/{slug:host}/bundle", auth=requires(Scope.INGEST), openapi_extra=_BUNDLE_IN)
def push_bundle(request: ApiRequest, host: str, run: OneRun = None) -> HttpResponse:
    """Takes in a debug bundle of a host: its events like any others, and what it says of its run beside them.

    A bundle is read as a whole, up to 64 MiB unpacked. Where the host cut it, the receipt says so as an incident.
    """
    return _taken_in(request, host, run=run, supported=BUNDLE_TYPES, form=BUNDLE)


def _taken_in(
    request: ApiRequest, slug: str, *, run: str | None, supported: list[str], form: Format | None = None
) -> HttpResponse:
    host = _host(request, slug)
    items = read_items(
        _body(request),
        content_type=_content_type(request, supported),
        encoding=_encoding(request),
        run_id=run,
        form=form,
    )
    try:
        receipt = take(host, items)
    except UnreadablePostError:
        raise ApiError(400, "incomplete_body", "The body ended before its end.") from None
    return _receipt_answer(receipt, items)


def _receipt_answer(receipt: Receipt, items: Items) -> HttpResponse:
    said = receipt.as_json()
    if isinstance(items.broken, LimitExceeded):
        raise _too_large(items.broken, receipt=said)
    if items.broken:
        raise ApiError(400, "unreadable_body", f"The body can not be read: {items.broken}.", details={"receipt": said})
    if receipt.refused_total and not receipt.taken:
        return answer({"error": "all_refused", "message": "Every event was refused.", **said}, status=422)
    return answer(said)


def _too_large(exceeded: LimitExceeded, *, receipt: dict[str, Any] | None = None) -> ApiError:
    details: dict[str, Any] = {"limit": exceeded.name, "bytes": exceeded.limit}
    if receipt is not None:
        details["receipt"] = receipt
    became = "What came before that is stored." if receipt else "It was not read."
    return ApiError(413, "too_large", f"The body has {exceeded}. {became}", details=details)


def _host(request: ApiRequest, slug: str) -> HostRef:
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        host = Host.objects.filter(tenant_id=tenant, slug=slug).first()
    if host is None:
        raise NotFound("host")
    return ref(host)


def _content_type(request: ApiRequest, supported: list[str]) -> str:
    given = (request.content_type or "").lower()
    if given not in supported and not (NDJSON in supported and given in NDJSON_TYPES):
        raise Unsupported(f"Content-Type {given or 'is missing'}: it is {' or '.join(supported)}.", supported=supported)
    return given


def _encoding(request: ApiRequest) -> str:
    given = request.headers.get("Content-Encoding", "identity").strip().lower().removeprefix("x-")
    if given not in SUPPORTED_ENCODINGS:
        # RFC 9110, section 12.5.3: Accept-Encoding in an answer says what to send instead.
        raise Unsupported(
            f"Content-Encoding {given}: it is {' or '.join(SUPPORTED_ENCODINGS)}.",
            supported=SUPPORTED_ENCODINGS,
            headers={"Accept-Encoding": ", ".join(SUPPORTED_ENCODINGS)},
        )
    return given


def _body(request: ApiRequest) -> Iterator[bytes]:
    """The body as it comes, in memory of one chunk. One that says that it is too large is not read at all."""
    declared = request.headers.get("Content-Length", "")
    if declared.isdigit() and int(declared) > settings.MAX_BODY_BYTES:
        raise _too_large(LimitExceeded("MAX_BODY_BYTES", settings.MAX_BODY_BYTES))
    return iter(lambda: request.read(CHUNK), b"")


@router.get("/runs", auth=requires(Scope.READ), response=RunPage)
def list_runs(
    request: ApiRequest,
    host: Annotated[str | None, Query(description="A host's slug", pattern=r"^[a-z0-9-]{1,63}$")] = None,
    status: Annotated[str | None, Query(max_length=100)] = None,
    q: Annotated[str | None, Query(max_length=MAX_ID_LENGTH, description="Part of a run's or workflow's id")] = None,
    limit: Limit = 50,
    cursor: str | None = None,
) -> HttpResponse:
    """Runs of all hosts or one, newest first."""
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        found = queries.run_list(
            tenant,
            RunFilter(status=status or "", host=host or "", q=q or ""),
            before=_place_of(tenant, cursor),
            limit=limit,
        )
    return answer(
        {
            "items": [_run_item(row) for row in found.rows],
            # The run itself, not its row's number, which would tell how much other tenants store.
            "nextCursor": f"{found.rows[-1].host}/{project(found.rows[-1].run_id)}" if found.older else None,
        }
    )


def _place_of(tenant: int, cursor: str | None) -> int | None:
    if cursor is None:
        return None
    host, _, segment = cursor.partition("/")
    try:
        run = queries.find_run(tenant, host, unproject(segment)) if host.isascii() and "\0" not in host else None
    except ValueError:
        run = None
    if run is None:
        raise Invalid("query", "cursor", "is not the nextCursor of a page")
    return run.pk


def _run_item(run: RunRow | RunFacts) -> RunItem:
    return {
        "host": run.host,
        "runId": run.run_id,
        "path": project(run.run_id),
        "workflowId": run.workflow,
        "status": run.status,
        "startedAt": run.started_at,
        "endedAt": run.ended_at,
        "lastEventAt": run.last_at,
        "receivedAt": run.received_at,
        "events": run.events,
        "missing": run.missing if isinstance(run, RunRow) else run.expected - run.events,
        "nodes": run.nodes or 0,
        "writes": run.writes,
    }


@router.get("/hosts/{slug:host}/runs/{projected:run}", auth=requires(Scope.READ), response=RunDetail)
def get_run(request: ApiRequest, host: str, run: str) -> HttpResponse:
    """One run and what its events add up to."""
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        found = _run(tenant, host, run)
    said: RunDetail = {
        **_run_item(found),
        "terminal": found.terminal,
        "major": found.major,
        "firstSequence": found.first_sequence,
        "lastSequence": found.last_sequence,
        "through": found.through,
        "durationSeconds": found.duration,
        "attributedPercent": found.attributed,
        "leaks": found.leaks,
    }
    return answer(said)


def _run(tenant: int, host: str, run_id: str) -> RunFacts:
    found = queries.find_run(tenant, host, run_id)
    if found is None:
        raise NotFound("run")
    return found


@router.get("/hosts/{slug:host}/runs/{projected:run}/events", auth=requires(Scope.READ), openapi_extra=_EVENTS_OUT)
def list_events(
    request: ApiRequest,
    host: str,
    run: str,
    after: Annotated[int, Query(ge=-1, le=MAX_SEQUENCE, description="The last sequence already there")] = -1,
    limit: Limit = 200,
    node: Annotated[str | None, Query(min_length=1, max_length=MAX_ID_LENGTH)] = None,
    type: Annotated[
        str | None, Query(min_length=1, max_length=256, description="A type in the first major's spelling")
    ] = None,
) -> HttpResponse:
    """The log, ascending. Each item is the event's own JSON text as the host sent it, digit for digit, but for
    content and credentials, which are replaced on the way in. Pushing the items to a host again changes nothing.

    `nextCursor` is the next page's `after`. A page of large events has fewer of them than were asked for.
    """
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        found = _run(tenant, host, run)
        wanted = EventFilter(node=node or "", type=type or "")
        bodies, more = _bodies(tenant, found.pk, wanted, after=after, limit=limit)
    cursor = dumps(str(bodies[-1][0]) if bodies and more else None)
    items = b",".join(body.encode() for _, body in bodies)
    return json_response(b'{"items":[' + items + b'],"nextCursor":' + cursor + b"}")


def _bodies(
    tenant: int, run: int, wanted: EventFilter, *, after: int, limit: int
) -> tuple[list[tuple[int, str]], bool]:
    """Up to ``limit`` events, in steps sized by those before, so that a page of the largest ones fits into memory."""
    found: list[tuple[int, str]] = []
    size, step, more = 0, min(FIRST_STEP, limit), True
    while more and len(found) < limit and size < PAGE_BYTES:
        part, more = queries.event_bodies(tenant, run, wanted, after=after, limit=step)
        found += part
        size += sum(len(body) for _, body in part)
        if not part:
            break
        after = part[-1][0]
        average = size // len(found) + 1
        step = max(1, min(limit - len(found), (PAGE_BYTES - size) // average))
    return found, more


Text = Annotated[str, Query(max_length=MAX_ID_LENGTH)]


@router.get("/hosts/{slug:host}/runs/{projected:run}/timeline", auth=requires(Scope.READ))
def get_timeline(
    request: ApiRequest,
    host: str,
    run: str,
    start: Annotated[int | None, Query(alias="from", ge=0, le=MAX_SEQUENCE, description="First sequence")] = None,
    end: Annotated[int | None, Query(alias="to", ge=0, le=MAX_SEQUENCE, description="Last sequence")] = None,
    width: Annotated[int, Query(ge=1, le=8000, description="Pixels to draw on")] = 1200,
    axis: Annotated[Literal["time", "sequence"], Query(description="What the bins are cut by")] = "time",
    row: Annotated[int, Query(ge=0, le=MAX_SEQUENCE, description="The first lane, from 0")] = 0,
    rows: Annotated[int, Query(ge=1, le=120, description="The most lanes")] = 60,
    node: Text = "",
    type: Text = "",
    kind: Text = "",
    q: Annotated[str, Query(max_length=300, description="Text of ids, names and payloads")] = "",
    show: Annotated[Literal["", "relevant", "memory", "errors"], Query()] = "",
) -> HttpResponse:
    """What the timeline draws: of lanes the attempts where those are few, else counts by bin and the long stretches;
    memory writes, marks, idle gaps, and the events themselves where few are in view.

    `cells` are four numbers each: bins after the cell before, events, the worst state (0 none, 1 live, 2 wait, 3 ok,
    4 cancelled, 5 fail), its first sequence after the first one of the cell before. `bars` are stretches: first and
    last sequence, first and last time in microseconds, state. The filters are those of the run page.
    """
    if start is not None and end is not None and start > end:
        raise Invalid("query", "from", f"is behind `to` ({end})")
    tenant = request.auth.tenant_id
    wanted = EventFilter(node=node, type=type, kind=kind, q=q.strip(), show=show)
    view = View(start=start, end=end, width=width, axis=axis, rows=(row, row + rows), filter=wanted)
    with tenant_scope(tenant):
        found = _run(tenant, host, run)
        return answer(queries.timeline(tenant, found, view))


@router.get("/hosts", auth=requires(Scope.READ), response=HostPage)
def list_hosts(request: ApiRequest) -> HttpResponse:
    """All hosts, by their slugs."""
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        rows = queries.host_rows(tenant)
    return answer({"items": [_host_item(row) for row in rows], "nextCursor": None})


@router.get("/hosts/{slug:host}", auth=requires(Scope.READ), response=HostItem)
def get_host(request: ApiRequest, host: str) -> HttpResponse:
    """One host and what its runs add up to."""
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        rows = queries.host_rows(tenant, slug=host)
    if not rows:
        raise NotFound("host")
    return answer(_host_item(rows[0]))


def _host_item(host: HostRow) -> HostItem:
    return {
        "slug": host.slug,
        "name": host.name,
        "origin": host.origin,
        "major": host.major,
        "state": host.state,
        "detail": host.detail,
        "runs": host.runs,
        "events": host.events,
        "writes": host.writes,
        "attributedPercent": host.attributed,
        "leaking": host.leaking,
        "incidents": host.incidents,
        "receivedAt": host.received_at,
    }
