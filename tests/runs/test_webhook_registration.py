"""Webhooks registered, changed and ended from a host's page, against a real HTTP server that answers as hosts do.

The public hosts differ: openwop-app wants `events`, the example hosts read `eventTypes` and tell the tenant.
"""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.conf import LazySettings
from django.db import connection, connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from openwop_ui import vault
from openwop_ui.tenancy.models import Role, Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs import hooks
from runs.models import Delivery, Host, HostDocument, Subscription
from runs.store import ref
from runs.store.subscriptions import open_subscription
from runs.webhook_registration import RegistrationProblem, Target, register, unregister
from tests.factories import make_event, make_host, make_member, make_tenant
from tests.runs.test_hooks import NOW, SECRET, WHSEC, deliver, first_major, mac, post, standard, subscribe

pytestmark = pytest.mark.usefixtures("transactional_db")

CREDENTIAL = "credential-of-the-host-0123456789"


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


Answer = tuple[int, object, Mapping[str, str]]


@dataclass
class Server:
    """A host's side: what it was asked, and what it says to that."""

    origin: str
    asked: list[Asked] = field(default_factory=list)
    answer: Callable[[Asked], Answer] = lambda asked: (500, None, {})

    @property
    def writes(self) -> list[tuple[str, str]]:
        return [(one.method, one.path) for one in self.asked]


@contextmanager
def serving() -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            parts = urlsplit(self.path)
            headers = {name.lower(): value for name, value in self.headers.items()}
            query = dict(parse_qsl(parts.query))
            asked = Asked(self.command, parts.path, query, headers, json.loads(body) if body else None)
            server.asked.append(asked)
            try:
                status, said, more = server.answer(asked)
            finally:
                connections.close_all()
            data = said if isinstance(said, bytes) else b"" if said is None else json.dumps(said).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(data)), "Connection": "close", **more}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_DELETE = do_GET = do  # noqa: N815 - the names that it is called by

        def log_message(self, format: str, *args: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = Server(f"http://127.0.0.1:{http.server_address[1]}")
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def answering(**told: Answer) -> Callable[[Asked], Answer]:
    """By method; what it does not have is 404."""
    unknown: Answer = (404, {"error": "not_found", "message": "no such route"}, {})
    return lambda asked: told.get(asked.method, unknown)


@pytest.fixture(autouse=True)
def at_now(monkeypatch: pytest.MonkeyPatch, settings: LazySettings) -> None:
    settings.ALLOW_PRIVATE_HOSTS = True
    monkeypatch.setattr(hooks, "clock", lambda: NOW)
    monkeypatch.setattr(hooks, "refusal_notes", hooks.RefusalNotes())


@pytest.fixture(name="server")
def running_server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def host(tenant: Tenant, server: Server) -> Host:
    return make_host(tenant, origin=server.origin, credential=CREDENTIAL)


@pytest.fixture
def admin(tenant: Tenant) -> Client:
    browser = Client()
    browser.force_login(make_member(tenant, "ada", Role.ADMIN))
    return browser


def speaks(host: Host, major: int) -> None:
    with tenant_scope(host.tenant_id):
        Host.objects.filter(pk=host.pk).update(major=major)


def change(browser: Client, action: str, **fields: str) -> str:
    """The words on the page that the form leads back to."""
    answer = browser.post(f"/t/acme/hosts/alpha/webhooks/{action}", fields, follow=True)
    assert answer.redirect_chain == [("/t/acme/hosts/alpha", 302)]
    return " ".join(str(message) for message in answer.context["messages"])


def subscriptions(tenant: Tenant) -> list[Subscription]:
    with tenant_scope(tenant.pk):
        return list(Subscription.objects.filter(tenant_id=tenant.pk).order_by("created_at"))


def secrets_in(hook: Subscription) -> list[str]:
    told: list[str] = json.loads(vault.unseal(hook.sealed_secrets)) if hook.sealed_secrets else []
    return told


# --- registering ---


def test_on_an_example_host_of_the_first_major(server: Server, tenant: Tenant, host: Host, admin: Client) -> None:
    speaks(host, 1)
    told = {"webhookId": "wh-1", "subscriptionId": "wh-1", "secret": SECRET, "tenantId": "tenant:default"}
    server.answer = answering(POST=(201, told, {}))
    assert "Registered" in change(admin, "register", dialect="reference-hosts", events="memory.written\nrun.started")
    (hook,) = subscriptions(tenant)
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("POST", "/v1/webhooks")
    assert asked.body == {
        "url": f"http://testserver/hooks/{hook.pk}",
        "events": ["memory.written", "run.started"],
        "eventTypes": ["memory.written", "run.started"],
    }
    assert asked.headers["authorization"] == f"Bearer {CREDENTIAL}"
    assert str(hook.pk) in asked.headers["idempotency-key"]
    assert "openwop-version" not in asked.headers
    assert (hook.remote_id, secrets_in(hook)) == ("tenant:default/wh-1", [SECRET])
    body = json.dumps(make_event(0)).encode()
    signed = {"X-openwop-Signature": mac(body), "X-openwop-Signature-Timestamp": str(int(NOW.timestamp()))}
    assert post(hook.pk, body, signed).status_code == 200


def test_on_the_app_with_the_tenant_that_the_first_major_wants_to_hear(
    server: Server, tenant: Tenant, host: Host, admin: Client
) -> None:
    speaks(host, 1)
    server.answer = answering(POST=(201, {"webhookId": "36d9", "secret": SECRET}, {}), DELETE=(204, None, {}))
    change(admin, "register", dialect="openwop-app", events="*", tenant="workspace-1")
    (hook,) = subscriptions(tenant)
    assert server.asked[0].body["tenantId"] == "workspace-1"
    assert server.asked[0].body["events"] == ["*"]
    assert hook.remote_id == "workspace-1/36d9"
    assert "Unregistered" in change(admin, "end", subscription=str(hook.pk))
    assert (server.asked[1].method, server.asked[1].path) == ("DELETE", "/v1/webhooks/36d9")
    assert server.asked[1].query == {"tenantId": "workspace-1"}


def test_on_a_host_of_the_second_major(server: Server, tenant: Tenant, host: Host, admin: Client) -> None:
    speaks(host, 2)
    server.answer = answering(POST=(201, {"webhookId": "acme/h-0123456789abcdef"}, {}), DELETE=(204, None, {}))
    change(admin, "register", dialect="openwop-2", events="agent.toolCalled, memory.written run.resume-started")
    (hook,) = subscriptions(tenant)
    asked = server.asked[0]
    assert (asked.method, asked.path, asked.headers["openwop-version"]) == ("POST", "/webhooks", "2")
    assert set(asked.body) == {"url", "events", "secret"}
    assert asked.body["events"] == ["agent.tool-called", "memory.written", "run.resume-started"]
    assert secrets_in(hook) == [asked.body["secret"]]
    assert deliver(hook, make_event(0), asked.body["secret"]).status_code == 200
    change(admin, "end", subscription=str(hook.pk))
    assert (server.asked[1].method, server.asked[1].path) == ("DELETE", "/webhooks/acme~2Fh-0123456789abcdef")
    assert deliver(hook, make_event(1), asked.body["secret"]).status_code == 404


def test_a_host_that_makes_its_own_secret_signs_with_that_one(
    server: Server, tenant: Tenant, host: Host, admin: Client
) -> None:
    speaks(host, 2)
    server.answer = answering(POST=(201, {"webhookId": "acme/h-0123456789abcdef", "secret": SECRET}, {}))
    change(admin, "register", dialect="openwop-2")
    assert secrets_in(subscriptions(tenant)[0]) == [SECRET]


def test_a_host_that_tells_no_secret_waits_for_it(server: Server, tenant: Tenant, host: Host, admin: Client) -> None:
    speaks(host, 1)
    server.answer = answering(POST=(201, {"webhookId": "wh-1"}, {}))
    assert "no secret" in change(admin, "register", dialect="openwop-1")
    (hook,) = subscriptions(tenant)
    assert deliver(hook, make_event(0)).status_code == 404
    assert "no secret" in admin.get("/t/acme/hosts/alpha").content.decode()
    change(admin, "secret", subscription=str(hook.pk), secret=f"  {SECRET} ")
    assert deliver(hook, make_event(0)).status_code == 200


def test_standard_webhooks_answers_the_challenge_while_it_is_registered(
    server: Server, tenant: Tenant, host: Host, admin: Client
) -> None:
    speaks(host, 2)
    challenge = "dGhpcyBpcyBhIGNoYWxsZW5nZQ"

    def answer(asked: Asked) -> Answer:
        if asked.path.endswith("/rotate-secret"):
            return 200, {"rotatedAt": "2026-11-29T19:00:00Z"}, {}
        body = json.dumps({"type": "openwop.webhook.verification", "challenge": challenge}).encode()
        key = base64.b64decode(asked.body["secret"].removeprefix("whsec_"))
        hook = urlsplit(asked.body["url"]).path
        echoed = Client().post(hook, body, content_type="application/json", headers=standard(body, key))
        assert echoed.json() == {"challenge": challenge}
        return 201, {"webhookId": "acme/h-0123456789abcdef", "signatureAlgorithms": ["v1", "standard-webhooks-1"]}, {}

    server.answer = answer
    assert "Registered" in change(admin, "register", dialect="standard-webhooks")
    (hook,) = subscriptions(tenant)
    asked = server.asked[0]
    assert asked.body["signatureAlgorithms"] == ["v1", "standard-webhooks-1"]
    assert len(base64.b64decode(asked.body["secret"].removeprefix("whsec_"))) == 32
    assert secrets_in(hook) == [asked.body["secret"]]

    change(admin, "rotate", subscription=str(hook.pk))
    rotated = server.asked[1]
    assert rotated.path == "/webhooks/acme~2Fh-0123456789abcdef/rotate-secret"
    assert secrets_in(subscriptions(tenant)[0]) == [rotated.body["secret"], asked.body["secret"]]
    body = json.dumps(make_event(0)).encode()
    for secret in (rotated.body["secret"], asked.body["secret"]):
        key = base64.b64decode(secret.removeprefix("whsec_"))
        assert post(hook.pk, body, standard(body, key)).status_code == 200


def test_a_rotation_that_the_host_refuses_leaves_the_old_secret_alone(
    server: Server, tenant: Tenant, host: Host, admin: Client
) -> None:
    speaks(host, 2)
    hook = subscribe(host, "standard-webhooks", WHSEC, remote_id="acme/h-0123456789abcdef")
    server.answer = answering(POST=(400, {"error": "validation_error", "message": "not opted in"}, {}))
    assert "not opted in" in change(admin, "rotate", subscription=str(hook.pk))
    assert secrets_in(subscriptions(tenant)[0]) == [WHSEC]


def test_a_host_that_ignores_the_opt_in_is_not_left_with_a_webhook(
    server: Server, tenant: Tenant, host: Host, admin: Client
) -> None:
    speaks(host, 1)
    server.answer = answering(POST=(201, {"webhookId": "36d9"}, {}), DELETE=(204, None, {}))
    assert "Standard Webhooks" in change(admin, "register", dialect="standard-webhooks")
    assert server.writes == [("POST", "/v1/webhooks"), ("DELETE", "/v1/webhooks/36d9")]
    assert subscriptions(tenant) == []


def test_where_the_major_is_not_known_both_are_tried(server: Server, tenant: Tenant, host: Host, admin: Client) -> None:
    def answer(asked: Asked) -> Answer:
        if asked.path.startswith("/v1/"):
            return (204, None, {}) if asked.method == "DELETE" else (201, {"webhookId": "wh-1", "secret": SECRET}, {})
        return 404, {"error": "not_found"}, {}

    server.answer = answer
    change(admin, "register", dialect="openwop-1")
    change(admin, "end", subscription=str(subscriptions(tenant)[0].pk))
    assert server.writes == [
        ("POST", "/webhooks"),
        ("POST", "/v1/webhooks"),
        ("DELETE", "/webhooks/wh-1"),
        ("DELETE", "/v1/webhooks/wh-1"),
    ]
    keys = [one.headers["idempotency-key"] for one in server.asked]
    assert len(set(keys)) == 4


REFUSALS: dict[str, tuple[Answer, str]] = {
    "credential": ((401, {"error": "invalid_credential", "message": "Bearer token rejected."}, {}), "credential"),
    "membership": ((403, {"error": "forbidden_tenant", "message": "no"}, {}), "webhooks:manage"),
    "address": ((400, {"error": "webhook_url_rejected", "message": "loopback"}, {}), "does not deliver to this site"),
    "challenge": ((400, {"error": "webhook_endpoint_unverified"}, {}), "could not reach this site"),
    "in flight": ((409, {"error": "idempotency_in_flight"}, {}), "Try again"),
    "no webhooks": ((404, {"error": "not_found"}, {}), "no webhooks"),
    "busy": ((503, b"<html>", {}), "busy"),
    "no id": ((201, {"secret": SECRET}, {}), "without an id"),
    "no JSON": ((200, b"fine", {}), "without an id"),
    "see other": ((303, None, {"Location": "/elsewhere"}), "redirects"),
    "an endless answer": ((201, b" " * 70_000, {}), "bytes"),
}


@pytest.mark.parametrize(("answer", "words"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_is_told_in_words_and_leaves_nothing(
    server: Server, tenant: Tenant, host: Host, admin: Client, answer: Answer, words: str
) -> None:
    speaks(host, 1)
    server.answer = answering(POST=answer)
    assert words in change(admin, "register", dialect="openwop-1")
    assert subscriptions(tenant) == []


def test_a_host_that_repeats_secrets_in_its_words_does_not_show_them(
    server: Server, tenant: Tenant, host: Host, admin: Client
) -> None:
    speaks(host, 2)
    server.answer = lambda asked: (
        400,
        {"error": "bad", "message": f"\u202e{CREDENTIAL} and {asked.body['secret']}\n" + "x" * 900},
        {},
    )
    words = change(admin, "register", dialect="openwop-2")
    assert server.asked[0].body["secret"] not in words
    assert CREDENTIAL not in words
    assert "\u202e" not in words
    assert len(words) < 500


def test_a_host_that_is_away_is_told_in_words(tenant: Tenant, host: Host, admin: Client) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with tenant_scope(tenant.pk):
            Host.objects.update(origin=f"http://127.0.0.1:{closed.getsockname()[1]}", major=2)
        assert "no connection" in change(admin, "register", dialect="openwop-2")
    assert subscriptions(tenant) == []


# --- where the credential goes ---


def test_a_redirect_within_the_origin_is_followed_with_the_same_method(
    server: Server, tenant: Tenant, host: Host, admin: Client
) -> None:
    speaks(host, 1)
    server.answer = lambda asked: (
        (308, None, {"Location": "/moved"}) if asked.path == "/v1/webhooks" else (201, {"webhookId": "w"}, {})
    )
    change(admin, "register", dialect="openwop-1")
    assert server.writes == [("POST", "/v1/webhooks"), ("POST", "/moved")]
    assert server.asked[0].body == server.asked[1].body
    assert len(subscriptions(tenant)) == 1


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_to_another_origin_is_not_followed(
    server: Server, tenant: Tenant, host: Host, admin: Client, status: int
) -> None:
    speaks(host, 1)
    with serving() as elsewhere:
        server.answer = answering(POST=(status, None, {"Location": f"{elsewhere.origin}/v1/webhooks"}))
        assert "another origin" in change(admin, "register", dialect="openwop-1")
        assert elsewhere.asked == []
    assert subscriptions(tenant) == []


def test_redirects_come_to_an_end(server: Server, host: Host, admin: Client) -> None:
    speaks(host, 1)
    server.answer = answering(POST=(307, None, {"Location": "/v1/webhooks"}))
    assert "redirects more than" in change(admin, "register", dialect="openwop-1")
    assert len(server.asked) == 4


def test_a_private_address_is_not_connected_to(
    server: Server, tenant: Tenant, host: Host, admin: Client, settings: LazySettings
) -> None:
    settings.ALLOW_PRIVATE_HOSTS = False
    speaks(host, 1)
    assert "not allowed" in change(admin, "register", dialect="openwop-1")
    assert server.asked == []
    assert subscriptions(tenant) == []


@pytest.mark.parametrize("addresses", [["10.0.0.7"], ["93.184.216.34", "127.0.0.1"], ["169.254.169.254"], ["::1"]])
def test_a_name_that_leads_to_a_private_address_is_not_connected_to(
    server: Server, monkeypatch: pytest.MonkeyPatch, addresses: list[str]
) -> None:
    def resolve(name: str, port: int, *_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    port = urlsplit(server.origin).port
    monkeypatch.setattr("runs.webhook_registration.socket.getaddrinfo", resolve)
    with pytest.raises(RegistrationProblem, match="not allowed"):
        unregister(Target(f"http://host.example:{port}", 1), subscription=NOBODY, remote_id="wh-1")
    assert server.asked == []


def test_the_address_that_was_judged_is_the_one_connected_to(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that leads elsewhere a moment later gains nothing: it is resolved once."""
    asked: list[str] = []

    def resolve(name: str, port: int, *_: Any, **__: Any) -> list[Any]:
        asked.append(name)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    server.answer = answering(DELETE=(204, None, {}))
    port = urlsplit(server.origin).port
    with monkeypatch.context() as patched:
        patched.setattr("runs.webhook_registration.socket.getaddrinfo", resolve)
        target = Target(f"http://host.example:{port}", 1, allow_private=True)
        unregister(target, subscription=NOBODY, remote_id="wh-1")
    assert [name for name in asked if name == "host.example"] == ["host.example"]
    assert server.asked[0].headers["host"] == f"host.example:{port}"


NOBODY = Subscription().pk


# --- ending ---


@pytest.mark.parametrize("status", [200, 204, 404, 410])
def test_unregistering_counts_as_done_where_the_host_knows_it_no_more(
    server: Server, tenant: Tenant, host: Host, admin: Client, status: int
) -> None:
    speaks(host, 1)
    hook = subscribe(host, remote_id="wh-1")
    server.answer = answering(DELETE=(status, {}, {}))
    change(admin, "end", subscription=str(hook.pk))
    assert server.writes == [("DELETE", "/v1/webhooks/wh-1")]
    assert server.asked[0].query == {}
    assert subscriptions(tenant)[0].state == "ended"
    assert deliver(hook, make_event(0)).status_code == 404


@pytest.mark.parametrize("status", [401, 403, 405, 500])
def test_unregistering_that_the_host_refuses_keeps_it_until_it_is_ended_here(
    server: Server, tenant: Tenant, host: Host, admin: Client, status: int
) -> None:
    speaks(host, 1)
    hook = subscribe(host, remote_id="wh-1")
    server.answer = answering(DELETE=(status, {}, {}))
    assert str(status) in change(admin, "end", subscription=str(hook.pk))
    assert subscriptions(tenant)[0].state == "active"
    assert deliver(hook, make_event(0)).status_code == 200
    change(admin, "end", subscription=str(hook.pk), here="1")
    assert len(server.asked) == 1
    assert deliver(hook, make_event(1)).status_code == 404


# --- by hand, and what may be given ---


def test_one_registered_by_hand(tenant: Tenant, admin: Client) -> None:
    make_host(tenant)
    change(admin, "adopt", dialect="openwop-1")
    (hook,) = subscriptions(tenant)
    page = admin.get("/t/acme/hosts/alpha").content.decode()
    assert f"http://testserver/hooks/{hook.pk}" in page
    change(admin, "secret", subscription=str(hook.pk), secret=SECRET)
    change(admin, "secret", subscription=str(hook.pk), secret="the next one")
    assert secrets_in(subscriptions(tenant)[0]) == ["the next one", SECRET]
    change(admin, "forget", subscription=str(hook.pk), fingerprint=hashlib.sha256(SECRET.encode()).hexdigest()[:8])
    assert secrets_in(subscriptions(tenant)[0]) == ["the next one"]
    body = json.dumps(make_event(0)).encode()
    assert post(hook.pk, body, first_major(body, SECRET)).status_code == 401
    assert post(hook.pk, body, first_major(body, "the next one")).status_code == 200


@pytest.mark.parametrize(
    ("action", "fields", "words"),
    [
        ("adopt", {"dialect": "any"}, "how the host signs"),
        ("adopt", {}, "how the host signs"),
        ("adopt", {"dialect": "standard-webhooks", "secret": "not-one"}, "whsec_"),
        ("adopt", {"dialect": "openwop-1", "secret": "x" * 513}, "512"),
        ("register", {"dialect": "openwop-1"}, "no origin"),
    ],
)
def test_what_can_not_be_is_told_in_words(
    tenant: Tenant, admin: Client, action: str, fields: dict[str, str], words: str
) -> None:
    make_host(tenant)
    assert words in change(admin, action, **fields)
    assert subscriptions(tenant) == []


@pytest.mark.parametrize("events", ["a b;c", "run.<script>", " ".join(f"e.{n}" for n in range(201))])
def test_events_have_names(server: Server, tenant: Tenant, host: Host, admin: Client, events: str) -> None:
    assert change(admin, "register", dialect="openwop-1", events=events)
    assert (server.asked, subscriptions(tenant)) == ([], [])


def test_a_webhook_of_another_host_or_tenant_is_not_found(tenant: Tenant, host: Host, admin: Client) -> None:
    other = open_subscription(ref(make_host(tenant, "beta")), dialect="openwop-1", secret=SECRET)
    foreign = open_subscription(ref(make_host(make_tenant("globex"), "alpha")), dialect="openwop-1", secret=SECRET)
    for hook in (other, foreign):
        for action in ("secret", "forget", "rotate", "end"):
            answer = admin.post(
                f"/t/acme/hosts/alpha/webhooks/{action}", {"subscription": str(hook.pk), "secret": "s", "here": "1"}
            )
            assert answer.status_code == 404
        with tenant_scope(hook.tenant_id):
            assert Subscription.objects.get(pk=hook.pk).state == "active"
    assert admin.post("/t/acme/hosts/alpha/webhooks/end", {"subscription": "1"}).status_code == 404


ACTIONS = ("register", "adopt", "secret", "forget", "rotate", "end")


@pytest.mark.parametrize("action", ACTIONS)
def test_only_an_admin_changes_webhooks(tenant: Tenant, action: str) -> None:
    hook = subscribe(make_host(tenant))
    fields = {"subscription": str(hook.pk), "dialect": "openwop-1", "secret": "new", "here": "1"}
    for role, status in ((Role.VIEWER, 403), (Role.REVIEWER, 403), (None, 404)):
        browser = Client()
        member = make_member(tenant, str(role), role) if role else make_member(make_tenant("globex"), "oscar")
        browser.force_login(member)
        assert browser.post(f"/t/acme/hosts/alpha/webhooks/{action}", fields).status_code == status
    assert Client().post(f"/t/acme/hosts/alpha/webhooks/{action}", fields).status_code == 302
    (kept,) = subscriptions(tenant)
    assert (kept.state, secrets_in(kept)) == ("active", [SECRET])


def test_a_form_without_its_token_changes_nothing(tenant: Tenant) -> None:
    make_host(tenant)
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(make_member(tenant, "ada", Role.ADMIN))
    assert browser.post("/t/acme/hosts/alpha/webhooks/adopt", {"dialect": "openwop-1"}).status_code == 403
    assert subscriptions(tenant) == []


@pytest.mark.parametrize("action", ACTIONS)
def test_a_login_in_between_comes_back_to_the_hosts_page(tenant: Tenant, admin: Client, action: str) -> None:
    make_host(tenant)
    assert admin.get(f"/t/acme/hosts/alpha/webhooks/{action}")["Location"] == "/t/acme/hosts/alpha"
    assert subscriptions(tenant) == []


def test_a_confirmed_form_leads_to_the_page_as_a_whole(tenant: Tenant, admin: Client) -> None:
    hook = subscribe(make_host(tenant))
    answer = admin.post(
        "/t/acme/hosts/alpha/webhooks/end",
        {"subscription": str(hook.pk), "here": "1"},
        headers={"HX-Request": "true"},
    )
    assert (answer.status_code, answer["HX-Redirect"]) == (204, "/t/acme/hosts/alpha")
    assert "Ended" in admin.get("/t/acme/hosts/alpha").content.decode()


# --- the page ---


def test_the_page_lists_webhooks_and_who_may_not_change_them_sees_no_form(tenant: Tenant, admin: Client) -> None:
    host = make_host(tenant)
    hook = subscribe(host)
    deliver(hook, make_event(0))
    deliver(hook, make_event(1), "another secret")
    viewer = Client()
    viewer.force_login(make_member(tenant, "vic"))
    for browser in (admin, viewer):
        page = browser.get("/t/acme/hosts/alpha").content.decode()
        assert f"/hooks/{hook.pk}" in page
        assert "signed with none of this subscription&#x27;s secrets" in page
        assert hashlib.sha256(SECRET.encode()).hexdigest()[:8] in page
        assert SECRET not in page
        assert ("webhooks/adopt" in page) == (browser is admin)
    assert "webhooks/register" not in admin.get("/t/acme/hosts/alpha").content.decode()


def test_the_list_is_a_fragment_of_its_own(tenant: Tenant, admin: Client) -> None:
    subscribe(make_host(tenant))
    asked = {"HX-Request": "true", "HX-Target": "subscriptions"}
    first, second = (admin.get("/t/acme/hosts/alpha", headers=asked).content.decode() for _ in range(2))
    assert first == second  # nothing in it changes by itself, so a live page need not swap it
    assert first.strip().startswith('<section class="panel" id="subscriptions"')
    assert "<form" not in first


@pytest.mark.parametrize(
    ("implementation", "major", "dialect"),
    [
        ("openwop-workflow-engine", 1, "openwop-app"),
        ("openwop-host-sqlite", 1, "reference-hosts"),
        ("somebody-elses", 1, "openwop-1"),
        ("somebody-elses", 2, "openwop-2"),
        (None, None, "openwop-2"),
    ],
)
def test_how_the_host_signs_is_suggested_by_what_it_says_of_itself(
    tenant: Tenant, admin: Client, implementation: str | None, major: int | None, dialect: str
) -> None:
    host = make_host(tenant, origin="https://host.example")
    with tenant_scope(tenant.pk):
        Host.objects.update(major=major)
        if implementation:
            HostDocument.objects.create(
                tenant_id=tenant.pk,
                host=host,
                digest=b"",
                body=json.dumps({"implementation": {"name": implementation}}),
                read_at=NOW,
                seen_at=NOW,
            )
    page = admin.get("/t/acme/hosts/alpha").content.decode()
    assert f'<option value="{dialect}" selected>' in page


def test_the_page_takes_the_same_number_of_queries_with_many_webhooks(tenant: Tenant, admin: Client) -> None:
    host = make_host(tenant)
    subscribe(host)
    admin.get("/t/acme/hosts/alpha")

    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            admin.get("/t/acme/hosts/alpha")
        return len(seen)

    few = queries()
    for _ in range(25):
        deliver(subscribe(host), make_event(0), "another secret")
    assert queries() == few
    assert "20 shown of 26" in admin.get("/t/acme/hosts/alpha").content.decode()


def test_no_secret_of_a_registration_is_kept_in_clear(
    server: Server, tenant: Tenant, host: Host, admin: Client
) -> None:
    speaks(host, 1)
    server.answer = answering(POST=(201, {"webhookId": "wh-1", "secret": SECRET}, {}))
    change(admin, "register", dialect="openwop-1")
    (hook,) = subscriptions(tenant)
    assert SECRET not in hook.sealed_secrets
    assert SECRET not in admin.get("/t/acme/hosts/alpha").content.decode()
    assert SECRET not in repr(register) + repr(hook)
    with tenant_scope(tenant.pk):
        assert not Delivery.objects.exists()
