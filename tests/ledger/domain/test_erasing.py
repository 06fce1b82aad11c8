from __future__ import annotations

from typing import Any

import pytest

from ledger.domain.erasing import ERASED, Quotes, quotes_of, scrubbed, spellings

LINE = "this line has thirty chars, ok"


QUOTED: list[tuple[list[str], Quotes]] = [
    ([], Quotes()),
    (["short"], Quotes()),
    (["1234567"], Quotes()),
    (["12345678"], Quotes(("12345678",))),
    (["  eight ch  "], Quotes(("eight ch",))),
    ([f"a\n{LINE}\nb"], Quotes((f"a\n{LINE}\nb", LINE))),
    (["first line\nsecond line"], Quotes(("first line\nsecond line",))),
    (["x" * 23 + "\ny"], Quotes(("x" * 23 + "\ny",))),
    (["x" * 24 + "\ny"], Quotes(("x" * 24 + "\ny", "x" * 24))),
    (["code k4n4ry-gate."], Quotes(("code k4n4ry-gate.",), ("k4n4ry-gate",))),
    (["code Xk4n4ryX."], Quotes(("code Xk4n4ryX.",), ("Xk4n4ryX",))),
    (["abcdefgh"], Quotes(("abcdefgh",))),
    (["abcdefg1 abcdef1 2026-11-30"], Quotes(("abcdefg1 abcdef1 2026-11-30",), ("abcdefg1",))),
    (["(abcdefg1), \"abcdefg2\""], Quotes(("(abcdefg1), \"abcdefg2\"",), ("abcdefg1", "abcdefg2"))),
    ([LINE, LINE], Quotes((LINE,))),
]  # fmt: skip


@pytest.mark.parametrize(("contents", "quotes"), QUOTED)
def test_what_is_looked_for(contents: list[str], quotes: Quotes) -> None:
    assert quotes_of(contents) == quotes


def test_a_long_content_is_looked_for_by_so_many_parts() -> None:
    found = quotes_of(["\n".join(f"this is line number {number:06} of it" for number in range(3000))])
    assert len(found.texts) == 2000
    assert quotes_of([" ".join(f"word{number:06}" for number in range(3000))]).words[-1] == "word001999"


def test_where_texts_and_words_are_found() -> None:
    quotes = Quotes(("whole text",), ("k4n4ry-gate",))
    assert quotes.are_in("with the whole text in it") and quotes.may_be_in("with the whole text in it")
    assert not quotes.are_in("with k4n4ry-gate") and quotes.may_be_in("with k4n4ry-gate")
    assert not quotes.may_be_in("with nothing")
    assert not Quotes().may_be_in("with nothing")


def test_two_quotes_are_one() -> None:
    both = Quotes(("a", "b"), ("x",)) | Quotes(("b", "c"), ("y", "x"))
    assert both == Quotes(("a", "b", "c"), ("x", "y"))


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("plain", ("plain",)),
        ('say "ü"', ('say "ü"', 'say \\"ü\\"', 'say \\"\\u00fc\\"')),
        ("a\nb", ("a\nb", "a\\nb")),
    ],
)
def test_how_a_text_stands_in_json(text: str, spelled: tuple[str, ...]) -> None:
    assert spellings(text) == spelled


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ("it is k4n4ry-gate", ERASED),
        ("nothing", "nothing"),
        (5, 5),
        (None, None),
        (["k4n4ry-gate", "b", [True]], [ERASED, "b", [True]]),
        ({"a": {"b": "k4n4ry-gate", "c": 1}}, {"a": {"b": ERASED, "c": 1}}),
        ({"k4n4ry-gate": 1}, {ERASED: 1}),
    ],
)
def test_what_is_left_of_json(value: Any, left: Any) -> None:
    assert scrubbed(value, Quotes((), ("k4n4ry-gate",))) == left
