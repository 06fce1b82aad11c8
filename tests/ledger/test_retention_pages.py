"""The retention page and erasing in the browser: who sees what, what is told before, and what is left."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from ledger.models import Erasure, LedgerSettings
from ledger.policies import policy_of
from openwop_ui.tenancy.models import Role, Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.models import Host
from tests.factories import make_log, make_member, make_tenant, make_user, take
from tests.ledger.canary import places_of
from tests.ledger.claims import body, make_writer, plan, say, shown
from tests.ledger.test_erasures import CANARY, TEXT, see
from tests.ledger.test_retention import keep

HOSTILE = '"><img src=x onerror=alert(1)>'


def browser(tenant: Tenant, role: Role = Role.ADMIN) -> Client:
    client = Client()
    client.force_login(make_member(tenant, f"a-{role.value}", role))
    return client


def address(name: str = "retention") -> str:
    return reverse(f"ledger:{name}", args=["acme"])


def entry(**told: str) -> dict[str, str]:
    return {"host": "alpha", "ref": "notes", "id": "m1"} | told


def test_a_viewer_reads_and_an_admin_changes(tenant: Tenant) -> None:
    keep(tenant, payloads=30)
    for role in (Role.VIEWER, Role.REVIEWER):
        seen = browser(tenant, role).get(address())
        assert seen.status_code == 200
        assert "30 days" in seen.content.decode()
        assert "<form" not in seen.content.decode().partition("<main")[2]
        assert browser_post(tenant, role, {"largest": "1000"}).status_code == 403
    admin = browser(tenant)
    said = {"secrets": "refuse", "largest": "1000", "payload_days": "", "event_days": "90"}
    assert admin.post(address(), said).status_code == 302
    found = policy_of(tenant.pk)
    assert (found.secrets.value, found.max_entry_bytes, found.payload_days, found.event_days) == (
        "refuse", 1000, None, 90,
    )  # fmt: skip
    page = admin.get(address()).content.decode()
    assert 'name="event_days" value="90"' in page


def browser_post(tenant: Tenant, role: Role, said: dict[str, str]) -> Any:
    client = Client()
    client.login(username=f"a-{role.value}", password=f"a-{role.value}")
    return client.post(address(), said)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"largest": "x"}, "The largest entry is no whole number."),
        ({"largest": ""}, "The largest entry is no whole number."),
        ({"largest": "5"}, "Largest entry"),
        ({"payload_days": "0"}, "Payload retention"),
        ({"event_days": "-1"}, "The event retention is no whole number."),
        ({"secrets": "sell"}, "Choose what becomes of secrets."),
        ({"payload_days": HOSTILE}, "The payload retention is no whole number."),
    ],
)
def test_what_can_not_be_is_said_and_what_was_typed_stays(tenant: Tenant, wrong: dict[str, str], words: str) -> None:
    said = {"secrets": "refuse", "largest": "1000", "payload_days": "7", "event_days": ""} | wrong
    answer = browser(tenant).post(address(), said)
    assert answer.status_code == 422
    page = answer.content.decode()
    assert words in page
    assert "<img src=x" not in page
    if "payload_days" not in wrong:
        assert 'name="payload_days" value="7"' in page
    with tenant_scope(tenant.pk):
        assert not LedgerSettings.objects.filter(secret_policy="refuse").exists()


def test_what_is_due_is_listed(tenant: Tenant, host: Host) -> None:
    take(host, make_log(), received_at=timezone.now() - timedelta(days=10))
    admin = browser(tenant)
    assert "Nothing is ever due" in admin.get(address()).content.decode()
    keep(tenant, events=30)
    assert "Nothing is due now" in admin.get(address()).content.decode()
    keep(tenant, events=5)
    page = admin.get(address(), headers={"HX-Request": "true", "HX-Target": "due"}).content.decode()
    assert "run-1" in page
    assert "<html" not in page


def test_an_entry_is_erased_from_its_page_after_a_look(tenant: Tenant, host: Host) -> None:
    see(host, "m1", TEXT)
    see(host, "m2", f"copied: {TEXT}.")
    admin = browser(tenant)
    seen = admin.get(reverse("ledger:entry", args=["acme", "alpha", "notes", "m1"])).content.decode()
    link = f"{address('erase')}?host=alpha&amp;ref=notes&amp;id=m1"
    assert link in seen
    told = admin.get(address("erase"), entry()).content.decode()
    assert "m2" in told and "repeats it" in told and "2 entries" in told
    unsure = admin.post(address("erase"), entry())
    assert unsure.status_code == 422
    assert places_of(tenant, CANARY)
    done = admin.post(address("erase"), entry(confirmed="yes"), follow=True)
    assert "Erased: 2 entries." in done.content.decode()
    assert places_of(tenant, CANARY) == set()
    with tenant_scope(tenant.pk):
        assert Erasure.objects.get().actor == "person:a-admin"
    assert "person:a-admin" in done.content.decode()
    assert "m1" in done.content.decode()
    gone = admin.get(reverse("ledger:entry", args=["acme", "alpha", "notes", "m1"])).content.decode()
    assert "Erased here" in gone
    assert link not in gone


def test_only_an_admin_erases(tenant: Tenant, host: Host) -> None:
    see(host, "m1", TEXT)
    for role in (Role.VIEWER, Role.REVIEWER):
        client = browser(tenant, role)
        seen = client.get(reverse("ledger:entry", args=["acme", "alpha", "notes", "m1"])).content.decode()
        assert "Erase…" not in seen
        assert client.get(address("erase"), entry()).status_code == 403
        assert client.post(address("erase"), entry(confirmed="yes")).status_code == 403
    outsider = Client()
    outsider.force_login(make_user("outsider"))
    assert outsider.post(address("erase"), entry(confirmed="yes")).status_code == 404
    assert outsider.get(address()).status_code == 404
    assert places_of(tenant, CANARY)


@pytest.mark.parametrize(
    ("asked", "status"),
    [({}, 400), ({"host": "alpha"}, 400), (entry(id="m9"), 404), (entry(host="nobody"), 404), ({"subject": "x"}, 404)],
)
def test_what_is_not_there_can_not_be_erased(tenant: Tenant, host: Host, asked: dict[str, str], status: int) -> None:
    admin = browser(tenant)
    assert admin.get(address("erase"), asked).status_code == status
    assert admin.post(address("erase"), asked | {"confirmed": "yes"}).status_code == status


def test_a_subject_is_erased_in_the_browser(tenant: Tenant) -> None:
    make_writer(tenant, "billing")
    say(tenant, body("a", subject=HOSTILE, claims=[plan(CANARY)]), body("b", subject="bob", claims=[plan("Starter")]))
    admin = browser(tenant)
    page = admin.get(address("erase"), {"subject": HOSTILE}).content.decode()
    assert "<img src=x" not in page
    assert "1 claim" in page
    done = admin.post(address("erase"), {"subject": HOSTILE, "confirmed": "yes"}, follow=True)
    assert "Erased: 1 claim, 1 source event." in done.content.decode()
    assert shown(tenant) == [("bob", "Starter")]
    assert places_of(tenant, CANARY) == places_of(tenant, HOSTILE) == set()


def test_tombstones_are_the_tenants_own(tenant: Tenant, host: Host) -> None:
    see(host, "m1", TEXT)
    browser(tenant).post(address("erase"), entry(confirmed="yes"))
    other = make_tenant("other")
    client = Client()
    client.force_login(make_member(other, "theirs", Role.ADMIN))
    page = client.get(reverse("ledger:retention", args=["other"])).content.decode()
    assert "Nothing has been taken away." in page
    assert "m1" not in page


def test_a_page_of_fifty_costs_as_many_queries_as_one_of_five(tenant: Tenant, host: Host) -> None:
    admin = browser(tenant)
    admin.get(address())
    cost = []
    for numbers in (range(5), range(5, 60)):
        with tenant_scope(tenant.pk):
            Erasure.objects.bulk_create(
                Erasure(tenant_id=tenant.pk, id=UUID(int=number), kind="subject", at=timezone.now(), actor="person:ada")
                for number in numbers
            )
        with CaptureQueriesContext(connection) as queries:
            page = admin.get(address()).content.decode()
        cost.append(len(queries))
    assert cost[0] == cost[1] <= 24
    assert "50 tombstones shown of 60" in page
    assert page.count('id="erasure-') == 50


def test_settings_in_the_admin_site(tenant: Tenant) -> None:
    operator = Client()
    operator.force_login(make_user("operator", operator=True))
    listed = reverse("admin:ledger_ledgersettings_changelist")
    assert operator.get(listed).status_code == 200
    added = operator.post(
        reverse("admin:ledger_ledgersettings_add"),
        {"tenant": tenant.pk, "secret_policy": "refuse", "max_entry_bytes": "2000", "payload_days": "9"},
    )
    assert added.status_code == 302, added.content
    assert (policy_of(tenant.pk).max_entry_bytes, policy_of(tenant.pk).payload_days) == (2000, 9)
    own = browser(tenant)
    assert own.get(listed).status_code in (200, 302)
