"""The MCP server: a catalogue of tools for each credential, and calls of them.

What a tool refuses is an answer that says so (``isError``), with the REST API's error in it; only what is no call of a
tool at all is a protocol error. Every answer is one JSON object below the size cap, as structured content and as text.
"""

from __future__ import annotations

import logging
from typing import Any

import mcp_types as types
import msgspec
from django.db import DatabaseError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from ledger.domain.answers import capped
from ledger.mcp_tools import TOOLS, Tool
from openwop_ui import VERSION
from openwop_ui.mcp.threads import Threads
from openwop_ui.rest import ApiError, dumps
from openwop_ui.tenancy.keys import Caller

CALLER, THREADS = "openwop.caller", "openwop.threads"
"""Where the door leaves the caller in the request's ASGI scope, and the threads that tools run in."""

MAX_ANSWER_BYTES = 60_000
"""Agents' runtimes cut longer results, and a cut JSON text is none."""

INSTRUCTIONS = """
Memories of AI agents with where they came from. Search with `search_memories`, then ask `get_memories` with
`include: ["provenance"]` why one is believed: its run, its events, the decisions about it. Keep what should last with
`remember`. Nothing here is inferred: what was not recorded is null.
""".strip()

logger = logging.getLogger(__name__)

Context = ServerRequestContext[dict[str, Any], Any]


def build_server() -> Server[dict[str, Any]]:
    return Server(
        "openwop-ui",
        version=VERSION,
        title="OpenWOP UI",
        instructions=INSTRUCTIONS,
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
    )


async def _list_tools(context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    caller = _caller(context)
    tools = [_described(tool) for tool in TOOLS if caller.may(tool.scope)]
    # What one key may call is nothing that a cache may show to another.
    return types.ListToolsResult(tools=tools, ttl_ms=0, cache_scope="private")


def _described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(
            read_only_hint=not tool.writes, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
    )


async def _call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
    caller = _caller(context)
    tool = next((tool for tool in TOOLS if tool.name == params.name and caller.may(tool.scope)), None)
    if tool is None:
        # One that the key may not call answers like one that does not exist.
        raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name!r} for this key.")
    try:
        arguments = msgspec.convert(params.arguments or {}, tool.arguments)
        said = await _threads(context).run(tool.call, caller, arguments)
    except msgspec.ValidationError as problem:
        return answered(_error("validation_error", str(problem)), is_error=True)
    except ApiError as problem:
        return answered(_error(problem.code, problem.message, problem.details), is_error=True)
    except DatabaseError:
        logger.exception("The tool %s failed", tool.name)
        return answered(_error("unavailable", "The database could not answer. Try again."), is_error=True)
    return answered(said)


def _caller(context: Context) -> Caller:
    assert context.request is not None  # over HTTP there is one
    caller: Caller = context.request.scope[CALLER]
    return caller


def _threads(context: Context) -> Threads:
    assert context.request is not None
    threads: Threads = context.request.scope[THREADS]
    return threads


def _error(code: str, message: str, details: Any = None) -> dict[str, Any]:
    return {"error": code, "message": message, **({"details": details} if details else {})}


def answered(said: dict[str, Any], *, is_error: bool = False) -> types.CallToolResult:
    whole: dict[str, Any] = msgspec.json.decode(dumps({**said, "truncated": bool(said.get("truncated"))}))
    cut = capped(whole, MAX_ANSWER_BYTES)
    text = dumps(cut).decode("utf-8", "surrogatepass").encode("utf-8", "backslashreplace").decode()
    return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=cut, is_error=is_error)
