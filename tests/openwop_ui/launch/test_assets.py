"""Names of assets, and when they are collected again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.test import override_settings

from openwop_ui.launch.assets import AssetStorage, collect_assets


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "css").mkdir(parents=True)
    (folder / "css" / "page.css").write_text("body { color: black }")
    return folder


def test_assets_are_collected_once_per_change_and_named_by_content(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "collected"
    finders = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    with override_settings(STATIC_ROOT=target, STATICFILES_DIRS=[source], STATICFILES_FINDERS=finders):
        target.mkdir()
        assert AssetStorage(target, "/static/").url("css/page.css") == "/static/css/page.css"

        assert collect_assets(target)
        first = AssetStorage(target, "/static/").url("css/page.css")
        assert re.fullmatch(r"/static/css/page\.[0-9a-f]{12}\.css", first)
        assert not collect_assets(target)

        (source / "css" / "page.css").write_text("body { color: white }")
        (source / "css" / "late.css").write_text("")
        assert AssetStorage(target, "/static/").url("css/late.css") == "/static/css/late.css"
        assert collect_assets(target)
        second = AssetStorage(target, "/static/").url("css/page.css")
        assert second != first
        assert not (target / first.removeprefix("/static/")).exists()
        assert (target / f"{second.removeprefix('/static/')}").exists()
