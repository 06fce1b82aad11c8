"""What a host is: which major to speak with it, what it says of itself, and which runs it lists."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

from runs.domain import credentials

from . import routes
from .client import Answer, FollowProblem, HostClient, Refused, WrongAnswer, read_json
from .store import ListedRun

IMPLEMENTED = (2, 1)
"""Highest first: that one is spoken when a host serves both (versioning, section 1.5)."""

PAGE = 100
MAX_PAGES = 20
"""Of a run list, in one go. Later pages hold older runs, which the next readings reach through the store."""

_NOT_SERVED = frozenset({404, 405, 501})
_WRONG_MAJOR = frozenset({400, 406, 410, 426})


@dataclass(frozen=True, slots=True)
class Reading:
    """`document` is the discovery document's text, empty when there is none."""

    major: int
    document: str
    lists_runs: bool


@dataclass(frozen=True, slots=True)
class RunList:
    """`runs` is None when nothing changed since `etag`."""

    runs: list[ListedRun] | None
    etag: str


async def negotiate(client: HostClient) -> Reading:
    """Raises FollowProblem: what the last major tried was refused with, when none of them works."""
    document = await _discovery_document(client)
    advertised = _advertised(read_json(document.encode()))
    served: list[int] = []
    problem: FollowProblem | None = None
    for major in IMPLEMENTED:
        if advertised and major not in advertised:
            continue
        try:
            listed = await read_run_list(client, major)
        except WrongAnswer as wrong:
            problem = wrong
            continue
        except Refused as refusal:
            if refusal.status not in _WRONG_MAJOR:
                raise
            problem = refusal
            continue
        if listed is not None:
            return Reading(major, document, lists_runs=True)
        served.append(major)
    if served and document:
        return Reading(served[0], document, lists_runs=False)
    raise problem or WrongAnswer("no discovery document and no run list: not an OpenWOP host")


async def read_run_list(
    client: HostClient, major: int, *, known: Container[str] = (), etag: str = ""
) -> RunList | None:
    """The runs the host lists, newest first, up to a page without an unknown one. None when it serves no list."""
    runs: list[ListedRun] = []
    cursor, new_etag = "", ""
    for page in range(MAX_PAGES):
        answer = await _list_page(client, major, cursor, "" if page else etag)
        if answer is None:
            return None
        if answer.status == 304:
            return RunList(None, etag)
        listed, cursor = _read_page(answer)
        new_etag = new_etag or ("" if page else answer.headers.get("etag", ""))
        runs += listed
        if not cursor or all(run.run_id in known for run in listed):
            break
    return RunList(runs, new_etag)


async def _list_page(client: HostClient, major: int, cursor: str, etag: str) -> Answer | None:
    params = {"limit": str(PAGE)} | ({"cursor": cursor} if cursor else {})
    headers = {"If-None-Match": etag} if etag else {}
    try:
        return await client.get(routes.run_list(major), major=major, params=params, headers=headers)
    except Refused as refusal:
        if refusal.status in _NOT_SERVED:
            return None
        raise


async def _discovery_document(client: HostClient) -> str:
    """The representation of the highest major the host has; empty when there is none."""
    for major in IMPLEMENTED:
        try:
            answer = await client.get(routes.DISCOVERY, major=major)
        except Refused as refusal:
            if refusal.status in _NOT_SERVED:
                return ""
            if refusal.status in _WRONG_MAJOR:
                continue
            raise
        if isinstance(read_json(answer.body), dict):
            return answer.body.decode("utf-8", "replace")
    return ""


def _advertised(document: object) -> set[int]:
    """Majors that a document names; none of them means that it does not say."""
    if not isinstance(document, dict):
        return set()
    versions = document.get("protocolVersions")
    named = list(versions) if isinstance(versions, list) else []
    named += [document.get("preferredVersion"), document.get("protocolVersion")]
    majors = (str(version).partition(".")[0] for version in named if isinstance(version, str))
    return {int(major) for major in majors if major.isascii() and major.isdigit() and len(major) < 4}


def _read_page(answer: Answer) -> tuple[list[ListedRun], str]:
    body = read_json(answer.body)
    listed = body if isinstance(body, list) else body.get("runs") if isinstance(body, dict) else None
    if not isinstance(listed, list):
        raise WrongAnswer("the run list is not one: " + (answer.headers.get("content-type") or "no content type"))
    cursor = body.get("nextCursor") if isinstance(body, dict) else None
    return list(_read_runs(listed)), cursor if isinstance(cursor, str) else ""


def _read_runs(listed: list[object]) -> Iterator[ListedRun]:
    for entry in listed:
        run = read_snapshot(entry)
        if run is not None:
            yield run


def read_snapshot(body: object) -> ListedRun | None:
    """The members of a run snapshot that are used. The rest is left alone: while a run waits, it may hold the token
    that resumes it."""
    if not isinstance(body, dict) or not _text(body, "runId"):
        return None
    parent_sequence = body.get("parentSeq")
    return ListedRun(
        run_id=_text(body, "runId"),
        status=_text(body, "status"),
        workflow_id=_text(body, "workflowId"),
        parent_run_id=_text(body, "parentRunId"),
        parent_node_id=_text(body, "parentNodeId"),
        parent_sequence=parent_sequence if type(parent_sequence) is int else None,
        fork_mode=_text(body, "forkMode"),
    )


def _text(body: dict[object, object], member: str) -> str:
    """Empty for what is no text, and for one with a credential in it."""
    value = body.get(member)
    return value if isinstance(value, str) and not credentials.is_in(value, an_id=True) else ""
