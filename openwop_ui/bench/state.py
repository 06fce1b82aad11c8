"""The state at random events of a run of a million, over HTTP, against reading one event of it in the same way."""

from __future__ import annotations

import http.client
import random
import time

from .figures import median, percentile, remark, tell
from .site import Site, site
from .stateful_run import make_stateful_run

EVENTS = 1_000_000
QUERIES = 400
LIMIT_MS = 150.0


def state() -> None:
    """p50 and p99 at random sequences, what the first look at the log takes, and a diff between two of them."""
    chance = random.Random(20)  # noqa: S311 - nothing secret
    places = [chance.randrange(EVENTS) for _ in range(QUERIES)]
    with site(with_worker=False) as running:
        remark(f"a run of {EVENTS:,} events")
        make_stateful_run(running.host, "big", EVENTS)
        client = running.client()
        _get(running, client, "runs/big")
        cold = _get(running, client, f"runs/big/state?at={EVENTS - 1}&limit=50")
        one_event = [_get(running, client, f"runs/big/events?after={at - 1}&limit=1") for at in places]
        states = [_get(running, client, f"runs/big/state?at={at}&limit=50") for at in places]
        diffs = [
            _get(running, client, f"runs/big/state?at={at}&against={other}&limit=50")
            for at, other in zip(places, reversed(places[:100]), strict=False)
        ]
        client.close()
    limit = percentile(one_event, 99)
    against = "one event of the same run over the same API, p99"
    tell("state.first_look", cold / 1000, "s")
    tell("state.p50", median(states), "ms", ratio=median(states) / median(one_event), against=f"{against[:-3]}p50")
    tell("state.p99", percentile(states, 99), "ms", ratio=percentile(states, 99) / limit, against=against)
    tell("state", percentile(states, 99), "ms", ratio=percentile(states, 99) / LIMIT_MS, against=f"{LIMIT_MS:.0f} ms")
    tell("state.diff_p99", percentile(diffs, 99), "ms", ratio=percentile(diffs, 99) / limit, against=against)


def _get(running: Site, client: http.client.HTTPConnection, path: str) -> float:
    """Milliseconds to the last byte of the answer."""
    started = time.perf_counter()
    client.request("GET", f"/v1/hosts/{running.host.slug}/{path}", headers={"Authorization": f"Bearer {running.key}"})
    answer = client.getresponse()
    said = answer.read()
    took = (time.perf_counter() - started) * 1000
    if answer.status != 200:
        raise RuntimeError(f"{answer.status} {said[:300]!r}")
    return took
