"""Following two hundred runs at once: from an event's moment on its host until it is committed here."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.conf import settings

from openwop_ui.live.announce import CHANNEL
from runs.domain.projection import project
from runs.store import register_host

from .figures import percentile, remark, tell
from .site import Site, cpu_seconds, resident_bytes, site

HOSTS = 8
RUNS_A_HOST = 25
EVENTS_A_RUN = 200
RATE = 2_000
BEGIN_WITHIN = 60
COMPLETE_WITHIN = 60

Commit = tuple[float, str, int]
"""When an announcement was heard (seconds since the epoch), its topic, and the sequence it reaches."""


@dataclass(slots=True)
class Watched:
    """What is seen of the worker while it follows."""

    commits: list[Commit] = field(default_factory=list)
    peak_bytes: int = 0


def follow() -> None:
    """Lag is counted to the moment at which the commit is heard of on another connection: the lag of what pages see."""
    total = HOSTS * RUNS_A_HOST * EVENTS_A_RUN
    remark(f"{HOSTS * RUNS_A_HOST} runs of {HOSTS} hosts, {total:,} events, {RATE:,} a second")
    with site(allow_private_hosts=True) as running, _hosts(running) as hosts:
        _wait_for(hosts, "begun")
        with _watching(running) as watched:
            before, started = cpu_seconds(running.worker), time.perf_counter()
            _wait_for(hosts, "ended")
            committed, gaps = _wait_until_complete(running, total)
            elapsed = time.perf_counter() - started
            spent = cpu_seconds(running.worker) - before
        lags = sorted(_lags(running, watched.commits))
    tell("follow", committed / elapsed, "events/s", ratio=committed / elapsed / RATE, against="what the hosts tell")
    tell("follow.lag_p50", statistics.median(lags) * 1000, "ms")
    tell("follow.lag_p99", percentile(lags, 99) * 1000, "ms", ratio=percentile(lags, 99), against="1 s")
    tell("follow.memory", watched.peak_bytes / 1e6, "MB", ratio=watched.peak_bytes / 300e6, against="300 MB")
    tell("follow.worker_cpu", spent / elapsed, "cores")
    tell("follow.gaps", gaps, "events")
    if committed != total or gaps:
        raise RuntimeError(f"{total - committed} events are missing after {COMPLETE_WITHIN} s, {gaps} of them in gaps")


@contextmanager
def _hosts(running: Site) -> Iterator[subprocess.Popen[str]]:
    """Hosts in a process of their own, registered; the worker finds them by itself."""
    sizes = [str(size) for size in (HOSTS, RUNS_A_HOST, EVENTS_A_RUN, RATE)]
    process = subprocess.Popen(
        [sys.executable, "-m", "openwop_ui.bench.emitting_hosts", *sizes],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=settings.BASE_DIR,
    )
    try:
        for place, origin in enumerate(_next_line(process)):
            register_host(tenant_id=running.host.tenant_id, slug=f"host-{place}", origin=str(origin))
        yield process
    finally:
        process.terminate()
        process.wait()


def _next_line(process: subprocess.Popen[str]) -> Sequence[object]:
    assert process.stdout is not None
    told: Sequence[object] = json.loads(process.stdout.readline() or "null")
    if told is None:
        raise RuntimeError("the hosts have ended")
    return told


def _wait_for(process: subprocess.Popen[str], word: str) -> None:
    # A worker that never opens all streams would keep the hosts, and this, waiting for ever.
    alarm = threading.Timer(BEGIN_WITHIN + HOSTS * RUNS_A_HOST * EVENTS_A_RUN / RATE, process.kill)
    alarm.start()
    try:
        if _next_line(process) != word:
            raise RuntimeError(f"the hosts did not say {word!r}")
    finally:
        alarm.cancel()


@contextmanager
def _watching(running: Site) -> Iterator[Watched]:
    watched, stop, ready = Watched(), threading.Event(), threading.Event()
    thread = threading.Thread(target=_watch, args=(running, watched, stop, ready))
    thread.start()
    try:
        if not ready.wait(10):
            raise RuntimeError("the announcements can not be listened to")
        yield watched
    finally:
        stop.set()
        thread.join()


def _watch(running: Site, watched: Watched, stop: threading.Event, ready: threading.Event) -> None:
    with running.connect() as connection:
        connection.execute(f"LISTEN {CHANNEL}")
        ready.set()
        while not stop.is_set():
            for notice in connection.notifies(timeout=0.2):
                heard = time.time()
                topics = json.loads(notice.payload)["topics"].items()
                watched.commits += [(heard, topic, through) for topic, through in topics if topic.startswith("run:")]
                if stop.is_set():
                    break
            watched.peak_bytes = max(watched.peak_bytes, resident_bytes(running.worker))


def _wait_until_complete(running: Site, total: int) -> tuple[int, int]:
    """Events that are committed, and how many are missing between or before those of a run."""
    deadline = time.monotonic() + COMPLETE_WITHIN
    with running.connect() as connection:
        connection.execute("SELECT set_config('openwop.tenant', %s, false)", [str(running.host.tenant_id)])
        while True:
            row = connection.execute(
                "SELECT coalesce(sum(event_count), 0), coalesce(sum(last_sequence + 1 - event_count), 0),"
                " coalesce(sum(last_sequence - contiguous_through), 0) FROM runs_run"
            ).fetchone()
            assert row is not None
            committed, missing, open_ = (int(str(value)) for value in row)
            if committed >= total or time.monotonic() > deadline:
                return committed, max(missing, open_)
            time.sleep(0.05)


def _lags(running: Site, commits: Sequence[Commit]) -> Iterator[float]:
    """Of each event, seconds. What was committed before anyone listened is left out."""
    heard_of: dict[str, list[tuple[int, float]]] = {}
    for heard, topic, through in commits:
        heard_of.setdefault(topic, []).append((through, heard))
    with running.connect() as connection:
        connection.execute("SELECT set_config('openwop.tenant', %s, false)", [str(running.host.tenant_id)])
        rows = connection.execute(
            "SELECT h.slug, r.run_id, array_agg(extract(epoch FROM e.occurred_at)::float8 ORDER BY e.sequence)"
            " FROM runs_event e JOIN runs_run r ON r.id = e.run_id JOIN runs_host h ON h.id = r.host_id GROUP BY 1, 2"
        ).fetchall()
    for slug, run_id, moments in rows:
        assert isinstance(moments, list)
        sequence = 0
        for through, heard in heard_of.get(f"run:{slug}/{project(str(run_id))}", []):
            yield from (heard - moment for moment in moments[sequence : through + 1])
            sequence = max(sequence, through + 1)
