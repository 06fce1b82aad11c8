"""One event in full: envelope, payload, what it is connected with, and what differs from the one before of its kind."""

from __future__ import annotations

import html
import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from openwop_ui.tenancy.models import Role, Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs import queries
from runs.models import Host, Run
from runs.queries.event import EventDetail, event_differences
from tests.factories import BEGINNING, make_event, make_host, make_log, make_member, make_tenant, take

pytestmark = pytest.mark.django_db
RUN = "/t/acme/runs/alpha/run-1"


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def host(tenant: Tenant) -> Host:
    return make_host(tenant)


@pytest.fixture
def vera(tenant: Tenant) -> Client:
    client = Client()
    client.force_login(make_member(tenant, "vera", Role.VIEWER))
    return client


def detail(tenant: Tenant, sequence: int, run: str = "run-1") -> EventDetail:
    with tenant_scope(tenant.pk):
        facts = queries.find_run(tenant.pk, "alpha", run)
        assert facts is not None
        found = queries.find_event(tenant.pk, facts, sequence)
    assert found is not None
    return found


def links(tenant: Tenant, sequence: int, run: str = "run-1") -> list[tuple[Any, ...]]:
    return [
        (link.word, link.run_id, link.sequence, link.is_known, link.is_guess)
        for link in detail(tenant, sequence, run).links
    ]


def test_causation_is_followed_both_ways(tenant: Tenant, host: Host) -> None:
    first = make_event(0, "run.started")
    take(
        host,
        [
            first,
            make_event(1, "node.started", node="a", causationId=first["eventId"]),
            make_event(2, "node.started", node="b", causationId=first["eventId"]),
            make_event(3, "node.started", node="c", causationId="never seen"),
        ],
    )
    assert links(tenant, 0) == [("effect", None, 1, True, False), ("effect", None, 2, True, False)]
    assert links(tenant, 2) == [("caused by", None, 0, True, False)]
    assert links(tenant, 3) == []
    assert detail(tenant, 3).cause_is_elsewhere and not detail(tenant, 2).cause_is_elsewhere


def test_a_call_and_its_return(tenant: Tenant, host: Host) -> None:
    call = {"agentId": "agent", "toolName": "search"}
    take(
        host,
        [
            make_event(0, "agent.toolCalled", payload={**call, "callId": "one"}),
            make_event(1, "agent.toolCalled", payload={**call, "callId": "two"}),
            make_event(2, "agent.toolReturned", payload={**call, "callId": "two", "status": "ok"}),
            make_event(3, "agent.tool-returned", payload={**call, "callId": "one", "status": "ok"}),
        ],
    )
    assert links(tenant, 0) == [("return", None, 3, True, False)]
    assert links(tenant, 2) == [("call", None, 1, True, False)]
    assert links(tenant, 3) == [("call", None, 0, True, False)]


def test_an_answer_without_a_name_is_told_to_be_a_guess(tenant: Tenant, host: Host, vera: Client) -> None:
    take(
        host,
        [
            make_event(0, "approval.requested", node="gate", payload={"title": "Publish?"}),
            make_event(1, "approval.received", node="other"),
            make_event(2, "approval.received", node="gate", payload={"decision": "accept"}),
        ],
    )
    assert links(tenant, 0) == [("decision", None, 2, True, True)]
    assert "by order" in vera.get(f"{RUN}?seq=0").content.decode()


def test_children_sources_and_parents_are_other_runs(tenant: Tenant, host: Host, vera: Client) -> None:
    take(host, make_log(run="child-1", nodes=1))
    take(
        host,
        [
            make_event(0, "run.started"),
            make_event(1, "node.dispatched", node="d", payload={"childRunIds": ["child-1", "child-2"]}),
            make_event(2, "replay.diverged", payload={"sourceRunId": "child-1", "atSequence": 3}),
        ],
    )
    assert links(tenant, 1) == [
        ("child run", "child-1", None, True, False),
        ("child run", "child-2", None, False, False),
    ]
    assert links(tenant, 2) == [("in the source", "child-1", 3, True, False)]
    with tenant_scope(tenant.pk):
        Run.objects.filter(run_id="child-1").update(parent_run_id="run-1", relation="child")
    assert links(tenant, 0, "child-1") == [("child of", "run-1", None, True, False)]
    page = vera.get(f"{RUN}?seq=1").content.decode()
    assert 'href="/t/acme/runs/alpha/child-1"' in page and "/child-2" not in page
    assert 'href="/t/acme/runs/alpha/child-1?seq=3"' in vera.get(f"{RUN}?seq=2").content.decode()


def test_a_copied_prefix_names_its_source(tenant: Tenant, host: Host) -> None:
    """As openwop-app writes it: the cause of a copy is the event that was copied, in the run it was copied from."""
    source = make_log(run="source", nodes=1)
    take(host, source)
    take(
        host,
        [
            {**event, "runId": "fork", "eventId": f"new-{event['sequence']}", "causationId": event["eventId"]}
            for event in make_log(run="source", nodes=1)
        ],
    )
    with tenant_scope(tenant.pk):
        Run.objects.filter(run_id="fork").update(parent_run_id="source", relation="branch", parent_sequence=5)
    assert ("caused by", "source", 2, True, False) in links(tenant, 2, "fork")


def test_a_run_of_another_tenant_is_no_run_that_we_have(tenant: Tenant, host: Host) -> None:
    take(make_host(make_tenant("globex")), make_log(run="foreign"))
    take(host, [make_event(0, "node.dispatched", payload={"childRunId": "foreign"})])
    assert links(tenant, 0) == [("child run", "foreign", None, False, False)]


def test_the_envelope_is_all_but_the_payload_as_it_came(tenant: Tenant, host: Host) -> None:
    text = (
        '{"runId":"run-1","sequence":3,"type":"vendor.x","timestamp":"2026-03-01T09:00:03Z","payload":{"a":1},'
        '"data":{"a":1},"schemaVersion":3544790567247868102,"odd":{"e":1.10}, "eventId":"e-3"}'
    )
    take(host, [text])
    assert detail(tenant, 3).envelope == (
        '{"runId":"run-1","sequence":3,"type":"vendor.x","timestamp":"2026-03-01T09:00:03Z",'
        '"schemaVersion":3544790567247868102,"odd":{"e":1.10},"eventId":"e-3"}'
    )


def test_skew_goes_both_ways(tenant: Tenant, host: Host, vera: Client) -> None:
    take(
        host,
        [make_event(0), make_event(1, at=BEGINNING + timedelta(hours=2))],
        received_at=BEGINNING + timedelta(hours=1),
    )
    assert detail(tenant, 0).skew == timedelta(hours=1)
    assert detail(tenant, 1).skew == timedelta(hours=-1)
    assert "1 h 0 min after its reported time" in vera.get(f"{RUN}?seq=0").content.decode()
    assert "1 h 0 min before its reported time" in vera.get(f"{RUN}?seq=1").content.decode()


def test_incidents_stand_at_their_event(tenant: Tenant, host: Host, vera: Client) -> None:
    take(host, [make_event(0, payload={"x": 1}), make_event(1)])
    take(host, [make_event(0, payload={"x": 2})])
    assert [incident.kind for incident in detail(tenant, 0).incidents] == ["changed-event"]
    assert detail(tenant, 1).incidents == ()
    assert "changed event" in vera.get(f"{RUN}?seq=0").content.decode()


def test_the_permalink_is_the_event_alone(tenant: Tenant, host: Host, vera: Client) -> None:
    take(host, make_log())
    page = vera.get(f"{RUN}?seq=3&kind=node&from=1&to=5").content.decode()
    assert re.search(rf'class="[^"]*permalink[^"]*" href="{RUN}\?seq=3"', page)


# --- differences ---


def alike(number: int, **payload: Any) -> dict[str, Any]:
    return make_event(number, "node.completed", node="n", payload=payload)


def differ(tenant: Tenant, sequence: int, against: int | None = None) -> Any:
    with tenant_scope(tenant.pk):
        run = Run.objects.get(run_id="run-1")
        return event_differences(tenant.pk, run.pk, sequence, against)


def test_it_is_held_against_the_one_before_of_its_type_and_node(tenant: Tenant, host: Host, vera: Client) -> None:
    take(
        host,
        [
            alike(0, big=3544790567247868102, same=[1]),
            make_event(1, "node.completed", node="other", payload={"big": 1}),
            make_event(2, "node.started", node="n"),
            alike(3, big=3544790567247868103, same=[1], more="<b>"),
        ],
    )
    assert detail(tenant, 3).alike == 0 and detail(tenant, 0).alike is None
    found = differ(tenant, 3)
    assert (found.against, found.differences.shown[0].before) == (0, "3544790567247868102")
    headers = {"HX-Request": "true", "HX-Target": "diff-body"}
    answer = vera.get(f"{RUN}/events/3/diff", headers=headers).content.decode()
    assert "3544790567247868103" in answer and "<b>" not in answer and "&lt;b&gt;" in answer
    assert "<html" not in answer
    assert "<html" in vera.get(f"{RUN}/events/3/diff?against=1").content.decode()
    assert differ(tenant, 3, 1).against == 1
    assert differ(tenant, 0) is None and differ(tenant, 3, 77) is None


def test_what_can_not_be_compared_says_so(tenant: Tenant, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    partial = alike(1)
    del partial["payload"]
    take(host, [alike(0, a=1), partial, alike(2, a="x" * 100)])
    assert "without its payload" in differ(tenant, 1).problem
    monkeypatch.setattr("runs.queries.event.COMPARED", 50)
    assert "too large" in differ(tenant, 2, 0).problem


def test_a_fuller_copy_is_what_is_compared(tenant: Tenant, host: Host) -> None:
    partial = alike(1)
    del partial["payload"]
    take(host, [alike(0, a=1), partial])
    take(host, [alike(1, a=2)])
    assert [one.path for one in differ(tenant, 1).differences.shown] == ["/a"]


def test_the_detail_is_read_by_few_queries(tenant: Tenant, host: Host, django_assert_max_num_queries: Any) -> None:
    log = [make_event(0, "run.started")]
    log += [
        make_event(n, "agent.toolCalled", payload={"callId": f"c{n}"}, causationId=log[0]["eventId"])
        for n in range(1, 300)
    ]
    take(host, log)
    with tenant_scope(tenant.pk):
        facts = queries.find_run(tenant.pk, "alpha", "run-1")
        assert facts is not None
        with django_assert_max_num_queries(8):
            found = queries.find_event(tenant.pk, facts, 150)
    assert found is not None and len(found.links) == 1


def test_hostile_text_is_inert_in_the_panel(tenant: Tenant, host: Host, vera: Client) -> None:
    hostile = "<img src=x onerror=1>'\"/:%~ \u202egnp"
    take(
        host,
        [
            make_event(0, "approval.requested", node=hostile, payload={"approvalId": hostile, "childRunId": hostile}),
            make_event(1, "approval.received", node=hostile, payload={"approvalId": hostile}, causationId=hostile),
        ],
    )
    for sequence in (0, 1):
        page = vera.get(f"{RUN}?seq={sequence}").content.decode()
        assert "<img src=x" not in page
        assert "\u202e" not in re.sub("<[^>]*>", "", page)  # what is copied is exact
    assert json.loads(html.unescape(re.findall(r"<pre[^>]*>(.*?)</pre>", page)[0]))["approvalId"] == hostile
