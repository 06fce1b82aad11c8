"""The demo: a host that speaks the protocol and starts runs by itself, recorded runs of others, and who may log in."""

from pathlib import Path

RECORDINGS = Path(__file__).parent / "recordings"
"""Logs of public hosts: `<host>/<run>.ndjson`."""
