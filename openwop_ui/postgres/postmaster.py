"""The server process: how it is started, recognised, waited for and ended."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from openwop_ui.postgres import locks
from openwop_ui.postgres.account import Account
from openwop_ui.postgres.binaries import Binaries
from openwop_ui.postgres.failure import Failure
from openwop_ui.postgres.layout import Layout

logger = logging.getLogger(__name__)

ADDRESS = "127.0.0.1"
LONGEST_RECOVERY = 1800.0
LONGEST_SHUTDOWN = 60.0
LOG_FILES_KEPT = 10
_PROC = Path("/proc")

SETTINGS = {
    "listen_addresses": ADDRESS,
    "unix_socket_directories": "",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "work_mem": "16MB",
    "maintenance_work_mem": "128MB",
    "fsync": "on",
    "synchronous_commit": "on",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "on",
    "log_filename": "postgresql-%Y%m%dT%H%M%S.log",
    "log_rotation_size": "10MB",
    "log_rotation_age": "0",
    "log_line_prefix": "%m [%p] %a ",
    # A statement, a failing row or a COPY line may hold what must not reach the disk in clear.
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
}


@dataclass(frozen=True, slots=True)
class Postmaster:
    """What `postmaster.pid` says of the process that serves a data folder."""

    pid: int
    port: int
    status: str


class PortTaken(Exception):
    pass


def find_postmaster(layout: Layout) -> Postmaster | None:
    """The live server of this data folder. A file left by a dead one counts as none."""
    try:
        lines = (layout.data / "postmaster.pid").read_text("utf-8", "replace").splitlines()
        found = Postmaster(int(lines[0]), int(lines[3]), lines[7].strip() if len(lines) > 7 else "starting")
    except (FileNotFoundError, IndexError, ValueError):
        return None
    return found if _serves(found.pid, layout) else None


def wait_until_ready(layout: Layout, process: subprocess.Popen[bytes] | None = None) -> Postmaster | None:
    """The server once it takes connections; None when it is gone or going."""
    started = time.monotonic()
    told = False
    while (waited := time.monotonic() - started) < LONGEST_RECOVERY:
        found = find_postmaster(layout)
        if found and found.status == "ready":
            return found
        if process.poll() is not None if process else found is None or found.status == "stopping":
            return None
        if waited > 5 and not told:
            logger.warning("PostgreSQL is reading its write-ahead log; see %s", layout.log)
            told = True
        time.sleep(0.02)
    raise Failure(f"PostgreSQL has not become ready in {LONGEST_RECOVERY:.0f} s; see {layout.log}.")


def start_postmaster(
    layout: Layout, account: Account, binaries: Binaries, *, preferred_port: int | None
) -> tuple[Postmaster, subprocess.Popen[bytes]]:
    """Start it on a free port, the preferred one if that is free. No process of the cluster may be alive."""
    _prepare_log(layout, account)
    for port in (preferred_port, None, None, None):
        try:
            return _start(layout, account, binaries, port=_free_port(port))
        except PortTaken:
            continue
    raise Failure(f"PostgreSQL found no free port on {ADDRESS}; see {layout.start_log}.")


def shut_down(layout: Layout) -> None:
    """End sessions, write a checkpoint, stop. One that does not manage in time recovers at its next start."""
    found = find_postmaster(layout)
    for sign in (signal.SIGINT, signal.SIGQUIT):
        if found is None or not _signal(found.pid, sign):
            break
        if locks.is_free(layout.alive, patience=LONGEST_SHUTDOWN):
            return
    end_leftovers(layout)


def end_leftovers(layout: Layout) -> None:
    """End backends whose postmaster was killed: while one lives, no new server may touch the files."""
    for sign, patience in ((signal.SIGQUIT, 3.0), (signal.SIGKILL, 5.0)):
        if locks.is_free(layout.alive, patience=0.5):
            break
        for pid in _processes_in(layout.data):
            _signal(pid, sign)
        if locks.is_free(layout.alive, patience=patience):
            break
    else:
        raise Failure(f"Processes of an earlier PostgreSQL still use {layout.data} and do not end.")
    # Its process id may belong to something else by now, for which the server would refuse to start.
    (layout.data / "postmaster.pid").unlink(missing_ok=True)


def _start(
    layout: Layout, account: Account, binaries: Binaries, *, port: int
) -> tuple[Postmaster, subprocess.Popen[bytes]]:
    alive = locks.seize(layout.alive)
    if alive is None:
        raise Failure(f"Another PostgreSQL uses {layout.data}.")
    try:
        with layout.start_log.open("wb") as output:
            process = subprocess.Popen(
                account.command(*_command_line(layout, binaries, port)),
                cwd="/",
                env={"LC_ALL": "C", "PATH": os.defpath},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(alive,),
                # Out of reach of the terminal's Ctrl-C: whoever uses it last stops it.
                start_new_session=True,
            )
    finally:
        os.close(alive)
    ready = wait_until_ready(layout, process)
    if ready is None:
        raise _reason_for_end(layout)
    return ready, process


def _command_line(layout: Layout, binaries: Binaries, port: int) -> list[str]:
    settings = {
        **SETTINGS,
        "port": str(port),
        "log_directory": str(layout.log),
        "wal_compression": "lz4" if binaries.has_lz4() else "off",
    }
    flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    return [binaries.program("postgres"), "-D", str(layout.data), *flags]


def _reason_for_end(layout: Layout) -> Exception:
    said = layout.start_log.read_text("utf-8", "replace").strip()
    logs = sorted(layout.log.glob("postgresql-*.log"))
    if logs:
        said += "\n" + logs[-1].read_text("utf-8", "replace").strip()
    if "Address already in use" in said:
        return PortTaken()
    last = "\n".join(said.splitlines()[-12:])
    return Failure(f"PostgreSQL did not start on {layout.data}:\n{last}")


def _prepare_log(layout: Layout, account: Account) -> None:
    layout.log.mkdir(mode=0o700, exist_ok=True)
    account.give(layout.log)
    for old in sorted(layout.log.glob("postgresql-*.log"))[:-LOG_FILES_KEPT]:
        old.unlink()


def _free_port(preferred: int | None) -> int:
    for port in (preferred or 0, 0):
        with socket.socket() as probe:
            # As the server does it: connections of the last run that are still closing do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((ADDRESS, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise Failure(f"No free port on {ADDRESS}.")


def _serves(pid: int, layout: Layout) -> bool:
    """Process ids are used again, so the process must be known by more than its number."""
    if not _PROC.is_dir():
        return not locks.is_free(layout.alive)
    return _works_in(_PROC / str(pid), layout.data)


def _processes_in(data: Path) -> list[int]:
    return [int(entry.name) for entry in _PROC.glob("[0-9]*") if _works_in(entry, data) and _is_server(entry)]


def _works_in(entry: Path, data: Path) -> bool:
    try:
        return (entry / "cwd").readlink() == data.resolve()
    except OSError:
        return False


def _is_server(entry: Path) -> bool:
    try:
        return (entry / "exe").readlink().name.startswith("postgres")
    except OSError:
        return False


def _signal(pid: int, sign: signal.Signals) -> bool:
    try:
        os.kill(pid, sign)
    except ProcessLookupError:
        return False
    return True
