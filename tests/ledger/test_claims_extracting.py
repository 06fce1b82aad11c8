"""Claims in messages and entries: read by rules here or by a model elsewhere, at once or later."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from ledger.claims_store import add, share_rules
from ledger.claims_store.entries import read_entries, subject_of_entry
from ledger.claims_store.jobs import ATTEMPTS, work_on_jobs
from ledger.claims_worker import work_for
from ledger.domain.extraction import Message
from ledger.domain.memory_batch import read_batch
from ledger.domain.submissions import Permitted, read_submission
from ledger.http_extractor import MAX_ANSWER_BYTES, ExtractorFailed, HttpExtractor
from ledger.models import ClaimRow, Job, SourceEvent, UnreadEntry
from ledger.observations import Source, take_batch
from ledger.queries.claims import ClaimFilter, memories
from ledger.queries.sources import find_job
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.models import Host
from runs.store import ref
from tests.hosts.language_model import (
    LanguageModel,
    Respond,
    hangs_up,
    language_model,
    message,
    never_ends,
    raw,
    says,
)
from tests.ledger.claims import at, body, conflicts, make_writer, plan, shown, statuses

pytestmark = pytest.mark.django_db
TEXT = "My subscription plan is Growth."


def claim(**told: Any) -> dict[str, Any]:
    known = {"category": "fact", "key": "subscription_plan", "value": "Growth", "message": 0}
    return {**known, "content": "subscription plan is Growth", **told}


def extractor(model: LanguageModel, **told: Any) -> HttpExtractor:
    return HttpExtractor(model.base, "small", "secret-key", **told)


# --- the model ---


def test_a_model_reads_claims_and_says_where() -> None:
    with language_model(says({"claims": [claim()]})) as model:
        (found,) = extractor(model).extract([Message(TEXT)])
    assert (found.category, found.key, found.value, found.extractor) == (
        "fact",
        "subscription_plan",
        "Growth",
        "openai-1:small",
    )
    assert found.span is not None and TEXT[found.span.start : found.span.end] == found.content
    assert model.keys == ["Bearer secret-key"] and model.paths == ["/v1/chat/completions"]
    assert model.asked[0]["model"] == "small" and TEXT in model.asked[0]["messages"][1]["content"]


def test_nothing_to_extract_is_an_answer() -> None:
    with language_model(says({"claims": []})) as model:
        assert extractor(model).extract([Message("Hello!")]) == ()


@pytest.mark.parametrize(
    ("respond", "why"),
    [
        pytest.param(raw(b"busy", 503), "answered 503", id="an error"),
        pytest.param(raw(b"<html>"), "no JSON as its answer", id="a page"),
        pytest.param(raw(b'{"choices": []}'), "has no message", id="no choice"),
        pytest.param(message(None), "is no text", id="no content"),
        pytest.param(message("Sure! Here are the claims:"), "no JSON as its message", id="chatter"),
        pytest.param(message("[" * 100_000), "no JSON as its message", id="too deep"),
        pytest.param(says([]), "no list of at most", id="no object"),
        pytest.param(says({"claims": [claim()] * 300}), "no list of at most", id="too many"),
        pytest.param(says({"claims": ["plan"]}), "claim 0 cannot be read", id="no claim"),
        pytest.param(says({"claims": [claim(key="")]}), "key is empty", id="no key"),
        pytest.param(says({"claims": [claim(value={"a": 1})]}), "no text, number or truth", id="an object as value"),
        pytest.param(says({"claims": [claim(value=None)]}), "claim 0", id="no value"),
        pytest.param(says({"claims": [claim(message=7)]}), "no index", id="no such message"),
        pytest.param(says({"claims": [claim(content="invented words")]}), "not in the message", id="invented words"),
        pytest.param(hangs_up, "did not answer", id="it hangs up"),
        pytest.param(never_ends, f"more than {MAX_ANSWER_BYTES}", id="it never ends"),
    ],
)
def test_a_model_that_misbehaves_is_refused_whole(respond: Respond, why: str) -> None:
    with language_model(respond) as model, pytest.raises(ExtractorFailed, match=why):
        extractor(model).extract([Message(TEXT)])


def test_a_model_that_is_away_is_a_failure() -> None:
    with pytest.raises(ExtractorFailed, match="did not answer"):
        HttpExtractor("http://127.0.0.1:9/v1", "small").extract([Message(TEXT)])


# --- queued jobs ---


def queue(tenant: Tenant, *bodies: dict[str, Any]) -> list[Any]:
    now = timezone.now()
    with tenant_scope(tenant.pk):
        rules = share_rules(tenant.pk)
        told = [read_submission(one, Permitted(None, rules.registered, rules.keys), received_at=now) for one in bodies]
        return add(tenant.pk, told, received_from="key:test", received_at=now, later=True)


def job(tenant: Tenant, taken: Any) -> Any:
    with tenant_scope(tenant.pk):
        return find_job(tenant.pk, taken.job)


def test_messages_wait_for_the_model_and_explicit_claims_do_not(tenant: Tenant) -> None:
    make_writer(tenant, "billing")
    (taken,) = queue(tenant, body("e1", messages=[TEXT], claims=[{"key": "city", "value": "Bern"}]))
    assert taken.status == "queued"
    assert shown(tenant) == [("user-1", "Bern")]
    with language_model(says({"claims": [claim()]})) as model:
        assert not work_on_jobs(tenant.pk, extractor(model))
    assert shown(tenant) == [("user-1", "Bern"), ("user-1", "Growth")]
    done = job(tenant, taken)
    assert (done.status, done.extractor, len(done.result["claims"])) == ("done", "openai-1:small", 2)
    with tenant_scope(tenant.pk):
        assert set(ClaimRow.objects.values_list("extractor", flat=True)) == {"explicit-1", "openai-1:small"}
    (again,) = queue(tenant, body("e1", messages=[TEXT], claims=[{"key": "city", "value": "Bern"}]))
    assert (again.is_repeat, again.status) == (True, "done")


def test_a_job_is_tried_again_and_fails_for_good_in_the_end(tenant: Tenant) -> None:
    make_writer(tenant, "billing")
    (taken,) = queue(tenant, body("e1", messages=[TEXT]))
    with language_model(raw(b"", 500)) as model:
        now = timezone.now()
        for attempt in range(1, ATTEMPTS + 1):
            now += timedelta(hours=1)
            work_on_jobs(tenant.pk, extractor(model), now=now)
            found = job(tenant, taken)
            assert found.attempts == attempt and "500" in found.error
            assert found.status == ("failed" if attempt == ATTEMPTS else "queued")
        assert len(model.asked) == ATTEMPTS
        work_on_jobs(tenant.pk, extractor(model), now=now + timedelta(hours=1))
        assert len(model.asked) == ATTEMPTS
    assert shown(tenant) == []


def test_a_job_whose_payload_was_taken_away_says_so(tenant: Tenant) -> None:
    make_writer(tenant, "billing")
    (taken,) = queue(tenant, body("e1", messages=[TEXT]))
    with tenant_scope(tenant.pk):
        SourceEvent.objects.update(payload=None, payload_redacted_at=timezone.now())
    with language_model(says({"claims": []})) as model:
        work_on_jobs(tenant.pk, extractor(model))
    assert model.asked == [] and "taken away" in job(tenant, taken).error


# --- entries of hosts ---


def see(
    host: Host, content: str | None, *, hours: float, entry: str = "m1", ref_name: str = "notes", **told: Any
) -> None:
    """The entry as it was found at that time."""
    member = {"id": entry, "content": content, "tags": [], "createdAt": at(0).isoformat(), **told}
    batch = read_batch(json.dumps({"memoryRef": ref_name, "entries": [member]}).encode())
    assert not batch.refused
    take_batch(ref(host), batch, source=Source.PUSH, at=at(hours))


def remembered(tenant: Tenant, *, every: bool = False) -> list[tuple[str, str, str]]:
    with tenant_scope(tenant.pk):
        found = memories(tenant.pk, ClaimFilter(every=every))
    return [(row.writer, row.display, row.status) for row in found.rows]


def test_what_an_entry_says_is_a_claim_of_its_host(tenant: Tenant, host: Host) -> None:
    see(host, TEXT, hours=1)
    assert remembered(tenant) == []
    work_for(tenant.pk)
    assert remembered(tenant) == [("host:alpha", "Growth", "active")]
    with tenant_scope(tenant.pk):
        event = SourceEvent.objects.get()
        assert (event.kind, event.subject, event.entry_number) == ("entry", "host:alpha/notes", 1)
        assert (event.observed_at, event.is_observed, event.payload) == (at(0), True, None)
        assert not UnreadEntry.objects.exists()
    see(host, TEXT, hours=2)
    work_for(tenant.pk)
    assert remembered(tenant, every=True) == [("host:alpha", "Growth", "active")]


def test_an_entry_with_nothing_to_extract_has_a_job_that_says_so(tenant: Tenant, host: Host) -> None:
    see(host, "Hello there!", hours=1)
    work_for(tenant.pk)
    with tenant_scope(tenant.pk):
        assert Job.objects.get().result == {"claims": [], "conflicts": [], "nothing_to_extract": True}


def test_what_an_entry_says_no_longer_is_taken_back(tenant: Tenant, host: Host) -> None:
    see(host, "My plan is Growth. My city is Bern.", hours=1)
    work_for(tenant.pk)
    see(host, "My plan is Starter.", hours=2)
    work_for(tenant.pk)
    assert sorted(remembered(tenant, every=True)) == [
        ("host:alpha", "Bern", "withdrawn"),
        ("host:alpha", "Growth", "superseded"),
        ("host:alpha", "Starter", "active"),
    ]


def test_all_of_it_at_once_ends_in_the_same(tenant: Tenant, host: Host) -> None:
    see(host, "My plan is Growth. My city is Bern.", hours=1)
    see(host, "My plan is Starter.", hours=2)
    assert not read_entries(tenant.pk)
    assert sorted(statuses(tenant).values()) == ["active", "superseded", "withdrawn"]


def test_an_entry_holds_until_it_expires(tenant: Tenant, host: Host) -> None:
    later = timezone.now() + timedelta(hours=1)
    see(host, TEXT, hours=1, expiresAt=later.isoformat())
    work_for(tenant.pk)
    with tenant_scope(tenant.pk):
        assert len(memories(tenant.pk, ClaimFilter()).rows) == 1
        assert memories(tenant.pk, ClaimFilter(valid_at=later)).rows == ()


def test_entries_go_through_detection_like_everything_else(tenant: Tenant, host: Host) -> None:
    make_writer(tenant, "billing", 80)
    see(host, TEXT, hours=1)
    work_for(tenant.pk)
    subject = subject_of_entry("alpha", "notes")
    queue(tenant, body("e1", subject=subject, hour=0, claims=[plan("Starter")]))
    (conflict,) = conflicts(tenant)
    assert (conflict.state, conflict.rule) == ("decided", "authority")
    assert remembered(tenant) == [("billing", "Starter", "active")]


def test_a_model_reads_entries_too(tenant: Tenant, host: Host, settings: Any) -> None:
    see(host, TEXT, hours=1)
    with language_model(says({"claims": [claim(value="Growth plan")]})) as model:
        settings.EXTRACTOR_URL, settings.EXTRACTOR_MODEL = model.base, "small"
        work_for(tenant.pk)
    assert remembered(tenant) == [("host:alpha", "Growth plan", "active")]


def test_a_long_memory_ref_is_a_subject_that_fits() -> None:
    assert subject_of_entry("alpha", "x" * 400) == "host:alpha/" + "x" * 400
    assert len(subject_of_entry("alpha", "x" * 1500)) < 100
    assert subject_of_entry("alpha", "x" * 1500) != subject_of_entry("alpha", "x" * 1499)
    assert subject_of_entry("alpha", "notes") != subject_of_entry("beta", "notes")
