"""Source events, as pages: filters, one event with its job and claims, and whether what is kept is what came."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ledger.claims_store.entries import read_entries
from ledger.domain.observing import Sight
from ledger.models import SourceEvent
from ledger.observations import Look, Source, observe
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.models import Host
from tests.factories import make_member, make_tenant
from tests.ledger.claims import at, body, make_writer, plan, say
from tests.ledger.test_pages import fragment, shown

HERE = "/t/acme/sources"
HOSTILE = "<img src=x onerror=alert(1)>\u202e"


@pytest.fixture
def browser(tenant: Tenant) -> Client:
    for key in ("billing", "crm"):
        make_writer(tenant, key)
    client = Client()
    client.force_login(make_member(tenant, "vera"))
    return client


def sent(tenant: Tenant, *args: Any, **told: Any) -> UUID:
    (taken,) = say(tenant, body(*args, **told))
    assert taken.source_event is not None
    return taken.source_event


def finding(browser: Client, source: UUID) -> str:
    found = shown(browser, f"{HERE}/{source}?verify").verification
    assert found is not None
    return str(found.finding)


# --- Lists ---


def test_events_are_listed_the_last_received_first(browser: Client, tenant: Tenant) -> None:
    first = sent(tenant, "e1", claims=[plan("Growth")])
    (taken,) = say(tenant, body("e2", service="crm", subject="user-2", messages=["Hello!"]), received=1001)
    answer = browser.get(HERE)
    page, text = answer.context["page"], answer.content.decode()
    assert [row.id for row in page.rows] == [taken.source_event, first]
    assert (page.total, page.total_is_estimate, page.section, page.tab) == (2, False, "claims", "sources")
    assert [row.claims for row in page.rows] == [0, 1]
    assert "nothing to extract" in text and "2 shown of 2" in text and page.rows[1].payload_hash[:12] in text


@pytest.mark.parametrize(
    ("query", "events"),
    [
        ("writer=crm", ["e2"]),
        ("writer=nobody", []),
        ("subject=user-1", ["e1"]),
        ("subject=%20user-2%20", ["e2"]),
        ("kind=add", ["e2", "e1"]),
        ("kind=entry", []),
        ("kind=nonsense&unknown=1", ["e2", "e1"]),
        # Received at hour 1000 and 1001 after noon of March 1st: April 12th, 04:00 and 05:00 UTC.
        ("since=2026-04-12T04:30", ["e2"]),
        ("until=2026-04-12T04:30", ["e1"]),
        ("since=2026-04-12T07:30:00%2B03:00", ["e2"]),
        ("since=2026-04-12T04:00&until=2026-04-12T05:00", ["e1"]),
        ("subject=%00&writer=%EE%80%80", []),
    ],
)
def test_a_filter_narrows_the_list(browser: Client, tenant: Tenant, query: str, events: list[str]) -> None:
    sent(tenant, "e1", claims=[plan("Growth")])
    say(tenant, body("e2", service="crm", subject="user-2", claims=[plan("Growth")]), received=1001)
    page = shown(browser, f"{HERE}?{query}")
    assert [row.event_id for row in page.rows] == events
    assert page.total == len(events) and page.time_error == ""


@pytest.mark.parametrize("given", ["yesterday", "2026-02-30T00:00", "9" * 60, "%00"])
def test_a_time_that_is_none_is_told_and_left_aside(browser: Client, tenant: Tenant, given: str) -> None:
    sent(tenant, "e1", claims=[plan("Growth")])
    page = shown(browser, f"{HERE}?since={given}")
    assert "is no time" in page.time_error and page.total == 1


def test_pages_lead_to_each_other(browser: Client, tenant: Tenant) -> None:
    say(tenant, *(body(f"e{number}", claims=[plan("Growth")]) for number in range(60)))
    first = shown(browser, HERE)
    second = shown(browser, f"{HERE}?before={first.older}")
    assert (len(first.rows), len(second.rows), second.older, first.total) == (50, 10, None, 60)
    assert shown(browser, f"{HERE}?after={second.newer}").rows == first.rows
    assert browser.get(f"{HERE}?before=x").status_code == 400


def test_a_page_costs_the_same_however_much_there_is(browser: Client, tenant: Tenant) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as asked:
            assert browser.get(HERE).status_code == 200
        return len(asked)

    sent(tenant, "e0", claims=[plan("Growth")])
    before = queries()
    say(tenant, *(body(f"e{number}", claims=[plan("Growth")]) for number in range(1, 40)))
    assert queries() == before


def test_first_use_and_no_match_say_so(browser: Client) -> None:
    assert "Nothing has been observed yet." in browser.get(HERE).content.decode()
    assert "No source event matches." in browser.get(f"{HERE}?writer=crm").content.decode()


# --- One event ---


def test_an_event_shows_all_of_it(browser: Client, tenant: Tenant) -> None:
    source = sent(
        tenant,
        "e1",
        messages=["My plan is Growth."],
        claims=[{"key": "seats", "value": 12}],
        scope={"type": "user"},
        evidence=[{"url": "https://x.test/1"}, "a note"],
    )
    answer = browser.get(f"{HERE}/{source}")
    page, text = answer.context["page"], answer.content.decode()
    assert sorted(claim.key for claim in page.claims) == ["plan", "seats"]
    assert page.scope == '{"agent_identity":"default","type":"user"}'
    assert page.verification is None and len(page.evidence) == 2
    for shown_text in ("My plan is Growth.", "https://x.test/1", "a note", "key:", "statements-1", "2 shown of 2"):
        assert shown_text in text, shown_text
    assert f'href="/t/acme/claims/{page.claims[0].id}"' in text


def test_hostile_text_is_inert(browser: Client, tenant: Tenant) -> None:
    source = sent(
        tenant,
        HOSTILE,
        subject=HOSTILE,
        claims=[{"key": HOSTILE, "value": HOSTILE}],
        scope={"type": HOSTILE},
        evidence=[HOSTILE],
    )
    for url in (HERE, f"{HERE}/{source}", f"{HERE}/{source}?verify"):
        text = re.sub(r'(?:value|data-copy)="[^"]*"', "", browser.get(url).content.decode())
        assert "<img" not in text and "\u202e" not in text and "&lt;img" in text, url


def test_unknown_and_foreign_events_answer_alike(browser: Client, tenant: Tenant) -> None:
    other = make_tenant("other")
    make_writer(other, "billing")
    foreign = sent(other, "e1", claims=[plan("Growth")])
    for source in (foreign, uuid4()):
        answer = browser.get(f"{HERE}/{source}")
        assert answer.status_code == 404
    assert shown(browser, HERE).total == 0
    assert browser.get("/t/other/sources").status_code == 404
    assert browser.get("/t/other/sources/export").status_code == 404


# --- Whether it is what came ---


@pytest.mark.parametrize(
    "told",
    [
        {"claims": [plan("Growth")]},
        {"hour": None, "messages": ["My plan is Growth.", ""], "scope": "user"},
        {"claims": [{"key": "share", "value": 0.1}, {"key": "n", "value": 2**53 - 1}], "evidence": [1e300, None]},
        {"messages": ["Grüße aus 東京 😀 <b>"], "scope": {"b": None, "type": "x", "agentIdentity": ""}},
    ],
    ids=["claims", "our time", "numbers", "texts"],
)
def test_what_is_kept_has_the_hash_of_what_came(browser: Client, tenant: Tenant, told: dict[str, Any]) -> None:
    assert finding(browser, sent(tenant, "e1", **told)) == "matches"


def test_replaced_secrets_are_told_apart_from_a_change(browser: Client, tenant: Tenant) -> None:
    source = sent(tenant, "e1", messages=["The key is AKIAIOSFODNN7EXAMPLE."])
    assert finding(browser, source) == "redacted"
    assert "AKIAIOSFODNN7EXAMPLE" not in browser.get(f"{HERE}/{source}").content.decode()


def test_a_payload_that_was_taken_away_leaves_its_hash(browser: Client, tenant: Tenant) -> None:
    source = sent(tenant, "e1", claims=[plan("Growth")])
    with tenant_scope(tenant.pk):
        SourceEvent.objects.filter(tenant_id=tenant.pk, id=source).update(
            payload=None, payload_redacted_at=at(1000) + timedelta(days=30)
        )
    page = shown(browser, f"{HERE}/{source}?verify")
    assert page.verification.finding == "taken_away" and len(page.event.payload_hash) == 64 and page.payload is None
    text = browser.get(f"{HERE}/{source}").content.decode()
    assert "Its hash stays" in text and page.event.payload_hash in text


def test_a_payload_that_was_tampered_with_is_found(browser: Client, tenant: Tenant) -> None:
    source = sent(tenant, "e1", claims=[plan("Growth")])
    with tenant_scope(tenant.pk), connection.cursor() as cursor:
        # Whoever gets past the trigger that forbids it.
        cursor.execute("ALTER TABLE ledger_sourceevent DISABLE TRIGGER USER")
        cursor.execute("UPDATE ledger_sourceevent SET payload = replace(payload, 'Growth', 'Starter')")
        cursor.execute("ALTER TABLE ledger_sourceevent ENABLE TRIGGER USER")
    assert finding(browser, source) == "differs"
    part = fragment(browser, f"{HERE}/{source}?verify", "verified").content.decode()
    assert "It is not what came." in part and "<html" not in part


def test_an_entry_that_was_read_is_held_against_its_content(browser: Client, tenant: Tenant, host: Host) -> None:
    looks = [Look("notes", "m1", Sight("content", "My plan is Growth."))]
    observe(tenant_id=tenant.pk, host_id=host.pk, looks=looks, source=Source.READ, at=at(1))
    read_entries(tenant.pk)
    (row,) = shown(browser, f"{HERE}?kind=entry").rows
    assert row.entry == ("alpha", "notes", "m1") and row.writer == "host:alpha"
    assert finding(browser, row.id) == "matches"


# --- To take away ---


def test_events_to_take_away_without_their_payloads(browser: Client, tenant: Tenant) -> None:
    sent(tenant, "=1+1", subject="@user", claims=[plan("Growth")], evidence=["kept"])
    answer: Any = browser.get(f"{HERE}/export?format=ndjson")
    (item,) = [json.loads(line) for line in b"".join(answer.streaming_content).splitlines()]
    assert (item["event_id"], item["payload"], item["evidence"]) == ("=1+1", None, ["kept"])
    assert item["job"]["status"] == "done" and len(item["payload_hash"]) == 64
    answer = browser.get(f"{HERE}/export?format=csv")
    (row,) = csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode("utf-8-sig")))
    assert (row["event_id"], row["external_user_id"], row["observed"]) == ("'=1+1", "'@user", "true")
    answer = browser.get(f"{HERE}/export?writer=crm")
    assert b"".join(answer.streaming_content) == b""
