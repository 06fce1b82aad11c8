"""Saved views: one person's, in one tenant; saved, put on, renamed, deleted, and every change taken back."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test import Client

from openwop_ui.tenancy.models import Membership, Role, Tenant
from openwop_ui.tenancy.scope import operator_scope, principal_scope, tenant_scope
from runs.models import SavedView
from tests.factories import make_host, make_log, make_member, make_tenant, take

pytestmark = pytest.mark.django_db
HERE = "/t/acme/views"
RUN = "/t/acme/runs/alpha/run-1"


@pytest.fixture
def tenant() -> Tenant:
    tenant = make_tenant()
    take(make_host(tenant), make_log())
    return tenant


def browser(tenant: Tenant, name: str) -> Client:
    client = Client()
    client.force_login(make_member(tenant, name, Role.VIEWER))
    return client


@pytest.fixture
def vera(tenant: Tenant) -> Client:
    return browser(tenant, "vera")


def in_menu(client: Client, query: str = "?seq=3") -> str:
    """The list as the menu of a run's page gets it."""
    headers = {
        "HX-Request": "true",
        "HX-Target": "views",
        "HX-Current-URL": f"http://testserver{RUN}{query}",
    }
    return client.get(HERE, headers=headers).content.decode()


def do(client: Client, act: str, **fields: str) -> str:
    return client.post(HERE, {"act": act, **fields}).content.decode()


def undo(client: Client, page: str) -> str:
    """Presses the button that the page offers."""
    (form,) = re.findall(r"<form[^>]*>(?:(?!</form>).)*data-undo", page, re.DOTALL)
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))
    fields.pop("csrfmiddlewaretoken", None)
    return client.post(HERE, {name: value.replace("&amp;", "&") for name, value in fields.items()}).content.decode()


def kept(tenant: Tenant) -> list[tuple[str, str]]:
    with tenant_scope(tenant.pk):
        return list(SavedView.objects.order_by("name").values_list("name", "query"))


def test_what_is_shown_now_is_saved_without_the_place_in_the_run(tenant: Tenant, vera: Client) -> None:
    do(vera, "save", name="  Memory \n only ", query="?kind=memory&seq=4&tz=utc&from=2&to=9&before=3")
    assert kept(tenant) == [("Memory only", "kind=memory&tz=utc&from=2&to=9")]
    assert f'href="{RUN}?kind=memory&amp;tz=utc&amp;from=2&amp;to=9&amp;seq=3"' in in_menu(vera)


def test_a_view_leads_to_no_other_place(tenant: Tenant, vera: Client) -> None:
    do(vera, "save", name="<b>'x'</b>", query='kind=<img src=x>&q=javascript:alert(1)"><script>')
    listed = in_menu(vera)
    assert "<script>" not in listed and "<img" not in listed and "<b>" not in listed
    assert f'href="{RUN}?kind=%3Cimg+src%3Dx%3E&amp;q=javascript%3Aalert%281%29%22%3E%3Cscript%3E&amp;seq=3"' in listed


def test_each_change_is_taken_back(tenant: Tenant, vera: Client) -> None:
    first = [("Failures", "type=node.failed")]
    undo(vera, do(vera, "save", name="Failures", query="type=node.failed"))
    assert kept(tenant) == []
    do(vera, "save", name="Failures", query="type=node.failed")
    (view,) = re.findall(r'name="id" value="([^"]+)"><input name="name"', in_menu(vera))
    undo(vera, do(vera, "save", name="Failures", query="type=run.failed"))
    assert kept(tenant) == first
    page = do(vera, "rename", id=view, name="Broken")
    assert kept(tenant) == [("Broken", "type=node.failed")]
    undo(vera, page)
    assert kept(tenant) == first
    page = do(vera, "delete", id=view)
    assert kept(tenant) == []
    assert "is back" in undo(vera, page)
    assert kept(tenant) == first
    assert view in in_menu(vera)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"act": "save", "name": " ", "query": ""}, "A view needs a name"),
        ({"act": "save", "name": "n" * 81, "query": ""}, "at most 80 characters"),
        ({"act": "save", "name": "n", "query": "q=" + "x" * 4000}, "longer than 4000 characters"),
        ({"act": "delete", "id": "nonsense"}, "That is no view"),
        ({"act": "delete", "id": "00000000-0000-0000-0000-000000000000"}, "not there any more"),
        ({"act": "rename", "id": "00000000-0000-0000-0000-000000000000", "name": "n"}, "not there any more"),
    ],
)
def test_what_can_not_be_done_is_said(tenant: Tenant, vera: Client, fields: dict[str, str], said: str) -> None:
    assert said in vera.post(HERE, fields).content.decode()
    assert kept(tenant) == []


def test_a_name_is_taken_once(tenant: Tenant, vera: Client) -> None:
    do(vera, "save", name="One", query="q=1")
    do(vera, "save", name="Two", query="q=2")
    one = re.findall(r'name="id" value="([^"]+)"><input name="name"', in_menu(vera))[0]
    assert "Another view is called Two" in do(vera, "rename", id=one, name="Two")
    assert kept(tenant) == [("One", "q=1"), ("Two", "q=2")]


def test_nobody_else_sees_or_changes_them(tenant: Tenant, vera: Client) -> None:
    do(vera, "save", name="Mine", query="q=1")
    (view,) = re.findall(r'name="id" value="([^"]+)"><input name="name"', in_menu(vera))
    walt = browser(tenant, "walt")
    assert "Mine" not in in_menu(walt)
    assert "not there any more" in do(walt, "delete", id=view)
    assert "not there any more" in do(walt, "rename", id=view, name="Yours")
    do(walt, "save", name="Mine", query="q=2")
    assert kept(tenant) == [("Mine", "q=1"), ("Mine", "q=2")]
    other = make_tenant("globex")
    elsewhere = browser(other, "olga")
    assert "Mine" not in elsewhere.get("/t/globex/views").content.decode()
    assert elsewhere.get(HERE).status_code == 404


def test_the_database_keeps_people_apart_by_itself(tenant: Tenant, vera: Client) -> None:
    do(vera, "save", name="Mine", query="q=1")
    walt = make_member(tenant, "walt")
    with tenant_scope(tenant.pk), principal_scope(walt.pk), connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM runs_savedview")
        assert cursor.fetchone() == (0,)
        cursor.execute("UPDATE runs_savedview SET name = 'x'")
        assert cursor.rowcount == 0


def test_they_go_with_the_membership(tenant: Tenant, vera: Client) -> None:
    do(vera, "save", name="Mine", query="q=1")
    with operator_scope():
        Membership.objects.filter(user__username="vera").delete()
    assert kept(tenant) == []


def test_the_menu_is_read_by_few_queries(tenant: Tenant, vera: Client, django_assert_max_num_queries: object) -> None:
    for number in range(30):
        do(vera, "save", name=f"View {number}", query=f"q={number}")
    with django_assert_max_num_queries(16):  # type: ignore[operator]  # scopes and the session among them
        assert "View 29" in in_menu(vera)
