"""Writers, as pages: the matrix, registering, weighing, retiring, and who may."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ledger.models import ServiceWriter
from openwop_ui.tenancy.keys import create_api_key
from openwop_ui.tenancy.models import Role, Tenant
from openwop_ui.tenancy.scope import tenant_scope
from tests.factories import make_member, make_tenant
from tests.ledger.claims import body, make_writer, plan, say
from tests.ledger.test_pages import shown

HERE = "/t/acme/writers"
HOSTILE = "<img src=x onerror=alert(1)>\u202e"


def browser_of(tenant: Tenant, name: str, role: Role) -> Client:
    client = Client()
    client.force_login(make_member(tenant, name, role))
    return client


@pytest.fixture
def reader(tenant: Tenant) -> Client:
    return browser_of(tenant, "vera", Role.REVIEWER)


@pytest.fixture
def admin(tenant: Tenant) -> Client:
    return browser_of(tenant, "ada", Role.ADMIN)


def kept(tenant: Tenant, key: str = "billing") -> ServiceWriter | None:
    with tenant_scope(tenant.pk):
        return ServiceWriter.objects.filter(tenant_id=tenant.pk, service_key=key).first()


def form(**told: Any) -> dict[str, Any]:
    return {"service_key": "billing", "display_name": "Billing", "default_priority": "50"} | told


# --- What is shown ---


def test_the_matrix_has_each_writers_priority_in_each_category(reader: Client, tenant: Tenant) -> None:
    make_writer(tenant, "billing", 40, fact=80)
    make_writer(tenant, "crm", 30, preference=60, rare=5)
    say(tenant, body("e1", claims=[plan("Growth")]), body("e2", claims=[plan("Growth", category="preference")]))
    say(tenant, body("e3", claims=[{"key": "seats", "value": 3}]))
    create_api_key(tenant_id=tenant.pk, name="billing's", scopes=["write"], writer="billing")
    page = shown(reader, HERE)
    assert (page.section, page.tab, page.may_change) == ("claims", "writers", False)
    # Facts are claimed under two keys, preferences under one, and "rare" only has a rule.
    assert page.found.categories == ("fact", "preference", "rare")
    billing, crm = page.found.rows
    assert [(cell.priority, cell.is_own) for cell in billing.cells] == [(80, True), (40, False), (40, False)]
    assert [(cell.priority, cell.is_own) for cell in crm.cells] == [(30, False), (60, True), (5, True)]
    assert (billing.claims, billing.events, billing.keys) == (3, 3, 1)
    assert (crm.claims, crm.events, crm.keys) == (0, 0, 0)


def test_a_writers_page_names_its_keys(reader: Client, tenant: Tenant) -> None:
    make_writer(tenant, "billing", 40, fact=80)
    create_api_key(tenant_id=tenant.pk, name=HOSTILE, scopes=["write", "read"], writer="billing")
    create_api_key(tenant_id=tenant.pk, name="another's", scopes=["write"])
    answer = reader.get(f"{HERE}/billing")
    page, text = answer.context["page"], answer.content.decode()
    assert [key.name for key in page.keys] == [HOSTILE] and page.writer.own == {"fact": 80}
    assert "<img" not in text and "\u202e" not in text
    assert "An admin of the tenant can change it." in text and "<form class" not in text


@pytest.mark.parametrize("key", ["nobody", "UPPER", "%00", "a%20b", "x" * 65])
def test_a_writer_that_is_not_there_is_not_found(admin: Client, tenant: Tenant, key: str) -> None:
    assert admin.get(f"{HERE}/{key}").status_code == 404
    assert admin.post(f"{HERE}/{key}", form(revision="1")).status_code == 404
    assert admin.post(f"{HERE}/{key}", {"retired": "true"}).status_code == 404


def test_first_use_says_what_to_do(reader: Client, admin: Client) -> None:
    assert "An admin of the tenant does it." in reader.get(HERE).content.decode()
    assert "The form below does it." in admin.get(HERE).content.decode()


def test_a_page_costs_the_same_however_many_writers_there_are(admin: Client, tenant: Tenant) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as asked:
            assert admin.get(HERE).status_code == 200
        return len(asked)

    make_writer(tenant, "billing")
    queries()  # the first visit of an admin is noted
    before = queries()
    for number in range(20):
        make_writer(tenant, f"w{number}", 10, **{f"c{number}": 5})
    assert queries() == before


# --- What an admin changes ---


def test_an_admin_registers_a_writer(admin: Client, tenant: Tenant) -> None:
    given = form(display_name=HOSTILE, category=["fact", "", " Preference "], priority=["80", "5", "20"])
    answer = admin.post(HERE, given)
    assert (answer.status_code, answer["Location"]) == (302, f"{HERE}/billing")
    writer = kept(tenant)
    assert writer is not None
    assert (writer.default_priority, writer.categories) == (50, {"fact": 80, "preference": 20})
    text = admin.get(HERE).content.decode()
    assert "<img" not in text and "&lt;img" in text


@pytest.mark.parametrize(
    ("given", "status", "complaint"),
    [
        (form(service_key="Not A Slug"), 422, "The service key: is not a slug"),
        (form(service_key=""), 422, "The service key"),
        (form(default_priority="101"), 422, "The default priority: is not a whole number from 0 to 100"),
        (form(default_priority="٣"), 422, "The default priority"),
        (form(category=["fact"], priority=["-1"]), 422, "The priority of fact: is not a whole number"),
        (form(category=["fact"], priority=["1e9"]), 422, "The priority of fact"),
        (form(service_key="crm"), 409, "There is a writer with this service key."),
    ],
)
def test_what_cannot_be_registered_comes_back_with_what_was_typed(
    admin: Client, tenant: Tenant, given: dict[str, Any], status: int, complaint: str
) -> None:
    make_writer(tenant, "crm")
    answer = admin.post(HERE, given)
    page = answer.context["page"]
    assert (answer.status_code, page.form.key, page.form.default) == (
        status,
        given["service_key"],
        given["default_priority"],
    )
    assert complaint in page.form.error and complaint in answer.content.decode()
    assert kept(tenant) is None


def test_an_admin_weighs_a_writer_and_what_it_disputes_is_settled_again(admin: Client, tenant: Tenant) -> None:
    make_writer(tenant, "billing", 50)
    make_writer(tenant, "crm", 50)
    say(tenant, body("e1", claims=[plan("Growth")]), body("e2", service="crm", hour=1, claims=[plan("Starter")]))
    page = shown(admin, f"{HERE}/billing")
    given = form(display_name="", category=["fact"], priority=["80"], revision=page.form.revision)
    assert admin.post(f"{HERE}/billing", given).status_code == 302
    writer = kept(tenant)
    assert writer is not None and writer.categories == {"fact": 80} and writer.revision == 2
    with tenant_scope(tenant.pk), connection.cursor() as cursor:
        cursor.execute("SELECT status FROM ledger_claimstate ORDER BY observed_at")
        assert [status for (status,) in cursor.fetchall()] == ["active", "superseded"]


def test_two_admins_do_not_overwrite_each_other(admin: Client, tenant: Tenant) -> None:
    make_writer(tenant, "billing", 50)
    assert admin.post(f"{HERE}/billing", form(default_priority="60", revision="1")).status_code == 302
    answer = admin.post(f"{HERE}/billing", form(default_priority="70", revision="1"))
    page = answer.context["page"]
    assert (answer.status_code, page.form.default, page.form.revision, page.writer.default) == (409, "70", "2", 60)
    assert "Somebody changed this writer meanwhile." in answer.content.decode()
    assert admin.post(f"{HERE}/billing", form(default_priority="70", revision="x")).status_code == 409


def test_a_category_left_empty_loses_its_priority(admin: Client, tenant: Tenant) -> None:
    make_writer(tenant, "billing", 50, fact=80, preference=20)
    given = form(category=["fact", "preference"], priority=["", "25"], revision="1")
    assert admin.post(f"{HERE}/billing", given).status_code == 302
    writer = kept(tenant)
    assert writer is not None and writer.categories == {"preference": 25}


def test_a_writer_is_retired_and_taken_back(admin: Client, tenant: Tenant) -> None:
    make_writer(tenant, "billing")
    text = admin.post(f"{HERE}/billing", {"retired": "true"}, follow=True).content.decode()
    assert "is retired" in text and "Let it write again" in text
    text = admin.post(f"{HERE}/billing", {"retired": "false"}, follow=True).content.decode()
    assert "may write again" in text and "Retire billing" in text


def test_only_admins_change_anything(reader: Client, tenant: Tenant) -> None:
    make_writer(tenant, "crm")
    assert reader.post(HERE, form()).status_code == 403
    assert reader.post(f"{HERE}/crm", {"retired": "true"}).status_code == 403
    writer = kept(tenant, "crm")
    assert kept(tenant) is None and writer is not None and writer.retired_at is None


def test_another_tenants_writers_are_not_there(admin: Client, tenant: Tenant) -> None:
    other = make_tenant("other")
    make_writer(other, "secret")
    assert shown(admin, HERE).found.rows == ()
    assert admin.get(f"{HERE}/secret").status_code == 404
    assert admin.get("/t/other/writers").status_code == 404
    assert admin.post("/t/other/writers", form()).status_code == 404


def test_writers_to_take_away(reader: Client, tenant: Tenant) -> None:
    make_writer(tenant, "billing", 40, fact=80)
    answer: Any = reader.get("/t/acme/export/writers?format=ndjson")
    (item,) = [json.loads(line) for line in b"".join(answer.streaming_content).splitlines()]
    assert (item["service_key"], item["default_priority"], item["categories"]) == ("billing", 40, {"fact": 80})
