"""How a run is replayed or branched on its host: `POST …:fork`, in both majors (replay.md; RFC 0041, RFC 0184).

A replay re-emits the recorded facts; a branch keeps what came before a sequence and executes again from there.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from .projection import project

Mode = Literal["replay", "branch"]
MODES: tuple[Mode, ...] = ("replay", "branch")

KEY_VARIABLE = "OPENWOP_HOST_KEY"
"""What stands in a command in the place of a credential."""
UNKNOWN_ORIGIN = "https://HOST"


@dataclass(frozen=True, slots=True)
class Fork:
    """One request for a fork, in the words of one major. Events before ``from_sequence`` are taken over."""

    major: int
    run_id: str
    mode: Mode
    from_sequence: int

    @property
    def path(self) -> str:
        """Major 2 writes an id as one projected segment; major 1 has no such rule: percent-encoded."""
        if self.major >= 2:
            return f"/runs/{project(self.run_id)}:fork"
        return f"/v1/runs/{quote(self.run_id, safe='', errors='surrogatepass')}:fork"

    @property
    def body(self) -> Mapping[str, object]:
        return {"mode": self.mode, "fromSeq": self.from_sequence}

    def address(self, origin: str) -> str:
        return (origin.rstrip("/") or UNKNOWN_ORIGIN) + self.path

    def command(self, origin: str) -> str:
        """For a shell that has the host's key in a variable. Whatever the id is, the shell reads it as text."""
        parts = [
            f"curl -X POST {shlex.quote(self.address(origin))}",
            f'-H "Authorization: Bearer ${KEY_VARIABLE}"',
            *([f"-H 'OpenWOP-Version: {self.major}'"] if self.major >= 2 else []),
            "-H 'Content-Type: application/json'",
            f"-d {shlex.quote(json.dumps(self.body))}",
        ]
        return " \\\n  ".join(parts)


@dataclass(frozen=True, slots=True)
class SideEffects:
    """What the source did from a sequence on: what a branch from there may do again. ``tools`` are the names of the
    tools called, most often called first; ``is_cut``: the log goes on behind what was counted."""

    tool_calls: int = 0
    tools: tuple[str, ...] = ()
    writes: int = 0
    merges: int = 0
    child_runs: int = 0
    questions: int = 0
    nodes: int = 0
    is_cut: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.tool_calls or self.writes or self.merges or self.child_runs or self.questions or self.nodes)
