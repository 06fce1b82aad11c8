"""One host over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from runs.follower.client import (
    FollowProblem,
    HostClient,
    OutOfBounds,
    Refused,
    TooLarge,
    Unreachable,
    WrongAnswer,
    read_json,
)
from tests.hosts.follow_doubles import FastClock, followed
from tests.hosts.raw_http import Asked, Handle, Reply, serving


@asynccontextmanager
async def client_of(
    handle: Handle, *, path: str = "", credential: str = "key", max_answer_bytes: int = 10_000
) -> AsyncIterator[HostClient]:
    async with serving(handle) as origin:
        host = followed(origin + path, credential=credential)
        client = HostClient(host, clock=FastClock(), max_answer_bytes=max_answer_bytes)
        try:
            yield client
        finally:
            await client.aclose()


def always(status: int, body: object = None, **headers: str) -> Handle:
    async def handle(asked: Asked, reply: Reply) -> None:
        await reply.answer(status, body, {name.replace("_", "-"): value for name, value in headers.items()})

    return handle


async def test_headers_of_both_majors() -> None:
    asked: list[Asked] = []

    async def handle(request: Asked, reply: Reply) -> None:
        asked.append(request)
        await reply.answer(200, {})

    async with client_of(handle, path="/base/") as client:
        await client.get("/v1/runs", major=1)
        await client.get("/runs", major=2, params={"limit": "5"})

    first, second = asked
    assert first.path == "/base/v1/runs"
    assert "openwop-version" not in first.headers
    assert (second.path, second.query, second.headers["openwop-version"]) == ("/base/runs", {"limit": "5"}, "2")
    assert {request.headers["authorization"] for request in asked} == {"Bearer key"}


async def test_without_a_credential_there_is_no_authorization() -> None:
    asked: list[Asked] = []

    async def handle(request: Asked, reply: Reply) -> None:
        asked.append(request)
        await reply.answer(200, {})

    async with client_of(handle, credential="") as client:
        await client.get("/v1/runs", major=1)

    assert "authorization" not in asked[0].headers


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirects_within_the_origin_are_followed_with_the_credential(status: int) -> None:
    asked: list[Asked] = []

    async def handle(request: Asked, reply: Reply) -> None:
        asked.append(request)
        if request.path == "/v1/runs":
            await reply.answer(status, None, {"Location": "/elsewhere?x=1"})
        else:
            await reply.answer(200, {"ok": True})

    async with client_of(handle) as client:
        answer = await client.get("/v1/runs", major=1)

    assert read_json(answer.body) == {"ok": True}
    assert (asked[1].path, asked[1].query) == ("/elsewhere", {"x": "1"})
    assert asked[1].headers["authorization"] == "Bearer key"


@pytest.mark.parametrize(
    "location",
    [
        "https://evil.example/",
        "//evil.example/",
        "http://127.0.0.1:1/",
        "http://localhost:1/",
        "ftp://127.0.0.1/",
        "http://user:pass@127.0.0.1/",
    ],
)
async def test_redirects_elsewhere_are_not_followed(location: str) -> None:
    async with client_of(always(308, Location=location)) as client:
        with pytest.raises(OutOfBounds, match="redirects to another origin"):
            await client.get("/v1/runs", major=1)


async def test_a_redirect_with_credentials_in_it_is_not_followed_even_at_home() -> None:
    async def handle(asked: Asked, reply: Reply) -> None:
        await reply.answer(307, None, {"Location": f"http://user:pass@{asked.headers['host']}/"})

    async with client_of(handle) as client:
        with pytest.raises(OutOfBounds):
            await client.get("/v1/runs", major=1)


async def test_redirects_in_a_circle_end() -> None:
    async with client_of(always(307, Location="/v1/runs")) as client:
        with pytest.raises(WrongAnswer, match="more than 5 redirects"):
            await client.get("/v1/runs", major=1)


@pytest.mark.parametrize("location", ["", "http://[", "\x7f://x"])
async def test_a_redirect_to_nowhere(location: str) -> None:
    async with client_of(always(307, Location=location)) as client:
        with pytest.raises(FollowProblem):
            await client.get("/v1/runs", major=1)


async def test_a_refusal_tells_code_words_and_pause() -> None:
    body = {"error": "rate_limited", "message": "slow down", "details": {"retryAfterMs": 1500}}
    async with client_of(always(429, body)) as client:
        with pytest.raises(Refused) as refused:
            await client.get("/v1/runs", major=1)

    assert (refused.value.status, refused.value.code, refused.value.asked) == (429, "rate_limited", 1.5)
    assert str(refused.value) == "429 rate_limited: slow down"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"error": 7, "message": ["x"]}', b"\xff", b"[" * 5000])
async def test_a_refusal_in_no_known_shape_is_still_one(body: bytes) -> None:
    async with client_of(always(500, body)) as client:
        with pytest.raises(Refused) as refused:
            await client.get("/v1/runs", major=1)

    assert str(refused.value) == "500"


async def test_words_of_a_host_are_one_short_line() -> None:
    body = {"error": "e" * 1000, "message": "a\r\nb\x1b[31m\u202ec" + "d" * 1000}
    async with client_of(always(400, body)) as client:
        with pytest.raises(Refused) as refused:
            await client.get("/v1/runs", major=1)

    words = str(refused.value)
    assert words.startswith("400 " + "e" * 99 + "…: a b [31m c")
    assert len(words) < 420


async def test_an_answer_over_the_limit() -> None:
    async with client_of(always(200, b"x" * 1001), max_answer_bytes=1000) as client:
        with pytest.raises(TooLarge, match="more than 1000 bytes"):
            await client.get("/v1/runs", major=1)


async def test_silence_is_given_up_on() -> None:
    async def hang(asked: Asked, reply: Reply) -> None:
        await reply.hang()

    async with client_of(hang) as client:
        with pytest.raises(Unreachable, match="no answer within 45 s"):
            await client.get("/v1/runs", major=1)


async def test_an_answer_that_breaks_off() -> None:
    async def break_off(asked: Asked, reply: Reply) -> None:
        await reply.begin({"Content-Type": "application/json"})
        await reply.piece(b'{"runs": [')
        await asyncio.sleep(0.02)
        reply.cut()

    async with client_of(break_off) as client:
        with pytest.raises(Unreachable):
            await client.get("/v1/runs", major=1)


async def test_a_stream_is_no_document() -> None:
    async def stream(asked: Asked, reply: Reply) -> None:
        await reply.begin()
        await reply.hang()

    async with client_of(stream) as client:
        with pytest.raises(WrongAnswer, match="event stream"):
            await client.get("/v1/runs/x/events", major=1)
