"""How two values of one key are compared: each kind of value has one normal form. The value as it was said is kept too.

- plain: by what it is in JSON (a text as text, a number as number, true and false as themselves, a list or an object as
  canonical JSON). What a key gets that nobody registered.
- text: NFC, lower case, space collapsed. Lower case and not case folding, which would make Maße and Masse one.
- number: exact, with its unit converted to the base unit of its family. A comma with three digits behind it is
  refused where it could be either a thousands mark or a decimal one.
- date: a calendar date, which no time zone ever shifts; of a date with a time the day as its writer wrote it.
- moment: an instant in UTC, or a calendar date, which stays one.
- truth: yes or no, in the words of several languages.
- identifier: NFC without space around it, nothing else.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from ledger.domain.canonical import NotCanonical, canonical_bytes
from ledger.domain.errors import LedgerError
from ledger.domain.units import find_unit
from runs.domain.moments import read_timestamp

VERSION = 1
MAX_VALUE_LENGTH = 8192
MAX_NUMBER_LENGTH = 64
MAX_EXPONENT = 400
_MOST_PLACES = 512


class Kind(StrEnum):
    PLAIN = "plain"
    TEXT = "text"
    NUMBER = "number"
    DATE = "date"
    MOMENT = "moment"
    TRUTH = "truth"
    IDENTIFIER = "identifier"


class Problem(StrEnum):
    """Why a value has no normal form of its kind."""

    EMPTY = "empty"
    TOO_LONG = "too_long"
    NOT_A_VALUE = "not_a_value"
    NOT_A_TEXT = "not_a_text"
    NOT_A_NUMBER = "not_a_number"
    AMBIGUOUS_NUMBER = "ambiguous_number"
    NUMBER_TOO_LARGE = "number_too_large"
    UNKNOWN_UNIT = "unknown_unit"
    OTHER_UNIT_FAMILY = "other_unit_family"
    NOT_A_DATE = "not_a_date"
    NOT_A_MOMENT = "not_a_moment"
    NO_TIME_ZONE = "no_time_zone"
    NOT_A_TRUTH = "not_a_truth"


class UnreadableValue(LedgerError):
    def __init__(self, problem: Problem) -> None:
        super().__init__(f"value: {problem.value.replace('_', ' ')}", field="value")
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Value:
    """`display` is the value as it was said, `normal` what is compared, `normaliser` which rule made it ("text-1").

    `normal` is None when there is no normal form; `problem` then says why. Such a value can be kept, but not checked.
    """

    display: str
    normal: str | None
    normaliser: str
    problem: Problem | None = None


def normalise(raw: Any, kind: Kind = Kind.PLAIN, *, unit: str | None = None) -> Value:
    """UnreadableValue when `raw` has no normal form. `unit` is the one meant by a number that names none; with it,
    units of other families are refused."""
    display = shown(raw)
    normal = _NORMAL_FORMS[kind](raw, unit)
    if not normal:
        raise UnreadableValue(Problem.EMPTY)
    return Value(display, normal, _name(kind))


def read_value(raw: Any, kind: Kind = Kind.PLAIN, *, unit: str | None = None) -> Value:
    """As normalise, but the reason is part of the answer: for texts that nobody can be asked about again."""
    try:
        display = shown(raw)
    except UnreadableValue as error:
        return Value("", None, _name(kind), error.problem)
    try:
        return normalise(raw, kind, unit=unit)
    except UnreadableValue as error:
        return Value(display, None, _name(kind), error.problem)


def shown(raw: Any) -> str:
    """The value in the words of whoever said it; what is not a text, as JSON."""
    text = raw if isinstance(raw, str) else _json(raw)
    if len(text) > MAX_VALUE_LENGTH:
        raise UnreadableValue(Problem.TOO_LONG)
    return text


def _name(kind: Kind) -> str:
    return f"{kind.value}-{VERSION}"


def _json(raw: Any) -> str:
    if raw is None:
        raise UnreadableValue(Problem.EMPTY)
    if isinstance(raw, int) and not isinstance(raw, bool):
        return _digits(raw)
    try:
        return canonical_bytes(raw).decode()
    except NotCanonical:
        raise UnreadableValue(Problem.NOT_A_VALUE) from None


def _digits(raw: int) -> str:
    if abs(raw) >= 10**MAX_NUMBER_LENGTH:
        raise UnreadableValue(Problem.NUMBER_TOO_LARGE)
    return str(raw)


def _plain(raw: Any, unit: str | None) -> str:
    if isinstance(raw, int | float) and not isinstance(raw, bool):
        return _number(raw, unit)
    return _text(raw, unit) if isinstance(raw, str) else _json(raw)


def _text(raw: Any, unit: str | None) -> str:
    return folded(_words(raw))


def folded(text: str) -> str:
    """NFC, lower case, space collapsed. NFC twice, because lower case may take a character apart (İ)."""
    lower = unicodedata.normalize("NFC", text).lower()
    return " ".join(unicodedata.normalize("NFC", lower).split())


def _words(raw: Any) -> str:
    """What a value says when a text is wanted; numbers and truths have words of their own, lists and objects do not."""
    if isinstance(raw, list | dict):
        raise UnreadableValue(Problem.NOT_A_TEXT)
    return raw if isinstance(raw, str) else _json(raw)


def _identifier(raw: Any, unit: str | None) -> str:
    return unicodedata.normalize("NFC", _words(raw)).strip()


_NUMBER = re.compile(
    r"(?P<sign>[+-]?)(?P<number>[0-9.][0-9., ]*(?:[eE][+-]?[0-9]{1,9})?)(?P<unit>(?:[^\W\d_]|[%‰°€$£¥]).*)?", re.DOTALL
)
_WRITTEN = re.compile(r"-?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE](?P<exponent>[+-]?[0-9]+))?")
_EITHER = re.compile(r"[1-9][0-9]{0,2},[0-9]{3}")
# How people group digits, and what to take away; a comma that is left is a decimal one.
_GROUPED: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"[0-9]{1,3}(?:,[0-9]{3}){2,}(?:\.[0-9]+)?|[0-9]{1,3},[0-9]{3}\.[0-9]+"), ","),
    (re.compile(r"[0-9]{1,3}(?:\.[0-9]{3}){2,}(?:,[0-9]+)?|[0-9]{1,3}\.[0-9]{3},[0-9]+"), "."),
    (re.compile(r"[0-9]{1,3}(?: [0-9]{3})+(?:[.,][0-9]+)?"), " "),
    (re.compile(r"[0-9]+,[0-9]+"), ""),
)
_MINUS = str.maketrans("−–", "--")  # noqa: RUF001 - the signs that people type


def _number(raw: Any, unit: str | None) -> str:
    amount, named = _measured(raw) if isinstance(raw, str) else (_amount(_json(raw)), "")
    return _in_base_units(amount, named, unit)


def _measured(text: str) -> tuple[Fraction, str]:
    # NFKC: full-width digits and signs such as ℃ and ㎞ are spellings, not other values.
    read = _NUMBER.fullmatch(unicodedata.normalize("NFKC", text).translate(_MINUS).strip())
    if read is None:
        raise UnreadableValue(Problem.NOT_A_NUMBER if text.strip() else Problem.EMPTY)
    amount = _amount(_ungrouped(read["number"].strip()))
    return (-amount if read["sign"] == "-" else amount), (read["unit"] or "").strip()


def _ungrouped(number: str) -> str:
    if _EITHER.fullmatch(number):
        raise UnreadableValue(Problem.AMBIGUOUS_NUMBER)
    for shape, mark in _GROUPED:
        if shape.fullmatch(number):
            return number.replace(mark, "").replace(",", ".")
    return number


def _amount(text: str) -> Fraction:
    read = _WRITTEN.fullmatch(text)
    if read is None:
        raise UnreadableValue(Problem.NOT_A_NUMBER)
    if len(text) > MAX_NUMBER_LENGTH or abs(int(read["exponent"] or 0)) > MAX_EXPONENT:
        raise UnreadableValue(Problem.NUMBER_TOO_LARGE)
    return Fraction(text)


def _in_base_units(amount: Fraction, named: str, default: str | None) -> str:
    wanted = find_unit(default) if default else None
    unit = find_unit(named) if named else wanted
    if unit is None:
        if wanted is not None:
            raise UnreadableValue(Problem.UNKNOWN_UNIT)
        return f"{exact(amount)} {folded(named)}".rstrip()
    if wanted is not None and wanted.family != unit.family:
        raise UnreadableValue(Problem.OTHER_UNIT_FAMILY)
    return f"{exact(unit.to_base(amount))} {unit.base}".rstrip()


def exact(amount: Fraction) -> str:
    """Decimal where that comes to an end ("0.1"), else the fraction in lowest terms ("1/3")."""
    rest, places = amount.denominator, 0
    while 10**places % rest:
        places += 1
        if places > _MOST_PLACES:
            return str(amount)
    digits = f"{abs(amount.numerator) * 10**places // rest:0{places + 1}}"
    whole, decimals = digits[: len(digits) - places], digits[len(digits) - places :]
    return f"{'-' if amount < 0 else ''}{whole}{'.' if places else ''}{decimals}"


_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATE_AND_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ].*", re.DOTALL)
_WITHOUT_SECONDS = re.compile(r"(.{10}[Tt ][0-9]{2}:[0-9]{2})([Zz]|[+-][0-9]{2}:[0-9]{2})")


def _date(raw: Any, unit: str | None) -> str:
    text = _said(raw, Problem.NOT_A_DATE)
    with_time = _DATE_AND_TIME.fullmatch(text)
    if with_time is not None:
        _instant(text)
    return _calendar_date(with_time[1] if with_time else text)


def _moment(raw: Any, unit: str | None) -> str:
    text = _said(raw, Problem.NOT_A_MOMENT)
    if _DATE.fullmatch(text):
        return _calendar_date(text)
    if not _DATE_AND_TIME.fullmatch(text):
        raise UnreadableValue(Problem.NOT_A_MOMENT)
    return _instant(text).isoformat().replace("+00:00", "Z")


def _said(raw: Any, problem: Problem) -> str:
    if not isinstance(raw, str):
        raise UnreadableValue(problem)
    return raw.strip()


def _calendar_date(text: str) -> str:
    if not _DATE.fullmatch(text):
        raise UnreadableValue(Problem.NOT_A_DATE if text else Problem.EMPTY)
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise UnreadableValue(Problem.NOT_A_DATE) from None


def _instant(text: str) -> datetime:
    short = _WITHOUT_SECONDS.fullmatch(text)
    full = f"{short[1]}:00{short[2]}" if short else text
    try:
        return read_timestamp(f"{full[:10]}T{full[11:]}")
    except ValueError as error:
        no_zone = str(error) == "has no time zone"
        raise UnreadableValue(Problem.NO_TIME_ZONE if no_zone else Problem.NOT_A_MOMENT) from None


_YES = (
    "yes y true 1 on like likes love loves enjoy enjoys adore adores ja wahr mag liebe oui vrai aime adore "
    "sí si verdadero gusta encanta 是 对 真 喜欢 喜歡 爱 愛 はい 真 好き 大好き"
)
_NO = (
    "no n false 0 off dislike dislikes hate hates detest detests nein falsch hasse non faux déteste falso odio "
    "否 不 不是 假 不喜欢 不喜歡 讨厌 討厭 恨 いいえ 偽 嫌い 大嫌い"
)
_TRUTHS: Mapping[str, str] = MappingProxyType(
    {**dict.fromkeys(_NO.split(), "false"), **dict.fromkeys(_YES.split(), "true")}
)


def _truth(raw: Any, unit: str | None) -> str:
    said = _TRUTHS.get(folded(_words(raw)))
    if said is None:
        raise UnreadableValue(Problem.NOT_A_TRUTH)
    return said


_NORMAL_FORMS: Mapping[Kind, Callable[[Any, str | None], str]] = MappingProxyType(
    {
        Kind.PLAIN: _plain,
        Kind.TEXT: _text,
        Kind.NUMBER: _number,
        Kind.DATE: _date,
        Kind.MOMENT: _moment,
        Kind.TRUTH: _truth,
        Kind.IDENTIFIER: _identifier,
    }
)
