"""Ports, on real sockets."""

from __future__ import annotations

import http.server
import socket
import threading

import pytest

from openwop_ui.launch import ports


def test_taken_port_is_not_free_and_another_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert not ports.is_free("127.0.0.1", port)
        other = ports.free_port("127.0.0.1", port)
    assert other != port
    assert ports.is_free("127.0.0.1", port)
    assert ports.free_port("127.0.0.1", port) == port


def test_a_site_that_listens_everywhere_is_asked_on_loopback() -> None:
    assert ports.reachable_at("0.0.0.0") == "127.0.0.1"
    assert ports.reachable_at("192.0.2.7") == "192.0.2.7"


class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:  # noqa: N802 - the base class's name
        self.send_response(200 if self.headers["Host"] == "example.org" and self.path == "/healthz" else 400)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.parametrize(
    ("host_name", "path", "answered"),
    [("example.org", "/healthz", True), ("127.0.0.1", "/healthz", False), ("example.org", "/", False)],
)
def test_only_a_200_under_the_given_name_is_an_answer(host_name: str, path: str, answered: bool) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), Site) as site:
        threading.Thread(target=site.handle_request).start()
        assert ports.answers("0.0.0.0", site.server_port, path, host_name=host_name) is answered


def test_silence_is_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert not ports.answers("127.0.0.1", port, "/healthz", host_name="x", timeout=0.1)
    assert not ports.answers("127.0.0.1", port, "/healthz", host_name="x", timeout=0.1)
