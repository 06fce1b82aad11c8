"""The page of two runs side by side, and the pieces that it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, replace
from urllib.parse import urlencode

from django.http import Http404, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET

from openwop_ui.live.fragments import render_page, wanted_fragment
from openwop_ui.tenancy.access import TenantRequest, tenant_page
from openwop_ui.tenancy.scope import tenant_scope
from runs import queries as runs
from runs.domain import exact_json
from runs.domain.comparison import ABSENT, OPS, Comparison, determinism, without_volatile
from runs.domain.json_diff import Difference, differences
from runs.domain.member_texts import payload_of_text
from runs.domain.projection import project, unproject
from runs.models import Host
from runs.queries import RunFacts
from runs.queries.bodies import bodies_of
from runs.queries.comparison import (
    MOST_EVENTS,
    Compared,
    HostsWord,
    Kinship,
    Offer,
    buckets,
    compared,
    hosts_words,
    kinship,
    offers,
    places,
    places_before,
    recent_forks,
)
from runs.queries.events import events_of
from runs.views import may_upload, number

from .host_diff import HostDiff, ask_host_diff
from .queries.verdicts import memory_verdict
from .state_pages import (
    ComparePage,
    FindingRow,
    ForkRow,
    HostDiffPage,
    OfferRow,
    OffersPage,
    PairDetail,
    PairRow,
)

FRAGMENTS = ("walk", "pair")
ROWS = 100
AROUND = 10
"""Rows in front of the chosen pair when the list begins near it."""
FACTS_SHOWN = 12
SHOWN = 64 * 1024
"""Characters of a payload that are shown."""
MOST_BUCKETS = 2_000
MOST_MARKS = 2_000
INCIDENTS = 5


# --- which runs ---


def run_ref(host: str, run_id: str) -> str:
    """How an address names a run: its host, and its id as one segment."""
    return f"{host}/{project(run_id)}"


def _named(request: TenantRequest, side: str) -> RunFacts | None:
    """None where the address names none; 404 for one that there is not, or that is another tenant's."""
    given = request.GET.get(side, "")
    if not given:
        return None
    host, _, segment = given.partition("/")
    try:
        run_id = unproject(segment)
    except ValueError:
        run_id = segment
    found = runs.find_run(request.tenant.pk, host, run_id) if host.isascii() and "\0" not in host else None
    if found is None:
        raise Http404("No such run.")
    return found


def _both(request: TenantRequest) -> tuple[RunFacts, RunFacts]:
    a, b = _named(request, "a"), _named(request, "b")
    if a is None or b is None:
        raise Http404("Two runs are compared.")
    return a, b


def _compare_href(request: TenantRequest, a: str, b: str) -> str:
    # Slashes stay, so that the address reads as it is written in the documentation.
    query = urlencode({"a": a, "b": b} if b else {"a": a}, safe="/~")
    return f"{reverse('ledger:compare', kwargs={'tenant': request.tenant.slug})}?{query}"


# --- the page ---


@require_GET
@tenant_page()
def compare(request: TenantRequest) -> HttpResponse:
    a, b = _named(request, "a"), _named(request, "b")
    if a is None or b is None:
        return render_page(request, "runs/compare.html", _chooser(request, a or b), fragments=FRAGMENTS)
    fragment = wanted_fragment(request, FRAGMENTS)
    found = compared(request.tenant.pk, a, b)
    page = _listed(request, _base(request, a, b, found), found.comparison, fragment)
    if fragment is None:
        page = _told(request, page, a, b, found)
    return render_page(request, "runs/compare.html", page, fragments=FRAGMENTS)


def _chooser(request: TenantRequest, chosen: RunFacts | None) -> ComparePage:
    tenant = request.tenant.pk
    ref = run_ref(chosen.host, chosen.run_id) if chosen else ""
    forks = () if chosen else tuple(_fork_row(request, *told) for told in recent_forks(tenant))
    return ComparePage(
        section="runs",
        topics="",
        may_upload=may_upload(request),
        a=chosen,
        b=None,
        a_ref=ref,
        b_ref="",
        turned="",
        offers=_offer_rows(request, chosen, offers(tenant, chosen, also_alike=True)) if chosen else (),
        forks=forks,
    )


def _offer_rows(request: TenantRequest, run: RunFacts, offered: Sequence[Offer]) -> tuple[OfferRow, ...]:
    """A source is laid first, whichever of the two was asked about."""
    mine = run_ref(run.host, run.run_id)
    rows = []
    for offer in offered:
        theirs = run_ref(offer.host, offer.run_id)
        pair = (theirs, mine) if offer.relation == "source" else (mine, theirs)
        rows.append(OfferRow(offer=offer, href=_compare_href(request, *pair)))
    return tuple(rows)


def _fork_row(request: TenantRequest, offer: Offer, source_id: str) -> ForkRow:
    href = _compare_href(request, run_ref(offer.host, source_id), run_ref(offer.host, offer.run_id))
    return ForkRow(offer=offer, source_id=source_id, href=href)


def _base(request: TenantRequest, a: RunFacts, b: RunFacts, found: Compared) -> ComparePage:
    comparison = found.comparison
    refs = run_ref(a.host, a.run_id), run_ref(b.host, b.run_id)
    same, changed, removed, added = comparison.counts
    return ComparePage(
        section="runs",
        topics="",
        may_upload=may_upload(request),
        a=a,
        b=b,
        a_ref=refs[0],
        b_ref=refs[1],
        turned=_compare_href(request, refs[1], refs[0]),
        offers=(),
        forks=(),
        same=same,
        changed=changed,
        removed=removed,
        added=added,
        ignored=comparison.ignored,
        is_cut=found.is_cut,
        most=MOST_EVENTS,
        first_place=comparison.first,
    )


def _told(request: TenantRequest, page: ComparePage, a: RunFacts, b: RunFacts, found: Compared) -> ComparePage:
    """With what stands above the list: the verdicts in words, and what the host says itself."""
    tenant = request.tenant.pk
    kin = kinship(a, b)
    source, fork = (b, a) if kin.is_turned else (a, b)
    report = determinism(found.comparison, mode=kin.mode, from_sequence=kin.from_sequence)
    verdict = memory_verdict(tenant, a, b, kin)
    words = tuple(hosts_words(tenant, fork.pk, source.run_id)) if kin.mode or a.pk != b.pk else ()
    return replace(
        page,
        kinship=kin,
        source="b" if kin.is_turned else "a",
        fork="a" if kin.is_turned else "b",
        report=report,
        verdict=verdict,
        findings=tuple(
            FindingRow(finding=replace(one, pairs=one.pairs[:FACTS_SHOWN]), total=len(one.pairs))
            for one in verdict.findings
        ),
        words=words,
        disagreement=_disagreement(words, found.comparison, kin),
        incidents_a=runs.incidents(tenant, run=a.pk, limit=INCIDENTS)[0],
        incidents_b=runs.incidents(tenant, run=b.pk, limit=INCIDENTS)[0] if a.pk != b.pk else (),
        may_ask_host=a.host == b.host and _has_origin(tenant, a.host),
    )


def _disagreement(words: Sequence[HostsWord], comparison: Comparison, kin: Kinship) -> str:
    """Where the host's own events about a fork and this comparison say different things; "" where they do not."""
    told = [word.at for word in words if word.at is not None]
    ours = comparison.diverged_at
    if told and ours is None:
        return f"The host says that the fork diverged at #{told[0]}; nothing that is compared here differs."
    if told and ours != min(told):
        return f"The host says that the fork diverged at #{min(told)}; the first difference found here is at #{ours}."
    if kin.mode == "replay" and not words and ours is not None:
        return "The host has said nothing of it: the replay’s log has no replay.diverged event."
    return ""


def _has_origin(tenant: int, slug: str) -> bool:
    return Host.objects.filter(tenant_id=tenant, slug=slug).exclude(origin="").exists()


# --- the list of pairs ---


def _listed(request: TenantRequest, page: ComparePage, comparison: Comparison, fragment: str | None) -> ComparePage:
    assert page.a is not None and page.b is not None
    tenant = request.tenant.pk
    only = request.GET.get("show") == "differences"
    at = number(request, "at")
    at = at if at is not None and at < len(comparison) else None
    wanted = _window(request, comparison, at, only=only) if fragment != "pair" else []
    chosen = [at] if at is not None and at not in wanted else []
    rows = {row.place: row for row in _rows(tenant, page.a, page.b, comparison, [*wanted, *chosen])}
    listed = tuple(rows[place] for place in wanted)
    first, last = (wanted[0], wanted[-1]) if wanted else (0, -1)
    more_before = bool(places_before(comparison, only_differences=only, before=first, most=1)) if wanted else False
    more_after = bool(places(comparison, only_differences=only, after=last, most=1)) if wanted else False
    return replace(
        page,
        rows=listed,
        listed_total=comparison.differing if only else len(comparison),
        show="differences" if only else "",
        at=at,
        before=first if more_before else None,
        after=last if more_after else None,
        pair=None if at is None else _detail(tenant, page.a, page.b, comparison, rows[at]),
    )


def _window(request: TenantRequest, comparison: Comparison, at: int | None, *, only: bool) -> list[int]:
    """The places that the address asks for: behind or before one, around the chosen one, or the first ones."""
    before, after = number(request, "before"), number(request, "after")
    if before is not None:
        return places_before(comparison, only_differences=only, before=before, most=ROWS)
    if after is None and at is not None:
        ahead = places_before(comparison, only_differences=only, before=at, most=AROUND)
        after = ahead[0] - 1 if ahead else at - 1
    return places(comparison, only_differences=only, after=-1 if after is None else after, most=ROWS)


def _rows(tenant: int, a: RunFacts, b: RunFacts, comparison: Comparison, wanted: Sequence[int]) -> list[PairRow]:
    pairs = [(place, comparison.pair(place)) for place in wanted]
    mine = {one.sequence: one for one in events_of(tenant, a.pk, [p.a for _, p in pairs if p.a != ABSENT])}
    theirs = {one.sequence: one for one in events_of(tenant, b.pk, [p.b for _, p in pairs if p.b != ABSENT])}
    return [
        PairRow(
            place=place,
            op=OPS[pair.op],
            a=mine.get(pair.a),
            b=theirs.get(pair.b),
            a_sequence=None if pair.a == ABSENT else pair.a,
            b_sequence=None if pair.b == ABSENT else pair.b,
        )
        for place, pair in pairs
    ]


def _detail(tenant: int, a: RunFacts, b: RunFacts, comparison: Comparison, row: PairRow) -> PairDetail:
    payloads = [_payload(tenant, a, row.a_sequence), _payload(tenant, b, row.b_sequence)]
    found: tuple[Difference, ...] = ()
    is_cut = False
    if row.a_sequence is not None and row.b_sequence is not None and row.op != "same":
        values = [
            without_volatile(exact_json.loads(text or "null"), run=run.run_id)
            for text, run in zip(payloads, (a, b), strict=True)
        ]
        told = differences(values[0], values[1])
        found, is_cut = told.shown, told.is_cut
    return PairDetail(
        row=row,
        a_payload=_shown(payloads[0]),
        b_payload=_shown(payloads[1]),
        differences=found,
        is_cut=is_cut,
        previous=comparison.previous_difference(row.place),
        next=comparison.next_difference(row.place),
    )


def _payload(tenant: int, run: RunFacts, sequence: int | None) -> str | None:
    if sequence is None:
        return None
    body = bodies_of(tenant, run.pk, [sequence]).get(sequence)
    return None if body is None else payload_of_text(body) or None


def _shown(text: str | None) -> str | None:
    return text if text is None or len(text) <= SHOWN else text[:SHOWN]


# --- the picture ---


@require_GET
@tenant_page()
def strip(request: TenantRequest) -> HttpResponse:
    """What the picture of both runs draws of a stretch of pairs; or, with ``walk``, the next difference that way."""
    a, b = _both(request)
    found = compared(request.tenant.pk, a, b)
    comparison = found.comparison
    walk, at = request.GET.get("walk", ""), number(request, "at")
    if walk in ("next", "previous"):
        return _json({"place": _walked(comparison, walk, at)})
    start = number(request, "from") or 0
    end = number(request, "to")
    end = len(comparison) if end is None else min(end, len(comparison))
    most = min(number(request, "width") or 600, MOST_BUCKETS)
    marks = [one for one in found.marks if start <= one.place < end]
    return _json(
        {
            "pairs": len(comparison),
            "from": start,
            "to": end,
            "first": comparison.first,
            "buckets": [list(astuple(one)) for one in buckets(comparison, start, end, most)],
            "marks": [[one.place, one.side, one.kind, one.sequence] for one in marks[:MOST_MARKS]],
            "marksTotal": len(marks),
        }
    )


def _walked(comparison: Comparison, walk: str, at: int | None) -> int | None:
    if walk == "next":
        return comparison.next_difference(-1 if at is None else at)
    return comparison.previous_difference(len(comparison) if at is None else at)


def _json(said: dict[str, object]) -> JsonResponse:
    answer = JsonResponse(said)
    answer["Cache-Control"] = "no-store"
    return answer


# --- what is offered, and what the host says ---


@require_GET
@tenant_page()
def compare_offers(request: TenantRequest, host: str, run: str) -> HttpResponseBase:
    """The forks and the source of a run, for the menu on its page; without htmx, the page to choose from."""
    facts = runs.find_run(request.tenant.pk, host, run)
    if facts is None:
        raise Http404("No such run.")
    chooser = _compare_href(request, run_ref(host, run), "")
    if not request.htmx:
        return redirect(chooser)
    page = OffersPage(run=facts, rows=_offer_rows(request, facts, offers(request.tenant.pk, facts)), chooser=chooser)
    return render_page(request, "runs/compare_offers.html", page)


@require_GET
@tenant_page(scoped=False)
def compare_host(request: TenantRequest) -> HttpResponse:
    """The host's own diff, asked for now. No transaction is open while the host is waited for."""
    tenant = request.tenant.pk
    with tenant_scope(tenant):
        a, b = _both(request)
        ours = compared(tenant, a, b).comparison
        host = Host.objects.filter(tenant_id=tenant, slug=a.host).first()
    if host is None or a.host != b.host:
        raise Http404("No such host.")
    said = ask_host_diff(host, a.run_id, b.run_id)
    with tenant_scope(tenant):
        return render_page(request, "runs/compare_host.html", _host_page(a, b, said, ours))


def _host_page(a: RunFacts, b: RunFacts, said: HostDiff | str, ours: Comparison) -> HostDiffPage:
    if isinstance(said, str):
        return HostDiffPage(a=a, b=b, host=a.host_name, error=said)
    return HostDiffPage(
        a=a,
        b=b,
        host=a.host_name,
        diverged_at=said.diverged_at,
        added=said.added,
        removed=said.removed,
        changed=said.changed,
        truncated=said.truncated,
        ours=ours.diverged_at,
        agrees=said.diverged_at == ours.diverged_at,
    )
