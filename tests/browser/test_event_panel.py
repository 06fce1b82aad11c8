"""The panel of one event: its tree, its connections, its differences, replay from here, exports, views, and paper."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.whole.running_site import RunningSite

from .conftest import Visitor

BIG = 3544790567247868102
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8).decode()
RUN = "/t/demo/runs/in-memory/panel-1"


def panel_events() -> list[dict[str, Any]]:
    told: list[tuple[str, str | None, dict[str, Any]]] = [
        ("run.started", None, {"workflowId": "panel"}),
        (
            "agent.toolCalled",
            "work",
            {"agentId": "agent-1", "toolName": "search", "callId": "c1", "inputs": {"q": "a"}},
        ),
        ("agent.toolReturned", "work", {"agentId": "agent-1", "toolName": "search", "callId": "c1", "status": "ok"}),
        ("node.completed", "work", {"outputs": {"big": BIG, "same": 1}}),
        (
            "node.completed",
            "work",
            {
                "outputs": {"big": BIG + 1, "same": 1},
                "image": f"data:image/png;base64,{PNG}",
                "blob": PNG,
                "noise": "\x00\x01\x02" * 40,
                "word": "a" * 400,
                "long": "words and more " * 400,
                "many": list(range(2000)),
            },
        ),
        ("run.completed", None, {}),
    ]
    return [
        {
            "eventId": f"panel-1-{sequence}",
            "runId": "panel-1",
            "sequence": sequence,
            "type": kind,
            "timestamp": f"2026-05-01T12:00:0{sequence}Z",
            "payload": payload,
            "schemaVersion": 1,
            **({"nodeId": node} if node else {}),
            **({"causationId": "panel-1-0"} if sequence == 1 else {}),
        }
        for sequence, (kind, node, payload) in enumerate(told)
    ]


@pytest.fixture(scope="module", autouse=True)
def panel_run(site: RunningSite, key: str) -> None:
    assert site.push(key, "in-memory", panel_events()) is not None


def opened(visitor: Visitor, sequence: int, name: str = "dev") -> Page:
    visitor.log_in(name)
    page = visitor.open(f"{RUN}?seq={sequence}")
    expect(page.locator("#detail-title")).to_be_visible()
    page.wait_for_selector("#detail [role=tree]")
    return page


def test_numbers_are_exact_and_bytes_are_not_painted(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = opened(visitor, 4)
    tree = page.locator("#detail [role=tree]").first
    expect(tree).to_contain_text(str(BIG + 1))
    expect(tree.locator(".binary")).to_have_count(3)
    expect(tree.locator(".binary").nth(0)).to_have_text("image/png · 2.0 KiB")
    expect(tree).not_to_contain_text("iVBORw0KGgo")
    assert "\x01" not in tree.inner_text()
    expect(tree).to_contain_text("a" * 400)  # long, and only a word
    expect(tree).to_contain_text(re.compile(r"show all 6,000 characters, 5\.9 KiB"))
    expect(tree).to_contain_text(re.compile(r"2,000 items, 10\.6 KiB"))
    tree.locator(".binary").first.locator("xpath=../button[contains(., 'show its text')]").click()
    expect(tree).to_contain_text("iVBORw0KGgo")
    assert visitor.violations() == []


def test_a_path_is_copied_by_key_and_the_raw_text_is_as_it_came(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = opened(visitor, 3)
    page.locator("#detail [role=treeitem]", has_text="big").last.focus()
    page.keyboard.press("p")
    assert page.evaluate("() => navigator.clipboard.readText()") == "/payload/outputs/big"
    page.keyboard.press("c")
    assert page.evaluate("() => navigator.clipboard.readText()") == str(BIG)
    page.locator("#detail .tree-bar").first.get_by_text("Raw", exact=True).click()
    assert json.loads(page.locator("#detail pre.json").first.inner_text()) == {"outputs": {"big": BIG, "same": 1}}


def test_connections_are_walked_without_leaving_the_page(visit: Callable[..., Visitor]) -> None:
    page = opened(visit(), 1)
    expect(page.locator("#detail")).to_contain_text("caused by")
    page.locator("#detail dt", has_text="return").locator("xpath=following-sibling::dd[1]//a").click()
    expect(page.locator("#detail-title")).to_contain_text("agent.toolReturned")
    assert "seq=2" in page.url
    page.locator("#detail dt", has_text=re.compile("^call$")).locator("xpath=following-sibling::dd[1]//a").click()
    page.locator("#detail dt", has_text="caused by").locator("xpath=following-sibling::dd[1]//a").click()
    expect(page.locator("#detail-title")).to_contain_text("run.started")
    expect(page.locator("#detail")).to_contain_text("effect")


def test_what_differs_from_the_one_before_and_the_envelope(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    page = opened(visitor, 4)
    page.locator("#event-diff summary").click()
    diff = page.locator("#diff-body .diff")
    expect(diff.locator("li").first).to_contain_text("/outputs/big")
    expect(diff.locator("del").first).to_have_text(str(BIG))
    expect(diff.locator("ins").first).to_have_text(str(BIG + 1))
    page.get_by_text("Envelope", exact=False).first.click()
    envelope = page.locator("#detail details.fold", has_text="Envelope")
    expect(envelope).to_contain_text("schemaVersion")
    assert visitor.violations() == []


def test_the_permalink_opens_the_event_and_nothing_else(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    visitor.log_in("dev")
    page = visitor.open(f"{RUN}?seq=3&type=node.completed")
    href = page.locator("#detail .permalink").get_attribute("href")
    assert href == f"{RUN}?seq=3"
    page = visitor.open(href)
    expect(page.locator("#detail-title")).to_contain_text("node.completed")


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_replay_shows_the_command_of_the_major(visit: Callable[..., Visitor], width: int, scheme: str) -> None:
    visitor = visit(width=width, scheme=scheme)
    page = opened(visitor, 3)
    page.locator("#replay summary").click()
    body = page.locator("#replay-body")
    expect(body).to_contain_text("/v1/runs/panel-1:fork")
    expect(body).to_contain_text("$OPENWOP_HOST_KEY")
    expect(body.locator("[data-why-not]")).to_contain_text("has no origin")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert visitor.violations() == []


def newest_ended_run(page: Page) -> str:
    """Of the demo's host, which can be asked."""
    page.wait_for_selector("tbody tr[data-row] a.id", timeout=60_000)
    href = page.locator("tbody tr[data-row] a.id").first.get_attribute("href")
    assert href
    return href


def test_the_button_makes_a_branch_and_opens_it_beside_its_source(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    visitor.log_in("admin")
    source = newest_ended_run(visitor.open("/t/demo/runs?host=demo&status=completed"))
    page = visitor.open(f"{source}?seq=2")
    page.locator("#replay summary").click()
    form = page.locator(".replay-do")
    expect(form.locator(".replay-effects")).to_be_hidden()
    form.get_by_text("Branch: do it again").click()
    expect(form.locator(".replay-effects")).to_contain_text("A branch executes again")
    form.get_by_text("Start it and compare").click()
    expect(page.get_by_role("alert")).to_contain_text("does things again")
    assert "/compare" not in page.url
    page.locator("#detail").evaluate("detail => (detail.scrollTop = 0)")  # out from under the panel's head
    assert visitor.violations() == []
    form = page.locator(".replay-do")
    form.get_by_text("I know what a branch does").click()
    form.get_by_text("Start it and compare").click()
    page.wait_for_url("**/t/demo/compare?a=demo/*&b=demo/*")
    expect(page.get_by_text("The branch has started.")).to_be_visible()


def test_exports_are_downloads(visit: Callable[..., Visitor], tmp_path: Path) -> None:
    page = opened(visit(), 3)
    for words, name in (
        ("Events", "panel-1.ndjson"),
        ("Debug bundle", "panel-1.bundle.json"),
        ("Memory trail", "panel-1.memory.csv"),
        ("Report", "panel-1.html"),
    ):
        page.locator(".export-menu summary").click()
        with page.expect_download() as download:
            page.locator(".export-menu .item", has_text=words).first.click()
        assert download.value.suggested_filename == name
        download.value.save_as(tmp_path / name)
        page.keyboard.press("Escape")
    lines = (tmp_path / "panel-1.ndjson").read_text().splitlines()
    assert [json.loads(line)["sequence"] for line in lines] == [0, 1, 2, 3, 4, 5]


def test_a_report_asks_nobody_for_anything(visit: Callable[..., Visitor], tmp_path: Path) -> None:
    visitor = visit()
    page = opened(visitor, 3)
    page.locator(".export-menu summary").click()
    with page.expect_download() as download:
        page.locator(".export-menu .item", has_text="Report").click()
    download.value.save_as(tmp_path / "report.html")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"file://{tmp_path}/report.html")
    expect(page.locator("body")).to_contain_text(str(BIG + 1))
    assert [url for url in asked if not url.startswith("file://")] == []
    assert visitor.violations() == []


def test_a_view_is_saved_put_on_renamed_deleted_and_brought_back(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    visitor.log_in("reviewer")
    page = visitor.open(f"{RUN}?type=node.completed&seq=3")
    menu = page.locator(".views-menu")
    menu.locator("summary").first.click()
    expect(menu.locator("#views")).to_contain_text("No view is saved yet")
    menu.get_by_placeholder("Name what is shown now").fill("Ends of nodes")
    page.keyboard.press("Enter")
    expect(menu.locator("#views")).to_contain_text("Ends of nodes is saved.")
    assert visitor.violations() == []

    page = visitor.open("/t/demo/runs/in-memory/panel-1?seq=4")
    menu = page.locator(".views-menu")
    menu.locator("summary").first.click()
    menu.locator(".views-list a", has_text="Ends of nodes").click()
    page.wait_for_url("**type=node.completed**")
    assert "seq=4" in page.url

    menu = page.locator(".views-menu")
    menu.locator("summary").first.click()
    menu.locator(".view-tools summary").click()
    menu.locator(".view-tools input[name=name]").fill("Nodes")
    menu.get_by_role("button", name="Rename").click()
    expect(menu.locator("#views")).to_contain_text("is now called Nodes")
    menu.locator(".view-tools summary").click()
    menu.get_by_role("button", name="Delete").click()
    expect(menu.locator("#views")).to_contain_text("Nodes is deleted.")
    menu.get_by_role("button", name="Undo").click()
    expect(menu.locator(".views-list")).to_contain_text("Nodes")
    page = visitor.open("/t/demo/views")
    expect(page.locator(".views-list")).to_contain_text("type node.completed")
    assert visitor.violations() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_paper_shows_the_run_and_no_tools(visit: Callable[..., Visitor], scheme: str) -> None:
    page = opened(visit(scheme=scheme), 4)
    page.wait_for_selector('open-timeline[data-state="ready"]')
    page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    for tool in (".bar", ".export-menu", ".views-menu", "#replay", ".tree-bar"):
        expect(page.locator(tool).first).to_be_hidden()
    expect(page.locator("open-timeline canvas").first).to_be_visible()
    expect(page.locator("tr[data-seq]").first).to_be_visible()
    expect(page.locator("#detail")).to_contain_text(str(BIG + 1))
    filtered = page.locator("open-timeline canvas").first.evaluate("canvas => getComputedStyle(canvas).filter")
    assert ("invert" in filtered) == (scheme == "dark")
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    assert len(page.pdf(format="A4")) > 10_000
