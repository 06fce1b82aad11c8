"""The page of two runs side by side, and the page of a run's state."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ledger.store import read_backlog
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.projection import project
from runs.domain.snapshots import Parent
from runs.models import Host, Incident
from runs.store import Found, keep_incidents, keep_parents, ref
from tests.factories import make_event, make_host, make_log, make_member, make_tenant, take

pytestmark = pytest.mark.django_db

FORKS = Path("tests/fixtures/recordings/openwop-app/forks")
HOSTILE = '<img src=x onerror="window.pwned=1">\'"/:%~ \u202egnp.\u202c目标'


@pytest.fixture
def client(tenant: Tenant) -> Client:
    client = Client()
    client.force_login(make_member(tenant, "vera"))
    return client


def recorded(name: str) -> list[dict[str, Any]]:
    file = FORKS / name / "events.ndjson"
    if name == "fork-by-other-tenant":
        file = Path("tests/fixtures/forks/fork-by-other-tenant.ndjson")
    return [json.loads(line) for line in file.read_text().splitlines()]


def take_fork(host: Host, name: str, mode: Any, point: int) -> tuple[str, str]:
    mine, theirs = recorded("source"), recorded(name)
    take(host, mine)
    take(host, theirs)
    with tenant_scope(host.tenant_id):
        keep_parents(ref(host), {theirs[0]["runId"]: Parent(mine[0]["runId"], "fork", "forkMode", mode, point)})
    while read_backlog(host.tenant_id):
        pass
    return mine[0]["runId"], theirs[0]["runId"]


def compare(client: Client, a: str, b: str, *, status: int = 200, **query: Any) -> str:
    answer = client.get(
        "/t/acme/compare?" + urlencode({"a": f"alpha/{project(a)}", "b": f"alpha/{project(b)}"} | query)
    )
    assert answer.status_code == status
    return answer.content.decode()


# --- comparison ---


def test_the_recorded_replay_in_words(host: Host, client: Client) -> None:
    source, fork = take_fork(host, "fork-replay", "replay", 0)
    page = compare(client, source, fork)
    assert "9 of 18 events" in page
    assert 'data-verdict="suppressing"' in page and 'data-verdict="regenerating"' in page
    assert "1 fact of the source does not come again in the fork." in page
    assert "3 facts came under a new id." in page
    for sequence in (5, 10, 15, 17):
        assert f"/t/acme/runs/alpha/{source}?seq={sequence}" in page
    for sequence in (5, 10, 15):
        assert f"/t/acme/runs/alpha/{fork}?seq={sequence}" in page
    assert "mem_7b63db58-577" in page
    assert "has no replay.diverged event" in page


def test_the_sides_may_be_swapped(host: Host, client: Client) -> None:
    source, fork = take_fork(host, "fork-replay", "replay", 0)
    page = compare(client, fork, source)
    assert 'data-verdict="suppressing"' in page and "3 facts came under a new id." in page
    assert "8 changed, 0 only in A, 1 only in B" in page


@pytest.mark.parametrize(("fork", "point", "restarted"), [("fork-branch-mid", 10, 12), ("fork-by-other-tenant", 5, 7)])
def test_a_recorded_branch_in_words(host: Host, client: Client, fork: str, point: int, restarted: int) -> None:
    source, branch = take_fork(host, fork, "branch", point)
    page = compare(client, source, branch)
    assert 'data-verdict="branch"' in page and 'data-verdict="suppressing"' not in page
    assert f"4 facts of its own after the fork point, #{point}." in page
    assert "began again with the source’s first node" in page and f">#{restarted}</a>" in page
    assert "no second write" in page


def test_an_incident_of_a_fork_that_nobody_here_started_is_shown(host: Host, client: Client) -> None:
    source, branch = take_fork(host, "fork-by-other-tenant", "branch", 5)
    with tenant_scope(host.tenant_id):
        from runs.queries import find_run

        run = find_run(host.tenant_id, "alpha", branch)
        assert run is not None
        found = Found(host.pk, run.pk, branch, Incident.Kind.UNSTARTED_RUN, None, {"parent": source})
        keep_incidents(host.tenant_id, [found], noticed_at=run.received_at or run.started_at)  # type: ignore[arg-type]
    page = compare(client, source, branch)
    side = page[page.index('aria-label="Run B"') :]
    assert "side-incidents" in side[: side.index("</section>")]


def test_a_run_beside_itself(host: Host, client: Client) -> None:
    take(host, make_log())
    page = compare(client, "run-1", "run-1")
    assert "All 8 events" in page and "Nothing differs." in page
    assert "Nothing differs." in compare(client, "run-1", "run-1", show="differences")


def test_of_runs_that_are_too_long_the_beginning_is_compared(
    host: Host, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runs.queries.comparison.MOST_EVENTS", 10)
    for run in ("one", "two"):
        take(host, make_log(run, nodes=5))
    page = compare(client, "one", "two")
    assert "Only the first" in page and "10 pairs, 3 differ" in page
    said = client.get("/t/acme/compare/strip?a=alpha/one&b=alpha/two").json()
    assert said["pairs"] == 10


def test_only_differences_and_pages_of_pairs(host: Host, client: Client) -> None:
    take(host, make_log("one", nodes=60))
    take(host, make_log("two", nodes=61))
    page = compare(client, "one", "two")
    assert "100 shown of 185" in page and "Later pairs" in page and "Earlier pairs" not in page
    page = compare(client, "one", "two", after=99)
    assert "85 shown of 185" in page and "Earlier pairs" in page
    page = compare(client, "one", "two", show="differences")
    # Other entries in the same place, and one node more.
    assert "63 shown of 63" in page


def test_the_chosen_pair_says_what_differs(host: Host, client: Client) -> None:
    for run, output in (("one", 1), ("two", 2)):
        take(
            host,
            [
                make_event(0, "run.started", run=run),
                make_event(
                    1, "node.completed", run=run, node="n", payload={"outputs": {"x": output}, "durationMs": output}
                ),
            ],
        )
    page = compare(client, "one", "two", at=1)
    pair = page[page.index('id="pair"') :]
    assert "/outputs/x" in pair and "/durationMs" not in pair


def test_pieces_of_the_page_are_the_pages_own(host: Host, client: Client) -> None:
    take(host, make_log("one"))
    take(host, make_log("two"))
    query = "/t/acme/compare?a=alpha/one&b=alpha/two&at=2"
    whole = client.get(query).content.decode()
    for target in ("walk", "pair"):
        piece = client.get(query, headers={"HX-Request": "true", "HX-Target": target}).content.decode().strip()
        assert piece.startswith("<div") and piece in whole


def test_the_picture_is_asked_for_by_stretches(host: Host, client: Client) -> None:
    source, fork = take_fork(host, "fork-replay", "replay", 0)
    query = f"/t/acme/compare/strip?a=alpha/{source}&b=alpha/{fork}"
    said = client.get(f"{query}&width=6").json()
    assert (said["pairs"], len(said["buckets"])) == (18, 6)
    assert [sum(bucket[column] for bucket in said["buckets"]) for column in (2, 3, 4, 5)] == [9, 8, 1, 0]
    assert [mark[3] for mark in said["marks"] if mark[1] == "a"] == [5, 10, 15, 17]
    some = client.get(f"{query}&from=3&to=8").json()
    assert [bucket[:2] for bucket in some["buckets"]] == [[3, 4], [4, 5], [5, 6], [6, 7], [7, 8]]
    walked = [client.get(f"{query}&walk={way}&at={at}").json()["place"] for way, at in (("next", 4), ("previous", 4))]
    assert walked == [5, None]
    assert client.get(f"{query}&walk=next").json()["place"] == 4


def test_forks_are_offered_by_themselves(host: Host, client: Client) -> None:
    source, fork = take_fork(host, "fork-branch-mid", "branch", 10)
    page = client.get("/t/acme/compare").content.decode()
    both = f"/t/acme/compare?a=alpha/{source}&amp;b=alpha/{fork}"
    assert both in page and "branch from #10" in page
    for run in (source, fork):
        headers = {"HX-Request": "true", "HX-Target": "offers"}
        assert both in client.get(f"/t/acme/runs/alpha/{run}/compare", headers=headers).content.decode()
    alone = client.get(f"/t/acme/runs/alpha/{source}/compare")
    assert alone.status_code == 302 and alone["Location"] == f"/t/acme/compare?a=alpha/{source}"
    assert both in client.get(alone["Location"]).content.decode()


def test_where_there_is_nothing_it_says_how_it_comes(client: Client, host: Host) -> None:
    assert "No run is known to be a fork" in client.get("/t/acme/compare").content.decode()
    take(host, make_log())
    assert "No fork of this run" in client.get("/t/acme/compare?a=alpha/run-1").content.decode()


@pytest.mark.parametrize(
    "path",
    [
        "compare?a=alpha/unknown",
        "compare?a=alpha/one&b=alpha/unknown",
        "compare?a=alpha/theirs&b=alpha/one",
        "compare?a=beta/one&b=alpha/one",
        "compare?a=x&b=y",
        "compare?a=%00/one&b=alpha/one",
        "compare/strip?a=alpha/one",
        "compare/strip?a=alpha/one&b=alpha/theirs",
        "compare/host?a=alpha/one&b=alpha/theirs",
        "runs/alpha/theirs/compare",
        "runs/alpha/theirs/state",
        "runs/beta/one/state",
    ],
)
def test_unknown_and_foreign_runs_answer_alike(client: Client, host: Host, path: str) -> None:
    take(host, make_log("one"))
    take(make_host(make_tenant("other"), "alpha"), make_log("theirs"))
    assert client.get(f"/t/acme/{path}").status_code == 404


def test_a_host_without_an_address_is_not_asked(client: Client, host: Host) -> None:
    take(host, make_log("one"))
    page = client.get("/t/acme/compare/host?a=alpha/one&b=alpha/one").content.decode()
    assert "has no address" in page


def test_where_the_host_says_otherwise_both_stand_there(host: Host, client: Client) -> None:
    take(host, make_log("one"))
    told = {"sourceRunId": "one", "atSequence": 3, "divergenceKind": "output"}
    take(host, [*make_log("two"), make_event(8, "replay.diverged", run="two", payload=told)])
    page = compare(client, "one", "two")
    assert "The host says that the fork diverged at #3; the first difference found here is at #2." in page
    assert "replay.diverged #8" in page


def test_hostile_names_are_inert(client: Client, host: Host) -> None:
    for run in (HOSTILE, f"{HOSTILE}2"):
        take(
            host,
            [
                make_event(0, "run.started", run=run, payload={"workflowId": HOSTILE, "inputs": {HOSTILE: HOSTILE}}),
                make_event(1, "node.started", run=run, node=HOSTILE),
                make_event(2, "variable.changed", run=run, node=HOSTILE, payload={"name": HOSTILE, "next": run}),
                make_event(
                    3,
                    "channel.written",
                    run=run,
                    payload={"channel": HOSTILE, "reducer": HOSTILE, "value": {HOSTILE: run}},
                ),
                make_event(
                    4, "node.suspended", run=run, node=HOSTILE, payload={"kind": HOSTILE, "interruptId": HOSTILE}
                ),
                make_event(
                    5,
                    "memory.written",
                    run=run,
                    node=HOSTILE,
                    payload={"memoryRef": HOSTILE, "memoryId": HOSTILE + run},
                ),
            ],
        )
    while read_backlog(host.tenant_id):
        pass
    pages = [compare(client, HOSTILE, f"{HOSTILE}2", at=at) for at in range(6)]
    pages.append(client.get(f"/t/acme/runs/alpha/{project(HOSTILE)}/state?at=5&against=0").content.decode())
    for page in pages:
        # What is copied by a click is the id itself.
        shown = re.sub(r'data-copy="[^"]*"', "", page)
        assert "<img src=x" not in page and "\u202e" not in shown


def test_how_much_the_database_is_asked_does_not_grow(host: Host, client: Client) -> None:
    counts = []
    for length in (5, 60):
        take(host, make_log(f"a{length}", nodes=length))
        take(host, make_log(f"b{length}", nodes=length))
        compare(client, f"a{length}", f"b{length}")
        with CaptureQueriesContext(connection) as asked:
            compare(client, f"a{length}", f"b{length}")
        counts.append(len(asked))
    assert counts[0] == counts[1] <= 32


# --- state ---


def test_the_page_of_a_state(host: Host, client: Client) -> None:
    source, _ = take_fork(host, "fork-replay", "replay", 0)
    page = client.get(f"/t/acme/runs/alpha/{source}/state?at=11").content.decode()
    assert "State at #11" in page
    assert "2 of 2 up to here" in page
    assert "mem_b239b7d9-8a9" in page and "mem_7b63db58-577" not in page
    assert "No event up to here changes a variable." in page


def test_a_state_beside_another_one(host: Host, client: Client) -> None:
    take(host, make_log())
    page = client.get("/t/acme/runs/alpha/run-1/state?at=7&against=1").content.decode()
    assert "Changed since #1" in page
    part = page[page.index('id="h-changes"') :]
    assert "completed" in part and "step-0" in part and "op-changed" in part and "op-added" in part


def test_a_long_list_goes_on_elsewhere(host: Host, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.state_views.SHOWN", 2)
    monkeypatch.setattr("ledger.state_views.LISTED", 3)
    take(host, [make_event(n, "variable.changed", payload={"name": f"v{n}", "next": n}) for n in range(5)])
    here = "/t/acme/runs/alpha/run-1/state"
    page = client.get(here).content.decode()
    assert "2 of 5" in page and f"{here}?at=4&amp;list=variables" in page
    first = client.get(f"{here}?at=4&list=variables").content.decode()
    assert "v2" in first and "v3" not in first and "cursor=v2" in first
    rest = client.get(f"{here}?at=4&list=variables&cursor=v2").content.decode()
    assert "v4" in rest and "cursor=" not in rest


def test_the_state_is_offered_beside_the_event(host: Host, client: Client) -> None:
    take(host, make_log())
    page = client.get("/t/acme/runs/alpha/run-1?seq=3").content.decode()
    assert 'href="/t/acme/runs/alpha/run-1/state?at=3"' in page
    assert "/t/acme/runs/alpha/run-1/compare" in page


def test_a_state_before_everything_is_empty(host: Host, client: Client) -> None:
    take(host, [make_event(5, "node.started", node="n")])
    page = client.get("/t/acme/runs/alpha/run-1/state?at=2").content.decode()
    assert "no event yet" in page and "No node has started up to here." in page
    assert client.get("/t/acme/runs/alpha/run-1/state?at=x").status_code == 200


def test_the_order_of_arrival_changes_no_page(host: Host, client: Client) -> None:
    log = make_log(nodes=5)
    take(host, log)
    other = make_host(host.tenant, "beta")
    take(other, random.Random(5).sample(log, len(log)))
    pages = [client.get(f"/t/acme/runs/{slug}/run-1/state?at=9").content.decode() for slug in ("alpha", "beta")]
    parts = [
        page[page.index('id="h-nodes"') : page.index('id="h-written"')].replace("/beta/", "/alpha/") for page in pages
    ]
    assert parts[0] == parts[1]
