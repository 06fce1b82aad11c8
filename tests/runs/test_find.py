"""The command palette's search: every kind of place by its name, few queries, one's own tenant only."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from ledger.models import Conflict, SubjectKey
from ledger.store import read_backlog
from openwop_ui.tenancy.models import Role, Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.projection import project
from tests.factories import BEGINNING, make_event, make_host, make_log, make_member, make_tenant, take

pytestmark = pytest.mark.django_db
HOSTILE = "<img src=x onerror=1>'\"/:%~ \u202egnp"


@pytest.fixture
def tenant() -> Tenant:
    tenant = make_tenant()
    host = make_host(tenant, "alpha", name="Alpha host")
    take(host, make_log(run="run-1"))
    take(host, make_log(run="other-2", nodes=1))
    take(host, [make_event(0, "run.started", run=HOSTILE), make_event(1, run=HOSTILE, node=HOSTILE)])
    take(
        host,
        [make_event(2, "memory.written", run=HOSTILE, payload={"memoryRef": HOSTILE, "memoryId": HOSTILE})],
    )
    read_backlog(tenant.pk)
    return tenant


@pytest.fixture
def vera(tenant: Tenant) -> Client:
    client = Client()
    client.force_login(make_member(tenant, "vera", Role.VIEWER))
    return client


def found(client: Client, q: str, at: str = "", tenant: str = "acme") -> dict[str, list[str]]:
    """The addresses under each heading, as the palette gets them."""
    headers = {"HX-Request": "true", "HX-Target": "find-list"}
    page = client.get(f"/t/{tenant}/find", {"q": q, "at": at}, headers=headers).content.decode()
    assert "<html" not in page
    groups = re.split(r'role="presentation">', page)[1:]
    return {group.partition("<")[0]: re.findall(r'data-href="([^"]*)"', group) for group in groups}


def test_each_kind_of_place_by_its_name(vera: Client) -> None:
    assert found(vera, "run-1")["Runs"] == ["/t/acme/runs/alpha/run-1"]
    assert found(vera, "BRIEF")["Runs"] == ["/t/acme/runs/alpha/other-2", "/t/acme/runs/alpha/run-1"]
    assert found(vera, "step-1")["Nodes"] == ["/t/acme/runs/alpha/run-1?node=step-1"]
    assert found(vera, "run-1-m1")["Memory entries"] == ["/t/acme/ledger/alpha/notes/run-1-m1"]
    assert found(vera, "notes")["Memory entries"][0].startswith("/t/acme/ledger/alpha/notes/")
    assert found(vera, "alph")["Hosts"] == ["/t/acme/hosts/alpha"]
    assert found(vera, "ledg")["Pages"] == ["/t/acme/ledger"]


def test_what_is_named_exactly_comes_first(vera: Client, tenant: Tenant) -> None:
    host = make_host(tenant, "alpha")
    for number in range(8):
        take(host, [make_event(0, "run.started", run=f"run-1{number}")])
    assert found(vera, "run-1")["Runs"][0] == "/t/acme/runs/alpha/run-1"


def test_on_a_runs_page_its_own_come_first(vera: Client) -> None:
    nodes = found(vera, "step", at="alpha/other-2")["Nodes"]
    assert nodes[0] == "/t/acme/runs/alpha/other-2?node=step-0"
    assert found(vera, "#3", at="alpha/run-1")["Events"] == ["/t/acme/runs/alpha/run-1?seq=3"]
    assert found(vera, "3", at="alpha/run-1")["Events"] == ["/t/acme/runs/alpha/run-1?seq=3"]
    assert "Events" not in found(vera, "#99", at="alpha/run-1")
    assert "Events" not in found(vera, "#3")
    assert found(vera, "x", at="alpha/run-1")["Searches"][0] == "/t/acme/runs/alpha/run-1?q=x"


@pytest.mark.parametrize("at", ["alpha", "alpha/", "/run-1", "alpha/none", "alpha/~zz", "\x00/\x00", "beta/run-1"])
def test_a_run_that_is_not_there_is_nowhere(vera: Client, at: str) -> None:
    assert "Events" not in found(vera, "#0", at=at)


def test_before_anything_is_typed_there_are_pages_and_the_newest_runs(vera: Client) -> None:
    places = found(vera, "")
    assert "/t/acme/" in places["Pages"] and "/t/acme/upload" not in places["Pages"]
    assert places["Runs"][0] == f"/t/acme/runs/alpha/{project(HOSTILE)}"
    assert "Nodes" not in places and "Searches" not in places


def test_hostile_names_are_inert_and_lead_to_their_place(vera: Client) -> None:
    headers = {"HX-Request": "true", "HX-Target": "find-list"}
    page = vera.get("/t/acme/find", {"q": HOSTILE[:9]}, headers=headers).content.decode()
    assert "<img" not in page and "\u202e" not in page
    places = found(vera, HOSTILE)
    assert places["Runs"] == [f"/t/acme/runs/alpha/{project(HOSTILE)}"]
    assert places["Memory entries"] == [f"/t/acme/ledger/alpha/{project(HOSTILE)}/{project(HOSTILE)}"]
    for group in ("Runs", "Nodes", "Memory entries", "Searches"):
        for href in places[group]:
            assert vera.get(href.replace("&amp;", "&")).status_code == 200


@pytest.mark.parametrize("q", ["%", "_", "\\", "\x00", "x" * 5000, "run-1'; --"])
def test_any_text_is_looked_for_as_text(vera: Client, q: str) -> None:
    places = found(vera, q)
    assert "Runs" not in places or q in ("%",)


def test_a_page_without_scripts_finds_the_same(vera: Client) -> None:
    page = vera.get("/t/acme/find?q=run-1").content.decode()
    assert '<a href="/t/acme/runs/alpha/run-1">' in page and 'role="option"' not in page


def test_nothing_of_another_tenant(vera: Client, tenant: Tenant) -> None:
    other = make_tenant("globex")
    take(make_host(other, "secret-host", name="run-1 host"), make_log(run="run-1-secret"))
    read_backlog(other.pk)
    assert "secret" not in str(found(vera, "run-1"))
    assert set(found(vera, "secret")) == {"Searches"}
    olga = Client()
    olga.force_login(make_member(other, "olga", Role.ADMIN))
    assert olga.get("/t/acme/find?q=run-1").status_code == 404
    assert "alpha" not in str(found(olga, "run-1", at="alpha/run-1", tenant="globex"))


def test_few_queries_whatever_there_is(vera: Client, tenant: Tenant, django_assert_max_num_queries: Any) -> None:
    host = make_host(tenant, "alpha")
    for number in range(30):
        take(host, make_log(run=f"many-{number}", nodes=3))
    read_backlog(tenant.pk)
    with django_assert_max_num_queries(22):
        assert len(found(vera, "many", at="alpha/run-1")["Runs"]) == 6


def test_conflicts_by_subject_and_key_open_ones_first(vera: Client, tenant: Tenant) -> None:
    key, first, second = uuid4(), uuid4(), uuid4()
    with tenant_scope(tenant.pk):
        SubjectKey.objects.create(tenant_id=tenant.pk, id=key, subject="user-7", category="profile", key="home <b>city")
        for conflict, state, hour in ((first, "open", 1), (second, "decided", 2)):
            at = BEGINNING + timedelta(hours=hour)
            Conflict.objects.create(
                tenant_id=tenant.pk,
                id=conflict,
                kind="contest",
                subject_key_id=key,
                scope="",
                state=state,
                opened_at=at,
                changed_at=at,
            )
    expected = [f"/t/acme/conflicts/{conflict}" for conflict in (first, second)]
    assert found(vera, "user-7")["Conflicts"] == expected
    assert found(vera, "city")["Conflicts"] == expected
    assert found(vera, str(second))["Conflicts"] == expected[1:]
    assert "/t/acme/conflicts" in found(vera, "conf")["Pages"]
