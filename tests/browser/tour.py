"""Makes the pictures of the README's tour from the demo: `make tour`."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from openwop_ui.bench.browser import ARGUMENTS
from tests.whole.running_site import ROOT, RunningSite

PICTURES = ROOT / "static" / "img" / "tour"
LINES = """{"eventId":"t-0","runId":"tour","sequence":0,"type":"run.started","payload":{"workflowId":"tour"},"timestamp":"2026-11-29T12:00:00Z"}
{"eventId":"t-1","runId":"tour","sequence":1,"type":"log.appended","payload":{"message":"hello"},"timestamp":"2026-11-29T12:00:01Z"}
{"eventId":"t-2","runId":"tour","sequence":-2,"type":"log.appended","payload":null,"timestamp":"2026-11-29T12:00:02Z"}
{"eventId":"t-3","runId":"tour","sequence":3,"type":"run.completed","payload":{"outputs":{}},"timestamp":"2026-11-29T12:00:03"}
"""


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="openwop-tour-") as folder, sync_playwright() as playwright:
        site = RunningSite(Path(folder), demo=True)
        site.start()
        try:
            chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
            page = browser.new_page(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
            take_pictures(page, f"http://127.0.0.1:{site.port}", Path(folder))
            browser.close()
        finally:
            site.stop()


def take_pictures(page: Page, origin: str, folder: Path) -> None:
    page.goto(f"{origin}/login")
    page.fill("input[name=username]", "dev")
    page.fill("input[name=password]", "dev")
    page.click("form button.primary")
    page.wait_for_url("**/t/demo/")
    page.wait_for_timeout(45_000)  # until the demo's host has something to show
    picture(page, "home")
    page.goto(f"{origin}/t/demo/runs?host=demo&q=research")
    page.click("tbody a.id")
    page.wait_for_selector("open-timeline canvas")
    page.click("tr[data-seq] .state.mem >> nth=0")
    page.wait_for_timeout(1500)
    picture(page, "run")
    page.locator("#detail dd a.id").first.click()
    page.wait_for_url("**/ledger/**")
    picture(page, "entry")
    page.goto(f"{origin}/t/demo/ledger")
    picture(page, "ledger")
    page.goto(f"{origin}/t/demo/conflicts?q=subscription")
    page.click("#rows tr[data-row] a[id$=-link]")
    page.keyboard.press("1")
    page.wait_for_selector("table.effects")
    picture(page, "conflict")
    page.goto(f"{origin}/t/demo/upload?host=python")
    file = folder / "events.ndjson"
    file.write_text(LINES)
    page.set_input_files("input[type=file]", str(file))
    page.wait_for_selector(".receipt")
    picture(page, "upload")


def picture(page: Page, name: str) -> None:
    page.wait_for_timeout(1_000)
    page.screenshot(path=str(PICTURES / f"{name}.png"))


if __name__ == "__main__":
    main()
