"""States out of the database: kept every so often, the same whatever is kept, and none the wiser for what came late."""

from __future__ import annotations

import random
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs import queries
from runs.domain.state_kept import dump
from runs.models import Host, Run, StateSnapshot
from runs.queries.state import interrupt_rows, long_texts, node_row, run_state
from runs.store import snapshots
from tests.factories import make_event, make_host, make_tenant, take

pytestmark = pytest.mark.django_db

Event = dict[str, Any]


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def host(tenant: Tenant) -> Host:
    return make_host(tenant)


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    """States are kept after ten events."""
    monkeypatch.setattr(snapshots, "EVENTS_APART", 10)
    monkeypatch.setattr(snapshots, "MOST_AT_ONCE", 10)


def a_log(length: int, *, run: str = "run-1") -> list[Event]:
    """Nodes that start, wait and end, variables that change, a counter, and lines that mean nothing to a state."""
    told: list[tuple[str, str | None, dict[str, Any]]] = [
        ("run.started", None, {"workflowId": "w", "inputs": {"n": 1}})
    ]
    for number in range(length - 1):
        node = f"n{number // 6 % 5}"
        kinds: list[tuple[str, str | None, dict[str, Any]]] = [
            ("node.started", node, {}),
            ("variable.changed", node, {"name": f"v{number % 4}", "next": number}),
            ("log.appended", node, {"message": "m"}),
            ("channel.written", node, {"channel": "total", "reducer": "counter", "value": number}),
            ("node.suspended", node, {"kind": "approval", "interruptId": f"i-{number}"}),
            ("node.completed", node, {}),
        ]
        told.append(kinds[number % 6])
    return [
        make_event(sequence, type_, run=run, node=node, payload=payload)
        for sequence, (type_, node, payload) in enumerate(told)
    ]


def facts(tenant: Tenant, *, host: str = "alpha") -> queries.RunFacts:
    found = queries.find_run(tenant.pk, host, "run-1")
    assert found is not None
    return found


def states(tenant: Tenant, places: list[int]) -> list[bytes]:
    with tenant_scope(tenant.pk):
        run = facts(tenant)
        return [dump(snapshots.state_at(tenant.pk, run.pk, at)) for at in places]


def kept(tenant: Tenant) -> list[int]:
    with tenant_scope(tenant.pk):
        return list(StateSnapshot.objects.order_by("sequence").values_list("sequence", flat=True))


def test_what_is_kept_changes_no_state(tenant: Tenant, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    take(host, a_log(100))
    places = [-1, 0, 5, 9, 10, 11, 50, 98, 99, 1000]
    folded = states(tenant, places)
    assert kept(tenant) == []
    monkeypatch.setattr(snapshots, "EVENTS_APART", 10)
    monkeypatch.setattr(snapshots, "MOST_AT_ONCE", 10)
    assert states(tenant, places) == folded
    assert kept(tenant) == [9, 19, 29, 39, 49, 59, 69, 79, 89, 99]
    shuffled = random.Random(7).sample(range(100), 100)
    assert states(tenant, shuffled) == [states(tenant, [at])[0] for at in shuffled]


def test_a_state_is_folded_on_from_the_last_one_that_is_kept(tenant: Tenant, host: Host, near: None) -> None:
    take(host, a_log(100))
    states(tenant, [99])
    with tenant_scope(tenant.pk):
        run = facts(tenant)
        with CaptureQueriesContext(
            connection,
        ) as asked:
            snapshots.state_at(tenant.pk, run.pk, 57)
    # The run's row, the list of what is kept, the state itself, and the events behind it.
    assert len(asked) == 4
    assert "'after': 49" in str(asked[-1]) or "> 49" in asked[-1]["sql"]


def test_states_are_kept_ready_in_parts(
    tenant: Tenant, host: Host, near: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "KEPT_AT_ONCE", 25)
    take(host, a_log(60))
    with tenant_scope(tenant.pk):
        run = facts(tenant).pk
    snapshots.keep_states(tenant.pk, run)
    assert len(kept(tenant)) >= 4
    with CaptureQueriesContext(connection) as asked:
        states(tenant, [59])
    assert not any("INSERT" in one["sql"] for one in asked)
    snapshots.keep_states(tenant.pk, 10**9)


def test_a_run_that_grows_keeps_what_is_kept(tenant: Tenant, host: Host, near: None) -> None:
    log = a_log(60)
    take(host, log[:35])
    before = states(tenant, [34])
    assert kept(tenant) == [9, 19, 29]
    take(host, log[35:])
    assert states(tenant, [34]) == before
    states(tenant, [59])
    assert kept(tenant) == [9, 19, 29, 39, 49, 59]


@pytest.mark.parametrize("late", [3, 12, 28])
def test_an_event_that_comes_late_takes_back_what_was_kept_behind_it(
    tenant: Tenant, host: Host, near: None, late: int
) -> None:
    log = a_log(40)
    take(host, log)
    whole = states(tenant, list(range(40)))
    with tenant_scope(tenant.pk):
        StateSnapshot.objects.all().delete()
    other = make_host(tenant, "beta")
    take(other, [*log[:late], *log[late + 1 :]])
    with tenant_scope(tenant.pk):
        run = queries.find_run(tenant.pk, "beta", "run-1")
        assert run is not None
        snapshots.state_at(tenant.pk, run.pk, 39)
        assert StateSnapshot.objects.count() >= 3
    take(other, [log[late]])
    with tenant_scope(tenant.pk):
        assert [dump(snapshots.state_at(tenant.pk, run.pk, at)) for at in range(40)] == whole


def test_a_completed_event_takes_back_what_was_kept(tenant: Tenant, host: Host, near: None) -> None:
    log = a_log(30)
    stub = {name: value for name, value in log[2].items() if name != "payload"}
    take(host, [*log[:2], stub, *log[3:]])
    before = states(tenant, [29])
    take(host, [log[2]])
    after = states(tenant, [29])
    assert before != after
    with tenant_scope(tenant.pk):
        StateSnapshot.objects.all().delete()
    assert states(tenant, [29]) == after


def test_the_order_of_arrival_changes_no_state(tenant: Tenant, host: Host, near: None) -> None:
    log = a_log(60)
    take(host, log)
    expected = states(tenant, [20, 59])
    shuffled = random.Random(3).sample(log, 60)
    other = make_host(tenant, "beta")
    for start in range(0, 60, 20):
        take(other, shuffled[start : start + 20])
        with tenant_scope(tenant.pk):
            snapshots.state_at(tenant.pk, facts(tenant, host="beta").pk, 59)
    with tenant_scope(tenant.pk):
        run = facts(tenant, host="beta")
        assert [dump(snapshots.state_at(tenant.pk, run.pk, at)) for at in (20, 59)] == expected


def test_a_state_of_another_version_is_folded_anew(tenant: Tenant, host: Host, near: None) -> None:
    take(host, a_log(30))
    expected = states(tenant, [29])
    with tenant_scope(tenant.pk):
        StateSnapshot.objects.update(version=0, body=b"nonsense")
    assert states(tenant, [29]) == expected


def test_states_of_another_tenant_are_nobodys(tenant: Tenant, host: Host, near: None) -> None:
    take(host, a_log(30))
    states(tenant, [29])
    with tenant_scope(make_tenant("other").pk):
        assert StateSnapshot.objects.count() == 0


def test_states_go_with_their_run(tenant: Tenant, host: Host, near: None) -> None:
    take(host, a_log(30))
    states(tenant, [29])
    with tenant_scope(tenant.pk), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('openwop.retention', 'on', true)")
        run = Run.objects.get()
        for table in ("runs_attempt", "runs_runnode", "runs_event"):
            cursor.execute(f"DELETE FROM {table} WHERE tenant_id = %s AND run_id = %s", [tenant.pk, run.pk])
        cursor.execute("DELETE FROM runs_run WHERE tenant_id = %s AND id = %s", [tenant.pk, run.pk])
    assert kept(tenant) == []


# --- what is shown of a state ---


def test_the_state_says_behind_which_event_it_is_and_what_lacks_before_it(tenant: Tenant, host: Host) -> None:
    log = a_log(20)
    take(host, [*log[:5], *log[8:]])
    with tenant_scope(tenant.pk):
        run = facts(tenant)
        told = {at: run_state(tenant.pk, run, at) for at in (4, 6, 8, 19)}
    assert [(one.place.sequence if one.place else None, one.missing) for one in told.values()] == [
        (4, 0),
        (4, 2),
        (8, 3),
        (19, 3),
    ]


def test_long_values_are_found_in_their_events(tenant: Tenant, host: Host) -> None:
    long, part = "x" * 3000, "y" * 2000
    take(
        host,
        [
            make_event(0, "run.started", payload={"inputs": {"text": long}}),
            make_event(1, "variable.changed", payload={"name": "v", "next": long}),
            make_event(
                2, "channel.written", payload={"channel": "c", "reducer": "merge", "value": {"a": 1, "b": part}}
            ),
        ],
    )
    with tenant_scope(tenant.pk):
        run = facts(tenant)
        state = run_state(tenant.pk, run).state
        values = [state.inputs, state.variables["v"].value, *state.channels["c"].parts.values()]
        texts = long_texts(tenant.pk, run.pk, values)
    assert [texts.get(value.digest, value.text) for value in values if value] == [
        f'{{"text": "{long}"}}',
        f'"{long}"',
        "1",
        f'"{part}"',
    ]


def test_open_interrupts_have_their_ids_and_nodes_their_waits(tenant: Tenant, host: Host) -> None:
    take(
        host,
        [
            make_event(0, "run.started"),
            make_event(1, "node.started", node="ask"),
            make_event(2, "node.suspended", node="ask", payload={"kind": "approval", "interruptId": "i-9"}),
        ],
    )
    with tenant_scope(tenant.pk):
        run = facts(tenant)
        state = run_state(tenant.pk, run).state
        rows, total = interrupt_rows(tenant.pk, run.pk, state, most=10)
        node = node_row(state, "ask")
    assert total == 1
    assert (rows[0].node, rows[0].kind, rows[0].interrupt_id, rows[0].sequence) == ("ask", "approval", "i-9", 2)
    assert (node.status, node.waits_for, node.since, node.started_sequence) == ("wait", "approval", 2, 1)
