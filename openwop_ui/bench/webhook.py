"""Signed deliveries, one event each, over several connections; held against the same server answering a constant."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import os
import threading
import time
import uuid
from collections.abc import Callable, Sequence

from runs.store.subscriptions import open_subscription

from .events import Shape, event
from .figures import median, remark, tell
from .site import Site, site

CONNECTIONS = 8
DELIVERIES = 1_200
ROUNDS = 3
SECRET = "secret of the benchmark's webhook"  # noqa: S105 - signs made-up events on a database that goes again

Ask = Callable[[http.client.HTTPConnection], int]


def webhook() -> None:
    """Each delivery is answered once its event is committed. Constant answers and deliveries are measured in turn."""
    remark(f"{ROUNDS} times {DELIVERIES:,} deliveries over {CONNECTIONS} connections, {os.cpu_count()} processors")
    with site(with_worker=False) as running:
        hook = open_subscription(running.host, dialect="openwop-1", secret=SECRET)
        _per_second(running, [[_constant] * 50] * CONNECTIONS)
        measured = [_round(running, f"/hooks/{hook.pk}") for _ in range(ROUNDS)]
        _check(running, ROUNDS * DELIVERIES)
    tell("webhook.constant", median([constant for constant, _ in measured]), "requests/s")
    ratio = median([delivered / constant for constant, delivered in measured])
    tell("webhook", median([delivered for _, delivered in measured]), "deliveries/s", ratio=ratio, against="/healthz")


def _round(running: Site, path: str) -> tuple[float, float]:
    each = DELIVERIES // CONNECTIONS
    constant = _per_second(running, [[_constant] * each] * CONNECTIONS)
    shape = Shape(uuid.uuid4().hex, CONNECTIONS, DELIVERIES)
    deliveries = [
        [_delivery(path, event(shape.run_id(run), sequence, sequence)) for sequence in range(each)]
        for run in range(CONNECTIONS)
    ]
    return constant, _per_second(running, deliveries)


def _constant(client: http.client.HTTPConnection) -> int:
    client.request("GET", "/healthz", headers={"Host": "localhost"})
    return _status(client)


def _delivery(path: str, body: bytes) -> Ask:
    """Signed beforehand: the client shares the processors with the server that is measured."""
    timestamp = str(int(time.time()))
    mac = hmac.digest(SECRET.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hex()
    headers = {
        "Content-Type": "application/json",
        "X-openwop-Signature": f"sha256={mac}",
        "X-openwop-Timestamp": timestamp,
    }

    def ask(client: http.client.HTTPConnection) -> int:
        client.request("POST", path, body, headers)
        return _status(client)

    return ask


def _status(client: http.client.HTTPConnection) -> int:
    answer = client.getresponse()
    answer.read()
    return answer.status


def _per_second(running: Site, asks: Sequence[Sequence[Ask]]) -> float:
    """Of all connections together, from the first request to the last answer."""
    problems: list[BaseException] = []

    def work(own: Sequence[Ask]) -> None:
        client = running.client()
        try:
            for ask in own:
                if (status := ask(client)) != 200:
                    raise RuntimeError(f"answered with {status}")
        except BaseException as problem:
            problems.append(problem)
        finally:
            client.close()

    threads = [threading.Thread(target=work, args=(own,)) for own in asks]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return sum(map(len, asks)) / (time.perf_counter() - started)


def _check(running: Site, wanted: int) -> None:
    with running.connect() as connection:
        connection.execute("SELECT set_config('openwop.tenant', %s, false)", [str(running.host.tenant_id)])
        row = connection.execute("SELECT count(*) FROM runs_event").fetchone()
        if row is None or row[0] != wanted:
            raise RuntimeError(f"{row} events are stored, {wanted} were acknowledged")
