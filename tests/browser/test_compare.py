"""Two runs side by side, and the state behind an event, by mouse, keyboard and touch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from runs.domain.projection import project
from tests.whole.running_site import RunningSite

from .conftest import Visitor
from .test_run import HOSTILE, hostile_events

SOURCE = "fa171f2e-a3bc-41c5-a05d-1bd753c0620f"
REPLAY = "70304e24-d997-4b4a-9b2b-fc8b32ab9c4e"
BRANCH = "7e70b56d-3248-4d8a-b6e0-7def8064b699"
BOTH = f"/t/demo/compare?a=openwop-app/{SOURCE}&b=openwop-app/{REPLAY}"

PAINTED = """() => {
    const canvas = document.querySelector('open-compare canvas');
    const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    const colours = new Set();
    for (let i = 0; i < data.length; i += 4) colours.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
    return colours.size;
}"""


def selected(page: Page) -> str:
    return page.locator("#walk tr.is-selected td.num").first.inner_text()


def test_from_a_run_to_its_replay_and_through_what_differs(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    visitor.log_in("dev")
    page = visitor.open(f"/t/demo/runs/openwop-app/{SOURCE}")
    page.locator(".compare-menu summary").click()
    page.get_by_role("link", name="With its replay").click()
    page.wait_for_url(f"**{BOTH}")
    expect(page.locator('[data-verdict="suppressing"]')).to_be_visible()
    expect(page.locator(".findings")).to_contain_text("3 facts came under a new id.")
    page.wait_for_selector("open-compare[data-drawn]")
    assert page.evaluate(PAINTED) > 5
    page.keyboard.press("n")
    expect(page.locator("#pair")).to_contain_text("/memoryId")
    assert "at=4" in page.url and selected(page) == "5"
    page.keyboard.press("n")
    expect(page.locator("#pair")).to_have_attribute("data-place", "5")
    page.keyboard.press("n")
    expect(page.locator("#pair")).to_have_attribute("data-place", "7")
    page.keyboard.press("p")
    expect(page.locator("#pair")).to_have_attribute("data-place", "5")
    page.keyboard.press("j")
    expect(page.locator("#pair")).to_have_attribute("data-place", "6")
    expect(page.locator("#pair")).to_contain_text("The same on both sides")
    page.keyboard.press("2")
    expect(page.locator("#h-pairs + .count")).to_have_text("9 shown of 9")
    assert "show=differences" in page.url
    assert visitor.violations() == []
    page.locator(".findings a.mono").first.click()
    page.wait_for_url(f"**/runs/openwop-app/{SOURCE}?seq=17")


def test_an_address_brings_everything_back(visit: Callable[..., Visitor]) -> None:
    visitor = visit(scheme="dark")
    visitor.log_in("dev")
    page = visitor.open(f"{BOTH}&show=differences&at=16")
    expect(page.locator("#pair")).to_contain_text("only in A")
    assert selected(page) == "17"
    page.wait_for_selector("open-compare[data-drawn]")
    for key in "wwdasf":
        page.keyboard.press(key)
    assert visitor.violations() == []
    page.get_by_text("Swap sides").click()
    page.wait_for_url("**/compare?a=openwop-app/70304e24**")
    expect(page.locator(".findings")).to_contain_text("3 facts came under a new id.")


def test_the_picture_chooses_a_pair(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    visitor.log_in("dev")
    page = visitor.open(BOTH)
    page.wait_for_selector("open-compare[data-drawn]")
    box = page.locator("open-compare canvas").bounding_box()
    assert box
    # Eighteen pairs over the width: the seventeenth is the one that only the source has.
    page.mouse.click(box["x"] + 22 + (box["width"] - 22) * 16.5 / 18, box["y"] + 30)
    expect(page.locator("#pair")).to_have_attribute("data-place", "16")
    expect(page.locator("#pair")).to_contain_text("not in B")


def test_a_branch_at_390_px_by_touch(visit: Callable[..., Visitor]) -> None:
    visitor = visit(width=390, height=800, scheme="dark")
    visitor.log_in("dev")
    page = visitor.open(f"/t/demo/compare?a=openwop-app/{SOURCE}&b=openwop-app/{BRANCH}")
    expect(page.locator('[data-verdict="branch"]')).to_be_visible()
    expect(page.locator(".findings")).to_contain_text("It began again with the source’s first node at #12.")
    page.locator('button[data-walk="next"]').tap()
    expect(page.locator("#pair")).to_contain_text("only in B")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert visitor.violations() == []
    page = visitor.open(f"/t/demo/runs/openwop-app/{SOURCE}/state?at=11&against=3")
    expect(page.locator("#state")).to_contain_text("Changed since #3")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert visitor.violations() == []


def test_the_state_goes_along_with_the_event(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    visitor.log_in("dev")
    page = visitor.open(f"/t/demo/runs/openwop-app/{SOURCE}?seq=5")
    page.wait_for_selector("tr[data-seq]")
    page.keyboard.press("v")
    expect(page.locator("#state")).to_contain_text("1 of 1 up to here")
    assert "tab=state" in page.url
    expect(page.locator("#detail .detail-head")).to_be_hidden()
    page.keyboard.press("j")
    expect(page.locator("#state")).to_have_attribute("data-at", "6")
    page.locator("#scrub").fill("16")
    expect(page.locator("#state")).to_have_attribute("data-at", "16")
    expect(page.locator("#state")).to_contain_text("3 of 3 up to here")
    page.fill("#state-against", "3")
    page.locator("#state form button").click()
    expect(page.locator("#state")).to_contain_text("Changed since #3")
    assert visitor.violations() == []
    page.reload()
    expect(page.locator("#state")).to_contain_text("Changed since #3")
    page.keyboard.press("v")
    expect(page.locator("#detail .detail-head")).to_be_visible()
    assert "tab=" not in page.url


@pytest.mark.parametrize("path", ["compare?a={0}&b={0}&at=3", "runs/{0}/state?at=6&against=0"])
def test_hostile_strings_are_inert(visit: Callable[..., Visitor], site: RunningSite, key: str, path: str) -> None:
    assert site.push(key, "sqlite", hostile_events()) is not None
    visitor = visit()
    visitor.log_in("dev")
    page = visitor.open(f"/t/demo/{path.format('sqlite/' + project(HOSTILE))}")
    expect(page.locator("main")).to_contain_text("onerror")
    page.wait_for_timeout(300)
    assert page.evaluate("() => window.pwned") is None
    assert page.locator("img[src=x]").count() == 0
    assert visitor.violations() == []
