"""The way in, and a tenant's first page."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from ledger.store import read_backlog
from openwop_ui.home import FRAGMENTS
from openwop_ui.tenancy.models import Role, Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.models import Host
from tests.factories import make_event, make_host, make_log, make_member, make_tenant, make_user, take

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def host(tenant: Tenant) -> Host:
    return make_host(tenant)


@pytest.fixture
def browser(tenant: Tenant) -> Client:
    return logged_in(tenant, "vera")


def logged_in(tenant: Tenant, name: str, role: Role = Role.VIEWER) -> Client:
    client = Client()
    client.force_login(make_member(tenant, name, role))
    return client


def home(client: Client, tenant: str = "acme") -> Any:
    answer = client.get(f"/t/{tenant}/")
    assert answer.status_code == 200
    return answer.context["page"]


def ago(**told: float) -> datetime:
    return timezone.now() - timedelta(**told)


def read_all(tenant: Tenant) -> None:
    while read_backlog(tenant.pk):
        pass


# --- The way in ---


def test_the_root_leads_to_the_login_and_from_there_to_the_first_tenant() -> None:
    assert Client().get("/")["Location"] == "/login?next=/"
    zoo, acme = make_tenant("zoo"), make_tenant("acme")
    client = logged_in(zoo, "vera")
    assert client.get("/")["Location"] == "/t/zoo/"
    make_member(acme, "vera")
    assert client.get("/")["Location"] == "/t/acme/"


def test_who_belongs_to_no_tenant_is_told_so() -> None:
    make_tenant("acme")
    client = Client()
    client.force_login(make_user("newcomer"))
    answer = client.get("/")
    text = answer.content.decode()
    assert answer.status_code == 200
    assert "not a member of any tenant" in text and "newcomer" in text and "acme" not in text
    assert 'href="/admin/"' not in text
    operator = Client()
    operator.force_login(make_user("root", operator=True))
    assert 'href="/admin/"' in operator.get("/").content.decode()


def test_a_tenants_home_is_for_its_members(tenant: Tenant) -> None:
    outsider = logged_in(make_tenant("globex"), "mallory")
    assert outsider.get("/t/acme/").status_code == outsider.get("/t/nowhere/").status_code == 404
    assert Client().get("/t/acme/").status_code == 302


# --- What it shows ---


def test_a_new_tenant_is_told_how_data_comes(browser: Client) -> None:
    page = home(browser)
    assert (page.section, page.topics, page.may_upload) == ("home", "runs ledger hosts", False)
    assert (page.runs_total, page.events_total, page.entries_total, page.hosts_total) == (0, 0, 0, 0)
    assert (page.live_runs, page.recent_runs, page.writes, page.hosts, page.attention) == ((), (), (), (), ())
    assert "No run has arrived yet." in browser.get("/t/acme/").content.decode()


def test_home_counts_and_lists_what_there_is(browser: Client, tenant: Tenant, host: Host) -> None:
    take(host, make_log("done", nodes=2))
    take(host, make_log("going", nodes=3)[:-1])
    read_all(tenant)
    make_host(tenant, "beta")
    page = home(browser)
    assert (page.runs_total, page.events_total, page.entries_total, page.hosts_total) == (2, 18, 5, 2)
    assert ([run.run_id for run in page.live_runs], page.live_total) == (["going"], 1)
    assert [run.run_id for run in page.recent_runs] == ["done"]
    assert (len(page.writes), page.writes_total) == (5, 5)
    assert [(one.slug, one.runs, one.writes, one.attributed) for one in page.hosts] == [
        ("alpha", 2, 5, 100),
        ("beta", 0, 0, None),
    ]
    assert (page.attention, page.attention_total) == ((), 0)


def test_a_reviewer_may_upload(tenant: Tenant) -> None:
    assert home(logged_in(tenant, "rita", Role.REVIEWER)).may_upload is True


def test_a_write_of_no_known_entry_is_shown_too(browser: Client, tenant: Tenant, host: Host) -> None:
    take(host, [make_event(0, "memory.written", node="sum", payload={"memoryRef": "notes"})])
    read_all(tenant)
    (row,) = home(browser).writes
    assert (row.memory_id, row.node) == ("", "sum")


def test_another_tenants_things_are_nowhere(browser: Client, tenant: Tenant) -> None:
    other = make_tenant("globex")
    take(make_host(other), make_log("secret-run", nodes=2, end="run.failed"))
    read_all(other)
    page = home(browser)
    assert (page.runs_total, page.writes_total, page.attention_total) == (0, 0, 0)
    assert "secret-run" not in browser.get("/t/acme/").content.decode()


# --- What needs attention ---


def kinds(page: Any) -> list[str]:
    return [row.kind for row in page.attention]


def test_failures_gaps_leaks_and_failing_hosts_need_attention(browser: Client, tenant: Tenant, host: Host) -> None:
    take(host, make_log("broken", nodes=1, end="run.failed"), received_at=ago(hours=4))
    take(host, [make_event(0, run="torn"), make_event(4, run="torn")], received_at=ago(hours=3))
    take(host, [make_event(7, run="beheaded")], received_at=ago(hours=2))
    leaking = {"memoryRef": "notes", "memoryId": "m1", "content": "what nobody should see"}
    take(host, [make_event(0, "memory.written", run="leaky", payload=leaking)], received_at=ago(hours=1))
    down = make_host(tenant, "down", origin="https://agents.example")
    with tenant_scope(tenant.pk):
        Host.objects.filter(pk=down.pk).update(last_error="connection refused")
    page = home(browser)
    assert kinds(page) == ["failing-host", "content-leak", "gap", "gap", "failed"]
    assert page.attention_total == 5
    failing, leak, beheaded, torn, failed = page.attention
    assert (failing.host, failing.run_id, failing.text) == ("down", None, "Cannot be followed: connection refused")
    assert (leak.host, leak.run_id, leak.sequence) == ("alpha", "leaky", 0)
    assert (beheaded.run_id, beheaded.sequence, beheaded.at) == ("beheaded", 7, None)
    assert beheaded.text == "The beginning of its log is missing, all before #7."
    assert (torn.run_id, torn.sequence) == ("torn", 1)
    assert torn.text == "3 events are missing in its log, the first one is #1."
    assert (failed.run_id, failed.text) == ("broken", "A run of briefing failed.")
    assert failed.sequence == 4 and failed.at is not None
    text = browser.get("/t/acme/").content.decode()
    assert "5 shown of 5" in text and "what nobody should see" not in text


def test_what_happened_long_ago_asks_no_more_but_what_stands_does(browser: Client, host: Host) -> None:
    take(host, make_log("broken", nodes=1, end="run.failed"), received_at=ago(days=8))
    take(host, [make_event(0, run="torn"), make_event(2, run="torn")], received_at=ago(days=8))
    page = home(browser)
    assert (kinds(page), page.attention_total) == (["gap"], 1)
    assert page.attention[0].text == "1 event is missing in its log, the first one is #1."


def test_a_gap_of_a_moment_ago_may_still_close(browser: Client, host: Host) -> None:
    take(host, [make_event(0), make_event(2)])
    assert home(browser).attention == ()


def test_the_newest_are_shown_and_all_are_counted(browser: Client, host: Host) -> None:
    for number in range(11):
        take(host, make_log(f"broken-{number}", nodes=0, end="run.failed"), received_at=ago(hours=20 - number))
    page = home(browser)
    assert [row.run_id for row in page.attention] == [f"broken-{number}" for number in range(10, 2, -1)]
    assert page.attention_total == 11


# --- Fragments and cost ---


@pytest.mark.parametrize("target", FRAGMENTS)
def test_each_part_can_be_had_alone(browser: Client, tenant: Tenant, host: Host, target: str) -> None:
    take(host, make_log("broken", end="run.failed"))
    read_all(tenant)
    answer = browser.get("/t/acme/", headers={"HX-Request": "true", "HX-Target": target})
    text = answer.content.decode().strip()
    assert re.match(rf'<(section|div)[^>]* id="{target}"', text)
    assert "<html" not in text and answer["Cache-Control"] == "no-store"
    whole = browser.get("/t/acme/").content.decode()
    assert without_spaces(text) in without_spaces(whole)


def without_spaces(text: str) -> str:
    return re.sub(r"\s+", "", text)


def test_a_full_home_costs_as_many_queries_as_one_with_little(browser: Client, tenant: Tenant, host: Host) -> None:
    def come(*numbers: int) -> None:
        for number in numbers:
            take(host, make_log(f"failed-{number}", nodes=2, end="run.failed"))
            take(host, make_log(f"live-{number}", nodes=1)[:-1])
            take(
                host,
                [make_event(0, run=f"torn-{number}"), make_event(2, run=f"torn-{number}")],
                received_at=ago(days=1),
            )
            make_host(tenant, f"host-{number}")
        read_all(tenant)

    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert browser.get("/t/acme/").status_code == 200
        return len(queries)

    come(*range(5))
    few = cost()
    come(*range(5, 30))
    page = home(browser)
    assert (len(page.live_runs), len(page.recent_runs), len(page.writes), len(page.hosts)) == (12, 8, 12, 31)
    assert (page.live_total, page.writes_total, page.attention_total) == (60, 90, 60)
    assert cost() == few <= 22
