"""Every page, wide and narrow, light and dark: no complaint, nothing out of reach, nothing cut off."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.factories import make_event
from tests.whole.running_site import RunningSite

from .conftest import Visitor

PAGES = [
    *("/t/demo/", "/t/demo/runs", "/t/demo/ledger", "/t/demo/hosts", "/t/demo/hosts/demo", "/t/demo/upload"),
    *("/t/demo/writers", "/t/demo/sources", "/t/demo/receipts", "/t/demo/coverage"),
]


def first_run(visitor: Visitor, host: str) -> str:
    href = visitor.open(f"/t/demo/runs?host={host}").get_attribute("tbody a.id", "href")
    assert href
    return href


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_every_page_is_accessible_and_fits(
    visit: Callable[..., Visitor], site: RunningSite, key: str, width: int, scheme: str
) -> None:
    tags = ["a", "b", "finding", "account:2093", "customer", "run-id:af0aa34b-f2d2-c12a-addc-8a0952ed3fda", "x", "y"]
    written = {"memoryRef": "notes", "memoryId": "mem-tags", "tags": tags}
    assert site.push(key, "python", [make_event(0, "memory.written", run="run-tags", payload=written)])
    visitor = visit(width=width, scheme=scheme)
    visitor.open("/login")
    found = {"/login": visitor.violations()}
    visitor.log_in("dev")
    run = first_run(visitor, "openwop-app")
    entry = visitor.open("/t/demo/ledger").get_attribute('tbody a[href*="/ledger/"]', "href")
    assert entry
    entries = [entry, "/t/demo/ledger/python/notes/mem-tags"]
    for path in [*PAGES, f"{run}?seq=2", f"{run}?kind=memory", *entries, "/t/demo/runs?q=nothing-like-this"]:
        page = visitor.open(path)
        page.wait_for_timeout(300)
        found[path] = visitor.violations()
        overflow = page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth")
        assert overflow <= 0, f"{path} is {overflow} px wider than the window"
    assert {path: one for path, one in found.items() if one} == {}


def test_the_content_policy_holds_and_pages_work_under_it(browser, site: RunningSite) -> None:  # type: ignore[no-untyped-def]
    context = browser.new_context()
    visitor = Visitor(context, site)
    visitor.log_in("dev")
    for path in PAGES:
        visitor.open(path)
    answer = visitor.page.goto(f"http://127.0.0.1:{site.port}/t/demo/")
    assert answer is not None
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    context.close()
    assert visitor.complaints == []


def test_an_outsider_is_told_nothing(visit: Callable[..., Visitor]) -> None:
    dev = visit()
    dev.log_in("dev")
    run = first_run(dev, "openwop-app")
    outsider = visit()
    outsider.log_in("outsider")
    for path in [*PAGES, run]:
        page = outsider.open(path)
        assert "Demo" not in page.inner_text("body")
        assert page.locator(f'a[href="{run}"]').count() == 0
    told = [complaint for complaint in outsider.complaints if "404" in complaint]
    assert len(told) >= len(PAGES)
    outsider.complaints.clear()
