"""What a look says, when the next one is due, and what changed between two."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.domain.observing import (
    AGAIN,
    EXCERPT,
    GONE,
    MOST_MARKERS,
    LineChange,
    Part,
    Sight,
    compare_lines,
    next_look,
    parts_of,
    retry_look,
    state_of,
)
from runs.domain.memory_read import MemoryEntry, read_memory_entry

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


def sight(content: str | None = "text", **told: object) -> Sight:
    return Sight("content", content, **told)  # type: ignore[arg-type]


def test_a_sight_takes_over_what_the_host_said() -> None:
    key = b"sk-live-0123456789abcdef"
    entry = read_memory_entry(
        {
            "id": "m1",
            "content": "call [REDACTED:crm] with sk-live-0123456789abcdef",
            "tags": ["a", "node:sum"],
            "createdAt": "2026-03-01T12:00:00Z",
            "expiresAt": "2026-03-02T12:00:00Z",
            "author": "nobody",
        },
        index=0,
    )
    assert isinstance(entry, MemoryEntry)
    assert Sight.of(entry) == Sight(
        outcome="content",
        content=f"call [REDACTED:crm] with [quarantined sha256:{hashlib.sha256(key).hexdigest()} bytes:{len(key)}]",
        tags=("a", "node:sum"),
        created_at=NOON,
        expires_at=NOON + timedelta(days=1),
        redactions=1,
        looks_secret=True,
        detail='unknown member "author"',
    )


@pytest.mark.parametrize("text", ["", "text", "\0\ue000", "目标", "\ud800"])
def test_the_digest_is_over_the_text_as_it_came(text: str) -> None:
    assert sight(text).digest == hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def test_what_is_said_tells_a_missing_text_from_an_empty_one_and_from_none() -> None:
    assert len({sight("").said, sight(None).said, GONE.said}) == 3


@pytest.mark.parametrize(
    "other",
    [
        sight("another"),
        sight(tags=("t",)),
        sight(created_at=NOON),
        sight(expires_at=NOON),
        sight(expires_at=NOON + timedelta(microseconds=1)),
        GONE,
    ],
)
def test_looks_that_differ_say_something_else(other: Sight) -> None:
    assert other.said != sight().said


def test_how_it_was_read_is_no_part_of_what_it_says() -> None:
    assert sight(detail="unknown member", redactions=0).said == sight().said


@pytest.mark.parametrize(
    "content, excerpt",
    [
        ("a\n\n b\tc", "a b c"),
        ("", ""),
        (" \n ", ""),
        (None, None),
        ("x" * 1000, "x" * EXCERPT),
        ("目" * 1000, "目" * EXCERPT),
    ],
)
def test_an_excerpt_is_the_beginning_on_one_line(content: str | None, excerpt: str | None) -> None:
    assert sight(content).excerpt == excerpt


def test_what_looks_like_a_key_has_no_excerpt() -> None:
    assert sight("sk-live-0123456789abcdef", looks_secret=True).excerpt is None


@pytest.mark.parametrize(
    "outcome, expires_in, state",
    [
        (None, None, "announced"),
        (None, -MILLISECOND, "announced"),
        ("content", None, "stored"),
        ("content", MILLISECOND, "stored"),
        ("content", timedelta(0), "expired"),
        ("content", -MILLISECOND, "expired"),
        ("gone", None, "gone"),
        ("gone", -MILLISECOND, "expired"),
        ("deleted", None, "deleted"),
        ("deleted", -MILLISECOND, "deleted"),
        ("erased", MILLISECOND, "erased"),
        ("erased", -MILLISECOND, "erased"),
    ],
)
def test_the_state_of_an_entry(outcome: str | None, expires_in: timedelta | None, state: str) -> None:
    assert state_of(outcome, None if expires_in is None else NOON + expires_in, NOON) == state


def test_looks_grow_rarer_and_end() -> None:
    dues = [next_look(unchanged, now=NOON, expires_at=None) for unchanged in range(len(AGAIN) + 1)]
    assert dues[0] == NOON + timedelta(minutes=5)
    assert dues[:-1] == sorted(dues[:-1])  # type: ignore[type-var]
    assert dues[-1] is None


def test_what_will_have_expired_is_not_looked_at() -> None:
    soon = NOON + AGAIN[0]
    assert next_look(0, now=NOON, expires_at=soon) is None
    assert next_look(0, now=NOON, expires_at=soon + MILLISECOND) == soon


@pytest.mark.parametrize(
    "failures, asked, seconds",
    [
        (1, None, 15),
        (2, None, 30),
        (3, 5.0, 60),
        (1, 120.0, 120),
        (20, None, 3600),
        (9999, None, 3600),
        (1, 1e30, 3600),
    ],
)
def test_failures_are_tried_again_later_each_time(failures: int, asked: float | None, seconds: int) -> None:
    due = retry_look(failures, now=NOON, first=timedelta(seconds=15), asked=asked)
    assert due == NOON + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "before, after, added, removed",
    [
        ("a\nb", "a\nb\nc", 1, 0),
        ("a\nb", "b", 0, 1),
        ("a", "b", 1, 1),
        ("a\na", "a", 0, 1),
        ("a\nb", "b\na", 0, 0),
        ("", "a", 1, 0),
    ],
)
def test_lines_that_only_one_text_has_are_counted(before: str, after: str, added: int, removed: int) -> None:
    assert compare_lines(before, after) == LineChange(added, removed)


def test_markers_are_set_apart_from_the_text() -> None:
    assert parts_of("call [REDACTED:crm] or <redacted> now") == (
        Part("call ", False),
        Part("[REDACTED:crm]", True),
        Part(" or ", False),
        Part("<redacted>", True),
        Part(" now", False),
    )
    assert parts_of("[REDACTED]") == (Part("[REDACTED]", True),)
    assert parts_of("plain") == (Part("plain", False),)
    assert parts_of("") == ()


def test_a_text_of_markers_only_stays_readable() -> None:
    parts = parts_of("[REDACTED]" * (MOST_MARKERS + 10))
    assert sum(part.is_marker for part in parts) == MOST_MARKERS
    assert "".join(part.text for part in parts) == "[REDACTED]" * (MOST_MARKERS + 10)


@given(st.lists(st.sampled_from(["[REDACTED]", "[REDACTED:x]", "a", "\n", "[", "]", "\0"])))
def test_parts_are_the_whole_text(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert "".join(part.text for part in parts_of(text)) == text


def test_what_was_odd_about_an_entry_is_told_in_one_line() -> None:
    raw = {"id": "m1", "content": "text", "tags": [], "createdAt": "2026-03-01T12:00:00Z", "author": 1, "mood": 2}
    entry = read_memory_entry(raw, index=0)
    assert isinstance(entry, MemoryEntry)
    assert Sight.of(entry).detail == 'unknown member "author"; unknown member "mood"'


def test_a_pause_may_be_shorter_than_a_second() -> None:
    half = timedelta(milliseconds=500)
    assert retry_look(1, now=NOON, first=half) == NOON + half
