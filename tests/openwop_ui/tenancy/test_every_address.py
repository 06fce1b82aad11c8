"""Every address of the site, visited by those who have no business there: nothing of the tenant comes out.

The addresses are read from the URL configuration, so that a new page is walked to without being added here. One
whose parameters are unknown here fails the test until there is a value for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from ledger.claims_store import Actor, Ask, decide_conflict, register_writer, set_key_rule
from ledger.domain.decisions import Verdict
from ledger.domain.key_registry import KeyRule, read_key
from ledger.erasures import erase_subject
from ledger.models import ClaimKey, ClaimRow, ServiceWriter
from ledger.store import read_backlog
from openwop_ui.tenancy.models import ApiKey, Membership, Role, Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.projection import project
from runs.models import Host
from tests.committed import tables_of_tenants
from tests.factories import bearer, make_event, make_host, make_key, make_log, make_member, make_tenant, make_user, take
from tests.ledger.claims import body, conflicts, say

pytestmark = pytest.mark.django_db

CANARY = "canary"
REFUSED = {302, 401, 403, 404, 405}
PUBLIC = {
    "login",
    "logout",
    "healthz",
    "readyz",
    "metrics",
    "schemas",
    "schemas/<slug:name>.json",
    ".well-known/openwop",
    "v1/docs",
    "v1/openapi.json",
    "admin/jsi18n/",
}
API_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
PAGE_METHODS = ("GET", "POST")


@dataclass(frozen=True)
class Address:
    route: str
    parameters: tuple[tuple[str, str], ...]

    def url(self, values: dict[str, str]) -> str:
        """With a value for each parameter; KeyError names one that has none."""
        url = self.route
        for written, name in self.parameters:
            url = url.replace(written, values[name])
        return "/" + url


def addresses() -> list[Address]:
    return [
        Address(route, tuple((written, name) for written, name in _parameters(route))) for route in sorted(_routes())
    ]


def _routes() -> Iterator[str]:
    def below(patterns: list[URLPattern | URLResolver], prefix: str) -> Iterator[str]:
        for pattern in patterns:
            route = prefix + _plain(str(pattern.pattern))
            if isinstance(pattern, URLResolver):
                yield from below(pattern.url_patterns, route)
            else:
                yield route

    yield from below(get_resolver().url_patterns, "")


def _plain(route: str) -> str:
    """The admin site writes its catch-all and its short links as regular expressions."""
    return re.sub(r"\(\?P<(\w+)>[^)]*\)", r"<\1>", route).replace("^", "").replace("$", "").replace(r"\Z", "")


def _parameters(route: str) -> list[tuple[str, str]]:
    return [(found[0], found[1]) for found in re.finditer(r"<(?:\w+:)?(\w+)>", route)]


@dataclass(frozen=True)
class Demo:
    tenant: Tenant
    values: dict[str, str]
    numbers: dict[str, int]


@pytest.fixture
def demo(db: None) -> Demo:
    """A tenant whose every word, but for those that stand in its addresses, is a canary."""
    tenant = make_tenant("demo", name="Canary tenant")
    make_member(tenant, "canary-user", Role.ADMIN)
    make_key(tenant, name="canary key")
    host = make_host(tenant, "alpha", name="Canary host", origin="https://canary.example")
    log = make_log("run-1")
    log[0]["payload"] = {"workflowId": "canary-workflow"}
    for event in log[1:]:
        event["payload"] = event["payload"] | {"canary": "canary", "tags": ["canary-tag"], "agentId": "canary-agent"}
        event["nodeId"] = "canary-node"
    take(host, log)
    take(host, [make_event(1, payload={"canary": "another"})])
    unattributed = {"memoryRef": "canary-notes", "memoryId": "canary-entry", "tags": []}
    remembered = {"toolName": "remember", "callId": "canary-call", "inputs": {"key": "canary"}}
    take(
        host,
        [
            make_event(0, "memory.written", run="canary-run", payload=unattributed),
            make_event(1, "agent.toolCalled", run="canary-run", payload=remembered),
        ],
    )
    read_backlog(tenant.pk)
    claims = dispute(tenant)
    with tenant_scope(tenant.pk):
        numbers = {
            "tenancy/tenant": tenant.pk,
            "tenancy/membership": Membership.objects.get().pk,
            "tenancy/apikey": ApiKey.objects.get().pk,
            "runs/host": Host.objects.get().pk,
            "ledger/servicewriter": ServiceWriter.objects.earliest("pk").pk,
            "ledger/claimkey": ClaimKey.objects.get().pk,
        }
    values = {
        "tenant": "demo",
        "host": "alpha",
        "run": "run-1",
        "seq": "2",
        "memory_ref": project("notes"),
        "memory_id": project("run-1-m0"),
        "name": "receipt",
        "object_id": str(tenant.pk),
        "id": "1",
        "content_type_id": "1",
        "app_label": "tenancy",
        "url": "tenancy/tenant/",
        **claims,
    }
    return Demo(tenant, values, numbers)


def dispute(tenant: Tenant) -> dict[str, str]:
    """Two writers disagree, somebody decides: a value for each parameter of an address about claims."""
    for writer in ("billing", "crm"):
        register_writer(tenant_id=tenant.pk, service_key=writer, display_name=f"Canary {writer}")
    key = read_key("fact", "canary key")
    set_key_rule(tenant_id=tenant.pk, key=key, rule=KeyRule())
    (taken,) = say(
        tenant, body("canary-1", service="billing", subject="canary-user", claims=[{"key": key.name, "value": 1}])
    )
    say(tenant, body("canary-2", service="crm", subject="canary-user", claims=[{"key": key.name, "value": 2}]))
    (conflict,) = conflicts(tenant)
    with tenant_scope(tenant.pk):
        claim = ClaimRow.objects.get(source_event_id=taken.source_event)
    ask = Ask(1, Verdict.CHOOSE, claim=claim.id, reason="canary")
    decided = decide_conflict(
        tenant_id=tenant.pk, conflict=conflict.id, ask=ask, actor=Actor("person", "person:canary")
    )
    assert decided is not None
    say(tenant, body("canary-3", service="crm", subject="canary-gone", claims=[{"key": key.name, "value": 3}]))
    erased = erase_subject(tenant_id=tenant.pk, subject="canary-gone", actor=Actor("person", "person:canary"))
    assert erased is not None
    return {
        "erasure": str(erased.id),
        "service_key": "billing",
        "key": "billing",
        "job": str(taken.job),
        "source_event": str(taken.source_event),
        "claim": str(claim.id),
        "memory": str(claim.id),
        "conflict": str(conflict.id),
        "decision": str(decided.decision),
    }


SAME_NAME = {"/claims/<": "claim", "/conflicts/<": "conflict", "/sources/<": "source_event"}
"""Pages call the id of whatever they show `id`."""


@pytest.fixture(params=[True, False], ids=["under row security", "without row security"])
def guarded(demo: Demo, request: pytest.FixtureRequest) -> Demo:
    """Row-level security is the second layer: every address holds without it, too."""
    if not request.param:
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            for table in ("tenancy_tenant", *tables_of_tenants()):
                cursor.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
            cursor.execute("SELECT count(*) FROM runs_event")
            assert cursor.fetchone()[0] > 0
    return demo


NEEDED = {":diff": "?against=run-1", "v1/memory/": "?memoryRef=notes", "/determinism": "?source=run-1"}
"""What an address cannot be asked without."""


def visits(demo: Demo) -> Iterator[tuple[str, str]]:
    """(route, URL), and in the admin site one for each object."""
    for address in addresses():
        number = next((pk for name, pk in demo.numbers.items() if f"admin/{name}/" in address.route), demo.tenant.pk)
        shown = next(
            (demo.values[name] for part, name in SAME_NAME.items() if part in address.route), demo.values["id"]
        )
        asked = next((query for part, query in NEEDED.items() if part in address.route), "")
        yield address.route, address.url(demo.values | {"object_id": str(number), "id": shown}) + asked


def told(answer: Any) -> str:
    body = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return (body.decode() + str(answer.headers) + str(answer.cookies)).lower()


ONLY_IN = ("host>/events", "host>/bundle", "host>/memory", "/determinism", "/secrets", "/receipts", ":diff")
"""Doors of the API that take something and have nothing to tell, or tell numbers only."""


def test_the_walk_goes_everywhere() -> None:
    routes = {address.route for address in addresses()}
    assert len(routes) > 50
    for route in (
        "t/<slug:tenant>/",
        "t/<slug:tenant>/runs/<slug:host>/<projected:run>",
        "t/<slug:tenant>/ledger/<slug:host>/<projected:memory_ref>/<projected:memory_id>",
        "v1/hosts/<slug:host>/events",
        "v1/ledger/entries",
        "admin/runs/host/<path:object_id>/change/",
    ):
        assert route in routes
    assert {route for route in PUBLIC if not route.endswith("/")} - {"schemas"} <= routes


def test_a_member_finds_the_canary_so_the_walk_would(demo: Demo) -> None:
    """A positive control: each page has something to give away."""
    browser = Client()
    browser.force_login(make_member(demo.tenant, "vera", Role.ADMIN))
    api = Client(headers=bearer(make_key(demo.tenant)))
    for route, url in visits(demo):
        if route.startswith("t/") and "upload" not in route and not route.endswith(("/count", "/panel")):
            answer = browser.get(url, follow=True)
            assert answer.status_code == 405 or CANARY in told(answer), url
        if route.startswith("v1/hosts/<slug:host>") and not route.endswith(ONLY_IN):
            assert CANARY in told(api.get(url)), url
    assert CANARY in told(api.get("/v1/ledger/entries"))


@pytest.mark.parametrize("who", ["a stranger", "an outsider", "a user without a tenant"])
def test_nobody_from_outside_gets_a_word_of_the_tenant(guarded: Demo, who: str) -> None:
    browser = Client()
    if who == "an outsider":
        browser.force_login(make_member(make_tenant("other"), "oscar", Role.REVIEWER))
    elif who == "a user without a tenant":
        browser.force_login(make_user("nora"))
    for route, url in visits(guarded):
        for method in API_METHODS if route.startswith("v1/") else PAGE_METHODS:
            if method == "POST" and route in ("login", "logout"):
                continue
            answer = browser.generic(method, url)
            assert CANARY not in told(answer), (method, url)
            if route in PUBLIC or route in ("", "schemas/"):
                continue
            assert answer.status_code in REFUSED, (method, url, answer.status_code)
        fragment = browser.get(url, headers={"HX-Request": "true", "HX-Target": "rows"})
        assert CANARY not in told(fragment), url


def test_a_foreign_key_gets_a_word_of_its_own_tenant_only(guarded: Demo) -> None:
    foreign = Client(headers=bearer(make_key(make_tenant("other"), "admin")))
    for route, url in visits(guarded):
        if not route.startswith("v1/"):
            continue
        for method in API_METHODS:
            answer = foreign.generic(method, url, b"[]", content_type="application/json")
            assert CANARY not in told(answer), (method, url)
            if method == "DELETE" and route.startswith("v1/memory/"):
                assert answer.json()["removed"] is False  # what is unknown is deleted already
            elif "<" in route:
                assert answer.status_code in {404, 405}, (method, url, answer.status_code)


def test_the_admin_of_another_tenant_gets_a_word_of_their_own_only(guarded: Demo) -> None:
    browser = Client()
    browser.force_login(make_member(make_tenant("other"), "oscar", Role.ADMIN))
    for route, url in visits(guarded):
        if route == "admin/logout/":
            continue
        for method in PAGE_METHODS:
            answer = browser.generic(method, url)
            assert CANARY not in told(answer), (method, url)
            if "object_id" in route:
                assert answer.status_code in REFUSED, (method, url, answer.status_code)
