"""A local server that speaks the OpenAI-compatible protocol, well or badly."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Respond = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class LanguageModel:
    """``asked`` are the bodies that came, ``keys`` the Authorization headers. Answers are given in turn, the last one
    for ever."""

    base: str
    answers: list[Respond]
    asked: list[Any] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        length = int(request.headers.get("Content-Length", "0"))
        self.asked.append(json.loads(request.rfile.read(length)))
        self.keys.append(request.headers.get("Authorization"))
        self.paths.append(request.path)
        respond = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        respond(request)


def says(claims: Any) -> Respond:
    """A whole answer whose message is this value as JSON."""
    return message(json.dumps(claims))


def message(content: Any) -> Respond:
    return raw(json.dumps({"choices": [{"message": {"role": "assistant", "content": content}}]}).encode())


def raw(body: bytes, status: int = 200) -> Respond:
    def respond(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return respond


def hangs_up(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", "1000")
    request.end_headers()
    request.wfile.write(b'{"choices"')
    request.wfile.flush()
    request.close_connection = True


def never_ends(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    try:
        while True:
            request.wfile.write(b" " * 65_536)
    except OSError:
        request.close_connection = True


@contextmanager
def language_model(*answers: Respond) -> Iterator[LanguageModel]:
    served: list[LanguageModel] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            served[0].answer(self)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.append(LanguageModel(f"http://127.0.0.1:{server.server_port}/v1", list(answers)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield served[0]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
