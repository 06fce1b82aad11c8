"""Run snapshots: what is picked from them, what a run came out of, and what never leaves them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from runs.domain.snapshots import (
    ChildRun,
    NotASnapshot,
    Parent,
    ReadBack,
    RunSnapshot,
    parent_in_ancestry,
    parent_in_event,
    parent_in_fork_answer,
    parent_in_snapshot,
    parent_in_spans,
    read_snapshot,
    settled,
)
from tests.runs.domain.examples import RECORDINGS


def recorded(name: str) -> RunSnapshot:
    return read_snapshot(json.loads((RECORDINGS / name).read_text()), major=1)


def snapshot(**members: Any) -> dict[str, Any]:
    return {"runId": "run-1", "workflowId": "w", "status": "completed"} | members


RECORDED = {
    "openwop-app/approval-accepted/snapshot-waiting.json": ("waiting-approval", "active", "", "approval"),
    "openwop-app/approval-accepted/snapshot.json": ("completed", "terminal", "", ""),
    "openwop-app/cancelled/snapshot.json": ("cancelled", "terminal", "cancelled", ""),
    "openwop-app/cancelled/snapshot-later.json": ("completed", "terminal", "cancelled", ""),
    "openwop-app/slow-running/snapshot-running.json": ("running", "active", "", ""),
    "sqlite/approval-accepted/snapshot-waiting.json": ("waiting-approval", "active", "", "approval"),
    "sqlite/agents-streaming/snapshot.json": ("failed", "terminal", "unsupported_node_type", ""),
    "postgres/clarification/snapshot-waiting.json": ("waiting-input", "active", "", "clarification"),
    "in-memory/cancelled/snapshot.json": ("cancelled", "terminal", "", ""),
    "python/failed/snapshot.json": ("failed", "terminal", "unsupported_node_type", ""),
}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_snapshot(name: str) -> None:
    told = recorded(name)
    assert (told.status, told.ending, told.error_code, told.waits_for) == RECORDED[name]
    assert told.started_at is not None
    assert (told.ended_at is None) == (told.ending == "active")
    assert told.parent is None and told.children == ()


@pytest.mark.parametrize(
    ("name", "ended_at"),
    [
        ("openwop-app/approval-accepted/snapshot.json", datetime(2026, 11, 29, 19, 0, 3, 694_000, UTC)),
        ("in-memory/cancelled/snapshot.json", datetime(2026, 11, 29, 19, 7, 6, 467_000, UTC)),
    ],
    ids=["i16-completedAt", "i16-endedAt"],
)
def test_end_has_two_spellings(name: str, ended_at: datetime) -> None:
    assert recorded(name).ended_at == ended_at


def test_waiting_snapshot_gives_nothing_that_answers_for_a_person() -> None:
    text = (RECORDINGS / "openwop-app/approval-accepted/snapshot-waiting.json").read_text()
    interrupt = json.loads(text)["interrupt"]
    shown = repr(read_snapshot(json.loads(text)))
    assert interrupt["interruptToken"] not in shown
    assert interrupt["callbackUrl"] not in shown
    assert "Publish the draft?" not in shown


@pytest.mark.parametrize(
    "member",
    ["status", "workflowId", "currentNodeId", "engineVersion", "interrupt", "owner", "agent", "error", "tags"],
)
@pytest.mark.parametrize("secret", ["sk-0123456789abcdef0123", "https://h/resume?resumeToken=abc", "https://a:b@h/"])
def test_credentials_are_not_picked(member: str, secret: str) -> None:
    holders: dict[str, Any] = {
        "interrupt": {"kind": secret},
        "owner": {"tenant": secret, "workspace": secret},
        "agent": {"agentId": secret, "memoryRef": secret},
        "error": {"code": secret},
        "tags": [secret],
    }
    assert secret not in repr(read_snapshot(snapshot(**{member: holders.get(member, secret)})))


@pytest.mark.parametrize(
    ("status", "ending"),
    [
        ("pending", "active"),
        ("cancelling", "active"),
        ("paused", "active"),
        pytest.param("waiting-clarification", "active", id="i16-waiting-clarification"),
        ("completed", "terminal"),
        ("failed", "terminal"),
        ("cancelled", "terminal"),
        ("archived", "terminal-unknown"),
        ("COMPLETED", "terminal-unknown"),
        ("", "active"),
        (None, "active"),
    ],
)
def test_ending(status: object, ending: str) -> None:
    assert read_snapshot(snapshot(status=status)).ending == ending


SECOND = {"owner": {"tenant": "acme", "subject": {"kind": "user"}}, "eventLogSchemaVersion": 3}

PARENTS = [
    pytest.param({}, None, None, id="none"),
    pytest.param({"parentRunId": None}, None, None, id="null"),
    pytest.param(
        {"parentRunId": "p", "parentSeq": 4, "forkMode": "branch"}, 1, ("fork", "branch", 4), id="j11-app-fork"
    ),
    pytest.param(
        {"parentRunId": "p", "parentSeq": 0, "forkMode": "replay", "parentNodeId": "n"},
        1,
        ("fork", "replay", 0),
        id="j11-app-fork-of-a-child",
    ),
    pytest.param({"parentRunId": "p", "parentNodeId": "n"}, 1, ("sub-workflow", None, None), id="j11-sub-workflow"),
    pytest.param({"parentRunId": "p"}, 1, ("unknown", None, None), id="j11-first-major-alone"),
    pytest.param({"parentRunId": "p"}, 2, ("fork", None, None), id="j11-second-major"),
    pytest.param({"parentRunId": "p", "parentNodeId": "n"}, 2, ("fork", None, None), id="j11-second-major-with-node"),
    pytest.param({"parentRunId": "p", **SECOND}, None, ("fork", None, None), id="j11-second-major-by-its-shape"),
    pytest.param(
        {"parentRunId": "p", "owner": {"tenant": "a", "principal": "u"}, "eventLogSchemaVersion": 2},
        None,
        ("unknown", None, None),
        id="j8-owner-of-the-first-major",
    ),
    pytest.param(
        {"parentRunId": "p", "owner": {"tenant": "a", "subject": {}}}, None, ("unknown", None, None), id="half-a-shape"
    ),
    pytest.param({"parentRunId": "p", "parentSeq": 4}, 1, ("fork", None, 4), id="parentSeq-without-a-mode"),
    pytest.param({"parentRunId": "p", "forkMode": "mystery"}, 1, ("unknown", None, None), id="unknown-mode"),
    pytest.param({"parentRunId": "p", "parentSeq": -1}, 1, ("unknown", None, None), id="place-that-is-none"),
]


@pytest.mark.parametrize(("members", "major", "expected"), PARENTS)
def test_parent_table(
    members: dict[str, Any], major: int | None, expected: tuple[str, str | None, int | None] | None
) -> None:
    parent = read_snapshot(snapshot(**members), major=major).parent
    if expected is None:
        assert parent is None
    else:
        assert parent is not None and parent.run_id == "p"
        assert (parent.relation, parent.mode, parent.from_sequence) == expected


@pytest.mark.parametrize(
    ("members", "major", "basis"),
    [
        ({"forkMode": "replay"}, 1, "forkMode"),
        ({"parentSeq": 3}, 1, "parentSeq"),
        ({}, 2, "parentRunId of the second major"),
        ({"parentNodeId": "n"}, 1, "parentNodeId"),
        ({}, 1, "parentRunId alone"),
    ],
)
def test_what_a_relation_was_read_from(members: dict[str, Any], major: int, basis: str) -> None:
    parent = parent_in_snapshot({"parentRunId": "p"} | members, major=major)
    assert parent is not None and parent.basis == basis


def test_recorded_parents() -> None:
    source = "fa171f2e-a3bc-41c5-a05d-1bd753c0620f"
    assert recorded("openwop-app/forks/fork-replay/snapshot.json").parent == Parent(
        source, "fork", "forkMode", "replay", 0
    )
    assert recorded("openwop-app/forks/fork-branch-mid/snapshot.json").parent == Parent(
        source, "fork", "forkMode", "branch", 10
    )
    child = recorded("openwop-app/subworkflow/child/snapshot.json").parent
    assert child is not None and (child.relation, child.node_id) == ("sub-workflow", "call-child")


@pytest.mark.parametrize("host", ["openwop-app", "sqlite"])
def test_recorded_children(host: str) -> None:
    (child,) = recorded(f"{host}/subworkflow/snapshot.json").children
    assert child.status == "completed" and child.run_id


def test_children_of_any_shape() -> None:
    told = read_snapshot(snapshot(childRuns=["run-2", {"runId": "run-3", "status": "failed"}, {}, 7, None]))
    assert told.children == (ChildRun("run-2", ""), ChildRun("run-3", "failed"))


def test_entries_that_a_run_read_back_are_evidence() -> None:
    told = recorded("postgres/memory-roundtrip/snapshot.json")
    assert told.read_back == (ReadBack(f"mem-{told.run_id}-roundtrip", ("conformance", "agent-memory", "roundtrip")),)
    assert told.memory_ref == "conformance/agent-memory-roundtrip"
    assert "Round-trip memory entry" not in repr(told)


@pytest.mark.parametrize(
    "value",
    [
        {"id": "m", "content": "c", "tags": []},
        {"id": "m", "content": "c", "tags": [], "createdAt": "x", "more": 1},
        {"id": 7, "content": "c", "tags": [], "createdAt": "x"},
        "mem",
        None,
    ],
)
def test_what_is_not_an_entry_is_no_evidence(value: object) -> None:
    assert read_snapshot(snapshot(variables={"x": value})).read_back == ()


def test_an_entry_may_expire() -> None:
    value = {"id": "m" * 1500, "content": "c", "tags": ["t"], "createdAt": "x", "expiresAt": "y"}
    assert read_snapshot(snapshot(variables={"x": value})).read_back == (ReadBack("m" * 1500, ("t",)),)
    assert read_snapshot(snapshot(variables={"x": value | {"id": "m" * 1501}})).read_back == ()


def test_texts_have_an_end() -> None:
    assert read_snapshot(snapshot(workflowId="x" * 512)).workflow_id == "x" * 512
    assert read_snapshot(snapshot(workflowId="x" * 513)).workflow_id == ""


def test_members_of_both_majors() -> None:
    told = read_snapshot(
        snapshot(
            engineVersion=7,
            eventLogSchemaVersion=3,
            owner={"tenant": "acme", "workspace": "w", "subject": {}},
            agent={"agentId": "a", "memoryRef": "mem://a"},
            tags=["x", 7],
            currentNodeId="n",
        )
    )
    assert (told.engine_version, told.log_version, told.tenant, told.workspace) == ("7", 3, "acme", "w")
    assert (told.agent_id, told.memory_ref, told.tags) == ("a", "mem://a", ("x",))
    assert (told.workflow_id, told.current_node_id) == ("w", "n")
    assert read_snapshot(snapshot(engineVersion="1.2")).engine_version == "1.2"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param({"error": {"code": "boom", "message": "m"}}, "boom", id="code-and-message"),
        pytest.param({"error": {"code": "boom"}}, "boom", id="j20-code-only"),
        pytest.param({"error": "boom"}, "boom", id="text"),
        pytest.param({"code": "boom"}, "boom", id="i12-at-the-top"),
        pytest.param({"error": None}, "", id="null"),
    ],
)
def test_error_code(error: dict[str, Any], code: str) -> None:
    assert read_snapshot(snapshot(**error)).error_code == code


@pytest.mark.parametrize(
    ("document", "code"),
    [(None, ""), ([], ""), ({}, ""), ({"runId": ""}, ""), ({"runId": "x" * 513}, ""), ({"error": "gone"}, "gone")],
)
def test_what_is_no_snapshot(document: object, code: str) -> None:
    with pytest.raises(NotASnapshot) as caught:
        read_snapshot(document)
    assert caught.value.code == code


def test_another_tenants_run_is_an_error() -> None:
    with pytest.raises(NotASnapshot, match="run_not_found"):
        recorded("openwop-app/forks/fork-by-other-tenant/snapshot.json")


def test_members_of_unexpected_kinds_are_nothing() -> None:
    names = ["status", "startedAt", "endedAt", "completedAt", "error", "interrupt", "owner", "agent", "tags"]
    names += ["childRuns", "variables", "parentRunId", "currentNodeId", "engineVersion", "eventLogSchemaVersion"]
    for odd in (7, [7], {"x": 7}, True, "x" * 5000):
        told = read_snapshot({"runId": "run-1"} | dict.fromkeys(names, odd))
        assert (told.parent, told.children, told.started_at) == (None, (), None)


SPANS = [{"name": "s"}, {"attributes": {"openwop.replay.source_run_id": "p", "openwop.replay.mode": "replay"}}]
READINGS = [
    pytest.param(
        parent_in_fork_answer({"sourceRunId": "p", "fromSeq": 3, "mode": "branch"}),
        ("fork", "branch", 3),
        id="fork-answer",
    ),
    pytest.param(
        parent_in_ancestry({"runId": "r", "parent": {"runId": "p", "cause": "core.subWorkflow"}}),
        ("sub-workflow", None, None),
        id="h-ancestry-sub-workflow",
    ),
    pytest.param(
        parent_in_ancestry({"runId": "r", "parent": {"runId": "p", "cause": "mcp-tool-call"}}),
        ("unknown", None, None),
        id="h-ancestry-another-cause",
    ),
    pytest.param(parent_in_ancestry({"runId": "r", "parent": None}), None, id="h-ancestry-null-says-nothing"),
    pytest.param(parent_in_spans(SPANS), ("fork", "replay", None), id="spans"),
    pytest.param(parent_in_spans([]), None, id="no-spans"),
    pytest.param(
        parent_in_event("replay.diverged", {"sourceRunId": "p", "atSequence": 9}), ("fork", "replay", None), id="event"
    ),
    pytest.param(
        parent_in_event("replay.divergedAtRefusal", {"sourceRunId": "p"}), ("fork", "replay", None), id="refusal-event"
    ),
    pytest.param(
        parent_in_ancestry({"parent": {"runId": "p", "cause": "core.dispatch"}}),
        ("sub-workflow", None, None),
        id="h-ancestry-dispatch",
    ),
    pytest.param(parent_in_ancestry({"parent": {"runId": "p"}}), ("unknown", None, None), id="h-ancestry-no-cause"),
    pytest.param(
        parent_in_spans([{"attributes": {"openwop.replay.source_run_id": "p", "openwop.replay.from_seq": 0}}]),
        ("fork", None, 0),
        id="spans-from-the-beginning",
    ),
    pytest.param(parent_in_event("run.started", {"sourceRunId": "p"}), None, id="another-event"),
]


@pytest.mark.parametrize(("reading", "expected"), READINGS)
def test_other_places_that_tell(reading: Parent | None, expected: tuple[str, str | None, int | None] | None) -> None:
    if expected is None:
        assert reading is None
    else:
        assert reading is not None and reading.run_id == "p"
        assert (reading.relation, reading.mode, reading.from_sequence) == expected


def test_readings_complete_each_other() -> None:
    alone = parent_in_snapshot({"parentRunId": "p"}, major=1)
    spans = parent_in_spans(SPANS)
    answer = parent_in_fork_answer({"sourceRunId": "p", "fromSeq": 3})
    assert settled([alone, None]) == alone
    told = settled([alone, spans, answer])
    assert told == Parent("p", "fork", "replay spans", "replay", 3)
    assert settled([None]) is None
    assert settled([answer, spans]) == Parent("p", "fork", "the fork's answer", "replay", 3)
    node = Parent("p", "fork", "x", node_id="n")
    assert settled([spans, node, Parent("p", "fork", "y", node_id="o")]) == Parent(
        "p", "fork", "replay spans", "replay", None, "n"
    )
    assert settled([node, Parent("p", "unknown", "y", "branch", 9)]) == node


def test_readings_that_contradict_each_other_settle_nothing() -> None:
    fork = Parent("p", "fork", "forkMode", "branch", 3)
    told = settled([fork, Parent("p", "sub-workflow", "ancestry: core.subWorkflow")])
    assert told is not None
    assert (told.relation, told.mode, told.from_sequence) == ("unknown", None, None)
    assert told.basis == "contradicting: forkMode, ancestry: core.subWorkflow"
