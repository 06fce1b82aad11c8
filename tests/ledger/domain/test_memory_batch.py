"""Entries that are handed in: what is taken, and what is wrong with the others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ledger.domain.memory_batch import MOST_ENTRIES, NotABatch, read_batch


def entry(**members: Any) -> dict[str, Any]:
    """Members of ``...`` are left out."""
    whole = {"id": "m1", "content": "text", "tags": ["a"], "createdAt": "2026-03-01T12:00:00Z"} | members
    return {name: value for name, value in whole.items() if value is not ...}


def body(*entries: Any, ref: Any = "notes") -> bytes:
    return json.dumps({"memoryRef": ref, "entries": list(entries)}).encode()


def test_entries_are_read() -> None:
    batch = read_batch(body(entry(), entry(id="m2", content="", tags=[], expiresAt="2026-03-02T12:00:00Z")))
    assert (batch.memory_ref, batch.refused) == ("notes", ())
    assert [(one.id, one.content, one.tags) for one in batch.entries] == [("m1", "text", ("a",)), ("m2", "", ())]


def test_members_nobody_knows_are_left_aside() -> None:
    assert len(read_batch(body(entry(author="somebody", expiresAt=None))).entries) == 1


BAD: dict[str, tuple[Any, str | None]] = {
    "no object": ("text", None),
    "no id": (entry(id=...), "id"),
    "an empty id": (entry(id=""), "id"),
    "an id as a number": (entry(id=7), "id"),
    "an id as a number and no content": (entry(id=7, content=...), "id"),
    "an overlong id": (entry(id="x" * 1501), "id"),
    "no content": (entry(content=...), "content"),
    "content as an object": (entry(content={"a": 1}), "content"),
    "no tags": (entry(tags=...), "tags"),
    "tags as a text": (entry(tags="a"), "tags"),
    "a tag as a number": (entry(tags=["a", 1]), "tags"),
    "an overlong tag": (entry(tags=["x" * 257]), "tags"),
    "no createdAt": (entry(createdAt=...), "createdAt"),
    "createdAt without a zone": (entry(createdAt="2026-03-01T12:00:00"), "createdAt"),
    "createdAt as a number": (entry(createdAt=1772366400), "createdAt"),
    "expiresAt on no day": (entry(expiresAt="2026-02-30T12:00:00Z"), "expiresAt"),
    "an id twice": (entry(id="m0"), "id"),
}


@pytest.mark.parametrize("bad, field", BAD.values(), ids=BAD.keys())
def test_a_bad_entry_is_named_by_index_and_field_and_the_others_are_read(bad: Any, field: str | None) -> None:
    batch = read_batch(body(entry(id="m0"), bad, entry(id="m2")))
    assert [one.id for one in batch.entries] == ["m0", "m2"]
    ((refused),) = batch.refused
    assert (refused.index, refused.field) == (1, field)
    assert refused.reason


@pytest.mark.parametrize(
    "text, field",
    [
        (b"", "body"),
        (b"{", "body"),
        (b"\xff", "body"),
        (b"[]", "body"),
        (b"null", "body"),
        (b"[" * 100_000, "body"),
        (body(ref=None), "memoryRef"),
        (body(ref=""), "memoryRef"),
        (body(ref=7), "memoryRef"),
        (body(ref="x" * 2049), "memoryRef"),
        (body(entry(), ref="sk-live-0123456789abcdef"), "memoryRef"),
        (b'{"memoryRef": "notes"}', "entries"),
        (b'{"memoryRef": "notes", "entries": {}}', "entries"),
        (body(*[1] * (MOST_ENTRIES + 1)), "entries"),
    ],
)
def test_what_is_no_batch_is_refused_as_a_whole(text: bytes, field: str) -> None:
    with pytest.raises(NotABatch) as refusal:
        read_batch(text)
    assert refusal.value.field == field


def test_texts_come_through_as_they_are() -> None:
    odd = "\0\ud800\ue000目 \u202e"
    (one,) = read_batch(body(entry(id=odd, content=odd, tags=[odd]), ref=odd)).entries
    assert (one.id, one.content, one.tags) == (odd, odd, (odd,))


def test_an_array_needs_a_ref_from_elsewhere() -> None:
    text = json.dumps([entry()]).encode()
    assert read_batch(text, memory_ref="notes").memory_ref == "notes"
    assert read_batch(body(entry(), ref="own"), memory_ref="notes").memory_ref == "own"


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (entry(content=...), "content is missing"),
        (entry(content=7), "content is no text"),
        (entry(tags=...), "tags are missing"),
        (entry(tags=[1]), "tags are no array of texts"),
        (entry(tags=["x" * 257]), "a tag of more than 256 characters"),
        (entry(createdAt=...), "createdAt is missing"),
        (entry(createdAt=7), "createdAt is no text"),
        (entry(createdAt="2026-03-01T12:00:00"), "createdAt has no time zone"),
    ],
)
def test_a_complaint_says_what_is_wrong(bad: Any, words: str) -> None:
    ((refused),) = read_batch(body(bad)).refused
    assert refused.reason == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"{", "is no JSON"),
        (b"[]", "is no JSON object with memoryRef and entries"),
        (body(ref=""), "is not a text of 1 to 2048 characters"),
        (body(entry(), ref="sk-live-0123456789abcdef"), "has the shape of a credential"),
        (b'{"memoryRef": "notes", "entries": {}}', "is no array"),
        (body(*[1] * (MOST_ENTRIES + 1)), "has more than 10,000 entries"),
    ],
)
def test_a_refusal_says_what_is_wrong(text: bytes, words: str) -> None:
    with pytest.raises(NotABatch) as refusal:
        read_batch(text)
    assert str(refusal.value) == words


def test_what_is_just_small_enough_is_taken() -> None:
    batch = read_batch(body(*(entry(id=f"m{n}", tags=["x" * 256]) for n in range(3)), ref="x" * 2048))
    assert (len(batch.entries), batch.refused) == (3, ())
    assert read_batch(body(entry(), ref="x")).memory_ref == "x"
    most = read_batch(body(*[1] * MOST_ENTRIES))
    assert len(most.refused) == MOST_ENTRIES


def test_a_ref_of_words_that_hyphens_join_is_no_credential() -> None:
    assert read_batch(body(entry(), ref="sk-support-team-memory-notes")).memory_ref == "sk-support-team-memory-notes"
