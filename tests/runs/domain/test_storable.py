from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.domain.storable import needs_escapes, original, storable

any_text = st.text(st.characters(categories=None) | st.sampled_from("\0\ud800\udfff\ue0000dfe8"))


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("plain", "plain"),
        ("a\0b", "a\ue0000000b"),
        ("\ud83d", "\ue000d83d"),
        ("\udfff\ud800", "\ue000dfff\ue000d800"),
        ("\ue000", "\ue000e000"),
        ("😀", "😀"),
    ],
)
def test_what_the_database_refuses_is_escaped(text: str, stored: str) -> None:
    assert storable(text) == stored
    assert original(stored) == text


@given(any_text)
def test_every_text_comes_back(text: str) -> None:
    stored = storable(text)
    assert "\0" not in stored
    stored.encode()
    assert original(stored) == text


@given(any_text, any_text)
def test_different_texts_stay_different(one: str, other: str) -> None:
    assert (storable(one) == storable(other)) == (one == other)


@given(any_text)
def test_what_is_changed_shows_in_the_json_that_it_came_in(text: str) -> None:
    changes = storable(text) != text
    assert needs_escapes(json.dumps(text)) or not changes
    # Without escapes there are no lone surrogates: they have no UTF-8.
    told = text.encode(errors="ignore").decode()
    assert needs_escapes(json.dumps(told, ensure_ascii=False)) or storable(told) == told


def test_the_usual_json_holds_nothing_that_is_changed() -> None:
    assert not needs_escapes('{"nodeId":"ünïcode 🦊","payload":{"n":1.5}}')
