"""A host's own diff: asked for over HTTP with its credential, by the follower's rules for addresses, and shown beside
what is found here."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client

from ledger.host_diff import HostDiff, ask_host_diff, read_diff
from openwop_ui.tenancy.models import Tenant
from runs.models import Host
from tests.factories import make_host, make_log, make_member, take

pytestmark = pytest.mark.django_db

RECORDED = Path("tests/fixtures/forks/diff-of-fork-replay.json").read_bytes()
DIFF = {"a": "one", "b": "two", "divergedAtSeq": 2, "eventDiffs": [{"seq": 2, "op": "changed"}], "stateDiff": {}}


class Diffing(BaseHTTPRequestHandler):
    """Answers as it is told to, and remembers what it was asked."""

    answers: tuple[int, bytes] = (200, b"{}")
    asked: list[tuple[str, str | None]] = []  # noqa: RUF012 - one list a test

    def do_GET(self) -> None:
        type(self).asked.append((self.path, self.headers.get("Authorization")))
        status, body = self.answers
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    Diffing.asked = []
    Diffing.answers = (200, json.dumps(DIFF).encode())
    served = HTTPServer(("127.0.0.1", 0), Diffing)
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    yield served
    served.shutdown()
    thread.join()
    served.server_close()


@pytest.fixture
def host(tenant: Tenant, server: HTTPServer, settings: LazySettings) -> Host:
    settings.ALLOW_PRIVATE_HOSTS = True
    return make_host(tenant, origin=f"http://127.0.0.1:{server.server_address[1]}", credential="hidden-credential")


@pytest.fixture
def client(tenant: Tenant) -> Client:
    client = Client()
    client.force_login(make_member(tenant, "vera"))
    return client


def asked(client: Client) -> str:
    answer = client.get("/t/acme/compare/host?a=alpha/one&b=alpha/two")
    assert answer.status_code == 200
    page = answer.content.decode()
    assert "hidden-credential" not in page
    return page


def test_the_host_is_asked_with_its_credential(host: Host, client: Client) -> None:
    take(host, make_log("one"))
    take(host, make_log("two"))
    page = asked(client)
    assert Diffing.asked == [("/v1/runs/one:diff?against=two", "Bearer hidden-credential")]
    assert "1 changed, 0 only in A, 0 only in B, first at #2" in page
    assert "The first difference is the same here." in page


def test_where_it_finds_something_else_both_stand_there(host: Host, client: Client) -> None:
    take(host, make_log("one"))
    take(host, make_log("two"))
    Diffing.answers = (200, json.dumps(DIFF | {"divergedAtSeq": 5}).encode())
    assert "Here the first difference is at #2." in asked(client)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (404, b'{"error": "not_found", "message": "no"}', "offers no diff"),
        (501, b'{"error": "capability_not_provided", "message": "no"}', "offers no diff"),
        (403, b'{"error": "forbidden", "message": "<b>no</b>"}', "403 forbidden"),
        (200, b"[]", "no diff"),
        (200, b"not JSON", "no diff"),
    ],
)
def test_what_is_no_diff_is_told_in_words(host: Host, client: Client, status: int, body: bytes, words: str) -> None:
    take(host, make_log("one"))
    take(host, make_log("two"))
    Diffing.answers = (status, body)
    page = asked(client)
    assert words in page and "<b>no</b>" not in page


def test_a_private_address_is_not_asked(host: Host, client: Client, settings: LazySettings) -> None:
    settings.ALLOW_PRIVATE_HOSTS = False
    take(host, make_log("one"))
    take(host, make_log("two"))
    assert "was not asked" in asked(client)
    assert Diffing.asked == []


def test_nobody_answers(tenant: Tenant, settings: LazySettings) -> None:
    settings.ALLOW_PRIVATE_HOSTS = True
    gone = make_host(tenant, "gone", origin="http://127.0.0.1:9")
    assert "could not be asked" in str(ask_host_diff(gone, "one", "two"))


def test_the_recorded_answer_is_read() -> None:
    told = read_diff(RECORDED)
    assert told == HostDiff(diverged_at=5, added=0, removed=1, changed=8, truncated=False)
