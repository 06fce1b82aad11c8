"""The follower's measures of time and size."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds, but for `batch` (events).

    `silence` is without a byte (hosts beat every 30 s), `quiet` without an event: a stream can beat on and yet have
    lost its last events. `after_end` is how long a stream may stay silent after a terminal event. A stream that was
    open for `lasting` worked, even without an event (RFC 0247: a host does not end one earlier). `settle` are the
    checks for late events, counted from the last event. `turn` is how long a stream keeps its place when others wait.

    The rest is how often the worker does a thing: asks which hosts to follow, reads a host's run list, asks the store
    which runs to follow, reads a host's discovery document, its dead letters, tries a stopped run, and a host that
    refused us.
    """

    batch: int = 200
    flush: float = 0.15
    silence: float = 45.0
    quiet: float = 60.0
    after_end: float = 5.0
    settle: tuple[float, ...] = (0.0, 5.0, 20.0)
    poll: float = 2.0
    poll_most: float = 10.0
    turn: float = 20.0
    report: float = 2.0
    lasting: float = 15.0
    read_hosts: float = 5.0
    list_runs: float = 3.0
    ask_store: float = 5.0
    negotiate: float = 600.0
    dead_letters: float = 60.0
    try_stopped: float = 900.0
    try_refused: float = 300.0


DEFAULT_PACE = Pace()
