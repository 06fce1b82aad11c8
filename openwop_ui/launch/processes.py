"""A supervisor of long-running programs: starts them, prefixes what they print, starts them again, ends them.

Knows nothing of Django or of what the programs do.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO

TIED = Path(__file__).with_name("tied.py")
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Program:
    """`command` begins with the path of the program itself."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds, except `failed_starts`: so many ends in a row before all are ready make `run` give up."""

    first_pause: float = 0.5
    longest_pause: float = 30.0
    healthy_after: float = 60.0
    to_stop: float = 8.0
    between_looks: float = 0.1
    failed_starts: int = 3


class GaveUp(Exception):
    """A program that cannot start at all. The text names it."""


class Supervised:
    """One program and its life so far."""

    def __init__(self, program: Program, *, say: Callable[[str, str], None], patience: Patience) -> None:
        self.program = program
        self.restarts = 0
        self._say = say
        self._patience = patience
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._started = 0.0
        self._failures = 0
        self._due = 0.0

    @property
    def failures(self) -> int:
        """Ends in a row, each soon after its start."""
        return self._failures

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        # Its own process group: a Ctrl-C in the terminal reaches the supervisor only, which ends it in order.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(TIED), str(os.getpid()), *self.program.command],
            env={**os.environ, "PYTHONUNBUFFERED": "1", **self.program.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        self._started = time.monotonic()
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._forward, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def look_after(self, now: float) -> None:
        """Notice that it ended and start it again when its pause is over."""
        if self._process is None:
            if now >= self._due:
                self.restarts += 1
                self.start()
            return
        code = self._process.poll()
        if code is None:
            return
        self._clear_away()
        self._failures = 1 if now - self._started >= self._patience.healthy_after else self._failures + 1
        pause = min(self._patience.first_pause * 2 ** (self._failures - 1), self._patience.longest_pause)
        self._due = now + pause
        self._say(self.program.name, f"ended {_how(code)}; starting again in {pause:g} s")

    def signal_group(self, sign: signal.Signals) -> None:
        if self._process is not None:
            # The group outlives its leader for as long as the program has children of its own.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, sign)

    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def end_now(self) -> None:
        self.signal_group(signal.SIGKILL)
        self._clear_away()

    def _clear_away(self) -> None:
        self.signal_group(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
        if self._reader is not None:
            self._reader.join(timeout=2)
        self._process = self._reader = None

    def _forward(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                self._say(self.program.name, line.decode("utf-8", "replace").rstrip("\n"))


class Supervisor:
    """Runs programs until it is told to stop. Use it on the main thread: it listens to signals."""

    def __init__(
        self,
        programs: Sequence[Program],
        *,
        print_line: Callable[[str], None],
        look_after_the_rest: Callable[[], bool] = lambda: False,
        patience: Patience | None = None,
    ) -> None:
        """`look_after_the_rest` is called at every look; on True the programs are started anew."""
        self._print_line = print_line
        self._look_after_the_rest = look_after_the_rest
        self._patience = patience or Patience()
        self._width = max(len(program.name) for program in programs)
        self._lock = threading.Lock()
        self._asked = 0
        self.children = [Supervised(p, say=self._say, patience=self._patience) for p in programs]

    def run(self, *, is_ready: Callable[[], bool], when_ready: Callable[[], None]) -> None:
        """Until SIGINT, SIGTERM or SIGHUP. `is_ready` is asked again and again until it holds.

        Raises GaveUp when a program keeps ending before that. Whatever happens, all have ended afterwards.
        """
        with self._listening():
            try:
                for child in self.children:
                    child.start()
                self._watch(is_ready, when_ready)
            finally:
                self._end_all()

    def _watch(self, is_ready: Callable[[], bool], when_ready: Callable[[], None]) -> None:
        ready = False
        while not self._asked:
            if self._look_after_the_rest():
                for child in self.children:
                    child.end_now()
            for child in self.children:
                child.look_after(time.monotonic())
                if not ready and child.failures >= self._patience.failed_starts:
                    raise GaveUp(f"{child.program.name} does not start; its last words are above")
            if not ready and is_ready():
                ready = True
                when_ready()
            time.sleep(self._patience.between_looks)

    def _end_all(self) -> None:
        asked_before = self._asked
        for child in self.children:
            child.signal_group(signal.SIGTERM)
        deadline = time.monotonic() + self._patience.to_stop
        while not all(child.has_ended() for child in self.children):
            if time.monotonic() >= deadline or self._asked > max(asked_before, 1):
                break
            time.sleep(self._patience.between_looks / 5)
        for child in self.children:
            if not child.has_ended():
                self._say(child.program.name, "did not end when asked and was killed")
            child.end_now()

    @contextmanager
    def _listening(self) -> Iterator[None]:
        before = {sign: signal.signal(sign, self._ask_to_stop) for sign in STOP_SIGNALS}
        try:
            yield
        finally:
            for sign, handler in before.items():
                signal.signal(sign, handler)

    def _ask_to_stop(self, signum: int, frame: FrameType | None) -> None:
        self._asked += 1

    def _say(self, name: str, line: str) -> None:
        with self._lock:
            self._print_line(f"{name:<{self._width}} | {line}")


def _how(code: int) -> str:
    if code >= 0:
        return f"with exit code {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:
        return f"by signal {-code}"
