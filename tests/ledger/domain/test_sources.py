from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ledger.domain.scopes import UNSCOPED, read_scope
from ledger.domain.sources import (
    Provenance,
    ProvenanceError,
    Source,
    hash_payload,
    is_repeat,
    read_source,
    require_writer,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def read(**members: Any) -> Source:
    return read_source({"service": "crm", "event_id": "evt-1", **members}, received_at=NOW)


def test_a_source_block() -> None:
    told = read(observed_at="2026-02-28T23:30:00-02:00", scope={"team": "red"}, evidence=[{"url": "x"}])
    assert told == Source(
        "crm", "evt-1", datetime(2026, 3, 1, 1, 30, tzinfo=UTC), True, read_scope({"team": "red"}), ({"url": "x"},)
    )


def test_without_a_time_of_its_own_it_was_observed_when_it_was_received_and_that_is_told() -> None:
    assert read() == Source("crm", "evt-1", NOW, False, UNSCOPED, ())
    assert read(observed_at=None, scope=None, evidence=None) == read()


def test_the_longest_that_is_taken() -> None:
    assert read(event_id="e" * 256).event_id == "e" * 256
    assert len(read(evidence=[1] * 64).evidence) == 64


@pytest.mark.parametrize("seconds", [-(10**9), 0, 299, 300])
def test_a_clock_may_be_a_little_ahead(seconds: int) -> None:
    observed = NOW + timedelta(seconds=seconds)
    assert read(observed_at=observed.isoformat()).observed_at == observed


@pytest.mark.parametrize(
    ("raw", "field", "complaint"),
    [
        ("crm", "source", "is not an object"),
        ({"event_id": "e"}, "source.service", "is missing"),
        ({"service": "crm"}, "source.event_id", "is missing"),
        ({"service": "crm", "event_id": "  "}, "source.event_id", "is missing"),
        ({"service": 3, "event_id": "e"}, "source.service", "is missing"),
        ({"service": "crm", "event_id": "e" * 257}, "source.event_id", "is longer than 256 characters"),
        ({"service": "s" * 257, "event_id": "e"}, "source.service", "is longer than 256 characters"),
        ({"service": "crm", "event_id": "e", "writer": "x"}, "source.writer", "is unknown"),
        (
            {"service": "crm", "event_id": "e", "observed_at": "2026-03-01T10:00:00"},
            "source.observed_at",
            "has no time zone",
        ),
        (
            {"service": "crm", "event_id": "e", "observed_at": "today"},
            "source.observed_at",
            "is not an RFC 3339 date and time",
        ),
        ({"service": "crm", "event_id": "e", "observed_at": 17}, "source.observed_at", "is not a text"),
        (
            {"service": "crm", "event_id": "e", "observed_at": "2026-03-01T12:05:00.001Z"},
            "source.observed_at",
            "is more than 300 s in the future",
        ),
        ({"service": "crm", "event_id": "e", "scope": 3}, "source.scope", "scope is not an object"),
        ({"service": "crm", "event_id": "e", "scope": {"type": 3}}, "source.scope.type", "scope.type is not a text"),
        ({"service": "crm", "event_id": "e", "evidence": {}}, "source.evidence", "is not a list"),
        ({"service": "crm", "event_id": "e", "evidence": [1] * 65}, "source.evidence", "has more than 64 elements"),
    ],
)
def test_malformed_sources(raw: Any, field: str, complaint: str) -> None:
    with pytest.raises(ProvenanceError) as caught:
        read_source(raw, received_at=NOW)
    assert (caught.value.provenance, caught.value.field) == (Provenance.MALFORMED, field)
    assert str(caught.value) == f"{field} {complaint}"


def test_the_codes_carry_their_status() -> None:
    assert {one.value: one.status for one in Provenance} == {
        "PROV_403": 403,
        "PROV_404": 404,
        "PROV_409": 409,
        "PROV_422": 422,
    }


REGISTERED = frozenset(("crm", "chat"))


def test_a_writer_signs_for_itself() -> None:
    assert require_writer("crm", bound_to="crm", registered=REGISTERED) == "crm"
    assert require_writer("crm", bound_to=None, registered=REGISTERED) == "crm"


@pytest.mark.parametrize(
    ("service", "bound_to", "provenance", "message"),
    [
        ("crm", "chat", Provenance.OTHER_WRITER, "the key is bound to another writer"),
        ("ghost", "chat", Provenance.OTHER_WRITER, "the key is bound to another writer"),
        ("ghost", None, Provenance.UNKNOWN_WRITER, "the writer is unknown"),
        ("ghost", "ghost", Provenance.UNKNOWN_WRITER, "the writer is unknown"),
    ],
)
def test_the_credential_decides_who_writes(
    service: str, bound_to: str | None, provenance: Provenance, message: str
) -> None:
    with pytest.raises(ProvenanceError, match=f"^{message}$") as caught:
        require_writer(service, bound_to=bound_to, registered=REGISTERED)
    assert (caught.value.provenance, caught.value.field) == (provenance, "source.service")


def payload(*contents: str) -> dict[str, Any]:
    return {"external_user_id": "u1", "messages": [{"role": "user", "content": content} for content in contents]}


def test_the_same_event_with_the_same_payload_is_a_retry() -> None:
    first = hash_payload(payload("I prefer tea"))
    assert not is_repeat(None, first)
    assert is_repeat(first, hash_payload(dict(reversed(payload("I prefer tea").items()))))


def test_the_same_event_with_other_messages_is_refused() -> None:
    first, other = hash_payload(payload("I prefer tea")), hash_payload(payload("I prefer coffee"))
    with pytest.raises(ProvenanceError, match="^the event is known with another payload$") as caught:
        is_repeat(first, other)
    assert (caught.value.provenance, caught.value.field) == (Provenance.CHANGED_PAYLOAD, "source.event_id")
    assert not is_repeat(None, other)


def test_a_payload_without_a_canonical_form_is_malformed() -> None:
    with pytest.raises(ProvenanceError, match="^/n: integer too large$") as caught:
        hash_payload({"n": 2**53})
    assert (caught.value.provenance, caught.value.field) == (Provenance.MALFORMED, "/n")
