"""Units that say the same thing in other sizes, by family. Conversion is exact: factors are fractions.

The base of a ratio has no name: 50 % is 0.5.

Symbols keep their case, because case tells units apart (Mb and MB, m and M); words do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Unit:
    """`amount` of it is `amount * factor + offset` of the family's base unit."""

    family: str
    base: str
    factor: Fraction
    offset: Fraction = Fraction(0)

    def to_base(self, amount: Fraction) -> Fraction:
        return amount * self.factor + self.offset


def find_unit(text: str) -> Unit | None:
    return _SYMBOLS.get(text) or _WORDS.get(text.lower())


# family: (base, ((symbols, words, factor, offset), …)); spellings are separated by a space.
_Row = tuple[str, str, str, str]
_TABLE: Mapping[str, tuple[str, tuple[_Row, ...]]] = {
    "length": (
        "m",
        (
            ("nm", "nanometer nanometre nanometers nanometres", "1/1000000000", "0"),
            ("μm", "micrometer micrometre micrometers micrometres", "1/1000000", "0"),
            ("mm", "millimeter millimetre millimeters millimetres", "1/1000", "0"),
            ("cm", "centimeter centimetre centimeters centimetres zentimeter", "1/100", "0"),
            ("m", "meter metre meters metres", "1", "0"),
            ("km", "kilometer kilometre kilometers kilometres", "1000", "0"),
            ("in", "inch inches", "127/5000", "0"),
            ("ft", "foot feet", "381/1250", "0"),
            ("yd", "yard yards", "1143/1250", "0"),
            ("mi", "mile miles", "201168/125", "0"),
        ),
    ),
    "mass": (
        "kg",
        (
            ("mg", "milligram milligrams milligramm", "1/1000000", "0"),
            ("g", "gram grams gramm", "1/1000", "0"),
            ("kg", "kilogram kilograms kilogramm kilo kilos", "1", "0"),
            ("t", "tonne tonnes", "1000", "0"),
            ("oz", "ounce ounces", "45359237/1600000000", "0"),
            ("lb lbs", "pound pounds", "45359237/100000000", "0"),
        ),
    ),
    "duration": (
        "s",
        (
            ("ms", "millisecond milliseconds", "1/1000", "0"),
            ("s", "sec second seconds sekunde sekunden", "1", "0"),
            ("min", "minute minutes minuten", "60", "0"),
            ("h", "hr hour hours stunde stunden", "3600", "0"),
            ("d", "day days tag tage", "86400", "0"),
            ("wk", "week weeks woche wochen", "604800", "0"),
        ),
    ),
    "data": (
        "B",
        (
            ("bit", "bits", "1/8", "0"),
            ("B", "byte bytes", "1", "0"),
            ("kB KB", "kilobyte kilobytes", "1000", "0"),
            ("MB", "megabyte megabytes", "1000000", "0"),
            ("GB", "gigabyte gigabytes", "1000000000", "0"),
            ("TB", "terabyte terabytes", "1000000000000", "0"),
            ("KiB", "kibibyte kibibytes", "1024", "0"),
            ("MiB", "mebibyte mebibytes", "1048576", "0"),
            ("GiB", "gibibyte gibibytes", "1073741824", "0"),
            ("TiB", "tebibyte tebibytes", "1099511627776", "0"),
        ),
    ),
    "temperature": (
        "K",
        (
            ("K", "kelvin", "1", "0"),
            ("°C", "celsius", "1", "5463/20"),
            ("°F", "fahrenheit", "5/9", "45967/180"),
        ),
    ),
    "ratio": (
        "",
        (
            ("%", "percent prozent", "1/100", "0"),
            ("‰", "permille promille", "1/1000", "0"),
        ),
    ),
}


def _units(column: int) -> Iterable[tuple[str, Unit]]:
    for family, (base, rows) in _TABLE.items():
        for row in rows:
            unit = Unit(family, base, Fraction(row[2]), Fraction(row[3]))
            yield from ((spelling, unit) for spelling in row[column].split())


_SYMBOLS: Mapping[str, Unit] = MappingProxyType(dict(_units(0)))
_WORDS: Mapping[str, Unit] = MappingProxyType(dict(_units(1)))
