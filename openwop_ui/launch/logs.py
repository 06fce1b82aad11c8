"""How a log record looks: one line, without credentials, whatever its arguments hold."""

from __future__ import annotations

import logging
import re
import time

_CREDENTIALS = re.compile(
    r"(?P<before>\b(?:bearer|apikey)\s+|://[^\s:/@]*:(?=[^\s/]*@)"
    r"|\b(?:password|secret|token|api[_-]?key)['\"]?\s*[=:]\s*['\"]?)"
    r"[^\s'\"@,;&]+",
    re.IGNORECASE,
)
_CONTROLS = {code: f"\\x{code:02x}" for code in [*range(0x20), 0x7F, *range(0x80, 0xA0), 0x2028, 0x2029]}
_CONTROLS |= {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}


class NoHangUps(logging.Filter):
    """A client that leaves within its request is no fault of the site."""

    def filter(self, record: logging.LogRecord) -> bool:
        from django.http import UnreadablePostError

        return not (record.exc_info and isinstance(record.exc_info[1], UnreadablePostError))


def without_credentials(text: str) -> str:
    return _CREDENTIALS.sub(r"\g<before>***", text)


class LineFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.123Z WARNING runs.follower: message`. A traceback follows, indented."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the base class's name
        # A line break in a message would let its sender forge records.
        record.message = without_credentials(record.message).translate(_CONTROLS)
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:  # noqa: N802 - the base class's name
        traceback = super().formatException(ei)  # type: ignore[arg-type]
        return "\n".join(f"    {line}" for line in without_credentials(traceback).splitlines())
