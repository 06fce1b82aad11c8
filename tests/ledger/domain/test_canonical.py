from __future__ import annotations

import hashlib
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from ledger.domain import canonical
from ledger.domain.canonical import MAX_DEPTH, MAX_INTEGER, Flaw, NotCanonical, canonical_bytes, payload_hash


# Values and results from RFC 8785, section 3.2.2.2, 3.2.3 and appendix B.
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            {"peach": "This", "péché": "is", "pêche": "order", "sin": "x"},
            '{"peach":"This","péché":"is","pêche":"order","sin":"x"}',
        ),
        (
            {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\x80": 6, "\xf6": 7},
            '{"\\r":2,"1":4,"\x80":6,"ö":7,"€":1,"😀":5,"\ufb33":3}',
        ),
        ([56, {"d": True, "10": None, "1": []}], '[56,{"1":[],"10":null,"d":true}]'),
        (333333333.33333329, "333333333.3333333"),
        (1e30, "1e+30"),
        (4.50, "4.5"),
        (2e-3, "0.002"),
        (0.000000000000000000000000001, "1e-27"),
        (-0.0, "0"),
        (1.0, "1"),
        ("\u20ac$\u000f\nA'\u0042\u0022\u005c\\\"/", '"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"'),
        ((1, 2), "[1,2]"),
        (MAX_INTEGER, "9007199254740991"),
        (-MAX_INTEGER, "-9007199254740991"),
    ],
)
def test_canonical_form(value: Any, expected: str) -> None:
    assert canonical_bytes(value).decode() == expected


def test_the_hash_is_sha_256_over_the_canonical_form() -> None:
    told = payload_hash({"b": 1, "a": [True, None]})
    assert told == hashlib.sha256(b'{"a":[true,null],"b":1}').hexdigest()
    assert told == payload_hash({"a": [True, None], "b": 1.0})
    assert told != payload_hash({"a": [True, None], "b": 2})


def nested(depth: int, leaf: Any = 0) -> Any:
    value = leaf
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "flaw", "path"),
    [
        (MAX_INTEGER + 1, Flaw.INTEGER_TOO_LARGE, ""),
        (-MAX_INTEGER - 1, Flaw.INTEGER_TOO_LARGE, ""),
        ({"a": [1, {"b/c~d": 2**70}]}, Flaw.INTEGER_TOO_LARGE, "/a/1/b~1c~0d"),
        ({"a": float("nan")}, Flaw.NOT_FINITE, "/a"),
        ([float("inf")], Flaw.NOT_FINITE, "/0"),
        ({"a": "x\ud800"}, Flaw.LONE_SURROGATE, "/a"),
        (["\udfff"], Flaw.LONE_SURROGATE, "/0"),
        ({"\udead": 1}, Flaw.LONE_SURROGATE, ""),
        ({1: 1}, Flaw.NOT_JSON, ""),
        ({"a": {1, 2}}, Flaw.NOT_JSON, "/a"),
        ([b"bytes"], Flaw.NOT_JSON, "/0"),
        (nested(MAX_DEPTH + 1), Flaw.TOO_DEEP, "/0" * MAX_DEPTH),
        (nested(MAX_DEPTH, {}), Flaw.TOO_DEEP, "/0" * MAX_DEPTH),
        ({"a": nested(MAX_DEPTH, {"b": 1})}, Flaw.TOO_DEEP, "/a" + "/0" * (MAX_DEPTH - 1)),
    ],
)
def test_what_has_no_canonical_form_is_refused_with_its_place(value: Any, flaw: Flaw, path: str) -> None:
    with pytest.raises(NotCanonical) as caught:
        canonical_bytes(value)
    assert (caught.value.flaw, caught.value.path, caught.value.field) == (flaw, path, path or None)
    assert str(caught.value) == f"{path or 'the payload'}: {flaw.value.replace('_', ' ')}"


def test_the_deepest_nesting_that_is_allowed_is_written() -> None:
    assert canonical_bytes(nested(MAX_DEPTH)) == b"[" * MAX_DEPTH + b"0" + b"]" * MAX_DEPTH
    assert canonical_bytes("\ud7ff\ue000") == '"\ud7ff\ue000"'.encode()


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_INTEGER, MAX_INTEGER)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=12,
)


@given(json_values)
def test_the_order_of_members_does_not_matter(value: Any) -> None:
    def backwards(one: Any) -> Any:
        if isinstance(one, dict):
            return {name: backwards(one[name]) for name in reversed(one)}
        return [backwards(element) for element in one] if isinstance(one, list) else one

    assert payload_hash(backwards(value)) == payload_hash(value)


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_INTEGER, MAX_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=12,
)


@given(PLAIN)
@example([1e16, 1e15 + 0.5, 0.0001, 0.00009, 1e-7, 0.1, -0.0, 1.0, 5e-324])
@example({"\x7f": "\x00\x1f\u2028\x7f", "b": 1, "a": {"é": 1}})
def test_the_fast_way_writes_what_the_scheme_says(value: object) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


def boxes(depth: int, *, in_lists: bool) -> Any:
    value: Any = [] if in_lists else {}
    for _ in range(depth - 1):
        value = [value] if in_lists else {"a": value}
    return value


@pytest.mark.parametrize(
    ("value", "is_fast"),
    [
        ("é", True),
        (True, True),
        (None, True),
        (0, True),
        (-7, True),
        (MAX_INTEGER, True),
        (-MAX_INTEGER, True),
        (0.5, True),
        (1e-4, True),
        (-123.25, True),
        ([], True),
        ({"a": ["b", {"c": 1}]}, True),
        (boxes(16, in_lists=True), True),
        (boxes(16, in_lists=False), True),
        (boxes(17, in_lists=True), False),
        (boxes(17, in_lists=False), False),
        (1.0, False),
        (1e16, False),
        (0.00009, False),
        ({"é": 1}, False),
        (["a", 1.0], False),
        ((1, 2), False),
    ],
)
def test_what_goes_the_fast_way(value: Any, is_fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    thorough: list[Any] = []
    monkeypatch.setattr(canonical, "require_canonical", thorough.append)
    canonical_bytes(value)
    assert thorough == ([] if is_fast else [value])
