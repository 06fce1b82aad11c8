"""Log records as they are written."""

from __future__ import annotations

import logging
import sys

import pytest
from django.http import UnreadablePostError

from openwop_ui.launch.logs import LineFormatter, NoHangUps


def record(message: str, *args: object, problem: BaseException | None = None) -> logging.LogRecord:
    made = logging.LogRecord("runs.door", logging.WARNING, __file__, 1, message, args, None)
    made.created, made.msecs = 1_800_000_000.123, 123.0
    if problem is not None:
        try:
            raise problem
        except type(problem):
            made.exc_info = sys.exc_info()
    return made


def test_a_record_is_one_line_with_its_time_in_utc() -> None:
    assert LineFormatter().format(record("took %d events", 3)) == (
        "2027-01-15T08:00:00.123Z WARNING runs.door: took 3 events"
    )


def test_no_argument_can_forge_a_record() -> None:
    written = LineFormatter().format(record("host %s", "a\r\n2027 INFO x: forged\u2028\x1b[2J\x00\x85"))
    assert written.endswith(r"host a\r\n2027 INFO x: forged\x2028\x1b[2J\x00\x85")
    assert len(written.splitlines()) == 1


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer ***"),
        ("'Authorization': 'ApiKey owk_1a2b', next", "'Authorization': 'ApiKey ***', next"),
        ("postgresql://openwop:hunter2@db:5432/x failed", "postgresql://openwop:***@db:5432/x failed"),
        ("redis://:hunter2@redis/0", "redis://:***@redis/0"),
        ("token=hunter2&run=7", "token=***&run=7"),
        ('{"api_key": "hunter2", "run": 7}', '{"api_key": "***", "run": 7}'),
        ("password = hunter2", "password = ***"),
        ("running on http://127.0.0.1:8000 (42 tokens)", "running on http://127.0.0.1:8000 (42 tokens)"),
    ],
)
def test_credentials_are_left_out(said: str, written: str) -> None:
    assert LineFormatter().format(record("%s", said)).endswith(f": {written}")


def test_a_traceback_follows_indented_without_credentials() -> None:
    lines = LineFormatter().format(record("failed", problem=ValueError("token=hunter2"))).splitlines()
    assert lines[0].endswith(": failed")
    assert all(line.startswith("    ") for line in lines[1:])
    assert lines[-1] == "    ValueError: token=***"


def test_only_hang_ups_are_dropped() -> None:
    assert not NoHangUps().filter(record("failed", problem=UnreadablePostError("left")))
    assert NoHangUps().filter(record("failed", problem=ValueError("left")))
    assert NoHangUps().filter(record("fine"))
