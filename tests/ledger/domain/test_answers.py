from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.domain.answers import SMALLEST_CAP, capped, size_of
from ledger.domain.tool_calls import Said, read_answer


def test_the_size_is_that_of_the_json() -> None:
    assert size_of({"a": "é", "b": [1, None]}) == len('{"a":"é","b":[1,null]}'.encode())
    assert size_of("\ud800") == 5


def test_what_fits_is_left_alone() -> None:
    answer = {"memories": ["x" * 200], "total": 1}
    assert capped(answer, size_of(answer) if size_of(answer) >= SMALLEST_CAP else SMALLEST_CAP) == answer
    exact = {"memories": ["x" * 300]}
    assert capped(exact, size_of(exact)) == exact
    assert "truncated" in capped(exact, size_of(exact) - 1)


def test_a_list_keeps_its_first_elements_and_says_so() -> None:
    answer = {"memories": [f"memory {number:03}" for number in range(500)], "total": 500, "nextCursor": "c"}
    cut = capped(answer, 1000)
    assert (cut["total"], cut["nextCursor"], cut["truncated"]) == (500, "c", True)
    assert cut["memories"] == answer["memories"][: len(cut["memories"])]  # type: ignore[index]
    assert list(cut) == ["memories", "total", "nextCursor", "truncated"]
    one_more = {**cut, "memories": answer["memories"][: len(cut["memories"]) + 1]}  # type: ignore[index]
    assert size_of(cut) <= 1000 < size_of(one_more)


def test_an_error_is_kept_whatever_else_there_is() -> None:
    answer = {"memories": ["x" * 5000], "error": {"code": "too_much", "message": "y" * 5000}}
    cut = capped(answer, 600)
    assert cut["error"]["code"] == "too_much"
    assert cut["error"]["message"].endswith("y…")
    assert size_of(cut) <= 600
    assert read_answer({"outcome": json.dumps(cut)}).said is Said.ERROR


def test_a_text_is_cut_with_an_ellipsis() -> None:
    cut = capped({"content": "z" * 900}, 300)
    assert cut == {"content": "z" * (300 - size_of({"content": "…", "truncated": True})) + "…", "truncated": True}


def test_what_does_not_fit_at_all_is_left_out() -> None:
    answer = {f"n{number}": number for number in range(100)}
    cut = capped(answer, SMALLEST_CAP)
    assert cut.pop("truncated") is True
    assert cut == {name: answer[name] for name in cut}
    assert 0 < len(cut) < 100


def test_an_answer_that_says_it_was_cut_goes_on_saying_so() -> None:
    assert capped({"truncated": False, "content": "z" * 900}, 300)["truncated"] is True


def test_short_members_come_before_long_ones() -> None:
    cut = capped({"long": "l" * 900, "short": "s" * 40, "note": "n" * 60}, SMALLEST_CAP)
    assert (cut["short"], cut["note"]) == ("s" * 40, "n" * 60)


def test_objects_are_kept_member_by_member() -> None:
    cut = capped({"a": {"id": 1, "text": "t" * 900, "list": [1] * 900, "last": 2}}, 300)
    assert (cut["a"]["id"], cut["a"]["text"][-1]) == (1, "…")
    assert size_of(cut) <= 300


def test_a_cap_under_the_smallest_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^a cap of 255 bytes is under the smallest one \(256\)$"):
        capped({}, 255)


def test_the_error_comes_before_everything_else() -> None:
    shorts = {f"short{number}": "s" * 40 for number in range(8)}
    error = {"code": "too_much", "message": "m" * 30}
    assert capped({**shorts, "error": error}, SMALLEST_CAP)["error"] == error
    long = {"code": "too_much", "message": "m" * 100}
    assert capped({**shorts, "error": long}, SMALLEST_CAP)["error"] == long


def test_a_list_without_room_for_one_element_is_empty() -> None:
    assert capped({"memories": ["x" * 900]}, SMALLEST_CAP) == {"memories": [], "truncated": True}


@pytest.mark.parametrize("width", range(61))
def test_no_byte_more_than_the_cap(width: int) -> None:
    shorts = {"a": "x" * 50, "b": "x" * 50, "c": "x" * 50, "d": "x" * width}
    assert size_of(capped({**shorts, "long": "y" * 900}, SMALLEST_CAP)) <= SMALLEST_CAP


answers = st.dictionaries(
    st.text(max_size=8),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=6,
    ),
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(answers, st.integers(SMALLEST_CAP, 600))
def test_every_answer_fits_and_is_whole_json(answer: dict[str, Any], cap: int) -> None:
    wide = {**answer, "pad": "p" * 200}
    cut = capped(wide, cap)
    assert size_of(cut) <= cap
    assert json.loads(json.dumps(cut)) == cut
    assert ("truncated" in cut and cut["truncated"] is True) or cut == wide
