"""The page of incidents: what it says, how it narrows and pages, and where it is reached from."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs import queries
from runs.models import Host, Incident, Run
from runs.queries.incidents import PAGE, in_words
from runs.store import Found, keep_incidents
from runs.store.watching import watch_on
from tests.factories import BEGINNING, make_event, make_host, make_log, make_member, make_tenant, take

pytestmark = pytest.mark.django_db

LATER = BEGINNING + timedelta(days=1000)


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def host(tenant: Tenant) -> Host:
    return make_host(tenant, name="The alpha")


@pytest.fixture
def browser(tenant: Tenant) -> Client:
    client = Client()
    client.force_login(make_member(tenant, "vera"))
    return client


def restart(host: Host, run: str = "run-1", *, times: int = 1) -> None:
    """A run that starts again so many times, as an incident each."""
    take(host, [make_event(n, "run.started", run=run) for n in range(times + 1)])
    while watch_on(host.tenant_id, now=LATER):
        pass


def shown(client: Client, **query: str | int) -> Any:
    answer = client.get("/t/acme/incidents", query_params=query)
    assert answer.status_code == 200
    return answer.context["page"]


def places(page: Any) -> list[int | None]:
    return [row.sequence for row in page.rows]


def test_an_incident_says_what_was_seen_what_was_done_and_where(browser: Client, host: Host) -> None:
    restart(host, "a/b")
    answer = browser.get("/t/acme/incidents")
    text = answer.content.decode()
    assert "run.started again at #1; the run had started at #0." in text
    assert "Both are in the log. The run&#x27;s time counts from the first." in text
    assert 'href="/t/acme/runs/alpha/a~2Fb?seq=1"' in text
    assert "1 shown of 1" in text
    assert browser.get("/t/acme/runs/alpha/a~2Fb?seq=1").status_code == 200


def test_what_a_host_wrote_shows_as_text(browser: Client, host: Host) -> None:
    ids = {"memoryRef": "notes", "memoryId": "<b>m</b>\u202e"}
    take(host, [make_event(0, "run.completed"), make_event(1, "memory.written", payload=ids)])
    watch_on(host.tenant_id, now=LATER)
    text = browser.get("/t/acme/incidents").content.decode()
    assert "<b>m" not in text
    assert "\u202e" not in text


def test_an_empty_page_says_what_an_incident_is(browser: Client, host: Host) -> None:
    take(host, make_log())
    text = browser.get("/t/acme/incidents").content.decode()
    assert "No incident was noticed." in text
    assert "No incident ever drops an event." in text


def test_a_filter_narrows_by_kind_and_host_and_counts(browser: Client, tenant: Tenant, host: Host) -> None:
    other = make_host(tenant, "beta")
    restart(host, times=3)
    take(other, [make_event(0, "run.failed"), make_event(1)])
    watch_on(tenant.pk, now=LATER)
    page = shown(browser)
    assert (page.total, page.all_total) == (4, 4)
    assert [(option.value, option.count) for option in page.kinds] == [("second_start", 3), ("late_events", 1)]
    assert [(option.value, option.label, option.count) for option in page.hosts] == [
        ("alpha", "The alpha", 3),
        ("beta", "beta", 1),
    ]
    assert {row.kind for row in shown(browser, kind="late_events").rows} == {"late-events"}
    assert shown(browser, host="alpha").total == 3
    narrowed = shown(browser, host="alpha", kind="late_events")
    assert (narrowed.rows, narrowed.total, narrowed.all_total) == ((), 0, 4)
    assert "No incident matches." in browser.get("/t/acme/incidents?kind=late_events&host=alpha").content.decode()


@pytest.mark.parametrize(
    "query", ["kind=%00", "host=%00", "kind=nonsense", "before=x&after=-1", "before=99999999999999"]
)
def test_a_nonsense_address_is_no_failure(browser: Client, host: Host, query: str) -> None:
    restart(host)
    assert browser.get(f"/t/acme/incidents?{query}").status_code == 200


def test_pages_follow_each_other_without_a_gap_or_a_repetition(browser: Client, host: Host) -> None:
    restart(host, times=99)
    restart(host, "run-2", times=20)
    first = shown(browser)
    assert (len(first.rows), first.total, first.newer) == (PAGE, 119, None)
    second = shown(browser, before=first.older)
    third = shown(browser, before=second.older)
    assert (len(third.rows), third.older) == (19, None)
    keys = [row.key for page in (first, second, third) for row in page.rows]
    assert keys == sorted(keys, key=int, reverse=True)
    assert len(set(keys)) == 119
    assert shown(browser, after=third.newer).rows == second.rows
    assert f"before={first.older}" in browser.get("/t/acme/incidents").content.decode()


def test_the_page_takes_as_many_statements_for_few_as_for_many(browser: Client, host: Host) -> None:
    counts = []
    for times in (1, 60):
        restart(host, f"run-{times}", times=times)
        with CaptureQueriesContext(connection) as captured:
            shown(browser)
        counts.append(len(captured))
    assert counts[0] == counts[1]


def test_a_fragment_is_the_pages_own_rows(browser: Client, host: Host) -> None:
    restart(host)
    fragment = browser.get("/t/acme/incidents", headers={"HX-Request": "true", "HX-Target": "rows"}).content.decode()
    assert fragment.strip().startswith('<section class="panel" id="rows"')
    assert "<html" not in fragment


def test_another_tenants_incidents_are_not_there(browser: Client, tenant: Tenant) -> None:
    restart(make_host(make_tenant("globex"), "alpha"))
    page = shown(browser)
    assert (page.rows, page.all_total, page.kinds, page.hosts) == ((), 0, (), ())
    assert browser.get("/t/globex/incidents").status_code == 404
    assert Client().get("/t/acme/incidents").status_code == 302


# --- closed ones ---


def close_a_gap(host: Host) -> None:
    take(host, [make_event(0), make_event(2)], received_at=BEGINNING)
    watch_on(host.tenant_id, now=LATER)
    take(host, [make_event(1)], received_at=BEGINNING)
    watch_on(host.tenant_id, now=LATER)


def test_one_that_is_closed_says_so_and_counts_no_more(browser: Client, host: Host) -> None:
    close_a_gap(host)
    text = browser.get("/t/acme/incidents").content.decode()
    assert "#1 is missing." in text
    assert "the log was completed and no longer bears it out" in text
    assert "What lies behind was read on." not in text
    assert [row.incidents for row in browser.get("/t/acme/hosts").context["page"].rows] == [0]
    assert [row.incidents for row in browser.get("/t/acme/runs").context["page"].rows] == [0]
    assert browser.get("/t/acme/runs/alpha/run-1").context["page"].incidents_total == 1


def test_on_a_run_those_that_stand_come_before_those_that_are_closed(browser: Client, host: Host) -> None:
    take(host, [make_event(0, "run.started"), make_event(1, "run.started")], received_at=BEGINNING)
    watch_on(host.tenant_id, now=LATER)
    take(host, [make_event(3)], received_at=BEGINNING)
    watch_on(host.tenant_id, now=LATER)
    take(host, [make_event(2)], received_at=BEGINNING)
    watch_on(host.tenant_id, now=LATER)
    page = browser.get("/t/acme/runs/alpha/run-1").context["page"]
    assert [(row.kind, row.closed_at is None) for row in page.incidents] == [("second-start", True), ("gap", False)]


# --- where they are reached from ---


def attention(client: Client) -> list[tuple[str, str]]:
    page = client.get("/t/acme/").context["page"]
    assert page.attention_total == len(page.attention)
    return [(row.kind, row.text) for row in page.attention]


def test_a_gap_asks_for_attention_once_while_it_stands(browser: Client, host: Host) -> None:
    take(host, [make_event(0), make_event(2)], received_at=BEGINNING)
    watch_on(host.tenant_id, now=timezone.now())
    assert [kind for kind, _ in attention(browser)] == ["gap"]
    take(host, [make_event(1)])
    watch_on(host.tenant_id, now=timezone.now())
    assert attention(browser) == []


def test_of_several_of_a_kind_in_one_run_home_shows_the_newest(browser: Client, host: Host) -> None:
    for run in ("run-1", "run-2"):
        take(host, [make_event(n, "run.started", run=run) for n in range(4)])
    watch_on(host.tenant_id)
    page = browser.get("/t/acme/").context["page"]
    assert page.attention_total == 2
    assert {(row.run_id, row.sequence) for row in page.attention} == {("run-1", 3), ("run-2", 3)}


def test_a_run_counts_its_gaps_as_missing_events_and_a_missing_beginning_as_an_incident(
    browser: Client, host: Host
) -> None:
    take(host, [make_event(0, run="hole"), make_event(2, run="hole"), make_event(5, run="no-start")])
    watch_on(host.tenant_id, now=LATER)
    rows = {row.run_id: row for row in browser.get("/t/acme/runs").context["page"].rows}
    assert (rows["hole"].missing, rows["hole"].incidents) == (1, 0)
    assert (rows["no-start"].missing, rows["no-start"].incidents) == (0, 1)


def test_home_shows_what_calls_for_a_look_and_leads_to_the_rest(browser: Client, host: Host) -> None:
    ids = {"memoryRef": "notes", "memoryId": "m-1"}
    log = [
        make_event(0, "run.started"),
        make_event(1, "memory.written", payload=ids),
        make_event(2, "x-host-acme-memory-written", payload=ids),
        make_event(3, at=BEGINNING),
        make_event(4, "run.started"),
    ]
    take(host, log)
    watch_on(host.tenant_id)
    assert [kind for kind, _ in attention(browser)] == ["second-start"]
    assert shown(browser).total == 3
    assert 'href="/t/acme/incidents">All incidents</a>' in browser.get("/t/acme/").content.decode()


def test_the_host_and_the_bar_lead_there(browser: Client, host: Host) -> None:
    restart(host)
    text = browser.get("/t/acme/hosts/alpha").content.decode()
    assert 'href="/t/acme/incidents?host=alpha"' in text
    assert (
        'href="/t/acme/incidents" aria-current="page">Incidents</a>'
        in browser.get("/t/acme/incidents").content.decode()
    )


def test_a_run_says_what_it_came_out_of(browser: Client, tenant: Tenant, host: Host) -> None:
    take(host, make_log())
    for relation, said in (("replay", "replay of"), ("", "came out of")):
        with tenant_scope(tenant.pk):
            Run.objects.filter(tenant_id=tenant.pk).update(parent_run_id="src", parent_sequence=7, relation=relation)
        text = browser.get("/t/acme/runs/alpha/run-1").content.decode()
        assert f"<dt>{said}</dt>" in text
        assert 'href="/t/acme/runs/alpha/src?seq=7"' in text


# --- words ---

WORDS: list[tuple[Incident.Kind, int | None, dict[str, Any], str]] = [
    (Incident.Kind.GAP, 4, {"other": 4}, "#4 is missing."),
    (Incident.Kind.GAP, 4, {"other": 1203, "count": 1200}, "1,200 events are missing, #4 to #1203."),
    (Incident.Kind.LATE_EVENTS, 7, {"other": 6, "count": 1}, "An event came behind the run's end at #6, from #7 on."),
    (Incident.Kind.LATE_EVENTS, 7, {"other": 6, "count": 6}, "6 events came behind the run's end at #6, from #7 on."),
    (
        Incident.Kind.MEMORY_AFTER_TERMINAL,
        9,
        {"other": 6, "about": "mem_1"},
        "Memory mem_1 was written at #9, behind the run's end at #6.",
    ),
    (
        Incident.Kind.MEMORY_AFTER_TERMINAL,
        9,
        {"other": 6},
        "Memory without an id was written at #9, behind the run's end",
    ),
    (
        Incident.Kind.SECOND_TERMINAL,
        12,
        {"other": 6, "about": "run.completed"},
        "run.completed at #12; the run had ended",
    ),
    (Incident.Kind.SECOND_START, 7, {"other": 1}, "run.started again at #7; the run had started at #1."),
    (Incident.Kind.TIME_REVERSAL, 7, {"other": 6, "seconds": 0.25}, "#7 is timed 0.25 s before #6, which it follows."),
    (Incident.Kind.TWIN_EVENT, 7, {"other": 6, "about": "mem_1"}, "#7 and #6 announce one write, of mem_1."),
    (
        Incident.Kind.TWIN_EVENT,
        7,
        {"other": 6, "more": 1900},
        "1,900 more like it in this run are counted and not listed.",
    ),
    (Incident.Kind.FOREIGN_RUN, None, {}, "An event of another run came in this run's stream."),
    (Incident.Kind.FOREIGN_RUN, None, {"place": "bundle", "events": 1}, "1 event of another run in this run's bundle."),
    (
        Incident.Kind.FOREIGN_RUN,
        None,
        {"place": "bundle", "events": 2},
        "2 events of another run in this run's bundle.",
    ),
    (
        Incident.Kind.TRUNCATED,
        3,
        {"events": 7, "whole": 8, "missing": 1, "first": 3, "last": 3},
        "1 missing between others, #3.",
    ),
    (Incident.Kind.CONTENT_LEAK, 3, {"path": "/payload/content", "bytes": 2048}, "/payload/content (2,048 bytes)."),
    (Incident.Kind.CREDENTIAL_LEAK, 3, {"path": "/payload/resumeUrl"}, "A bearer credential in /payload/resumeUrl."),
    (Incident.Kind.CHANGED_EVENT, 3, {"digest": "00"}, "A known event came again with other content."),
    (Incident.Kind.CONFLICTING_MEMBERS, 3, {"note": "seq_conflict"}, "sequence and seq disagree."),
    (
        Incident.Kind.CONFLICTING_MEMBERS,
        3,
        {"note": "node_conflict"},
        "The payload names another node than the event does.",
    ),
    (Incident.Kind.EARLY_STATUS, None, {}, "The host says that the run has ended; its log has no event that says so."),
]


@pytest.mark.parametrize(("kind", "sequence", "detail", "expected"), WORDS)
def test_each_is_put_into_words(
    kind: Incident.Kind, sequence: int | None, detail: dict[str, Any], expected: str
) -> None:
    seen, done = in_words(kind, detail, sequence)
    assert expected in seen
    assert done.endswith(".")


@pytest.mark.parametrize("kind", Incident.Kind)
@pytest.mark.parametrize("detail", [{}, {"count": "x", "about": 7, "other": None, "path": [], "events": {}}])
def test_every_kind_has_words_whatever_its_detail(kind: Incident.Kind, detail: dict[str, Any]) -> None:
    seen, done = in_words(kind, detail, None)
    assert seen.strip().endswith(".")
    assert done.strip().endswith(".")
    assert json.dumps(kind) not in seen


def test_a_kind_that_was_not_known_yet_is_named() -> None:
    assert in_words("brand_new", {}) == ("Brand new.", "")


# --- each once ---


def found(host: Host, **detail: Any) -> Found:
    return Found(host.pk, None, "run-1", Incident.Kind.FOREIGN_TENANT, None, detail)


def test_the_same_incident_is_kept_once_and_opened_again_if_it_was_closed(tenant: Tenant, host: Host) -> None:
    def keep(at: datetime) -> list[Incident]:
        with tenant_scope(tenant.pk):
            keep_incidents(tenant.pk, [found(host, a=1), found(host, a=2), found(host, a=1)], noticed_at=at)
            return list(Incident.objects.filter(tenant_id=tenant.pk).order_by("id"))

    assert [one.detail for one in keep(BEGINNING)] == [{"a": 1}, {"a": 2}]
    with tenant_scope(tenant.pk):
        Incident.objects.filter(tenant_id=tenant.pk).update(detail={"a": 1, "closed_at": LATER.isoformat()})
    assert ["closed_at" in one.detail for one in keep(LATER)] == [False, False]
    assert {one.noticed_at for one in keep(LATER)} == {BEGINNING}


def test_pressing_ones_are_those_of_late(tenant: Tenant, host: Host) -> None:
    with tenant_scope(tenant.pk):
        keep_incidents(tenant.pk, [found(host, a=1)], noticed_at=BEGINNING)
        keep_incidents(tenant.pk, [found(host, a=2)], noticed_at=BEGINNING + timedelta(days=2))
        rows, total = queries.pressing_incidents(tenant.pk, since=BEGINNING + timedelta(days=1), limit=5)
    assert (len(rows), total) == (1, 1)
