"""The database behind a command line: DATABASE_URL, or the embedded server while the command runs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from openwop_ui import environment, postgres

# These read no row. Every other command may, so it gets a database.
WITHOUT_DATABASE = frozenset(
    {
        "check",
        "collectstatic",
        "compilemessages",
        "diffsettings",
        "findstatic",
        "help",
        "makemessages",
        "optimizemigration",
        "startapp",
        "startproject",
        "version",
    }
)
SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_AFTER_FAILURE = 10.0
MAKES_TABLES_ITSELF = frozenset({"migrate", "makemigrations", "up"})


def needs_database(arguments: Sequence[str]) -> bool:
    """`arguments` as in `sys.argv`. Asking for help never needs one."""
    command = arguments[1] if len(arguments) > 1 else "help"
    if command.startswith("-") or {"-h", "--help", "--version"}.intersection(arguments[2:]):
        return False
    if command == "check":
        return "--database" in arguments
    return command not in WITHOUT_DATABASE


@contextmanager
def database_for(arguments: Sequence[str]) -> Iterator[bool]:
    """Have a database until the block ends, if the command needs one. Yields whether it lacks its tables."""
    if environment.DATABASE_URL.is_set() or not needs_database(arguments):
        yield False
        return
    data_dir = environment.DATA_DIR.value()
    is_new = not postgres.exists(data_dir)
    with _ending_on_sigterm():
        os.environ[environment.DATABASE_URL.name] = postgres.ensure(data_dir)
        try:
            yield is_new and arguments[1] not in MAKES_TABLES_ITSELF
        finally:
            postgres.stop(data_dir)


@contextmanager
def _ending_on_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind the stack, so that no server is left behind. A command may set its own handler."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(signum: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + signum)


class DatabaseWatch:
    """Starts the embedded server again when it has been killed. A server that runs elsewhere is left alone."""

    def __init__(self, data_dir: Path, *, print_line: Callable[[str], None]) -> None:
        self._data_dir = data_dir
        self._print = print_line
        self._due = 0.0

    def __call__(self) -> bool:
        """Whether the database now has another address, of which the programs must hear."""
        if time.monotonic() < self._due:
            return False
        self._due = time.monotonic() + SECONDS_BETWEEN_LOOKS
        try:
            url = postgres.revive(self._data_dir)
        except postgres.Failure as problem:
            self._due = time.monotonic() + SECONDS_AFTER_FAILURE
            self._print(f"The database has ended and does not start: {problem}")
            return False
        if url is None:
            return False
        self._print("The database had ended and was started again.")
        before, os.environ[environment.DATABASE_URL.name] = environment.DATABASE_URL.value(), url
        return url != before
