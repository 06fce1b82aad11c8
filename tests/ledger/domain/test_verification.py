from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.domain.verification import Finding, Verification, verify_content, verify_payload


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_hash_is_over_the_canonical_form_however_it_is_kept() -> None:
    known = digest('{"a":1,"b":"ü"}')
    for kept in ('{"a":1,"b":"ü"}', '{ "b": "\\u00fc", "a": 1.0 }'):
        assert verify_payload(kept, known) == Verification(Finding.MATCHES, known)


@pytest.mark.parametrize(
    ("kept", "finding"),
    [
        ('{"a":2,"b":"ü"}', Finding.DIFFERS),
        ('{"a":1,"b":"[REDACTED:aws-access-key]"}', Finding.REDACTED),
        ('{"a":1,"b":"<REDACTED:openai>"}', Finding.REDACTED),
        ('{"a":1,"b":"[REDACTED]"}', Finding.REDACTED),
        ('{"a":1,"b":"REDACTED"}', Finding.DIFFERS),
        ('{"a":1', Finding.DIFFERS),
        ('{"a":9007199254740993}', Finding.DIFFERS),
        ("[" * 100_000, Finding.DIFFERS),
        (None, Finding.TAKEN_AWAY),
    ],
)
def test_what_is_kept_is_never_said_to_be_what_came_when_it_is_not(kept: str | None, finding: Finding) -> None:
    assert verify_payload(kept, digest('{"a":1,"b":"ü"}')).finding is finding


def test_a_marker_that_came_so_is_no_redaction() -> None:
    kept = '{"b":"[REDACTED:x]"}'
    assert verify_payload(kept, digest(kept)).finding is Finding.MATCHES


def test_a_content_is_hashed_as_its_text() -> None:
    assert verify_content("grün", digest("grün")).finding is Finding.MATCHES
    assert verify_content("", digest("")).finding is Finding.MATCHES
    assert verify_content("blau", digest("grün")) == Verification(Finding.DIFFERS, digest("blau"))
    assert verify_content("[REDACTED:k]", digest("grün")).finding is Finding.REDACTED
    assert verify_content(None, digest("grün")) == Verification(Finding.TAKEN_AWAY)
    half = hashlib.sha256(b"\xed\xa0\x80").hexdigest()
    assert verify_content("\ud800", half) == Verification(Finding.MATCHES, half)


@given(
    payload=st.dictionaries(st.text(), st.none() | st.booleans() | st.text() | st.integers(-(2**53) + 1, 2**53 - 1)),
    other=st.text(),
)
def test_another_payload_has_another_hash(payload: dict[str, Any], other: str) -> None:
    known = verify_payload(json.dumps(payload), "").computed
    assert known is not None
    assert verify_payload(json.dumps(payload, indent=3, sort_keys=True), known).finding is Finding.MATCHES
    assert verify_payload(json.dumps(payload | {"other": [other]}), known).finding is not Finding.MATCHES
