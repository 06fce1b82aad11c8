"""HTTP and sockets through the real server: bodies of any length and framing, and sockets that lead nowhere."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn
from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse, UnreadablePostError
from django.test import override_settings
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from openwop_ui import asgi

MEBIBYTE = 1024 * 1024
LINES = b"".join(b'{"line": %d}\n' % number for number in range(50_000))
CHUNKED = {"Transfer-Encoding": "chunked"}


@dataclass
class Seen:
    """What happened to requests whose client cannot be told."""

    broken: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)


seen = Seen()


@csrf_exempt
def digest(request: HttpRequest) -> JsonResponse:
    """Reads as intake does: part by part."""
    total, largest, sha256 = 0, 0, hashlib.sha256()
    try:
        while part := request.read(64 * 1024):
            total, largest = total + len(part), max(largest, len(part))
            sha256.update(part)
    except UnreadablePostError:
        seen.broken.set()
        raise
    return JsonResponse({"total": total, "largest": largest, "sha256": sha256.hexdigest()})


@csrf_exempt
def count_lines(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"lines": sum(1 for _ in request)})


@csrf_exempt
def whole(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"total": len(request.body)})


@csrf_exempt
def unread(request: HttpRequest) -> JsonResponse:
    seen.go_on.wait(30)
    return JsonResponse({})


def plain_error(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """The site's error pages need the site's URLs."""
    return HttpResponse(status=400 if exception else 500)


handler400 = handler500 = plain_error
urlpatterns = [
    path("digest", digest),
    path("lines", count_lines),
    path("whole", whole),
    path("unread", unread),
]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    # No lifespan: it starts the relay, which has tests of its own.
    server = uvicorn.Server(
        uvicorn.Config(
            asgi.application, port=0, http="httptools", ws="websockets-sansio", lifespan="off", log_config=None
        )
    )
    listener = socket.create_server(("127.0.0.1", 0))
    with override_settings(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1"]):
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join(timeout=10)
    listener.close()


def post(port: int, where: str, body: bytes | list[bytes], **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", where, body, headers, encode_chunked="Transfer-Encoding" in headers)
        response = connection.getresponse()
        said = response.read()
        return response.status, json.loads(said) if response.status == 200 else said
    finally:
        connection.close()


def parts_of(body: bytes, size: int) -> list[bytes]:
    return [body[start : start + size] for start in range(0, len(body), size)]


@pytest.mark.parametrize("size", [7_001, 64 * 1024, MEBIBYTE])
def test_chunked_body_is_read_whole_in_bounded_parts(port: int, size: int) -> None:
    body = LINES * 4
    status, said = post(port, "/digest", parts_of(body, size), **CHUNKED)
    assert (status, said["total"], said["sha256"]) == (200, len(body), hashlib.sha256(body).hexdigest())
    assert said["largest"] <= 64 * 1024


def test_body_with_a_length_is_read_whole(port: int) -> None:
    status, said = post(port, "/digest", LINES)
    assert (status, said["total"], said["sha256"]) == (200, len(LINES), hashlib.sha256(LINES).hexdigest())


@pytest.mark.parametrize("headers", [{}, CHUNKED], ids=["length", "chunked"])
def test_a_body_can_be_read_by_line(port: int, headers: dict[str, str]) -> None:
    body = parts_of(LINES, 999) if headers else LINES
    assert post(port, "/lines", body, **headers) == (200, {"lines": 50_000})


@pytest.mark.parametrize("headers", [{}, CHUNKED], ids=["length", "chunked"])
def test_no_body_is_an_empty_one(port: int, headers: dict[str, str]) -> None:
    assert post(port, "/whole", [] if headers else b"", **headers) == (200, {"total": 0})
    assert post(port, "/digest", [] if headers else b"", **headers)[1]["total"] == 0


def test_what_is_read_into_memory_stays_bounded_without_a_length(port: int) -> None:
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    assert post(port, "/whole", [b"x" * limit], **CHUNKED) == (200, {"total": limit})
    assert post(port, "/whole", [b"x" * limit, b"x"], **CHUNKED)[0] == 400


@pytest.mark.parametrize(
    "head",
    [b"Content-Length: 1000000", b"Transfer-Encoding: chunked"],
    ids=["length", "chunked"],
)
def test_a_client_that_leaves_within_its_body_is_an_error(port: int, head: bytes) -> None:
    seen.broken.clear()
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"POST /digest HTTP/1.1\r\nHost: 127.0.0.1\r\n" + head + b"\r\n\r\n")
        client.sendall(b"100\r\n" + b"x" * 256 + b"\r\n")
    assert seen.broken.wait(10)


def test_a_client_cannot_send_more_than_is_read(port: int) -> None:
    seen.go_on.clear()
    sent = 0
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"POST /unread HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000000\r\n\r\n")
        client.settimeout(1.0)
        with pytest.raises(TimeoutError):
            while sent < 256 * MEBIBYTE:
                sent += client.send(b"x" * MEBIBYTE)
    seen.go_on.set()
    # What the two sockets' buffers hold; the server itself holds 64 KiB.
    assert sent < 32 * MEBIBYTE


@pytest.mark.parametrize("where", ["/", "/ws", "/ws/other", "/nowhere/"])
def test_a_socket_to_nowhere_is_closed_with_a_reason(port: int, where: str) -> None:
    with connect(f"ws://127.0.0.1:{port}{where}", origin=Origin(f"http://127.0.0.1:{port}")) as client:
        with pytest.raises(ConnectionClosed):
            client.recv(timeout=10)
        assert client.close_code == 4404


@pytest.mark.parametrize("origin", [Origin("https://evil.example"), None])
def test_a_socket_from_another_site_is_refused(port: int, origin: Origin | None) -> None:
    with pytest.raises(InvalidStatus, match="403"), connect(f"ws://127.0.0.1:{port}/ws/", origin=origin):
        pass


async def test_the_relay_lives_as_long_as_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []

    async def relay() -> None:
        happened.append("started")
        try:
            await asyncio.Event().wait()
        finally:
            happened.append("ended")

    incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    outgoing: asyncio.Queue[Any] = asyncio.Queue()
    monkeypatch.setattr(asgi, "relay_forever", relay)
    server = asyncio.create_task(asgi.application({"type": "lifespan"}, incoming.get, outgoing.put))
    incoming.put_nowait({"type": "lifespan.startup"})
    assert await outgoing.get() == {"type": "lifespan.startup.complete"}
    await asyncio.sleep(0)
    assert happened == ["started"]
    incoming.put_nowait({"type": "lifespan.shutdown"})
    assert await outgoing.get() == {"type": "lifespan.shutdown.complete"}
    assert happened == ["started", "ended"]
    await server
