"""The timeline at a thousand, a hundred thousand, a million events: at the API and in a browser, at rest and live."""

from __future__ import annotations

import random
import threading
import time
import urllib.parse
import uuid
from datetime import UTC, datetime
from typing import Any, LiteralString

from runs.store.columns import keep_ready

from .big_run import make_run, whole
from .browser import browser
from .events import event
from .figures import median, percentile, remark, tell
from .live import session_cookie
from .site import Site, site

SIZES = {"1e3": 1_000, "1e5": 100_000, "1e6": 1_000_000}
QUERIES = 200
PAINTS = 9
RATE, LIVE_SECONDS = 2_000, 15

# A page says when the timeline has painted what the server answered; the time counts from the navigation's start.
PAINTED = """() => {
  const done = document.querySelector('open-timeline[data-state="ready"][data-drawn]');
  return done ? performance.now() : null;
}"""
FRAMES = """async ({keys, presses}) => {
  const frames = [];
  let last = performance.now(), running = true;
  const tick = now => { frames.push(now - last); last = now; if (running) requestAnimationFrame(tick); };
  requestAnimationFrame(now => { last = now; requestAnimationFrame(tick); });
  const timeline = document.querySelector('open-timeline');
  for (let n = 0; n < presses; n++) {
    const key = keys[n % keys.length];
    document.body.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
    await new Promise(done => setTimeout(done, 50));
  }
  running = false;
  return frames;
}"""
WATCH_FRAMES = """() => {
  window.frames_ = [];
  let last = performance.now();
  const tick = now => { window.frames_.push(now - last); last = now; requestAnimationFrame(tick); };
  requestAnimationFrame(tick);
}"""


def timeline() -> None:
    """Queries in ms at random zooms; first paint, frames and heap in a browser; frames and the end of a live run."""
    with site() as running:
        runs: dict[str, int] = {}
        for name, size in SIZES.items():
            started = time.perf_counter()
            runs[name] = make_run(running.host, name, size)
            made = time.perf_counter()
            keep_ready(running.host.tenant_id, runs[name])
            built = time.perf_counter() - made
            remark(f"timeline: {whole(size):,} events in {made - started:.1f} s, columns in {built:.1f} s")
        with running.connect() as connection:
            connection.execute("VACUUM (ANALYZE)")  # or the server would do so beside what is measured
        tell("timeline.columns", _bytes_kept(running, runs["1e6"]) / whole(SIZES["1e6"]), "B/event")
        for name in SIZES:
            _measure_queries(running, name)
        cookie = session_cookie(running)
        with browser("timeline", "--enable-precise-memory-info") as opened:
            if opened is not None:
                _measure_pages(running, opened, cookie)
                _measure_live(running, opened, cookie)


def _bytes_kept(running: Site, run: int) -> int:
    return _number(running, "SELECT sum(length(body)) FROM runs_eventchunk WHERE run_id = %s", run)


def _number(running: Site, query: LiteralString, value: object) -> int:
    """What the tenant's rows answer. Not by the framework: a browser's driver may run an event loop in this thread."""
    with running.connect() as connection:
        connection.execute("SELECT set_config('openwop.tenant', %s, false)", [str(running.host.tenant_id)])
        row = connection.execute(query, [value]).fetchone()
    return int(str(row[0])) if row else 0


# --- At the API ---


def _measure_queries(running: Site, name: str) -> None:
    last = whole(SIZES[name]) - 1
    client = running.client()
    rng = random.Random(5)
    _ask(running, client, name, {})
    took: list[float] = []
    for _ in range(QUERIES):
        size = max(10, int(last * 10 ** -rng.uniform(0, 5)))
        start = rng.randint(0, max(0, last - size))
        query = {
            "from": start,
            "to": start + size,
            "axis": rng.choice(["time", "sequence"]),
            "row": rng.choice([0, 0, 60]),
        }
        took.append(_ask(running, client, name, query))
    client.close()
    tell(f"timeline.query.p50.{name}", median(took), "ms")
    p99 = percentile(took, 99)
    tell(f"timeline.query.p99.{name}", p99, "ms", ratio=p99 / 60, against="60 ms")


def _ask(running: Site, client: Any, name: str, query: dict[str, Any]) -> float:
    started = time.perf_counter()
    path = f"/v1/hosts/{running.host.slug}/runs/{name}/timeline?{urllib.parse.urlencode(query)}"
    client.request("GET", path, headers={"Authorization": f"Bearer {running.key}"})
    answer = client.getresponse()
    answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{answer.status} {path}")
    return (time.perf_counter() - started) * 1000


# --- In a browser ---


def _page(browser: Any, cookie: dict[str, Any]) -> Any:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.add_cookies([cookie])
    return context.new_page()


def _measure_pages(running: Site, browser: Any, cookie: dict[str, Any]) -> None:
    paints: dict[str, list[float]] = {name: [] for name in SIZES}
    for round_ in range(PAINTS + 1):
        for name in SIZES:
            page = _page(browser, cookie)
            painted, requests, size = _first_paint(running, page, name)
            if round_:
                paints[name].append(painted)
            if round_ == PAINTS and name == "1e6":
                tell("timeline.paint.requests", requests, "data requests", ratio=requests / 2, against="2")
                tell("timeline.paint.bytes", size / 1e6, "MB", ratio=size / 1e6, against="1 MB")
                _measure_frames(page)
            page.context.close()
    for name, took in paints.items():
        tell(f"timeline.paint.p50.{name}", median(took), "ms", ratio=median(took) / 800, against="800 ms")
    ratio = median(paints["1e6"]) / median(paints["1e3"])
    tell("timeline.paint.growth", ratio, "x", ratio=ratio / 1.3, against="1.3 x the paint of 1e3")


def _first_paint(running: Site, page: Any, name: str) -> tuple[float, int, int]:
    """Milliseconds, data requests, and bytes of everything that is not a static file, until the timeline is painted."""
    answers: list[Any] = []
    page.on("response", lambda answer: answers.append(answer) if "/static/" not in answer.url else None)
    page.goto(f"http://127.0.0.1:{running.port}/t/bench/runs/{running.host.slug}/{name}", wait_until="commit")
    painted = page.wait_for_function(PAINTED).json_value()
    return float(painted), len(answers), sum(len(answer.body()) for answer in answers)


def _measure_frames(page: Any) -> None:
    for label, keys in (("zoom", "wwwwwwwwwssssssss"), ("pan", "dddddaaaaa")):
        if label == "pan":
            for _ in range(6):
                page.keyboard.press("w")
        frames = page.evaluate(FRAMES, {"keys": list(keys), "presses": 80})
        p95 = percentile(frames, 95)
        tell(f"timeline.{label}.frame.p95", p95, "ms", ratio=p95 / 20, against="20 ms")
    page.wait_for_timeout(1000)
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    heap = page.evaluate("() => performance.memory.usedJSHeapSize") / 1e6
    tell("timeline.heap", heap, "MB", ratio=heap / 120, against="120 MB")


# --- Live ---


def _measure_live(running: Site, browser: Any, cookie: dict[str, Any]) -> None:
    run_id = f"live-{uuid.uuid4().hex[:12]}"
    client = running.client()
    running.post(client, _batch(run_id, 0, 50))
    page = _page(browser, cookie)
    page.goto(f"http://127.0.0.1:{running.port}/t/bench/runs/{running.host.slug}/{run_id}")
    page.wait_for_function(PAINTED)
    page.wait_for_selector('#live[data-state="live"]')
    page.evaluate(WATCH_FRAMES)
    sent: list[int] = []
    poster = threading.Thread(target=_post_steadily, args=(running, client, run_id, sent))
    poster.start()
    while poster.is_alive():
        page.wait_for_timeout(200)
    frames = page.evaluate("() => window.frames_")
    p95 = percentile(frames, 95)
    tell(
        "timeline.live.rate",
        sent[-1] / LIVE_SECONDS,
        "events/s",
        ratio=sent[-1] / LIVE_SECONDS / RATE,
        against="2,000/s",
    )
    tell("timeline.live.frame.p95", p95, "ms", ratio=p95 / 33, against="33 ms")
    started = time.perf_counter()
    page.wait_for_function(
        """count => document.querySelector('[data-rows-total]').textContent.replaceAll(',', '') === String(count)
            && document.querySelector('#facts').textContent.replaceAll(',', '').includes(`${count} of ${count}`)""",
        arg=sent[-1],
        timeout=60_000,
    )
    tell("timeline.live.caught_up", time.perf_counter() - started, "s")
    remark(f"timeline: the page ended with {sent[-1]:,} events, {_stored(running, run_id):,} are stored")
    page.context.close()


def _stored(running: Site, run_id: str) -> int:
    return _number(running, "SELECT event_count FROM runs_run WHERE run_id = %s", run_id)


def _batch(run_id: str, first: int, count: int) -> bytes:
    now = datetime.now(UTC)
    return b"\n".join(event(run_id, sequence, sequence, at=now) for sequence in range(first, first + count))


def _post_steadily(running: Site, client: Any, run_id: str, sent: list[int]) -> None:
    started, reached = time.monotonic(), 50
    while (now := time.monotonic() - started) < LIVE_SECONDS:
        wanted = 50 + int(now * RATE)
        if wanted - reached >= 100:
            running.post(client, _batch(run_id, reached, wanted - reached))
            reached = wanted
            sent.append(reached)
        else:
            time.sleep(0.02)
