"""Which major to speak with a host, and which runs it lists."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from runs.follower.client import HostClient, Refused, WrongAnswer
from runs.follower.discovery import negotiate, read_run_list, read_snapshot
from runs.follower.store import ListedRun
from tests.hosts.follow_doubles import FastClock, followed
from tests.hosts.raw_http import Asked, Reply, serving

V1_DOCUMENT = {"protocolVersion": "1.1", "memory": {"attribution": {"supported": True}}}
BOTH = {"protocolVersion": "1.1", "protocolVersions": ["1.1", "2.0"], "preferredVersion": "1.1"}
ONLY_2 = {"protocolVersions": ["2.3"], "preferredVersion": "2.3"}
RUNS = {"runs": [{"runId": "r", "status": "running"}]}

Answers = Mapping[tuple[str, str], tuple[int, Any]]
"""(path, OpenWOP-Version or "") to status and body; anything else is 404."""


@asynccontextmanager
async def host(answers: Answers) -> AsyncIterator[tuple[HostClient, list[Asked]]]:
    seen: list[Asked] = []

    async def handle(asked: Asked, reply: Reply) -> None:
        seen.append(asked)
        version = asked.headers.get("openwop-version", "")
        status, body = answers.get((asked.path, version), (404, {"error": "not_found"}))
        await reply.answer(status, body)

    async with serving(handle) as origin:
        client = HostClient(followed(origin), clock=FastClock())
        try:
            yield client, seen
        finally:
            await client.aclose()


WELL_KNOWN = "/.well-known/openwop"

HOSTS: dict[str, tuple[Answers, int, bool]] = {
    "first major only, header unheeded": (
        {(WELL_KNOWN, "2"): (200, V1_DOCUMENT), ("/v1/runs", ""): (200, RUNS)},
        1,
        True,
    ),
    "first major only, header refused": (
        {
            (WELL_KNOWN, "2"): (406, {"error": "protocol_version_unsupported"}),
            (WELL_KNOWN, ""): (200, V1_DOCUMENT),
            ("/v1/runs", ""): (200, RUNS),
        },
        1,
        True,
    ),
    "first major without a list": ({(WELL_KNOWN, "2"): (200, V1_DOCUMENT)}, 1, False),
    "both": (
        {(WELL_KNOWN, "2"): (200, BOTH), ("/v1/runs", ""): (200, RUNS), ("/runs", "2"): (200, RUNS)},
        2,
        True,
    ),
    "second advertised, not mounted": ({(WELL_KNOWN, "2"): (200, BOTH), ("/v1/runs", ""): (200, RUNS)}, 1, True),
    "second advertised, refused": (
        {(WELL_KNOWN, "2"): (200, BOTH), ("/v1/runs", ""): (200, RUNS), ("/runs", "2"): (406, {})},
        1,
        True,
    ),
    "second only": ({(WELL_KNOWN, "2"): (200, ONLY_2), ("/runs", "2"): (200, RUNS)}, 2, True),
    "second only, without a list": ({(WELL_KNOWN, "2"): (200, ONLY_2)}, 2, False),
    "first retired": (
        {(WELL_KNOWN, "2"): (200, BOTH), ("/v1/runs", ""): (410, {}), ("/runs", "2"): (200, RUNS)},
        2,
        True,
    ),
    "no document, first": ({("/v1/runs", ""): (200, RUNS)}, 1, True),
    "no document, second": ({("/runs", "2"): (200, RUNS)}, 2, True),
    "a page under the second's name": (
        {("/runs", "2"): (200, b"<html>"), ("/v1/runs", ""): (200, RUNS)},
        1,
        True,
    ),
    "document is a page": ({(WELL_KNOWN, "2"): (200, b"<html>"), ("/v1/runs", ""): (200, RUNS)}, 1, True),
}


@pytest.mark.parametrize(("answers", "major", "lists"), HOSTS.values(), ids=HOSTS.keys())
async def test_negotiates(answers: Answers, major: int, lists: bool) -> None:
    async with host(answers) as (client, _):
        reading = await negotiate(client)

    assert (reading.major, reading.lists_runs) == (major, lists)


async def test_keeps_the_document_as_it_came() -> None:
    text = '{ "protocolVersion": "1.1",  "x": 3544790567247868102 }'
    async with host({(WELL_KNOWN, "2"): (200, text.encode())}) as (client, _):
        reading = await negotiate(client)

    assert reading.document == text


async def test_what_is_no_openwop_host() -> None:
    async with host({}) as (client, _):
        with pytest.raises(WrongAnswer, match="not an OpenWOP host"):
            await negotiate(client)


async def test_a_credential_that_is_not_accepted() -> None:
    answers = {(WELL_KNOWN, "2"): (200, V1_DOCUMENT), ("/v1/runs", ""): (401, {"error": "unauthenticated"})}
    async with host(answers) as (client, _):
        with pytest.raises(Refused, match="401 unauthenticated"):
            await negotiate(client)


# --- the run list ---


def pages(*sizes: int) -> dict[str, tuple[list[dict[str, str]], str | None]]:
    """Cursor to (runs, next cursor); the first page's cursor is empty."""
    told, count = {}, 0
    for number, size in enumerate(sizes):
        runs = [{"runId": f"run-{count + n}", "status": "running"} for n in range(size)]
        count += size
        told["" if number == 0 else f"c{number}"] = (runs, f"c{number + 1}" if number + 1 < len(sizes) else None)
    return told


@asynccontextmanager
async def listing(*sizes: int) -> AsyncIterator[tuple[HostClient, list[Asked]]]:
    told, seen = pages(*sizes), []

    async def handle(asked: Asked, reply: Reply) -> None:
        seen.append(asked)
        if asked.headers.get("if-none-match") == '"same"':
            await reply.answer(304)
            return
        runs, cursor = told[asked.query.get("cursor", "")]
        await reply.answer(200, {"runs": runs} | ({"nextCursor": cursor} if cursor else {}), {"ETag": '"same"'})

    async with serving(handle) as origin:
        client = HostClient(followed(origin), clock=FastClock())
        try:
            yield client, seen
        finally:
            await client.aclose()


async def test_reads_on_until_a_page_holds_nothing_unknown() -> None:
    async with listing(3, 3, 3) as (client, seen):
        everything = await read_run_list(client, 2)
        some = await read_run_list(client, 2, known={"run-3", "run-4", "run-5"})

    assert everything is not None and everything.runs is not None
    assert [run.run_id for run in everything.runs] == [f"run-{n}" for n in range(9)]
    assert some is not None and some.runs is not None
    assert [run.run_id for run in some.runs] == [f"run-{n}" for n in range(6)]
    assert [asked.query.get("cursor") for asked in seen] == [None, "c1", "c2", None, "c1"]


async def test_an_unchanged_list_is_not_sent_again() -> None:
    async with listing(3) as (client, _):
        first = await read_run_list(client, 1)
        assert first is not None
        again = await read_run_list(client, 1, etag=first.etag)

    assert again is not None
    assert again.runs is None
    assert again.etag == first.etag == '"same"'


async def test_a_list_of_a_cursor_that_never_ends_is_cut() -> None:
    async def handle(asked: Asked, reply: Reply) -> None:
        await reply.answer(200, {"runs": [{"runId": f"r-{len(seen)}"}], "nextCursor": "again"})
        seen.append(asked)

    seen: list[Asked] = []
    async with serving(handle) as origin:
        client = HostClient(followed(origin), clock=FastClock())
        await read_run_list(client, 1)
        await client.aclose()

    assert len(seen) == 20


@pytest.mark.parametrize("body", [{"items": []}, {"runs": {}}, b"<html>", b"", b"7", b'{"runs": null}'])
async def test_a_list_that_is_none(body: Any) -> None:
    async with host({("/v1/runs", ""): (200, body)}) as (client, _):
        with pytest.raises(WrongAnswer, match="the run list is not one"):
            await read_run_list(client, 1)


async def test_entries_that_are_no_runs_are_left_out() -> None:
    body = [{"runId": "a"}, {"runId": 7}, {"runId": ""}, "b", None, {"id": "c"}, {"runId": "d", "status": 7}]
    async with host({("/v1/runs", ""): (200, body)}) as (client, _):
        listed = await read_run_list(client, 1)

    assert listed is not None
    assert listed.runs == [ListedRun("a"), ListedRun("d")]


def test_a_snapshots_token_is_not_taken() -> None:
    snapshot = {
        "runId": "r",
        "workflowId": "w",
        "status": "waiting-approval",
        "parentRunId": "p",
        "parentNodeId": "n",
        "parentSeq": 12,
        "forkMode": "branch",
        "interrupt": {"interruptToken": "secret", "callbackUrl": "https://host.example/resume?token=secret"},
    }

    taken = read_snapshot(snapshot)

    assert taken == ListedRun("r", "waiting-approval", "w", "p", "n", 12, "branch")
    assert "secret" not in repr(taken)
