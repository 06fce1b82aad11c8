"""Two runs over REST: the protocol's diff, and how far the recorded forks came to the same as their sources."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from ledger.store import read_backlog
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.snapshots import Parent
from runs.models import Host
from runs.store import keep_parents, ref
from tests.factories import bearer, make_event, make_host, make_key, make_log, make_tenant, take

pytestmark = pytest.mark.django_db

FORKS = Path("tests/fixtures/recordings/openwop-app/forks")
Ask = Callable[..., Any]


@pytest.fixture
def ask(tenant: Tenant, host: Host) -> Ask:
    client = Client(headers=bearer(make_key(tenant)))

    def asked(path: str, *, status: int = 200, **query: Any) -> Any:
        answer = client.get(f"/v1/hosts/alpha/runs/{path}", query)
        assert answer.status_code == status, answer.content
        return answer.json()

    return asked


def recorded(name: str) -> list[dict[str, Any]]:
    file = FORKS / name / "events.ndjson"
    if name == "fork-by-other-tenant":
        file = Path("tests/fixtures/forks/fork-by-other-tenant.ndjson")
    return [json.loads(line) for line in file.read_text().splitlines()]


def take_fork(host: Host, name: str, mode: Any, point: int, *, source: str = "source") -> tuple[str, str]:
    """Takes in a source and its fork; their run ids."""
    mine, theirs = recorded(source), recorded(name)
    take(host, mine)
    take(host, random.Random(11).sample(theirs, len(theirs)))
    with tenant_scope(host.tenant_id):
        keep_parents(ref(host), {theirs[0]["runId"]: Parent(mine[0]["runId"], "fork", "forkMode", mode, point)})
    while read_backlog(host.tenant_id):
        pass
    return mine[0]["runId"], theirs[0]["runId"]


# --- the protocol's diff ---


def test_the_diff_of_the_recorded_replay_has_the_hosts_answer_and_the_summary_beside(host: Host, ask: Ask) -> None:
    """The host compares by sequence; up to where the logs run alongside, both find the same."""
    source, fork = take_fork(host, "fork-replay", "replay", 0)
    theirs = json.loads(Path("tests/fixtures/forks/diff-of-fork-replay.json").read_text())
    said = ask(f"{source}:diff", against=fork)
    assert said.keys() == {"a", "b", "divergedAtSeq", "eventDiffs", "stateDiff"}
    assert (said["a"], said["b"], said["divergedAtSeq"]) == (source, fork, theirs["divergedAtSeq"])
    alongside = [one for one in theirs["eventDiffs"] if one["seq"] < 17]
    assert said["eventDiffs"][: len(alongside)] == alongside
    assert [(one["seq"], one["op"]) for one in said["eventDiffs"][len(alongside) :]] == [
        (17, "removed"),
        (17, "changed"),
    ]
    removed = next(one for one in said["eventDiffs"] if one["op"] == "removed")
    assert "bEvent" not in removed and removed["aEvent"]["payload"]["tags"][0] == "run-summary"


def test_a_run_beside_itself_differs_nowhere(host: Host, ask: Ask) -> None:
    take(host, make_log())
    said = ask("run-1:diff", against="run-1")
    assert said == {"a": "run-1", "b": "run-1", "divergedAtSeq": None, "eventDiffs": [], "stateDiff": {}}


def test_the_diff_turned_around_is_the_same_diff(host: Host, ask: Ask) -> None:
    source, fork = take_fork(host, "fork-branch-mid", "branch", 10)
    there, back = ask(f"{source}:diff", against=fork), ask(f"{fork}:diff", against=source)
    turned = {"added": "removed", "removed": "added", "changed": "changed"}
    assert there["divergedAtSeq"] == back["divergedAtSeq"]
    assert sorted((one["seq"], one["op"]) for one in there["eventDiffs"]) == sorted(
        (one["seq"], turned[one["op"]]) for one in back["eventDiffs"]
    )


def test_ends_are_compared_too(host: Host, ask: Ask) -> None:
    for run, value, end in (("one", 1, "run.completed"), ("two", 2, "run.failed")):
        take(
            host,
            [
                make_event(0, "run.started", run=run),
                make_event(1, "variable.changed", run=run, payload={"name": "v", "next": value}),
                make_event(2, "variable.changed", run=run, payload={"name": "same", "next": 0}),
                make_event(
                    3, "channel.written", run=run, payload={"channel": "c", "reducer": "counter", "value": value}
                ),
                make_event(4, end, run=run),
            ],
        )
    assert ask("one:diff", against="two")["stateDiff"] == {
        "status": {"a": "completed", "b": "failed"},
        "variables": {"a": {"v": 1}, "b": {"v": 2}},
        "channels": {"a": {"c": 1}, "b": {"c": 2}},
    }


def test_a_diff_that_is_not_all_of_it_says_so(host: Host, ask: Ask) -> None:
    take(host, make_log("one"))
    take(host, make_log("two", nodes=9))
    assert "truncated" not in ask("one:diff", against="two")
    cut = ask("one:diff", against="two", limit=2)
    assert (cut["truncated"], len(cut["eventDiffs"])) == (True, 2)
    take(host, make_log("open")[:-1])
    assert ask("one:diff", against="open")["truncated"] is True


def test_a_run_may_be_named_by_its_segment(host: Host, ask: Ask) -> None:
    take(host, make_log("one"))
    take(host, make_log("acme/two"))
    assert ask("one:diff", against="acme/two")["b"] == ask("one:diff", against="acme~2Ftwo")["b"] == "acme/two"


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("one:diff", {}, 422),
        ("one:diff", {"against": "unknown"}, 404),
        ("one:diff", {"against": "~zz"}, 404),
        ("unknown:diff", {"against": "one"}, 404),
        ("one:diff", {"against": "theirs"}, 404),
        ("theirs:diff", {"against": "one"}, 404),
        ("one:diff", {"against": "one", "near": "x"}, 422),
        ("one/determinism", {}, 422),
        ("one/determinism", {"source": "theirs"}, 404),
        ("theirs/determinism", {"source": "one"}, 404),
    ],
)
def test_what_there_is_not(host: Host, ask: Ask, path: str, query: dict[str, Any], status: int) -> None:
    take(host, make_log("one"))
    take(make_host(make_tenant("other"), "alpha"), make_log("theirs"))
    ask(path, status=status, **query)


# --- determinism ---


@pytest.mark.parametrize("fork", ["fork-replay", "fork-replay-0"])
def test_the_recorded_replay(host: Host, ask: Ask, fork: str) -> None:
    source, replay = take_fork(host, fork, "replay", 0)
    said = ask(f"{replay}/determinism")
    assert said | {"memory": None} == {
        "sourceRunId": source,
        "replayRunId": replay,
        "mode": "replay",
        "fromSeq": 0,
        "scope": "whole",
        "matchedEvents": 9,
        "comparedEvents": 18,
        "firstDivergenceSeq": 5,
        "score": 0.5,
        "differences": {"added": 0, "removed": 1, "changed": 8},
        "ignoredEvents": {"source": 0, "replay": 0},
        "truncated": False,
        "memory": None,
        "hostSays": [],
    }
    memory = said["memory"]
    assert (memory["verdicts"], memory["owed"], memory["repeated"]) == (["suppressing", "regenerating"], 4, 0)
    suppressed, anew = memory["findings"]
    ids = [{one["sequence"]: one["payload"].get("memoryId") for one in recorded(name)} for name in ("source", fork)]
    assert [one["source"]["memoryId"] for one in suppressed["facts"]] == [ids[0][17]] == ["mem_7b63db58-577"]
    assert [(one["source"]["memoryId"], one["fork"]["memoryId"]) for one in anew["facts"]] == [
        (ids[0][at], ids[1][at]) for at in (5, 10, 15)
    ]
    assert ask(f"{replay}/determinism", source=source) == said


@pytest.mark.parametrize(
    ("fork", "point", "restarted", "own", "repeated"),
    [
        ("fork-branch-0", 0, 2, 4, 0),
        ("fork-branch-overlay", 5, 7, 4, 1),
        ("fork-by-other-tenant", 5, 7, 4, 1),
        ("fork-branch-mid", 10, 12, 4, 2),
        ("fork-branch-end", 18, 20, 4, 4),
    ],
)
def test_each_recorded_branch(
    host: Host, ask: Ask, fork: str, point: int, restarted: int, own: int, repeated: int
) -> None:
    _, branch = take_fork(host, fork, "branch", point)
    said = ask(f"{branch}/determinism")
    memory = said["memory"]
    assert (said["mode"], said["scope"], said["firstDivergenceSeq"]) == ("branch", "prefix", None)
    assert (memory["verdicts"], memory["restartedAtSeq"], memory["repeated"]) == (["branch"], restarted, repeated)
    assert memory["findings"][0]["factsTotal"] == own


def test_runs_that_are_nothing_to_each_other(host: Host, ask: Ask) -> None:
    take(host, make_log("one"))
    take(host, make_log("two"))
    said = ask("two/determinism", source="one")
    assert (said["mode"], said["memory"]["verdicts"]) == (None, ["unrelated"])


def test_what_the_host_says_itself_stands_beside(host: Host, ask: Ask) -> None:
    source, fork = "one", "two"
    take(host, make_log(source))
    told = {"sourceRunId": source, "atSequence": 3, "divergenceKind": "output"}
    take(host, [*make_log(fork), make_event(8, "replay.diverged", run=fork, payload=told)])
    said = ask(f"{fork}/determinism", source=source)
    assert said["hostSays"] == [{"sequence": 8, "type": "replay.diverged", "atSequence": 3, "divergenceKind": "output"}]


def test_the_order_of_arrival_changes_nothing(host: Host, ask: Ask) -> None:
    source, fork = take_fork(host, "fork-branch-mid", "branch", 10)
    expected = ask(f"{source}:diff", against=fork)
    other = make_host(host.tenant, "beta")
    for seed, name in ((1, "source"), (2, "fork-branch-mid")):
        events = recorded(name)
        for event in random.Random(seed).sample(events, len(events)):
            take(other, [event])
    client = Client(headers=bearer(make_key(host.tenant)))
    assert client.get(f"/v1/hosts/beta/runs/{source}:diff", {"against": fork}).json() == expected
