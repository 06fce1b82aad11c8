"""What the recorded host said of its forks: their snapshots, which the recorded events do not have."""

from __future__ import annotations

import json
from collections.abc import Mapping

from openwop_ui.demo import RECORDINGS
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.snapshots import ForkMode, Parent
from runs.models import Host
from runs.store import keep_parents, ref

HOST = "openwop-app"

FORKS: Mapping[str, tuple[str, ForkMode, int]] = {
    "fork-replay": ("source", "replay", 0),
    "fork-replay-of-failed": ("failed-source", "replay", 0),
    "fork-branch-mid": ("source", "branch", 10),
    "fork-branch-end": ("source", "branch", 18),
    "fork-branch-overlay": ("source", "branch", 5),
}
"""Recordings of forks by their names: the recording of their source, the mode, and the place where they began."""


def tell_forks(host: Host) -> None:
    """Again and again, with the same result."""
    told = {
        _run_id(fork): Parent(_run_id(source), "fork", "forkMode", mode, sequence)
        for fork, (source, mode, sequence) in FORKS.items()
    }
    with tenant_scope(host.tenant_id):
        keep_parents(ref(host), told)


def _run_id(name: str) -> str:
    with (RECORDINGS / HOST / f"{name}.ndjson").open() as file:
        run_id: str = json.loads(file.readline())["runId"]
    return run_id
