"""Receipts as people and programs see them: the tenant's, a run's, an entry's; exports; the names of memory tools."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import jsonschema_rs
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from ledger.domain.attempts import Trace
from ledger.domain.receipt_words import REASONS, STATES, TRACES
from ledger.domain.receipts import Reason, State
from ledger.list_exports import cell
from openwop_ui.tenancy.models import Role, Tenant
from runs.models import Host
from tests.factories import bearer, make_event, make_host, make_key, make_member, make_tenant, make_user
from tests.ledger.test_pages import entry_url, fragment, shown
from tests.ledger.test_receipt_store import ASKED, STORY, called, returned
from tests.ledger.test_store import arrive, read_all, write

HERE = "/t/acme/receipts"
RUN = "/t/acme/runs/alpha/run-1/receipts"


@pytest.fixture
def browser(tenant: Tenant) -> Client:
    client = Client()
    client.force_login(make_member(tenant, "vera"))
    return client


@pytest.fixture
def told(tenant: Tenant, host: Host) -> Tenant:
    """Three attempts (confirmed, already made, unknown) and a write that nothing asked for."""
    arrive(host, *STORY)
    read_all(tenant)
    return tenant


@pytest.fixture
def api(told: Tenant) -> Client:
    return Client(headers=bearer(make_key(told, "read")))


def test_every_state_reason_and_trace_has_words() -> None:
    assert set(STATES) == set(State) and set(REASONS) == set(Reason) and set(TRACES) == set(Trace)


# --- Pages ---


def test_the_tenants_page_counts_states_and_both_lists(browser: Client, told: Tenant) -> None:
    answer = browser.get(HERE)
    page = answer.context["page"]
    assert (page.section, page.tab, page.topics) == ("claims", "receipts", "ledger")
    assert [(one.state, one.count) for one in page.tally] == [
        ("requested", 0),
        ("waiting", 0),
        ("refused", 0),
        ("unknown", 1),
        ("confirmed", 2),
    ]
    assert (page.counts.claimed_only, page.counts.unasked, page.total) == (1, 1, 3)
    assert [row.sequence for row in page.receipts] == [8, 6, 1]
    text = answer.content.decode()
    assert "3 shown of 3" in text and "already made" in text and "claimed, and not in the log" in text
    assert "The returned key is not the one that was asked for." in text
    assert 'href="/t/acme/runs/alpha/run-1?seq=4"' in text, "evidence leads to its event"


@pytest.mark.parametrize(
    ("query", "sequences"),
    [
        ("state=confirmed", [6, 1]),
        ("state=unknown", [8]),
        ("state=nonsense", [8, 6, 1]),
        ("host=alpha", [8, 6, 1]),
        ("host=beta", []),
        ("tool=remember", [8, 6, 1]),
        ("tool=other", []),
        ("run=run-1", [8, 6, 1]),
        ("run=run-2", []),
        ("show=claimed_only", [8]),
        ("entry=00000000-0000-0000-0000-000000000000", []),
        ("entry=x&show=x&unknown=1", [8, 6, 1]),
        ("run=%00&tool=%EE%80%80", []),
    ],
)
def test_a_filter_narrows_the_list(browser: Client, told: Tenant, query: str, sequences: list[int]) -> None:
    page = shown(browser, f"{HERE}?{query}")
    assert [row.sequence for row in page.receipts] == sequences


def test_writes_that_nothing_asked_for_are_listed(browser: Client, told: Tenant) -> None:
    page = shown(browser, f"{HERE}?show=unasked")
    assert [(row.sequence, row.memory_id, row.node) for row in page.writes] == [(9, "m3", "other")]
    assert (page.total, page.receipts) == (1, ())
    assert "1 write that nothing asked for" in browser.get(f"{HERE}?show=unasked").content.decode()


def test_a_run_is_told_in_the_order_of_its_log(browser: Client, told: Tenant) -> None:
    page = shown(browser, RUN)
    assert [row.sequence for row in page.receipts] == [1, 6, 8]
    assert page.run.run_id == "run-1" and page.section == "runs"
    assert [row.sequence for row in shown(browser, f"{RUN}?show=unasked").writes] == [9]
    assert [row.sequence for row in shown(browser, f"{RUN}?state=unknown").receipts] == [8]
    assert browser.get("/t/acme/runs/alpha/run-9/receipts").status_code == 404


def test_the_panel_of_a_run_says_what_is_not_proven(browser: Client, told: Tenant, host: Host) -> None:
    text = browser.get(f"{RUN}/panel").content.decode()
    assert "3 attempted memory writes" in text and "1 unknown" in text and "2 confirmed" in text
    assert "1 write that nothing asked for" in text and "The returned key is not" in text
    arrive(host, make_event(0, "run.started", run="run-2"), write(1, "m4", run="run-2"))
    read_all(told)
    quiet = browser.get("/t/acme/runs/alpha/run-2/receipts/panel").content.decode()
    assert " hidden>" in quiet
    assert reverse("ledger:receipts_panel", kwargs={"tenant": "acme", "host": "alpha", "run": "run-1"}) in (
        browser.get("/t/acme/runs/alpha/run-1").content.decode()
    )


def test_an_entry_shows_the_attempts_at_it(browser: Client, told: Tenant) -> None:
    page = shown(browser, entry_url("m1"))
    assert [row.sequence for row in page.receipts] == [8, 1], "both answers name it; the third was an error"
    assert shown(browser, entry_url("m3")).receipts == ()
    part = fragment(browser, entry_url("m1"), "receipts").content.decode()
    assert "2 attempted writes shown" in part and "<html" not in part


def test_pages_lead_to_each_other(browser: Client, tenant: Tenant, host: Host) -> None:
    arrive(host, *(called(place, f"c{place}", asked=ASKED | {"key": f"k{place}"}) for place in range(120)))
    read_all(tenant)
    for here, expected in ((HERE, [*reversed(range(120))]), (RUN, [*range(120)])):
        seen, url = [], here
        for _ in range(3):
            page = shown(browser, url)
            assert page.total == 120
            seen += [row.sequence for row in page.receipts]
            url = f"{here}?before={page.older}"
        assert seen == expected and page.older is None
        assert [row.sequence for row in shown(browser, f"{here}?after={page.newer}").receipts] == seen[50:100]
    for broken in ("x", "%00", "AAAA"):
        assert browser.get(f"{HERE}?before={broken}").status_code == 400
        assert browser.get(f"{RUN}?show=unasked&after={broken}").status_code == 400


def test_first_use_says_how_receipts_come(browser: Client) -> None:
    text = browser.get(HERE).content.decode()
    assert "No write was attempted." in text and "0 shown of 0" in text
    assert "Every write was asked for." in browser.get(f"{HERE}?show=unasked").content.decode()


HOSTILE = '<img src=x onerror="alert(1)">\u202e'


def test_hostile_text_is_inert(browser: Client, tenant: Tenant, host: Host) -> None:
    asked = {"key": HOSTILE, "scope": {"type": HOSTILE}, "agentIdentity": HOSTILE}
    arrive(host, called(0, HOSTILE, asked=asked, tool=f"{HOSTILE}.remember", node=HOSTILE))
    arrive(host, returned(1, {"entry": {"key": "=cmd()", "memoryRef": HOSTILE, "memoryId": HOSTILE}}, HOSTILE))
    read_all(tenant)
    for url in (HERE, RUN, f"{RUN}/panel"):
        # A form sends its values back as they are.
        text = re.sub(r'value="[^"]*"', "", browser.get(url).content.decode())
        assert "<img" not in text and "\u202e" not in text, url
        assert "&lt;img" in text


def test_a_page_costs_the_same_however_much_there_is(browser: Client, tenant: Tenant, host: Host) -> None:
    def queries(url: str) -> int:
        with CaptureQueriesContext(connection) as asked:
            assert browser.get(url).status_code == 200
        return len(asked)

    arrive(host, called(0), returned(1, {}))
    read_all(tenant)
    before = [queries(url) for url in (HERE, RUN, f"{RUN}/panel")]
    arrive(host, *(called(place, f"c{place}", asked={"key": f"k{place}"}) for place in range(2, 60)))
    read_all(tenant)
    assert [queries(url) for url in (HERE, RUN, f"{RUN}/panel")] == before


# --- Exports ---


def lines(answer: Any) -> list[Any]:
    return [json.loads(line) for line in b"".join(answer.streaming_content).splitlines()]


def rows(answer: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode("utf-8-sig"))))


def test_an_export_has_the_whole_list_and_its_filter(browser: Client, tenant: Tenant, host: Host) -> None:
    arrive(host, *(called(place, f"c{place}", asked={"key": f"k{place}"}) for place in range(1_100)))
    read_all(tenant)
    items = lines(browser.get(f"{HERE}/export?format=ndjson"))
    assert [one["sequence"] for one in items] == [*reversed(range(1_100))]
    assert lines(browser.get(f"{HERE}/export?state=confirmed")) == []
    assert browser.get(f"{HERE}/export?format=xml").status_code == 404


def test_a_csv_starts_no_formula(browser: Client, tenant: Tenant, host: Host) -> None:
    arrive(host, called(0, "=1+1", node="@SUM(A1)"), returned(1, {"entry": {"key": "-2"}}, "=1+1"))
    arrive(host, write(2, "+m", node="|calc"))
    read_all(tenant)
    answer = browser.get(f"{HERE}/export?format=csv")
    assert answer["Content-Type"] == "text/csv; charset=utf-8" and "attachment" in answer["Content-Disposition"]
    (row,) = rows(answer)
    assert (row["callId"], row["node"], row["sequence"], row["state"]) == ("'=1+1", "'@SUM(A1)", "0", "unknown")
    assert json.loads(row["returned"])["key"] == "-2"
    answer = browser.get(f"{HERE}/export?format=csv&show=unasked")
    (row,) = rows(answer)
    assert (row["memoryId"], row["node"]) == ("'+m", "'|calc")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ""),
        (True, "true"),
        (-5, "-5"),
        (1.5, "1.5"),
        ("plain", "plain"),
        ("=1", "'=1"),
        ("  =1", "'  =1"),
        ("\t1", "'\t1"),
        ("\uff1d1", "'\uff1d1"),
        ("a=1", "a=1"),
        (["=1"], '["=1"]'),
        ("a\x00b", "a\ufffdb"),
    ],
)
def test_a_cell_of_a_spreadsheet(value: Any, expected: str) -> None:
    assert cell(value) == expected


# --- REST ---


def test_a_runs_receipts_over_rest(api: Client) -> None:
    said = api.get("/v1/hosts/alpha/runs/run-1/receipts?limit=2").json()
    assert [(one["sequence"], one["state"], one["repeat"], one["repeats"]) for one in said["items"]] == [
        (1, "confirmed", "first", None),
        (6, "confirmed", "already_made", 1),
    ]
    assert said["counts"] == {
        "requested": 0,
        "waiting": 0,
        "refused": 0,
        "unknown": 1,
        "confirmed": 2,
        "claimedOnly": 1,
        "unasked": 1,
        "estimated": False,
        "behind": 0,
    }
    first = said["items"][0]
    assert first["asked"] == {"key": "plan", "scopeType": "user", "agentIdentity": "scout"} == first["returned"]
    assert [(one["trace"], one["sequence"]) for one in first["evidence"]] == [
        ("called", 1),
        ("approval_asked", 2),
        ("approval_given", 3),
        ("written", 4),
        ("returned", 5),
    ]
    assert (first["entryPath"], first["write"], first["claimedOnly"]) == ("alpha/notes/m1", 4, False)
    rest = api.get(f"/v1/hosts/alpha/runs/run-1/receipts?limit=2&cursor={said['nextCursor']}").json()
    assert [one["sequence"] for one in rest["items"]] == [8] and rest["nextCursor"] is None
    unasked = api.get("/v1/hosts/alpha/runs/run-1/receipts?show=unasked").json()
    assert [(one["sequence"], one["entryPath"]) for one in unasked["items"]] == [(9, "alpha/notes/m3")]
    claimed = api.get("/v1/hosts/alpha/runs/run-1/receipts?show=claimed_only&state=unknown").json()
    assert [one["sequence"] for one in claimed["items"]] == [8]


def test_the_tenants_and_an_entrys_receipts_over_rest(api: Client) -> None:
    assert [one["sequence"] for one in api.get("/v1/receipts").json()["items"]] == [8, 6, 1]
    assert api.get("/v1/receipts?tool=other").json()["items"] == []
    assert [one["sequence"] for one in api.get("/v1/receipts?state=confirmed&run=run-1").json()["items"]] == [6, 1]
    said = api.get("/v1/ledger/entries/alpha/notes/m1/receipts").json()
    assert [one["sequence"] for one in said["items"]] == [8, 1]
    assert api.get("/v1/ledger/entries/alpha/notes/m9/receipts").status_code == 404


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("/v1/receipts", "/v1/receipts"),
        ("/v1/receipts", "/v1/receipts?show=unasked"),
        ("/v1/hosts/{slug:host}/runs/{projected:run}/receipts", "/v1/hosts/alpha/runs/run-1/receipts"),
        ("/v1/tenant/coverage", "/v1/tenant/coverage"),
        ("/v1/tenant/coverage/gaps", "/v1/tenant/coverage/gaps?gap=node"),
    ],
)
def test_answers_are_as_the_documents_say_and_nothing_more(api: Client, path: str, url: str) -> None:
    document = api.get("/v1/openapi.json").json()
    told = {re.sub(r"\{\w+:", "{", name): operations for name, operations in document["paths"].items()}
    schema = told[re.sub(r"\{\w+:", "{", path)]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    closed = json.loads(json.dumps(document["components"]["schemas"]))
    for one in closed.values():
        one["additionalProperties"] = False
    jsonschema_rs.validator_for({**schema, "components": {"schemas": closed}}).validate(api.get(url).json())


@pytest.mark.parametrize("query", ["state=done", "show=all", "limit=0", "cursor=x", "run=", "unknown=1", "state="])
def test_what_is_no_query_is_refused(api: Client, query: str) -> None:
    answer = api.get(f"/v1/receipts?{query}")
    assert (answer.status_code, answer.json()["error"]) == (422, "validation_error")


def test_nobody_else_sees_any_of_it(told: Tenant) -> None:
    stranger, outsider = make_tenant("other"), Client()
    outsider.force_login(make_user("eve"))
    make_host(stranger)
    foreign = Client(headers=bearer(make_key(stranger, "read")))
    assert foreign.get("/v1/receipts").json()["items"] == []
    assert foreign.get("/v1/hosts/alpha/runs/run-1/receipts").status_code == 404
    for url in (HERE, RUN, f"{RUN}/panel", f"{HERE}/export"):
        assert outsider.get(url).status_code == 404, url
        assert Client().get(url).status_code == 302, url
    assert Client(headers=bearer(make_key(told, "ingest"))).get("/v1/receipts").status_code == 403
    assert Client().get("/v1/receipts").status_code == 401


# --- The names of memory tools ---


def test_an_admin_names_the_tools_and_receipts_follow(tenant: Tenant, host: Host, browser: Client) -> None:
    arrive(host, called(0, tool="store_note"))
    read_all(tenant)
    admin = Client()
    admin.force_login(make_member(tenant, "ada", Role.ADMIN))
    answer = admin.post(f"{HERE}/tools", {"writes": "store_note\r\nremember, save", "reads": "look"}, follow=True)
    assert "are being read again" in answer.content.decode()
    page = answer.context["page"]
    assert (page.writing, page.reading, page.may_change) == (("remember", "save", "store_note"), ("look",), True)
    assert page.counts.behind == 1 and "1 run has events" in answer.content.decode()
    read_all(tenant)
    assert [row.tool for row in shown(browser, HERE).receipts] == ["store_note"]
    assert browser.post(f"{HERE}/tools", {"writes": "x"}).status_code == 403


@pytest.mark.parametrize(
    ("writes", "reads", "complaint"),
    [
        ("  ,\n", "look", "Name one tool that writes"),
        ("remember", "remember", "either writes or reads"),
        (",".join(f"t{number}" for number in range(51)), "", "50 names at most"),
        ("x" * 201, "", "200 characters at most"),
    ],
)
def test_names_that_make_no_sense_change_nothing(tenant: Tenant, writes: str, reads: str, complaint: str) -> None:
    admin = Client()
    admin.force_login(make_member(tenant, "ada", Role.ADMIN))
    answer = admin.post(f"{HERE}/tools", {"writes": writes, "reads": reads}, follow=True)
    assert complaint in answer.content.decode()
    assert answer.context["page"].writing == ("remember",)
