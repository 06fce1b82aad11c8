from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ledger.domain.periods import PeriodError
from ledger.domain.snapshot_rule import (
    MAX_PAGE,
    Cursor,
    Entry,
    EntryRefused,
    Snapshot,
    check_entry,
    clean_tags,
    get,
    is_visible,
    list_entries,
)
from tests.ledger.domain.making import at

RUN = Snapshot(at(10), "run-1")
MILLISECOND = timedelta(milliseconds=1)


def entry(name: str = "m1", *, hour: float = 0, **members: Any) -> Entry:
    return Entry(name, members.pop("memory_ref", "notes"), at(hour), **members)


@pytest.mark.parametrize(
    ("found", "now", "expected"),
    [
        (entry(hour=0), 0, True),
        (entry(hour=1), 0, False),
        (entry(deleted_at=at(5)), 4.9, True),
        (entry(deleted_at=at(5)), 5, False),
        (entry(expires_at=at(5)), 5, False),
        (entry(expires_at=at(5)), 4.9, True),
        (entry(is_erased=True), 0, False),
        (entry(written_by="run-1"), 0, True),
    ],
)
def test_what_is_visible_now(found: Entry, now: float, expected: bool) -> None:
    assert is_visible(found, now=at(now)) is expected


def test_an_entry_expires_to_the_millisecond() -> None:
    found = entry(expires_at=at(5))
    assert is_visible(found, now=at(5) - MILLISECOND)
    assert not is_visible(found, now=at(5))
    assert not is_visible(found, now=at(5) + MILLISECOND)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (entry(hour=0), True),
        (entry(hour=10), True),
        (entry(hour=10.1), False),
        (entry(hour=0, deleted_at=at(10.1)), True),
        (entry(hour=0, deleted_at=at(10)), False),
        (entry(hour=0, expires_at=at(10.1)), True),
        (entry(hour=0, expires_at=at(10)), False),
        (entry(hour=10, written_by="run-1"), False),
        (entry(hour=0, written_by="run-0"), True),
        (entry(hour=0, is_erased=True), False),
    ],
)
@pytest.mark.parametrize("now", [10, 11, 1000])
def test_a_run_sees_what_was_visible_when_it_started_whatever_happens_later(
    found: Entry, expected: bool, now: float
) -> None:
    assert is_visible(found, now=at(now), snapshot=RUN) is expected
    assert (get([found], "notes", "m1", now=at(now), snapshot=RUN) is found) is expected


def test_get_answers_alike_for_what_is_not_there() -> None:
    known = [entry("m1"), entry("m2", deleted_at=at(1)), entry("m1", memory_ref="other")]
    assert get(known, "notes", "m1", now=at(5)) is known[0]
    assert get(known, "other", "m1", now=at(5)) is known[2]
    for ref, name in (("notes", "m2"), ("notes", "m3"), ("foreign", "m1"), ("", "")):
        assert get(known, ref, name, now=at(5)) is None


def names(entries: tuple[Entry, ...]) -> list[str]:
    return [one.id for one in entries]


KNOWN = [
    entry("m1", hour=1, tags=frozenset(("red",))),
    entry("m3", hour=3, tags=frozenset(("red", "blue"))),
    entry("m2", hour=2),
    entry("m2b", hour=2, tags=frozenset(("blue",))),
    entry("gone", hour=2, deleted_at=at(4)),
    entry("far", hour=2, memory_ref="other"),
]


def test_the_newest_come_first() -> None:
    page = list_entries(KNOWN, "notes", now=at(5))
    assert (names(page.entries), page.next) == (["m3", "m2b", "m2", "m1"], None)


def test_a_tag_is_a_member_of_the_set() -> None:
    assert names(list_entries(KNOWN, "notes", now=at(5), tag="blue").entries) == ["m3", "m2b"]
    assert names(list_entries(KNOWN, "notes", now=at(5), tag="re").entries) == []


def test_a_list_as_of_a_run() -> None:
    assert names(list_entries(KNOWN, "notes", now=at(99), snapshot=Snapshot(at(2), "r")).entries) == [
        "m2b",
        "m2",
        "gone",
        "m1",
    ]


def test_pages_lead_on_until_there_is_nothing_more() -> None:
    first = list_entries(KNOWN, "notes", now=at(5), limit=2)
    assert (names(first.entries), first.next) == (["m3", "m2b"], Cursor(at(2), "m2b"))
    second = list_entries(KNOWN, "notes", now=at(5), limit=2, after=first.next)
    assert (names(second.entries), second.next) == (["m2", "m1"], None)
    assert list_entries(KNOWN, "notes", now=at(5), limit=4).next is None
    assert list_entries(KNOWN, "notes", now=at(5), limit=3).next == Cursor(at(2), "m2")
    assert list_entries([], "notes", now=at(5), limit=1).next is None


def test_limit_0_asks_for_no_limit_and_gets_a_page_with_a_cursor() -> None:
    many = [entry(f"m{number:04}", hour=number / 100) for number in range(MAX_PAGE + 1)]
    for limit in (0, MAX_PAGE, MAX_PAGE + 7):
        page = list_entries(many, "notes", now=at(99), limit=limit)
        assert (len(page.entries), page.next) == (500, Cursor(at(0.01), "m0001"))
    rest = list_entries(many, "notes", now=at(99), after=page.next)
    assert (names(rest.entries), rest.next) == (["m0000"], None)
    assert len(list_entries(many, "notes", now=at(99), limit=1).entries) == 1


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(EntryRefused, match="^limit is negative$") as caught:
        list_entries([], "notes", now=at(0), limit=-1)
    assert (caught.value.field, caught.value.code) == ("limit", "validation_error")


def test_empty_and_repeated_tags_are_dropped() -> None:
    assert clean_tags(["b", "", "a", "  ", "b"]) == ("b", "a")
    assert clean_tags(["t" * 256]) == ("t" * 256,)


@pytest.mark.parametrize(
    ("tags", "complaint"),
    [(["a", "t" * 257], "tags[1] is longer than 256 characters"), (["a", 3], "tags[1] is not a text")],
)
def test_tags_that_are_refused(tags: list[Any], complaint: str) -> None:
    with pytest.raises(EntryRefused) as caught:
        clean_tags(tags)
    assert (str(caught.value), caught.value.field) == (complaint, "tags")


def test_the_size_of_an_entry_counts_content_and_tags_in_utf_8() -> None:
    check_entry("é" * 3, ["ab"], expires_at=None, now=at(0), max_bytes=8)
    with pytest.raises(EntryRefused) as caught:
        check_entry("é" * 3, ["abc"], expires_at=None, now=at(0), max_bytes=8)
    assert str(caught.value) == "the entry has 9 bytes, more than maxEntrySizeBytes (8)"
    assert caught.value.field == "content"
    check_entry("\ud800", [], expires_at=None, now=at(0), max_bytes=3)


def test_an_entry_that_has_expired_is_refused() -> None:
    check_entry("x", [], expires_at=at(0) + MILLISECOND, now=at(0), max_bytes=9)
    with pytest.raises(EntryRefused, match="^expiresAt is not in the future$") as caught:
        check_entry("x", [], expires_at=at(0), now=at(0), max_bytes=9)
    assert (caught.value.field, caught.value.code) == ("expiresAt", "validation_error")
    with pytest.raises(PeriodError) as naive:
        check_entry("x", [], expires_at=at(1).replace(tzinfo=None), now=at(0), max_bytes=9)
    assert naive.value.field == "expiresAt"
