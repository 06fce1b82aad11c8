"""The command palette: by keys and by touch, on every page, read out, and free of what names may hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.whole.running_site import RunningSite

from .conftest import Visitor
from .test_run import HOSTILE, hostile_events

PAGES = ("/t/demo/", "/t/demo/runs", "/t/demo/ledger", "/t/demo/hosts", "/t/demo/incidents", "/t/demo/upload")


def palette(page: Page, letters: str = "") -> None:
    page.keyboard.press("Control+k")
    expect(page.locator("#palette")).to_be_visible()
    expect(page.locator("#find-list[role=listbox]")).to_be_visible()
    if letters:
        page.keyboard.type(letters)
        page.wait_for_function("q => document.getElementById('find-list').textContent.includes(q)", arg=letters)


def chosen(page: Page) -> str:
    """What a screen reader is told of: the option that the field points to."""
    active = page.locator("#find-q").get_attribute("aria-activedescendant")
    option = page.locator(f"#{active}")
    assert option.get_attribute("aria-selected") == "true"
    return option.inner_text()


@pytest.mark.parametrize("path", PAGES)
def test_it_is_on_every_page(visit: Callable[..., Visitor], path: str) -> None:
    visitor = visit()
    visitor.log_in("dev")
    page = visitor.open(path)
    palette(page)
    assert page.evaluate("() => document.activeElement.id") == "find-q"
    assert visitor.violations() == []
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()


def test_letters_arrows_and_enter_lead_there(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    visitor.log_in("dev")
    page = visitor.page
    palette(page, "memory-trail")
    assert "rec.memory-trail" in chosen(page)
    first = chosen(page)
    page.keyboard.press("ArrowDown")
    assert chosen(page) != first
    page.keyboard.press("ArrowUp")
    assert chosen(page) == first
    page.keyboard.press("ArrowUp")  # round to the last one
    assert "ledger" in chosen(page)
    page.keyboard.press("PageUp")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/openwop-app/*")
    expect(page.locator("h1")).to_contain_text("rec.memory-trail")


def test_on_a_runs_page_a_node_an_entry_and_an_event(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    visitor.log_in("dev")
    page = visitor.open("/t/demo/runs?host=openwop-app&q=memory-trail")
    page.click("tbody a.id")
    page.wait_for_url("**/runs/openwop-app/*")
    run = page.url.split("?")[0]
    palette(page, "remember-goal")
    assert "this run" in chosen(page)
    page.keyboard.press("Enter")
    page.wait_for_url("**node=remember-goal**")
    assert page.url.split("?")[0] == run

    palette(page)
    page.keyboard.type("#5")
    page.wait_for_function("() => document.getElementById('find-list').textContent.includes('#5')")
    assert chosen(page).startswith("#5")
    page.keyboard.press("Enter")
    page.wait_for_url("**seq=5")
    memory_id = page.locator("#detail dd a.id.mem").first.get_attribute("title")
    assert memory_id
    palette(page, memory_id[:14])
    page.locator("#palette .palette-option:has(.mem)").first.click()
    page.wait_for_url("**/ledger/openwop-app/**")


def test_enter_waits_for_the_answer_to_what_was_typed(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    visitor.log_in("dev")
    page = visitor.page
    palette(page)
    page.keyboard.type("incid")
    page.keyboard.press("Enter")
    page.wait_for_url("**/t/demo/incidents")


def test_nothing_found_is_said(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    visitor.log_in("dev")
    page = visitor.page
    palette(page)
    page.keyboard.type("no such name anywhere")
    expect(page.locator("#find-list")).to_contain_text("Search the ledger for no such name anywhere")
    expect(page.locator("#find-count")).to_have_text("2 places")


def test_it_does_not_open_over_another_dialog_nor_twice(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    visitor.log_in("dev")
    page = visitor.page
    page.keyboard.press("?")
    expect(page.locator("#help")).to_contain_text("Go to a run, node, entry, host or page")
    page.keyboard.press("Control+k")
    expect(page.locator("#palette")).to_be_hidden()
    page.keyboard.press("Escape")
    palette(page)
    page.keyboard.press("Control+k")
    expect(page.locator("#palette")).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_by_touch_on_a_narrow_screen(visit: Callable[..., Visitor], scheme: str) -> None:
    visitor = visit(width=390, height=800, scheme=scheme)
    visitor.log_in("dev")
    page = visitor.page
    page.locator(".palette-open").tap()
    expect(page.locator("#palette")).to_be_visible()
    page.locator("#find-q").fill("ledg")
    expect(page.locator("#find-list")).to_contain_text("Search the ledger for ledg")
    option = page.locator("#palette .palette-option", has_text="Ledger").first
    expect(option).to_be_visible()
    box = option.bounding_box()
    assert box is not None and box["height"] >= 44 and box["x"] >= 0 and box["x"] + box["width"] <= 390
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    assert visitor.violations() == []
    option.tap()
    page.wait_for_url("**/t/demo/ledger")


def test_hostile_names_are_inert(visit: Callable[..., Visitor], site: RunningSite, key: str) -> None:
    assert site.push(key, "sqlite", hostile_events()) is not None
    visitor = visit()
    visitor.log_in("dev")
    page = visitor.page
    palette(page)
    page.locator("#find-q").fill(HOSTILE[:28])
    expect(page.locator("#palette .palette-option", has_text="onerror").first).to_be_visible()
    assert page.locator("#palette img").count() == 0
    assert page.evaluate("() => window.pwned") is None
    assert visitor.violations() == []
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/sqlite/**")


def test_somebody_elses_places_are_not_found(visit: Callable[..., Visitor]) -> None:
    visitor = visit()
    visitor.log_in("outsider")
    page = visitor.page
    palette(page)
    page.keyboard.type("memory-trail")
    expect(page.locator("#find-list")).to_contain_text("Search the ledger for memory-trail")
    expect(page.locator("#find-count")).to_have_text("2 places")
