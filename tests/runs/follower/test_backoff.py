"""How long to wait before asking again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from runs.follower.backoff import CAP, LONGEST_ASKED, Backoff, retry_after

NOW = datetime(2026, 11, 29, 18, 0, 0, tzinfo=UTC)


def test_upper_ends_double_up_to_the_cap() -> None:
    backoff = Backoff(lambda: 1.0)

    assert [backoff.failed() for _ in range(9)] == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_jitter_is_full() -> None:
    chances = iter([0.0, 0.25, 0.999])
    backoff = Backoff(lambda: next(chances))

    assert [backoff.failed() for _ in range(3)] == [0.0, 0.25, 1.998]


def test_success_begins_anew() -> None:
    backoff = Backoff(lambda: 1.0)
    backoff.failed()
    backoff.failed()
    backoff.succeeded()

    assert backoff.failed() == 0.5


def test_ten_thousand_failures_stay_at_the_cap() -> None:
    backoff = Backoff(lambda: 1.0)

    assert {backoff.failed() for _ in range(10_000)} <= {0.5, 1, 2, 4, 8, 16, CAP}


def test_what_the_host_asks_is_the_least() -> None:
    assert Backoff(lambda: 0.0).failed(asked=7.0) == 7.0
    assert Backoff(lambda: 1.0).failed(asked=0.1) == 0.5
    assert Backoff(lambda: 0.0).failed(asked=1e9) == LONGEST_ASKED


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("7", 7.0),
        (" 0 ", 0.0),
        ("999999999999999999", LONGEST_ASKED),
        ("Sun, 29 Nov 2026 18:00:30 GMT", 30.0),
        ("Sunday, 29-Nov-26 18:00:30 GMT", 30.0),
        ("Sun, 29 Nov 2026 17:00:00 GMT", 0.0),
        ("-5", None),
        ("7.5", None),
        ("soon", None),
        ("٧", None),
        ("", None),
    ],
)
def test_retry_after(given: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": given}, None, now=NOW) == seconds


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ({"details": {"retryAfterMs": 2500}}, 2.5),
        ({"details": {"retryAfterMs": -1}}, None),
        ({"details": {"retryAfterMs": True}}, None),
        ({"details": {"retryAfterMs": "2500"}}, None),
        ({"details": {"retryAfterMs": float("nan")}}, None),
        ({"details": []}, None),
        ([], None),
        (None, None),
    ],
)
def test_the_first_majors_own_member(body: object, seconds: float | None) -> None:
    assert retry_after({}, body, now=NOW) == seconds


def test_the_header_goes_before_the_body() -> None:
    assert retry_after({"retry-after": "3"}, {"details": {"retryAfterMs": 9000}}, now=NOW) == 3.0
