"""Names of assets, and when they are collected again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.test import override_settings

from openwop_ui.launch.assets import AssetStorage, collect_assets
from openwop_ui.live.scripts import imported_by


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


def test_an_import_names_its_script_by_content_too(source: Path, tmp_path: Path) -> None:
    (source / "js").mkdir()
    (source / "js" / "page.js").write_text('import { one } from "./one.js";\none();\n')
    (source / "js" / "one.js").write_text("export const one = () => 1;\n")
    target = tmp_path / "collected"
    finders = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    with override_settings(STATIC_ROOT=target, STATICFILES_DIRS=[source], STATICFILES_FINDERS=finders):
        target.mkdir()
        collect_assets(target)
        page, one = (AssetStorage(target, "/static/").url(f"js/{name}.js") for name in ("page", "one"))
    assert re.fullmatch(r"/static/js/one\.[0-9a-f]{12}\.js", one)
    assert one.rpartition("/")[2] in (target / page.removeprefix("/static/")).read_text()


def test_all_that_a_page_imports_is_known_before_it_is_read() -> None:
    needed = imported_by("js/compare.js")
    # compare.js names the first four, and they the others.
    assert needed[:4] == ("js/address.js", "js/compare-strip.js", "js/keys.js", "js/tree.js")
    assert set(needed[4:]) == {
        "js/hidden.js", "js/times.js", "js/kept.js", "js/look.js", "js/binary.js", "js/copy.js", "js/json-scan.js",
    }  # fmt: skip
    assert len(set(needed)) == len(needed)
    assert "js/events.js" not in imported_by("js/state.js")  # it is imported when it is wanted
    with pytest.raises(FileNotFoundError, match=r"js/nothing\.js"):
        imported_by("js/nothing.js")
