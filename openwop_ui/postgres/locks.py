"""File locks. The system lets go of them when the last process that holds one ends, however it ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turn(file: Path) -> Iterator[None]:
    """One process at a time, in any order, waiting as long as it takes."""
    descriptor = _open(file)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def share(file: Path) -> int:
    """Hold a share until the returned descriptor is closed."""
    descriptor = _open(file)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def seize(file: Path, *, patience: float = 0.0) -> int | None:
    """Hold it alone until the returned descriptor is closed; None when others still do after `patience` s."""
    descriptor = _open(file)
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(descriptor)
                return None
            time.sleep(0.02)


def is_free(file: Path, *, patience: float = 0.0) -> bool:
    descriptor = seize(file, patience=patience)
    if descriptor is None:
        return False
    os.close(descriptor)
    return True


def _open(file: Path) -> int:
    return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
