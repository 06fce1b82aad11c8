"""Forks a run on its host, with the host's own credential, while somebody waits for the page.

It is asked by the follower's client: the address policy, the origin that the credential never leaves, the bounds and
the words for what goes wrong are the same.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec
from django.conf import settings

from openwop_ui import vault
from openwop_ui.tenancy.scope import tenant_scope

from .domain.forking import Fork
from .domain.normalise import MAX_ID_LENGTH, read_event
from .domain.poll import NotAPollBody, read_poll
from .domain.snapshots import Parent, parent_in_fork_answer
from .follower import routes
from .follower.client import Answer, FollowProblem, HostClient, Refused, read_json
from .follower.clock import SystemClock
from .follower.store import FollowedHost
from .models import Host
from .store import keep_parents, ref, take_in
from .store.subscriptions import follow_delivered_run

WITHIN = 25.0
FIRST_EVENTS_WITHIN = 5.0
LOOK_AGAIN = 0.2
MAX_ANSWER_BYTES = 4 * 1024 * 1024
MAX_EVENTS = 5_000
"""What a new run has told by then is taken in at once, up to so much; the workers read the rest."""


class ForkProblem(Exception):
    """Its text is for people."""


@dataclass(frozen=True, slots=True)
class Forked:
    """The new run. ``has_events``: its first events are here already, so that its page can be opened."""

    run_id: str
    has_events: bool


def fork_on_host(host: Host, fork: Fork, *, key: str) -> Forked:
    """Raises ForkProblem. ``key`` makes asking twice the same as asking once, where the host honours it."""
    asked = _followed(host)
    run_id, parent, events = asyncio.run(_fork(asked, fork, key))
    items = [read_event(text, index=index, run_id=run_id) for index, text in enumerate(events)]
    receipt = take_in(ref(host), items)
    with tenant_scope(host.tenant_id):
        follow_delivered_run(tenant_id=host.tenant_id, host_id=host.pk, run_id=run_id, asked_here=True)
        keep_parents(ref(host), {run_id: parent})
    return Forked(run_id, has_events=run_id in receipt.runs)


def _followed(host: Host) -> FollowedHost:
    if not host.origin:
        raise ForkProblem("This host has no origin, so it can not be asked for anything.")
    try:
        credential = vault.unseal(host.sealed_credential)
    except vault.UnreadableSecret:
        raise ForkProblem("CREDENTIALS_KEY does not open this host's credential.") from None
    return FollowedHost(
        tenant_id=host.tenant_id,
        host_id=host.pk,
        slug=host.slug,
        origin=host.origin,
        credential=credential,
        major=host.major,
        allow_private=settings.ALLOW_PRIVATE_HOSTS,
    )


async def _fork(host: FollowedHost, fork: Fork, key: str) -> tuple[str, Parent, tuple[bytes, ...]]:
    client = HostClient(host, clock=SystemClock(), connections=2, max_answer_bytes=MAX_ANSWER_BYTES)
    try:
        async with asyncio.timeout(WITHIN):
            answer = await client.post(fork.path, major=fork.major, body=msgspec.json.encode(fork.body), key=key)
        run_id, parent = _understood(answer, fork)
        return run_id, parent, await _first_events(client, fork.major, run_id)
    except Refused as refusal:
        raise ForkProblem(f"{_advice(refusal, fork)} ({refusal})") from refusal
    except FollowProblem as problem:
        raise ForkProblem(f"{_sentence(str(problem))} Whether the host started a run is not known.") from problem
    except TimeoutError:
        raise ForkProblem(f"No answer within {WITHIN:.0f} s. Whether the host started a run is not known.") from None
    finally:
        await client.aclose()


def _understood(answer: Answer, fork: Fork) -> tuple[str, Parent]:
    if answer.status >= 300:
        raise ForkProblem("The host redirects in a way that is not followed.")
    told = read_json(answer.body)
    run_id = told.get("runId") if isinstance(told, dict) else None
    if not isinstance(run_id, str) or not 0 < len(run_id) <= MAX_ID_LENGTH:
        raise ForkProblem("The host answered without the id of the new run. Whether it started one is not known.")
    said = parent_in_fork_answer(told)
    mode = said.mode if said and said.mode else fork.mode
    begins = fork.from_sequence if said is None or said.from_sequence is None else said.from_sequence
    return run_id, Parent(fork.run_id, "fork", "asked for from here", mode, begins)


async def _first_events(client: HostClient, major: int, run_id: str) -> tuple[bytes, ...]:
    """What the new run has told so far, as soon as it has told something. What can not be read is left to the
    workers: the fork itself is done."""
    ask = routes.poll(major, run_id, None)
    try:
        async with asyncio.timeout(FIRST_EVENTS_WITHIN):
            while True:
                answer = await client.get(ask.path, major=major, params=ask.params, accept=ask.accept)
                if events := read_poll(answer.body).events:
                    return events[:MAX_EVENTS]
                await asyncio.sleep(LOOK_AGAIN)
    except (FollowProblem, NotAPollBody, TimeoutError):
        return ()


_BY_CODE = {
    "run_expired": "The host does not keep this run's log any more, so it can not be forked.",
    "fork_point_invalid": "The host does not fork at this event. Try an event before it, or the beginning.",
    "replay_memory_snapshot_unavailable": "The host has not kept the memory that the run saw, so it can not replay it.",
    "replay_context_summary_unavailable": "The host has not kept what the run's context was, so it can not replay it.",
    "replay_diverged_at_refusal": "The replay stopped where the source was refused something, or was not.",
    "run_forbidden": "The host's credential may not start this run again.",
}
_BY_STATUS = {
    401: "The host does not take its credential.",
    403: "The host's credential may not start runs; it needs runs:create.",
    404: "The host does not know this run, or has no way to fork runs.",
    405: "The host has no way to fork runs.",
    406: "The host does not speak this major of the protocol any more.",
    409: "The host can not fork this run now.",
    410: "The host does not have this run any more.",
    422: "The host does not take this request.",
    429: "The host asks to wait. Try again shortly.",
    503: "The host is busy. Try again shortly.",
}


def _advice(refusal: Refused, fork: Fork) -> str:
    if refusal.status == 501:
        return f"The host has not built a {fork.mode} from #{fork.from_sequence}; some replay from the beginning only."
    return _BY_CODE.get(refusal.code) or _BY_STATUS.get(refusal.status) or "The host refuses."


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
