"""The follower is a program of its own: it must run without Django and the database."""

from __future__ import annotations

import subprocess
import sys


def test_follower_imports_no_framework_and_no_database() -> None:
    code = "import sys, runs.follower.worker; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    imported = set(told.stdout.split())
    assert "runs.follower.worker" in imported
    assert not {"django", "psycopg", "channels", "ninja"} & imported
