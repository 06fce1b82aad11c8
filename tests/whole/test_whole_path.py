"""The whole site, started as a new user starts it: what is acknowledged survives whatever is killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from .running_site import RunningSite, is_alive

pytestmark = pytest.mark.whole

RUNS = 4
BATCH = 50
BATCHES = 60


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSite]:
    running = RunningSite(tmp_path_factory.mktemp("site"))
    running.start()
    try:
        yield running
    finally:
        running.stop()


def make_key(site: RunningSite, tenant: str) -> str:
    site.manage("create_tenant", tenant)
    site.manage("create_host", "robot", "--tenant", tenant)
    return site.manage("create_api_key", "--tenant", tenant, "--name", "push", "--scopes", "ingest,read")


def batches() -> list[list[dict[str, Any]]]:
    """Each run's events in order, cut into batches; every tenth event is a memory write."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        [
            {
                "eventId": f"evt-{batch % RUNS}-{sequence}",
                "runId": f"run-{batch % RUNS}",
                "sequence": sequence,
                "type": "memory.written" if sequence % 10 == 5 else "log.appended",
                "nodeId": "writer",
                "payload": {"memoryRef": "notes", "memoryId": f"m-{batch % RUNS}-{sequence}"}
                if sequence % 10 == 5
                else {"message": "x" * 200},
                "timestamp": (start + timedelta(seconds=sequence)).isoformat(),
            }
            for sequence in range(batch // RUNS * BATCH, batch // RUNS * BATCH + BATCH)
        ]
        for batch in range(BATCHES)
    ]


def stored_sequences(site: RunningSite, key: str, run: str) -> list[int]:
    found: list[int] = []
    cursor = ""
    while True:
        status, page = site.request(
            "GET",
            f"/v1/hosts/robot/runs/{run}/events?limit=500{cursor}",
            headers={"Authorization": f"Bearer {key}"},
        )
        assert status == 200, page
        found += [event["sequence"] for event in page["items"]]
        if not page["nextCursor"]:
            return found
        cursor = f"&after={page['nextCursor']}"


def all_stored(site: RunningSite, key: str) -> dict[str, list[int]]:
    return {f"run-{run}": stored_sequences(site, key, f"run-{run}") for run in range(RUNS)}


def test_what_is_acknowledged_survives_kill_9_of_server_and_database(site: RunningSite) -> None:
    key = make_key(site, "killed")
    sent = batches()
    acknowledged: set[tuple[str, int]] = set()
    progress = threading.Semaphore(0)

    def push_all() -> None:
        for events in sent:
            if site.push(key, "robot", events) is not None:
                acknowledged.update((event["runId"], event["sequence"]) for event in events)
            progress.release()

    pusher = threading.Thread(target=push_all)
    pusher.start()
    for _ in range(10):
        progress.acquire()
    os.kill(site.children()["serve"], signal.SIGKILL)
    for _ in range(15):
        progress.acquire()
    os.kill(site.postmaster(), signal.SIGKILL)
    pusher.join()
    site.wait_until_ready()

    before_resend = {(run, sequence) for run, found in all_stored(site, key).items() for sequence in found}
    assert acknowledged, "no batch was acknowledged: the test shows nothing"
    assert acknowledged <= before_resend

    for events in sent:
        receipt = site.push(key, "robot", events)
        assert receipt is not None
        assert receipt["accepted"] + receipt["repeated"] == BATCH
    expected = list(range(BATCHES // RUNS * BATCH))
    assert all_stored(site, key) == {f"run-{run}": expected for run in range(RUNS)}
    wait_for_ledger(site, key, writes=BATCHES * BATCH // 10)
    assert "the same" in site.manage("rebuild_ledger", "--tenant", "killed", "--check")


def wait_for_ledger(site: RunningSite, key: str, *, writes: int) -> None:
    deadline = time.monotonic() + 30
    total = -1
    while time.monotonic() < deadline:
        total = entries_in_ledger(site, key)
        if total == writes:
            return
        time.sleep(0.2)
    raise AssertionError(f"the ledger has {total} entries, {writes} were written")


def entries_in_ledger(site: RunningSite, key: str) -> int:
    """Each write of these logs makes an entry of its own."""
    count, cursor = 0, ""
    while True:
        _, page = site.request(
            "GET", f"/v1/ledger/entries?limit=100{cursor}", headers={"Authorization": f"Bearer {key}"}
        )
        count += len(page["items"])
        if not page["nextCursor"]:
            return count
        cursor = f"&cursor={quote(page['nextCursor'])}"


def test_kill_9_of_everything_loses_nothing(site: RunningSite) -> None:
    key = make_key(site, "crashed")
    events = batches()[0]
    receipt = site.push(key, "robot", events)
    assert receipt is not None and receipt["accepted"] == BATCH

    site.kill_everything()
    site.start()

    assert stored_sequences(site, key, "run-0") == list(range(BATCH))


def test_ctrl_c_leaves_no_process_behind(tmp_path: Path) -> None:
    running = RunningSite(tmp_path)
    running.start()
    assert running.up is not None
    processes = [running.up.pid, *running.children().values(), running.postmaster()]
    assert len(processes) == 4  # up, the server, the worker, PostgreSQL
    running.up.send_signal(signal.SIGINT)
    assert running.up.wait(20) == 0
    deadline = time.monotonic() + 5
    while any(map(is_alive, processes)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [pid for pid in processes if is_alive(pid)] == []
