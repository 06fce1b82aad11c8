"""Writers and keys in the admin site."""

from __future__ import annotations

import pytest
from django.test import Client

from ledger.claims_store.stale import settle_stale
from ledger.models import ClaimKey, ServiceWriter
from openwop_ui.tenancy.models import Role, Tenant
from openwop_ui.tenancy.scope import tenant_scope
from tests.factories import make_member, make_tenant
from tests.ledger.claims import body, make_writer, plan, say, shown

pytestmark = pytest.mark.django_db


@pytest.fixture
def browser(tenant: Tenant) -> Client:
    client = Client()
    client.force_login(make_member(tenant, "ada", Role.ADMIN))
    return client


def test_a_writer_is_registered_and_its_authority_changed(tenant: Tenant, browser: Client) -> None:
    told = {"service_key": "billing", "display_name": "Billing", "default_priority": "40", "categories": '{"fact": 80}'}
    answer = browser.post("/admin/ledger/servicewriter/add/", told)
    assert answer.status_code == 302, answer.content.decode()
    make_writer(tenant, "crm", 60)
    say(tenant, body("e1", service="billing", hour=1, claims=[plan("Growth")]))
    say(tenant, body("e2", service="crm", hour=2, claims=[plan("Starter")]))
    assert shown(tenant) == [("user-1", "Growth")]
    with tenant_scope(tenant.pk):
        writer = ServiceWriter.objects.get(service_key="billing")
    changed = {"display_name": "Billing", "default_priority": "40", "categories": '{"fact": 10}'}
    assert browser.post(f"/admin/ledger/servicewriter/{writer.pk}/change/", changed).status_code == 302
    settle_stale(tenant.pk)
    assert shown(tenant) == [("user-1", "Starter")]


@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        ({"service_key": "Not A Slug", "default_priority": "40"}, "is not a slug"),
        ({"service_key": "crm", "default_priority": "101"}, "less than or equal to 100"),
        ({"service_key": "crm", "default_priority": "40", "categories": '{"fact": 101}'}, "from 0 to 100"),
    ],
)
def test_what_is_no_writer_is_refused(browser: Client, told: dict[str, str], complaint: str) -> None:
    answer = browser.post("/admin/ledger/servicewriter/add/", {"categories": "{}", **told})
    assert answer.status_code == 200 and complaint in answer.content.decode()


def test_a_key_is_laid_down_in_its_canonical_form(tenant: Tenant, browser: Client) -> None:
    told = {"category": " Fact ", "name": "Seats", "cardinality": "single", "kind": "number", "unit": ""}
    assert browser.post("/admin/ledger/claimkey/add/", told).status_code == 302
    with tenant_scope(tenant.pk):
        key = ClaimKey.objects.get()
    assert (key.category, key.name) == ("fact", "seats")
    changed = {"cardinality": "many", "kind": "number", "unit": ""}
    assert browser.post(f"/admin/ledger/claimkey/{key.pk}/change/", changed).status_code == 302
    assert browser.post(f"/admin/ledger/claimkey/{key.pk}/change/", {**changed, "unit": "blorp"}).status_code == 200


def test_another_tenants_writers_are_not_there(browser: Client) -> None:
    other = make_tenant("globex")
    make_writer(other, "globex-writer")
    with tenant_scope(other.pk):
        writer = ServiceWriter.objects.get()
    assert "globex" not in browser.get("/admin/ledger/servicewriter/").content.decode()
    assert browser.get(f"/admin/ledger/servicewriter/{writer.pk}/change/").status_code in (302, 404)
