from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from ledger.domain.memory_put import AskedPut, is_ref, read_put
from ledger.domain.snapshot_rule import EntryRefused

ENTRY = {"content": "c", "tags": ["t"], "expiresAt": "2099-01-01T12:00:00+02:00"}


def put(**members: Any) -> bytes:
    return json.dumps({"memoryRef": "r", "entry": ENTRY} | members).encode()


def entry(**members: Any) -> bytes:
    return put(entry={"content": "c"} | members)


READ: list[tuple[bytes, AskedPut]] = [
    (put(), AskedPut("r", "c", ("t",), datetime(2099, 1, 1, 10, tzinfo=UTC), "")),
    (put(run="run-1"), AskedPut("r", "c", ("t",), datetime(2099, 1, 1, 10, tzinfo=UTC), "run-1")),
    (put(run=None, entry={"content": ""}), AskedPut("r", "", (), None, "")),
    (entry(tags=None, expiresAt=None), AskedPut("r", "c", (), None, "")),
    (entry(tags=["a", "", " ", "a", "b"]), AskedPut("r", "c", ("a", "b"), None, "")),
    (entry(tags=["t" * 256] * 100), AskedPut("r", "c", ("t" * 256,), None, "")),
    (put(memoryRef="r" * 1500, entry={"content": "c"}), AskedPut("r" * 1500, "c", (), None, "")),
    (put(run="r" * 1200, entry={"content": "c"}), AskedPut("r", "c", (), None, "r" * 1200)),
    (b'{"memoryRef":"\\ud800","entry":{"content":"\\udfff"}}', AskedPut("\ud800", "\udfff", (), None, "")),
]


@pytest.mark.parametrize(("body", "asked"), READ)
def test_what_is_asked_for(body: bytes, asked: AskedPut) -> None:
    assert read_put(body) == asked


REFUSED: list[tuple[bytes, str, str]] = [
    (b"{", "body", "the body is no JSON"),
    (b"[" * 100_000, "body", "the body is no JSON"),
    (b"null", "body", "body is no object"),
    (put(memoryRef=None), "memoryRef", "memoryRef is not a text of 1 to 1500 characters"),
    (put(memoryRef="r" * 1501), "memoryRef", "memoryRef is not a text of 1 to 1500 characters"),
    (put(memoryRef=""), "memoryRef", "memoryRef is not a text of 1 to 1500 characters"),
    (put(entry="c"), "entry", "entry is no object"),
    (put(entry={}), "entry.content", "content is missing"),
    (entry(content=5), "entry.content", "content is no text"),
    (entry(tags="t"), "entry.tags", "tags are no array of texts"),
    (entry(tags=["t"] * 101), "entry.tags", "there are more than 100 tags"),
    (entry(tags=["t", 5]), "entry.tags", "tags[1] is not a text"),
    (entry(tags=["t" * 257]), "entry.tags", "tags[0] is longer than 256 characters"),
    (entry(expiresAt=5), "entry.expiresAt", "expiresAt is no text"),
    (entry(expiresAt="2099-01-01T00:00:00"), "entry.expiresAt", "expiresAt has no time zone"),
    (entry(id="m"), "entry.id", "entry.id is not known here; there are content, tags, expiresAt"),
    (put(actor="a"), "actor", "actor is not known here; there are memoryRef, entry, run"),
    (put(**{"x" * 99: 1}), "x" * 80, f"{'x' * 80} is not known here; there are memoryRef, entry, run"),
    (put(run=""), "run", "run is not a text of 1 to 1200 characters"),
    (put(run="r" * 1201), "run", "run is not a text of 1 to 1200 characters"),
    (put(run=5), "run", "run is not a text of 1 to 1200 characters"),
]


@pytest.mark.parametrize(("body", "field", "words"), REFUSED)
def test_what_is_refused_and_where(body: bytes, field: str, words: str) -> None:
    with pytest.raises(EntryRefused) as refused:
        read_put(body)
    assert (refused.value.field, str(refused.value)) == (field, words)


@pytest.mark.parametrize(("text", "is_one"), [("", False), ("r", True), ("r" * 1500, True), ("r" * 1501, False)])
def test_what_can_be_a_ref(text: str, is_one: bool) -> None:
    assert is_ref(text) is is_one
