"""Who may open a tenant's pages: login, roles, and the way out."""

from __future__ import annotations

import re

import pytest
from django.contrib.sessions.models import Session
from django.test import Client

from openwop_ui.tenancy.models import Membership, Role, Tenant
from openwop_ui.tenancy.scope import tenant_scope
from tests.factories import make_host, make_log, make_member, make_tenant, make_user, take

pytestmark = pytest.mark.django_db

PAGES = [
    "/t/acme/",
    "/t/acme/runs",
    "/t/acme/runs/alpha/run-1",
    "/t/acme/ledger",
    "/t/acme/hosts",
    "/t/acme/hosts/alpha",
]


@pytest.fixture
def tenant() -> Tenant:
    tenant = make_tenant()
    take(make_host(tenant), make_log())
    return tenant


def logged_in(tenant: Tenant, name: str = "vera", role: Role = Role.VIEWER) -> Client:
    browser = Client()
    browser.force_login(make_member(tenant, name, role))
    return browser


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("page", PAGES)
def test_a_member_reads(tenant: Tenant, role: Role, page: str) -> None:
    answer = logged_in(tenant, role=role).get(page)
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]


@pytest.mark.parametrize(("role", "status"), [(Role.VIEWER, 403), (Role.REVIEWER, 200), (Role.ADMIN, 200)])
def test_bringing_in_files_takes_a_reviewer(tenant: Tenant, role: Role, status: int) -> None:
    assert logged_in(tenant, role=role).get("/t/acme/upload").status_code == status


@pytest.mark.parametrize(
    ("role", "other", "includes"),
    [
        (Role.VIEWER, Role.VIEWER, True),
        (Role.VIEWER, Role.REVIEWER, False),
        (Role.REVIEWER, Role.VIEWER, True),
        (Role.REVIEWER, Role.ADMIN, False),
        (Role.ADMIN, Role.REVIEWER, True),
    ],
)
def test_each_role_includes_the_ones_before(role: Role, other: Role, includes: bool) -> None:
    assert role.includes(other) is includes


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("value", ["%00", "%ED%A0%80", "%F0%9F%A7%A0", "9" * 30, "-1", "'", "%25", "%5C", "a" * 4000])
def test_a_page_takes_whatever_stands_in_its_query(tenant: Tenant, page: str, value: str) -> None:
    names = ("host", "status", "q", "node", "type", "kind", "ref", "tag", "agent", "state", "seq", "from", "to", "tz")
    answer = logged_in(tenant).get(f"{page}?{'&'.join(f'{name}={value}' for name in names)}")
    assert answer.status_code == 200


@pytest.mark.parametrize("page", PAGES)
def test_an_outsider_can_not_tell_a_tenant_from_none(tenant: Tenant, page: str) -> None:
    outsider = logged_in(make_tenant("globex"), "oscar")
    foreign, unknown = outsider.get(page), outsider.get(page.replace("acme", "none"))
    assert (foreign.status_code, unknown.status_code) == (404, 404)
    assert without_token(foreign.content).replace(b"acme", b"none") == without_token(unknown.content)


def without_token(page: bytes) -> bytes:
    """It is another one in each answer."""
    return re.sub(rb'(?:name="csrfmiddlewaretoken" value|data-csrf|content)="\w{64}"', b"", page)


@pytest.mark.parametrize("page", PAGES)
def test_a_stranger_is_asked_to_log_in_and_comes_back(tenant: Tenant, page: str) -> None:
    answer = Client().get(page)
    assert answer.status_code == 302
    assert answer["Location"] == f"/login?next={page}"


def test_a_fragment_sends_the_whole_page_to_the_login(tenant: Tenant) -> None:
    answer = Client().get("/t/acme/runs", headers={"HX-Request": "true"})
    assert (answer.status_code, answer["HX-Refresh"], answer.content) == (401, "true", b"")


def test_a_membership_that_ends_ends_at_once(tenant: Tenant) -> None:
    browser = logged_in(tenant)
    assert browser.get("/t/acme/runs").status_code == 200
    with tenant_scope(tenant.pk):
        Membership.objects.all().delete()
    assert browser.get("/t/acme/runs").status_code == 404


def test_the_start_leads_to_the_first_tenant(tenant: Tenant) -> None:
    assert logged_in(tenant).get("/")["Location"] == "/t/acme/"
    assert Client().get("/")["Location"] == "/login?next=/"


def test_somebody_without_a_tenant_is_told_so() -> None:
    browser = Client()
    browser.force_login(make_user("nora"))
    assert browser.get("/").status_code == 200


# --- Login ---


def test_name_and_password_let_in_and_logging_out_ends_the_session() -> None:
    make_user("vera")
    browser = Client(enforce_csrf_checks=True)
    token = browser.get("/login").cookies["openwop_csrf"].value
    told = {"username": "vera", "password": "vera", "csrfmiddlewaretoken": token}
    assert browser.post("/login", told)["Location"] == "/"
    assert browser.get("/login").status_code == 302
    assert Session.objects.count() == 1
    token = browser.cookies["openwop_csrf"].value
    assert browser.post("/logout", {"csrfmiddlewaretoken": token})["Location"] == "/login"
    assert Session.objects.count() == 0
    assert browser.get("/login").status_code == 200


def test_logging_out_takes_a_post() -> None:
    browser = Client()
    browser.force_login(make_user("vera"))
    assert browser.get("/logout").status_code == 405
    assert Session.objects.count() == 1


@pytest.mark.parametrize(("name", "password"), [("vera", "wrong"), ("nobody", "vera"), ("", ""), ("ve\x00ra", "x")])
def test_a_wrong_name_and_a_wrong_password_answer_alike(name: str, password: str) -> None:
    make_user("vera")
    answer = Client().post("/login", {"username": name, "password": password})
    assert answer.status_code == 200
    assert b"openwop_session" not in b"".join(key.encode() for key in answer.cookies)


@pytest.mark.parametrize(
    "next_page", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "/\\evil.example"]
)
def test_the_login_leads_to_no_other_site(next_page: str) -> None:
    make_user("vera")
    answer = Client().post("/login", {"username": "vera", "password": "vera", "next": next_page})
    assert answer["Location"] == "/"


def test_the_login_names_the_demos_accounts_only_where_there_is_a_demo() -> None:
    assert "The password is the name" not in Client().get("/login").content.decode()
    make_tenant("demo")
    assert "The password is the name" in Client().get("/login").content.decode()


def test_a_form_from_another_site_is_refused() -> None:
    make_user("vera")
    browser = Client(enforce_csrf_checks=True)
    assert browser.post("/login", {"username": "vera", "password": "vera"}).status_code == 403
