"""Bundles, CloudEvents and packed files through every door, and what is told of a run beside its events."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import zstandard
from django.core.management import call_command
from django.db import connection
from django.test import Client

from openwop_ui.tenancy.models import Role, Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs import queries
from runs.doors import BUNDLE, CHUNK, read_items
from runs.doors import take as take_items
from runs.follow_store import _commit, _discovered, _save_state
from runs.follower.state import UNANNOUNCED_END, FollowState, Phase
from runs.follower.store import FollowedHost, ListedRun
from runs.models import Event, EventCopy, Host, Incident, Run
from runs.store import Receipt, ref
from runs.store.watching import watch_on
from tests.factories import (
    BEGINNING,
    as_ndjson,
    bearer,
    make_event,
    make_host,
    make_key,
    make_log,
    make_member,
    make_tenant,
    read,
    take,
)

pytestmark = pytest.mark.django_db

RECORDINGS = Path(__file__).resolve().parents[1] / "fixtures" / "recordings"
LATER = BEGINNING + timedelta(days=1000)

CLOUDEVENT = "application/cloudevents+json"
CLOUDEVENT_BATCH = "application/cloudevents-batch+json"


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def host(tenant: Tenant) -> Host:
    return make_host(tenant)


@pytest.fixture
def api(tenant: Tenant, host: Host) -> Client:
    return Client(headers=bearer(make_key(tenant)))


def bundled(events: list[dict[str, Any]], **members: Any) -> dict[str, Any]:
    """As the spec has it; a member given as `...` is left out."""
    told = {
        "bundleVersion": "1",
        "generatedAt": "2026-03-01T10:00:00Z",
        "host": {"name": "a-host", "version": "1.1.7"},
        "run": {"runId": "run-1", "workflowId": "briefing", "status": "completed"},
        "events": events,
        "spans": [],
        "metrics": {"eventCount": len(events)},
        "redactionApplied": False,
        "redactionMode": "passthrough",
        **members,
    }
    return {name: value for name, value in told.items() if value is not ...}


def import_bundle(host: Host, bundle: object, *, run_id: str | None = None) -> Receipt:
    text = bundle if isinstance(bundle, bytes) else json.dumps(bundle).encode()
    return take_items(ref(host), read_items([text], form=BUNDLE, run_id=run_id))


def the_run(tenant: Tenant, run: str = "run-1") -> Run:
    with tenant_scope(tenant.pk):
        return Run.objects.get(tenant_id=tenant.pk, run_id=run)


def noticed(tenant: Tenant) -> list[tuple[str, dict[str, Any]]]:
    with tenant_scope(tenant.pk):
        found = Incident.objects.filter(tenant_id=tenant.pk).order_by("id")
        return [(one.kind, one.detail) for one in found]


def in_words(tenant: Tenant) -> list[str]:
    with tenant_scope(tenant.pk):
        rows, _ = queries.incidents(tenant.pk)
    return [f"{row.text} {row.done}" for row in rows]


def sequences(tenant: Tenant) -> list[int]:
    with tenant_scope(tenant.pk):
        return list(Event.objects.filter(tenant_id=tenant.pk).order_by("sequence").values_list("sequence", flat=True))


# --- what the reference hosts' bundles hold ---

CUT_BY_APP = "Bundle capped at maxEvents=3 (configured via query param)."
CUT_BY_OTHERS = "events_truncated_to_max_events"
RECORDED = {
    # bundle: events in it, first sequence, status that they add up to, why it is cut
    "in-memory/approval-accepted": (6, 0, "failed", ""),
    "in-memory/cancelled": (4, 0, "cancelled", ""),
    "openwop-app/agents": (10, 1, "completed", ""),
    "openwop-app/agents/bundle-truncated.json": (3, 1, "running", CUT_BY_APP),
    "openwop-app/approval-accepted": (14, 1, "completed", ""),
    "openwop-app/forks/fork-branch-end": (36, 1, "completed", ""),
    "postgres/approval-accepted/bundle-truncated.json": (3, 0, "running", CUT_BY_OTHERS),
    "postgres/approval-rejected": (7, 0, "failed", ""),
    "postgres/memory-multi": (13, 0, "completed", ""),
    "python/approval-accepted": (6, 0, "failed", ""),
    "python/multi-node": (8, 0, "completed", ""),
    "sqlite/approval-accepted": (12, 0, "completed", ""),
    "sqlite/approval-accepted/bundle-truncated.json": (3, 0, "running", CUT_BY_OTHERS),
    "sqlite/memory-multi": (13, 0, "completed", ""),
}


def recorded(name: str) -> bytes:
    return (RECORDINGS / (name if name.endswith(".json") else f"{name}/bundle.json")).read_bytes()


def test_no_recorded_bundle_is_left_out() -> None:
    there = {str(file.relative_to(RECORDINGS)) for file in RECORDINGS.rglob("bundle*.json")}
    told = {name if name.endswith(".json") else f"{name}/bundle.json" for name in RECORDED}
    assert there - told == {"openwop-app/forks/fork-by-other-tenant/bundle.json"}, "an answer 404, tested below"


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_bundle_is_imported_once_with_its_facts(tenant: Tenant, host: Host, name: str) -> None:
    events, first, status, reason = RECORDED[name]
    receipt = import_bundle(host, recorded(name))
    assert (receipt.accepted, receipt.repeated, receipt.refused) == (events, 0, [])
    (run_id,) = receipt.runs
    run = the_run(tenant, run_id)
    assert (run.event_count, run.first_sequence, run.status, run.truncated) == (events, first, status, reason)
    assert [kind for kind, _ in noticed(tenant)] == (["truncated"] if reason else [])
    assert [one.kind for one in receipt.incidents] == [kind for kind, _ in noticed(tenant)]
    again = import_bundle(host, recorded(name))
    assert (again.accepted, again.repeated) == (0, events)
    assert len(noticed(tenant)) == bool(reason)


def test_an_answer_that_is_no_bundle_is_refused_by_its_code(tenant: Tenant, host: Host) -> None:
    receipt = import_bundle(host, recorded("openwop-app/forks/fork-by-other-tenant"))
    assert [one.reason for one in receipt.refused] == ["the host answered run_not_found instead of a bundle"]
    assert (receipt.taken, sequences(tenant), noticed(tenant)) == (0, [], [])


@pytest.mark.parametrize(
    "name", [name for name in RECORDED if (RECORDINGS / name / "events.ndjson").exists() and "bundle" not in name]
)
@pytest.mark.parametrize("bundle_first", [True, False])
def test_a_bundle_beside_the_stream_of_its_run_contradicts_nothing(
    tenant: Tenant, host: Host, name: str, bundle_first: bool
) -> None:
    """Copies without a payload, and with `data` for `payload`, are the same events."""
    stream = [line for line in (RECORDINGS / name / "events.ndjson").read_bytes().splitlines() if line]
    arrivals: list[Callable[[], object]] = [lambda: import_bundle(host, recorded(name)), lambda: take(host, stream)]
    for arrive in arrivals if bundle_first else reversed(arrivals):
        arrive()
    with tenant_scope(tenant.pk):
        assert not EventCopy.objects.filter(tenant_id=tenant.pk, kind="contradiction").exists()
    assert noticed(tenant) == []


def test_a_cut_bundle_is_told_in_words_and_mended_by_the_whole_one(tenant: Tenant, host: Host) -> None:
    import_bundle(host, recorded("sqlite/approval-accepted/bundle-truncated.json"))
    assert in_words(tenant) == [
        "A bundle is not whole: the host cut it (events_truncated_to_max_events), 3 of 12 events."
        " What it has was taken in, and the run is marked."
    ]
    import_bundle(host, recorded("sqlite/approval-accepted"))
    ((_, detail),) = noticed(tenant)
    assert "closed_at" in detail
    with tenant_scope(tenant.pk):
        assert [run.truncated for run in Run.objects.filter(tenant_id=tenant.pk)] == [""]
    # The log has all that the cut one counts, so it says nothing against it any more.
    receipt = import_bundle(host, recorded("sqlite/approval-accepted/bundle-truncated.json"))
    assert (receipt.repeated, receipt.incidents) == (3, [])
    ((_, detail),) = noticed(tenant)
    assert "closed_at" in detail


def test_a_cut_bundle_is_mended_by_events_that_come_in_another_way(tenant: Tenant, host: Host) -> None:
    log = make_log()
    import_bundle(host, bundled(log[:3], truncated=True, truncatedReason="size", metrics={"eventCount": 8}))
    assert the_run(tenant).truncated == "size"
    take(host, log[3:7])
    watch_on(tenant.pk, now=LATER)
    assert the_run(tenant).truncated == "size"
    take(host, log[7:])
    watch_on(tenant.pk, now=LATER)
    assert the_run(tenant).truncated == ""
    ((_, detail),) = noticed(tenant)
    assert detail["closed_at"] == LATER.isoformat()


# --- bundles that contradict themselves ---


def test_a_hole_in_the_middle_is_marked_and_what_is_around_it_is_kept(tenant: Tenant, host: Host) -> None:
    """A host that cuts its bundle keeps the head and the tail (contract, section i, 17)."""
    log = make_log(nodes=3)
    kept = [*log[:2], *log[5:6], *log[8:]]
    receipt = import_bundle(host, bundled(kept, truncated=True, truncatedReason="8 MB", metrics={"eventCount": 11}))
    assert receipt.refused == []
    assert sequences(tenant) == [0, 1, 5, 8, 9, 10]
    assert noticed(tenant) == [
        (
            "truncated",
            {
                "events": 6,
                "reason": "8 MB",
                "told": 11,
                "whole": 11,
                "holes": 2,
                "missing": 5,
                "first": 2,
                "last": 4,
            },
        )
    ]
    assert in_words(tenant) == [
        "A bundle is not whole: the host cut it (8 MB), 6 of 11 events, 5 missing between others, #2 to #4 and further"
        " on. What it has was taken in, and the run is marked."
    ]


def test_a_hole_that_the_host_does_not_speak_of_is_marked_too(tenant: Tenant, host: Host) -> None:
    log = make_log()
    import_bundle(host, bundled([*log[:3], *log[4:]]))
    assert noticed(tenant) == [
        ("truncated", {"events": 7, "told": 7, "whole": 8, "holes": 1, "missing": 1, "first": 3, "last": 3})
    ]
    assert the_run(tenant).truncated == "no reason given"
    take(host, log[3:4])
    watch_on(tenant.pk, now=LATER)
    assert the_run(tenant).truncated == ""
    assert "closed_at" in noticed(tenant)[0][1]


def test_a_count_that_is_larger_than_the_bundle_is_a_cut_without_a_reason(tenant: Tenant, host: Host) -> None:
    import_bundle(host, bundled(make_log()[:4], metrics={"eventCount": 8}))
    assert noticed(tenant) == [("truncated", {"events": 4, "told": 8, "whole": 8})]
    assert the_run(tenant).truncated == "no reason given"


def test_a_count_that_is_smaller_contradicts_the_bundle(tenant: Tenant, host: Host) -> None:
    import_bundle(host, bundled(make_log(), metrics={"eventCount": 3}))
    assert in_words(tenant) == ["The bundle counts 3 events and has 8. Those that it has were taken in."]
    assert the_run(tenant).truncated == ""


def test_a_redaction_that_passes_everything_through_contradicts_itself(tenant: Tenant, host: Host) -> None:
    receipt = import_bundle(host, bundled(make_log(), redactionApplied=True, redactionMode="passthrough"))
    assert receipt.accepted == 8
    assert noticed(tenant) == [("conflicting_members", {"note": "malformed_redaction"})]


def test_events_of_another_run_in_a_bundle_are_refused_and_told(tenant: Tenant, host: Host) -> None:
    strays = [make_event(2, run="other"), make_event(3, run="other")]
    receipt = import_bundle(host, bundled([*make_log()[:2], *strays, *make_log()[4:]]))
    assert [(one.index, one.field) for one in receipt.refused] == [(2, "runId"), (3, "runId")]
    assert noticed(tenant)[-1] == ("foreign_run", {"place": "bundle", "events": 2})
    with tenant_scope(tenant.pk):
        assert [run.run_id for run in Run.objects.filter(tenant_id=tenant.pk)] == ["run-1"]


def test_a_run_that_was_asked_for_refuses_another_runs_bundle_without_an_incident(tenant: Tenant, host: Host) -> None:
    receipt = import_bundle(host, bundled(make_log()), run_id="another")
    assert (receipt.taken, receipt.refused_total) == (0, 8)
    assert noticed(tenant) == []


def test_a_bundle_that_names_no_run_is_of_the_one_that_its_events_name(tenant: Tenant, host: Host) -> None:
    import_bundle(host, bundled(make_log()[:4], run=..., truncated=True, truncatedReason="size"))
    assert the_run(tenant).truncated == "size"


def test_a_bundle_without_any_event_that_can_be_taken_still_says_that_it_is_cut(tenant: Tenant, host: Host) -> None:
    import_bundle(host, bundled([], truncated=True, truncatedReason="size", metrics={"eventCount": 8}))
    assert noticed(tenant) == [("truncated", {"events": 0, "reason": "size", "told": 8, "whole": 8, "run": "run-1"})]
    with tenant_scope(tenant.pk):
        ((row,), _) = queries.incidents(tenant.pk)
        assert (row.run_id, row.host) == (None, "alpha")


def test_a_page_of_a_poll_claims_no_completeness(tenant: Tenant, host: Host) -> None:
    page = RECORDINGS / "openwop-app" / "approval-accepted" / "poll-from-mid.json"
    items = read_items([page.read_bytes()], name=page.name)
    receipt = take_items(ref(host), items)
    assert receipt.accepted > 0
    assert (receipt.incidents, noticed(tenant)) == ([], [])


def test_a_masked_copy_is_kept_beside_and_told_apart_from_a_contradiction(tenant: Tenant, host: Host) -> None:
    log = [make_event(0, payload={"key": "value"}), make_event(1, payload={"key": "value"})]
    take(host, log)
    masked = [log[0], log[1] | {"payload": {"key": "***"}}]
    import_bundle(host, bundled(masked, redactionApplied=True, redactionMode="mask"))
    ((kind, detail),) = noticed(tenant)
    assert (kind, detail["masked"]) == ("changed_event", True)
    assert "this need be no contradiction" in in_words(tenant)[0]
    take(host, [make_event(1, payload={"key": "another"})])
    assert "masked" not in noticed(tenant)[1][1]


# --- where a run comes from ---


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"parentRunId": "src", "parentSeq": 7, "forkMode": "replay"}, ("src", 7, "replay")),
        ({"parentRunId": "src", "parentSeq": 7, "forkMode": "branch"}, ("src", 7, "branch")),
        ({"parentRunId": "src", "parentNodeId": "call"}, ("src", None, "child")),
        ({"parentRunId": "src"}, ("src", None, "")),
        ({"parentRunId": "src", "parentSeq": 3}, ("src", 3, "fork")),
        ({"parentRunId": "run-1", "forkMode": "replay"}, ("", None, "")),
        ({}, ("", None, "")),
    ],
)
def test_what_a_snapshot_in_a_bundle_says_of_the_parent_is_kept(
    tenant: Tenant, host: Host, members: dict[str, Any], expected: tuple[str, int | None, str]
) -> None:
    import_bundle(host, bundled(make_log(), run={"runId": "run-1", "status": "completed", **members}))
    run = the_run(tenant)
    assert (run.parent_run_id, run.parent_sequence, run.relation) == expected
    with tenant_scope(tenant.pk):
        facts = queries.find_run(tenant.pk, "alpha", "run-1")
    assert facts is not None
    assert (facts.parent_run_id, facts.parent_sequence, facts.relation) == (expected[0] or None, *expected[1:])


def test_what_the_spans_say_of_a_replay_is_kept(tenant: Tenant, host: Host) -> None:
    attributes = {
        "openwop.replay.source_run_id": "src",
        "openwop.replay.from_seq": 4,
        "openwop.replay.mode": "replay",
    }
    import_bundle(host, bundled(make_log(), spans=[{"name": "run", "attributes": attributes}]))
    run = the_run(tenant)
    assert (run.parent_run_id, run.parent_sequence, run.relation) == ("src", 4, "replay")


def test_what_was_told_first_stays_and_what_it_left_open_is_added(tenant: Tenant, host: Host) -> None:
    told: list[dict[str, Any]] = [
        {"parentRunId": "src", "parentSeq": 3},
        {"parentRunId": "src", "parentSeq": 9, "forkMode": "branch"},
        {"parentRunId": "another", "parentSeq": 1, "forkMode": "replay"},
    ]
    seen = []
    for members in told:
        import_bundle(host, bundled(make_log(), run={"runId": "run-1", **members}))
        run = the_run(tenant)
        seen.append((run.parent_run_id, run.parent_sequence, run.relation))
    assert seen == [("src", 3, "fork"), ("src", 3, "branch"), ("src", 3, "branch")]


def followed(host: Host) -> FollowedHost:
    return FollowedHost(host.tenant_id, host.pk, host.slug, "https://host.example", major=1)


def test_what_a_followed_host_says_of_parents_is_kept(tenant: Tenant, host: Host) -> None:
    take(host, [*make_log("one"), *make_log("two"), *make_log("three")])
    listed = [
        ListedRun("one", parent_run_id="src", parent_sequence=2, fork_mode="replay"),
        ListedRun("two", parent_run_id="src", parent_node_id="call"),
        ListedRun("three"),
    ]
    _discovered(followed(host), listed, "a worker")
    told = {run: the_run(tenant, run) for run in ("one", "two", "three")}
    assert {name: (run.parent_run_id, run.parent_sequence, run.relation) for name, run in told.items()} == {
        "one": ("src", 2, "replay"),
        "two": ("src", None, "child"),
        "three": ("", None, ""),
    }


# --- what the follower notices ---


def test_an_event_of_another_run_in_a_followed_stream_is_refused_and_told_once(tenant: Tenant, host: Host) -> None:
    items = read([make_event(0), make_event(1, run="other"), make_event(2)], run_id="run-1")
    for _ in range(2):
        receipt = _commit(followed(host), "run-1", items)
    assert receipt.refused_total == 1
    with tenant_scope(tenant.pk):
        (incident,) = Incident.objects.filter(tenant_id=tenant.pk)
        assert (incident.kind, incident.run_id) == ("foreign_run", Run.objects.get(tenant_id=tenant.pk).pk)
    assert in_words(tenant) == ["An event of another run came in this run's stream. It was refused."]
    assert sequences(tenant) == [0, 2]


def test_a_stream_of_nothing_but_another_run_is_told_without_a_run(tenant: Tenant, host: Host) -> None:
    _commit(followed(host), "run-1", read([make_event(1, run="other")], run_id="run-1"))
    assert noticed(tenant) == [("foreign_run", {"run": "run-1"})]


def test_another_refusal_in_a_stream_is_no_incident(tenant: Tenant, host: Host) -> None:
    _commit(followed(host), "run-1", read(["{}", "{"], run_id="run-1"))
    assert noticed(tenant) == []


def test_an_end_by_the_hosts_word_alone_is_told_until_the_log_says_so_too(tenant: Tenant, host: Host) -> None:
    """A host whose status is ahead of its log (contract, section i, 7)."""
    take(host, make_log()[:-1])
    _save_state(followed(host), FollowState("run-1", phase=Phase.FINISHED))
    assert noticed(tenant) == []
    _save_state(followed(host), FollowState("run-1", phase=Phase.FINISHED, note=UNANNOUNCED_END))
    assert noticed(tenant) == [("early_status", {})]
    take(host, make_log()[-1:])
    watch_on(tenant.pk, now=LATER)
    assert noticed(tenant) == [("early_status", {"closed_at": LATER.isoformat()})]


# --- every form through every door ---


def enveloped(event: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": event["eventId"],
        "source": "urn:openwop:host:alpha:run:run-1",
        "type": f"dev.openwop.event.{event['type']}",
        "data": event,
        **members,
    }


def payload_only(event: dict[str, Any]) -> dict[str, Any]:
    told = {"time": event["timestamp"], "openwopseq": event["sequence"], "openwoprunid": event["runId"]}
    return enveloped(event, **told, data=event["payload"], subject=event.get("nodeId"))


LOG = make_log()
FORMS = {
    "bundle": json.dumps(bundled(LOG)).encode(),
    "bundle, printed out": json.dumps(bundled(LOG), indent=2).encode(),
    "a saved answer to a poll": json.dumps({"events": LOG, "isComplete": True}).encode(),
    "CloudEvents batch": json.dumps([enveloped(event) for event in LOG]).encode(),
    "CloudEvents batch of payloads": json.dumps([payload_only(event) for event in LOG]).encode(),
    "CloudEvents, one a line": as_ndjson([enveloped(event) for event in LOG]),
    "JSON array": json.dumps(LOG).encode(),
    "NDJSON": as_ndjson(LOG),
}
PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda data: data,
    "gzip": gzip.compress,
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
    "zstd in frames": lambda data: b"".join(
        zstandard.ZstdCompressor().compress(part) for part in (data[:500], b"", data[500:])
    ),
}


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1, CHUNK])
def test_every_form_in_every_packing_gives_the_same_log(
    tenant: Tenant, host: Host, form: str, packing: str, size: int
) -> None:
    data = PACKINGS[packing](FORMS[form])
    pieces = (data[start : start + size] for start in range(0, len(data), size))
    items = read_items(pieces, name="a-file")
    receipt = take_items(ref(host), items)
    assert (receipt.accepted, receipt.refused, receipt.incidents, items.broken) == (8, [], [], None)
    again = take(host, LOG)
    assert (again.repeated, again.incidents) == (8, []), "the same events, not only as many"


@pytest.mark.parametrize(
    ("form", "suffix"), [("NDJSON", ".ndjson.zst"), ("bundle", ".json.gz"), ("CloudEvents batch", ".json.zst")]
)
def test_the_command_takes_files_in(tenant: Tenant, host: Host, tmp_path: Path, form: str, suffix: str) -> None:
    file = tmp_path / f"events{suffix}"
    file.write_bytes(PACKINGS["gzip" if suffix.endswith("gz") else "zstd"](FORMS[form]))
    out = io.StringIO()
    call_command("ingest", str(file), tenant="acme", host="alpha", json=True, stdout=out)
    assert json.loads(out.getvalue())["accepted"] == 8


def test_the_command_tells_that_a_bundle_is_cut(tenant: Tenant, host: Host, tmp_path: Path) -> None:
    file = tmp_path / "bundle.json"
    file.write_bytes(recorded("sqlite/approval-accepted/bundle-truncated.json"))
    out = io.StringIO()
    call_command("ingest", str(file), tenant="acme", host="alpha", stdout=out)
    assert "noticed, run-29e4b209-f950-41eb-a220-5a36d50b2426: An import that is not whole" in out.getvalue()


def test_a_bundle_is_uploaded_on_the_page(tenant: Tenant, host: Host) -> None:
    browser = Client()
    browser.force_login(make_member(tenant, "rita", Role.REVIEWER))
    data = PACKINGS["zstd"](recorded("sqlite/approval-accepted/bundle-truncated.json"))
    answer = browser.post(
        "/t/acme/upload", data, content_type="application/octet-stream", query_params={"host": "alpha", "name": "b.zst"}
    )
    assert answer.status_code == 200
    receipt = answer.context["page"].receipt
    assert (receipt.accepted, receipt.incidents_total, receipt.error) == (3, 1, None)


def push(api: Client, body: bytes, content_type: str, *, to: str = "events", **headers: str) -> Any:
    # The client leaves the content type out where there is no body.
    return api.post(
        f"/v1/hosts/alpha/{to}", body, content_type=content_type, headers=headers, CONTENT_TYPE=content_type
    )


@pytest.mark.parametrize(
    ("form", "content_type"),
    [
        ("bundle", "application/json"),
        ("CloudEvents batch", CLOUDEVENT_BATCH),
        ("CloudEvents batch of payloads", f"{CLOUDEVENT_BATCH}; charset=utf-8"),
        ("CloudEvents batch", "application/json"),
        ("CloudEvents, one a line", "application/x-ndjson"),
        ("NDJSON", "application/jsonl"),
    ],
)
@pytest.mark.parametrize("packing", ["plain", "gzip", "zstd"])
def test_the_api_takes_every_form_in(api: Client, form: str, content_type: str, packing: str) -> None:
    headers = {} if packing == "plain" else {"Content-Encoding": packing}
    answer = push(api, PACKINGS[packing](FORMS[form]), content_type, **headers)
    assert (answer.status_code, answer.json()["accepted"]) == (200, 8)


def test_the_api_takes_one_cloudevent_in(api: Client, tenant: Tenant) -> None:
    answer = push(api, json.dumps(enveloped(make_event(4))).encode(), CLOUDEVENT)
    assert answer.json()["accepted"] == 1
    assert sequences(tenant) == [4]


def test_what_is_wrong_in_a_batch_of_cloudevents_is_named_by_its_place(api: Client, tenant: Tenant) -> None:
    batch = [enveloped(LOG[0]), enveloped(LOG[1], specversion="0.3"), {"no": "envelope"}, enveloped(LOG[3])]
    said = push(api, json.dumps(batch).encode(), CLOUDEVENT_BATCH).json()
    assert [(one["index"], one["field"]) for one in said["refused"]] == [(1, "specversion"), (2, "specversion")]
    assert sequences(tenant) == [0, 3]


def test_a_bundle_has_an_address_of_its_own(api: Client, tenant: Tenant) -> None:
    cut = recorded("openwop-app/agents/bundle-truncated.json")
    answer = push(api, PACKINGS["zstd"](cut), "application/json", to="bundle", **{"Content-Encoding": "zstd"})
    said = answer.json()
    assert (answer.status_code, said["accepted"], said["refused"]) == (200, 3, [])
    (told,) = said["incidents"]
    assert (told["kind"], told["runId"], told["sequence"]) == (
        "truncated",
        "c98e2cc3-9a11-467b-8bdd-fabee8e5f63f",
        None,
    )


@pytest.mark.parametrize("body", [b"[]", b'{"error": "run_not_found"}', b"", b'{"events": [', b'{"events": 7}'])
def test_what_is_no_bundle_is_refused_there(api: Client, body: bytes) -> None:
    answer = push(api, body, "application/json", to="bundle")
    said = answer.json()
    assert (answer.status_code, said["error"], [one["index"] for one in said["refused"]]) == (422, "all_refused", [0])


def test_a_bundle_is_json(api: Client) -> None:
    answer = push(api, as_ndjson(LOG), "application/x-ndjson", to="bundle")
    assert (answer.status_code, answer.json()["details"]["supported"]) == (415, ["application/json"])


def test_a_bundle_needs_the_scope_to_ingest(tenant: Tenant, host: Host) -> None:
    reader = Client(headers=bearer(make_key(tenant, "read")))
    assert push(reader, FORMS["bundle"], "application/json", to="bundle").status_code == 403


def test_a_bundle_over_its_limit_is_named_by_it(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runs.doors.MAX_BUNDLE_BYTES", 1000)
    answer = push(api, gzip.compress(FORMS["bundle"]), "application/json", to="bundle", **{"Content-Encoding": "gzip"})
    assert answer.status_code == 413
    assert answer.json()["details"]["limit"] == "MAX_BUNDLE_BYTES"


# --- streams that break off ---

NOISE = [make_event(n, payload={"noise": f"{n * 7919:032x}{n * 104729:032x}"}) for n in range(60)]


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
@pytest.mark.parametrize(
    "body",
    [
        as_ndjson(NOISE),
        json.dumps(NOISE).encode(),
        json.dumps([enveloped(event) for event in NOISE]).encode(),
    ],
    ids=["lines", "array", "cloudevents"],
)
def test_of_a_packed_stream_that_breaks_off_the_whole_events_are_kept(
    api: Client, tenant: Tenant, packing: str, body: bytes
) -> None:
    # Packed in blocks, so that there is something before the break.
    blocks = b"".join(PACKINGS[packing](body[start : start + 1000]) for start in range(0, len(body), 1000))
    content_type = "application/x-ndjson" if body.startswith(b"{") else "application/json"
    answer = push(api, blocks[:-30], content_type, **{"Content-Encoding": packing})
    said = answer.json()
    receipt = said["details"]["receipt"]
    assert (answer.status_code, said["error"]) == (400, "unreadable_body")
    assert 50 <= receipt["accepted"] < 60
    assert receipt["refused"][-1]["index"] == receipt["accepted"]
    assert packing in receipt["refused"][-1]["reason"]
    assert sequences(tenant) == list(range(receipt["accepted"]))


@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_of_a_bundle_that_breaks_off_nothing_is_taken(tenant: Tenant, host: Host, packing: str) -> None:
    items = read_items([PACKINGS[packing](FORMS["bundle"])[:-20]], form=BUNDLE)
    receipt = take_items(ref(host), items)
    assert (receipt.taken, receipt.refused_total, items.bundle) == (0, 1, None)
    assert items.broken is not None


def test_of_an_array_that_breaks_off_the_whole_events_are_kept(tenant: Tenant, host: Host) -> None:
    receipt = take_items(ref(host), read_items([FORMS["JSON array"][:-100]]))
    assert receipt.accepted == 7
    assert "ends early" in receipt.refused[-1].reason


def test_a_connection_that_breaks_off_keeps_what_was_committed(
    tenant: Tenant, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runs.store.batches.BATCH_EVENTS", 10)

    def breaking() -> Iterator[bytes]:
        for event in NOISE[:25]:
            yield as_ndjson([event])
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        take_items(ref(host), read_items(breaking(), content_type="application/x-ndjson"))
    assert sequences(tenant) == list(range(20))
    receipt = take_items(ref(host), read_items([as_ndjson(NOISE)]))
    assert (receipt.accepted, receipt.repeated) == (40, 20)


# --- what may not be stored ---

CANARY = "canary-7f3a9c"
SECRET = f"sk-{CANARY}-0123456789abcdef0123456789abcdef"
TOKEN = f"itok_{CANARY}"
ADDRESS = f"https://host.example/v1/events?streamToken={CANARY}"


def tainted_log() -> list[dict[str, Any]]:
    """Content and secrets in events about memory, tokens in all others, at every place where one was seen."""
    content: dict[str, Any] = {
        "memoryRef": "notes",
        "memoryId": "m-1",
        "content": f"the {CANARY} sat",
        "tags": [SECRET, "fine"],
        "extra": {"value": f"deep {CANARY}", SECRET: "as a name", "list": [{"text": CANARY}]},
        "long": f"{CANARY} " * 40,
    }
    tokens: dict[str, Any] = {
        "interruptToken": TOKEN,
        "callbackUrl": f"https://host.example/resume/{TOKEN}",
        "nested": [{"resume_token": TOKEN, "resumeUrl": TOKEN, "streamToken": TOKEN}],
        "link": ADDRESS,
    }
    return [
        make_event(0, "run.started", payload=tokens),
        make_event(1, "memory.written", payload=content, data=content),
        make_event(2, "x-host-acme-memory-written", payload=content),
        make_event(3, "memory.compacted", payload=content | {"outputId": "m-2", "summary": CANARY}),
        make_event(4, "node.suspended", payload=tokens, interruptToken=TOKEN, callbackUrl=TOKEN),
        make_event(5, "run.completed", payload=tokens),
        make_event(6, "memory.written", payload=content, at=BEGINNING),
        make_event(8, "run.started", payload=tokens),
    ]


def tainted_bundle() -> dict[str, Any]:
    everywhere = {
        "interruptToken": TOKEN,
        "callbackUrl": ADDRESS,
        "apiKey": SECRET,
        "note": f"content {CANARY}",
        "variables": {"memory": {"id": "m", "content": CANARY, "tags": [], "createdAt": "2026-03-01T09:00:00Z"}},
        "interrupt": {"kind": "approval", "interruptToken": TOKEN, "callbackUrl": ADDRESS},
        "owner": {"tenant": SECRET},
    }
    return bundled(
        tainted_log(),
        host={"name": SECRET, "version": CANARY, **everywhere},
        run={"runId": "run-1", "workflowId": SECRET, "status": SECRET, "error": {"code": SECRET}, **everywhere},
        spans=[{"name": CANARY, "attributes": {"openwop.replay.mode": SECRET, **everywhere}}],
        metrics={"eventCount": 99, **everywhere},
        annotations=[{"note": CANARY, **everywhere}],
        redactionApplied=True,
        redactionMode=f"mask {CANARY}",
        truncated=True,
        truncatedReason=f"see {ADDRESS} with {SECRET}",
        **{"bundleVersion": CANARY, "extra": everywhere},
    )


def everything_stored() -> Iterator[tuple[str, str]]:
    """Every row of every table of the tenant's as text, bytes as they are."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        tables = [name for (name,) in cursor.fetchall()]
        for table in tables:
            cursor.execute(f'SELECT t::text FROM "{table}" t')
            for (row,) in cursor.fetchall():
                yield table, row


@pytest.mark.parametrize("door", ["events", "bundle", "cloudevents"])
def test_what_may_not_be_stored_is_found_nowhere(tenant: Tenant, host: Host, api: Client, door: str) -> None:
    bodies: dict[str, tuple[object, str, str]] = {
        "events": (tainted_log(), "application/json", "events"),
        "bundle": (tainted_bundle(), "application/json", "bundle"),
        "cloudevents": ([enveloped(event) for event in tainted_log()], CLOUDEVENT_BATCH, "events"),
    }
    value, content_type, to = bodies[door]
    answer = push(api, json.dumps(value).encode(), content_type, to=to)
    assert (answer.status_code, answer.json()["accepted"]) == (200, 8)
    watch_on(tenant.pk, now=LATER)
    with tenant_scope(tenant.pk):
        rows = list(everything_stored())
    assert {"runs_event", "runs_run", "runs_incident"} <= {table for table, _ in rows}, "the scan sees the rows"
    assert any(CANARY.encode().hex() in row or "quarantined" in row for _, row in rows)
    hidden = (CANARY, CANARY.encode().hex())
    assert [(table, row[:200]) for table, row in rows if any(mark in row for mark in hidden)] == []
    assert CANARY not in answer.content.decode()


def test_the_scan_for_what_may_not_be_stored_finds_what_is(tenant: Tenant, host: Host) -> None:
    take(host, [make_event(0, payload={"fine": CANARY})])
    with tenant_scope(tenant.pk):
        assert {table for table, row in everything_stored() if CANARY in row} == {"runs_event"}
