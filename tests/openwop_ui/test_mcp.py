"""The Model Context Protocol over HTTP, asked by a real client of the official SDK."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import uvicorn
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pytest_django import DjangoDbBlocker

from ledger.domain.attempts import LogEvent
from ledger.domain.receipts import State, classify
from openwop_ui import asgi
from openwop_ui.mcp.server import MAX_ANSWER_BYTES
from openwop_ui.tenancy.keys import create_api_key
from openwop_ui.tenancy.models import Tenant
from tests.committed import committed_rows
from tests.factories import make_key, make_tenant
from tests.ledger.claims import body, make_writer, plan, say, shown

pytestmark = pytest.mark.database
MODES = ("auto", "legacy")
"""The protocol as it is now, and as clients spoke it before."""


@pytest.fixture
def tenant(own_database: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Tenant]:
    with committed_rows(django_db_blocker):
        tenant = make_tenant()
        make_writer(tenant, "billing", 80)
        make_writer(tenant, "crm", 80)
        yield tenant


@pytest.fixture
def server(tenant: Tenant) -> Iterator[str]:
    config = uvicorn.Config(asgi.application, port=0, lifespan="on", log_config=None, ws="websockets-sansio")
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    server.should_exit = True
    thread.join(timeout=20)
    listener.close()


@asynccontextmanager
async def connected(server: str, key: str, mode: str = "auto") -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=20) as http,
        Client(streamable_http_client(server, http_client=http), mode=mode) as client,
    ):
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> tuple[bool, dict[str, Any]]:
    """(whether it is an error, what it says): as structured content and as text, which have to be the same."""
    result = await client.call_tool(tool, arguments)
    (text,) = result.content
    said = json.loads(text.text)  # type: ignore[union-attr]
    assert said == result.structured_content
    return bool(result.is_error), said


def calls(
    server: str, key: str, *asked: tuple[str, dict[str, Any]], mode: str = "auto"
) -> list[tuple[bool, dict[str, Any]]]:
    """What one client gets for its calls, one after the other. Raises MCPError where one is no call of a tool."""

    async def talk() -> list[tuple[bool, dict[str, Any]]] | MCPError:
        async with connected(server, key, mode) as client:
            try:
                return [await call(client, tool, **arguments) for tool, arguments in asked]
            except MCPError as refused:
                return refused  # raised here, it would come out in a group

    told = asyncio.run(talk())
    if isinstance(told, MCPError):
        raise told
    return told


def catalogue(server: str, key: str) -> list[Any]:
    async def talk() -> list[Any]:
        async with connected(server, key) as client:
            return list((await client.list_tools()).tools)

    return asyncio.run(talk())


def writing_key(tenant: Tenant, writer: str = "billing") -> str:
    return create_api_key(tenant_id=tenant.pk, name="an agent", scopes=["read", "write"], writer=writer)[1]


@pytest.mark.parametrize("mode", MODES)
def test_a_new_user_asks_for_a_memory_with_its_provenance(server: str, tenant: Tenant, mode: str) -> None:
    say(tenant, body("e1", service="billing", claims=[plan("Starter")]))
    say(tenant, body("e2", service="billing", hour=1, claims=[plan("Growth")]))
    key = make_key(tenant, "read")

    ((_, found),) = calls(server, key, ("search_memories", {"external_user_id": "user-1"}), mode=mode)
    (memory,) = found["memories"]
    asked = {"ids": [memory["id"], "nonsense"], "include": ["provenance"]}
    ((is_error, said),) = calls(server, key, ("get_memories", asked), mode=mode)

    assert (is_error, said["notFound"], said["truncated"]) == (False, ["nonsense"], False)
    (told,) = said["found"]
    assert (told["value"], told["provenance"]["service"], told["provenance"]["event_id"]) == ("Growth", "billing", "e2")
    (predecessor,) = told["chain"]["lineage"]["items"]
    (edge,) = told["chain"]["lineage"]["edges"]["items"]
    assert edge["from"]["id"] == predecessor["id"] and edge["relation"] == "revise"
    assert told["chain"]["run"] is None


def test_the_catalogue_is_the_credentials_own(server: str, tenant: Tenant) -> None:
    reader, writer = make_key(tenant, "read"), writing_key(tenant)

    reading, writing = catalogue(server, reader), catalogue(server, writer)

    assert [tool.name for tool in reading] == ["search_memories", "get_memories", "list_conflicts"]
    assert [tool.name for tool in writing] == [*(tool.name for tool in reading), "remember"]
    assert all(tool.description and tool.output_schema for tool in writing)
    assert catalogue(server, make_key(tenant, "ingest")) == []
    with pytest.raises(MCPError, match="no tool 'remember'"):
        calls(server, reader, ("remember", {"external_user_id": "u", "content": "x"}))
    with pytest.raises(MCPError, match="no tool 'delete_everything'"):
        calls(server, writer, ("delete_everything", {}))


def test_what_one_tenant_remembers_no_other_finds(server: str, tenant: Tenant) -> None:
    say(tenant, body("e1", claims=[plan("Growth")]))
    theirs = make_key(make_tenant("other"), "read")

    ((_, found),) = calls(server, make_key(tenant, "read"), ("search_memories", {}))
    (memory,) = found["memories"]
    (_, seen), (_, searched), (_, disputed) = calls(
        server,
        theirs,
        ("get_memories", {"ids": [memory["id"]], "include": ["provenance"]}),
        ("search_memories", {"external_user_id": "user-1"}),
        ("list_conflicts", {}),
    )

    assert (seen["found"], seen["notFound"]) == ([], [memory["id"]])
    assert (searched["memories"], disputed["items"]) == ([], [])


def test_remembering_is_once_however_often_it_is_sent(server: str, tenant: Tenant) -> None:
    explicit = {"external_user_id": "user-1", "key": "plan", "value": "Growth"}

    first, again, spoken, nothing = calls(
        server,
        writing_key(tenant),
        ("remember", explicit),
        ("remember", explicit),
        ("remember", {"external_user_id": "user-1", "content": "My name is Ada Byron."}),
        ("remember", {"external_user_id": "user-1", "content": "Hello!"}),
    )

    assert first == again and first[0] is False
    assert [memory["value"] for memory in first[1]["memories"]] == ["Growth"]
    assert [memory["key"] for memory in spoken[1]["memories"]] == ["name"]
    assert (nothing[1]["memories"], nothing[1]["nothing_to_extract"]) == ([], True)
    assert shown(tenant) == [("user-1", "Ada Byron"), ("user-1", "Growth")]


def test_a_contradiction_is_stored_and_says_that_a_person_decides(server: str, tenant: Tenant) -> None:
    say(tenant, body("e1", service="crm", claims=[plan("Starter")]))

    (_, said), (_, listed) = calls(
        server,
        writing_key(tenant),
        ("remember", {"external_user_id": "user-1", "key": "subscription_plan", "value": "Growth"}),
        ("list_conflicts", {"external_user_id": "user-1"}),
    )

    assert said["needsDecision"] is True
    assert [one["id"] for one in listed["items"]] == said["conflicts"]


def test_the_answer_of_remember_makes_a_receipt(server: str, tenant: Tenant) -> None:
    """Its address is the one that was asked for, so that a run's receipt says confirmed, and no more than that."""
    asked = {"external_user_id": "user-1", "key": "plan", "value": "Growth", "scope": {"type": "user"}}
    (_, made), (_, refused) = calls(
        server, writing_key(tenant), ("remember", asked), ("remember", {"external_user_id": "user-1"})
    )

    def receipt(outcome: Any) -> Any:
        call = {"toolName": "remember", "callId": "c1", "inputs": asked}
        back = {"toolName": "remember", "callId": "c1", "outcome": outcome}
        events = [LogEvent(0, "agent.toolCalled", call), LogEvent(1, "agent.toolReturned", back)]
        return classify(events, run="run-1").receipts[0].state

    assert receipt(made) is State.CONFIRMED
    assert receipt(refused) is State.UNKNOWN or receipt(refused) is State.REFUSED


@pytest.mark.parametrize(
    ("tool", "arguments", "part"),
    [
        ("get_memories", {"ids": []}, "ids"),
        ("get_memories", {"ids": ["x"] * 6, "include": ["provenance"]}, "more than 5"),
        ("get_memories", {"ids": ["x"], "everything": True}, "everything"),
        ("get_memories", {}, "ids"),
        ("search_memories", {"as_of": "2026-03-01T12:00:00"}, "as_of"),
        ("search_memories", {"cursor": "nonsense"}, "cursor"),
        ("search_memories", {"limit": 0}, "limit"),
        ("list_conflicts", {"state": "closed"}, "state"),
        ("remember", {"external_user_id": "u"}, "content"),
        ("remember", {"external_user_id": "", "content": "x"}, "external_user_id"),
    ],
)
def test_bad_arguments_are_told_by_name(
    server: str, tenant: Tenant, tool: str, arguments: dict[str, Any], part: str
) -> None:
    ((is_error, said),) = calls(server, writing_key(tenant), (tool, arguments))

    assert (is_error, said["error"]) == (True, "validation_error")
    assert part in said["message"]


def test_a_key_that_speaks_for_no_writer_cannot_remember(server: str, tenant: Tenant) -> None:
    asked = {"external_user_id": "user-1", "content": "My name is Ada."}
    ((is_error, said),) = calls(server, make_key(tenant, "read", "write"), ("remember", asked))

    assert (is_error, said["error"]) == (True, "PROV_404")


def test_an_answer_that_is_too_large_stays_whole_json(server: str, tenant: Tenant) -> None:
    say(tenant, *(body(f"e{n}", subject=f"user-{n}", claims=[plan("x" * 3_000)]) for n in range(40)))

    ((is_error, said),) = calls(server, make_key(tenant, "read"), ("search_memories", {"limit": 40}))

    assert (is_error, said["truncated"]) == (False, True)
    assert 0 < len(said["memories"]) < 40
    assert len(json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()) <= MAX_ANSWER_BYTES


@pytest.mark.parametrize(
    ("method", "headers", "content", "status"),
    [
        ("POST", {}, b"{}", 401),
        ("POST", {"Authorization": "Bearer nonsense"}, b"{}", 401),
        ("POST", {"Authorization": "Basic eDp5"}, b"{}", 401),
        ("GET", {"Authorization": "Bearer KEY"}, b"", 405),
        ("DELETE", {"Authorization": "Bearer KEY"}, b"", 405),
        ("POST", {"Authorization": "Bearer KEY"}, b"not json", 400),
        ("POST", {"Authorization": "Bearer KEY"}, b'{"jsonrpc": "2.0", "id": 1, "method": "tools/none"}', 400),
    ],
)
def test_protocol_errors(
    server: str, tenant: Tenant, method: str, headers: dict[str, str], content: bytes, status: int
) -> None:
    key = make_key(tenant, "read")
    sent = {name: value.replace("KEY", key) for name, value in headers.items()}
    sent |= {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
    }
    answer = httpx2.request(method, server, headers=sent, content=content)

    assert answer.status_code == status
    if status == 401:
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert answer.headers["Content-Type"].startswith("application/json")
