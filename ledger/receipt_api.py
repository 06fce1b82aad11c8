"""What became of attempted memory writes, over REST: of a run, of an entry, of the tenant."""

from __future__ import annotations

from typing import Annotated, Literal

from django.http import HttpResponse
from django.utils import timezone
from ninja import Query, Router
from typing_extensions import TypedDict  # the documentation needs this one below Python 3.12

from openwop_ui.rest import LARGEST_PAGE, ApiRequest, Invalid, NotFound, answer, requires
from openwop_ui.tenancy.models import Scope
from openwop_ui.tenancy.scope import tenant_scope
from runs import converters as _converters  # noqa: F401 - registers <projected:…>
from runs.queries import find_run

from .queries import BrokenCursor, find_entry
from .queries.receipts import ReceiptFilter, receipt_counts, receipt_list, unasked_writes
from .receipt_items import CountsItem, ReceiptItem, UnaskedItem, counts_item, receipt_item, unasked_item

Limit = Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="The most items on the page")]
State = Literal["requested", "waiting", "refused", "unknown", "confirmed"]
Show = Annotated[
    Literal["attempts", "claimed_only", "unasked"],
    Query(
        description="attempts; claimed_only: those of them that a tool claims and no event shows; unasked: the writes"
        " that no attempt accounts for"
    ),
]


class ReceiptPage(TypedDict):
    items: list[ReceiptItem | UnaskedItem]
    nextCursor: str | None
    counts: CountsItem


router = Router(tags=["receipts"])


@router.get("/hosts/{slug:host}/runs/{projected:run}/receipts", auth=requires(Scope.READ), response=ReceiptPage)
def run_receipts(
    request: ApiRequest,
    host: str,
    run: str,
    show: Show = "attempts",
    state: State | None = None,
    limit: Limit = 50,
    cursor: str | None = None,
) -> HttpResponse:
    """What became of each memory write that was attempted in a run, in the order of its log."""
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        found = find_run(tenant, host, run)
        if found is None:
            raise NotFound("run")
        return _page(tenant, ReceiptFilter(state=state or "", run_pk=found.pk), show, limit, cursor)


@router.get(
    "/ledger/entries/{slug:host}/{projected:memory_ref}/{projected:memory_id}/receipts",
    auth=requires(Scope.READ),
    response=ReceiptPage,
)
def entry_receipts(
    request: ApiRequest,
    host: str,
    memory_ref: str,
    memory_id: str,
    state: State | None = None,
    limit: Limit = 50,
    cursor: str | None = None,
) -> HttpResponse:
    """The attempts that are about one entry, newest first. `unasked` is counted over the whole tenant."""
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        found = find_entry(tenant, host, memory_ref, memory_id, now=timezone.now())
        if found is None:
            raise NotFound("entry")
        return _page(tenant, ReceiptFilter(state=state or "", entry=found.pk), "attempts", limit, cursor)


@router.get("/receipts", auth=requires(Scope.READ), response=ReceiptPage)
def list_receipts(
    request: ApiRequest,
    show: Show = "attempts",
    state: State | None = None,
    host: Annotated[str | None, Query(description="A host's slug", pattern=r"^[a-z0-9-]{1,63}$")] = None,
    tool: Annotated[str | None, Query(min_length=1, max_length=512, description="A tool's whole name")] = None,
    run: Annotated[str | None, Query(min_length=1, max_length=2048, description="A run's id")] = None,
    limit: Limit = 50,
    cursor: str | None = None,
) -> HttpResponse:
    """What became of the attempted memory writes of all runs, newest first."""
    tenant = request.auth.tenant_id
    wanted = ReceiptFilter(state=state or "", host=host or "", tool=tool or "", run=run or "")
    with tenant_scope(tenant):
        return _page(tenant, wanted, show, limit, cursor)


def _page(tenant: int, wanted: ReceiptFilter, show: str, limit: int, cursor: str | None) -> HttpResponse:
    counts = receipt_counts(tenant, wanted)
    items: list[ReceiptItem] | list[UnaskedItem]
    try:
        if show == "unasked":
            writes = unasked_writes(tenant, wanted, before=cursor, limit=limit)
            items, older = list(map(unasked_item, writes.rows)), writes.older
        else:
            found = receipt_list(tenant, wanted.only(show), before=cursor, limit=limit)
            items, older = list(map(receipt_item, found.rows)), found.older
    except BrokenCursor:
        raise Invalid("query", "cursor", "is not the nextCursor of a page") from None
    return answer({"items": items, "nextCursor": older, "counts": counts_item(counts)})
