"""A real browser on the whole site with its demo. Whatever a page complains about fails the test that opened it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, sync_playwright

from openwop_ui.bench.browser import ARGUMENTS
from tests.whole.running_site import RunningSite

AXE = next((Path(__file__).parent / "vendor").glob("axe-*.min.js"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSite]:
    running = RunningSite(tmp_path_factory.mktemp("demo"), demo=True)
    running.start()
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium, "no Chromium was found; CHROMIUM=/path/to/it names one"
    started = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
    yield started
    started.close()


class Visitor:
    """Somebody at a browser, logged in or not, and what their pages complained about."""

    def __init__(self, context: BrowserContext, site: RunningSite) -> None:
        self.context = context
        self.site = site
        self.page: Page = context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda said: self._complain(said.text) if said.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self._complain(str(error)))
        self.page.on("requestfailed", lambda request: self._failed(request.url, request.failure))
        self.page.on(
            "response", lambda answer: self._complain(f"{answer.status} {answer.url}") if answer.status >= 400 else None
        )

    def _complain(self, text: str) -> None:
        self.complaints.append(text)

    def _failed(self, url: str, why: str | None) -> None:
        # A page that is left stops what it was still asking for.
        if why != "net::ERR_ABORTED":
            self._complain(f"{why} {url}")

    def open(self, path: str) -> Page:
        self.page.goto(f"http://127.0.0.1:{self.site.port}{path}")
        return self.page

    def log_in(self, name: str) -> Page:
        self.open("/login")
        self.page.fill("input[name=username]", name)
        self.page.fill("input[name=password]", name)
        self.page.click("form button.primary")
        self.page.wait_for_url("**/t/**")
        return self.page

    def wait_until_live(self) -> None:
        self.page.wait_for_selector('#live[data-state="live"]')

    def violations(self) -> list[str]:
        """What axe-core finds against WCAG 2 A and AA on the page as it is now."""
        if not self.page.evaluate("() => 'axe' in window"):
            self.page.evaluate(AXE.read_text())
        found = self.page.evaluate(
            """async () => {
                const rules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
                const {violations} = await axe.run(document, {runOnly: rules});
                const where = node => `${node.target} ${node.failureSummary}`;
                return violations.map(v => `${v.id}: ${v.nodes.slice(0, 3).map(where).join(' | ')}`);
            }"""
        )
        return [str(one) for one in found]


@pytest.fixture
def visit(browser: Browser, site: RunningSite) -> Iterator[Callable[..., Visitor]]:
    """``visit(width=…, scheme=…)`` opens a window of its own; all of them must be free of complaints in the end."""
    visitors: list[Visitor] = []

    def opened(*, width: int = 1440, height: int = 900, scheme: str = "light") -> Visitor:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
            has_touch=width < 600,
            reduced_motion="reduce",
            bypass_csp=True,  # for axe-core, which is put into the page; that the policy holds is tested without it
        )
        context.set_default_timeout(15_000)
        visitor = Visitor(context, site)
        visitors.append(visitor)
        return visitor

    yield opened
    complaints = [complaint for visitor in visitors for complaint in visitor.complaints]
    for visitor in visitors:
        visitor.context.close()
    assert complaints == []


@pytest.fixture(scope="session")
def key(site: RunningSite) -> str:
    return site.manage("create_api_key", "--tenant", "demo", "--name", "browser", "--scopes", "ingest,read")
