"""A host's own diff of two of its runs, asked for with the host's credential and the follower's care for addresses."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

from django.conf import settings

from openwop_ui import vault
from runs.follower.client import FollowProblem, HostClient, OutOfBounds, Refused, TooLarge, read_json
from runs.follower.clock import SystemClock
from runs.follower.routes import run as run_route
from runs.follower.store import FollowedHost
from runs.models import Host

LARGEST_ANSWER = 16 * 1024 * 1024
WITHIN = 20.0
"""Seconds that somebody at a page is kept waiting."""
NOT_OFFERED = (404, 405, 410, 501)


@dataclass(frozen=True, slots=True)
class HostDiff:
    """What an answer in the protocol's shape says."""

    diverged_at: int | None
    added: int
    removed: int
    changed: int
    truncated: bool


def ask_host_diff(host: Host, a: str, b: str) -> HostDiff | str:
    """A host without an origin has nothing to ask. Words say why there is no diff."""
    if not host.origin:
        return "This host delivers; it has no address that could be asked."
    try:
        body = asyncio.run(_asked(_followed(host), a, b))
    except TimeoutError:
        return f"The host did not answer within {WITHIN:.0f} s."
    except FollowProblem as problem:
        return _words(problem)
    return read_diff(body)


async def _asked(host: FollowedHost, a: str, b: str) -> bytes:
    client = HostClient(host, clock=SystemClock(), connections=2, max_answer_bytes=LARGEST_ANSWER)
    major = host.major or 1
    try:
        async with asyncio.timeout(WITHIN):
            answer = await client.get(f"{run_route(major, a)}:diff", major=major, params={"against": b})
    finally:
        await client.aclose()
    return answer.body


def _followed(host: Host) -> FollowedHost:
    try:
        credential = vault.unseal(host.sealed_credential)
    except vault.UnreadableSecret:
        credential = ""
    return FollowedHost(
        tenant_id=host.tenant_id,
        host_id=host.pk,
        slug=host.slug,
        origin=host.origin,
        credential=credential,
        major=host.major,
        allow_private=settings.ALLOW_PRIVATE_HOSTS,
    )


def _words(problem: FollowProblem) -> str:
    match problem:
        case Refused() if problem.status in NOT_OFFERED:
            return f"The host offers no diff of these runs (it answered {problem})."
        case Refused():
            return f"The host answered {problem}."
        case OutOfBounds():
            return f"The host was not asked: {problem}."
        case TooLarge():
            return f"The host’s answer is too large to be read here: {problem}."
    text = str(problem)
    return f"The host could not be asked: {text}."


def read_diff(body: bytes) -> HostDiff | str:
    told = read_json(body)
    listed = told.get("eventDiffs") if isinstance(told, dict) else None
    if not isinstance(told, dict) or not isinstance(listed, list):
        return "The host answered with something that is no diff."
    counts = Counter(str(one.get("op")) for one in listed if isinstance(one, dict))
    diverged = told.get("divergedAtSeq")
    return HostDiff(
        diverged_at=diverged if type(diverged) is int else None,
        added=counts["added"],
        removed=counts["removed"],
        changed=counts["changed"],
        truncated=told.get("truncated") is True,
    )
