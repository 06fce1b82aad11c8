"""The run page by mouse and keyboard: marks, entries, events, payloads, and hostile strings."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from tests.factories import make_event
from tests.whole.running_site import RunningSite

from .conftest import Visitor

HOSTILE = '<img src=x onerror="window.pwned=1">\'"/:%~ \u202egnp.\u202c目标 \x00'
BIG = 3544790567247868102


def hostile_events() -> list[dict[str, object]]:
    """Every text that a host may choose is hostile at once."""
    at = datetime(2026, 1, 1, tzinfo=UTC).isoformat()
    shared = {"runId": HOSTILE, "nodeId": HOSTILE, "timestamp": at, HOSTILE: HOSTILE}
    payloads: list[tuple[str, dict[str, object]]] = [
        ("run.started", {"workflowId": HOSTILE}),
        ("node.started", {"typeId": HOSTILE}),
        ("node.suspended", {"kind": HOSTILE}),
        (
            "memory.written",
            {"memoryRef": HOSTILE, "memoryId": HOSTILE, "agentId": HOSTILE, "tags": [HOSTILE, "</script>"]},
        ),
        (f"vendor.{HOSTILE}", {HOSTILE: [HOSTILE, {"big": BIG, "deep": {HOSTILE: None}}]}),
        ("node.failed", {"error": {"code": HOSTILE, "message": HOSTILE}}),
        ("run.failed", {"error": {"code": HOSTILE}}),
    ]
    return [
        {**shared, "eventId": f"{HOSTILE}{sequence}", "sequence": sequence, "type": type_, "payload": payload}
        for sequence, (type_, payload) in enumerate(payloads)
    ]


def test_from_a_mark_to_its_entry_and_back(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    visitor.log_in("dev")
    page = visitor.open("/t/demo/runs?host=openwop-app&q=memory-trail")
    page.click("tbody a.id")
    page.wait_for_url("**/runs/openwop-app/*")
    page.wait_for_selector("open-timeline canvas")
    run = page.url
    page.keyboard.press("]")
    mark = page.get_by_role("dialog", name="Memory write")
    expect(mark).to_be_visible()
    mark.get_by_text("Go to the entry").click()
    page.wait_for_url("**/ledger/openwop-app/**")
    expect(page.locator("#rows")).to_contain_text("Who wrote it")
    page.go_back()
    page.wait_for_url("**/runs/openwop-app/**")
    assert page.url.split("?")[0] == run.split("?")[0]
    page.go_forward()
    page.click("#rows tbody a.id")
    page.wait_for_url("**seq=*")
    expect(page.locator("#detail")).to_contain_text("memory.written")


PAINTED = """() => {
    const canvas = document.querySelector('open-timeline canvas');
    const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    const colours = new Set();
    for (let i = 0; i < data.length; i += 4) colours.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
    return colours.size;
}"""


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_timeline_is_painted(visit: Callable[..., Visitor], scheme: str, motion: str) -> None:
    visitor = visit(scheme=scheme)
    visitor.page.emulate_media(reduced_motion="reduce" if motion == "reduce" else "no-preference")
    visitor.log_in("dev")
    page = visitor.open("/t/demo/runs?host=openwop-app&q=memory-trail")
    page.click("tbody a.id")
    page.wait_for_selector('open-timeline[data-state="ready"][data-drawn] canvas')
    page.wait_for_timeout(300)
    # Memory lane, lanes, spans, marks, text: an empty one has a single colour.
    assert page.evaluate(PAINTED) > 20


def test_an_entry_lists_its_writes_in_all_runs(visit: Callable[..., Visitor]) -> None:
    """A branch copies the prefix of its source with the same memory ids: one entry, several runs."""
    visitor = visit()
    visitor.log_in("dev")
    page = visitor.open("/t/demo/runs?host=openwop-app&q=memory-trail")
    runs = page.locator("tbody a.id").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    several = 0
    for href in runs:
        page = visitor.open(f"{href}?kind=memory")
        page.locator("tr[data-seq] a").first.click()
        page.locator("#detail dd a.id").first.click()
        page.wait_for_url("**/ledger/openwop-app/**")
        writes = page.locator("#rows tbody tr[data-row]")
        shown = writes.evaluate_all("rows => rows.map(row => row.querySelector('a.id').getAttribute('href'))")
        several = max(several, len({one.split("?")[0] for one in shown}))
    assert several >= 2


def test_keys_walk_search_and_help(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    visitor.log_in("dev")
    visitor.open("/t/demo/runs?host=sqlite")
    visitor.page.click("tbody a.id")
    page = visitor.page
    page.wait_for_selector("tr[data-seq]")
    page.wait_for_selector("open-timeline canvas")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator("tr.is-selected")).to_have_attribute("data-seq", "1")
    expect(page.locator("#detail")).to_contain_text("#1")
    page.keyboard.press("k")
    expect(page.locator("tr.is-selected")).to_have_attribute("data-seq", "0")
    assert "seq=0" in page.url
    page.keyboard.press("/")
    assert page.evaluate("() => document.activeElement.id") == "q"
    page.keyboard.type("completed")
    expect(page.locator("#events")).to_contain_text("events match")
    page.keyboard.press("Escape")  # clears the search
    page.keyboard.press("Escape")  # leaves it
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()


def test_hostile_strings_are_inert_everywhere(visit: Callable[..., Visitor], site: RunningSite, key: str) -> None:
    assert site.push(key, "sqlite", hostile_events()) is not None
    visitor = visit()
    visitor.log_in("dev")
    page = visitor.open("/t/demo/runs?host=sqlite")
    page.locator("tbody tr[data-row]", has_text="onerror").first.locator("a.id").click()
    page.wait_for_selector("tr[data-seq]")
    run = page.url.split("?")[0]
    for sequence in range(7):
        page.goto(f"{run}?seq={sequence}")
        expect(page.locator("#detail")).to_contain_text(f"#{sequence}")
        page.wait_for_timeout(150)
        assert visitor.violations() == []
        assert page.evaluate("() => window.pwned") is None
        assert page.locator("img[src=x]").count() == 0
    page.goto(f"{run}?seq=4")
    expect(page.locator("#detail")).to_contain_text(str(BIG))
    page.goto(f"{run}?seq=3")
    page.locator("#detail dd a.id").first.click()
    page.wait_for_url("**/ledger/sqlite/**")
    expect(page.locator("h1")).to_contain_text("onerror")
    assert page.evaluate("() => window.pwned") is None
    assert visitor.violations() == []


def test_a_file_is_uploaded_and_its_receipt_read(visit: Callable[..., Visitor], tmp_path: Path) -> None:
    lines = [
        {"eventId": f"u{n}", "runId": "uploaded", "sequence": n, "type": "log.appended", "payload": None}
        | {"timestamp": "2026-01-01T00:00:00Z"}
        for n in range(20)
    ]
    lines[7]["timestamp"] = "2026-01-01T00:00:00"
    file = tmp_path / "events.ndjson"
    file.write_text("\n".join(json.dumps(line) for line in lines))
    visitor = visit()
    visitor.log_in("dev")
    page = visitor.open("/t/demo/upload?host=python")
    page.set_input_files("input[type=file]", str(file))
    receipt = page.locator(".receipt").first
    expect(receipt).to_contain_text("19")
    expect(receipt).to_contain_text("timestamp")
    assert visitor.violations() == []


def test_touch_reaches_everything_at_390_px(visit: Callable[..., Visitor]) -> None:
    visitor = visit(width=390, height=800)
    page = visitor.log_in("dev")
    page.tap("button.nav-open")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Ledger").tap()
    page.wait_for_url("**/ledger")
    page.locator('tbody a[href*="/ledger/"]').first.tap()
    page.wait_for_url("**/ledger/*/**")
    page.locator("#rows tbody a.id").first.tap()
    page.wait_for_url("**/runs/**seq=*")
    expect(page.locator("#detail")).to_contain_text("memory.written")
    small = page.evaluate(
        """() => [...document.querySelectorAll('a.btn, button.btn, select')].filter(e => e.offsetParent)
            .filter(e => e.getBoundingClientRect().height < 40)
            .map(e => `${e.outerHTML.slice(0, 120)} ${e.getBoundingClientRect().height}`)"""
    )
    assert small == []


def test_a_key_acts_on_the_list_that_was_asked_for(visit: Callable[..., Visitor], site: RunningSite, key: str) -> None:
    log = [make_event(0, "run.started", run="run-keys"), make_event(1, "node.started", run="run-keys", node="n")]
    assert site.push(key, "python", [*log, make_event(2, "run.failed", run="run-keys", payload={"error": {}})])
    visitor = visit()
    visitor.log_in("dev")
    page = visitor.open("/t/demo/runs/python/run-keys")
    page.wait_for_selector('open-timeline[data-state="ready"]')

    def late(route: Route) -> None:
        time.sleep(0.5)
        route.continue_()

    page.route(re.compile(r"/run-keys\?.*show=errors"), late)
    page.keyboard.press("4")
    page.keyboard.press("j")
    expect(page.locator("#detail-title")).to_contain_text("run.failed")
