"""RFC 3339 times as aware UTC datetimes."""

import re
from datetime import UTC, datetime

MAX_TIMESTAMP_LENGTH = 64

# Most are of this shape, which is read without a closer look.
_USUAL = re.compile(
    r"(?!0000|0001|9999)[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?Z"
)
_DATE_TIME = re.compile(
    r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]+)?"
    r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_WITHOUT_ZONE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?")
_OTHER_YEAR = re.compile(r"(?:[+-]?[0-9]{5,}|0000)-[0-9]{2}-[0-9]{2}[Tt ]")
# Days whose instants may lie in year 0 or 10000 once the zone is taken off.
_OUTER_DAY = re.compile(r"0001-01-01.*\+(?!00:00)|9999-12-31.*-(?!00:00)[0-9]{2}:[0-9]{2}")


def read_timestamp(text: str) -> datetime:
    """UTC, cut (not rounded) to microseconds; ValueError with a reason that fits behind the field's name.

    A leap second (`:60`, RFC 3339 section 5.6) becomes the last microsecond of its minute: datetime has no second 60,
    and so it stays behind everything of that minute and before everything of the next.
    """
    if len(text) > MAX_TIMESTAMP_LENGTH:
        raise ValueError(f"is longer than {MAX_TIMESTAMP_LENGTH} characters")
    if _USUAL.fullmatch(text):
        return _parsed(text)
    if not _DATE_TIME.fullmatch(text):
        raise ValueError(_complaint(text))
    if text[:4] in ("0001", "9999") and _OUTER_DAY.match(text):
        raise ValueError("is outside the years 1 to 9999 in UTC")
    text = text.upper()
    if text[17:19] == "60":
        return _parsed(f"{text[:17]}59.999999{text[19:].lstrip('.0123456789')}")
    return _parsed(text)


def _parsed(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("names a day that does not exist") from None
    return moment if moment.tzinfo is UTC else moment.astimezone(UTC)


def _complaint(text: str) -> str:
    if _OTHER_YEAR.match(text):
        return "is outside the years 1 to 9999"
    if _WITHOUT_ZONE.fullmatch(text):
        return "has no time zone"
    return "is not an RFC 3339 date and time"
