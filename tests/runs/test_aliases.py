"""A run of the first major has a bound id in the second: both names lead to one run, whichever came first."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from openwop_ui.tenancy.models import Role, Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.projection import project
from runs.follow_store import _commit, _followed, _resume_point
from runs.models import Event, Host, Incident, Run, RunAlias
from runs.store import ref
from runs.store.subscriptions import open_subscription
from tests.factories import bearer, make_host, make_key, make_log, make_member, make_tenant, read, take
from tests.runs.test_hooks import NOW, SECRET, first_major

pytestmark = pytest.mark.django_db

BARE, BOUND = "r-0123456789abcdef", "acme/r-0123456789abcdef"


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def host(tenant: Tenant) -> Host:
    return make_host(tenant)


def log_of(run: str = BARE) -> list[dict[str, Any]]:
    """One log, whatever its run is called."""
    return [event | {"runId": run} for event in make_log()]


def runs(tenant: Tenant) -> dict[str, int]:
    with tenant_scope(tenant.pk):
        return dict(Run.objects.filter(tenant_id=tenant.pk).values_list("run_id", "event_count"))


@pytest.mark.parametrize(("first", "second"), [(BARE, BOUND), (BOUND, BARE)])
def test_the_second_name_adds_to_the_run_of_the_first(tenant: Tenant, host: Host, first: str, second: str) -> None:
    log = len(log_of())
    assert take(host, log_of(first)[:4]).accepted == 4
    receipt = take(host, log_of(second))
    assert (receipt.accepted, receipt.repeated, dict(receipt.runs)) == (log - 4, 4, {first: log - 1})
    assert runs(tenant) == {first: log}
    assert take(host, log_of(first)).repeated == log
    with tenant_scope(tenant.pk):
        assert not Incident.objects.filter(tenant_id=tenant.pk).exists()
        assert list(RunAlias.objects.filter(tenant_id=tenant.pk).values_list("alias", flat=True)) == [second]


def test_both_names_in_one_batch(tenant: Tenant, host: Host) -> None:
    bare, bound = log_of(BARE), log_of(BOUND)
    mixed = [one for pair in zip(bare, bound, strict=True) for one in pair]
    receipt = take(host, mixed)
    assert (receipt.accepted, receipt.repeated) == (len(bare), len(bare))
    assert runs(tenant) == {BOUND: len(bare)}


def test_a_name_that_two_bound_ones_end_with_leads_to_neither(tenant: Tenant, host: Host) -> None:
    take(host, log_of("acme/same")[:1])
    take(host, log_of("beta/same")[:2])
    take(host, log_of("same")[:3])
    assert runs(tenant) == {"acme/same": 1, "beta/same": 2, "same": 3}


def test_a_run_takes_the_name_of_one_tenant_only(tenant: Tenant, host: Host) -> None:
    take(host, log_of("same")[:1])
    take(host, log_of("acme/same")[:2])
    take(host, log_of("beta/same")[:3])
    assert runs(tenant) == {"same": 2, "beta/same": 3}


@pytest.mark.parametrize("run", ["a/b/c", "/b", "a/"])
def test_what_is_no_bound_id_has_one_name(tenant: Tenant, host: Host, run: str) -> None:
    take(host, log_of(run)[:1])
    take(host, log_of("b")[:1])
    assert set(runs(tenant)) == {run, "b"}


def test_names_are_of_one_host(tenant: Tenant, host: Host) -> None:
    take(host, log_of(BOUND)[:1])
    take(make_host(tenant, "beta"), log_of(BARE)[:1])
    assert set(runs(tenant)) == {BOUND, BARE}


@pytest.mark.parametrize(("first", "second"), [(BARE, BOUND), (BOUND, BARE)])
def test_every_door_and_link_takes_either(
    tenant: Tenant, host: Host, first: str, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runs.hooks.clock", lambda: NOW)
    take(host, log_of(first)[:2])
    log = log_of(second)
    client = Client(headers=bearer(make_key(tenant)))
    pushed = client.post("/v1/hosts/alpha/events", json.dumps(log[2:3]), content_type="application/json")
    assert pushed.json()["accepted"] == 1
    bundle: dict[str, Any] = {"bundleVersion": "1", "run": {"runId": second}, "events": log[3:4], "metrics": {}}
    bundled = client.post("/v1/hosts/alpha/bundle", json.dumps(bundle), content_type="application/json")
    assert bundled.json()["accepted"] == 1
    hook = open_subscription(ref(host), dialect="openwop-1", secret=SECRET)
    body = json.dumps(log[4]).encode()
    assert Client().generic("POST", f"/hooks/{hook.pk}", body, headers=first_major(body)).status_code == 200
    with tenant_scope(tenant.pk):
        followed = _followed(Host.objects.get(pk=host.pk))
    assert _resume_point(followed, second).through == 4
    _commit(followed, second, read(log[5:], run_id=second))
    assert runs(tenant) == {first: len(log)}
    page = Client()
    page.force_login(make_member(tenant, "vera", Role.VIEWER))
    for name in (first, second):
        assert page.get(f"/t/acme/runs/alpha/{project(name)}").status_code == 200
        told = client.get(f"/v1/hosts/alpha/runs/{project(name)}")
        assert (told.status_code, told.json()["events"]) == (200, len(log)), told.content
    with tenant_scope(tenant.pk):
        assert Event.objects.filter(tenant_id=tenant.pk).count() == len(log)
