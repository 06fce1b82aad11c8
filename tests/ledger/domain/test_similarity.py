from __future__ import annotations

import pytest

from ledger.domain.similarity import likeness, trigrams


@pytest.mark.parametrize(
    ("text", "grams"),
    [
        ("", {}),
        (" .,- ", {}),
        ("a", {" a ": 1}),
        ("ab", {" ab": 1, "ab ": 1}),
        ("AB", {" ab": 1, "ab ": 1}),
        ("abc", {" ab": 1, "abc": 1, "bc ": 1}),
        ("ab ab", {" ab": 2, "ab ": 2}),
        ("a-b", {" a ": 1, " b ": 1}),
        ("día 7", {" dí": 1, "día": 1, "ía ": 1, " 7 ": 1}),
        ("東京", {" 東京": 1, "東京 ": 1}),
    ],
)
def test_the_runs_of_three_of_each_word(text: str, grams: dict[str, int]) -> None:
    assert trigrams(text) == grams


@pytest.mark.parametrize(
    ("text", "statement", "content", "like"),
    [
        ("my plan is growth", "plan growth", "", 1.0),
        # plan has 4 runs, starter 7.
        ("my plan is growth", "plan starter", "", 0.3636),
        ("ab", "ab ab", "", 0.5),
        ("ab ab", "ab", "", 1.0),
        ("ab", "", "ab", 1.0),
        ("ab", "", "ab ab", 1.0),
        # 2 / √(2 · 4), 8 / √(8 · 10), 4 / √(8 · 4)
        ("ab", "", "ab cd", 0.7071),
        ("ab ab", "", "ab ab cd", 0.8944),
        ("ab ab", "", "ab cd", 0.7071),
        ("ab ab cd", "", "ab ab", 0.8944),
        # The higher of the two.
        ("ab", "ab cd", "ab", 1.0),
        ("ab", "ab", "cd", 1.0),
        ("ab", "ab cd", "ab cd", 0.7071),
        ("ab", "cd", "ef", 0.0),
        ("", "ab", "ab", 0.0),
        ("ab", "", "", 0.0),
        ("", "", "", 0.0),
    ],
)
def test_how_alike_a_text_and_a_claim_are(text: str, statement: str, content: str, like: float) -> None:
    assert likeness(text, statement=statement, content=content) == like
