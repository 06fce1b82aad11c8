"""The conflict queue, and the page on which a person settles one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import Http404, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from openwop_ui.live.fragments import render_page, wanted_fragment
from openwop_ui.tenancy.access import TenantRequest, tenant_page
from openwop_ui.tenancy.models import Role
from openwop_ui.tenancy.scope import tenant_scope
from runs.queries import Option
from runs.views import may_upload

from .claims_store.actor import Actor
from .claims_store.reviewing import Ask, Decided, decide_conflict, preview, undo_decision
from .conflict_forms import outcome_of, outcomes_of, read_ask
from .conflict_pages import Choice, ConflictPage, Place, QueuePage, Side, sides_of
from .conflict_words import Effect, effects, why
from .domain.decisions import MissingPart, NothingToUndo, StaleDecision, StillCompeting, Verdict
from .domain.errors import LedgerError
from .queries.conflicts import (
    ChangeRow,
    ConflictDetail,
    ConflictFilter,
    ConflictRow,
    DecisionRow,
    changes_since,
    conflict_counts,
    conflict_list,
    find_conflict,
)
from .queries.paging import BrokenCursor
from .queries.review import SuggestedText, neighbours, open_count, suggested_text, written

QUEUE_FRAGMENTS = ("rows",)
CONFLICT_FRAGMENTS = ("facts", "sides", "effects", "history")
STATES = {
    "open": "open",
    "check_failed": "check failed",
    "suggested": "suggested",
    "decided": "decided",
    "dismissed": "dismissed",
    "dissolved": "dissolved",
}
FIRST = "open"
WAITING = ("open", "check_failed", "suggested")
"""States that await a person."""
LAST_DECIDED = "last_decision"
"""Where a session keeps the decision that its person made last, so that a key can take it back."""


@require_GET
@tenant_page()
def open_conflicts(request: TenantRequest) -> HttpResponse:
    """What the bar of every page shows beside its link, asked for again when a conflict was opened or settled."""
    answer = render(request, "ledger/_open_conflicts.html", {"count": open_count(request.tenant.pk)})
    answer["Cache-Control"] = "no-store"
    return answer


@require_GET
@tenant_page()
def conflict_queue(request: TenantRequest) -> HttpResponse:
    tenant, wanted = request.tenant.pk, _filter(request)
    before, after = request.GET.get("before") or None, request.GET.get("after") or None
    try:
        found = conflict_list(tenant, wanted, before=before, after=after)
    except BrokenCursor as exc:
        raise BadRequest(str(exc)) from exc
    counts = conflict_counts(tenant)
    page = QueuePage(
        section="conflicts",
        topics="conflicts",
        may_upload=may_upload(request),
        rows=found.rows,
        state=wanted.state,
        q=wanted.query,
        writer=wanted.writer,
        states=tuple(Option(state, words, counts.get(state, 0)) for state, words in STATES.items()),
        total=counts.get(wanted.state, 0),
        newer=found.newer,
        older=found.older,
        query=_query(wanted),
        may_decide=request.membership.may(Role.REVIEWER),
    )
    return render_page(request, "ledger/conflicts.html", page, fragments=QUEUE_FRAGMENTS)


def _filter(request: TenantRequest) -> ConflictFilter:
    """A state that there is none of counts as not given, and then the queue is of the open ones."""
    given = request.GET
    state = given.get("state", FIRST)
    return ConflictFilter(
        state=state if state in STATES else FIRST,
        query=given.get("q", "").strip(),
        subject=given.get("subject", ""),
        category=given.get("category", ""),
        key=given.get("key", ""),
        writer=given.get("writer", "").strip(),
    )


def _query(wanted: ConflictFilter) -> str:
    """What a link to a conflict carries along, so that next and previous stay in the queue it was opened from."""
    told = {
        "state": wanted.state if wanted.state != FIRST else "",
        "q": wanted.query,
        "subject": wanted.subject,
        "category": wanted.category,
        "key": wanted.key,
        "writer": wanted.writer,
    }
    return urlencode({name: value for name, value in told.items() if value}, errors="replace")


@require_GET
@tenant_page()
def conflict_page(request: TenantRequest, id: UUID) -> HttpResponse:
    found = find_conflict(request.tenant.pk, id)
    if found is None:
        raise Http404("No such conflict.")
    return _conflict_page(request, found, form=request.GET)


def _conflict_page(
    request: TenantRequest,
    found: ConflictDetail,
    *,
    form: Mapping[str, str],
    error: str = "",
    missed: tuple[ChangeRow, ...] = (),
    status: int = 200,
) -> HttpResponse:
    tenant, wanted, conflict = request.tenant.pk, _filter(request), found.conflict
    sides = _sides(tenant, found)
    may_decide = request.membership.may(Role.REVIEWER)
    outcomes = outcomes_of(conflict, sides) if may_decide else ()
    latest_first = found.decisions[::-1]
    page = ConflictPage(
        section="conflicts",
        topics=f"conflicts conflict:{conflict.id}",
        may_upload=may_upload(request),
        conflict=conflict,
        why=why(conflict),
        sides=sides,
        suggested=_suggested(tenant, conflict),
        own=tuple(one for one in latest_first if one.conflict == conflict.id),
        earlier=tuple(one for one in latest_first if one.conflict != conflict.id),
        undoable=_in_force(found) if may_decide else None,
        changes=found.changes[::-1],
        choice=_choice(request, conflict, sides, form, outcomes, error),
        missed=missed,
        neighbours=neighbours(tenant, conflict, wanted),
        query=_query(wanted),
        may_decide=may_decide,
        is_open=conflict.state in WAITING,
        outcomes=outcomes,
        last_decided=_last_decided(request) if may_decide else None,
    )
    return render_page(request, "ledger/conflict.html", page, fragments=CONFLICT_FRAGMENTS, status=status)


def _sides(tenant_id: int, found: ConflictDetail) -> tuple[Side, ...]:
    entries = {member.claim.entry for member in found.members if member.claim.entry is not None}
    return sides_of(found, written(tenant_id, entries) if entries else {})


def _suggested(tenant_id: int, conflict: ConflictRow) -> SuggestedText | None:
    if conflict.kind != "suggestion" or not conflict.inputs:
        return None
    told = conflict.inputs[0]
    return suggested_text(tenant_id, UUID(told["source_event"]), int(told["message"]))


def _in_force(found: ConflictDetail) -> DecisionRow | None:
    if found.conflict.decision is None:
        return None
    return next((one for one in found.decisions if one.id == found.conflict.decision), None)


def _choice(
    request: TenantRequest,
    conflict: ConflictRow,
    sides: Sequence[Side],
    form: Mapping[str, str],
    outcomes: Sequence[str],
    error: str,
) -> Choice:
    """What is chosen and, where somebody is going to look at it, what that would change."""
    outcome, claim = outcome_of(form)
    changes: tuple[Effect, ...] = ()
    lacks = ""
    if outcome in outcomes and not error and wanted_fragment(request, CONFLICT_FRAGMENTS) in (None, "effects"):
        try:
            changes = _effects(request, conflict, sides, form)
        except (MissingPart, StillCompeting) as problem:
            lacks = f"{str(problem)[:1].upper()}{str(problem)[1:]}."
        except LedgerError as problem:
            error = _problem(problem)
    return Choice(
        outcome=outcome if outcome in outcomes else "",
        claim=claim,
        value=form.get("value", ""),
        evidence=form.get("evidence", ""),
        reason=form.get("reason", ""),
        places=tuple(
            Place(
                scope=form.get(f"scope-{side.number}", ""),
                start=form.get(f"from-{side.number}", ""),
                end=form.get(f"to-{side.number}", ""),
            )
            for side in sides
        ),
        effects=changes,
        lacks=lacks,
        error=error,
    )


def _effects(
    request: TenantRequest, conflict: ConflictRow, sides: Sequence[Side], form: Mapping[str, str]
) -> tuple[Effect, ...]:
    ask = read_ask({**dict(form.items()), "revision": str(conflict.revision)}, conflict, sides)
    if conflict.kind == "suggestion" and ask.verdict is Verdict.BOTH:
        return (Effect("closes", "dismissed", "text and claim both stand, and nothing else changes"),)
    settlement = preview(tenant_id=request.tenant.pk, conflict=conflict.id, ask=ask, actor=_actor(request))
    if settlement is None:
        return ()
    corrected = None if ask.value is None else json.dumps(ask.value, ensure_ascii=False)
    return effects(settlement, {claim.row.id: claim.row for side in sides for claim in side.claims}, corrected)


def _actor(request: TenantRequest) -> Actor:
    assert request.user.is_authenticated  # as a member of the tenant
    return Actor.person(request.user)


def _problem(problem: LedgerError) -> str:
    return f"{problem.field}: {problem}" if problem.field else str(problem)


@require_POST
@tenant_page(role=Role.REVIEWER, scoped=False)
def decide(request: TenantRequest, id: UUID) -> HttpResponseBase:
    tenant, wanted = request.tenant.pk, _filter(request)
    with tenant_scope(tenant):
        found = find_conflict(tenant, id)
        if found is None:
            raise Http404("No such conflict.")
        conflict, sides = found.conflict, _sides(tenant, found)
        following = neighbours(tenant, conflict, wanted)
    try:
        ask = read_ask(request.POST, conflict, sides)
        decided = decide_conflict(tenant_id=tenant, conflict=id, ask=ask, actor=_actor(request))
    except StaleDecision as problem:
        return _stale(request, id, problem)
    except LedgerError as problem:
        return _again(request, id, _problem(problem), 409 if problem.code == "conflict" else 422)
    if decided is None:
        raise Http404("No such conflict.")
    _note(request, decided)
    messages.success(request, f"{conflict.subject} · {conflict.key}: {_told(ask, sides)}.")
    return HttpResponseRedirect(_next(request, following.older or following.newer, wanted, decided))


def _told(ask: Ask, sides: Sequence[Side]) -> str:
    chosen = next((one.row.display for side in sides for one in side.claims if one.row.id == ask.claim), "")
    return {
        Verdict.CHOOSE: f"{chosen} was chosen",
        Verdict.BOTH: "both were kept",
        Verdict.NEITHER: "neither was kept",
        Verdict.CORRECT: "the value was corrected",
    }[ask.verdict]


def _next(request: TenantRequest, following: UUID | None, wanted: ConflictFilter, decided: Decided) -> str:
    """The next one of the queue, or the queue when it is worked off."""
    if wanted.state not in WAITING:
        following = decided.conflict
    if following is None:
        return _address(request, wanted)
    return _address(request, wanted, following)


def _address(request: TenantRequest, wanted: ConflictFilter | None = None, id: UUID | None = None) -> str:
    query = _query(wanted) if wanted else ""
    if id is None:
        path = reverse("ledger:conflicts", kwargs={"tenant": request.tenant.slug})
    else:
        path = reverse("ledger:conflict", kwargs={"tenant": request.tenant.slug, "id": id})
    return f"{path}?{query}" if query else path


def _note(request: TenantRequest, decided: Decided) -> None:
    if decided.decision is None:
        request.session.pop(LAST_DECIDED, None)
    else:
        request.session[LAST_DECIDED] = {"tenant": request.tenant.slug, "decision": str(decided.decision)}


def _last_decided(request: TenantRequest) -> UUID | None:
    noted = request.session.get(LAST_DECIDED)
    return UUID(noted["decision"]) if noted and noted["tenant"] == request.tenant.slug else None


def _stale(request: TenantRequest, id: UUID, problem: StaleDecision) -> HttpResponse:
    """What the person wrote stays in its fields, beside what happened while they wrote."""
    error = (
        f"You decided on revision {problem.seen}; the conflict is at revision {problem.latest} now. Nothing was stored."
        " Look at what changed and decide again."
    )
    return _again(request, id, error, 409, seen=problem.seen)


def _again(request: TenantRequest, id: UUID, error: str, status: int, *, seen: int | None = None) -> HttpResponse:
    with tenant_scope(request.tenant.pk):
        found = find_conflict(request.tenant.pk, id)
        if found is None:
            raise Http404("No such conflict.")
        missed = () if seen is None else changes_since(request.tenant.pk, id, seen)
        return _conflict_page(request, found, form=request.POST, error=error, missed=missed, status=status)


@require_POST
@tenant_page(role=Role.REVIEWER, scoped=False)
def undo(request: TenantRequest, decision: UUID) -> HttpResponseBase:
    """Takes a decision back and goes to the conflict that it was about."""
    request.session.pop(LAST_DECIDED, None)
    reason = request.POST.get("reason", "").strip()
    try:
        undone = undo_decision(tenant_id=request.tenant.pk, decision=decision, actor=_actor(request), reason=reason)
    except NothingToUndo:
        messages.error(request, "That decision is no longer in force: somebody took it back before.")
        return HttpResponseRedirect(_address(request))
    if undone is None:
        raise Http404("No such decision.")
    messages.success(request, "The decision was taken back.")
    return HttpResponseRedirect(_address(request, id=undone.conflict))
