"""Replay from here: the protocol's address and command, and the button, against real HTTP servers."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import uvicorn
from django.conf import LazySettings
from django.test import Client

from openwop_ui.demo.host import DemoHost
from openwop_ui.tenancy.models import Role, Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.projection import unproject
from runs.models import Event, Follow, Host, Run
from tests.factories import make_event, make_host, make_log, make_member, make_tenant, take
from tests.runs.test_webhook_registration import Answer, Asked, Server, serving

pytestmark = pytest.mark.usefixtures("transactional_db")

CREDENTIAL = "credential-of-the-host-0123456789"


@pytest.fixture(autouse=True)
def private_hosts(settings: LazySettings) -> None:
    settings.ALLOW_PRIVATE_HOSTS = True


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as started:
        yield started


def browser(tenant: Tenant, role: Role = Role.ADMIN) -> Client:
    client = Client()
    client.force_login(make_member(tenant, f"the {role}", role))
    return client


def known_host(tenant: Tenant, origin: str, *, major: int | None = 1, run: str = "run-1", **told: str) -> Host:
    host = make_host(tenant, origin=origin, **({"credential": CREDENTIAL} | told))
    with tenant_scope(tenant.pk):
        Host.objects.update(major=major)
    host.major = major
    called = {"agentId": "agent-1", "callId": "c"}
    log = make_log(run=run)
    log[1:1] = [
        make_event(0, "agent.toolCalled", run=run, payload={**called, "toolName": name}) for name in ("<b>", "mail")
    ]
    take(host, [{**event, "sequence": number, "eventId": f"e{number}"} for number, event in enumerate(log)])
    return host


def page_of(client: Client, run: str = "run-1", sequence: int = 3) -> str:
    return client.get(f"/t/acme/runs/alpha/{run}/events/{sequence}/replay").content.decode()


def press(client: Client, run: str = "run-1", sequence: int = 3, **fields: str) -> Any:
    return client.post(f"/t/acme/runs/alpha/{run}/events/{sequence}/replay", fields)


def said(answer: Any) -> str:
    (words,) = re.findall(r'role="alert">.*?<span>(.*?)</span></p>', answer.content.decode(), re.DOTALL)
    return re.sub("<[^>]*>", "", words).replace("&#x27;", "'")


# --- what is shown ---


def test_the_address_and_the_command_are_those_of_the_hosts_major(tenant: Tenant) -> None:
    known_host(tenant, "https://agents.example", major=2, run="acme/r-9")
    page = page_of(browser(tenant), "acme~2Fr-9")
    assert "POST <bdi>https://agents.example/runs/acme~2Fr-9:fork</bdi>" in page
    assert "OpenWOP-Version: 2" in page and "/v1/" not in page.replace("/v1/docs", "")
    assert "$OPENWOP_HOST_KEY" in page and CREDENTIAL not in page
    assert "fromSeq&quot;: 3" in page


def test_without_a_known_major_there_are_both(tenant: Tenant) -> None:
    known_host(tenant, "https://agents.example", major=None)
    page = page_of(browser(tenant))
    assert "/v1/runs/run-1:fork" in page and "https://agents.example/runs/run-1:fork" in page


def test_the_side_effects_of_a_branch_are_named(tenant: Tenant) -> None:
    known_host(tenant, "https://agents.example")
    page = page_of(browser(tenant), sequence=1)
    assert "2 tool calls" in page and "&lt;b&gt;" in page and "mail" in page and "<b>" not in page
    assert "2 memory writes" in page and "2 nodes executed" in page
    later = page_of(browser_again(tenant), sequence=6)
    assert "tool call" not in later and "1 memory write;" in later


def browser_again(tenant: Tenant) -> Client:
    client = Client()
    client.force_login(make_member(tenant, "another admin", Role.ADMIN))
    return client


@pytest.mark.parametrize(
    ("role", "told", "why"),
    [
        (Role.VIEWER, {}, "An admin of this tenant can start it"),
        (Role.REVIEWER, {}, "An admin of this tenant can start it"),
        (Role.ADMIN, {"credential": ""}, "No credential of this host"),
        (Role.ADMIN, {"origin": ""}, "has no origin"),
    ],
)
def test_who_can_not_press_the_button_is_told_why(
    tenant: Tenant, server: Server, role: Role, told: dict[str, str], why: str
) -> None:
    known_host(tenant, told.get("origin", server.origin), credential=told.get("credential", CREDENTIAL))
    client = browser(tenant, role)
    page = page_of(client)
    assert why in page and "replay-do" not in page
    answer = press(client, mode="replay")
    assert answer.status_code == 403 and server.asked == []


def test_another_tenants_run_is_not_there(tenant: Tenant, server: Server) -> None:
    known_host(tenant, server.origin)
    other = Client()
    other.force_login(make_member(make_tenant("globex"), "olga", Role.ADMIN))
    assert other.get("/t/acme/runs/alpha/run-1/events/3/replay").status_code == 404
    assert press(other, mode="replay").status_code == 404
    assert browser(tenant).get("/t/acme/runs/alpha/run-2/events/3/replay").status_code == 404
    assert server.asked == []


# --- the button ---


def host_that_forks(run: str = "fork-1") -> Callable[[Asked], Answer]:
    def answer(asked: Asked) -> Answer:
        if asked.method == "POST":
            return 201, {"runId": run, "sourceRunId": "run-1", "fromSeq": 3, "mode": asked.body["mode"]}, {}
        return 200, {"runId": run, "events": [make_event(0, "run.started", run=run)], "isTerminal": False}, {}

    return answer


def test_a_branch_is_made_once_confirmed_and_compared(tenant: Tenant, server: Server) -> None:
    known_host(tenant, server.origin)
    client = browser(tenant)
    server.answer = host_that_forks()
    refused = press(client, mode="branch")
    assert refused.status_code == 422 and "does things again" in said(refused) and server.asked == []

    answer = press(client, mode="branch", confirmed="yes", key="5f0a3f54-6f0e-4d38-8a37-0c9d0b7c9c55")
    fork, poll = server.asked
    assert (fork.method, fork.path, fork.body) == ("POST", "/v1/runs/run-1:fork", {"mode": "branch", "fromSeq": 3})
    assert fork.headers["authorization"] == f"Bearer {CREDENTIAL}"
    assert fork.headers["idempotency-key"] == "5f0a3f54-6f0e-4d38-8a37-0c9d0b7c9c55"
    assert "openwop-version" not in fork.headers
    assert (poll.method, poll.path) == ("GET", "/v1/runs/fork-1/events/poll")
    assert answer["Location"] == "/t/acme/compare?a=alpha/run-1&b=alpha/fork-1"
    with tenant_scope(tenant.pk):
        run = Run.objects.get(run_id="fork-1")
        assert (run.parent_run_id, run.parent_sequence, run.relation) == ("run-1", 3, "branch")
        assert Follow.objects.get(run_id="fork-1").finished_at is None


def test_the_second_major_is_asked_in_its_own_words(tenant: Tenant, server: Server) -> None:
    known_host(tenant, server.origin, major=2, run="acme/r-9")
    server.answer = host_that_forks("acme/r-10")
    answer = press(browser(tenant), "acme~2Fr-9", mode="replay")
    fork, poll = server.asked
    assert (fork.path, fork.headers["openwop-version"]) == ("/runs/acme~2Fr-9:fork", "2")
    assert (poll.path, poll.headers["openwop-version"]) == ("/runs/acme~2Fr-10/events/poll", "2")
    where = parse_qs(urlsplit(answer["Location"]).query)
    assert where == {"a": ["alpha/acme~2Fr-9"], "b": ["alpha/acme~2Fr-10"]}


def test_a_fragment_is_sent_on(tenant: Tenant, server: Server) -> None:
    known_host(tenant, server.origin)
    server.answer = host_that_forks()
    answer = browser(tenant).post(
        "/t/acme/runs/alpha/run-1/events/3/replay",
        {"mode": "replay"},
        headers={"HX-Request": "true", "HX-Target": "replay-body"},
    )
    assert answer["HX-Redirect"] == "/t/acme/compare?a=alpha/run-1&b=alpha/fork-1"


def test_a_run_that_says_nothing_yet_is_followed(
    tenant: Tenant, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runs.replay_host.FIRST_EVENTS_WITHIN", 0.3)
    known_host(tenant, server.origin)
    server.answer = lambda asked: (
        (201, {"runId": "fork-1"}, {}) if asked.method == "POST" else (404, {"error": "not_found"}, {})
    )
    answer = press(browser(tenant), mode="replay")
    assert answer["Location"] == "/t/acme/runs?host=alpha"
    with tenant_scope(tenant.pk):
        assert Follow.objects.filter(run_id="fork-1").exists()


REFUSALS = [
    # status, body, headers → a word of what is said
    (401, {"error": "unauthenticated"}, "does not take its credential"),
    (403, {"error": "forbidden", "message": "no scope"}, "needs runs:create"),
    (404, {"error": "not_found"}, "does not know this run, or has no way to fork"),
    (405, None, "no way to fork runs"),
    (409, {"error": "replay_memory_snapshot_unavailable"}, "has not kept the memory"),
    (410, {"error": "run_expired"}, "does not keep this run's log"),
    (422, {"error": "fork_point_invalid", "message": "too late"}, "does not fork at this event"),
    (429, {"error": "rate_limited"}, "asks to wait"),
    (501, {"error": "not_implemented"}, "has not built a replay from #3"),
    (503, {"error": "service_unavailable"}, "is busy"),
    (500, b"<html>", "The host refuses"),
    (302, None, "redirects in a way that is not followed"),
    (201, {"no": "run"}, "without the id of the new run"),
    (201, b"not json", "without the id of the new run"),
]


@pytest.mark.parametrize(("status", "body", "words"), REFUSALS, ids=[f"{s} {w[:20]}" for s, _, w in REFUSALS])
def test_what_the_host_says_is_said_in_words(
    tenant: Tenant, server: Server, status: int, body: Any, words: str
) -> None:
    known_host(tenant, server.origin)
    server.answer = lambda asked: (status, body, {"Location": "/elsewhere"} if status == 302 else {})
    answer = press(browser(tenant), mode="replay")
    assert answer.status_code == 422 and words in said(answer)
    assert [one.method for one in server.asked] == ["POST"]
    with tenant_scope(tenant.pk):
        assert Run.objects.count() == 1 and Follow.objects.count() == 0


def test_the_credential_is_in_no_answer(tenant: Tenant, server: Server) -> None:
    known_host(tenant, server.origin)
    server.answer = lambda asked: (403, {"error": "forbidden", "message": f"{CREDENTIAL} <img src=x>"}, {})
    answer = press(browser(tenant), mode="replay").content.decode()
    assert CREDENTIAL not in answer and "<img src=x>" not in answer


def test_it_goes_to_no_other_origin(tenant: Tenant, server: Server) -> None:
    known_host(tenant, server.origin)
    with serving() as elsewhere:
        server.answer = lambda asked: (307, None, {"Location": f"{elsewhere.origin}/v1/runs/run-1:fork"})
        answer = press(browser(tenant), mode="replay")
        assert "another origin" in said(answer)
        assert elsewhere.asked == []


def test_it_follows_a_redirect_that_keeps_the_method(tenant: Tenant, server: Server) -> None:
    known_host(tenant, server.origin)
    forks = host_that_forks()
    server.answer = lambda asked: (
        (308, None, {"Location": "/base" + asked.path}) if asked.path == "/v1/runs/run-1:fork" else forks(asked)
    )
    assert "compare" in press(browser(tenant), mode="replay")["Location"]
    assert [(one.method, one.body) for one in server.asked[:2]] == [("POST", {"mode": "replay", "fromSeq": 3})] * 2


def test_private_addresses_are_refused_by_policy(tenant: Tenant, server: Server, settings: LazySettings) -> None:
    settings.ALLOW_PRIVATE_HOSTS = False
    known_host(tenant, server.origin)
    answer = press(browser(tenant), mode="replay")
    assert "private network" in said(answer) and server.asked == []


def test_a_host_that_is_not_there_is_said(tenant: Tenant) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    known_host(tenant, f"http://127.0.0.1:{port}")
    assert "No connection" in said(press(browser(tenant), mode="replay"))


# --- the demo's host ---


@contextmanager
def demo_host() -> Iterator[tuple[DemoHost, str]]:
    host = DemoHost(key=CREDENTIAL, seed="s", boot="b")
    server = uvicorn.Server(uvicorn.Config(host, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield host, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize("major", [1, 2])
def test_on_the_demos_host_in_both_majors(tenant: Tenant, major: int) -> None:
    with demo_host() as (demo, origin):
        source = demo.engine.start("crm.sync-accounts", {})
        demo.engine.cancel(source, "enough")
        run_id = source.run_id if major == 1 else f"acme/{source.run_id}"
        host = make_host(tenant, origin=origin, credential=CREDENTIAL)
        with tenant_scope(tenant.pk):
            Host.objects.update(major=major)
        take(host, [make_event(0, "run.started", run=run_id), make_event(1, "run.cancelled", run=run_id)])
        segment = run_id.replace("/", "~2F")
        answer = press(browser(tenant), segment, 1, mode="replay")
        assert answer.status_code == 302, answer.content
        forked = unproject(parse_qs(urlsplit(answer["Location"]).query)["b"][0].removeprefix("alpha/"))
        with tenant_scope(tenant.pk):
            run = Run.objects.get(run_id=forked)
            assert (run.parent_run_id, run.relation, run.status) == (run_id, "replay", "cancelled")
            assert list(Event.objects.filter(run_id=run.pk).values_list("type", flat=True).order_by("sequence")) == [
                event.type for event in source.events
            ]
