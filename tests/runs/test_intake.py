"""The intake: what is kept, what is counted, and that neither order, nor batches, nor company changes it."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.event import Refusal
from runs.domain.projection import project
from runs.models import Attempt, Event, EventCopy, Host, Incident, Run, RunNode
from runs.store import Receipt, batches, intake, ref, staging, take_in
from tests.factories import bearer, make_event, make_host, make_key, make_log, make_tenant, read, take

RECORDINGS = Path(__file__).parent.parent / "fixtures" / "recordings"
LOGS = sorted(RECORDINGS.glob("**/events.ndjson"))

Rows = dict[str, list[dict[str, Any]]]

# What depends on when and how something came, and is neither a fact nor part of a reading.
ARRIVAL = {
    *("id", "host_id", "fingerprint", "revision", "folded_through"),
    *("received_at", "first_received_at", "last_received_at", "noticed_at"),
}


def rows_of(host: Host) -> Rows:
    """Everything that is stored of a host, by the protocol's ids instead of our numbers."""
    with tenant_scope(host.tenant_id):
        runs = {run.pk: run for run in Run.objects.filter(tenant_id=host.tenant_id, host_id=host.pk)}
        names: dict[int | None, str] = {pk: run.run_id for pk, run in runs.items()}
        found = {"Run": [_plain(run, {}) for run in runs.values()]}
        for model in (Event, EventCopy, RunNode, Attempt, Incident):
            rows = model.objects.filter(tenant_id=host.tenant_id, run_id__in=runs)
            found[model.__name__] = [_plain(row, {"run_id": names[row.run_id]}) for row in rows]
    return {name: sorted(rows, key=lambda row: json.dumps(row, default=str)) for name, rows in found.items()}


def _plain(row: Any, named: dict[str, Any]) -> dict[str, Any]:
    columns = {field.attname: getattr(row, field.attname) for field in row._meta.fields if field.name != "pk"}
    kept = {name: value for name, value in columns.items() if name not in ARRIVAL}
    return {name: bytes(value) if isinstance(value, memoryview) else value for name, value in kept.items()} | named


def counts(receipt: Receipt) -> tuple[int, int, int, int]:
    return receipt.accepted, receipt.repeated, receipt.refused_total, receipt.incidents_total


@pytest.fixture
def host(db: None) -> Host:
    return make_host(make_tenant())


# --- Known events ---


def test_a_repeated_event_is_counted_and_not_stored_again(host: Host) -> None:
    assert counts(take(host, make_log())) == (8, 0, 0, 0)
    before = rows_of(host)
    assert counts(take(host, make_log())) == (0, 8, 0, 0)
    assert rows_of(host) == before


def test_an_event_twice_in_one_batch_is_accepted_once(host: Host) -> None:
    assert counts(take(host, [make_event(0), make_event(0)])) == (1, 1, 0, 0)


def test_the_same_event_through_another_channel_is_the_same(host: Host) -> None:
    told = make_event(0, "agent.toolCalled", node="n", payload={"nodeId": "n", "callId": "1"})
    other = {name: value for name, value in told.items() if name not in ("eventId", "sequence", "payload")}
    other |= {"seq": 0, "data": told["payload"], "type": "agent.tool-called", "timestamp": "2026-03-01T10:00:00+01:00"}
    take(host, [told])
    assert counts(take(host, [other])) == (0, 1, 0, 0)
    assert rows_of(host)["EventCopy"] == []


def test_a_changed_event_leaves_the_first_in_place_and_is_kept_beside_it(host: Host) -> None:
    first, second = make_event(0, payload={"answer": 1}), make_event(0, payload={"answer": 2})
    take(host, [first])
    for incidents in (1, 0):
        receipt = take(host, [second])
        assert counts(receipt)[:2] == (0, 1)
        assert [(one.kind, one.run_id, one.sequence) for one in receipt.incidents] == [
            ("changed_event", "run-1", 0)
        ] * incidents
    rows = rows_of(host)
    assert [json.loads(row["body"]) for row in rows["Event"]] == [first]
    assert [(row["kind"], json.loads(row["body"])) for row in rows["EventCopy"]] == [("contradiction", second)]
    assert [(row["kind"], row["sequence"]) for row in rows["Incident"]] == [("changed_event", 0)]


def test_a_changed_event_in_the_batch_of_the_first_is_noticed_too(host: Host) -> None:
    receipt = take(host, [make_event(0, payload={"answer": 1}), make_event(0, payload={"answer": 2})])
    assert counts(receipt) == (1, 1, 0, 1)


def test_a_partial_copy_is_completed_by_a_later_one(host: Host) -> None:
    whole = make_event(1, "node.started", node="n", payload={"nodeId": "n", "attempt": 1})
    partial = {name: value for name, value in whole.items() if name != "payload"}
    take(host, [partial])
    assert counts(take(host, [whole])) == (0, 1, 0, 0)
    assert counts(take(host, [whole, partial])) == (0, 2, 0, 0)
    rows = rows_of(host)
    assert [(row["kind"], json.loads(row["body"])) for row in rows["EventCopy"]] == [("completion", whole)]
    assert rows["Incident"] == []


def test_a_partial_copy_of_a_whole_event_says_nothing_new(host: Host) -> None:
    whole = make_event(1, payload={"nodeId": "n"})
    take(host, [whole])
    assert counts(take(host, [{name: value for name, value in whole.items() if name != "payload"}])) == (0, 1, 0, 0)
    assert rows_of(host)["EventCopy"] == []


def test_a_second_completion_that_differs_is_a_contradiction(host: Host) -> None:
    whole = make_event(1, payload={"answer": 1})
    take(host, [{name: value for name, value in whole.items() if name != "payload"}])
    take(host, [whole])
    receipt = take(host, [make_event(1, payload={"answer": 2})])
    assert [one.kind for one in receipt.incidents] == ["changed_event"]


def test_two_hosts_may_use_the_same_run_id(host: Host) -> None:
    other = make_host(host.tenant, "beta")
    take(host, make_log())
    assert counts(take(other, make_log(nodes=1))) == (5, 0, 0, 0)
    assert len(rows_of(host)["Event"]) == 8
    assert len(rows_of(other)["Event"]) == 5


def test_the_receipt_says_how_far_each_run_reaches_without_a_gap(host: Host) -> None:
    receipt = take(
        host, [make_event(0, run="a"), make_event(1, run="a"), make_event(3, run="a"), make_event(7, run="b")]
    )
    assert receipt.runs == {"a": 1, "b": -1}
    assert take(host, [make_event(2, run="a")]).runs == {"a": 3}


def test_a_terminal_status_never_goes_back(host: Host) -> None:
    take(host, [make_event(0, "run.started"), make_event(5, "run.cancelled"), make_event(9, "run.completed")])
    take(host, [make_event(10, "run.resumed")])
    assert [row["status"] for row in rows_of(host)["Run"]] == ["cancelled"]


def test_leaked_content_never_reaches_the_disk(host: Host) -> None:
    payload = {"memoryRef": "m", "memoryId": "1", "content": "CANARY"}
    receipt = take(host, [make_event(0, "memory.written", payload=payload)])
    assert [one.kind for one in receipt.incidents] == ["content_leak"]
    assert "CANARY" not in repr(rows_of(host))
    with tenant_scope(host.tenant_id):
        assert Host.objects.get(pk=host.pk).leaking_since is not None


# --- Order and batches ---

_names = count()
_steps = st.sampled_from(
    [
        ("run.started", None),
        ("run.paused", None),
        ("run.completed", None),
        ("run.failed", None),
        *(
            (type, node)
            for node in "ab"
            for type in ("node.started", "node.completed", "node.failed", "node.suspended")
        ),
        ("memory.written", "a"),
        ("vendor.acme.thing", "b"),
    ]
)


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[list[dict[str, Any]]]]:
    """A log of two runs, perhaps with holes, and a way in which it may arrive: any order, any batches, repeats."""
    log = []
    for run in ("one", "two"):
        first = draw(st.sampled_from([0, 1]))
        steps = draw(st.lists(_steps, max_size=9))
        holes = draw(st.sets(st.integers(0, 9), max_size=2))
        log += [
            make_event(first + place, type, run=run, node=node, payload={"memoryRef": "m", "memoryId": f"{place}"})
            for place, (type, node) in enumerate(steps)
            if place not in holes
        ]
    repeats = draw(st.lists(st.sampled_from(log), max_size=4)) if log else []
    arriving = draw(st.permutations(log + repeats))
    cuts = sorted(draw(st.lists(st.integers(0, len(arriving)), max_size=5)))
    return log, [arriving[start:end] for start, end in pairwise([0, *cuts, len(arriving)])]


@settings(max_examples=40, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arrivals())
def test_any_order_and_any_batches_give_the_same_rows(
    host: Host, told: tuple[list[dict[str, Any]], list[list[dict[str, Any]]]]
) -> None:
    log, batches = told
    number = next(_names)
    straight = make_host(host.tenant, f"straight-{number}")
    mixed = make_host(host.tenant, f"mixed-{number}")
    take(straight, log)
    receipts = [take(mixed, batch) for batch in batches]
    assert rows_of(mixed) == rows_of(straight)
    assert sum(receipt.accepted for receipt in receipts) == len(log)


def test_a_pause_that_is_known_before_the_start_of_what_it_pauses_counts(host: Host) -> None:
    log = [make_event(1, "node.started", node="n"), make_event(2, "run.paused")]
    mixed = make_host(host.tenant, "mixed")
    take(host, log)
    take(mixed, log[1:])
    take(mixed, log[:1])
    assert [row["status"] for row in rows_of(host)["RunNode"]] == ["wait"]
    assert rows_of(mixed) == rows_of(host)


# --- Recordings of real hosts ---


@pytest.mark.parametrize("file", LOGS, ids=[str(file.parent.relative_to(RECORDINGS)) for file in LOGS])
def test_a_recording_is_stored_whole_once_and_shown_as_it_was_recorded(host: Host, file: Path) -> None:
    recorded = file.read_text().splitlines()
    known = {(event["runId"], event.get("sequence", event.get("seq"))) for event in map(json.loads, recorded)}
    assert counts(take(host, recorded))[:3] == (len(known), len(recorded) - len(known), 0)
    before = rows_of(host)
    assert counts(take(host, recorded))[:3] == (0, len(recorded), 0)
    assert rows_of(host) == before
    shown = _shown(host, sorted({run for run, _ in known}))
    untouched = [line for line in recorded if not _holds_a_credential(line)]
    assert len(shown) == len(known)
    assert {line for line in shown if "$quarantined" not in line} == set(untouched)


def _holds_a_credential(line: str) -> bool:
    return any(name in line for name in ("interruptToken", "callbackUrl", "resumeToken", "resumeUrl", "interruptUrl"))


def _shown(host: Host, runs: Sequence[str]) -> list[str]:
    """The items' own texts, not what a parser makes of them."""
    api = Client(headers=bearer(make_key(host.tenant)))
    texts: list[str] = []
    for run in runs:
        page = api.get(f"/v1/hosts/{host.slug}/runs/{project(run)}/events", {"limit": 1000}).content.decode()
        items = page.removeprefix('{"items":[').removesuffix('],"nextCursor":null}')
        decoder = json.JSONDecoder()
        while items:
            _, end = decoder.raw_decode(items)
            texts.append(items[:end])
            items = items[end:].removeprefix(",")
    return texts


def test_there_are_recordings() -> None:
    assert len(LOGS) >= 80


# --- What a batch costs ---


def queries_for(host: Host, events: list[dict[str, Any]]) -> int:
    items = read(events)
    with CaptureQueriesContext(connection) as asked:
        take_in(ref(host), items)
    return len(asked)


def test_the_number_of_queries_does_not_grow_with_the_batch(host: Host) -> None:
    few, small, large = make_log("few", nodes=2), make_log("small", nodes=10), make_log("large", nodes=300)
    assert len(few) <= staging.FEW < len(small)
    first = queries_for(host, small)
    assert first == queries_for(host, large)
    assert first <= 16
    assert queries_for(host, few) <= 14
    again = queries_for(host, small)
    assert again == queries_for(host, large)
    assert again <= 12


def test_the_number_of_queries_does_not_grow_with_the_runs_of_a_batch(host: Host) -> None:
    one = queries_for(host, make_log("one", nodes=10))
    many = queries_for(host, [event for number in range(50) for event in make_log(f"many-{number}")])
    assert one == many


# --- Company ---


@pytest.mark.usefixtures("transactional_db")
def test_four_at_once_neither_lock_each_other_out_nor_store_anything_twice() -> None:
    host = make_host(make_tenant())
    straight = make_host(host.tenant, "straight")
    logs = [make_log(f"run-{number}", nodes=6) for number in range(6)]
    everything = [event for log in logs for event in log]
    orders = [
        everything,
        everything[::-1],
        [event for step in zip(*logs, strict=True) for event in step],
        [event for log in reversed(logs) for event in log],
    ]
    accepted: list[int] = []
    problems: list[BaseException] = []
    together = threading.Barrier(len(orders))

    def push(events: list[dict[str, Any]]) -> None:
        try:
            together.wait(timeout=10)
            for start in range(0, len(events), 15):
                accepted.append(take(host, events[start : start + 15]).accepted)
        except BaseException as problem:  # noqa: BLE001 - told by the test's own thread
            problems.append(problem)
        finally:
            connection.close()

    threads = [threading.Thread(target=push, args=[order]) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    take(straight, everything)
    assert problems == []
    assert not any(thread.is_alive() for thread in threads)
    assert sum(accepted) == len(everything)
    assert rows_of(host) == rows_of(straight)


@pytest.mark.usefixtures("transactional_db")
def test_what_was_committed_before_a_failure_stays_and_the_rest_can_be_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batches, "BATCH_EVENTS", 5)
    host = make_host(make_tenant())
    log = make_log(nodes=4)

    def breaks_off() -> Any:
        yield from read(log)[:7]
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        take_in(ref(host), breaks_off())
    assert [row["sequence"] for row in rows_of(host)["Event"]] == [0, 1, 2, 3, 4]
    assert counts(take(host, log)) == (len(log) - 5, 5, 0, 0)


@pytest.mark.usefixtures("transactional_db")
def test_a_client_who_stops_sending_does_not_hold_up_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    more = threading.Event()

    def waits() -> Any:
        yield from read(make_log(nodes=4))[:5]
        more.wait(30)

    monkeypatch.setattr(batches, "BATCH_EVENTS", 5)
    monkeypatch.setattr(intake, "add_events", raises)
    with pytest.raises(ZeroDivisionError):
        take_in(ref(make_host(make_tenant())), waits())
    assert not more.is_set()
    more.set()


def raises(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError


def test_a_run_with_events_stays(host: Host) -> None:
    take(host, make_log(nodes=0))
    with tenant_scope(host.tenant_id), pytest.raises(IntegrityError, match="has events"), transaction.atomic():
        Run.objects.filter(tenant_id=host.tenant_id).delete()
    with tenant_scope(host.tenant_id), pytest.raises(IntegrityError, match="has events"), transaction.atomic():
        Run.objects.filter(tenant_id=host.tenant_id).update(id=-1)
    assert len(rows_of(host)["Event"]) == 2


def test_an_event_needs_a_run_of_its_own_tenant(host: Host) -> None:
    other = make_host(make_tenant("other"))
    take(other, make_log())
    take(host, make_log())
    with tenant_scope(other.tenant_id):
        foreign = Run.objects.get(tenant_id=other.tenant_id).pk
    with tenant_scope(host.tenant_id):
        for run in (foreign, -1):
            event = Event.objects.filter(tenant_id=host.tenant_id)[0]
            event.run_id = run
            with pytest.raises(IntegrityError, match="which there is not"), transaction.atomic():
                event.save(force_insert=True)


def test_a_run_that_was_stored_and_is_gone_is_made_again(host: Host) -> None:
    take(host, make_log())
    with tenant_scope(host.tenant_id), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('openwop.retention', 'on', true)")
        for table in ("runs_attempt", "runs_runnode", "runs_event", "runs_run"):
            cursor.execute(f"DELETE FROM {table} WHERE tenant_id = %s", [host.tenant_id])
        cursor.execute("SELECT set_config('openwop.retention', '', true)")
    assert counts(take(host, make_log())) == (8, 0, 0, 0)


def test_refusals_among_the_items_are_passed_on(host: Host) -> None:
    receipt = take_in(ref(host), [*read(make_log()), Refusal(8, "torn", None)])
    assert counts(receipt) == (8, 0, 1, 0)
    assert [one.reason for one in receipt.refused] == ["torn"]
