"""Where a run's events are, in both majors, and every way in which they can be asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

from runs.domain.projection import project

from .client import JSON

DISCOVERY = "/.well-known/openwop"

STREAM_QUERIES: tuple[dict[str, str], ...] = (
    {"streamMode": "debug", "resumable": "true"},
    {"streamMode": "debug"},
    {},
)
"""From the best to the least demanding. Memory events are only promised in debug mode; `resumable` is RFC 0247."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request for events."""

    path: str
    params: dict[str, str] = field(default_factory=dict)
    accept: str = JSON


def run_list(major: int) -> str:
    return "/runs" if major >= 2 else "/v1/runs"


def dead_letters(remote_id: str) -> str:
    """Of a webhook; the second major's alone."""
    return f"/webhooks/{project(remote_id)}/dead-letters"


def run(major: int, run_id: str) -> str:
    """Major 2 writes an id as one projected segment (RFC 0184); major 1 has no such rule: percent-encoded."""
    return f"/runs/{project(run_id)}" if major >= 2 else f"/v1/runs/{quote(run_id, safe='')}"


def stream(major: int, run_id: str) -> str:
    return f"{run(major, run_id)}/events"


def poll(major: int, run_id: str, after: int | None) -> Ask:
    """Events after a sequence, or from the first."""
    path = f"{run(major, run_id)}/events/poll"
    if major >= 2:
        # Without a timeout a host holds an empty answer back for 30 s.
        return Ask(path, {"timeout": "1"} | ({} if after is None or after < 0 else {"afterSequence": str(after)}))
    return Ask(path, {} if after is None or after < 0 else {"lastSequence": str(after)})


def whole_log(major: int, run_id: str) -> Ask:
    return Ask(stream(major, run_id))


def ways_to(major: int, run_id: str, first: int) -> Iterator[Ask]:
    """Requests whose answer should hold the event `first`, the documented one at the head.

    One reference host leaves out the very next event after `lastSequence=N`, so N-1 is asked as well; `fromSeq` and
    `since` are older spellings of the cursor; without a cursor, and as JSON from the stream's own address, the whole
    log comes.
    """
    yield poll(major, run_id, first - 1)
    if first >= 1:
        yield poll(major, run_id, first - 2)
    if major < 2 and first >= 1:
        path = f"{run(major, run_id)}/events/poll"
        yield Ask(path, {"fromSeq": str(first - 1)})
        yield Ask(path, {"since": str(first - 1)})
    yield whole_log(major, run_id)
