"""From the answer to a POST until the page shows it: one browser watching, fifty sockets open."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore

from openwop_ui.tenancy.models import Membership
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.projection import project

from .browser import browser
from .events import Shape, event
from .figures import median, percentile, tell
from .site import Site, site

SOCKETS = 50
RATE = 10
SECONDS = 20
EVENTS_A_BATCH = 20

WATCH = """
() => {
  window.seen = [];
  let last = -1;
  const look = () => {
    const told = /complete to #(\\d+)/.exec(document.getElementById('facts').textContent);
    if (told && Number(told[1]) > last) {
      last = Number(told[1]);
      window.seen.push([last, Date.now()]);
    }
  };
  look();
  new MutationObserver(look).observe(document.body, {childList: true, subtree: true});
}
"""


def live() -> None:
    """Latencies in ms at 10 batches a second into the run that the page shows."""
    # The member is made first: the browser's driver runs an event loop in this thread, where Django asks nothing.
    with site() as running, _open_sockets(running, cookie := session_cookie(running)), browser("live") as opened:
        if opened is None:
            return
        latencies = _measure(running, opened, cookie)
    tell("live.median", median(latencies), "ms")
    tell("live.p99", percentile(latencies, 99), "ms", ratio=percentile(latencies, 99) / 300, against="300 ms")


def _measure(running: Site, browser: Any, cookie: dict[str, Any]) -> list[float]:
    shape = Shape(uuid.uuid4().hex, 1, 0)
    run_id = shape.run_id(0)
    client = running.client()
    running.post(client, _batch(run_id, 0))
    context = browser.new_context()
    context.add_cookies([cookie])
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{running.port}/t/bench/runs/{running.host.slug}/{project(run_id)}?after=0")
    page.evaluate(WATCH)
    page.wait_for_timeout(1500)
    answered: dict[int, float] = {}
    poster = threading.Thread(target=_post_steadily, args=(running, client, run_id, answered))
    poster.start()
    while poster.is_alive():
        page.wait_for_timeout(200)
    page.wait_for_timeout(2000)
    seen = [(int(through), float(at)) for through, at in page.evaluate("() => window.seen")]
    if not seen or seen[-1][0] < max(answered):
        raise RuntimeError(f"the page ended at {seen[-1:]}, the log at {max(answered)}")
    return [max(0.0, next(at for through, at in seen if through >= last) - then) for last, then in answered.items()]


def _post_steadily(running: Site, client: http.client.HTTPConnection, run_id: str, answered: dict[int, float]) -> None:
    started = time.monotonic()
    for number in range(1, RATE * SECONDS + 1):
        time.sleep(max(0.0, started + number / RATE - time.monotonic()))
        running.post(client, _batch(run_id, number))
        answered[(number + 1) * EVENTS_A_BATCH - 1] = time.time() * 1000


def _batch(run_id: str, number: int) -> bytes:
    first = number * EVENTS_A_BATCH
    return b"\n".join(event(run_id, first + place, first + place) for place in range(EVENTS_A_BATCH))


def session_cookie(running: Site) -> dict[str, Any]:
    """A member's session, made without the login page: this is about live messages."""
    user = User.objects.filter(username="bench").first() or User.objects.create_user("bench", password=None)
    with tenant_scope(running.host.tenant_id):
        Membership.objects.get_or_create(tenant_id=running.host.tenant_id, user=user)
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    return {
        "name": settings.SESSION_COOKIE_NAME,
        "value": str(session.session_key),
        "url": f"http://127.0.0.1:{running.port}",
    }


@contextmanager
def _open_sockets(running: Site, cookie: dict[str, Any]) -> Iterator[None]:
    """Fifty pages that listen to the tenant's runs, as far as a server can tell."""
    stop = threading.Event()
    ready = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_listen(running.port, cookie, stop, ready)))
    thread.start()
    if not ready.wait(30):
        stop.set()
        raise RuntimeError("the sockets did not open")
    try:
        yield
    finally:
        stop.set()
        thread.join()


async def _listen(port: int, cookie: dict[str, Any], stop: threading.Event, ready: threading.Event) -> None:
    from websockets.asyncio.client import connect

    async def one() -> None:
        origin = f"http://127.0.0.1:{port}"
        headers = {"Cookie": f"{cookie['name']}={cookie['value']}"}
        async with connect(f"ws://127.0.0.1:{port}/ws/", origin=origin, additional_headers=headers) as socket:  # type: ignore[arg-type]
            await socket.send(json.dumps({"tenant": "bench", "topics": ["runs", "ledger"]}))
            await socket.recv()
            opened.append(None)
            async for _ in socket:
                pass

    opened: list[None] = []
    tasks = [asyncio.create_task(one()) for _ in range(SOCKETS)]
    while not stop.is_set():
        if len(opened) == SOCKETS:
            ready.set()
        await asyncio.sleep(0.1)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
