"""One event by two channels, of which one says more: what is shown is what the richer one says, and nothing is lost."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from ledger.models import MemoryEntry, MemoryWrite
from ledger.rebuild import rebuild
from ledger.store import read_backlog
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs import queries
from runs.models import Event, EventCopy, Host, Incident, Run
from runs.queries import EventDetail, EventFilter
from runs.queries.lens import lens
from tests.factories import BEGINNING, make_event, make_host, make_log, make_tenant, take

pytestmark = pytest.mark.django_db

IDS = {"memoryRef": "notes", "memoryId": "m-1"}


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def host(tenant: Tenant) -> Host:
    return make_host(tenant)


def shown(tenant: Tenant, sequence: int = 0) -> EventDetail:
    with tenant_scope(tenant.pk):
        run = queries.find_run(tenant.pk, "alpha", "run-1")
        assert run is not None
        detail = queries.find_event(tenant.pk, run, sequence)
    assert detail is not None
    return detail


def kept(tenant: Tenant) -> tuple[int, list[str], list[str]]:
    """Events, kinds of the copies beside them, and kinds of incidents."""
    with tenant_scope(tenant.pk):
        return (
            Event.objects.filter(tenant_id=tenant.pk).count(),
            list(EventCopy.objects.filter(tenant_id=tenant.pk).order_by("pk").values_list("kind", flat=True)),
            list(Incident.objects.filter(tenant_id=tenant.pk).order_by("pk").values_list("kind", flat=True)),
        )


def bare(event: dict[str, Any], *without: str) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name not in without}


@pytest.mark.parametrize("first", ["poor", "rich"])
@pytest.mark.parametrize("lacking", [("causationId",), ("eventId",), ("eventId", "causationId")])
def test_labels_that_one_channel_leaves_out_are_shown_from_the_other(
    tenant: Tenant, host: Host, first: str, lacking: tuple[str, ...]
) -> None:
    rich = make_event(0, "agent.toolReturned", node="n", payload={"callId": "c"}, causationId="evt-cause")
    told = [bare(rich, *lacking), rich]
    receipts = [take(host, [one]) for one in (told if first == "poor" else told[::-1])]
    assert [(one.accepted, one.repeated) for one in receipts] == [(1, 0), (0, 1)]
    detail = shown(tenant)
    assert (detail.event_id, detail.causation_id, detail.node) == ("evt-run-1-0", "evt-cause", "n")
    assert kept(tenant) == (1, ["completion"] if first == "poor" else [], [])


@pytest.mark.parametrize("where", ["envelope", "payload", "both"])
@pytest.mark.parametrize("first", ["poor", "rich"])
def test_a_node_that_one_channel_leaves_out_attributes_the_write(
    tenant: Tenant, host: Host, first: str, where: str
) -> None:
    poor = make_event(0, "memory.written", payload=IDS)
    rich = make_event(0, "memory.written", payload=IDS | ({"nodeId": "n"} if where != "envelope" else {}))
    rich |= {"nodeId": "n"} if where != "payload" else {}
    for one in (poor, rich) if first == "poor" else (rich, poor):
        take(host, [one])
    assert (shown(tenant).node, kept(tenant)[2]) == ("n", [])
    read_backlog(tenant.pk, now=BEGINNING)
    with tenant_scope(tenant.pk):
        nodes = list(
            MemoryWrite.objects.filter(tenant_id=tenant.pk)
            .order_by("run_id", "sequence")
            .values_list("node_id", flat=True)
        )
        run = Run.objects.get(tenant_id=tenant.pk)
    assert nodes == ["n"]
    assert (run.write_count, run.attributed_count) == (1, 1)


def test_the_ledger_reads_again_what_it_has_read_when_more_is_told(tenant: Tenant, host: Host) -> None:
    poor = make_event(0, "memory.written", payload=IDS)
    take(host, [poor])
    read_backlog(tenant.pk, now=BEGINNING)
    take(host, [poor | {"nodeId": "n"}])
    read_backlog(tenant.pk, now=BEGINNING)
    with tenant_scope(tenant.pk):
        nodes = list(
            MemoryWrite.objects.filter(tenant_id=tenant.pk)
            .order_by("run_id", "sequence")
            .values_list("node_id", flat=True)
        )
        entry = MemoryEntry.objects.get(tenant_id=tenant.pk)
    assert (nodes, entry.write_count, entry.attributed_count) == (["n"], 1, 1)
    assert [(one.lost, one.gained) for one in rebuild(tenant.pk, check=True) if one.lost or one.gained] == []


@pytest.mark.parametrize(
    "other",
    [
        {"nodeId": "other"},
        {"nodeId": "n", "payload": {**IDS, "tags": ["more"]}},
        {"nodeId": "n", "timestamp": "2026-03-01T10:00:00.000Z"},
        {"nodeId": "n", "type": "memory.compacted"},
    ],
)
def test_what_differs_in_more_than_a_label_contradicts(tenant: Tenant, host: Host, other: dict[str, Any]) -> None:
    known = make_event(0, "memory.written", payload=IDS) | ({"nodeId": "n"} if len(other) == 1 else {})
    take(host, [known])
    take(host, [known | other])
    assert kept(tenant) == (1, ["contradiction"], ["changed_event"])


def test_told_again_nothing_is_kept_twice(tenant: Tenant, host: Host) -> None:
    rich = [event | {"causationId": "evt-cause"} for event in make_log()]
    poor = [bare(event, "causationId", "eventId") for event in rich]
    for told in (poor, rich, poor, rich, rich):
        take(host, told)
    events, copies, incidents = kept(tenant)
    assert (events, copies, incidents) == (len(rich), ["completion"] * len(rich), [])
    assert orjson.loads(shown(tenant).envelope)["causationId"] == "evt-cause"


def test_what_came_in_part_is_listed_found_and_judged_by_what_came_of_it(tenant: Tenant, host: Host) -> None:
    written = make_event(1, "memory.written", payload=IDS | {"nodeId": "n"})
    failed = make_event(2, "run.failed", payload={"error": {"code": "no_disk", "message": "no room left"}})
    take(host, [make_event(0, "run.started"), bare(written, "payload"), bare(failed, "payload")])
    with tenant_scope(tenant.pk):
        before = lens(tenant.pk, host.pk).evidence.writes
        run = Run.objects.get(tenant_id=tenant.pk).pk
    assert (before.valid, before.stubs) == (0, 1)

    take(host, [written, failed, make_event(0, "run.started", causationId="evt-told-later")])
    with tenant_scope(tenant.pk):
        after = lens(tenant.pk, host.pk).evidence.writes
        rows = queries.events_page(tenant.pk, run).events
        found = [
            queries.events_page(tenant.pk, run, EventFilter(q=text)).events
            for text in ("m-1", "no room", "told-later", "m-2")
        ]
    assert (after.valid, after.stubs, after.with_node) == (1, 0, 1)
    assert (rows[1].memory_id, "no_disk" in rows[2].detail) == ("m-1", True)
    assert [[row.sequence for row in one] for one in found] == [[1], [2], [0], []]
