"""Content, secrets and tokens in any field, through every door: in no table, log, page, answer or export.

Each door gets one log in which every secret stands at every place where a host can put text. What is kept is read back
as the rows of all tables; what is shown, by following every link from the run's page and asking every address of the
REST API for it.
"""

from __future__ import annotations

import asyncio
import html
import io
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.management import call_command
from django.db import connection, connections
from django.http import HttpResponseBase
from django.test import Client
from pytest_django import DjangoDbBlocker

from ledger import reader
from ledger.domain.route_text import write_route
from ledger.models import Observation
from openwop_ui.tenancy.models import Role, Tenant
from openwop_ui.tenancy.scope import tenant_scope
from runs import hooks
from runs.domain.projection import project
from runs.exports import exports
from runs.follow_store import DatabaseFollowStore, configured
from runs.follower.worker import follow_forever
from runs.models import Follow, Host, Incident, Run
from runs.store import ref
from runs.store.hosts import set_memory_route
from runs.store.subscriptions import open_subscription
from runs.store.watching import watch_on
from tests.committed import committed_rows
from tests.factories import (
    BEGINNING,
    as_ndjson,
    bearer,
    make_event,
    make_host,
    make_key,
    make_member,
    make_tenant,
    take,
)
from tests.hosts.follow_doubles import FastClock
from tests.hosts.misbehaving import MisbehavingHost
from tests.hosts.raw_http import Asked, Reply
from tests.ledger.test_store import read_all
from tests.runs.test_hooks import NOW, SECRET, first_major

CORE = "Zq7Canary9XwK2"
SECRETS = (
    f"sk-proj-{CORE}0123456789",
    f"sk_live_{CORE}0123456789",
    f"ghp_{CORE * 3}",
    f"github_pat_{CORE}_0123456789",
    f"xoxb-0123456789-{CORE}",
    f"AIza{(CORE * 3)[:35]}",
    f"AKIA{CORE.upper()}AB",
    f"eyJhbGciOi.eyJ{CORE}.c2ln{CORE}",
    f"-----BEGIN PRIVATE KEY-----\nMIIB{CORE}\n-----END PRIVATE KEY-----",
    f"Authorization: Bearer {CORE}abcd",
    f"whsec_{CORE * 2}",
    f"https://someone:{CORE}@db.example/x",
    f"https://host.example/v1/runs/r/events?streamToken={CORE}",
    f"https://host.example/callback?access_token={CORE}",
)
NAMED = ("interruptToken", "resume_token", "streamToken", "callbackUrl", "resumeUrl", "apiKey", "password", "secret")
CONTENT = f"the customer said {CORE}"

TYPES = ("run.started", "node.started", "agent.toolCalled", "agent.toolReturned", "log.appended", "acme.anything")
RUN = "run-1"
LATER = BEGINNING + timedelta(days=1000)


def tainted_log() -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []

    def told(type: str, payload: dict[str, Any], **members: Any) -> None:
        events.append(make_event(len(events), type, payload=payload, **members))

    for place, secret in enumerate(SECRETS):
        anywhere = {
            "text": secret,
            "workflowId": secret,
            "agentId": secret,
            "callId": secret,
            "inputs": {"deep": [{"list": [f"use {secret} now", secret]}], secret: "as a name"},
            "outcome": f"{'as was said before, ' * 30}{secret}{' and so on' * 30}",
            "error": {"code": secret, "message": f"failed with {secret}"},
            "json": json.dumps({"headers": {"Authorization": secret}}),
        }
        kind = TYPES[place % len(TYPES)]
        told(kind, anywhere, node=secret, eventId=secret, causationId=secret, extra=secret, engineVersion=secret)
        told("memory.written", {"memoryRef": secret, "memoryId": secret, "agentId": secret, "tags": [secret, "fine"]})
        told(f"acme.{secret}", anywhere)
    named = dict.fromkeys(NAMED, CORE) | {"Authorization": f"Basic {CORE}", "webhook": {"signing_key": CORE}}
    told("node.suspended", {"interrupt": named, "list": [named]}, node="gate", **named)
    content = {"memoryRef": "notes", "memoryId": "m-1", "content": CONTENT, "extra": {"value": [CONTENT]}}
    told("memory.written", content, data=content)
    told("memory.compacted", {"memoryRef": "notes", "outputId": "m-2", "sourceCount": 1, "summary": CONTENT})
    told("run.failed", {"error": {"code": SECRETS[0], "message": SECRETS[1]}, "interruptToken": CORE})
    return events


def tainted_snapshot() -> dict[str, Any]:
    return {
        "runId": RUN,
        "workflowId": SECRETS[0],
        "status": "failed",
        "currentNodeId": SECRETS[2],
        "error": {"code": SECRETS[3], "message": SECRETS[4]},
        "interrupt": {"kind": SECRETS[5], "interruptToken": CORE, "callbackUrl": f"https://h/{CORE}"},
        "variables": {
            "memory": {"id": "m", "content": CONTENT, "tags": [SECRETS[6]], "createdAt": "2026-03-01T09:00:00Z"}
        },
        "owner": {"tenant": SECRETS[7]},
        "parentRunId": SECRETS[2],
        "tags": list(SECRETS),
    }


def tainted_bundle() -> dict[str, Any]:
    return {
        "bundleVersion": SECRETS[0],
        "generatedAt": SECRETS[1],
        "host": {"name": SECRETS[2], "version": SECRETS[3], "apiKey": CORE},
        "run": tainted_snapshot(),
        "events": tainted_log(),
        "spans": [{"name": SECRETS[4], "attributes": {"openwop.replay.source_run_id": SECRETS[2]}}],
        "metrics": {"eventCount": 999, "note": SECRETS[5]},
        "annotations": [{"note": SECRETS[6]}],
        "truncated": True,
        "truncatedReason": SECRETS[8],
    }


def tainted_memory() -> dict[str, Any]:
    entry = {
        "id": "m-1",
        "content": "\n".join(("what was noted:", *SECRETS)),
        "tags": ["fine", *(secret for secret in SECRETS if len(secret) < 256)],
        "createdAt": "2026-03-01T09:00:00.000Z",
    }
    return {"memoryRef": "notes", "entries": [entry, entry | {"id": SECRETS[0]}, entry | {SECRETS[2]: 1, "id": "m-2"}]}


def everything_stored(tenant: Tenant) -> Iterator[tuple[str, str]]:
    """Every row of every table that the tenant's scope shows, as text."""
    with tenant_scope(tenant.pk), connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        for (table,) in cursor.fetchall():
            cursor.execute(f'SELECT t::text FROM "{table}" t')
            yield from ((table, row) for (row,) in cursor.fetchall())


HIDDEN = tuple(
    mark for core in (CORE, CORE.upper()) for mark in (core, core.encode().hex(), core.encode().hex().upper())
)


def shows(text: str) -> str:
    """What of the secrets is in a text, with what is around it; "" when nothing is."""
    found = next((mark for mark in HIDDEN if mark in text), None)
    return text[max(text.index(found) - 60, 0) : text.index(found) + 60] if found else ""


@pytest.fixture
def committed(own_database: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    with committed_rows(django_db_blocker):
        yield


@pytest.fixture
def tenant(committed: None) -> Tenant:
    return make_tenant()


@pytest.fixture
def host(tenant: Tenant) -> Host:
    return make_host(tenant)


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """Everything that any logger says, as its handler would write it."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    for name in ("httpcore", "httpx", "asyncio", "django.db.backends"):
        logging.getLogger(name).setLevel(logging.INFO)
    yield stream
    root.removeHandler(handler)
    root.setLevel(before)


# --- the doors ---

Answers = list[str]


def api_of(tenant: Tenant) -> Client:
    return Client(headers=bearer(make_key(tenant, "ingest")))


def by_push(tenant: Tenant, host: Host, tmp_path: Path) -> Answers:
    return [_pushed(tenant, json.dumps(tainted_log()).encode(), "application/json")]


def by_ndjson(tenant: Tenant, host: Host, tmp_path: Path) -> Answers:
    return [_pushed(tenant, as_ndjson(tainted_log()), "application/x-ndjson")]


def by_cloudevents(tenant: Tenant, host: Host, tmp_path: Path) -> Answers:
    batch = [
        {"specversion": "1.0", "id": SECRETS[0], "source": SECRETS[1], "type": "openwop", "data": event}
        for event in tainted_log()
    ]
    return [_pushed(tenant, json.dumps(batch).encode(), "application/cloudevents-batch+json")]


def by_bundle(tenant: Tenant, host: Host, tmp_path: Path) -> Answers:
    return [_pushed(tenant, json.dumps(tainted_bundle()).encode(), "application/json", to="bundle")]


def _pushed(tenant: Tenant, body: bytes, content_type: str, *, to: str = "events") -> str:
    answer = api_of(tenant).post(f"/v1/hosts/alpha/{to}", body, content_type=content_type)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()


def by_upload(tenant: Tenant, host: Host, tmp_path: Path) -> Answers:
    reviewer = Client()
    reviewer.force_login(make_member(tenant, "rita", Role.REVIEWER))
    body = json.dumps(tainted_bundle()).encode()
    address = "/t/acme/upload?host=alpha&name=bundle.json"
    return [reviewer.post(address, body, content_type="application/octet-stream").content.decode()]


def by_command(tenant: Tenant, host: Host, tmp_path: Path) -> Answers:
    file = tmp_path / "events.ndjson"
    file.write_bytes(as_ndjson(tainted_log()))
    out = io.StringIO()
    call_command("ingest", str(file), tenant="acme", host="alpha", stdout=out, stderr=out)
    return [out.getvalue()]


def by_webhook(tenant: Tenant, host: Host, tmp_path: Path) -> Answers:
    hook = open_subscription(ref(host), dialect="openwop-1", secret=SECRET)
    answers = []
    for event in tainted_log():
        body = json.dumps({"runId": RUN, "workspaceId": SECRETS[0], "event": event}).encode()
        answer = Client().generic("POST", f"/hooks/{hook.pk}", body, headers=first_major(body))
        assert answer.status_code == 200, answer.content
        answers.append(answer.content.decode())
    return answers


def by_following(tenant: Tenant, host: Host, tmp_path: Path) -> Answers:
    asyncio.run(_followed_to_the_end(tenant, host))
    return []


class _Tainted(MisbehavingHost):
    def snapshot(self) -> dict[str, Any]:
        return tainted_snapshot()

    async def handle(self, asked: Asked, reply: Reply) -> None:
        if asked.path.startswith("/memory"):
            told = tainted_memory()
            one = {"memoryRef": "notes", "entry": told["entries"][0]}
            await reply.answer(200, told if asked.path == "/memory" else one)
        elif asked.path == "/.well-known/openwop":
            facets = {"text": SECRETS[1], "apiKey": CORE, "tokenUrl": SECRETS[-1]}
            await reply.answer(
                200, {"protocolVersion": "1.0", "implementation": {"name": SECRETS[0]}, "memory": facets}
            )
        elif asked.path == "/v1/runs" and not self.asked:
            self.asked.append(asked)
            await reply.answer(503, {"error": SECRETS[0], "message": f"no {SECRETS[2]}"}, {"Retry-After": "0"})
        else:
            await super().handle(asked, reply)


async def _followed_to_the_end(tenant: Tenant, host: Host) -> None:
    with _thread() as elsewhere:
        async with _Tainted(tainted_log()).serving() as origin:
            await elsewhere(_make_reachable, tenant, host, origin)
            store = DatabaseFollowStore(only=ref(host))
            settings = replace(configured(), clock=FastClock(40))
            async with _running(lambda stop: follow_forever(store, stop=stop, settings=settings)):
                await _until(elsewhere, _is_followed, tenant)
            store.close()
            await elsewhere(partial(read_all, tenant, now=LATER))
            pace = reader.ReadPace(per_second=500, idle=0.02, read_hosts=0.05, list_from=1)
            async with _running(lambda stop: reader.read_memory_forever(stop, settings=reader.Settings(pace=pace))):
                await _until(elsewhere, _is_seen, tenant)


Elsewhere = Callable[..., Awaitable[Any]]


@contextmanager
def _thread() -> Iterator[Elsewhere]:
    """Does work beside the event loop, and gives its connection back in the end."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda work, *told: asyncio.get_running_loop().run_in_executor(pool, work, *told)
        pool.submit(connections.close_all).result()


def _is_followed(tenant: Tenant) -> bool:
    with tenant_scope(tenant.pk):
        return Follow.objects.filter(tenant_id=tenant.pk, finished_at__isnull=False).exists()


def _is_seen(tenant: Tenant) -> bool:
    with tenant_scope(tenant.pk):
        return Observation.objects.filter(tenant_id=tenant.pk, outcome="content").exists()


def _make_reachable(tenant: Tenant, host: Host, origin: str) -> None:
    with tenant_scope(tenant.pk):
        Host.objects.filter(pk=host.pk).update(origin=origin)
    set_memory_route(ref(host), write_route("/memory", "/memory/{memoryId}", major=1, ref="notes"))


@asynccontextmanager
async def _running(work: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(work(stop))
    try:
        yield
    finally:
        stop.set()
        await task


async def _until(elsewhere: Elsewhere, holds: Callable[[Tenant], bool], tenant: Tenant) -> None:
    async with asyncio.timeout(60):
        while not await elsewhere(holds, tenant):
            await asyncio.sleep(0.1)


def by_memory_push(tenant: Tenant, host: Host, tmp_path: Path) -> Answers:
    take(host, [make_event(0, "memory.written", payload={"memoryRef": "notes", "memoryId": "m-1"})])
    read_all(tenant, now=LATER)
    body = json.dumps(tainted_memory()).encode()
    answer = api_of(tenant).put("/v1/hosts/alpha/memory", body, content_type="application/json")
    assert (answer.status_code, answer.json()["accepted"], answer.json()["refusedTotal"]) == (200, 2, 1)
    refused = api_of(tenant).put(
        "/v1/hosts/alpha/memory",
        json.dumps(tainted_memory() | {"memoryRef": SECRETS[2]}),
        content_type="application/json",
    )
    assert refused.status_code == 422
    return [answer.content.decode(), refused.content.decode()]


DOORS = (
    *(by_push, by_ndjson, by_cloudevents, by_bundle, by_upload),
    *(by_command, by_webhook, by_following, by_memory_push),
)


# --- what is shown ---

LINK = re.compile(r"""(?:href|hx-get|data-[a-z-]+)="(/t/acme/[^"]*)""")
MANY_PAGES = 150
FEW_PAGES = 40


def every_page(tenant: Tenant, *, most: int) -> Iterator[tuple[str, str]]:
    """The pages that show most, then those that links lead to from them, up to ``most``."""
    admin = Client()
    admin.force_login(make_member(tenant, "ada", Role.ADMIN))
    waiting = ["/t/acme/", f"/t/acme/runs/alpha/{RUN}", "/t/acme/ledger/alpha/notes/m-1", "/t/acme/incidents"]
    waiting += [f"/t/acme/runs/alpha/{RUN}/export?format={one.format}" for one in exports()]
    waiting += [f"/t/acme/runs/alpha/{RUN}/events/{sequence}.json" for sequence in range(0, 46, 3)]
    waiting += [f"/t/acme/runs/alpha/{RUN}?seq={sequence}" for sequence in range(0, 46, 3)]
    seen: set[str] = set()
    while waiting and len(seen) < most:
        address = waiting.pop(0)
        if address in seen:
            continue
        seen.add(address)
        answer = admin.get(address)
        text = text_of(answer)
        yield address, text
        if answer.headers.get("Content-Type", "").startswith("text/html"):
            waiting += [html.unescape(link).partition("#")[0] for link in LINK.findall(text)]


def every_answer(tenant: Tenant) -> Iterator[tuple[str, str]]:
    """Each GET address of the REST API that takes no more than the run's, the host's or the entry's names."""
    client = Client(headers=bearer(make_key(tenant, "read", "review", "admin")))
    names = {"host": "alpha", "run": RUN, "memory_ref": "notes", "memory_id": "m-1"}
    for path, methods in client.get("/v1/openapi.json").json()["paths"].items():
        wanted = set(re.findall(r"{(\w+)}", path))
        if "get" in methods and wanted <= names.keys():
            address = re.sub(r"{(\w+)}", lambda found: project(names[found[1]]), path)
            yield address, text_of(client.get(address))
            yield address, text_of(client.get(address, {"memoryRef": "notes", "limit": "100"}))


def text_of(answer: HttpResponseBase) -> str:
    assert answer.status_code < 500, answer
    parts = answer.streaming_content if answer.streaming else [answer.content]  # type: ignore[attr-defined]
    return b"".join(parts).decode("utf-8", "replace")


@pytest.mark.parametrize("by", DOORS)
def test_content_secrets_and_tokens_in_any_field_are_found_nowhere(
    tenant: Tenant,
    host: Host,
    by: Callable[[Tenant, Host, Path], Answers],
    tmp_path: Path,
    logged: io.StringIO,
    settings: LazySettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.ALLOW_PRIVATE_HOSTS = True
    monkeypatch.setattr(hooks, "clock", lambda: NOW)
    answers = by(tenant, host, tmp_path)
    watch_on(tenant.pk, now=LATER)
    read_all(tenant, now=LATER)

    rows = list(everything_stored(tenant))
    assert {"runs_event", "runs_run", "ledger_memoryentry"} <= {table for table, _ in rows}, "the look sees the rows"
    assert sum("quarantined" in row for _, row in rows) > 1
    assert [(table, shows(row)) for table, row in rows if shows(row)] == []
    assert [shows(answer) for answer in answers if shows(answer)] == []
    most = MANY_PAGES if by in (by_bundle, by_following) else FEW_PAGES
    pages = [*every_page(tenant, most=most), *every_answer(tenant)]
    assert len(pages) > 30
    assert [(address, shows(text)) for address, text in pages if shows(text)] == []
    assert shows(logged.getvalue()) == ""
    if by is not by_memory_push:
        with tenant_scope(tenant.pk):
            kinds = set(Incident.objects.filter(tenant_id=tenant.pk).values_list("kind", flat=True))
            told = Run.objects.get(tenant_id=tenant.pk, run_id=RUN)
        assert {"credential_leak", "content_leak"} <= kinds
        assert told.event_count == len(tainted_log()), "no event is dropped for what it carries"


def test_the_looks_find_what_is_there(tenant: Tenant, host: Host, logged: io.StringIO) -> None:
    take(
        host,
        [
            make_event(0, payload={"fine": CORE}),
            make_event(1, "memory.written", payload={"memoryRef": "notes", "memoryId": "m-1"}),
        ],
    )
    read_all(tenant, now=LATER)
    logging.getLogger("anything").info("%s", CORE)
    assert {table for table, row in everything_stored(tenant) if shows(row)} == {"runs_event"}
    assert any(shows(text) for _, text in every_page(tenant, most=FEW_PAGES))
    assert any(shows(text) for _, text in every_answer(tenant))
    assert shows(logged.getvalue())


def test_an_event_of_a_run_that_is_a_secret_is_refused_and_not_repeated(tenant: Tenant, host: Host) -> None:
    answer = api_of(tenant).post(
        "/v1/hosts/alpha/events", json.dumps([make_event(0, run=SECRETS[2])]), content_type="application/json"
    )
    assert (answer.status_code, shows(answer.content.decode())) == (422, "")
    assert [table for table, row in everything_stored(tenant) if shows(row)] == []
