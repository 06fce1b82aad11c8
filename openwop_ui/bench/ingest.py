"""Intake over HTTP, end to end: row-level security, folding, ledger reading and live announcements on."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Iterator, Sequence

from runs.domain.event import RunEvent
from runs.domain.normalise import read_event

from .events import Shape, events
from .figures import median, remark, tell
from .raw_copy import rows_per_second
from .site import Site, cpu_seconds, database_cpu_seconds, resident_bytes, site

EVENTS = 200_000
RUNS = 50
BATCH = 10_000
CLIENTS = 2
FILE_BYTES = 1_000_000_000
CHUNK = 1 << 20


def ingest() -> None:
    """Rows/s from the first request to the last answer and the last memory write read; ratio to a raw COPY."""
    shapes = [Shape(uuid.uuid4().hex, RUNS // CLIENTS, EVENTS // CLIENTS) for _ in range(CLIENTS)]
    bodies = [list(events(shape)) for shape in shapes]
    sizes = [len(body) for one in bodies for body in one]
    remark(f"{EVENTS:,} events of {sum(sizes) / EVENTS:.0f} bytes in {RUNS} runs, batches of {BATCH:,}")
    parsed = [
        event
        for one in bodies
        for place, body in enumerate(one)
        if isinstance(event := read_event(body, index=place), RunEvent)
    ]
    with site() as running:
        with running.connect() as connection:
            raw = {
                body: median([rows_per_second(connection, parsed, body=body) for _ in range(3)])
                for body in ("text", "jsonb")
            }
        del parsed
        before = _spent(running)
        started = time.perf_counter()
        _post_all(running, [[_joined(one, start) for start in range(0, len(one), BATCH)] for one in bodies])
        answered = time.perf_counter() - started
        _wait_for_ledger(running, EVENTS // 20)
        read = time.perf_counter() - started
        _check(running, EVENTS)
        spent = {part: now - before[part] for part, now in _spent(running).items()}
    for part, seconds in spent.items():
        tell(f"ingest.{part}_cpu", seconds / EVENTS * 1e6, "us/event")
    for body, rate in raw.items():
        limit = f"raw COPY, event as {body}"
        tell(f"ingest.raw_copy_{body}", rate, "rows/s")
        tell("ingest.answered", EVENTS / answered, "rows/s", ratio=EVENTS / answered / rate, against=limit)
        tell("ingest", EVENTS / read, "rows/s", ratio=EVENTS / read / rate, against=limit)


def _spent(running: Site) -> dict[str, float]:
    """Seconds of processor time so far. The database's are those of the connections that are still open."""
    return {
        "server": cpu_seconds(running.web),
        "worker": cpu_seconds(running.worker),
        "database": database_cpu_seconds(running),
        "client": time.process_time(),
    }


def _joined(bodies: Sequence[bytes], start: int) -> bytes:
    return b"\n".join(bodies[start : start + BATCH])


def _post_all(running: Site, batches: Sequence[Sequence[bytes]]) -> None:
    """Each client sends its own runs in order, one batch after the other, as a host's pusher does."""
    problems: list[BaseException] = []

    def work(own: Sequence[bytes]) -> None:
        client = running.client()
        try:
            for batch in own:
                running.post(client, batch)
        except BaseException as problem:
            problems.append(problem)
        finally:
            client.close()

    threads = [threading.Thread(target=work, args=(own,)) for own in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


def _wait_for_ledger(running: Site, writes: int) -> None:
    with running.connect() as connection:
        connection.execute("SELECT set_config('openwop.tenant', %s, false)", [str(running.host.tenant_id)])
        while True:
            row = connection.execute("SELECT count(*) FROM ledger_memorywrite").fetchone()
            if row and int(str(row[0])) >= writes:
                return
            time.sleep(0.05)


def _check(running: Site, wanted: int) -> None:
    with running.connect() as connection:
        connection.execute("SELECT set_config('openwop.tenant', %s, false)", [str(running.host.tenant_id)])
        row = connection.execute("SELECT count(*) FROM runs_event").fetchone()
        if row is None or row[0] != wanted:
            raise RuntimeError(f"{row} events are stored, {wanted} were sent")


def ingest_file() -> None:
    """A file of 1 GB (BENCH_BYTES) as one streamed request; the server's memory all along."""
    size = int(os.environ.get("BENCH_BYTES", FILE_BYTES))
    sent = 0
    peak = 0
    with site() as running:
        idle = resident_bytes(running.web)
        done = threading.Event()

        def watch() -> None:
            nonlocal peak
            while not done.wait(0.1):
                peak = max(peak, resident_bytes(running.web))

        watcher = threading.Thread(target=watch)
        watcher.start()
        client = running.client()
        started = time.perf_counter()

        def body() -> Iterator[bytes]:
            nonlocal sent
            for chunk in _chunks(size):
                sent += len(chunk)
                yield chunk

        client.request(
            "POST",
            f"/v1/hosts/{running.host.slug}/events",
            body(),
            {"Authorization": f"Bearer {running.key}", "Content-Type": "application/x-ndjson"},
            encode_chunked=True,
        )
        answer = client.getresponse()
        said = answer.read()
        elapsed = time.perf_counter() - started
        done.set()
        watcher.join()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status} {said[:300]!r}")
    tell("ingest_file", sent / elapsed / 1e6, "MB/s")
    tell("ingest_file.memory", peak / 1e6, "MB", ratio=peak / idle, against="the same server before")


def _chunks(size: int) -> Iterator[bytes]:
    shape = Shape(uuid.uuid4().hex, RUNS, 1 << 62)
    chunk = bytearray()
    sent = 0
    for one in events(shape):
        chunk += one + b"\n"
        if len(chunk) >= CHUNK:
            sent += len(chunk)
            yield bytes(chunk)
            chunk.clear()
            if sent >= size:
                return
