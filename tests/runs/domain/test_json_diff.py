from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.domain.exact_json import loads
from runs.domain.json_diff import MOST, differences

CASES = {
    "nothing": ("{}", "{}", []),
    "an order of members": ('{"a":1,"b":2}', '{"b":2,"a":1}', []),
    "a value": ('{"a":1}', '{"a":2}', [("changed", "/a", "1", "2")]),
    "a digit of a large one": (
        '{"n":3544790567247868102}',
        '{"n":3544790567247868103}',
        [("changed", "/n", "3544790567247868102", "3544790567247868103")],
    ),
    "how a number is written": ("[1.10]", "[1.1]", [("changed", "/0", "1.10", "1.1")]),
    "true is not 1": ('{"a":true}', '{"a":1}', [("changed", "/a", "true", "1")]),
    "added and removed": (
        '{"a":1,"b":[2]}',
        '{"b":[2],"c":null}',
        [("removed", "/a", "1", None), ("added", "/c", None, "null")],
    ),
    "deep inside": ('{"a":{"b":[{"c":1}]}}', '{"a":{"b":[{"c":"x"}]}}', [("changed", "/a/b/0/c", "1", '"x"')]),
    "names that a pointer escapes": ('{"a/b":{"~":1}}', '{"a/b":{"~":2}}', [("changed", "/a~1b/~0", "1", "2")]),
    "an item put in front": ("[1,2,3]", "[0,1,2,3]", [("added", "/0", None, "0")]),
    "an item in the middle gone": ("[1,2,3]", "[1,3]", [("removed", "/1", "2", None)]),
    "an item at the end": ("[1]", "[1,2]", [("added", "/1", None, "2")]),
    "an item changed in its place": ("[1,2,3]", "[1,9,3]", [("changed", "/1", "2", "9")]),
    "another kind": ('{"a":{}}', '{"a":[]}', [("changed", "/a", "{}", "[]")]),
    "the whole": ('"x"', "null", [("changed", "", '"x"', "null")]),
    "repeated items": ("[1,1,1]", "[1,1]", [("removed", "/2", "1", None)]),
}


@pytest.mark.parametrize(("before", "after", "expected"), CASES.values(), ids=CASES.keys())
def test_differences(before: str, after: str, expected: list[tuple[str, str, str | None, str | None]]) -> None:
    found = differences(loads(before), loads(after))
    assert [(one.op, one.path, one.before, one.after) for one in found.shown] == expected
    assert not found.is_cut


def test_so_many_are_shown() -> None:
    found = differences(list(range(MOST + 1)), list(range(1, MOST + 2)))
    assert len(found.shown) == MOST and found.is_cut


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(values, values)
def test_there_are_some_exactly_where_the_values_differ(one: object, other: object) -> None:
    before, after = json.dumps(one, sort_keys=True), json.dumps(other, sort_keys=True)
    found = differences(loads(before), loads(after)).shown
    assert bool(found) == (before != after)
    back = differences(loads(after), loads(before)).shown
    assert len(back) == len(found)
