"""The review of conflicts over REST: what is in dispute, what was weighed, and decisions about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpResponse
from ninja import Query, Router
from typing_extensions import TypedDict

from openwop_ui.rest import LARGEST_PAGE, ApiError, ApiRequest, Invalid, NotFound, answer, refers_to, requires
from openwop_ui.tenancy.models import Scope
from openwop_ui.tenancy.scope import tenant_scope

from . import claims_store
from .claims_store import Ask, Decided
from .conflict_items import (
    ChangeItem,
    ConflictDetailItem,
    ConflictItem,
    change_item,
    conflict_detail_item,
    conflict_item,
)
from .domain.claims import MAX_SUBJECT_LENGTH
from .domain.decisions import Placement, StaleDecision, Verdict
from .domain.errors import LedgerError
from .domain.scopes import read_scope
from .queries.conflicts import (
    ConflictFilter,
    changes_since,
    conflict_counts,
    conflict_list,
    find_conflict,
    find_decision,
)
from .queries.paging import BrokenCursor
from .request_bodies import identifier, members, object_of, period, refusal, text, whole

LONGEST_REASON = 4000
OUTCOMES = ("choose", "both", "neither", "correct")

router = Router(tags=["conflicts"])

State = Annotated[
    Literal["open", "decided", "suggested", "check_failed", "dissolved", "dismissed"] | None,
    Query(description="Only those that stand so"),
]
Text = Annotated[str | None, Query(min_length=1, max_length=1000)]


class ConflictPage(TypedDict):
    """`counts` are those of all conflicts by their state."""

    items: list[ConflictItem]
    nextCursor: str | None
    counts: Mapping[str, int]


@router.get("/conflicts", auth=requires(Scope.READ), response=ConflictPage)
def list_conflicts(
    request: ApiRequest,
    state: State = None,
    external_user_id: Annotated[str | None, Query(min_length=1, max_length=MAX_SUBJECT_LENGTH)] = None,
    category: Text = None,
    key: Text = None,
    writer: Text = None,
    limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="The most items on the page")] = 50,
    cursor: str | None = None,
) -> HttpResponse:
    """Conflicts, the last opened first."""
    tenant = request.auth.tenant_id
    wanted = ConflictFilter(
        state=state or "",
        subject=external_user_id or "",
        category=category or "",
        key=key or "",
        writer=writer or "",
    )
    with tenant_scope(tenant):
        try:
            found = conflict_list(tenant, wanted, before=cursor, limit=limit)
        except BrokenCursor:
            raise Invalid("query", "cursor", "is not the nextCursor of a page") from None
        counts = conflict_counts(tenant)
    said: ConflictPage = {"items": list(map(conflict_item, found.rows)), "nextCursor": found.older, "counts": counts}
    return answer(said)


@router.get("/conflicts/{uuid:conflict}", auth=requires(Scope.READ), response=ConflictDetailItem)
def get_conflict(request: ApiRequest, conflict: UUID) -> HttpResponse:
    """One conflict with all of its sides, what was weighed, what happened to it, and every decision about its key."""
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        found = find_conflict(tenant, conflict)
    if found is None:
        raise NotFound("conflict")
    return answer(conflict_detail_item(found))


class DecidedItem(TypedDict):
    """`decision_id` is null for a suggestion that was dismissed. `correction_id` is the memory that a corrected value
    became. `revision` and `state` are the conflict's now."""

    conflict_id: UUID
    decision_id: UUID | None
    correction_id: UUID | None
    revision: int
    state: str


class Stale(TypedDict):
    """The details of the 409: what happened since the revision that was seen."""

    revision: int
    state: str
    changes: list[ChangeItem]


_DECIDE = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "/schemas/conflict-decision.json"}}},
    },
    "responses": {
        409: refers_to("error", "It changed since the revision that was seen: `details` say how; or it is decided"),
        422: refers_to("error", "The outcome lacks something, or has something that it has no use for"),
    },
}
_MEMBERS = (
    "revision",
    "outcome",
    "claim_id",
    "value",
    "reason",
    "evidence",
    "placements",
    "valid_from",
    "valid_to",
)


@router.post(
    "/conflicts/{uuid:conflict}/decision", auth=requires(Scope.REVIEW), response=DecidedItem, openapi_extra=_DECIDE
)
def decide(request: ApiRequest, conflict: UUID) -> HttpResponse:
    """Settles a conflict. `choose` keeps `claim_id`; `neither` keeps none; `both` needs `placements`, which give claims
    other scopes or validities, and dismisses a suggestion without any; `correct` makes `value` the one that holds, with
    `evidence` or else the `reason`. The decision and all that follows from it are stored together, or not at all."""
    caller = request.auth
    tenant = caller.tenant_id
    with tenant_scope(tenant):
        if find_conflict(tenant, conflict) is None:
            raise NotFound("conflict")
    ask = _ask(object_of(request, *_MEMBERS))
    try:
        decided = claims_store.decide_conflict(
            tenant_id=tenant, conflict=conflict, ask=ask, actor=claims_store.Actor.program(caller)
        )
    except StaleDecision as problem:
        raise _stale(tenant, conflict, problem) from None
    except LedgerError as problem:
        raise refusal(problem) from None
    return answer(_decided(decided))


def _stale(tenant: int, conflict: UUID, problem: StaleDecision) -> ApiError:
    with tenant_scope(tenant):
        changes = changes_since(tenant, conflict, problem.seen)
    details: Stale = {
        "revision": problem.latest,
        "state": changes[-1].state if changes else "",
        "changes": list(map(change_item, changes)),
    }
    return ApiError(409, problem.code, f"{str(problem).capitalize()}.", details=dict(details))


def _ask(body: dict[str, Any]) -> Ask:
    revision, outcome = whole(body, "revision", least=1), body.get("outcome")
    if revision is None:
        raise Invalid("body", "revision", "is missing: the one that was seen")
    if outcome not in OUTCOMES:
        raise Invalid("body", "outcome", f"is none of {', '.join(OUTCOMES)}")
    return Ask(
        revision=revision,
        verdict=Verdict(outcome),
        claim=identifier(body, "claim_id"),
        placements=_placements(body.get("placements")),
        value=body.get("value"),
        evidence=text(body, "evidence", longest=LONGEST_REASON) or "",
        valid=period(body),
        reason=text(body, "reason", longest=LONGEST_REASON) or "",
    )


def _placements(raw: Any) -> tuple[Placement, ...]:
    if raw is None:
        return ()
    if not isinstance(raw, list):
        raise Invalid("body", "placements", "is not a list")
    return tuple(_placement(one, f"placements.{index}") for index, one in enumerate(raw))


def _placement(raw: Any, place: str) -> Placement:
    told = members(raw, ("claim_id", "scope", "valid_from", "valid_to"), place=place)
    claim = identifier(told, "claim_id", place=place)
    if claim is None:
        raise Invalid("body", f"{place}.claim_id", "is missing")
    try:
        scope = None if told.get("scope") is None else read_scope(told["scope"])
    except LedgerError as problem:
        raise refusal(problem, place=place) from None
    return Placement(claim, scope, period(told, place=place))


_UNDO = {
    "requestBody": {
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"reason": {"type": "string", "maxLength": LONGEST_REASON}},
                }
            }
        }
    },
    "responses": {409: refers_to("error", "It is not in force")},
}


@router.post("/decisions/{uuid:decision}/undo", auth=requires(Scope.REVIEW), response=DecidedItem, openapi_extra=_UNDO)
def undo_decision(request: ApiRequest, decision: UUID) -> HttpResponse:
    """Takes a decision back by another one, which can be taken back in the same way."""
    caller = request.auth
    with tenant_scope(caller.tenant_id):
        if find_decision(caller.tenant_id, decision) is None:
            raise NotFound("decision")
    body = object_of(request, "reason") if request.headers.get("Content-Length", "") not in ("", "0") else {}
    try:
        undone = claims_store.undo_decision(
            tenant_id=caller.tenant_id,
            decision=decision,
            actor=claims_store.Actor.program(caller),
            reason=text(body, "reason", longest=LONGEST_REASON) or "",
        )
    except LedgerError as problem:
        raise refusal(problem) from None
    return answer(_decided(undone))


def _decided(decided: Decided | None) -> DecidedItem:
    if decided is None:
        raise NotFound("conflict")
    return {
        "conflict_id": decided.conflict,
        "decision_id": decided.decision,
        "correction_id": decided.correction,
        "revision": decided.revision,
        "state": decided.state,
    }
