from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.domain.exact_json import (
    MAX_DEPTH,
    DuplicateName,
    Edit,
    Malformed,
    NotANumber,
    Number,
    TooDeep,
    dumps,
    loads,
    pointer,
    shown,
    splice,
)

names = st.text(max_size=8)
documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "literal",
    [
        "0",
        "-0",
        "1.0",
        "1.10",
        "1e5",
        "1E+5",
        "0.1e-7",
        "18446744073709551616",
        "-9223372036854775809",
        "1e400",
        "9" * 5000,
    ],
)
def test_number_keeps_its_literal(literal: str) -> None:
    assert loads(literal) == Number(literal)
    assert dumps(loads(f'{{"n":[{literal}]}}')) == f'{{"n":[{literal}]}}'.encode()


@pytest.mark.parametrize(
    ("text", "name", "path"),
    [
        ('{"a":1,"a":2}', "a", ""),
        ('{"a":1,"\\u0061":2}', "a", ""),
        ('{"x":[{"b/c":{"a":1,"a":1}}]}', "a", "/x/0/b~1c"),
        ('{"o":{"a":1,"a":1},"o":3}', "o", ""),
        ('{"\\ud800":1,"\\ud800":1}', "\ud800", ""),
    ],
)
def test_repeated_name_is_an_error_with_its_place(text: str, name: str, path: str) -> None:
    with pytest.raises(DuplicateName) as caught:
        loads(text)
    assert (caught.value.name, caught.value.path) == (name, path)


def test_same_name_in_two_objects_is_no_repetition() -> None:
    assert loads('[{"a":{"a":true}},{"a":false}]') == [{"a": {"a": True}}, {"a": False}]


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_json_number_is_refused(literal: str) -> None:
    with pytest.raises(NotANumber, match=literal):
        loads(f"[{literal}]")


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("{", 1),
        ('{"a":1}x', 7),
        ("[1,]", 3),
        ('"\t"', 1),
        ("01", 1),
        ("'a'", 0),
        ('"\\x"', 1),
        ("[1 2]", 3),
        ("nul", 0),
    ],
)
def test_broken_text_is_refused_with_its_position(text: str, position: int) -> None:
    with pytest.raises(Malformed) as caught:
        loads(text)
    assert caught.value.position == position
    assert f"at character {position}" in str(caught.value)


@pytest.mark.parametrize("opening, closing", [("[", "]"), ('{"a":', "}")])
def test_depth_ends_at_its_limit(opening: str, closing: str) -> None:
    deepest = opening * (MAX_DEPTH - 1) + "[]" + closing * (MAX_DEPTH - 1)
    assert dumps(loads(deepest)) == deepest.encode()
    with pytest.raises(TooDeep, match="MAX_DEPTH .256 levels"):
        loads(f"[{deepest}]")


def test_bottomless_text_is_refused_too() -> None:
    with pytest.raises(TooDeep):
        loads("[" * 100_000)


def test_mark_and_white_space_around_are_passed_over() -> None:
    assert loads('\ufeff {"a" : null} \r\n') == {"a": None}


def test_lone_surrogate_is_kept_and_written_as_an_escape() -> None:
    value = loads('{"\\uDFFF":"x\\ud83d","pair":"\\ud83d\\ude00"}')
    assert value == {"\udfff": "x\ud83d", "pair": "😀"}
    assert dumps(value, sort_keys=True) == '{"pair":"😀","\\udfff":"x\\ud83d"}'.encode()


@given(documents)
def test_reading_and_writing_give_the_same_text(value: Any) -> None:
    text = orjson.dumps(value)
    assert dumps(loads(text.decode())) == text


@given(documents)
def test_sorted_text_is_what_the_fast_writer_writes(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False)
    exact = loads(orjson.dumps(value).decode())
    assert dumps(exact, sort_keys=True) == orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    # And it does not depend on the way the text was written.
    assert isinstance(loads(text), type(exact))


@given(st.dictionaries(st.text(min_size=1), st.integers(0, 9)))
def test_names_are_sorted_by_code_point(members: dict[str, int]) -> None:
    written = json.loads(dumps(dict(reversed(members.items())), sort_keys=True), object_pairs_hook=list)
    assert [name for name, _ in written] == sorted(members)


@given(st.text(max_size=20))
def test_slow_writer_escapes_like_the_fast_one(text: str) -> None:
    # The lone surrogate drives the whole value into the slow writer.
    assert dumps(["\ud800", text]) == b'["\\ud800",' + orjson.dumps(text) + b"]"


def test_splice_changes_nothing_but_what_it_is_told() -> None:
    text = ' {"a" : [1.10, {"b":"x\\"]}", "c": 2e5}], "\\u0064": {"e":\t1.0 } , "f":[ ]}\n'
    edits = {
        ("a", 0): Edit("null"),
        ("a", 1, "b"): Edit('"Q"'),
        ("d", "e"): Edit("{}", name='"n"'),
        ("f",): Edit(name='"g"'),
    }
    assert splice(text, edits) == ' {"a" : [null, {"b":"Q", "c": 2e5}], "\\u0064": {"n":\t{} } , "g":[ ]}\n'
    assert splice(text, {}) == text
    assert splice(text.strip(), {(): Edit("0")}) == "0"


@given(documents, st.data())
def test_spliced_text_reads_as_the_edited_value(value: Any, data: st.DataObject) -> None:
    paths = list(_paths((), value))
    chosen = data.draw(st.sets(st.sampled_from(paths), max_size=3))
    outermost = {path for path in chosen if not any(path[:size] in chosen for size in range(len(path)))}
    text = json.dumps(value, indent=data.draw(st.sampled_from([None, 2])))
    spliced = splice(text, {path: Edit('"edited"') for path in outermost})
    assert json.loads(spliced) == _edited((), value, outermost)


def _paths(path: tuple[str | int, ...], value: Any) -> Any:
    yield path
    if isinstance(value, dict | list):
        for step, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _paths((*path, step), child)


def _edited(path: tuple[str | int, ...], value: Any, edited: set[tuple[str | int, ...]]) -> Any:
    if path in edited:
        return "edited"
    if isinstance(value, dict):
        return {name: _edited((*path, name), child, edited) for name, child in value.items()}
    if isinstance(value, list):
        return [_edited((*path, index), child, edited) for index, child in enumerate(value)]
    return value


def test_pointer_escapes_its_own_signs() -> None:
    assert pointer(("a/b", 3, "m~n", "")) == "/a~1b/3/m~0n/"
    assert pointer(()) == ""


def test_name_in_a_message_is_short_and_printable() -> None:
    assert shown("x\n" * 99).startswith("'x\\nx")
    assert len(shown("x" * 10_000)) < 80
