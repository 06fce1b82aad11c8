"""What the timeline's answer says of a run: lanes, filters, links, sub-workflows, and how much it may say at once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.models import Host, Run
from runs.store.columns import forget_columns
from tests.factories import BEGINNING, bearer, make_event, make_host, make_key, make_log, make_member, make_tenant, take

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    forget_columns()


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def host(tenant: Tenant) -> Host:
    return make_host(tenant)


@pytest.fixture
def api(tenant: Tenant) -> Client:
    return Client(headers=bearer(make_key(tenant, "read")))


def ask(api: Client, run: str = "run-1", **query: Any) -> dict[str, Any]:
    answer = api.get(f"/v1/hosts/alpha/runs/{run}/timeline", query)
    assert answer.status_code == 200, answer.content
    told: dict[str, Any] = answer.json()
    return told


def counted(lane: dict[str, Any]) -> int:
    return sum(lane.get("cells", [])[1::4])


def test_every_event_is_in_one_lane_and_one_cell(api: Client, host: Host) -> None:
    take(host, [*make_log(nodes=5), make_event(17, "vendor.acme.odd")])
    told = ask(api)
    assert [lane["node"] for lane in told["lanes"]] == [None, *(f"step-{n}" for n in range(5))]
    assert [lane["events"] for lane in told["lanes"]] == [3, 3, 3, 3, 3, 3]
    assert [counted(lane) for lane in told["lanes"]] == [3, 3, 3, 3, 3, 3]
    assert [event["sequence"] for event in told["events"]] == list(range(18))
    assert sum(told["overview"]["counts"]) == told["matching"] == told["run"]["events"] == 18


def test_lanes_are_asked_for_in_stretches_and_pinned_ones_come_along(api: Client, host: Host) -> None:
    take(host, make_log(nodes=300))
    told = ask(api, row=100, rows=20)
    assert told["lanesTotal"] == 301
    assert [(lane["place"], lane["node"]) for lane in told["lanes"]] == [(n, f"step-{n - 1}") for n in range(100, 120)]
    assert [lane["attempts"] for lane in told["lanes"]] == [1] * 20


def test_many_attempts_come_as_bars_few_as_they_are(api: Client, host: Host) -> None:
    events = [make_event(0, "run.started")]
    for n in range(1_500):
        events += [make_event(1 + 2 * n, "node.started", node="a"), make_event(2 + 2 * n, "node.completed", node="a")]
    take(host, events)
    told = ask(api)
    lane = told["lanes"][1]
    assert told["dense"] is True
    assert "spans" not in lane
    assert counted(lane) == 3_000
    stretch: dict[str, Any] = {"from": 100, "to": 140}
    told = ask(api, **stretch)
    assert told["dense"] is False
    assert [(span["from"], span["to"], span["attempt"]) for span in told["lanes"][1]["spans"]] == [
        (n, n + 1, n // 2 + 1) for n in range(99, 141, 2)
    ]


@pytest.mark.parametrize(
    ("query", "hits"),
    [
        ({"node": "step-1"}, {"step-1": 3}),
        ({"type": "memory.written"}, {"step-0": 1, "step-1": 1}),
        ({"kind": "run"}, {None: 2}),
        ({"show": "memory"}, {"step-0": 1, "step-1": 1}),
        ({"show": "errors"}, {None: 1}),
        ({"show": "relevant"}, {None: 2, "step-0": 3, "step-1": 3}),
        ({"q": "RUN-1-m1"}, {"step-1": 1}),
        ({"q": "writer"}, {"step-0": 1, "step-1": 1}),
        ({"q": "100%_"}, {}),
        ({"q": "step-1", "show": "memory"}, {"step-1": 1}),
        ({"node": "nobody"}, {}),
    ],
)
def test_a_filter_counts_its_matches_lane_by_lane(
    api: Client, host: Host, query: dict[str, str], hits: dict[str | None, int]
) -> None:
    take(host, make_log(end="run.failed"))
    told = ask(api, **query)
    assert {lane["node"]: lane["hits"] for lane in told["lanes"]} == hits
    assert told["matching"] == sum(hits.values()) == sum(told["overview"]["counts"])
    assert told["lanesTotal"] + told["lanesHidden"] == 3
    items = api.get("/v1/hosts/alpha/runs/run-1/events", {k: v for k, v in query.items() if k in ("node", "type")})
    if set(query) <= {"node", "type"}:
        assert len(items.json()["items"]) == told["matching"]


def test_bookkeeping_is_not_relevant_and_what_nobody_knows_is(api: Client, host: Host) -> None:
    types = ["lease.renewed", "log.appended", "version.pinned", "ai.message.chunk", "vendor.acme.odd", "node.started"]
    take(host, [make_event(n, type_, node="a") for n, type_ in enumerate(types)])
    assert [event["type"] for event in ask(api, show="relevant")["events"]] == ["vendor.acme.odd", "node.started"]


@pytest.mark.parametrize(
    ("payload", "errors"),
    [
        ({"status": "ok"}, 0),
        ({"status": "error"}, 1),
        ({"status": "rate_limited"}, 1),
        ({"error": {"code": "x"}}, 1),
        ({"error": None, "outcome": "error"}, 0),
    ],
)
def test_a_tool_call_that_failed_is_an_error(api: Client, host: Host, payload: dict[str, Any], errors: int) -> None:
    take(host, [make_event(0, "agent.toolReturned", node="a", payload={"callId": "c", **payload})])
    assert ask(api, show="errors")["matching"] == errors


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([("a.one", {}, {}), ("a.two", {}, {"causationId": "evt-run-1-0"})], [[0, 1, "cause"]]),
        ([("a.one", {}, {}), ("a.two", {}, {"causationId": "evt-of-another-run"})], []),
        (
            [
                ("agent.toolCalled", {"callId": "x"}, {}),
                ("agent.toolCalled", {"callId": "y"}, {}),
                ("agent.toolReturned", {"callId": "x"}, {}),
                ("agent.toolReturned", {"callId": "z"}, {}),
            ],
            [[0, 2, "call"]],
        ),
        ([("approval.requested", {}, {}), ("log.appended", {}, {}), ("approval.received", {}, {})], [[0, 2, "answer"]]),
        ([("node.suspended", {}, {}), ("node.resumed", {}, {}), ("node.resumed", {}, {})], [[0, 1, "resume"]]),
        ([("node.dispatched", {"childRunId": "c"}, {}), ("node.completed", {}, {})], [[0, 1, "dispatch"]]),
    ],
)
def test_links_go_from_cause_to_effect(
    api: Client, host: Host, events: list[tuple[str, dict[str, Any], dict[str, Any]]], expected: list[Any]
) -> None:
    take(
        host,
        [make_event(n, type_, node="a", payload=payload, **more) for n, (type_, payload, more) in enumerate(events)],
    )
    assert ask(api)["links"] == expected


def test_sub_workflow_runs_stand_under_the_node_that_dispatched_them(api: Client, host: Host, tenant: Tenant) -> None:
    take(host, make_log("child", nodes=1))
    take(host, make_log("told-by-parent", nodes=1))
    take(host, make_log("a-fork", nodes=1))
    take(host, [make_event(0, "node.dispatched", run="run-1", node="call", payload={"childRunId": "child"})])
    with tenant_scope(tenant.pk):
        Run.objects.filter(run_id="told-by-parent").update(parent_run_id="run-1", relation="child")
        Run.objects.filter(run_id="a-fork").update(parent_run_id="run-1", relation="branch")
    children = ask(api)["children"]
    assert {(one["run"], one["node"], one["sequence"], one["status"]) for one in children} == {
        ("child", "call", 0, "completed"),
        ("told-by-parent", None, None, "completed"),
    }


def test_reversals_and_gaps_are_told_as_reported(api: Client, host: Host) -> None:
    seconds = [0, 5, 3, 4, 904, 905]
    moments = [BEGINNING.timestamp() + one for one in seconds]
    take(
        host,
        [
            make_event(n, "log.appended", node="a", at=BEGINNING.fromtimestamp(at, BEGINNING.tzinfo))
            for n, at in enumerate(moments)
        ],
    )
    told = ask(api)
    assert [(sequence, by) for sequence, _, by in told["reversals"]] == [(2, 2_000_000)]
    assert [(start, end) for start, end, _, _ in told["gaps"]] == [(3, 4)]
    assert told["gaps"][0][3] - told["gaps"][0][2] == 899_000_000  # from the latest moment, not from the last event


def test_an_answer_stays_small_whatever_the_run(api: Client, host: Host) -> None:
    events = [make_event(0, "run.started")]
    for n in range(12_000):
        type_ = ("node.started", "log.appended", "memory.written", "node.completed")[n // 100 % 4]
        events.append(make_event(n + 1, type_, node=f"node-{n % 100}", payload={"memoryRef": "m", "memoryId": f"e{n}"}))
    take(host, events)
    answer = api.get("/v1/hosts/alpha/runs/run-1/timeline", {"width": 8000, "rows": 120})
    assert len(answer.content) < 900_000
    assert json.loads(answer.content)["writesTotal"] == 3_000


def test_the_number_of_queries_does_not_grow_with_the_run(
    api: Client, host: Host, django_assert_max_num_queries: Any
) -> None:
    take(host, make_log(nodes=3))
    take(host, make_log("run-2", nodes=80))
    ask(api)
    ask(api, "run-2")
    for run in ("run-1", "run-2"):
        with django_assert_max_num_queries(22):
            ask(api, run)


def test_one_events_links_are_told_with_their_ends(tenant: Tenant, host: Host) -> None:
    take(
        host,
        [
            make_event(0, "agent.toolCalled", node="a", payload={"callId": "x"}),
            make_event(1, "log.appended", node="a"),
            make_event(2, "agent.toolReturned", node="a", payload={"callId": "x"}),
            make_event(3, "vendor.acme.told", node="b", causationId="evt-run-1-2"),
        ],
    )
    browser = Client()
    browser.force_login(make_member(tenant, "vera"))
    told = browser.get("/t/acme/runs/alpha/run-1/events/2/links").json()
    assert told["event"]["node"] == "a"
    assert [
        (one["from"]["sequence"], one["to"]["sequence"], one["to"]["node"], one["kind"]) for one in told["links"]
    ] == [
        (0, 2, "a", "call"),
        (2, 3, "b", "cause"),
    ]
    assert browser.get("/t/acme/runs/alpha/run-1/events/1/links").json()["links"] == []
    assert browser.get("/t/acme/runs/alpha/none/events/1/links").status_code == 404
