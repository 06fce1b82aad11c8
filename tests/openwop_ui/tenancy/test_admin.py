"""The admin site: an operator runs all tenants, a tenant's admin runs one and learns nothing of the others."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from openwop_ui.tenancy.keys import create_api_key, find_caller
from openwop_ui.tenancy.models import ApiKey, Membership, Role, Tenant
from openwop_ui.tenancy.scope import operator_scope, tenant_scope
from runs.models import Host
from tests.factories import make_host, make_key, make_member, make_tenant, make_user

pytestmark = pytest.mark.django_db

LISTS = {
    "tenant": "/admin/tenancy/tenant/",
    "membership": "/admin/tenancy/membership/",
    "apikey": "/admin/tenancy/apikey/",
    "host": "/admin/runs/host/",
}


@pytest.fixture
def acme() -> Tenant:
    return make_tenant("acme", name="Acme")


@pytest.fixture
def globex() -> Tenant:
    """Every word of it that could be shown holds `globex`."""
    tenant = make_tenant("globex", name="Globex")
    make_member(tenant, "globex-member")
    make_key(tenant, name="globex key")
    make_host(tenant, "globex-host", name="Globex host", origin="https://globex.example")
    return tenant


def admin_of(tenant: Tenant, name: str = "ada") -> Client:
    browser = Client()
    browser.force_login(make_member(tenant, name, Role.ADMIN))
    return browser


def operator() -> Client:
    browser = Client()
    browser.force_login(make_user("root", operator=True))
    return browser


def pks(tenant: Tenant) -> dict[str, int]:
    with tenant_scope(tenant.pk):
        return {
            "tenant": tenant.pk,
            "membership": Membership.objects.latest("pk").pk,
            "apikey": ApiKey.objects.latest("pk").pk,
            "host": Host.objects.latest("pk").pk,
        }


def test_an_operator_sees_all_tenants(acme: Tenant, globex: Tenant) -> None:
    browser = operator()
    assert browser.get("/admin/").status_code == 200
    for name, url in LISTS.items():
        assert "globex" in browser.get(url).content.decode().lower(), name
    for name, pk in pks(globex).items():
        assert browser.get(f"{LISTS[name]}{pk}/change/").status_code == 200, name


def test_a_tenants_admin_sees_their_own_and_no_word_of_another(acme: Tenant, globex: Tenant) -> None:
    make_host(acme, "acme-host")
    make_key(acme, name="acme key")
    browser = admin_of(acme)
    assert "globex" not in browser.get("/admin/").content.decode().lower()
    for name, url in LISTS.items():
        for page in (url, f"{url}add/", f"{url}?q=lobex", f"{url}?o=1"):
            assert "globex" not in browser.get(page).content.decode().lower(), (name, page)
    assert "acme-host" in browser.get(LISTS["host"]).content.decode()
    assert "acme key" in browser.get(LISTS["apikey"]).content.decode()


def test_a_tenants_admin_reaches_nothing_of_another_by_its_number(acme: Tenant, globex: Tenant) -> None:
    browser = admin_of(acme)
    for name, pk in pks(globex).items():
        for action in ("change", "delete", "history"):
            answer = browser.get(f"{LISTS[name]}{pk}/{action}/")
            assert answer.status_code in (302, 403, 404), (name, action)
            assert "globex" not in answer.content.decode().lower()
        browser.post(
            f"{LISTS[name]}{pk}/change/", {"name": "taken", "slug": "taken", "tenant": acme.pk, "role": "admin"}
        )
        browser.post(f"{LISTS[name]}{pk}/delete/", {"post": "yes"})
    browser.post(LISTS["apikey"], {"action": "revoke", "_selected_action": [pks(globex)["apikey"]]})
    with tenant_scope(globex.pk):
        assert Tenant.objects.get().slug == "globex"
        assert Membership.objects.count() == 1
        assert ApiKey.objects.get().revoked_at is None
        assert Host.objects.get().name == "Globex host"


def test_what_a_tenants_admin_makes_is_their_tenants_whatever_the_form_says(acme: Tenant, globex: Tenant) -> None:
    browser = admin_of(acme)
    browser.post(f"{LISTS['apikey']}add/", {"tenant": globex.pk, "name": "mine", "scopes": ["read"]})
    browser.post(f"{LISTS['host']}add/", {"tenant": globex.pk, "slug": "mine", "following": "on"})
    browser.post(
        f"{LISTS['membership']}add/", {"tenant": globex.pk, "username": make_user("new").username, "role": "viewer"}
    )
    with operator_scope():
        assert ApiKey.objects.get(name="mine").tenant_id == acme.pk
        assert Host.objects.get(slug="mine").tenant_id == acme.pk
        assert Membership.objects.get(user__username="new").tenant_id == acme.pk


def test_a_tenants_admin_makes_no_tenants_and_no_accounts(acme: Tenant) -> None:
    browser = admin_of(acme)
    assert browser.get("/admin/tenancy/tenant/add/").status_code == 403
    for page in ("/admin/auth/user/", "/admin/auth/user/add/", "/admin/auth/group/"):
        assert browser.get(page).status_code in (403, 404)


def test_a_new_key_is_shown_once(acme: Tenant) -> None:
    browser = admin_of(acme)
    answer = browser.post(f"{LISTS['apikey']}add/", {"name": "push", "scopes": ["ingest"]}, follow=True)
    (plain,) = re.findall(r"owp_[\w-]{43}", answer.content.decode())
    caller = find_caller(plain)
    assert caller is not None
    assert (caller.tenant_id, caller.scopes) == (acme.pk, frozenset({"ingest"}))
    for page in (LISTS["apikey"], f"{LISTS['apikey']}{caller.key_id}/change/"):
        assert plain not in browser.get(page).content.decode()


def test_revoking_in_the_list_ends_the_key(acme: Tenant) -> None:
    stored, plain = create_api_key(tenant_id=acme.pk, name="push", scopes=["ingest"])
    admin_of(acme).post(LISTS["apikey"], {"action": "revoke", "_selected_action": [stored.pk]})
    assert find_caller(plain) is None


def test_a_hosts_credential_is_never_shown(acme: Tenant) -> None:
    browser = admin_of(acme)
    told = {"slug": "beta", "origin": "https://beta.example", "following": "on", "credential": "CANARY-credential"}
    browser.post(f"{LISTS['host']}add/", told)
    with tenant_scope(acme.pk):
        host = Host.objects.get(slug="beta")
    assert host.sealed_credential
    assert "CANARY" not in host.sealed_credential
    for page in (LISTS["host"], f"{LISTS['host']}{host.pk}/change/"):
        assert "CANARY" not in browser.get(page).content.decode()


@pytest.mark.parametrize("role", [Role.VIEWER, Role.REVIEWER])
def test_others_are_told_that_they_may_not_and_not_sent_in_circles(acme: Tenant, role: Role) -> None:
    browser = Client()
    browser.force_login(make_member(acme, "vera", role))
    for page in ["/admin/", *LISTS.values()]:
        answer = browser.get(page, follow=True)
        assert answer.status_code == 403, page


def test_a_stranger_logs_in_on_the_one_login_page() -> None:
    answer = Client().get("/admin/", follow=True)
    assert answer.redirect_chain[-1][0].startswith("/login?next=/admin/")
    assert answer.status_code == 200


def test_the_admin_of_two_tenants_runs_the_one_last_visited(acme: Tenant, globex: Tenant) -> None:
    make_host(acme, "acme-host")
    browser = admin_of(acme)
    make_member(globex, "ada", Role.ADMIN)
    browser.get("/t/globex/")
    shown = browser.get(LISTS["host"]).content.decode()
    assert ("globex-host" in shown, "acme-host" in shown) == (True, False)
    browser.get("/t/acme/")
    shown = browser.get(LISTS["host"]).content.decode()
    assert ("globex-host" in shown, "acme-host" in shown) == (False, True)
