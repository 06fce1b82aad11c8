"""The site as a WSGI application. Every HTTP request ends here, also those that come through `asgi.py`."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import django
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BUFFER = 64 * 1024


class Body(io.RawIOBase):
    """A request's body as it arrives. One that breaks off raises, so that it never passes for a whole one."""

    def __init__(self, read: Callable[[int], bytes], *, length: int | None) -> None:
        self._take = read
        self._missing = length

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        wanted = len(view) if self._missing is None else min(len(view), self._missing)
        if not wanted:
            return 0
        part = self._take(wanted)
        if self._missing is not None:
            if not part:
                raise ConnectionResetError(f"the body ended {self._missing} bytes early")
            self._missing -= len(part)
        view[: len(part)] = part
        return len(part)


class StreamedRequest(WSGIRequest):
    """Also reads bodies without a Content-Length, which Django takes for empty, see RFC 9112, section 6.3.

    A view reads a large body with `request.read(n)` until it gets b"", in memory of n bytes.
    `request.body` stays bound by DATA_UPLOAD_MAX_MEMORY_SIZE.
    """

    def __init__(self, environ: dict[str, Any]) -> None:
        super().__init__(environ)
        length = environ.get("CONTENT_LENGTH") or ""
        chunked = "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower()
        if length.isdigit() or chunked:
            # RFC 9112: Transfer-Encoding overrides Content-Length.
            body = Body(environ["wsgi.input"].read, length=None if chunked else int(length))
            self._stream = io.BufferedReader(body, BUFFER)


class Site(WSGIHandler):
    request_class = StreamedRequest


os.environ.setdefault("DJANGO_SETTINGS_MODULE", "openwop_ui.settings")
django.setup(set_prefix=False)
application = Site()
