"""A whole site as `make run` starts it, in a data folder of its own, to be used and mistreated by tests."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openwop_ui.launch import ports

ROOT = Path(__file__).resolve().parents[2]
MANAGE = str(ROOT / "manage.py")
START_WITHIN = 90


@dataclass
class RunningSite:
    """`up`, and the processes below it."""

    data_dir: Path
    demo: bool = False
    port: int = field(default_factory=lambda: ports.free_port("127.0.0.1", 19000))
    up: subprocess.Popen[bytes] | None = None

    @property
    def env(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "DATA_DIR", "PORT")}
        return kept | {
            "DATA_DIR": str(self.data_dir),
            "PORT": str(self.port),
            "DEMO": str(int(self.demo)),
            "LOG_LEVEL": "WARNING",
        }

    def start(self) -> None:
        with (self.data_dir / "up.log").open("ab") as log:
            self.up = subprocess.Popen(
                [sys.executable, MANAGE, "up"],
                env=self.env,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_WITHIN
        while time.monotonic() < deadline:
            if ports.answers("127.0.0.1", self.port, "/readyz", host_name="localhost"):
                return
            time.sleep(0.1)
        raise AssertionError(f"not ready within {START_WITHIN} s:\n{(self.data_dir / 'up.log').read_text()[-3000:]}")

    def manage(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, MANAGE, *arguments], env=self.env, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            client.request(method, path, body, headers or {})
            answer = client.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            client.close()

    def push(self, key: str, host: str, events: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        """The receipt, or None when the server gave none: then nothing is known about the events."""
        body = b"\n".join(json.dumps(event).encode() for event in events)
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/x-ndjson"}
        try:
            status, said = self.request("POST", f"/v1/hosts/{host}/events", body, headers)
        except (OSError, http.client.HTTPException, ValueError):
            return None
        return said if status == 200 else None

    def children(self) -> dict[str, int]:
        """The command of each process below `up`, and its id."""
        assert self.up is not None
        found: dict[str, int] = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == self.up.pid and MANAGE.encode() in words:
                    found[words[words.index(MANAGE.encode()) + 1].decode()] = int(entry.name)
        return found

    def postmaster(self) -> int:
        (pid_file,) = self.data_dir.glob("postgres/*/postmaster.pid")
        return int(pid_file.read_text().split()[0])

    def kill_everything(self) -> None:
        assert self.up is not None
        for pid in (self.up.pid, *self.children().values(), self.postmaster()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.up.wait()

    def stop(self) -> None:
        if self.up is not None and self.up.poll() is None:
            self.up.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self.up.wait(20)
            self.up.kill()
            self.up.wait()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
