"""Two runs of a hundred thousand events held against each other, over HTTP, against only reading both logs."""

from __future__ import annotations

import http.client
import time

from .figures import median, remark, tell
from .site import Site, site
from .stateful_run import make_stateful_run

EVENTS = 100_000
LIMIT_SECONDS = 2.0
PAIRS = {
    # The fork's memory ids, how long its nodes took at least, and what most events are: a log line is not compared.
    "same": ("mem_", 10, "agent.reasoned"),
    "replay": ("mem_", 400, "agent.reasoned"),
    "anew": ("other_", 400, "agent.reasoned"),
}


def compare() -> None:
    """Seconds for a comparison that nobody has asked for yet, and for one that somebody has; and for the protocol's
    diff, which folds the states of both ends too, the first time."""
    with site(with_worker=False) as running:
        remark(f"runs of {EVENTS:,} events")
        make_stateful_run(running.host, "source", EVENTS, filling="agent.reasoned")
        for name, (ids, took, filling) in PAIRS.items():
            make_stateful_run(running.host, name, EVENTS, ids=ids, took=took, filling=filling)
        client = running.client()
        reading = median([_read_both(running) for _ in range(3)])
        tell("compare.reading_both_logs", reading, "s")
        worst = 0.0
        for name in PAIRS:
            first = _get(running, client, f"runs/{name}/determinism?source=source")
            again = _get(running, client, f"runs/{name}/determinism?source=source")
            diff = _get(running, client, f"runs/source:diff?against={name}&limit=100")
            worst = max(worst, first)
            tell(f"compare.{name}", first, "s", ratio=first / reading, against="reading both logs")
            tell(f"compare.{name}.again", again, "s", ratio=again / reading, against="reading both logs")
            tell(f"compare.{name}.diff", diff, "s", ratio=diff / reading, against="reading both logs")
        client.close()
    tell("compare", worst, "s", ratio=worst / LIMIT_SECONDS, against=f"{LIMIT_SECONDS:.0f} s")


def _read_both(running: Site) -> float:
    with running.connect() as connection:
        connection.execute("SELECT set_config('openwop.tenant', %s, false)", [str(running.host.tenant_id)])
        started = time.perf_counter()
        for name in ("source", "replay"):
            connection.execute(
                "SELECT e.sequence, e.type, e.node_id, e.body FROM runs_event e JOIN runs_run r"
                " ON r.tenant_id = e.tenant_id AND r.id = e.run_id WHERE e.tenant_id = %s AND r.run_id = %s"
                " ORDER BY e.sequence",
                [running.host.tenant_id, name],
            ).fetchall()
        return time.perf_counter() - started


def _get(running: Site, client: http.client.HTTPConnection, path: str) -> float:
    started = time.perf_counter()
    client.request("GET", f"/v1/hosts/{running.host.slug}/{path}", headers={"Authorization": f"Bearer {running.key}"})
    answer = client.getresponse()
    said = answer.read()
    took = time.perf_counter() - started
    if answer.status != 200:
        raise RuntimeError(f"{answer.status} {said[:300]!r}")
    return took
