"""The browser that benchmarks look through, where there is one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .figures import remark

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
"""So that it runs anywhere, and asks nobody but the site for anything."""


@contextmanager
def browser(benchmark: str, *arguments: str) -> Iterator[Any]:
    """A headless Chromium, or None with a remark why the benchmark has no figures of it."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if not chromium:
        remark(f"{benchmark}: no browser or no driver for it (make test installs it); its figures are skipped")
        yield None
        return
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=[*ARGUMENTS, *arguments])
        yield started
        started.close()
