"""What the bar of every page says about conflicts that await a person."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ledger.claims_store import register_writer, set_key_rule
from ledger.domain.key_registry import KeyRule, read_key
from openwop_ui.tenancy.models import Tenant
from tests.factories import make_member, make_tenant
from tests.ledger.claims import body, say

COUNT = "/t/acme/conflicts/count"


@pytest.fixture
def browser(tenant: Tenant) -> Client:
    client = Client()
    client.force_login(make_member(tenant, "vera"))
    return client


def disagree(tenant: Tenant, *subjects: str) -> None:
    for writer in ("billing", "crm"):
        register_writer(tenant_id=tenant.pk, service_key=writer, display_name=writer)
    set_key_rule(tenant_id=tenant.pk, key=read_key("fact", "seats"), rule=KeyRule())
    for subject in subjects:
        for value, writer in enumerate(("billing", "crm")):
            claims: list[Any] = [{"key": "seats", "value": value}]
            say(tenant, body(f"{writer}-{subject}", service=writer, subject=subject, claims=claims))


def test_the_number_is_of_this_tenants_open_ones(browser: Client, tenant: Tenant) -> None:
    disagree(tenant, "user-1", "user-2")
    disagree(make_tenant("other"), "user-1", "user-2", "user-3")
    answer = browser.get(COUNT)
    assert answer.context["count"] == 2
    assert "2<span" in answer.content.decode() and answer["Cache-Control"] == "no-store"


def test_every_whole_page_has_the_number_and_no_fragment_asks_for_it(browser: Client, tenant: Tenant) -> None:
    disagree(tenant, "user-1", "user-2")
    with CaptureQueriesContext(connection) as caught:
        page = browser.get("/t/acme/ledger").content.decode()
    assert "2<span" in page.partition('id="open-conflicts"')[2][:400]
    with CaptureQueriesContext(connection) as fewer:
        browser.get("/t/acme/ledger", headers={"HX-Request": "true", "HX-Target": "rows"})
    counting = "SELECT count(*) FROM (SELECT FROM ledger_conflict"
    assert [sum(counting in one["sql"] for one in queries) for queries in (caught, fewer)] == [1, 0]


def test_a_page_that_says_what_went_wrong_asks_for_it(browser: Client, tenant: Tenant) -> None:
    answer = browser.get("/t/acme/hosts/nowhere")
    assert answer.status_code == 404
    bar = answer.content.decode().partition('id="open-conflicts"')[2].partition("</a>")[0]
    assert 'hx-trigger="load, live:conflicts' in bar and "<span" not in bar
    assert 'hx-trigger="live:conflicts' in browser.get("/t/acme/ledger").content.decode()


def test_nothing_is_said_of_none(browser: Client) -> None:
    assert browser.get(COUNT).content.decode().strip() == ""


def test_more_than_a_thousand_are_not_counted(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.conflict_views.open_count", lambda tenant: 1000)
    assert "1,000+" in browser.get(COUNT).content.decode()


def test_strangers_learn_nothing(tenant: Tenant) -> None:
    stranger = Client()
    assert stranger.get(COUNT).status_code == 302
    stranger.force_login(make_member(make_tenant("other"), "oscar"))
    assert stranger.get(COUNT).status_code == 404


def test_it_is_asked_for_again_with_one_query(browser: Client, tenant: Tenant) -> None:
    assert f'hx-get="{COUNT}"' in browser.get("/t/acme/runs").content.decode()
    browser.get(COUNT)
    with CaptureQueriesContext(connection) as asked:
        browser.get(COUNT)
    about = [one["sql"] for one in asked.captured_queries if "ledger_" in one["sql"]]
    assert len(about) == 1
