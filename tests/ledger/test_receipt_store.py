"""Receipts in the database: what became of each attempted write, beside what the ledger has of it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger import receipt_store
from ledger.domain.answers import capped
from ledger.domain.observing import Sight
from ledger.domain.tool_calls import MemoryTools
from ledger.models import Receipt, ReceiptReading
from ledger.observations import Look, Source, observe
from ledger.queries.receipts import ReceiptCounts, ReceiptFilter, receipt_counts, receipt_list, unasked_writes
from ledger.rebuild import rebuild
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.models import Host, Run
from runs.store.retention import derive_anew, withhold_payloads
from tests.factories import make_event, make_host, make_log, make_tenant, take
from tests.ledger.ledger_rows import ledger_rows
from tests.ledger.test_store import ARRIVED, LATER, SOON, arrive, read_all, write

ASKED = {"key": "plan", "value": "Growth", "scope": {"type": "user"}, "agentIdentity": "scout"}
ENTRY = {"key": "plan", "scope": {"type": "user"}, "agentIdentity": "scout", "memoryRef": "notes", "memoryId": "m1"}
DONE = {"entry": ENTRY, "needsDecision": False}


def called(sequence: int, call: str = "c1", *, asked: Any = ASKED, tool: str = "remember", **told: Any) -> Any:
    payload = {"agentId": "agent-1", "toolName": tool, "callId": call, "inputs": asked}
    return make_event(sequence, "agent.toolCalled", node=told.pop("node", "act"), payload=payload, **told)


def returned(
    sequence: int, outcome: Any = DONE, call: str = "c1", *, tool: str = "remember", run: str = "run-1", **told: Any
) -> Any:
    payload = {"agentId": "agent-1", "toolName": tool, "callId": call, "outcome": outcome} | told
    return make_event(sequence, "agent.toolReturned", node="act", payload=payload, run=run)


def approval(sequence: int, type: str, **told: Any) -> Any:
    return make_event(sequence, f"approval.{type}", node="act", payload={"callId": "c1"} | told)


def receipts(tenant: Tenant, *columns: str) -> list[tuple[Any, ...]]:
    with tenant_scope(tenant.pk):
        return list(Receipt.objects.filter(tenant_id=tenant.pk).order_by("run_id", "sequence").values_list(*columns))


def states(tenant: Tenant) -> list[tuple[str, list[str]]]:
    return [(state, reasons) for state, reasons in receipts(tenant, "state", "reasons")]


def entry(**members: Any) -> dict[str, Any]:
    return {"entry": ENTRY | members}


OVERSIZED = capped({"error": {"code": "too_large", "message": "x" * 66_000}, "detail": ["y" * 900] * 90}, 4096)
"""As a tool answers under a cap: whole JSON, with the error kept."""

# What the tool answered; whether the log shows a write beside it; the state and why.
ANSWERS: dict[str, tuple[Any, bool, str, list[str]]] = {
    "the address that was asked for": (DONE, True, "confirmed", ["address_matches"]),
    "the same, and no write in the log": (DONE, False, "confirmed", ["address_matches"]),
    "null fields": (entry(ttl=None, tags=[], note="", expiresAt=None), True, "confirmed", ["address_matches"]),
    "wrong scope": (entry(scope={"type": "project"}), True, "unknown", ["wrong_scope"]),
    "wrong identity": (entry(agentIdentity="other"), True, "unknown", ["wrong_identity"]),
    "no identity, which is the default one": (entry(agentIdentity=None), True, "unknown", ["wrong_identity"]),
    "wrong key": (entry(key="seat"), True, "unknown", ["wrong_key"]),
    "needs a decision, beside a matching entry": (
        {"entry": ENTRY, "needsDecision": True},
        True,
        "waiting",
        ["needs_decision"],
    ),
    "an error of 66 KB under a cap": (OVERSIZED, False, "refused", ["error"]),
    "the same as a text": (json.dumps(OVERSIZED), False, "refused", ["error"]),
    "an error of 66 KB, cut in the middle": (
        json.dumps({"error": "x" * 66_000})[:4096],
        False,
        "unknown",
        ["unparseable"],
    ),
    "invalid JSON": ('{"entry": {"key": "plan"', True, "unknown", ["unparseable"]),
    "an MCP error": ({"isError": True, "content": [{"type": "text", "text": "no"}]}, False, "refused", ["error"]),
    "a transport failure": ({"error": {"code": "ECONNRESET"}}, True, "unknown", ["transport_failure"]),
}


@pytest.mark.parametrize(("outcome", "is_written", "state", "reasons"), ANSWERS.values(), ids=ANSWERS.keys())
def test_an_answer_makes_a_receipt_and_leaves_the_ledger_as_the_log_has_it(
    tenant: Tenant, host: Host, outcome: Any, is_written: bool, state: str, reasons: list[str]
) -> None:
    arrive(host, make_event(0, "run.started"), called(1))
    arrive(host, write(2, node="act") if is_written else make_event(2, "node.started", node="act"))
    arrive(host, returned(3, outcome))
    read_all(tenant)
    assert states(tenant) == [(state, reasons)]
    rows = ledger_rows(tenant)
    assert [row[:3] for row in rows["writes"]] == ([("run-1", 2, ("notes", "m1"))] if is_written else [])
    assert [row[:3] for row in rows["entries"]] == ([("notes", "m1", 1)] if is_written else [])


@pytest.mark.parametrize(("outcome", "is_written", "state", "reasons"), ANSWERS.values(), ids=ANSWERS.keys())
def test_a_repeat_after_each_answer(
    tenant: Tenant, host: Host, outcome: Any, is_written: bool, state: str, reasons: list[str]
) -> None:
    """After a confirmation the effect is there already; after all else the repeat is an attempt of its own, and one
    while a decision is awaited asks for the same thing again."""
    arrive(host, make_event(0, "run.started"), called(1), returned(2, outcome), called(3, "c2"), write(4, node="act"))
    arrive(host, returned(5, DONE, "c2"))
    read_all(tenant)
    first, second = receipts(tenant, "state", "repeat", "repeats", "attempt", "reasons")
    assert first == (state, "first", None, 1, reasons)
    if state == "confirmed":
        assert second == ("confirmed", "already_made", 1, 1, ["already_made"])
    elif state == "waiting":
        assert second == ("confirmed", "pending", 1, 1, ["address_matches"])
    else:
        assert second == ("confirmed", "new_attempt", 1, 2, ["address_matches"])
    assert [row[:3] for row in ledger_rows(tenant)["writes"]] == [("run-1", 4, ("notes", "m1"))]


LOGS: dict[str, tuple[list[Any], str, list[str], int]] = {
    # What the log has behind the call; the state and why; the writes in the ledger.
    "nothing yet": ([], "requested", ["in_flight"], 0),
    "no return before the node's end": ([make_event(2, "node.completed", node="act")], "unknown", ["no_return"], 0),
    "no return before the run's end": (
        [write(2, node="act"), make_event(3, "run.failed")],
        "unknown",
        ["no_return"],
        1,
    ),
    "an approval asked for": ([approval(2, "requested")], "waiting", ["awaits_approval"], 0),
    "an approval denied": ([approval(2, "requested"), approval(3, "rejected")], "refused", ["rejected"], 0),
    "denied, and a write all the same": (
        [approval(2, "requested"), approval(3, "rejected"), write(4, node="act"), returned(5)],
        "unknown",
        ["contradiction"],
        1,
    ),
    "an approval granted": ([approval(2, "requested"), approval(3, "granted")], "requested", ["in_flight"], 0),
    "granted and made": (
        [approval(2, "requested"), approval(3, "granted"), write(4, node="act"), returned(5)],
        "confirmed",
        ["address_matches"],
        1,
    ),
    "a decision needed, granted, and written after it": (
        [returned(2, {"entry": ENTRY, "needsDecision": True}), approval(3, "granted"), write(4, node="act")],
        "confirmed",
        ["written_after_approval"],
        1,
    ),
    "a decision needed, granted, and written before it": (
        [write(2, node="act"), returned(3, {"entry": ENTRY, "needsDecision": True}), approval(4, "granted")],
        "unknown",
        ["decided_without_outcome"],
        1,
    ),
    "a decision needed, and denied": (
        [returned(2, {"entry": ENTRY, "needsDecision": True}), approval(3, "rejected")],
        "refused",
        ["rejected"],
        0,
    ),
}


@pytest.mark.parametrize(("events", "state", "reasons", "writes"), LOGS.values(), ids=LOGS.keys())
def test_what_follows_a_call_makes_its_receipt(
    tenant: Tenant, host: Host, events: list[Any], state: str, reasons: list[str], writes: int
) -> None:
    arrive(host, make_event(0, "run.started"), called(1), *events)
    read_all(tenant)
    assert states(tenant) == [(state, reasons)]
    assert len(ledger_rows(tenant)["writes"]) == writes


def test_a_receipt_has_all_that_is_known_of_it(tenant: Tenant, host: Host) -> None:
    arrive(host, make_event(0, "run.started"), called(1), write(2, node="act"), returned(3))
    read_all(tenant)
    with tenant_scope(tenant.pk):
        (row,) = receipt_list(tenant.pk).rows
        (kept,) = Receipt.objects.filter(tenant_id=tenant.pk)
    assert (row.host, row.run_id, row.sequence, row.tool, row.call_id) == ("alpha", "run-1", 1, "remember", "c1")
    assert (row.node, row.agent, row.memory_ref, row.memory_id, row.write) == ("act", "agent-1", "notes", "m1", 2)
    assert row.asked == row.returned and row.asked is not None
    assert (row.asked.key, row.asked.scope, row.asked.identity) == ("plan", "user", "scout")
    assert [(one.trace, one.sequence, one.inferred) for one in row.evidence] == [
        ("called", 1, False),
        ("written", 2, False),
        ("returned", 3, False),
    ]
    assert (row.has_entry, row.claimed_only, row.repeat, row.attempt) == (True, False, "first", 1)
    assert kept.digest is not None and len(kept.digest) == 32
    assert bytes(kept.digest).hex() == row.digest


def test_reads_never_enter_and_a_servers_name_before_a_tool_counts_for_nothing(tenant: Tenant, host: Host) -> None:
    arrive(
        host,
        called(0, "c0", tool="recall"),
        returned(1, call="c0", tool="recall"),
        called(2, "c1", tool="mcp__memory__list_memories"),
        called(3, "c2", tool="memory.remember"),
        called(4, "c3", tool="search"),
    )
    read_all(tenant)
    assert receipts(tenant, "sequence", "tool") == [(3, "memory.remember")]


def test_runs_without_memory_tools_cost_no_reading(tenant: Tenant, host: Host) -> None:
    arrive(host, *make_log(nodes=3), called(11, tool="search"), returned(12, tool="search"))
    read_all(tenant)
    with tenant_scope(tenant.pk):
        assert not ReceiptReading.objects.filter(tenant_id=tenant.pk).exists()
        counts = receipt_counts(tenant.pk)
    assert counts == ReceiptCounts(states={}, claimed_only=0, unasked=3)


def test_claims_without_a_write_and_writes_without_a_call_are_both_told(tenant: Tenant, host: Host) -> None:
    arrive(
        host,
        make_event(0, "run.started"),
        called(1),
        returned(2),
        write(3, "m9", node="other"),
        called(4, "c2", asked=ASKED | {"key": "seat"}),
        write(5, "m2", node="act"),
        returned(6, entry(key="seat", memoryId="m2"), "c2"),
    )
    read_all(tenant)
    with tenant_scope(tenant.pk):
        counts = receipt_counts(tenant.pk)
        claimed = receipt_list(tenant.pk, ReceiptFilter(claimed_only=True)).rows
        unasked = unasked_writes(tenant.pk).rows
    assert (counts.attempts, counts.claimed_only, counts.unasked) == (2, 1, 1)
    assert [(row.sequence, row.memory_id, row.has_entry) for row in claimed] == [(1, "m1", False)]
    assert [(row.sequence, row.memory_id, row.node) for row in unasked] == [(3, "m9", "other")]


# --- Late, again, in parts ---

STORY = [
    make_event(0, "run.started"),
    called(1),
    approval(2, "requested"),
    approval(3, "granted"),
    write(4, node="act"),
    returned(5),
    called(6, "c2"),
    returned(7, {"error": {"code": "full"}}, "c2"),
    called(8, "c3", asked=ASKED | {"key": "seat"}),
    write(9, "m3", node="other"),
    returned(10, entry(key="sofa"), "c3"),
    make_event(11, "node.completed", node="act"),
    make_event(12, "run.completed"),
]
COLUMNS = (
    *("sequence", "state", "reasons", "evidence", "repeat", "repeats", "attempt"),
    *("write_sequence", "memory_id", "claimed_only", "digest"),
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(STORY), cuts=st.lists(st.integers(1, len(STORY)), max_size=3))
def test_whatever_order_events_come_in_the_receipts_are_the_same(
    tenant: Tenant, host: Host, order: list[Any], cuts: list[int]
) -> None:
    number = Host.objects.count()
    expected_host, given_host = make_host(tenant, f"a-{number}"), make_host(tenant, f"b-{number}")
    arrive(expected_host, *STORY)
    bounds = [0, *sorted(set(cuts)), len(order)]
    for start, end in zip(bounds, bounds[1:], strict=False):
        if start < end:
            arrive(given_host, *order[start:end])
            # Gaps are read past at once, so that what comes into them is late.
            read_all(tenant, now=LATER)
    with tenant_scope(tenant.pk):
        rows = [
            list(Receipt.objects.filter(tenant_id=tenant.pk, host_id=one.pk).order_by("sequence").values_list(*COLUMNS))
            for one in (expected_host, given_host)
        ]
    assert rows[0] == rows[1] and len(rows[0]) == 3


def test_a_late_return_turns_unknown_into_confirmed(tenant: Tenant, host: Host) -> None:
    arrive(host, make_event(0, "run.started"), called(1), make_event(3, "run.completed"))
    read_all(tenant, now=LATER)
    assert states(tenant) == [("unknown", ["no_return"])]
    arrive(host, returned(2))
    read_all(tenant, now=LATER)
    assert states(tenant) == [("confirmed", ["address_matches"])]


def test_an_end_that_comes_by_itself_ends_the_waiting(tenant: Tenant, host: Host) -> None:
    """What it comes with speaks of no tool."""
    arrive(host, make_event(0, "run.started"), called(1))
    read_all(tenant)
    arrive(host, approval(2, "requested"))
    read_all(tenant)
    assert states(tenant) == [("waiting", ["awaits_approval"])]
    arrive(host, make_event(3, "run.cancelled"))
    read_all(tenant)
    assert states(tenant) == [("unknown", ["no_return"])]


def test_reading_again_changes_no_row(tenant: Tenant, host: Host) -> None:
    arrive(host, *STORY)
    read_all(tenant)
    before = receipts(tenant, *COLUMNS)
    with tenant_scope(tenant.pk):
        ReceiptReading.objects.update(is_stale=True)
        with CaptureQueriesContext(connection) as asked:
            receipt_store.read_all(tenant.pk)
    assert receipts(tenant, *COLUMNS) == before
    assert not any("pg_notify" in query["sql"] for query in asked.captured_queries)


@pytest.mark.usefixtures("committed")
def test_a_rebuild_gives_the_same_receipts_and_a_check_finds_what_was_changed() -> None:
    tenant = make_tenant()
    host = make_host(tenant)
    arrive(host, *STORY)
    arrive(host, *make_log("run-2"))
    read_all(tenant)
    assert [one for one in rebuild(tenant.pk, check=True, now=SOON) if one.lost or one.gained] == []
    assert [(one.table, one.rows) for one in rebuild(tenant.pk, now=SOON) if one.table == "ledger_receipt"] == [
        ("ledger_receipt", 3)
    ]
    with tenant_scope(tenant.pk):
        Receipt.objects.filter(tenant_id=tenant.pk, sequence=8).update(state="confirmed")
        Receipt.objects.filter(tenant_id=tenant.pk, sequence=6).delete()
    (found,) = [one for one in rebuild(tenant.pk, check=True, now=SOON) if one.lost or one.gained]
    assert (found.table, found.lost, found.gained) == ("ledger_receipt", 1, 2)
    rebuild(tenant.pk, now=SOON)
    assert [state for state, _ in states(tenant)] == ["confirmed", "confirmed", "unknown"]


def test_a_run_that_takes_long_rests_and_is_read_again_after_it(
    tenant: Tenant, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipt_store, "SLOW", -1.0)
    monkeypatch.setattr(receipt_store, "REST", 1_000_000)
    arrive(host, make_event(0, "run.started"), called(1))
    read_all(tenant)
    arrive(host, returned(2))
    read_all(tenant)
    assert states(tenant) == [("requested", ["in_flight"])]
    with tenant_scope(tenant.pk):
        assert receipt_counts(tenant.pk).behind == 1
    read_all(tenant, now=ARRIVED + timedelta(days=365))
    assert states(tenant) == [("confirmed", ["address_matches"])]
    with tenant_scope(tenant.pk):
        assert receipt_counts(tenant.pk).behind == 0


# --- Names of tools ---


def test_a_tenants_own_names_count_for_what_is_there_already(tenant: Tenant, host: Host) -> None:
    arrive(host, called(0, "c0", tool="store_note"), returned(1, call="c0", tool="store_note"), called(2))
    read_all(tenant)
    assert receipts(tenant, "sequence") == [(2,)]
    with tenant_scope(tenant.pk):
        receipt_store.name_memory_tools(
            tenant.pk, MemoryTools(frozenset({"store_note"}), frozenset({"remember"})), by="ada"
        )
    read_all(tenant)
    assert receipts(tenant, "sequence", "state") == [(0, "confirmed")]
    assert [one for one in rebuild(tenant.pk, check=True, now=SOON) if one.lost or one.gained] == []


# --- Hostile ---

NAMES = st.sampled_from(
    [
        *("toolName", "callId", "inputs", "outcome", "entry", "key", "scope", "type", "agentIdentity", "memoryRef"),
        *("memoryId", "error", "status", "content", "structuredContent", "isError", "jsonrpc", "result"),
        *("needsDecision", "truncated"),
    ]
) | st.text(max_size=3)
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(["remember", "c1", "m1", "approve"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(inputs=ANYTHING, outcome=ANYTHING, beside=st.dictionaries(NAMES, ANYTHING, max_size=3))
def test_whatever_a_host_sends_the_log_is_read_on(
    tenant: Tenant, host: Host, inputs: Any, outcome: Any, beside: dict[str, Any]
) -> None:
    one = make_host(tenant, f"h-{Host.objects.count()}")
    called_with = {"agentId": "agent-1", "toolName": "remember", "callId": "c1", "inputs": inputs}
    answered = beside | {"toolName": "remember", "callId": "c1", "outcome": outcome}
    events = [
        json.dumps(make_event(0, "agent.toolCalled", node="act", payload=called_with)),
        json.dumps(make_event(1, "agent.toolReturned", node="act", payload=answered)),
    ]
    take(one, events, received_at=ARRIVED)
    read_all(tenant, now=LATER)
    with tenant_scope(tenant.pk):
        assert not ReceiptReading.objects.filter(is_stale=True).exists()
        list(receipt_list(tenant.pk, ReceiptFilter(host=one.slug)).rows)


HOSTILE = "<img src=x onerror=alert(1)>\x00\ud800\u202e" + "k" * 5_000


def test_hostile_names_are_kept_cut_and_come_back_as_they_were(tenant: Tenant, host: Host) -> None:
    arrive(host, called(0, HOSTILE, asked={"key": HOSTILE, "scope": {"type": HOSTILE}}, tool=f"{HOSTILE}.remember"))
    read_all(tenant)
    with tenant_scope(tenant.pk):
        (row,) = receipt_list(tenant.pk).rows
    assert row.tool == f"{HOSTILE}"[:511] + "…" and row.call_id == HOSTILE[:511] + "…"
    # A lone surrogate has no canonical form, so nothing can be said about where it was to go.
    assert (row.asked, row.digest, row.state) == (None, None, "requested")


# --- Whose ---


def test_no_tenant_sees_anothers_receipts(tenant: Tenant, host: Host) -> None:
    arrive(host, *STORY)
    read_all(tenant)
    other = make_tenant("other")
    with tenant_scope(other.pk):
        assert receipt_list(other.pk).rows == () and receipt_list(tenant.pk).rows == ()
        assert receipt_counts(tenant.pk).attempts == 0
        assert not Receipt.objects.exists() and not ReceiptReading.objects.exists()
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM ledger_receipt")
        assert cursor.fetchone() == (0,)


def test_what_retention_took_away_proves_nothing_any_more(tenant: Tenant, host: Host) -> None:
    """The attempts stay, with the tool, the call and the write; what the answer said is not known any more."""
    arrive(host, make_event(0, "run.started"), called(1), write(2, node="act"), returned(3))
    arrive(host, called(4, "c2"), returned(5, None, "c2", error="timeout"))
    read_all(tenant)
    assert [state for state, _ in states(tenant)] == ["confirmed", "confirmed"]
    with tenant_scope(tenant.pk):
        run = Run.objects.get(tenant_id=tenant.pk).pk
        assert withhold_payloads(tenant.pk, run, after=-1, most=100).taken
        derive_anew(tenant.pk, [run])
    read_all(tenant)
    assert receipts(tenant, "sequence", "state", "reasons", "tool", "call_id", "asked_identity") == [
        (1, "unknown", ["withheld"], "remember", "c1", None),
        (4, "unknown", ["withheld"], "remember", "c2", None),
    ]
    assert len(ledger_rows(tenant)["writes"]) == 1


def test_an_entry_that_was_seen_is_evidence_and_changes_no_state(tenant: Tenant, host: Host) -> None:
    arrive(host, make_event(0, "run.started"), called(1), returned(2, entry(key="sofa")))
    read_all(tenant)
    looks = [Look("notes", "m1", Sight("content", "text"))]
    observe(tenant_id=tenant.pk, host_id=host.pk, looks=looks, source=Source.READ, at=LATER)
    with tenant_scope(tenant.pk):
        (row,) = receipt_list(tenant.pk).rows
    assert [(one.trace, one.sequence) for one in row.evidence] == [("called", 1), ("returned", 2), ("read_back", None)]
    assert (row.evidence[-1].at, row.state, row.has_entry) == (LATER, "unknown", True)
    looks = [Look("notes", "m1", Sight("gone"))]
    observe(tenant_id=tenant.pk, host_id=host.pk, looks=looks, source=Source.READ, at=LATER + timedelta(seconds=1))
    with tenant_scope(tenant.pk):
        (row,) = receipt_list(tenant.pk).rows
    assert [one.trace for one in row.evidence] == ["called", "returned"]


def test_news_of_receipts_is_announced(tenant: Tenant, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(receipt_store, "announce", lambda tenant_id, topics: told.append((tenant_id, topics)))
    arrive(host, called(0))
    read_all(tenant)
    assert told == [(tenant.pk, {"ledger": None})]
