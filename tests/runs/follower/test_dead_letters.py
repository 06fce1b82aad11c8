"""What a host gave up delivering is asked for, and the runs it was about are read."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from runs.domain.dead_letters import DeadLetter, DeadLetterPage, read_dead_letters
from tests.hosts.follow_doubles import MemoryStore, followed
from tests.hosts.misbehaving import MisbehavingHost, log_of
from tests.hosts.raw_http import Asked, Reply
from tests.runs.follower.test_worker import finished, until, working

HOOK, RUN = "acme/hook-0123456789abcdef", "acme/run-0123456789abcdef"
AT = datetime(2026, 11, 29, 18, 0, tzinfo=UTC)


def letter(**members: Any) -> dict[str, Any]:
    told = {
        "deliveryId": "acme/delivery-0123456789abcdef",
        "webhookId": HOOK,
        "runId": RUN,
        "eventId": "evt-1-0000000000000000",
        "eventType": "memory.written",
        "attempts": 8,
        "deadLetteredAt": "2026-11-29T18:00:00Z",
        "expiresAt": "2026-12-29T18:00:00Z",
        "reason": "retries_exhausted",
        "lastStatus": 503,
        **members,
    }
    return {name: value for name, value in told.items() if value is not ...}


READ = DeadLetter(RUN, "evt-1-0000000000000000", AT)


@pytest.mark.parametrize(
    ("body", "page"),
    [
        ({"deliveries": [letter()], "nextCursor": "c2"}, DeadLetterPage((READ,), "c2")),
        ({"deliveries": [letter(reason="payload_unprojectable", lastStatus=...)]}, DeadLetterPage((READ,), "")),
        (
            {"deliveries": [letter(eventId=..., deadLetteredAt="soon")]},
            DeadLetterPage((DeadLetter(RUN, None, None),), ""),
        ),
        ({"deliveries": [letter(runId=...), letter(runId=7), "x", None], "nextCursor": None}, DeadLetterPage((), "")),
        ({"deliveries": None}, DeadLetterPage((), "")),
        ([letter()], DeadLetterPage((), "")),
        (None, DeadLetterPage((), "")),
    ],
)
def test_h_dead_letter_read_carries_no_payload_shapes(body: object, page: DeadLetterPage) -> None:
    assert read_dead_letters(body) == page


@dataclass
class Undelivering(MisbehavingHost):
    """Lists no runs, and two pages of dead letters until its webhook is gone."""

    is_registered: bool = True
    letters_asked: list[Asked] = field(default_factory=list)

    async def handle(self, asked: Asked, reply: Reply) -> None:
        if asked.path == "/runs":
            await reply.answer(404, {"error": "not_found", "message": "no list"})
        elif asked.path == "/webhooks/acme~2Fhook-0123456789abcdef/dead-letters":
            self.letters_asked.append(asked)
            await self._answer_letters(asked, reply)
        else:
            await super().handle(asked, reply)

    async def _answer_letters(self, asked: Asked, reply: Reply) -> None:
        if not self.is_registered:
            await reply.answer(404, {"error": "webhook_not_found", "message": "gone"})
        elif "cursor" in asked.query:
            await reply.answer(200, {"deliveries": [letter(eventId="evt-2-0000000000000000")], "nextCursor": None})
        else:
            await reply.answer(200, {"deliveries": [letter()], "nextCursor": "2"})


async def test_a_run_that_only_a_dead_letter_names_is_read() -> None:
    host = Undelivering(log_of(6, run_id=RUN), run_id=RUN, major=2)
    store = MemoryStore(registered=[HOOK])
    async with host.serving() as origin:
        store.hosts = [followed(origin)]
        async with working(store):
            await until(lambda: finished(store) == {RUN})
    assert store.log(RUN) == host.log
    assert [one.event_id for one in store.dead_letters[:2]] == ["evt-1-0000000000000000", "evt-2-0000000000000000"]
    assert [(one.method, one.headers["openwop-version"]) for one in host.letters_asked[:2]] == [("GET", "2")] * 2


async def test_a_webhook_that_is_gone_holds_nothing_up() -> None:
    host = Undelivering(log_of(6, run_id=RUN), run_id=RUN, major=2, is_registered=False)
    store = MemoryStore(registered=[HOOK], known={(1, 1): [RUN]})
    async with host.serving() as origin:
        store.hosts = [followed(origin)]
        async with working(store):
            await until(lambda: finished(store) == {RUN} and host.letters_asked)
    assert store.dead_letters == [] and store.host_states[-1].last_error == ""


async def test_a_host_of_the_first_major_is_not_asked() -> None:
    host = Undelivering(log_of(6), major=1)
    store = MemoryStore(registered=[HOOK])
    async with host.serving() as origin:
        store.hosts = [followed(origin)]
        async with working(store):
            await until(lambda: finished(store) == {"run-1"})
    assert host.letters_asked == []
