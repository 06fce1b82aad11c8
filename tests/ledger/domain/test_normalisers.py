from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.domain.normalisers import Kind, Problem, UnreadableValue, Value, exact, folded, normalise, read_value, shown
from ledger.domain.units import find_unit


@pytest.mark.parametrize(
    ("kind", "raw", "expected"),
    [
        (Kind.PLAIN, "  Growth \n Plan ", "growth plan"),
        (Kind.PLAIN, "cafe\u0301", "caf\u00e9"),
        (Kind.PLAIN, True, "true"),
        (Kind.PLAIN, False, "false"),
        (Kind.PLAIN, 5, "5"),
        (Kind.PLAIN, 5.0, "5"),
        (Kind.PLAIN, 0.1, "0.1"),
        (Kind.PLAIN, "0.1", "0.1"),
        (Kind.PLAIN, "TRUE", "true"),
        (Kind.PLAIN, ["b", 1], '["b",1]'),
        (Kind.PLAIN, {"b": 1, "a": None}, '{"a":null,"b":1}'),
        (Kind.TEXT, "Maße", "maße"),
        (Kind.TEXT, "MASSE", "masse"),
        (Kind.TEXT, "İ", "i̇"),
        (Kind.TEXT, 7, "7"),
        (Kind.TEXT, True, "true"),
        (Kind.IDENTIFIER, "  Ab C ", "Ab C"),
        (Kind.IDENTIFIER, "e\u0301", "é"),
        (Kind.IDENTIFIER, 42, "42"),
        (Kind.TRUTH, "Yes", "true"),
        (Kind.TRUTH, "不喜欢", "false"),
        (Kind.TRUTH, "喜欢", "true"),
        (Kind.TRUTH, False, "false"),
        (Kind.TRUTH, 1, "true"),
        (Kind.TRUTH, "love", "true"),
        (Kind.TRUTH, "hate", "false"),
        (Kind.TRUTH, " Nein ", "false"),
        (Kind.TRUTH, "嫌い", "false"),
        (Kind.TRUTH, "déteste", "false"),
    ],
)
def test_normal_forms(kind: Kind, raw: Any, expected: str) -> None:
    assert normalise(raw, kind).normal == expected


@pytest.mark.parametrize(
    ("raw", "unit", "expected"),
    [
        (0, None, "0"),
        ("-0.0", None, "0"),
        (5, None, "5"),
        (-5, None, "-5"),
        (-0.25, None, "-0.25"),
        ("5", None, "5"),
        (" -5 ", None, "-5"),
        ("+5", None, "5"),
        ("−5", None, "-5"),
        (".5", None, "0.5"),
        ("5e3", None, "5000"),
        ("5E-1", None, "0.5"),
        ("1.234", None, "1.234"),
        ("1.50", None, "1.5"),
        ("1,5", None, "1.5"),
        ("0,125", None, "0.125"),
        ("1234,567", None, "1234.567"),
        ("1,234.5", None, "1234.5"),
        ("1,234,567", None, "1234567"),
        ("1,234,567.25", None, "1234567.25"),
        ("1.234,5", None, "1234.5"),
        ("1.234.567", None, "1234567"),
        ("1.234.567,25", None, "1234567.25"),
        ("5 000", None, "5000"),
        ("5\u00a0000 km", None, "5000000 m"),
        ("5 000,5", None, "5000.5"),
        ("５００", None, "500"),
        ("5 km", None, "5000 m"),
        ("5km", None, "5000 m"),
        ("5 Kilometers", None, "5000 m"),
        ("5㎞", None, "5000 m"),
        ("5000 m", None, "5000 m"),
        ("1 mi", None, "1609.344 m"),
        ("1 in", None, "0.0254 m"),
        ("3 ft", None, "0.9144 m"),
        ("1 yd", None, "0.9144 m"),
        ("1 lb", None, "0.45359237 kg"),
        ("16 oz", None, "0.45359237 kg"),
        ("1 t", None, "1000 kg"),
        ("250 g", None, "0.25 kg"),
        ("1 wk", None, "604800 s"),
        ("7 days", None, "604800 s"),
        ("90 min", None, "5400 s"),
        ("1.5 h", None, "5400 s"),
        ("250 ms", None, "0.25 s"),
        ("8 bit", None, "1 B"),
        ("1 KiB", None, "1024 B"),
        ("1 kB", None, "1000 B"),
        ("1 GiB", None, "1073741824 B"),
        ("100 °C", None, "373.15 K"),
        ("212 °F", None, "373.15 K"),
        ("212 Fahrenheit", None, "373.15 K"),
        ("37 ℃", None, "310.15 K"),
        ("50 %", None, "0.5"),
        ("5 ‰", None, "0.005"),
        ("10 µm", None, "0.00001 m"),
        ("5 widgets", None, "5 widgets"),
        ("5 Widgets ", None, "5 widgets"),
        (5, "km", "5000 m"),
        ("5", "km", "5000 m"),
        ("5 m", "km", "5 m"),
    ],
)
def test_numbers(raw: Any, unit: str | None, expected: str) -> None:
    assert normalise(raw, Kind.NUMBER, unit=unit).normal == expected


def test_case_tells_units_apart() -> None:
    megabyte, minute = find_unit("MB"), find_unit("min")
    assert megabyte is not None and megabyte.family == "data"
    assert minute is not None and minute.family == "duration"
    assert find_unit("Mb") is None
    assert find_unit("M") is None
    assert find_unit("METERS") == find_unit("m")


@pytest.mark.parametrize(
    ("kind", "raw", "unit", "problem"),
    [
        (Kind.PLAIN, "", None, Problem.EMPTY),
        (Kind.PLAIN, " \t", None, Problem.EMPTY),
        (Kind.PLAIN, None, None, Problem.EMPTY),
        (Kind.PLAIN, "x" * 8193, None, Problem.TOO_LONG),
        (Kind.PLAIN, {"a": float("nan")}, None, Problem.NOT_A_VALUE),
        (Kind.PLAIN, float("inf"), None, Problem.NOT_A_VALUE),
        (Kind.PLAIN, b"x", None, Problem.NOT_A_VALUE),
        (Kind.PLAIN, 10**64, None, Problem.NUMBER_TOO_LARGE),
        (Kind.PLAIN, -(10**64), None, Problem.NUMBER_TOO_LARGE),
        (Kind.TEXT, 10**64, None, Problem.NUMBER_TOO_LARGE),
        (Kind.TEXT, ["a"], None, Problem.NOT_A_TEXT),
        (Kind.TEXT, {"a": 1}, None, Problem.NOT_A_TEXT),
        (Kind.IDENTIFIER, ["a"], None, Problem.NOT_A_TEXT),
        (Kind.IDENTIFIER, "  ", None, Problem.EMPTY),
        (Kind.NUMBER, "", None, Problem.EMPTY),
        (Kind.NUMBER, "five", None, Problem.NOT_A_NUMBER),
        (Kind.NUMBER, "5.", None, Problem.NOT_A_NUMBER),
        (Kind.NUMBER, ".", None, Problem.NOT_A_NUMBER),
        (Kind.NUMBER, "1.2.3", None, Problem.NOT_A_NUMBER),
        (Kind.NUMBER, "1/3", None, Problem.NOT_A_NUMBER),
        (Kind.NUMBER, "5 _km", None, Problem.NOT_A_NUMBER),
        (Kind.NUMBER, "12 34", None, Problem.NOT_A_NUMBER),
        (Kind.NUMBER, "1,23,456", None, Problem.NOT_A_NUMBER),
        (Kind.NUMBER, True, None, Problem.NOT_A_NUMBER),
        (Kind.NUMBER, [5], None, Problem.NOT_A_NUMBER),
        (Kind.NUMBER, "5 6 km 7", None, Problem.NOT_A_NUMBER),
        (Kind.NUMBER, "1,234", None, Problem.AMBIGUOUS_NUMBER),
        (Kind.NUMBER, "123,456", None, Problem.AMBIGUOUS_NUMBER),
        (Kind.NUMBER, "1e401", None, Problem.NUMBER_TOO_LARGE),
        (Kind.NUMBER, "1e-401", None, Problem.NUMBER_TOO_LARGE),
        (Kind.NUMBER, "9" * 65, None, Problem.NUMBER_TOO_LARGE),
        (Kind.NUMBER, "1e999999999", None, Problem.NUMBER_TOO_LARGE),
        (Kind.NUMBER, "5 kg", "km", Problem.OTHER_UNIT_FAMILY),
        (Kind.NUMBER, "5 widgets", "km", Problem.UNKNOWN_UNIT),
        (Kind.DATE, "2025-02-30", None, Problem.NOT_A_DATE),
        (Kind.DATE, "25.7.2025", None, Problem.NOT_A_DATE),
        (Kind.DATE, "", None, Problem.EMPTY),
        (Kind.DATE, 20250725, None, Problem.NOT_A_DATE),
        (Kind.DATE, "2025-07-25T02:00", None, Problem.NO_TIME_ZONE),
        (Kind.DATE, "2025-07-25Tea", None, Problem.NOT_A_MOMENT),
        (Kind.MOMENT, "2025-07-25T02:00:00", None, Problem.NO_TIME_ZONE),
        (Kind.MOMENT, "2025-07-25T25:00:00Z", None, Problem.NOT_A_MOMENT),
        (Kind.MOMENT, "soon", None, Problem.NOT_A_MOMENT),
        (Kind.MOMENT, "2025-13-01", None, Problem.NOT_A_DATE),
        (Kind.MOMENT, 17, None, Problem.NOT_A_MOMENT),
        (Kind.TRUTH, "maybe", None, Problem.NOT_A_TRUTH),
        (Kind.TRUTH, ["yes"], None, Problem.NOT_A_TEXT),
    ],
)
def test_what_has_no_normal_form(kind: Kind, raw: Any, unit: str | None, problem: Problem) -> None:
    with pytest.raises(UnreadableValue) as caught:
        normalise(raw, kind, unit=unit)
    assert (caught.value.problem, caught.value.field) == (problem, "value")
    assert str(caught.value) == f"value: {problem.value.replace('_', ' ')}"
    value = read_value(raw, kind, unit=unit)
    assert (value.normal, value.problem, value.normaliser) == (None, problem, f"{kind.value}-1")


def test_the_longest_numbers_and_values() -> None:
    assert normalise("9" * 64, Kind.NUMBER).normal == "9" * 64
    assert normalise("1e400", Kind.NUMBER).normal == "1" + "0" * 400
    assert normalise("1e-400", Kind.NUMBER).normal == f"0.{'0' * 399}1"
    assert normalise("3 €", Kind.NUMBER).normal == "3 €"
    assert normalise(5, unit="km").normal == "5000 m"
    assert normalise(10**64 - 1, Kind.TEXT).normal == "9" * 64
    assert normalise(10**64 - 1).normal == "9" * 64
    assert normalise("x" * 8192).normal == "x" * 8192


def test_both_the_value_as_it_was_said_and_its_normal_form_are_kept() -> None:
    assert normalise(" 5 KM", Kind.TEXT) == Value(" 5 KM", "5 km", "text-1")
    assert normalise("5 km", Kind.NUMBER) == Value("5 km", "5000 m", "number-1")
    assert normalise(True) == Value("true", "true", "plain-1")
    assert normalise(2.50) == Value("2.5", "2.5", "plain-1")
    assert read_value("1,234", Kind.NUMBER).display == "1,234"
    assert read_value("x" * 9000).display == ""
    assert read_value(b"x").display == ""
    assert read_value(None) == Value("", None, "plain-1", Problem.EMPTY)


@pytest.mark.parametrize(
    ("kind", "raw", "expected"),
    [
        (Kind.DATE, "2025-07-25", "2025-07-25"),
        (Kind.DATE, " 2025-07-25 ", "2025-07-25"),
        (Kind.DATE, "2025-07-25T02:00Z", "2025-07-25"),
        (Kind.DATE, "2025-07-24T19:00:00-07:00", "2025-07-24"),
        (Kind.DATE, "2025-07-25 23:59:59+14:00", "2025-07-25"),
        (Kind.MOMENT, "2025-07-25", "2025-07-25"),
        (Kind.MOMENT, "2025-07-25T02:00Z", "2025-07-25T02:00:00Z"),
        (Kind.MOMENT, "2025-07-25T02:00-07:00", "2025-07-25T09:00:00Z"),
        (Kind.MOMENT, "2025-07-24T19:00:00-07:00", "2025-07-25T02:00:00Z"),
        (Kind.MOMENT, "2025-07-25t02:00:00.000z", "2025-07-25T02:00:00Z"),
        (Kind.MOMENT, "2025-07-25 02:00:00.5Z", "2025-07-25T02:00:00.500000Z"),
    ],
)
def test_a_date_is_never_shifted_and_a_moment_is_in_utc(kind: Kind, raw: str, expected: str) -> None:
    assert normalise(raw, kind).normal == expected


@given(st.fractions())
def test_exact_loses_nothing(amount: Fraction) -> None:
    told = exact(amount)
    assert Fraction(told) == amount
    assert re.fullmatch(r"-?[0-9]+(\.[0-9]*[1-9])?|-?[0-9]+/[0-9]+", told)


def test_decimals_that_come_to_no_end_stay_fractions() -> None:
    assert exact(Fraction(1, 3)) == "1/3"
    assert exact(Fraction(-7, 6)) == "-7/6"
    assert exact(Fraction(1, 8)) == "0.125"
    assert exact(Fraction(-1, 16)) == "-0.0625"
    assert exact(Fraction(1, 2**512)).startswith("0.0")
    assert exact(Fraction(1, 2**513)) == f"1/{2**513}"


@given(st.text())
def test_folding_twice_is_folding_once(text: str) -> None:
    assert folded(folded(text)) == folded(text)


@given(
    st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.lists(st.text())),
    st.sampled_from(Kind),
)
def test_every_value_is_read_or_has_a_problem(raw: Any, kind: Kind) -> None:
    value = read_value(raw, kind)
    assert (value.normal is None) is (value.problem is not None)
    assert value.normal != ""


def test_a_list_is_shown_as_json() -> None:
    assert shown([1, "a"]) == '[1,"a"]'
    assert shown("as it was") == "as it was"
