"""How much of the ledger is attributed, and what is not: counted from events and sources, never guessed."""

from __future__ import annotations

import csv
import io
import json
from datetime import date
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ledger.domain.observing import Sight
from ledger.observations import Look, Source, observe
from ledger.queries.coverage import DayShare, Gap, Share, coverage, gap_list
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.models import Host
from tests.factories import bearer, make_event, make_host, make_key, make_member, make_tenant
from tests.ledger.claims import body, make_writer, plan, say
from tests.ledger.test_pages import shown
from tests.ledger.test_store import ARRIVED, arrive, at, compaction, read_all, write

HERE = "/t/acme/coverage"
DAY = 24 * 3600


@pytest.fixture
def browser(tenant: Tenant) -> Client:
    client = Client()
    client.force_login(make_member(tenant, "vera"))
    return client


def fill(tenant: Tenant, host: Host) -> None:
    """Five writes on two days and two hosts: three name a node, two an agent, one no entry. Two merges, of which one
    names its sources, and an entry that was only seen."""
    arrive(
        host,
        write(0, "m1", node="sum", agentId="writer", at=at(0)),
        write(1, "m2", node="sum", at=at(DAY)),
        write(2, "m3", at=at(DAY)),
        make_event(3, "memory.written", node="edit", payload={"agentId": "writer"}, at=at(DAY)),
        compaction(4, "all", sourceIds=["m1", "m2"], sourceCount=2),
        compaction(5, "rest", sourceCount=3),
    )
    arrive(make_host(tenant, "beta"), write(0, "m9", run="run-9", at=at(0)))
    read_all(tenant)
    looks = [Look("notes", "seen", Sight("content", "text"))]
    observe(tenant_id=tenant.pk, host_id=host.pk, looks=looks, source=Source.READ, at=ARRIVED)


def test_shares_are_those_of_what_events_say(tenant: Tenant, host: Host) -> None:
    fill(tenant, host)
    with tenant_scope(tenant.pk):
        found = coverage(tenant.pk)
    assert found.writes == Share(None, 5, 3) and found.writes.percent == 60
    assert found.hosts == (Share("alpha", 4, 3), Share("beta", 1, 0))
    assert found.nodes == (Share("sum", 2, 2), Share("edit", 1, 1), Share(None, 2, 0))
    assert found.agents == (Share("writer", 2, 2), Share(None, 3, 1))
    assert found.days == (DayShare(date(2026, 3, 1), 2, 1), DayShare(date(2026, 3, 2), 3, 2))
    assert (found.looked_at, found.nodes_total, found.agents_total) == (5, 2, 1)
    # all, rest and seen have no write; m1, m2, m3 and m9 have.
    assert found.entries == Share(None, 7, 4)
    assert found.merges == Share(None, 2, 1)
    assert [(one.gap.value, one.count) for one in found.gaps] == [
        ("node", 2),
        ("entry", 1),
        ("write", 3),
        ("sources", 1),
    ]


def test_writers_are_told_with_what_they_said_of_their_sources(tenant: Tenant, host: Host) -> None:
    make_writer(tenant, "billing", 80)
    say(tenant, body("e1", claims=[plan("Growth")]), body("e2", hour=None, claims=[plan("Growth", scope="user")]))
    say(tenant, body("e3", messages=["Hello!"]))
    with tenant_scope(tenant.pk):
        (found,) = coverage(tenant.pk).writers
    assert (found.writer, found.claims, found.events, found.observed, found.kept, found.is_registered) == (
        *("billing", 2, 3, 2, 3),
        True,
    )


def test_gaps_are_listed_one_by_one(tenant: Tenant, host: Host) -> None:
    fill(tenant, host)
    with tenant_scope(tenant.pk):
        found = {gap: gap_list(tenant.pk, gap).rows for gap in Gap}
    assert [(row.host, row.run_id, row.sequence, row.memory_id) for row in found[Gap.NODE]] == [
        ("alpha", "run-1", 2, "m3"),
        ("beta", "run-9", 0, "m9"),
    ]
    assert [(row.sequence, row.node, row.agent, row.memory_id) for row in found[Gap.ENTRY]] == [
        (3, "edit", "writer", None)
    ]
    assert sorted((row.memory_id, row.what, row.run_id) for row in found[Gap.WRITE]) == [
        ("all", "named by a merge", None),
        ("rest", "named by a merge", None),
        ("seen", "seen", None),
    ]
    assert [(row.sequence, row.memory_id, row.what) for row in found[Gap.SOURCES]] == [
        (5, "rest", "compaction of 3 entries")
    ]


def test_a_completed_event_closes_its_gap_and_nothing_else_does(tenant: Tenant, host: Host) -> None:
    arrive(host, make_event(0, "run.started", node="sum"), write(1, "m1", tags=["node:sum"]))
    read_all(tenant)
    with tenant_scope(tenant.pk):
        assert coverage(tenant.pk).writes == Share(None, 1, 0), "neither the run's node nor a tag attributes it"


@pytest.mark.parametrize("gap", ["node", "entry", "write", "sources"])
def test_pages_of_gaps_lead_to_each_other(browser: Client, tenant: Tenant, host: Host, gap: str) -> None:
    events: list[dict[str, Any]] = []
    for place in range(60):
        if gap == "node":
            events.append(write(place, f"m{place}"))
        elif gap == "entry":
            events.append(make_event(place, "memory.written", node="sum", payload={}))
        else:
            events.append(compaction(place, f"m{place}"))
    arrive(host, *events)
    read_all(tenant)
    first = shown(browser, f"{HERE}?gap={gap}")
    second = shown(browser, f"{HERE}?gap={gap}&before={first.older}")
    assert (len(first.rows), len(second.rows), first.total, second.older) == (50, 10, 60, None)
    assert len({row.key for row in (*first.rows, *second.rows)}) == 60
    assert shown(browser, f"{HERE}?gap={gap}&after={second.newer}").rows == first.rows
    assert browser.get(f"{HERE}?gap={gap}&before=x").status_code == 400


def test_the_page_draws_and_says_the_same(browser: Client, tenant: Tenant, host: Host) -> None:
    fill(tenant, host)
    answer = browser.get(f"{HERE}?gap=sources")
    page, text = answer.context["page"], answer.content.decode()
    assert (page.section, page.tab, page.topics) == ("claims", "coverage", "ledger sources")
    assert "2026-03-01: 1 of 2; 2026-03-02: 2 of 3" in text, "the chart's text alternative"
    assert 'aria-label="75 % of its writes name their node"' in text
    assert "compaction of 3 entries" in text and "1 shown of 1" in text
    assert [(bar.height, bar.lit) for bar in page.bars] == [(26, 13), (40, 26)]
    assert "style=" not in text.replace('media="print"', "")


def test_an_empty_tenant_has_no_share_of_nothing(browser: Client) -> None:
    answer = browser.get(HERE)
    page, text = answer.context["page"], answer.content.decode()
    assert page.found.writes.percent is None and page.bars == ()
    assert "Nothing of this kind is missing." in text and "Nothing has been written yet." in text


def test_hostile_text_is_inert(browser: Client, tenant: Tenant, host: Host) -> None:
    hostile = "<img src=x onerror=alert(1)>\u202e"
    arrive(host, write(0, hostile, ref=hostile, node=hostile, agentId=hostile), write(1, hostile, ref=hostile))
    read_all(tenant)
    text = browser.get(HERE).content.decode()
    assert "<img" not in text and "\u202e" not in text and "&lt;img" in text


def test_a_page_costs_the_same_however_much_there_is(browser: Client, tenant: Tenant, host: Host) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as asked:
            assert browser.get(HERE).status_code == 200
        return len(asked)

    arrive(host, write(0))
    read_all(tenant)
    before = queries()
    arrive(host, *(write(place, f"m{place}", node=f"n{place}") for place in range(1, 60)))
    read_all(tenant)
    assert queries() == before


# --- REST, exports ---


def test_coverage_over_rest(tenant: Tenant, host: Host) -> None:
    fill(tenant, host)
    api = Client(headers=bearer(make_key(tenant, "read")))
    said = api.get("/v1/tenant/coverage").json()
    assert said["writes"] == {"name": None, "total": 5, "attributed": 3}
    assert said["hosts"][0] == {"name": "alpha", "total": 4, "attributed": 3}
    assert said["days"] == [
        {"day": "2026-03-01", "total": 2, "attributed": 1},
        {"day": "2026-03-02", "total": 3, "attributed": 2},
    ]
    assert said["gaps"] == {"node": 2, "entry": 1, "write": 3, "sources": 1}
    first = api.get("/v1/tenant/coverage/gaps?gap=node&limit=1").json()
    second = api.get(f"/v1/tenant/coverage/gaps?gap=node&limit=1&cursor={first['nextCursor']}").json()
    assert [one["runPath"] for one in (*first["items"], *second["items"])] == ["run-1", "run-9"]
    assert second["nextCursor"] is None
    for query in ("", "?gap=other", "?gap=node&cursor=x", "?gap=node&kind=1"):
        assert api.get(f"/v1/tenant/coverage/gaps{query}").status_code == 422
    assert api.get("/v1/tenant/coverage?host=alpha").status_code == 422


def test_gaps_to_take_away(browser: Client, tenant: Tenant, host: Host) -> None:
    fill(tenant, host)
    answer: Any = browser.get(f"{HERE}/export?gap=write")
    items = [json.loads(line) for line in b"".join(answer.streaming_content).splitlines()]
    assert sorted(one["memoryId"] for one in items) == ["all", "rest", "seen"]
    answer = browser.get(f"{HERE}/export?gap=node&format=csv")
    rows = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode("utf-8-sig"))))
    assert [(row["gap"], row["host"], row["sequence"]) for row in rows] == [
        ("node", "alpha", "2"),
        ("node", "beta", "0"),
    ]


def test_no_tenant_counts_anothers(tenant: Tenant, host: Host) -> None:
    fill(tenant, host)
    other = make_tenant("other")
    api = Client(headers=bearer(make_key(other, "read")))
    said = api.get("/v1/tenant/coverage").json()
    assert said["writes"]["total"] == said["entries"]["total"] == said["claims"] == 0 and said["hosts"] == []
    for gap in Gap:
        assert api.get(f"/v1/tenant/coverage/gaps?gap={gap.value}").json()["items"] == []
    stranger = Client()
    stranger.force_login(make_member(other, "eve"))
    assert stranger.get(HERE).status_code == 404 and stranger.get(f"{HERE}/export").status_code == 404
