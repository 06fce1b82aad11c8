"""A run's state at any event over REST, memory included."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ledger.domain.observing import GONE, Sight
from ledger.observations import Look, Source, observe
from ledger.store import read_backlog
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.snapshots import Parent
from runs.models import Host
from runs.store import keep_parents, ref
from tests.factories import BEGINNING, bearer, make_event, make_host, make_key, make_tenant, take

pytestmark = pytest.mark.django_db

BIG = 3544790567247868102
Ask = Callable[..., Any]


@pytest.fixture
def ask(tenant: Tenant, host: Host) -> Ask:
    client = Client(headers=bearer(make_key(tenant)))

    def asked(path: str = "runs/run-1/state", *, status: int = 200, slug: str = "alpha", **query: Any) -> Any:
        answer = client.get(f"/v1/hosts/{slug}/{path}", query)
        assert answer.status_code == status, answer.content
        return answer.json()

    return asked


def written(
    sequence: int, memory_id: str, *, run: str = "run-1", node: str | None = "n", **told: Any
) -> dict[str, Any]:
    payload = {"memoryRef": "notes", "memoryId": memory_id, "agentId": "writer"} | told
    return make_event(sequence, "memory.written", run=run, node=node, payload=payload)


def read_on(tenant: Tenant) -> None:
    while read_backlog(tenant.pk):
        pass


def sight(content: str, **told: Any) -> Sight:
    return Sight("content", content, expires_at=told.get("expires_at"))


def look(host: Host, memory_id: str, sight: Sight, *, seconds: float) -> None:
    observe(
        tenant_id=host.tenant_id,
        host_id=host.pk,
        looks=[Look("notes", memory_id, sight)],
        source=Source.READ,
        at=BEGINNING + timedelta(seconds=seconds),
    )


LOG = [
    make_event(0, "run.started", payload={"workflowId": "w", "inputs": {"big": BIG}}),
    make_event(1, "node.started", node="a"),
    make_event(2, "variable.changed", node="a", payload={"name": "goal", "next": {"n": BIG}}),
    make_event(3, "channel.written", node="a", payload={"channel": "votes", "reducer": "append", "value": "x"}),
    make_event(4, "node.suspended", node="a", payload={"kind": "approval", "interruptId": "i-1"}),
    make_event(5, "approval.received", node="a", payload={"action": "accept"}),
    make_event(6, "node.completed", node="a"),
    make_event(7, "run.completed"),
]


def test_the_state_behind_an_event(host: Host, ask: Ask) -> None:
    take(host, LOG)
    said = ask(at=4)
    assert said["event"] == {"sequence": 4, "type": "node.suspended", "nodeId": "a", "at": "2026-03-01T09:00:04Z"}
    assert (said["status"], said["statusSequence"], said["missing"]) == ("waiting-approval", 4, 0)
    assert said["inputs"] == {"value": {"big": BIG}, "bytes": 28, "sequence": 0}
    assert said["variables"]["items"] == [
        {"name": "goal", "value": {"n": BIG}, "bytes": 26, "isSet": True, "sequence": 2, "nodeId": "a", "changes": 1}
    ]
    assert said["channels"]["items"][0] | {"last": None} == {
        "name": "votes", "reducer": "append", "reducerKnown": True, "writes": 1, "misfits": 0, "sequence": 3,
        "nodeId": "a", "count": 1, "last": None,
    }  # fmt: skip
    assert [one["value"] for one in said["channels"]["items"][0]["last"]] == ["x"]
    (node,) = said["nodes"]["items"]
    assert (node["nodeId"], node["status"], node["waitsFor"], node["since"]) == ("a", "wait", "approval", 4)
    (interrupt,) = said["interrupts"]["items"]
    assert (interrupt["interruptId"], interrupt["kind"], interrupt["sequence"]) == ("i-1", "approval", 4)


def test_without_a_place_it_is_the_last_one(host: Host, ask: Ask) -> None:
    take(host, LOG)
    said = ask()
    assert (said["at"], said["status"], said["interrupts"]["total"]) == (7, "completed", 0)


def test_what_changed_between_two_events(host: Host, ask: Ask) -> None:
    take(host, LOG)
    said = ask(at=6, against=1)
    assert said["against"] == 1
    names = ("section", "op", "name", "fromSequence", "toSequence")
    assert [tuple(one[name] for name in names) for one in said["changes"]["items"]] == [
        ("node", "changed", "a", 1, 6),
        ("variable", "added", "goal", None, 2),
        ("channel", "added", "votes", None, 3),
    ]
    assert ask(at=3, against=3)["changes"] == {"items": [], "total": 0, "nextCursor": None}


def test_lists_are_pages(host: Host, ask: Ask) -> None:
    take(host, [make_event(n, "variable.changed", payload={"name": f"v{n}", "next": n}) for n in range(5)])
    first = ask(limit=2)["variables"]
    assert (first["total"], first["nextCursor"]) == (5, "v1")
    names = [one["name"] for one in first["items"]]
    while first["nextCursor"]:
        said = ask(limit=2, section="variables", cursor=first["nextCursor"])
        assert "nodes" not in said and "memory" not in said
        first = said["variables"]
        names += [one["name"] for one in first["items"]]
    assert names == ["v0", "v1", "v2", "v3", "v4"]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"at": -1}, 422),
        ({"at": "x"}, 422),
        ({"near": 3}, 422),
        ({"cursor": "v1"}, 422),
        ({"section": "everything"}, 422),
        ({"section": "nodes", "cursor": "unheard of"}, 422),
        ({"section": "written", "cursor": "unheard of"}, 422),
        ({"limit": 0}, 422),
    ],
)
def test_what_is_not_understood_is_refused(host: Host, ask: Ask, query: dict[str, Any], status: int) -> None:
    take(host, LOG)
    assert ask(status=status, **query)["error"] == "validation_error"


def test_unknown_and_foreign_runs_answer_alike(host: Host, ask: Ask) -> None:
    take(make_host(make_tenant("other"), "alpha"), LOG)
    answers = [ask(status=404), ask("runs/run-9/state", status=404), ask(slug="beta", status=404)]
    assert len({json.dumps(one) for one in answers}) == 1


def test_names_that_most_encoders_refuse(host: Host, ask: Ask) -> None:
    body = json.dumps(make_event(0, "variable.changed", payload={"name": "\ud800", "next": "\ud800"}))
    take(host, [body])
    (variable,) = ask()["variables"]["items"]
    assert (variable["name"], variable["value"]) == ("\ud800", "\ud800")


# --- memory ---


def test_memory_as_the_run_had_it(tenant: Tenant, host: Host, ask: Ask) -> None:
    """An older run wrote two entries; one of them is gone before the run starts, the other one expires within it."""
    take(host, [make_event(0, "run.started", run="old", at=BEGINNING - timedelta(hours=1)), *(
        written(n, f"old-{n}", run="old", node="elder") | {"timestamp": "2026-03-01T08:00:00Z"} for n in (1, 2, 3)
    )])  # fmt: skip
    take(host, [LOG[0], LOG[1], written(2, "new-1", node="a"), make_event(3, "log.appended"), written(4, "new-2")])
    read_on(tenant)
    look(host, "old-1", sight("the elder's note"), seconds=-60)
    look(host, "old-2", sight("gone before"), seconds=-60)
    look(host, "old-2", GONE, seconds=-30)
    look(host, "old-3", sight("short", expires_at=BEGINNING + timedelta(seconds=3)), seconds=-60)
    said = ask(at=3)["memory"]
    assert (said["moment"], said["startedAt"], said["startOfRunId"]) == (
        "2026-03-01T09:00:03Z",
        "2026-03-01T09:00:00Z",
        None,
    )
    assert [(one["sequence"], one["memoryId"], one["nodeId"], one["agentId"]) for one in said["written"]["items"]] == [
        (2, "new-1", "a", "writer")
    ]
    existing = {one["memoryId"]: one for one in said["existing"]["items"]}
    assert existing.keys() == {"old-1", "old-3"}
    assert existing["old-1"]["excerpt"] == "the elder's note"
    assert existing["old-1"]["lastWrite"]["nodeId"] == "elder"
    assert [one["memoryId"] for one in said["expired"]["items"]] == ["old-3"]
    assert ask(at=2)["memory"]["expired"]["total"] == 0
    assert [one["memoryId"] for one in ask(at=4)["memory"]["written"]["items"]] == ["new-2", "new-1"]


def test_an_old_run_shows_memory_as_it_was_then(tenant: Tenant, host: Host, ask: Ask) -> None:
    """Field report T18: later writes, contents, deletions and runs change nothing about an old run."""
    take(host, [written(0, "m", run="first", node="one")])
    take(
        host,
        [
            make_event(0, "run.started", run="old", at=BEGINNING + timedelta(minutes=1)),
            make_event(1, "log.appended", run="old"),
        ],
    )
    read_on(tenant)
    look(host, "m", sight("as it was"), seconds=30)
    before = ask("runs/old/state")["memory"]["existing"]
    assert [(one["memoryId"], one["excerpt"], one["lastWrite"]["nodeId"]) for one in before["items"]] == [
        ("m", "as it was", "one")
    ]
    look(host, "m", sight("as it became"), seconds=90)
    later = BEGINNING + timedelta(minutes=5)
    take(host, [written(0, "m", run="second", node="two") | {"timestamp": later.isoformat()}])
    take(host, [written(0, "n", run="third", node="two") | {"timestamp": later.isoformat()}])
    read_on(tenant)
    assert ask("runs/old/state")["memory"]["existing"] == before
    look(host, "m", GONE, seconds=400)
    assert [one["memoryId"] for one in ask("runs/old/state")["memory"]["existing"]["items"]] == ["m"]


def test_content_whose_time_is_past_is_not_shown_as_it_was_either(tenant: Tenant, host: Host, ask: Ask) -> None:
    take(host, [written(0, "m", run="first") | {"timestamp": "2026-03-01T08:00:00Z"}])
    take(host, LOG)
    read_on(tenant)
    look(host, "m", sight("secret for a while", expires_at=BEGINNING + timedelta(seconds=5)), seconds=-60)
    (entry,) = ask(at=1)["memory"]["existing"]["items"]
    assert (entry["excerpt"], entry["hidden"]) == (None, "its time is past")


def test_a_replay_reads_what_its_source_read(tenant: Tenant, host: Host, ask: Ask) -> None:
    take(host, LOG)
    take(host, [written(1, "between", run="other") | {"timestamp": "2026-03-01T10:00:00Z"}])
    take(host, [make_event(0, "run.started", run="again", at=BEGINNING + timedelta(hours=2))])
    read_on(tenant)
    assert ask("runs/again/state")["memory"]["existing"]["total"] == 1
    with tenant_scope(tenant.pk):
        keep_parents(ref(host), {"again": Parent("run-1", "fork", "told", "replay", 0)})
    said = ask("runs/again/state")["memory"]
    assert (said["startOfRunId"], said["startedAt"]) == ("run-1", "2026-03-01T09:00:00Z")
    assert said["existing"]["total"] == 0


def test_a_repeated_fact_is_marked_as_one(tenant: Tenant, host: Host, ask: Ask) -> None:
    take(host, [LOG[0], written(1, "m"), written(2, "n")])
    take(host, [make_event(0, "run.started", run="fork"), written(1, "m", run="fork"), written(2, "own", run="fork")])
    with tenant_scope(tenant.pk):
        keep_parents(ref(host), {"fork": Parent("run-1", "fork", "told", "branch", 1)})
    read_on(tenant)
    rows = ask("runs/fork/state")["memory"]["written"]["items"]
    assert [(one["memoryId"], one["isRepeat"]) for one in rows] == [("own", False), ("m", True)]


def test_where_the_ledger_has_not_read_as_far_it_says_so(tenant: Tenant, host: Host, ask: Ask) -> None:
    take(host, LOG)
    assert ask()["memory"]["readThrough"] == -1
    read_on(tenant)
    assert ask()["memory"]["readThrough"] is None


def test_how_much_the_database_is_asked_does_not_grow_with_the_run(tenant: Tenant, host: Host, ask: Ask) -> None:
    take(host, LOG)
    ask()  # the first use of a key is noted
    counts = []
    for run, writes in (("few", 2), ("many", 60)):
        take(
            host,
            [make_event(0, "run.started", run=run), *(written(n + 1, f"{run}-{n}", run=run) for n in range(writes))],
        )
        read_on(tenant)
        with CaptureQueriesContext(connection) as asked:
            ask(f"runs/{run}/state")
        counts.append(len(asked))
    assert counts[0] == counts[1] <= 21
