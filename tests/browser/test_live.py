"""Pages change by themselves, and end equal to the database whatever was missed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from playwright.sync_api import expect

from tests.whole.running_site import RunningSite

from .conftest import Visitor

START = datetime(2026, 1, 1, tzinfo=UTC)


def made_events(run: str, sequences: range, **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "eventId": f"evt-{run}-{sequence}",
            "runId": run,
            "sequence": sequence,
            "type": "run.started" if sequence == 0 else "log.appended",
            "payload": {"workflowId": "live.test"} if sequence == 0 else {"message": f"line {sequence}"},
            "timestamp": (START + timedelta(seconds=sequence)).isoformat(),
            **more,
        }
        for sequence in sequences
    ]


def push(site: RunningSite, key: str, events: list[dict[str, Any]], host: str = "sqlite") -> None:
    assert site.push(key, host, events) is not None


def test_a_run_of_the_demo_host_arrives_and_grows_without_a_reload(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    visitor.log_in("dev")
    page = visitor.open("/t/demo/runs?host=demo")
    visitor.wait_until_live()
    page.evaluate("() => { window.sameDocument = true }")
    known = set(page.locator("tbody tr[data-row]").evaluate_all("rows => rows.map(row => row.id)"))
    page.wait_for_function(
        "known => [...document.querySelectorAll('tbody tr[data-row]')].some(row => !known.includes(row.id))",
        arg=sorted(known),
        timeout=30_000,
    )
    assert page.evaluate("() => window.sameDocument")


def test_a_run_in_progress_grows_on_screen(visit: Callable[..., Visitor], site: RunningSite, key: str) -> None:
    push(site, key, made_events("grows", range(5)))
    visitor = visit()
    visitor.log_in("dev")
    page = visitor.open("/t/demo/runs/sqlite/grows")
    visitor.wait_until_live()
    expect(page.locator("tr[data-seq]")).to_have_count(5)
    push(site, key, made_events("grows", range(5, 12)))
    expect(page.locator("tr[data-seq]")).to_have_count(12)
    expect(page.locator("#facts")).to_contain_text("12 of 12")


def test_the_ledger_counts_move(visit: Callable[..., Visitor], site: RunningSite, key: str) -> None:
    visitor = visit()
    visitor.log_in("dev")
    page = visitor.open("/t/demo/ledger?q=moves-in")
    visitor.wait_until_live()
    expect(page.locator("tbody tr[data-row]")).to_have_count(0)
    written = {"memoryRef": "notes", "memoryId": "moves-in-1", "nodeId": "writer"}
    push(site, key, made_events("moves", range(1)))
    push(site, key, made_events("moves", range(1, 2), type="memory.written", payload=written))
    expect(page.locator("tbody tr[data-row]")).to_have_count(1)


def test_a_page_that_slept_catches_up(visit: Callable[..., Visitor], site: RunningSite, key: str) -> None:
    push(site, key, made_events("slept", range(3)))
    visitor = visit()
    visitor.log_in("dev")
    page = visitor.open("/t/demo/runs/sqlite/slept")
    visitor.wait_until_live()
    visitor.context.set_offline(True)
    for batch in range(30):
        push(site, key, made_events("slept", range(3 + batch * 10, 13 + batch * 10)))
    page.wait_for_timeout(1500)
    visitor.context.set_offline(False)
    expect(page.locator("#facts")).to_contain_text("303 of 303", timeout=30_000)
    # All of them can be reached: the list is as long as the log, and each stretch of it is the log's.
    expect(page.locator("[data-rows-total]")).to_have_text("303")
    shown: set[int] = set()
    for place in range(0, 303, 10):
        page.evaluate("place => { document.querySelector('#events .scroll').scrollTop = place * 28 }", place)
        page.wait_for_selector(f'tr[data-seq="{place}"]')
        page.wait_for_function("() => !document.querySelector('#listed .pending')")
        shown.update(page.locator("tr[data-seq]").evaluate_all("rows => rows.map(row => Number(row.dataset.seq))"))
    assert shown == set(range(303))
    # What could not be asked for meanwhile is said in the console, by the browser and by htmx.
    offline = ("DISCONNECTED", "WebSocket", "htmx:")
    visitor.complaints[:] = [one for one in visitor.complaints if not any(word in one for word in offline)]
