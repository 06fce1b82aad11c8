from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.domain.moments import read_timestamp

DAY = datetime(2026, 11, 29, 18, 59, 25, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-29T18:59:25Z", DAY),
        ("2026-11-29t18:59:25z", DAY),
        ("2026-11-29T18:59:25.633Z", DAY + timedelta(milliseconds=633)),
        ("2026-11-29T20:29:25+01:30", DAY),
        ("2026-11-29T10:59:25-08:00", DAY),
        ("2026-11-29T18:59:25-00:00", DAY),
        ("2026-11-29T18:59:25.1234567891Z", DAY + timedelta(microseconds=123456)),
        ("2026-11-29T18:59:25.999999999Z", DAY + timedelta(microseconds=999999)),
        ("2024-02-29T00:00:00Z", datetime(2024, 2, 29, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
        ("9999-12-31T23:59:59.5+00:00", datetime(9999, 12, 31, 23, 59, 59, 500000, tzinfo=UTC)),
        ("2016-12-31T23:59:60Z", datetime(2016, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        ("2017-01-01T00:59:60.25+01:00", datetime(2016, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
    ],
)
def test_time_is_read(text: str, moment: datetime) -> None:
    read = read_timestamp(text)
    assert read == moment
    assert read.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is not an RFC 3339 date and time"),
        ("yesterday", "is not an RFC 3339 date and time"),
        ("2026-11-29", "is not an RFC 3339 date and time"),
        ("20261129T185925Z", "is not an RFC 3339 date and time"),
        ("2026-W48-7T18:59:25Z", "is not an RFC 3339 date and time"),
        ("2026-11-29 18:59:25Z", "is not an RFC 3339 date and time"),
        ("2026-11-29T18:59Z", "is not an RFC 3339 date and time"),
        ("2026-11-29T24:00:00Z", "is not an RFC 3339 date and time"),
        ("2026-11-29T18:60:00Z", "is not an RFC 3339 date and time"),
        ("2026-11-29T18:59:61Z", "is not an RFC 3339 date and time"),
        ("2026-11-29T18:59:25,5Z", "is not an RFC 3339 date and time"),
        ("2026-11-29T18:59:25.Z", "is not an RFC 3339 date and time"),
        ("2026-11-29T18:59:25+0100", "is not an RFC 3339 date and time"),
        ("2026-11-29T18:59:25+24:00", "is not an RFC 3339 date and time"),
        ("2026-11-29T18:59:25Z\n", "is not an RFC 3339 date and time"),
        ("２０２６-11-29T18:59:25Z", "is not an RFC 3339 date and time"),
        ("2026-11-29T18:59:25", "has no time zone"),
        ("2026-11-29T18:59:25.633", "has no time zone"),
        ("2026-02-29T00:00:00Z", "names a day that does not exist"),
        ("2026-13-01T00:00:00Z", "names a day that does not exist"),
        ("10000-01-01T00:00:00Z", "is outside the years 1 to 9999"),
        ("+12026-01-01T00:00:00Z", "is outside the years 1 to 9999"),
        ("0000-12-31T00:00:00Z", "is outside the years 1 to 9999"),
        ("0001-01-01T00:00:00+01:00", "is outside the years 1 to 9999 in UTC"),
        ("9999-12-31T23:30:00-01:00", "is outside the years 1 to 9999 in UTC"),
        ("2026-11-29T18:59:25." + "3" * 60 + "Z", "is longer than 64 characters"),
    ],
)
def test_other_text_is_refused_with_its_reason(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match="^" + complaint + "$"):
        read_timestamp(text)


offsets = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(timezones=offsets).filter(lambda moment: 1 < moment.year < 9999))
def test_what_python_writes_is_read_back(moment: datetime) -> None:
    assert read_timestamp(moment.isoformat()) == moment
