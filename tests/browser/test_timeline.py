"""The timeline by mouse, keyboard and touch: what is drawn, what the address says of it, and what it costs."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.whole.running_site import RunningSite

from .conftest import Visitor
from .test_run import HOSTILE, hostile_events

START = datetime(2026, 1, 1, 8, tzinfo=UTC)
BUSY = 80_000


def event(run: str, sequence: int, type: str, node: str | None = None, at: float | None = None, **payload: Any) -> Any:
    """``at`` in seconds from the start; a second an event without it."""
    moment = START + timedelta(seconds=sequence if at is None else at)
    said = {
        "eventId": f"evt-{run}-{sequence}",
        "runId": run,
        "sequence": sequence,
        "type": type,
        "payload": payload,
        "timestamp": moment.isoformat(),
    }
    return said | ({"nodeId": node} if node else {})


def trail(run: str) -> list[dict[str, Any]]:
    """A retried node, a tool call, an approval after an hour, writes in one place, a failure, a step back in time."""
    told: list[tuple[str, str | None, float, dict[str, Any]]] = [
        ("run.started", None, 0, {"workflowId": "timeline.test"}),
        ("node.started", "plan", 1, {}),
        ("log.appended", "plan", 2, {"message": "needle in a payload"}),
        ("agent.toolCalled", "plan", 3, {"toolName": "search", "callId": "c1"}),
        ("agent.toolReturned", "plan", 5, {"toolName": "search", "callId": "c1", "status": "ok"}),
        ("node.failed", "plan", 6, {"error": {"code": "timeout"}}),
        ("node.started", "plan", 7, {}),
        ("memory.written", "plan", 8, {"memoryRef": "notes", "memoryId": f"{run}-a", "agentId": "planner"}),
        ("memory.written", "plan", 8.0001, {"memoryRef": "notes", "memoryId": f"{run}-b", "agentId": "planner"}),
        ("memory.written", "plan", 8.0002, {"memoryRef": "notes", "memoryId": f"{run}-c", "agentId": "planner"}),
        ("node.completed", "plan", 9, {}),
        ("node.started", "review", 10, {}),
        ("approval.requested", "review", 11, {"title": "Publish?"}),
        ("approval.received", "review", 3611, {"decision": "approved"}),
        ("node.completed", "review", 3612, {}),
        ("node.completed", "unseen", 3613, {}),
        ("vendor.acme.unheard-of", "publish", 3612.5, {"anything": 1}),
        ("node.started", "publish", 3614, {}),
        ("memory.written", "publish", 3615, {"memoryRef": "notes", "memoryId": f"{run}-d"}),
        ("node.completed", "publish", 3616, {}),
        ("run.completed", None, 3617, {}),
    ]
    return [event(run, n, type, node, at, **payload) for n, (type, node, at, payload) in enumerate(told)]


def push(site: RunningSite, key: str, events: list[dict[str, Any]]) -> None:
    assert site.push(key, "python", events) is not None


def opened(visitor: Visitor, path: str) -> Page:
    page = visitor.open(f"/t/demo/runs/python/{path}")
    ready(page)
    return page


def ready(page: Page) -> None:
    page.wait_for_selector('open-timeline[data-state="ready"][data-drawn]:not([data-busy]) canvas')
    page.wait_for_timeout(250)


def state(page: Page) -> Any:
    """What a colleague who opens the address has to see as well."""
    return page.evaluate(
        """() => {
            const timeline = document.querySelector('open-timeline');
            const {rows} = timeline;
            const [from, to] = timeline.window();
            return {axis: timeline.axis, window: [Math.ceil(from), Math.floor(to)], gaps: timeline.scale.gaps.length,
                folded: [...rows.folded], all: rows.isFolded, pins: [...rows.pins], stacked: [...rows.stacked],
                selected: timeline.selected, zone: document.getElementById('tz').value,
                show: document.querySelector('[name=show]:checked').value, q: document.getElementById('q').value,
                node: document.querySelector('select[name=node]').value,
                rows: [...document.querySelectorAll('tr[data-seq]')].map(row => row.innerText),
                chosen: document.querySelector('tr.is-selected')?.dataset.seq};
        }"""
    )


def place_of(page: Page, lane: str) -> tuple[float, float]:
    """The middle of a lane's name on the screen."""
    x, y = page.evaluate(
        """node => {
            const timeline = document.querySelector('open-timeline');
            const row = [...timeline.scene.pinned, ...timeline.scene.rows].find(one => one.lane.key === node);
            const box = timeline.canvas.getBoundingClientRect();
            return [box.left + 60, box.top + row.top + row.own / 2];
        }""",
        lane,
    )
    return x, y


def corner_of_lane(page: Page, lane: str) -> tuple[float, float]:
    """Where the canvas begins, and the middle of a lane; the page may have moved since they were last asked for."""
    _, y = place_of(page, lane)
    return page.evaluate("() => document.querySelector('open-timeline').canvas.getBoundingClientRect().left"), y


def point(page: Page, sequence: int, lane: str | None) -> tuple[float, float]:
    """Where an event is drawn; without a lane, in the memory lane."""
    x, y = page.evaluate(
        """([sequence, lane]) => {
            const timeline = document.querySelector('open-timeline');
            const event = timeline.model.eventAt.get(sequence);
            const row = timeline.scene.rows.find(one => one.lane?.key === lane);
            const box = timeline.canvas.getBoundingClientRect();
            return [box.left + timeline.xOf(sequence, event?.at), box.top + (row ? row.top + row.own / 2 : 64)];
        }""",
        [sequence, lane],
    )
    return x, y


@pytest.fixture(scope="module")
def run(site: RunningSite, key: str) -> str:
    push(site, key, trail("tl/one"))
    return "tl~2Fone"


def test_every_key_does_what_the_help_says(visit: Callable[..., Visitor], run: str) -> None:
    visitor = visit()
    visitor.log_in("dev")
    page = opened(visitor, run)
    whole = state(page)["window"]

    def pressed(keys: str) -> Any:
        for one in keys.split():
            page.keyboard.press(one)
        page.wait_for_timeout(450)
        return state(page)

    zoomed = page.evaluate("() => document.querySelector('open-timeline').view")
    pressed("w")
    nearer = page.evaluate("() => document.querySelector('open-timeline').view")
    assert nearer[1] - nearer[0] == pytest.approx(0.7 * (zoomed[1] - zoomed[0]))
    pressed("d")
    right = page.evaluate("() => document.querySelector('open-timeline').view")
    assert right[0] > nearer[0]
    pressed("a")
    assert page.evaluate("() => document.querySelector('open-timeline').view")[0] == pytest.approx(nearer[0])
    pressed("s s")
    assert pressed("f")["window"] == whole
    assert "from=" not in page.url
    assert pressed("x")["axis"] == "sequence"
    assert "axis=sequence" in page.url
    assert pressed("x")["axis"] == "time"
    assert pressed("i")["gaps"] == 1
    assert "gaps=fold" in page.url
    assert pressed("i")["gaps"] == 0
    assert pressed("]")["selected"] == 7
    assert pressed("]")["selected"] == 8
    assert pressed("[")["selected"] == 7
    expect(page.get_by_role("dialog", name="Memory write #7")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Memory write #7")).to_have_count(0)
    assert pressed("j")["selected"] == 8
    assert pressed("k k")["selected"] == 6
    page.mouse.move(*place_of(page, "plan"))
    assert pressed("u")["folded"] == ["plan"]
    assert "fold=plan" in page.url
    assert pressed("u")["folded"] == []
    assert pressed("p")["pins"] == ["plan"]
    assert "pin=plan" in page.url
    page.mouse.move(*place_of(page, "plan"))
    assert pressed("p")["pins"] == []
    page.mouse.move(*place_of(page, "plan"))
    assert pressed("e")["stacked"] == ["plan"]
    assert pressed("e")["stacked"] == []
    assert pressed("U")["all"] is True
    assert pressed("U")["all"] is False
    for digit, show, count in (("2", "relevant", "20"), ("3", "memory", "4"), ("4", "errors", "1"), ("1", "", "21")):
        page.keyboard.press(digit)
        expect(page.locator("[data-rows-total]")).to_have_text(count)
        assert state(page)["show"] == show
    page.keyboard.press("z")
    ready(page)
    low, high = state(page)["window"]
    assert (low, high) != tuple(whole)
    assert low <= 6 <= high
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.getElementById('detail').contains(document.activeElement)")
    page.keyboard.press("?")
    help_ = page.locator("#help")
    expect(help_).to_be_visible()
    for key in ("w", "s", "a", "d", "f", "z", "x", "i", "o", "[", "]", "u", "U", "p", "e", "j", "k", "1", "/", "t"):
        assert help_.locator("kbd", has_text=key).filter(has_text=key).count() >= 1, key
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    assert state(page)["selected"] is None


def test_zoom_to_one_event_and_back(visit: Callable[..., Visitor], run: str) -> None:
    visitor = visit()
    visitor.log_in("dev")
    page = opened(visitor, f"{run}?seq=8")
    page.keyboard.press("f")
    whole = state(page)["window"]
    page.keyboard.press("z")
    for _ in range(32):
        page.keyboard.press("w")
    page.wait_for_timeout(600)
    ready(page)
    size = page.evaluate("() => { const {view} = document.querySelector('open-timeline'); return view[1] - view[0] }")
    assert size < 1  # ms
    x, _ = point(page, 8, None)
    box = page.locator("open-timeline canvas").bounding_box()
    assert box is not None
    assert box["x"] < x < box["x"] + box["width"]
    page.keyboard.press("f")
    page.wait_for_timeout(500)
    assert state(page)["window"] == whole
    assert state(page)["selected"] == 8


def test_a_deep_link_restores_everything(visit: Callable[..., Visitor], run: str) -> None:
    visitor = visit()
    visitor.log_in("dev")
    page = opened(visitor, f"{run}?tz=Asia/Kathmandu")
    page.mouse.move(*place_of(page, "plan"))
    for one in ("p", "x", "w", "w"):
        page.keyboard.press(one)
    page.mouse.move(*place_of(page, "review"))
    page.keyboard.press("u")
    page.mouse.move(*place_of(page, "plan"))
    page.keyboard.press("e")
    page.keyboard.press("2")
    expect(page.locator("[data-rows-total]")).to_have_text("20")
    page.keyboard.press("/")
    page.keyboard.type("plan")
    expect(page.locator("[data-rows-total]")).to_have_text("9")
    expect(page.locator("[data-rows-words]")).to_contain_text("of 21 events match")
    page.locator("tr[data-seq='9']").click()
    page.wait_for_timeout(700)
    ready(page)
    seen = state(page)
    other = visit()
    other.log_in("reviewer")
    there = other.page
    there.goto(page.url)
    ready(there)
    expect(there.locator("tr.is-selected")).to_have_attribute("data-seq", "9")
    assert state(there) == seen
    assert seen["pins"] == ["plan"] and seen["folded"] == ["review"] and seen["stacked"] == ["plan"]
    assert seen["axis"] == "sequence" and seen["zone"] == "Asia/Kathmandu" and seen["selected"] == 9


def test_every_place_shows_times_in_the_chosen_zone(visit: Callable[..., Visitor], run: str) -> None:
    visitor = visit()
    visitor.log_in("dev")
    page = opened(visitor, f"{run}?tz=Asia/Kathmandu&seq=1")
    # 08:00:01 UTC is 13:45:01 there.
    expect(page.locator("tr[data-seq='1'] time")).to_have_text("13:45:01.000")
    expect(page.locator("#detail dd time").first).to_contain_text("13:45:01")
    page.keyboard.press("z")
    page.wait_for_timeout(300)
    page.mouse.move(*point(page, 1, "plan"))
    expect(page.locator(".tl-tip")).to_contain_text("13:45:01.000 GMT+5:45")
    assert page.evaluate("() => document.querySelector('open-timeline').scene.axisName") == "GMT+5:45"
    ticks = page.evaluate("() => document.querySelector('open-timeline').scene.ticks.map(one => one.text)")
    assert all(text.startswith(("13:", "14:")) for text in ticks)
    page.select_option("#tz", "other")
    page.get_by_label("Time zone").last.fill("Mars/Olympus")
    page.get_by_text("Show times there").click()
    expect(page.locator("dialog.zone")).to_be_visible()
    page.get_by_label("Time zone").last.fill("America/St Johns")
    page.get_by_text("Show times there").click()
    expect(page.locator("tr[data-seq='1'] time")).to_have_text("04:30:01.000")
    assert "tz=America" in page.url


def test_what_only_looks_hidden_is_counted_and_marked(visit: Callable[..., Visitor], run: str) -> None:
    visitor = visit()
    visitor.log_in("dev")
    page = opened(visitor, run)
    lanes = page.evaluate(
        "() => document.querySelector('open-timeline').model.lanes.map(lane => [lane.node, lane.events])"
    )
    assert lanes == [[None, 2], ["plan", 10], ["review", 4], ["unseen", 1], ["publish", 4]]
    unseen = page.evaluate(
        """() => document.querySelector('open-timeline').model.lanes
            .find(one => one.node === 'unseen').spans[0].startSeen"""
    )
    assert unseen is False
    reversals = page.evaluate("() => document.querySelector('open-timeline').model.reversals")
    assert [(one["sequence"], one["by"]) for one in reversals] == [(16, 500)]
    links = page.evaluate(
        """() => document.querySelector('open-timeline').model.links
            .map(one => [one.from.sequence, one.to.sequence, one.kind])"""
    )
    assert [3, 4, "call"] in links and [12, 13, "answer"] in links
    x, y = point(page, 8, None)
    page.mouse.move(x, y)
    expect(page.locator(".tl-tip")).to_contain_text("2 more writes in this place")
    page.mouse.click(x, y)
    fan = page.get_by_role("dialog", name="3 memory writes")
    expect(fan.locator("li")).to_have_count(3)
    expect(fan.locator("li a")).to_have_count(3)
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("needle in a")
    expect(page.locator("[data-rows-total]")).to_have_text("1")
    page.wait_for_function("() => document.querySelector('open-timeline').model.lanesTotal === 1")
    assert page.evaluate("() => document.querySelector('open-timeline').model.lanes[0].hits") == 1
    expect(page.locator("[data-tl-summary]")).to_contain_text("1 of 5 lanes match")


def test_the_page_is_the_same_whatever_the_order_of_arrival(
    visit: Callable[..., Visitor], site: RunningSite, key: str
) -> None:
    ordered, shuffled = trail("tl-ordered"), trail("tl-shuffled")
    push(site, key, ordered)
    rng = random.Random(11)
    rng.shuffle(shuffled)
    for start in range(0, len(shuffled), 4):
        push(site, key, shuffled[start : start + 4])
        push(site, key, shuffled[start : start + 4])
    visitor = visit()
    visitor.log_in("dev")
    seen = []
    for name in ("tl-ordered", "tl-shuffled"):
        page = opened(visitor, f"{name}?tz=utc")
        page.evaluate("() => document.fonts.ready")
        page.wait_for_timeout(300)
        rows = [row.replace(name, "run") for row in page.locator("tr[data-seq]").all_inner_texts()]
        seen.append((rows, page.evaluate("() => document.querySelector('open-timeline canvas').toDataURL()")))
    assert len(seen[0][0]) == 21
    assert seen[0] == seen[1]


def test_a_late_event_is_there_when_a_hidden_tab_is_looked_at_again(
    visit: Callable[..., Visitor], site: RunningSite, key: str
) -> None:
    events = trail("tl-late")
    late = events.pop(7)
    push(site, key, events[:12])
    visitor = visit()
    visitor.log_in("dev")
    page = opened(visitor, "tl-late")
    visitor.wait_until_live()
    hide = """hidden => {
        Object.defineProperty(document, 'hidden', {configurable: true, get: () => hidden});
        document.dispatchEvent(new Event('visibilitychange'));
    }"""
    page.evaluate(hide, True)
    push(site, key, events[12:])
    push(site, key, [late])
    page.wait_for_timeout(1200)
    page.evaluate(hide, False)
    expect(page.locator("[data-rows-total]")).to_have_text("21")
    expect(page.locator("#facts")).to_contain_text("completed")
    page.wait_for_function("() => document.querySelector('open-timeline').model.run.events === 21")
    shown = page.locator("tr[data-seq]").evaluate_all("rows => rows.map(row => Number(row.dataset.seq))")
    assert shown == list(range(21))
    writes = page.evaluate("() => document.querySelector('open-timeline').model.writes.map(one => one.sequence)")
    assert writes == [7, 8, 9, 18]


@pytest.fixture(scope="module")
def busy(site: RunningSite, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run whose busiest lane has eighty thousand events."""
    file = tmp_path_factory.mktemp("busy") / "busy.ndjson"
    lines = [event("tl-busy", 0, "run.started", None, 0.0), event("tl-busy", 1, "node.started", "busy", 0.01)]
    lines += [event("tl-busy", n, "log.appended", "busy", n / 100) for n in range(2, BUSY)]
    lines += [event("tl-busy", BUSY, "node.completed", "busy", BUSY / 100)]
    lines += [event("tl-busy", BUSY + 1 + n, "node.started", f"tail-{n:02}", BUSY / 100 + n) for n in range(30)]
    file.write_text("\n".join(json.dumps(line) for line in lines))
    site.manage("ingest", str(file), "--tenant", "demo", "--host", "python")
    return "tl-busy"


def test_the_busiest_lane_collapses_at_once(visit: Callable[..., Visitor], busy: str) -> None:
    visitor = visit()
    visitor.log_in("dev")
    page = opened(visitor, busy)
    took = page.evaluate(
        """() => {
            const timeline = document.querySelector('open-timeline');
            const started = performance.now();
            timeline.fold('busy');
            timeline.paint();
            return performance.now() - started;
        }"""
    )
    assert took < 100
    assert state(page)["folded"] == ["busy"]
    expect(page.locator("[data-rows-total]")).to_have_text("80,031")


def test_the_first_paint_takes_two_requests_and_less_than_a_megabyte(visit: Callable[..., Visitor], busy: str) -> None:
    visitor = visit()
    visitor.log_in("dev")
    answers: list[Any] = []
    visitor.page.on("response", lambda answer: None if "/static/" in answer.url else answers.append(answer))
    page = visitor.open(f"/t/demo/runs/python/{busy}")
    page.wait_for_selector('open-timeline[data-state="ready"][data-drawn]')
    asked = [answer for answer in answers if busy in answer.url][:2]
    assert [answer.url.split("?")[0].rpartition("/")[2] for answer in asked] == [busy, "timeline"]
    assert sum(len(answer.body()) for answer in asked) < 1_000_000
    ready(page)
    # Rows far down the list are there without all those before them.
    assert page.locator("tr[data-seq]").count() < 200
    page.evaluate("() => { const box = document.querySelector('#events .scroll'); box.scrollTop = box.scrollHeight }")
    expect(page.locator(f"tr[data-seq='{BUSY + 30}']")).to_be_visible()
    assert page.locator("tr[data-seq]").count() < 200
    page.locator(f"tr[data-seq='{BUSY + 30}']").click()
    expect(page.locator("#detail")).to_contain_text(f"#{BUSY + 30}")


def test_dragging_and_the_wheel_zoom_and_pan(visit: Callable[..., Visitor], busy: str) -> None:
    visitor = visit()
    visitor.log_in("dev")
    page = opened(visitor, f"{busy}?axis=sequence")
    box = page.locator("open-timeline canvas").bounding_box()
    assert box is not None
    middle, lane = box["x"] + box["width"] * 0.6, box["y"] + 120
    page.mouse.move(middle, lane)
    page.mouse.down()
    page.mouse.move(middle + 100, lane, steps=5)
    page.mouse.up()
    page.wait_for_timeout(500)
    ready(page)
    low, high = state(page)["window"]
    drawn = page.evaluate("() => { const one = document.querySelector('open-timeline'); return one.width - one.plot }")
    assert high - low == pytest.approx((BUSY + 31) * 1.0 * 100 / drawn, rel=0.05)
    page.keyboard.down("Shift")
    page.mouse.move(middle, lane)
    page.mouse.down()
    page.mouse.move(middle - 100, lane, steps=5)
    page.mouse.up()
    page.keyboard.up("Shift")
    page.wait_for_timeout(400)
    assert state(page)["window"][0] > low
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_timeout(500)
    nearer = state(page)["window"]
    assert nearer[1] - nearer[0] < high - low
    page.mouse.move(box["x"] + box["width"] - 30, box["y"] + 12)  # the whole run in small
    page.mouse.down()
    page.mouse.up()
    page.wait_for_timeout(500)
    assert state(page)["window"][0] > nearer[1]


def test_hostile_strings_are_inert_in_lanes_tips_and_popovers(
    visit: Callable[..., Visitor], site: RunningSite, key: str
) -> None:
    events = [one | {"runId": f"{HOSTILE}timeline"} for one in hostile_events()]
    push(site, key, events)
    visitor = visit()
    visitor.log_in("dev")
    page = visitor.open("/t/demo/runs?host=python")
    page.locator("tbody tr[data-row]", has_text="onerror").first.locator("a.id").click()
    ready(page)
    assert page.evaluate("() => document.querySelector('open-timeline').model.lanes.map(one => one.node)") == [HOSTILE]
    for sequence in range(7):
        page.mouse.move(*point(page, sequence, HOSTILE))
        expect(page.locator(".tl-tip")).to_be_visible()
    page.keyboard.press("]")
    popover = page.get_by_role("dialog", name="Memory write")
    expect(popover).to_contain_text("onerror")
    assert visitor.violations() == []
    page.keyboard.press("Escape")
    page.mouse.click(*place_of(page, HOSTILE))
    expect(page.locator("[data-rows-total]")).to_have_text("7")
    assert page.evaluate(
        "node => document.querySelector('select[name=node]').value === node", HOSTILE.replace("\x00", "\x00")
    )
    page.mouse.move(*place_of(page, HOSTILE))
    for one in ("u", "p", "e"):
        page.keyboard.press(one)
    page.wait_for_timeout(500)
    page.reload()
    ready(page)
    assert page.evaluate("() => window.pwned") is None
    assert page.locator("img[src=x]").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing(visit: Callable[..., Visitor], run: str, width: int, scheme: str) -> None:
    visitor = visit(width=width, scheme=scheme)
    visitor.log_in("dev")
    page = opened(visitor, f"{run}?show=memory")
    assert visitor.violations() == []
    page.keyboard.press("]")
    expect(page.get_by_role("dialog", name="Memory write")).to_be_visible()
    assert visitor.violations() == []


def test_at_390_px_it_is_used_by_touch(visit: Callable[..., Visitor], run: str) -> None:
    visitor = visit(width=390, height=800)
    visitor.log_in("dev")
    page = opened(visitor, run)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    before = page.evaluate("() => document.querySelector('open-timeline').view")
    page.get_by_role("button", name="Zoom in").tap()
    nearer = page.evaluate("() => document.querySelector('open-timeline').view")
    assert nearer[1] - nearer[0] < before[1] - before[0]
    page.evaluate("() => document.querySelector('open-timeline').scrollIntoView()")
    box = page.locator("open-timeline canvas").bounding_box()
    assert box is not None
    touch = page.context.new_cdp_session(page)
    x, y = box["x"] + 300, box["y"] + 130
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    for step in range(1, 9):
        touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [{"x": x - 10 * step, "y": y}]})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait_for_timeout(400)
    assert page.evaluate("() => document.querySelector('open-timeline').view")[0] > nearer[0]
    page.get_by_role("button", name="Fit").tap()
    page.wait_for_timeout(400)
    x, y = point(page, 12, "review")
    page.touchscreen.tap(x, y)
    expect(page.locator("#detail")).to_contain_text("#12")
    page.get_by_role("button", name="Close", exact=True).tap()
    page.locator("label", has_text="Memory").tap()
    expect(page.locator("[data-rows-total]")).to_have_text("4")
    small = page.evaluate(
        """() => [...document.querySelectorAll('main a.btn, main button.btn, main select, .shows label')]
            .filter(e => e.offsetParent).filter(e => e.getBoundingClientRect().height < 40)
            .map(e => `${e.outerHTML.slice(0, 120)} ${e.getBoundingClientRect().height}`)"""
    )
    assert small == []


def test_sub_workflow_runs_are_nested_and_open_in_place(
    visit: Callable[..., Visitor], site: RunningSite, key: str
) -> None:
    for child in ("tl-child-1", "tl-child-2", "tl-child-3", "tl-child-4"):
        push(site, key, trail(child))
    parent = trail("tl-parent")
    for n, place in enumerate((2, 3, 4, 5), start=1):
        parent[place] |= {"type": "node.dispatched", "payload": {"childRunId": f"tl-child-{n}"}}
    push(site, key, parent)
    visitor = visit()
    visitor.log_in("dev")
    page = opened(visitor, "tl-parent")
    rows = """() => document.querySelector('open-timeline').scene.rows
        .map(one => [one.lane.node, one.children.length, one.hidden])"""
    assert page.evaluate(rows)[1] == ["plan", 0, 4]  # how many are not shown is written
    plot = page.evaluate("() => document.querySelector('open-timeline').plot")
    left, y = corner_of_lane(page, "plan")
    page.mouse.click(left + plot - 30, y)
    page.wait_for_function(f"() => ({rows})()[1][1] === 4")
    assert page.evaluate(rows)[1] == ["plan", 4, 0]
    page.wait_for_timeout(300)
    left, y = corner_of_lane(page, "plan")
    page.mouse.click(left + 26, y + 14 + 11)  # the arrow of the first child
    page.wait_for_function("() => document.querySelector('open-timeline').rows.opened.has('tl-child-1')")
    nested = "() => document.querySelector('open-timeline').scene.rows[1].children[0].nested.map(one => one.lane.node)"
    page.wait_for_function(f"() => ({nested})().length > 0")
    assert page.evaluate(nested) == [None, "plan", "review", "unseen", "publish"]
    page.wait_for_url("**child=tl-child-1**")
    page.wait_for_timeout(300)
    left, y = corner_of_lane(page, "plan")
    page.mouse.click(left + 80, y + 14 + 11)  # its name
    page.wait_for_url("**/runs/python/tl-child-1*")


def test_a_filter_loads_what_it_admits_and_counts_what_the_api_has(
    visit: Callable[..., Visitor], site: RunningSite, key: str, run: str
) -> None:
    visitor = visit()
    visitor.log_in("dev")
    page = opened(visitor, f"{run}?node=plan")
    expect(page.locator("[data-rows-total]")).to_have_text("10")
    assert page.locator("tr[data-seq]").count() == 10
    answer = page.request.get(
        f"http://127.0.0.1:{site.port}/v1/hosts/python/runs/{run}/events?node=plan",
        headers={"Authorization": f"Bearer {key}"},
    )
    assert len(answer.json()["items"]) == 10
