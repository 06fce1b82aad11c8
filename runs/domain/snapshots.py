"""What a host says of a run: the run snapshot of either major and of hosts in the wild, and what a run came out of.

While a run waits, its snapshot may hold the token that answers for a person, and its variables may hold anything. So
members are picked, never copied, and no text with the looks of a credential is among them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from runs.domain import credentials
from runs.domain.capabilities import has_credential
from runs.domain.folding import is_terminal
from runs.domain.moments import read_timestamp

Ending = Literal["active", "terminal", "terminal-unknown"]
Relation = Literal["fork", "sub-workflow", "unknown"]
ForkMode = Literal["replay", "branch"]

TERMINAL = frozenset(("completed", "failed", "cancelled"))

LONGEST = 512
"""Characters of a text that is picked. A longer one is none of those that are meant."""
LONGEST_MEMORY_ID = 1500


class NotASnapshot(ValueError):
    """The answer names no run. `code` is the host's error code, if it is an error body."""

    def __init__(self, code: str = "") -> None:
        super().__init__(f"the host answers {code}" if code else "an answer that names no run")
        self.code = code


@dataclass(frozen=True, slots=True)
class Parent:
    """Where a run comes from. `from_sequence` and `mode` are a fork's; None where nothing told them.

    `basis` says in a few words what the relation was read from.
    """

    run_id: str
    relation: Relation
    basis: str
    mode: ForkMode | None = None
    from_sequence: int | None = None
    node_id: str | None = None


@dataclass(frozen=True, slots=True)
class ChildRun:
    run_id: str
    status: str


@dataclass(frozen=True, slots=True)
class ReadBack:
    """A memory entry that a run's variables show it has read: evidence that it was written.

    Its content is not kept, and under which ref it lives is not told.
    """

    memory_id: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """Texts are empty where the host says nothing, times and numbers None.

    `status` is the host's word. `ending` is "terminal-unknown" for a word that nobody knows: it counts as an end, or
    whoever waits for one waits for ever. `waits_for` is the kind of the open interrupt, `memory_ref` the agent's.
    """

    run_id: str
    workflow_id: str
    status: str
    ending: Ending
    started_at: datetime | None = None
    ended_at: datetime | None = None
    error_code: str = ""
    current_node_id: str = ""
    waits_for: str = ""
    tenant: str = ""
    workspace: str = ""
    agent_id: str = ""
    memory_ref: str = ""
    engine_version: str = ""
    log_version: int | None = None
    tags: tuple[str, ...] = ()
    parent: Parent | None = None
    children: tuple[ChildRun, ...] = ()
    read_back: tuple[ReadBack, ...] = ()


def read_snapshot(document: object, *, major: int | None = None) -> RunSnapshot:
    """`major` is the one that was spoken; without it the document's shape decides. Raises NotASnapshot."""
    if not isinstance(document, dict):
        raise NotASnapshot
    run_id = _id(document.get("runId"))
    if not run_id:
        raise NotASnapshot(error_code_of(document))
    owner, agent = _members(document.get("owner")), _members(document.get("agent"))
    status = _text(document.get("status"))
    return RunSnapshot(
        run_id=run_id,
        workflow_id=_text(document.get("workflowId")),
        status=status,
        ending=ending_of(status),
        started_at=_moment(document.get("startedAt")),
        ended_at=_moment(document.get("endedAt")) or _moment(document.get("completedAt")),
        error_code=error_code_of(document),
        current_node_id=_text(document.get("currentNodeId")),
        waits_for=_text(_members(document.get("interrupt")).get("kind")),
        tenant=_text(owner.get("tenant")),
        workspace=_text(owner.get("workspace")),
        agent_id=_text(agent.get("agentId")),
        memory_ref=_text(agent.get("memoryRef")),
        engine_version=_version(document.get("engineVersion")),
        log_version=_whole(document.get("eventLogSchemaVersion")),
        tags=_texts(document.get("tags")),
        parent=parent_in_snapshot(document, major=major),
        children=tuple(_children(document.get("childRuns"))),
        read_back=tuple(_read_back(document.get("variables"))),
    )


def ending_of(status: str) -> Ending:
    """ "" counts as active: a host that does not say has not said that the run ended."""
    if not status or not is_terminal(status):
        return "active"
    return "terminal" if status in TERMINAL else "terminal-unknown"


def error_code_of(document: Mapping[object, object]) -> str:
    """Hosts write `{"error": {"code": …}}`, `{"error": "code"}` or `{"code": …}`."""
    error = document.get("error")
    code = error.get("code") if isinstance(error, dict) else error
    return _text(code) or _text(document.get("code"))


def parent_in_snapshot(document: object, *, major: int | None = None) -> Parent | None:
    """What the snapshot itself tells.

    `forkMode` and `parentSeq` are only written for forks. In the second major `parentRunId` is fork lineage, without
    the mode and the place. In the first major it belongs to a sub-workflow where a node of the parent stands beside
    it; alone it may be either.
    """
    members = _members(document)
    run_id = _id(members.get("parentRunId"))
    if not run_id:
        return None
    mode, sequence = _mode(members.get("forkMode")), _whole(members.get("parentSeq"))
    node_id = _text(members.get("parentNodeId")) or None
    told = Parent(run_id, "unknown", "parentRunId alone", mode, sequence, node_id)
    if mode is not None:
        return replace(told, relation="fork", basis="forkMode")
    if sequence is not None:
        return replace(told, relation="fork", basis="parentSeq")
    if (major or _major_of(members)) >= 2:
        return replace(told, relation="fork", basis="parentRunId of the second major")
    if node_id is not None:
        return replace(told, relation="sub-workflow", basis="parentNodeId")
    return told


def _major_of(members: Mapping[object, object]) -> int:
    """The second major requires an owner with a subject and the log's version; the first one has no subject."""
    is_second = "subject" in _members(members.get("owner")) and _whole(members.get("eventLogSchemaVersion")) is not None
    return 2 if is_second else 1


def parent_in_fork_answer(document: object) -> Parent | None:
    """From the answer to `POST …:fork`."""
    members = _members(document)
    source = _id(members.get("sourceRunId"))
    if not source:
        return None
    return Parent(source, "fork", "the fork's answer", _mode(members.get("mode")), _whole(members.get("fromSeq")))


_CAUSES: Mapping[str, Relation] = {"core.subWorkflow": "sub-workflow", "core.dispatch": "sub-workflow"}


def parent_in_ancestry(document: object) -> Parent | None:
    """From `GET …/ancestry`, which knows callers and no forks: its null says nothing about a fork."""
    parent = _members(_members(document).get("parent"))
    run_id = _id(parent.get("runId"))
    if not run_id:
        return None
    cause = _text(parent.get("cause"))
    return Parent(run_id, _CAUSES.get(cause, "unknown"), f"ancestry: {cause or 'no cause'}")


def parent_in_spans(spans: Iterable[object]) -> Parent | None:
    """From the attributes of a replay's spans, as a debug bundle brings them."""
    for span in spans:
        attributes = _members(_members(span).get("attributes"))
        source = _id(attributes.get("openwop.replay.source_run_id"))
        if source:
            mode = _mode(attributes.get("openwop.replay.mode"))
            return Parent(source, "fork", "replay spans", mode, _whole(attributes.get("openwop.replay.from_seq")))
    return None


def parent_in_event(type: str, payload: object) -> Parent | None:
    """From an event that says where a replay diverged; its `atSequence` is not where the fork began."""
    if type not in ("replay.diverged", "replay.divergedAtRefusal"):
        return None
    source = _id(_members(payload).get("sourceRunId"))
    return Parent(source, "fork", type, "replay") if source else None


def settled(readings: Iterable[Parent | None]) -> Parent | None:
    """One answer out of several, the earlier ones first; "unknown" when they contradict each other."""
    told = [reading for reading in readings if reading is not None]
    known = [reading for reading in told if reading.relation != "unknown"]
    if not told:
        return None
    if len({(reading.run_id, reading.relation) for reading in known}) > 1:
        basis = "contradicting: " + ", ".join(dict.fromkeys(reading.basis for reading in known))
        return replace(told[0], relation="unknown", basis=basis, mode=None, from_sequence=None, node_id=None)
    first, *others = known or told
    for other in (other for other in others if other.run_id == first.run_id):
        first = replace(
            first,
            mode=first.mode or other.mode,
            from_sequence=other.from_sequence if first.from_sequence is None else first.from_sequence,
            node_id=first.node_id or other.node_id,
        )
    return first


def _children(listed: object) -> Iterable[ChildRun]:
    for entry in listed if isinstance(listed, list) else ():
        run_id = _id(entry if isinstance(entry, str) else _members(entry).get("runId"))
        if run_id:
            yield ChildRun(run_id, _text(_members(entry).get("status")))


_ENTRY = frozenset(("id", "content", "tags", "createdAt"))


def _read_back(variables: object) -> Iterable[ReadBack]:
    """Variables whose value has the closed shape of a memory entry."""
    for value in _members(variables).values():
        entry = _members(value)
        memory_id = _id(entry.get("id"), longest=LONGEST_MEMORY_ID)
        if memory_id and entry.keys() - {"expiresAt"} == _ENTRY:
            yield ReadBack(memory_id, _texts(entry["tags"]))


def _mode(value: object) -> ForkMode | None:
    if value == "replay":
        return "replay"
    return "branch" if value == "branch" else None


def _moment(value: object) -> datetime | None:
    try:
        return read_timestamp(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _version(value: object) -> str:
    """A number in one major, text in the other."""
    return str(value) if type(value) is int else _text(value)


def _id(value: object, *, longest: int = LONGEST) -> str:
    """An opaque id is what it is, unless it has the shape of a key."""
    is_one = isinstance(value, str) and len(value) <= longest and not credentials.is_in(value, an_id=True)
    return value if isinstance(value, str) and is_one else ""


def _text(value: object) -> str:
    """Empty for what is no text, is too long for one, or has the looks of a credential."""
    text = _id(value)
    return "" if text and has_credential(text) else text


def _texts(value: object) -> tuple[str, ...]:
    return tuple(text for one in value if (text := _text(one))) if isinstance(value, list) else ()


def _whole(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _members(value: object) -> Mapping[object, object]:
    return value if isinstance(value, dict) else {}
