"""Five things that people come for, done on the site with their keys and clicks counted: the README says how many."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from .conftest import Visitor

README = Path(__file__).resolve().parents[2] / "README.md"


@dataclass
class Hand:
    """Everything that is pressed or clicked goes through it."""

    page: Page
    keys: int = 0
    clicks: int = 0

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)
        self.keys += 1

    def click(self, target: Locator) -> None:
        target.click()
        self.clicks += 1

    def go_to(self, name: str) -> None:
        """By the palette, with the name in the clipboard."""
        self.page.evaluate("text => navigator.clipboard.writeText(text)", name)
        self.press("Control+k")
        expect(self.page.locator("#find-list[role=listbox]")).to_be_visible()
        self.press("Control+v")
        self.page.wait_for_function(
            "name => document.querySelector('#find-list [aria-selected=true] .place-label')?.title === name", arg=name
        )
        self.press("Enter")


def promised(task: str) -> tuple[int, int]:
    """(keys, clicks) of the README's row."""
    (row,) = (line for line in README.read_text().splitlines() if line.startswith(f"| {task} |"))
    keys, clicks = re.findall(r"\| (\d+) \| (\d+) \|$", row)[0]
    return int(keys), int(clicks)


@pytest.fixture
def visitor(visit: Callable[..., Visitor]) -> Visitor:
    """At home."""
    visitor = visit()
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visitor.log_in("dev")
    return visitor


@pytest.fixture
def hand(visitor: Visitor) -> Hand:
    return Hand(visitor.page)


def ids_at(visitor: Visitor, path: str) -> list[str]:
    """What the runs of a list are called; afterwards one is at home again."""
    page = visitor.open(path)
    page.wait_for_selector("tbody tr[data-row] a.id")
    found: list[str] = page.locator("tbody tr[data-row] a.id").evaluate_all("links => links.map(link => link.title)")
    visitor.open("/t/demo/")
    return found


def test_who_wrote_an_entry(visitor: Visitor, hand: Hand) -> None:
    page = visitor.open("/t/demo/ledger?host=openwop-app&node=remember-goal")
    memory_id = page.locator("#rows tbody a.id.mem").first.get_attribute("title")
    assert memory_id
    visitor.open("/t/demo/")
    hand.go_to(memory_id)
    expect(page.locator("#rows")).to_contain_text("Who wrote it")
    expect(page.locator("#rows")).to_contain_text("remember-goal")
    assert (hand.keys, hand.clicks) == promised("Find who wrote an entry")


def test_why_a_run_failed(visitor: Visitor, hand: Hand) -> None:
    run = ids_at(visitor, "/t/demo/runs?host=openwop-app&status=failed")[0]
    page = hand.page
    hand.go_to(run)
    page.wait_for_selector("tr[data-seq]")
    page.wait_for_selector('open-timeline[data-state="ready"]')
    hand.press("4")
    page.wait_for_url("**show=errors**")
    expect(page.locator("tr[data-seq]").first).to_contain_text("failed")
    hand.press("j")
    expect(page.locator("#detail-title")).to_contain_text("failed")
    expect(page.locator("#detail [role=tree]").first).to_contain_text("error")
    assert (hand.keys, hand.clicks) == promised("Find why a run failed")


def test_what_memory_held_before_a_decision(visitor: Visitor, hand: Hand) -> None:
    run = ids_at(visitor, "/t/demo/runs?host=openwop-app&q=memory-trail")[0]
    page = hand.page
    hand.go_to(run)
    page.wait_for_selector('open-timeline[data-state="ready"]')
    hand.click(page.locator("tr[data-seq]", has_text="think").first)
    expect(page.locator("#detail-title")).to_be_visible()
    hand.press("v")
    expect(page.locator("#state")).to_be_visible()
    expect(page.locator("#state")).to_contain_text(re.compile("memory", re.IGNORECASE))
    expect(page.locator("#state")).to_contain_text("mem_")
    assert (hand.keys, hand.clicks) == promised("See what memory held before a decision")


def test_where_a_replay_diverged(visitor: Visitor, hand: Hand) -> None:
    run = "70304e24-d997-4b4a-9b2b-fc8b32ab9c4e"  # the recorded replay that gives its entries new ids
    page = hand.page
    hand.go_to(run)
    page.wait_for_url(f"**/{run}*")
    hand.click(page.locator(".compare-menu summary"))
    hand.click(page.locator(".compare-menu").get_by_text("With its source"))
    page.wait_for_url("**/compare?**")
    expect(page.locator("main")).to_contain_text(re.compile(r"first (differ|diverge)", re.IGNORECASE))
    assert (hand.keys, hand.clicks) == promised("Find where a replay diverged")


def test_hand_a_run_to_a_colleague(visitor: Visitor, hand: Hand, visit: Callable[..., Visitor]) -> None:
    run = ids_at(visitor, "/t/demo/runs?host=openwop-app&status=failed")[0]
    page = hand.page
    hand.go_to(run)
    page.wait_for_selector('open-timeline[data-state="ready"]')
    hand.press("j")
    expect(page.locator("#detail-title")).to_be_visible()
    hand.click(page.get_by_role("button", name="Copy link"))
    expect(page.locator("#toast")).to_contain_text("Copied")
    assert (hand.keys, hand.clicks) == promised("Hand a run to a colleague")
    link = page.evaluate("() => navigator.clipboard.readText()")
    colleague = visit()
    colleague.log_in("reviewer")
    theirs = colleague.open(link.removeprefix(f"http://127.0.0.1:{colleague.site.port}"))
    expect(theirs.locator("#detail-title")).to_have_text(page.locator("#detail-title").inner_text())
