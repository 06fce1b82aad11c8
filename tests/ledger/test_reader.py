"""Reading hosts' memory in the background, from a real server that behaves as hosts do, and worse."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from dataclasses import replace as altered
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import pytest
from django.conf import LazySettings
from django.db import connection, connections
from django.utils import timezone

from ledger import observations
from ledger.domain.route_text import write_route
from ledger.models import ContentState, MemoryEntry, Observation
from ledger.reader import ReadPace, Settings, read_memory_forever
from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.memory_read import read_one
from runs.domain.projection import unproject
from runs.domain.storable import original, storable
from runs.models import Host
from runs.store import ref
from runs.store.hosts import set_memory_route
from tests.factories import make_host, make_tenant, take
from tests.hosts.raw_http import Asked, Reply, serving
from tests.ledger.test_store import LATER, read_all, write
from tests.ledger.test_worker import Elsewhere

T = TypeVar("T")

RECORDED = Path(__file__).parent.parent / "fixtures" / "recordings" / "openwop-app"
CONTENTS = ("empty", "html", "long", "multiline", "secretish", "unicode")
FAST = ReadPace(
    per_second=500, batch=50, list_from=1000, scopes=0, idle=0.02, read_hosts=0.05, within=5.0, retry=0.05, closed=0.2
)
"""Without lists, so that each test says which requests it means."""
ROUTES = {
    1: ("/v1/host/openwop-app/memory", "openwop-app"),
    2: ("/host/openwop-app/memory", "openwop-app-2"),
}
NO_LIST = write_route("/m", "/m/{memoryId}", major=1)
NOT_FOUND = (RECORDED / "memory-deleted" / "memory-deleted-entry.json").read_bytes()
KEY = "key-of-the-host"


def recorded(name: str) -> Any:
    return json.loads((RECORDED / name).read_text())


def an_entry(memory_id: str = "m1", content: Any = "text", **members: Any) -> dict[str, Any]:
    return {"id": memory_id, "content": content, "tags": [], "createdAt": "2026-03-01T12:00:00Z"} | members


@dataclass
class App:
    """A host's memory as the public app serves it. ``trouble`` answers in its place for the ids, "" for the list."""

    base: str = "/m"
    memory: dict[str, dict[str, dict[str, Any]]] = field(default_factory=lambda: defaultdict(dict))
    trouble: dict[str, Callable[[Reply], Awaitable[None]]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    slowness: float = 0.0
    open: int = 0
    most_open: int = 0

    def keep(self, *entries: dict[str, Any], ref: str = "notes") -> None:
        self.memory[ref] |= {entry["id"]: entry for entry in entries}

    async def handle(self, asked: Asked, reply: Reply) -> None:
        self.asked.append(asked)
        self.times.append(time.monotonic())
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            await asyncio.sleep(self.slowness)
            await self._answer(asked, reply)
        finally:
            self.open -= 1

    async def _answer(self, asked: Asked, reply: Reply) -> None:
        if asked.headers.get("authorization") != f"Bearer {KEY}":
            await reply.answer(401, recorded("errors-strict-bearer/no-key-memory.json"))
            return
        segment = asked.path.removeprefix(self.base).removeprefix("/")
        memory_id = unproject(segment) if segment and asked.headers.get("openwop-version") == "2" else unquote(segment)
        if memory_id in self.trouble:
            await self.trouble[memory_id](reply)
        elif not asked.path.startswith(self.base):
            await reply.answer(404, {"error": "not_found", "message": f"No route for GET {asked.path}"})
        elif not segment:
            await self._list(asked, reply)
        else:
            await self._entry(memory_id, asked, reply)

    async def _list(self, asked: Asked, reply: Reply) -> None:
        scope = asked.query.get("memoryRef", "notes")
        entries = list(reversed(self.memory[scope].values()))[: int(asked.query.get("limit", "50"))]
        await reply.answer(200, {"memoryRef": scope, "entries": entries})

    async def _entry(self, memory_id: str, asked: Asked, reply: Reply) -> None:
        scope = asked.query.get("memoryRef", "notes")
        if memory_id in self.memory[scope]:
            await reply.answer(200, {"memoryRef": scope, "entry": self.memory[scope][memory_id]})
        else:
            await reply.answer(404, NOT_FOUND, {"Content-Type": "application/json"})

    def ids_asked(self) -> list[str]:
        """ "" for a list."""
        return [unquote(asked.path.removeprefix(self.base).removeprefix("/")) for asked in self.asked]


def saying(status: int, body: object = None, **headers: str) -> Callable[[Reply], Awaitable[None]]:
    async def answer(reply: Reply) -> None:
        await reply.answer(status, body, {name.replace("_", "-"): value for name, value in headers.items()})

    return answer


@pytest.fixture
async def elsewhere(committed: None, settings: LazySettings) -> AsyncIterator[Elsewhere]:
    settings.ALLOW_PRIVATE_HOSTS = True
    one = Elsewhere()
    yield one
    await one.run(connections.close_all)
    one.thread.shutdown()


@asynccontextmanager
async def reading(pace: ReadPace = FAST) -> AsyncIterator[asyncio.Task[None]]:
    """The reader at work. Without chance: what it waits for by its own choice takes no time."""
    stop = asyncio.Event()
    task = asyncio.create_task(read_memory_forever(stop, settings=Settings(pace=pace, random=lambda: 0.0)))
    try:
        yield task
    finally:
        stop.set()
        async with asyncio.timeout(5):
            await task


@dataclass
class Site:
    """A tenant with one host whose memory ``app`` serves."""

    tenant: Tenant
    host: Host
    app: App

    def announce(self, *events: dict[str, Any] | str, now: Any = LATER) -> None:
        assert take(self.host, events).refused_total == 0
        read_all(self.tenant, now=now)

    def seen(self) -> dict[str, list[tuple[str, str | None]]]:
        """Of each entry, the outcomes and contents in the order in which they were seen."""
        told: dict[str, list[tuple[str, str | None]]] = {}
        with tenant_scope(self.tenant.pk):
            for one in Observation.objects.filter(tenant_id=self.tenant.pk).order_by("memory_id", "number"):
                text = None if one.content is None else original(one.content)
                told.setdefault(original(one.memory_id), []).append((one.outcome, text))
        return told

    def state(self, memory_id: str = "m1") -> ContentState:
        with tenant_scope(self.tenant.pk):
            entry = MemoryEntry.objects.get(tenant_id=self.tenant.pk, memory_id=storable(memory_id))
            return ContentState.objects.get(tenant_id=self.tenant.pk, entry_id=entry.id)

    def has_failed(self, memory_id: str = "m1", times: int = 1) -> Callable[[], bool]:
        return lambda: self.state(memory_id).failures >= times

    def has_seen(self, *ids: str, times: int = 1) -> Callable[[], bool]:
        return lambda: all(len(self.seen().get(memory_id, [])) >= times for memory_id in ids)

    def make_due(self) -> None:
        with tenant_scope(self.tenant.pk):
            ContentState.objects.filter(tenant_id=self.tenant.pk).update(next_at=timezone.now())

    def is_reread(self, since: Any) -> bool:
        with tenant_scope(self.tenant.pk):
            states = list(ContentState.objects.filter(tenant_id=self.tenant.pk))
        return bool(states) and all(one.seen_at is not None and one.seen_at > since for one in states)


@asynccontextmanager
async def site_of(
    elsewhere: Elsewhere, *, slug: str = "acme", route: str = NO_LIST, base: str = "/m", credential: str = KEY
) -> AsyncIterator[Site]:
    app = App(base)
    async with serving(app.handle) as origin:

        def make() -> Site:
            tenant = make_tenant(slug)
            told = {"origin": origin, "credential": credential, "memory_route": route}
            return Site(tenant, make_host(tenant, **told), app)

        yield await elsewhere.run(make)


# --- What is read ---


RECORDED_KEYS = ("sk-test-AAAABBBBCCCCDDDDEEEEFFFF0000111122223333", "password=hunter2")


def without_keys(content: str) -> str:
    """As it is, but for what the recorded texts have of keys: those do not reach the disk."""
    for key in RECORDED_KEYS:
        digest = hashlib.sha256(key.encode()).hexdigest()
        content = content.replace(key, f"[quarantined sha256:{digest} bytes:{len(key)}]")
    return content


@pytest.mark.parametrize("major", [1, 2])
async def test_what_the_public_app_was_recorded_to_serve_is_read_as_it_is(elsewhere: Elsewhere, major: int) -> None:
    base, preset = ROUTES[major]
    entries = [recorded(f"memory-contents/{name}/memory-entry.json")["entry"] for name in CONTENTS]
    logs = [(RECORDED / "memory-contents" / name / "events.ndjson").read_text().splitlines() for name in CONTENTS]
    async with site_of(elsewhere, route=preset, base=base) as site:
        site.app.keep(*entries, ref="tenant-memory")
        await elsewhere.run(site.announce, *(line for log in logs for line in log))
        async with reading():
            await elsewhere.until(site.has_seen(*(entry["id"] for entry in entries)))
            # Each run wrote a summary as well, of which nothing was recorded.
            await elsewhere.until(lambda: len(site.seen()) == 2 * len(CONTENTS))
        seen = await elsewhere.run(site.seen)
    assert {entry["id"]: seen[entry["id"]] for entry in entries} == {
        entry["id"]: [("content", without_keys(entry["content"]))] for entry in entries
    }
    contents = [entry["content"] for entry in entries]
    assert any("\0" in text for text in contents) and any("<img" in text for text in contents)
    assert len(max(contents, key=len)) > 4000
    assert [told for told in seen.values() if told == [("gone", None)]] == [[("gone", None)]] * len(CONTENTS)
    assert {asked.query.get("memoryRef") for asked in site.app.asked} == {"tenant-memory"}
    assert {asked.headers.get("openwop-version") for asked in site.app.asked} == {None if major == 1 else "2"}


@pytest.mark.parametrize("major", [1, 2])
async def test_an_id_of_any_kind_is_asked_for_by_its_own_address(elsewhere: Elsewhere, major: int) -> None:
    odd = ["a/b", "a?b=c&d#e", "100%", "~2F", "目标", "é", "\0", "a b", "x" * 1500]
    route = write_route("/m", "/m/{memoryId}", major=major)
    async with site_of(elsewhere, route=route) as site:
        site.app.keep(*(an_entry(one, f"content of {one[:9]}") for one in odd))
        await elsewhere.run(site.announce, *(write(place, one) for place, one in enumerate(odd)))
        async with reading():
            await elsewhere.until(site.has_seen(*odd))
        seen = await elsewhere.run(site.seen)
    assert seen == {one: [("content", f"content of {one[:9]}")] for one in odd}


async def test_an_id_that_no_path_can_hold_is_told_on_its_entry(elsewhere: Elsewhere) -> None:
    async with site_of(elsewhere) as site:
        await elsewhere.run(site.announce, write(0, ".."))
        async with reading():
            await elsewhere.until(site.has_failed(".."))
        assert site.app.asked == []
        assert (await elsewhere.run(site.state, "..")).error == (
            "It can not be asked for: an id of dots only has no path segment."
        )


async def test_what_was_there_before_the_way_was_set_is_read_too(elsewhere: Elsewhere) -> None:
    async with site_of(elsewhere, route="") as site:
        ids = [f"m{number}" for number in range(30)]
        site.app.keep(*map(an_entry, ids))
        await elsewhere.run(site.announce, *(write(place, one) for place, one in enumerate(ids)))
        async with reading():
            await asyncio.sleep(0.2)
            assert site.app.asked == []
            await elsewhere.run(set_memory_route, ref(site.host), NO_LIST)
            await elsewhere.until(site.has_seen(*ids))
            await elsewhere.run(set_memory_route, ref(site.host), "")
            await asyncio.sleep(0.2)
            asked = len(site.app.asked)
            await elsewhere.run(site.make_due)
            await asyncio.sleep(0.2)
    assert len(site.app.asked) == asked == 30


async def test_a_backlog_of_several_slices_is_asked_for_to_its_end(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site_of(elsewhere, route="") as site:
        ids = [f"m{number}" for number in range(25)]
        await elsewhere.run(site.announce, *(write(place, one) for place, one in enumerate(ids)))
        other = await elsewhere.run(make_host, site.tenant, "other")
        await elsewhere.run(take, other, [write(0, "of another host")])
        await elsewhere.run(site.announce)
        whole = observations.ask_for_backlog
        monkeypatch.setattr(observations, "ask_for_backlog", lambda **told: whole(**told, most=10))
        await elsewhere.run(set_memory_route, ref(site.host), NO_LIST)
        async with reading():
            await elsewhere.until(site.has_seen(*ids))
        assert set(await elsewhere.run(site.seen)) == set(ids)


async def test_what_was_just_written_does_not_wait_for_the_backlog(elsewhere: Elsewhere) -> None:
    async with site_of(elsewhere, route="") as site:
        old = [f"old-{number}" for number in range(600)]
        await elsewhere.run(site.announce, *(write(place, one) for place, one in enumerate(old)))
        await elsewhere.run(set_memory_route, ref(site.host), NO_LIST)
        async with reading(altered(FAST, per_second=20, batch=5)):
            await elsewhere.until(lambda: len(site.seen()) >= 5)
            await elsewhere.run(lambda: site.announce(write(0, "new", run="run-2"), now=timezone.now()))
            # The backlog takes half a minute.
            await elsewhere.until(site.has_seen("new"), within=20.0)
        assert len(await elsewhere.run(site.seen)) < 500


async def test_changed_content_is_a_second_observation(elsewhere: Elsewhere) -> None:
    async with site_of(elsewhere) as site:
        site.app.keep(an_entry(content="before"))
        await elsewhere.run(site.announce, write(0))
        async with reading():
            await elsewhere.until(site.has_seen("m1"))
            site.app.keep(an_entry(content="after"))
            await elsewhere.run(site.make_due)
            await elsewhere.until(site.has_seen("m1", times=2))
            begun = timezone.now()
            await elsewhere.run(site.make_due)
            await elsewhere.until(lambda: site.is_reread(begun))
        assert await elsewhere.run(site.seen) == {"m1": [("content", "before"), ("content", "after")]}
        assert (await elsewhere.run(site.state)).unchanged == 1


async def test_an_entry_that_is_written_again_is_read_again(elsewhere: Elsewhere) -> None:
    async with site_of(elsewhere) as site:
        site.app.keep(an_entry(content="before"))
        await elsewhere.run(site.announce, write(0))
        async with reading():
            await elsewhere.until(site.has_seen("m1"))
            site.app.keep(an_entry(content="after"))
            await asyncio.sleep(0.1)
            assert len(site.app.asked) == 1
            await elsewhere.run(site.announce, write(1))
            await elsewhere.until(site.has_seen("m1", times=2))


async def test_unchanged_entries_are_read_ever_more_rarely_and_then_left_alone(elsewhere: Elsewhere) -> None:
    async with site_of(elsewhere) as site:
        site.app.keep(an_entry())
        await elsewhere.run(site.announce, write(0))
        pauses: list[timedelta] = []
        async with reading():
            await elsewhere.until(site.has_seen("m1"))
            while (state := await elsewhere.run(site.state)).next_at is not None:
                assert state.seen_at is not None
                pauses.append(state.next_at - state.seen_at)
                begun = state.seen_at
                await elsewhere.run(site.make_due)
                await elsewhere.until(lambda begun=begun: site.is_reread(begun))  # type: ignore[misc]
    assert pauses == sorted(pauses) and pauses[0] == timedelta(minutes=5) and len(pauses) == 7
    assert len(site.app.asked) == 8


# --- Gone ---


async def test_a_deleted_entry_is_no_longer_readable_and_what_was_seen_stays(elsewhere: Elsewhere) -> None:
    base, preset = ROUTES[1]
    kept = recorded("memory-deleted/memory-entry.json")["entry"]
    log = (RECORDED / "memory-deleted" / "events.ndjson").read_text().splitlines()
    deleted = an_entry("mem_16390915-c9a", "the entry that was deleted in the recording")
    async with site_of(elsewhere, route=preset, base=base) as site:
        site.app.keep(kept, deleted, ref="tenant-memory")
        await elsewhere.run(site.announce, *log)
        async with reading():
            await elsewhere.until(site.has_seen(kept["id"], deleted["id"]))
            del site.app.memory["tenant-memory"][deleted["id"]]
            await elsewhere.run(site.make_due)
            await elsewhere.until(site.has_seen(deleted["id"], times=2))
        seen = await elsewhere.run(site.seen)
        assert seen[deleted["id"]] == [("content", deleted["content"]), ("gone", None)]
        assert seen[kept["id"]] == [("content", kept["content"])]
        assert (await elsewhere.run(site.state, deleted["id"])).error == ""


async def test_a_host_that_lost_its_memory_in_a_restart_has_lost_the_old_entries_only(elsewhere: Elsewhere) -> None:
    base, preset = ROUTES[1]
    log = (RECORDED / "crash-mid-run" / "events-after-recovery.ndjson").read_text().splitlines()
    before = recorded("crash-mid-run/memory-before-crash.json")["entries"]
    later = recorded("crash-mid-run/memory-later.json")["entries"]
    async with site_of(elsewhere, route=preset, base=base) as site:
        site.app.keep(*before, ref="tenant-memory")
        await elsewhere.run(site.announce, *log[:6])
        async with reading(altered(FAST, scopes=20, list_every=0.05)):
            await elsewhere.until(site.has_seen(*(entry["id"] for entry in before)))
            site.app.memory.clear()
            site.app.keep(*reversed(later), ref="tenant-memory")
            await elsewhere.run(site.announce, *log[6:])
            await elsewhere.run(site.make_due)
            await elsewhere.until(site.has_seen(*(entry["id"] for entry in later)))
            await elsewhere.until(site.has_seen(before[0]["id"], times=2))
        seen = await elsewhere.run(site.seen)
    assert before[0]["id"] not in {entry["id"] for entry in later}
    assert seen[before[0]["id"]] == [("content", before[0]["content"]), ("gone", None)]
    assert {entry["id"]: seen[entry["id"]] for entry in later} == {
        entry["id"]: [("content", entry["content"])] for entry in later
    }


async def test_an_entry_that_a_list_leaves_out_is_not_gone(elsewhere: Elsewhere) -> None:
    async with site_of(elsewhere) as site:
        site.app.keep(*(an_entry(f"m{number}") for number in range(5)))
        await elsewhere.run(site.announce, *(write(place, f"m{place}") for place in range(5)))
        async with reading(altered(FAST, scopes=20, list_every=0.05, list_limit=2)):
            await elsewhere.until(site.has_seen(*(f"m{number}" for number in range(5))))
            await asyncio.sleep(0.2)
        assert {tuple(told) for told in (await elsewhere.run(site.seen)).values()} == {(("content", "text"),)}


# --- Lists ---


async def test_a_list_finds_entries_that_no_event_names(elsewhere: Elsewhere) -> None:
    route = write_route("/m", "/m/{memoryId}", major=1, ref="quiet scope")
    async with site_of(elsewhere, route=route) as site:
        site.app.keep(an_entry("announced"), an_entry("quiet"))
        site.app.keep(an_entry("hidden"), ref="quiet scope")
        site.app.keep(an_entry("elsewhere"), ref="nobody speaks of this")
        await elsewhere.run(site.announce, write(0, "announced"))
        async with reading(altered(FAST, scopes=20)):
            await elsewhere.until(site.has_seen("announced", "quiet", "hidden"))
        seen = await elsewhere.run(site.seen)
    assert set(seen) == {"announced", "quiet", "hidden"}
    assert sorted(asked.query["memoryRef"] for asked in site.app.asked) == ["notes", "quiet scope"]
    assert {asked.query["limit"] for asked in site.app.asked} == {"100"}


async def test_many_entries_of_one_scope_cost_one_request(elsewhere: Elsewhere) -> None:
    ids = [f"m{number}" for number in range(40)]
    async with site_of(elsewhere) as site:
        site.app.keep(*map(an_entry, ids[:-1]))
        await elsewhere.run(site.announce, *(write(place, one) for place, one in enumerate(ids)))
        async with reading(altered(FAST, list_from=5)):
            await elsewhere.until(site.has_seen(*ids))
    assert site.app.ids_asked() == ["", "m39"]


@pytest.mark.parametrize(
    "answer",
    [
        saying(404, {"error": "not_found", "message": "No route for GET /m"}),
        saying(405),
        saying(200, {"unlike": "a list"}),
        saying(200, {"memoryRef": "another one", "entries": [an_entry("stray")]}),
    ],
)
async def test_a_host_without_lists_is_read_entry_by_entry(
    elsewhere: Elsewhere, answer: Callable[[Reply], Awaitable[None]]
) -> None:
    async with site_of(elsewhere) as site:
        site.app.trouble[""] = answer
        site.app.keep(an_entry(), an_entry("m2"))
        await elsewhere.run(site.announce, write(0), write(1, "m2"))
        async with reading(altered(FAST, scopes=20, list_from=2)):
            await elsewhere.until(site.has_seen("m1", "m2"))
        assert set(await elsewhere.run(site.seen)) == {"m1", "m2"}


# --- Trouble ---


async def hang(reply: Reply) -> None:
    await reply.hang()


async def cut(reply: Reply) -> None:
    reply.cut()


async def endless(reply: Reply) -> None:
    await reply.begin({"Content-Type": "application/json"})
    while True:
        await reply.piece(b" " * 65536)


TROUBLE: dict[str, tuple[Callable[[Reply], Awaitable[None]], str]] = {
    "500": (saying(500, {"error": "boom", "message": "it broke"}), "The host answered 500 boom: it broke."),
    "503 without a body": (saying(503), "The host answered 503."),
    "silence": (hang, "No answer within 0 s."),
    "a cut": (cut, "The host broke off in the middle or does not speak HTTP."),
    "too much": (endless, "An answer of more than 100000 bytes."),
    "no JSON": (saying(200, b"<html>"), "The host answered with something that is no memory entry."),
    "an array": (saying(200, [1]), "The host answered with something that is no memory entry."),
    "another entry": (saying(200, {"entry": an_entry("m9", "theirs")}), "The host answered with another entry."),
    "a refusal": (saying(400, {"error": "x"}), "The host answered with something that is no memory entry."),
}


@pytest.mark.parametrize("answer, words", TROUBLE.values(), ids=TROUBLE.keys())
async def test_trouble_with_one_entry_stays_with_it_and_mends(
    elsewhere: Elsewhere,
    answer: Callable[[Reply], Awaitable[None]],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ledger.reader.LARGEST_ANSWER", 100_000)
    async with site_of(elsewhere) as site:
        site.app.keep(an_entry(content="mended"), an_entry("m2"))
        site.app.trouble["m1"] = answer
        await elsewhere.run(site.announce, write(0), write(1, "m2"))
        async with reading(altered(FAST, within=0.3)):
            await elsewhere.until(site.has_failed("m1", times=2))
            await elsewhere.until(site.has_seen("m2"))
            state = await elsewhere.run(site.state)
            assert (state.error, state.outcome, state.number) == (words, None, 0)
            assert state.error_at is not None and state.next_at is not None and state.next_at > state.error_at
            assert await elsewhere.run(site.seen) == {"m2": [("content", "text")]}
            site.app.trouble.clear()
            await elsewhere.until(site.has_seen("m1"))
        state = await elsewhere.run(site.state)
        assert (state.error, state.error_at, state.failures) == ("", None, 0)


async def test_a_busy_host_is_left_alone_for_as_long_as_it_asks(elsewhere: Elsewhere) -> None:
    async with site_of(elsewhere) as site:
        ids = [f"m{number}" for number in range(8)]
        site.app.keep(*map(an_entry, ids))
        site.app.trouble = dict.fromkeys(ids, saying(429, {"error": "rate_limited"}, Retry_After="1"))
        await elsewhere.run(site.announce, *(write(place, one) for place, one in enumerate(ids)))
        async with reading(altered(FAST, at_once=1)):
            await elsewhere.until(lambda: any(site.state(one).failures for one in ids))
            asked = len(site.app.asked)
            site.app.trouble.clear()
            await elsewhere.until(site.has_seen(*ids))
    assert asked == 1
    assert site.app.times[1] - site.app.times[0] >= 1.0


async def test_a_host_that_is_away_is_tried_again(elsewhere: Elsewhere) -> None:
    async with site_of(elsewhere) as site:
        site.app.keep(an_entry())
        await elsewhere.run(site.announce, write(0))
        site.app.trouble["m1"] = cut
        async with reading():
            await elsewhere.until(site.has_failed(times=3))
            site.app.trouble.clear()
            await elsewhere.until(site.has_seen("m1"))


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_a_missing_route_buries_no_entry_and_stops_the_asking(elsewhere: Elsewhere, status: int) -> None:
    body = {"error": "not_found", "message": "No route for GET /v1/host/openwop-app/memory"}
    async with site_of(elsewhere) as site:
        ids = [f"m{number}" for number in range(10)]
        site.app.trouble = dict.fromkeys(ids, saying(status, body))
        await elsewhere.run(site.announce, *(write(place, one) for place, one in enumerate(ids)))
        async with reading(altered(FAST, closed=60.0, at_once=1)):
            await elsewhere.until(lambda: any(site.state(one).failures for one in ids))
            await asyncio.sleep(0.3)
            assert len(site.app.asked) == 1
            assert await elsewhere.run(site.seen) == {}
            (told,) = {one.error for one in [await elsewhere.run(site.state, one) for one in ids] if one.error}
            assert told.startswith("The host has no such route")
            # Set rightly, it is read at once, the one that failed too.
            site.app.base = "/right"
            site.app.trouble.clear()
            site.app.keep(*map(an_entry, ids))
            right = write_route("/right", "/right/{memoryId}", major=1)
            await elsewhere.run(set_memory_route, ref(site.host), right)
            await elsewhere.until(site.has_seen(*ids))


async def test_a_wrong_credential_is_told_and_not_tried_over_and_over(elsewhere: Elsewhere) -> None:
    async with site_of(elsewhere, credential="wrong") as site:
        site.app.keep(an_entry())
        await elsewhere.run(site.announce, write(0), write(1, "m2"))
        async with reading(altered(FAST, closed=60.0, at_once=1)):
            await elsewhere.until(lambda: site.state("m1").failures + site.state("m2").failures == 1)
            await asyncio.sleep(0.2)
            assert len(site.app.asked) == 1
            await elsewhere.run(lambda: make_host(site.tenant, "alpha", credential=KEY))
            await elsewhere.until(site.has_seen("m1"))


async def test_a_credential_goes_to_no_other_origin(elsewhere: Elsewhere) -> None:
    other = App()
    async with serving(other.handle) as elsewhere_origin, site_of(elsewhere) as site:
        site.app.trouble["m1"] = saying(308, None, Location=f"{elsewhere_origin}/m/m1")
        await elsewhere.run(site.announce, write(0))
        async with reading():
            await elsewhere.until(site.has_failed())
        assert "redirects to another origin" in (await elsewhere.run(site.state)).error
    assert other.asked == []


async def test_a_redirect_within_the_host_is_followed(elsewhere: Elsewhere) -> None:
    """The public app moved its memory from below /v1/host to below /host."""
    async with site_of(elsewhere) as site:
        site.app.keep(an_entry())
        site.app.trouble["old/m1"] = saying(308, None, Location="/m/m1?memoryRef=notes")
        await elsewhere.run(set_memory_route, ref(site.host), write_route("/old", "/old/{memoryId}", major=1))
        await elsewhere.run(site.announce, write(0))
        async with reading():
            await elsewhere.until(site.has_seen("m1"))


async def test_private_addresses_are_not_asked(elsewhere: Elsewhere, settings: LazySettings) -> None:
    settings.ALLOW_PRIVATE_HOSTS = False
    async with site_of(elsewhere) as site:
        site.app.keep(an_entry())
        await elsewhere.run(site.announce, write(0))
        async with reading():
            await elsewhere.until(site.has_failed())
        assert "is on a private network" in (await elsewhere.run(site.state)).error
        assert site.app.asked == []


# --- Pace ---


async def test_a_host_is_asked_no_faster_than_agreed(elsewhere: Elsewhere) -> None:
    async with site_of(elsewhere) as site:
        ids = [f"m{number}" for number in range(13)]
        site.app.slowness = 0.15
        site.app.keep(*map(an_entry, ids))
        await elsewhere.run(site.announce, *(write(place, one) for place, one in enumerate(ids)))
        async with reading(altered(FAST, per_second=20, at_once=2)):
            await elsewhere.until(site.has_seen(*ids))
    times = site.app.times
    assert len(times) == 13
    assert times[-1] - times[0] >= 12 / 20 - 0.02
    assert site.app.most_open == 2


async def test_a_host_whose_answers_are_hard_to_understand_is_left_alone_for_longer(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    def laboriously(status: int, body: bytes) -> Any:
        time.sleep(0.02)
        return read_one(status, body)

    monkeypatch.setattr("ledger.reader.SLOW", 0.01)
    monkeypatch.setattr("ledger.reader.read_one", laboriously)
    async with site_of(elsewhere) as site:
        site.app.keep(an_entry(), an_entry("m2"))
        await elsewhere.run(site.announce, write(0))
        await elsewhere.run(lambda: site.announce(write(1, "m2"), now=LATER + timedelta(seconds=1)))
        async with reading(altered(FAST, at_once=1)):
            await elsewhere.until(site.has_seen("m1", "m2"))
    assert site.app.ids_asked() == ["m1", "m2"]
    assert site.app.times[1] - site.app.times[0] >= 0.2


async def test_a_slow_host_keeps_no_other_waiting(elsewhere: Elsewhere) -> None:
    async with (
        site_of(elsewhere) as slow,
        site_of(elsewhere, slug="globex") as quick,
    ):
        ids = [f"m{number}" for number in range(6)]
        for site in (slow, quick):
            site.app.keep(*map(an_entry, ids))
            await elsewhere.run(site.announce, *(write(place, one) for place, one in enumerate(ids)))
        slow.app.slowness = 3600.0
        async with reading(altered(FAST, within=3600.0, in_all=6)):
            await elsewhere.until(lambda: slow.app.open == 4)
            await elsewhere.until(quick.has_seen(*ids))
        assert await elsewhere.run(slow.seen) == {}


async def test_a_host_that_is_not_followed_is_not_read(elsewhere: Elsewhere) -> None:
    async with site_of(elsewhere) as site:

        def follow(whether: bool) -> None:
            with tenant_scope(site.tenant.pk):
                Host.objects.filter(tenant_id=site.tenant.pk).update(following=whether)

        await elsewhere.run(follow, False)
        await elsewhere.run(site.announce, write(0))
        async with reading():
            await asyncio.sleep(0.3)
            assert site.app.asked == []
            await elsewhere.run(follow, True)
            await elsewhere.until(site.has_seen("m1"))


async def test_two_readers_read_each_entry_once(elsewhere: Elsewhere) -> None:
    async with site_of(elsewhere) as site:
        ids = [f"m{number}" for number in range(40)]
        site.app.keep(*map(an_entry, ids))
        site.app.slowness = 0.01
        await elsewhere.run(site.announce, *(write(place, one) for place, one in enumerate(ids)))
        pace = altered(FAST, batch=5)
        async with reading(pace), reading(pace):
            await elsewhere.until(site.has_seen(*ids))
        assert sorted(site.app.ids_asked()) == sorted(ids)


# --- The reader itself ---


async def test_nothing_that_a_host_says_is_logged(elsewhere: Elsewhere, caplog: pytest.LogCaptureFixture) -> None:
    async with site_of(elsewhere) as site:
        site.app.keep(an_entry(content="canary-content \0"), an_entry("m3", "canary", tags=["canary-tag"]))
        site.app.trouble["m2"] = saying(500, {"error": "canary-code", "message": "canary-message"})
        await elsewhere.run(site.announce, write(0), write(1, "m2"), write(2, "m3"))
        with caplog.at_level(logging.INFO):
            async with reading():
                await elsewhere.until(site.has_seen("m1", "m3"))
                await elsewhere.until(site.has_failed("m2"))
    assert "canary" not in caplog.text


async def test_a_failure_on_this_side_is_logged_by_its_name_and_the_reader_goes_on(
    elsewhere: Elsewhere, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, failures = observations.observe, 2

    def fail_at_first(**told: Any) -> Any:
        nonlocal failures
        if failures:
            failures -= 1
            with connection.cursor() as cursor:
                cursor.execute("SELECT 'canary-of-the-database'::int")
        return whole(**told)

    monkeypatch.setattr(observations, "observe", fail_at_first)
    monkeypatch.setattr(observations, "CLAIM", timedelta(milliseconds=50))
    async with site_of(elsewhere) as site:
        site.app.keep(an_entry())
        await elsewhere.run(site.announce, write(0))
        with caplog.at_level(logging.ERROR, "ledger.reader"):
            async with reading() as task:
                await elsewhere.until(site.has_seen("m1"))
                assert not task.done()
    assert len(caplog.messages) == 2 and "canary" not in caplog.text
    assert re.fullmatch(r"the memory of host alpha could not be read on \(\w+\)", caplog.messages[0])


async def test_the_reader_ends_at_once_and_leaves_no_connection(elsewhere: Elsewhere) -> None:
    async with site_of(elsewhere) as site:
        site.app.slowness = 3600.0
        await elsewhere.run(site.announce, *(write(place, f"m{place}") for place in range(9)))
        before = await elsewhere.run(connected)
        begun = time.monotonic()
        async with reading(altered(FAST, within=3600.0)):
            await elsewhere.until(lambda: site.app.open == 4)
            begun = time.monotonic()
        assert time.monotonic() - begun < 2
        await elsewhere.until(lambda: connected() == before)


def connected() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        ((count,),) = cursor.fetchall()
        return int(count)
