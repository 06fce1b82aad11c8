"""Runs that nobody here began: a fork that another tenant made of ours, and a run of another tenant in our list."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs import queries
from runs.follow_store import _commit, _discovered, _followed
from runs.follower.discovery import read_snapshot
from runs.models import Host, Incident
from runs.store import ref
from runs.store.subscriptions import follow_delivered_run
from runs.store.unstarted import PATIENCE, notice_unstarted
from tests.factories import make_host, make_log, make_tenant, read, take

pytestmark = pytest.mark.django_db

SOURCE = Path(__file__).parents[1] / "fixtures" / "recordings" / "openwop-app" / "forks" / "source" / "events.ndjson"


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def host(tenant: Tenant) -> Host:
    return make_host(tenant, origin="https://host.example")


def unstarted(tenant: Tenant, host: Host, *, later: timedelta = PATIENCE * 2) -> list[str]:
    with tenant_scope(tenant.pk):
        notice_unstarted(ref(host), now=timezone.now() + later)
        rows, _ = queries.incidents(tenant.pk, host="alpha")
        assert all(row.kind == "unstarted-run" for row in rows)
        return [row.text for row in rows]


def listed_with_events(host: Host, run: str, **relation: object) -> None:
    """As the host lists it, then its events."""
    told = read_snapshot({"runId": run, "status": "running", **relation})
    assert told is not None
    _discovered(_followed(host), [told], "worker")
    _commit(_followed(host), run, read(make_log(run)))
    _discovered(_followed(host), [told], "worker")


def fork_of(source: str) -> dict[str, object]:
    return {"parentRunId": source, "parentSeq": 5, "forkMode": "branch"}


def test_a_fork_that_was_not_asked_for_here_is_noticed_once(tenant: Tenant, host: Host) -> None:
    take(host, make_log())
    listed_with_events(host, "fork-1", **fork_of("run-1"))
    assert unstarted(tenant, host, later=timedelta()) == [], "its answer may not have been read yet"
    told = ["A fork of run-1 that was not asked for here. Hosts are known that let another tenant fork a run."]
    assert [unstarted(tenant, host) for _ in range(2)] == [told, told]


def test_a_fork_that_was_asked_for_here_is_none(tenant: Tenant, host: Host) -> None:
    take(host, make_log())
    with tenant_scope(tenant.pk):
        follow_delivered_run(tenant_id=tenant.pk, host_id=host.pk, run_id="fork-1", asked_here=True)
    listed_with_events(host, "fork-1", **fork_of("run-1"))
    assert unstarted(tenant, host) == []


@pytest.mark.parametrize("relation", [{}, {"parentRunId": "run-1", "parentNodeId": "step-1"}, fork_of("unknown")])
def test_other_runs_are_begun_on_their_hosts(tenant: Tenant, host: Host, relation: dict[str, object]) -> None:
    take(host, make_log())
    listed_with_events(host, "other", **relation)
    assert unstarted(tenant, host) == []


def test_a_run_of_another_tenant_than_the_hosts_first(tenant: Tenant, host: Host) -> None:
    for run in ("acme/run-0123456789abcdef", "acme/run-1123456789abcdef", "beta/run-2123456789abcdef"):
        take(host, make_log(run))
    assert unstarted(tenant, host) == ["A run of another tenant than the host's other runs are of."]
    with tenant_scope(tenant.pk):
        (one,) = Incident.objects.filter(tenant_id=tenant.pk)
        assert one.run_id is not None


def test_the_recorded_fork_by_another_tenant(tenant: Tenant, host: Host) -> None:
    """The host lists it to the tenant that owns its source, as any fork; the other tenant gets 404."""
    events = SOURCE.read_text().splitlines()
    source = json.loads(events[0])["runId"]
    take(host, events)
    listed_with_events(host, "2bb33b36-b15d-4173-9961-b60dc05a4394", **fork_of(source))
    assert unstarted(tenant, host)[0].startswith(f"A fork of {source} that was not asked for here")
