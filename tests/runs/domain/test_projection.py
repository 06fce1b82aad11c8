from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.domain.projection import project, unproject


@pytest.mark.parametrize(
    ("identifier", "segment"),
    [
        ("acme/r-9", "acme~2Fr-9"),
        ("run_1.A-z", "run_1.A-z"),
        ("a'b:c%d e", "a~27b~3Ac~25d~20e"),
        ("~2F", "~7E2F"),
        ("é😀", "~C3~A9~F0~9F~98~80"),
        ("anon:t/x", "anon~3At~2Fx"),
        ("\0", "~00"),
        ("..", "~2E~2E"),
        (".", "~2E"),
        ("...", "~2E~2E~2E"),
        ("..a", "..a"),
        ("\ud800", "~ED~A0~80"),
        ("<img src=x onerror=1>", "~3Cimg~20src~3Dx~20onerror~3D1~3E"),
    ],
)
def test_identifier_has_one_segment(identifier: str, segment: str) -> None:
    assert project(identifier) == segment
    assert unproject(segment) == identifier


@pytest.mark.parametrize(
    "segment",
    [
        "",  # no id is empty
        "~2f",  # lower-case digits
        "~41",  # a byte that needs none
        "~2E",  # handled below: only right when nothing else is there
        "a~2E",
        ".",
        "..",
        "~2E.",
        "~",
        "~2",
        "~GG",
        "a b",
        "a/b",
        "a%2Fb",
        "é",
        "~FF",  # no UTF-8
        "~C0~AF",  # overlong
        "a\n",
    ],
)
def test_other_segments_have_no_identifier(segment: str) -> None:
    if segment == "~2E":
        assert unproject(segment) == "."
        return
    with pytest.raises(ValueError, match="projection|projected"):
        unproject(segment)


def test_empty_identifier_has_no_segment() -> None:
    with pytest.raises(ValueError, match="empty"):
        project("")


@given(st.text(st.characters(), min_size=1))
def test_every_identifier_comes_back(identifier: str) -> None:
    segment = project(identifier)
    assert re.fullmatch(r"[A-Za-z0-9._~-]+", segment)
    assert set(segment) != {"."}
    assert unproject(segment) == identifier


@given(st.text(alphabet="~.AaZz09_-2FEé", min_size=1, max_size=8))
def test_an_identifier_has_no_second_segment(segment: str) -> None:
    try:
        identifier = unproject(segment)
    except ValueError:
        return
    assert project(identifier) == segment
