"""Which file of a cluster lies where."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Layout:
    data_dir: Path

    @property
    def folder(self) -> Path:
        return self.data_dir / "postgres"

    @property
    def data(self) -> Path:
        """PGDATA. There only once it is complete."""
        return self.folder / "data"

    @property
    def draft(self) -> Path:
        """PGDATA while it is being made."""
        return self.folder / "data.new"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def start_log(self) -> Path:
        """What the server says before its own log is open."""
        return self.folder / "start.log"

    @property
    def turn(self) -> Path:
        """Locked by whoever starts or stops the server."""
        return self.folder / "turn.lock"

    @property
    def users(self) -> Path:
        """Locked, shared, by every process that uses the server."""
        return self.folder / "users.lock"

    @property
    def alive(self) -> Path:
        """Locked by the server and all its backends, through a descriptor that they inherit."""
        return self.folder / "alive.lock"

    @property
    def secrets(self) -> Path:
        return self.data_dir / "secrets"
