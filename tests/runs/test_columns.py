"""The columns of a run are those of its log, whatever order it came in, and are built again only where it changed."""

from __future__ import annotations

import random
from typing import Any

import pytest
from django.db import connection

from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain import columns as domain
from runs.domain.columns import Columns
from runs.models import EventChunk, Run
from runs.store import columns as store
from runs.store.columns import columns_of, forget_columns, keep_ready, large_runs
from tests.factories import BEGINNING, make_event, make_host, make_log, make_tenant, take

pytestmark = pytest.mark.django_db

CHUNK = 50


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain, "CHUNK", CHUNK)
    monkeypatch.setattr(store, "CHUNK", CHUNK)
    monkeypatch.setattr(store, "KEPT_FROM", 5)
    forget_columns()


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


def run_of(tenant: Tenant) -> int:
    with tenant_scope(tenant.pk):
        return Run.objects.get(tenant_id=tenant.pk).pk


def read(tenant: Tenant) -> Columns:
    with tenant_scope(tenant.pk):
        return columns_of(tenant.pk, run_of(tenant))


def as_rows(columns: Columns) -> list[tuple[int, str, str]]:
    return [
        (sequence, columns.nodes[lane], columns.type_names[kind][0])
        for sequence, lane, kind in zip(
            columns.sequences.tolist(), columns.lanes.tolist(), columns.types.tolist(), strict=True
        )
    ]


def told(events: list[dict[str, Any]]) -> list[tuple[int, str, str]]:
    return sorted((event["sequence"], event.get("nodeId", ""), event["type"]) for event in events)


def chunks(tenant: Tenant) -> dict[int, int]:
    with tenant_scope(tenant.pk):
        return dict(EventChunk.objects.filter(tenant_id=tenant.pk).values_list("number", "events"))


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Which stretches of the log are read from now on."""
    built: list[tuple[int, int]] = []
    rows = store._rows

    def reading(tenant: int, run: int, first: int, last: int) -> list[domain.Row]:
        built.append((first, last))
        return rows(tenant, run, first, last)

    monkeypatch.setattr(store, "_rows", reading)
    return built


@pytest.mark.parametrize("seed", range(4))
def test_they_are_the_log_in_whatever_order_it_comes(tenant: Tenant, seed: int) -> None:
    host = make_host(tenant)
    events = make_log(nodes=60)
    shuffled = random.Random(seed).sample(events, len(events))
    for start in range(0, len(shuffled), 23):
        part = shuffled[start : start + 23]
        take(host, part + part[:3])
        assert as_rows(read(tenant)) == told(shuffled[: start + 23])
        forget_columns()
        assert as_rows(read(tenant)) == told(shuffled[: start + 23])


def test_times_are_kept_to_the_microsecond(tenant: Tenant) -> None:
    moments = [BEGINNING.replace(microsecond=value) for value in (1, 999_999, 123_456, 0)]
    take(make_host(tenant), [make_event(n, at=at) | {"timestamp": at.isoformat()} for n, at in enumerate(moments)])
    assert read(tenant).at.tolist() == [int(at.timestamp()) * 1_000_000 + at.microsecond for at in moments]
    assert read(tenant).reversals.tolist() == [2, 3]


def test_a_late_event_concerns_its_own_chunk_only(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    host = make_host(tenant)
    events = make_log(nodes=100)
    take(host, [event for event in events if event["sequence"] != 120])
    read(tenant)
    built = recorded(monkeypatch)
    take(host, [events[120]])
    assert as_rows(read(tenant)) == told(events)
    assert built == [(100, 149)]
    assert chunks(tenant)[2] == CHUNK


def test_a_log_that_grows_is_read_from_where_it_ended(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    host = make_host(tenant)
    events = make_log(nodes=100)
    take(host, events[:130])
    read(tenant)
    built = recorded(monkeypatch)
    take(host, events[130:210])
    assert as_rows(read(tenant)) == told(events[:210])
    assert built == [(130, 149), (150, 249)]
    read(tenant)
    assert len(built) == 2


def test_full_chunks_are_kept_and_the_last_one_once_the_run_has_ended(tenant: Tenant) -> None:
    host = make_host(tenant)
    events = make_log(nodes=40)
    take(host, events[:-1])
    read(tenant)
    assert chunks(tenant) == {0: 50, 1: 50}
    take(host, events[-1:])
    read(tenant)
    assert chunks(tenant) == {0: 50, 1: 50, 2: 22}


def test_sequences_that_leap_leave_no_empty_chunks(tenant: Tenant) -> None:
    host = make_host(tenant)
    events = [make_event(sequence, node="n") for sequence in (0, 1, 49, 50, 10_000_001, 10_000_002)]
    take(host, events)
    assert as_rows(read(tenant)) == told(events)


def test_they_are_built_once_and_then_read_with_one_query(tenant: Tenant, django_assert_num_queries: Any) -> None:
    take(make_host(tenant), make_log(nodes=40))
    run = run_of(tenant)
    with tenant_scope(tenant.pk):
        columns_of(tenant.pk, run)
        with django_assert_num_queries(1):
            columns_of(tenant.pk, run)


def test_of_another_tenant_there_is_nothing(tenant: Tenant) -> None:
    take(make_host(tenant), make_log(nodes=40))
    read(tenant)
    run = run_of(tenant)
    other = make_tenant("globex")
    with tenant_scope(other.pk):
        assert len(columns_of(other.pk, run)) == 0
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM runs_eventchunk")
            assert cursor.fetchone() == (0,)


def test_large_runs_are_kept_ready(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LARGE", 100)
    take(make_host(tenant), make_log(nodes=50), received_at=BEGINNING)
    run = run_of(tenant)
    later = BEGINNING.replace(hour=10)
    assert large_runs(tenant.pk, since=None, now=BEGINNING) == []
    assert large_runs(tenant.pk, since=None, now=later) == [run]
    assert large_runs(tenant.pk, since=later, now=later) == []
    keep_ready(tenant.pk, run)
    assert chunks(tenant) == {0: 50, 1: 50, 2: 50}
    assert large_runs(tenant.pk, since=None, now=later) == []
