"""What an agent asked a memory tool to do, and what the tool answered, read from `agent.toolCalled` and
`agent.toolReturned`.

An answer is read for what it proves and no further: an error, in whatever dress, is not success; what cannot be parsed
or was cut off proves nothing; and an address counts only where it is told.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from ledger.domain.canonical import NotCanonical, payload_hash, require_canonical
from ledger.domain.scopes import TYPE, Scope, ScopeError, is_empty, read_scope, without_empty
from runs.domain.withheld import is_withheld

VERSION = "tool-calls-1"


@dataclass(frozen=True, slots=True)
class MemoryTools:
    """The names under which an agent knows its memory tools. A name counts with or without the name of the server that
    offers it (`memory.remember`, `mcp__memory__remember`, `acme:remember`)."""

    writes: frozenset[str] = frozenset(("remember",))
    reads: frozenset[str] = frozenset(("recall", "list_memories"))

    def is_write(self, name: Any) -> bool:
        return isinstance(name, str) and (name in self.writes or _bare(name) in self.writes) and not self.is_read(name)

    def is_read(self, name: Any) -> bool:
        return isinstance(name, str) and (name in self.reads or _bare(name) in self.reads)


_SERVER = re.compile(r".*(?:[.:/]|__)", re.DOTALL)


def _bare(name: str) -> str:
    return _SERVER.sub("", name)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a memory is kept, after normalisation. None is what was not told."""

    key: str | None
    scope_type: str | None
    identity: str


class Mismatch(StrEnum):
    """How a returned address differs from the one that was asked for."""

    KEY = "wrong_key"
    SCOPE = "wrong_scope"
    IDENTITY = "wrong_identity"


def mismatches(asked: Address, returned: Address) -> tuple[Mismatch, ...]:
    pairs = (
        (Mismatch.KEY, asked.key, returned.key),
        (Mismatch.SCOPE, asked.scope_type, returned.scope_type),
        (Mismatch.IDENTITY, asked.identity, returned.identity),
    )
    return tuple(mismatch for mismatch, wanted, told in pairs if wanted != told)


@dataclass(frozen=True, slots=True)
class Call:
    """`address` is None when the arguments were not told, or tell one thing in two ways. Calls with one `digest` ask
    for one effect; None when nothing can be said about that. `is_seen` is False when only the return is in the log."""

    tool: str
    call_id: str | None
    address: Address | None = None
    digest: str | None = None
    is_seen: bool = True


def read_call(payload: Mapping[str, Any], *, run: str) -> Call:
    tool = payload.get("toolName")
    name = tool if isinstance(tool, str) else ""
    arguments = _arguments(payload)
    return Call(
        tool=name,
        call_id=text_of(payload.get("callId")),
        address=None if arguments is None else read_address(arguments),
        digest=_digest(run, name, arguments, payload.get("argsHash")),
    )


_ARGUMENTS = ("inputs", "arguments", "args", "input")
_BESIDE = ("agent_identity", "agentIdentity", "agent_id", "agentId", "scope_type", "scopeType")


def _arguments(payload: Mapping[str, Any]) -> dict[str, Any] | None:
    raw = next((payload[name] for name in _ARGUMENTS if payload.get(name) is not None), None)
    if is_withheld(raw):
        return None
    parsed = parse_json(raw) if isinstance(raw, str) else raw
    return dict(parsed) if isinstance(parsed, Mapping) else None


def read_address(raw: Mapping[str, Any]) -> Address | None:
    """None when the scope cannot be read, such as when one member of it is told in two ways."""
    scope = _scope(raw)
    return None if scope is None else Address(_key(raw.get("key")), scope.type, scope.identity)


def _scope(raw: Mapping[str, Any]) -> Scope | None:
    """The scope, with what is told of it beside it."""
    told = raw.get("scope")
    inner = {TYPE: told} if isinstance(told, str) else told or {}
    if not isinstance(inner, Mapping):
        return None
    outer = {name: raw[name] for name in _BESIDE if not is_empty(raw.get(name))}
    if any(not is_empty(inner.get(name)) and inner[name] != member for name, member in outer.items()):
        return None
    members = {**inner, **outer}
    is_short = len(members) <= 8 and all(isinstance(text, str) and len(text) <= 64 for text in members.values())
    return _short_scope(tuple(members.items())) if is_short else _read_scope(members)


@lru_cache(4096)
def _short_scope(members: tuple[tuple[str, str], ...]) -> Scope | None:
    """The calls of a run have a few scopes between them."""
    return _read_scope(dict(members))


def _read_scope(members: Mapping[str, Any]) -> Scope | None:
    try:
        return read_scope(members)
    except ScopeError:
        return None


def _key(raw: Any) -> str | None:
    key = unicodedata.normalize("NFC", raw).strip() if isinstance(raw, str) else ""
    return key or None


def _digest(run: str, tool: str, arguments: Mapping[str, Any] | None, args_hash: Any) -> str | None:
    """Over the run, the tool and the arguments after normalisation; over the host's own hash when it tells no more."""
    try:
        told = text_of(args_hash) if arguments is None else _asked(arguments)
        return None if told is None else payload_hash([run, tool, told])
    except NotCanonical:
        return None


def _asked(arguments: Mapping[str, Any]) -> Any:
    require_canonical(arguments)
    scope = _scope(arguments)
    rest = {name: value for name, value in arguments.items() if name not in ("scope", *_BESIDE)}
    return None if scope is None else [without_empty(rest), scope.members]


class Said(StrEnum):
    """What an answer comes down to."""

    ADDRESS = "address"
    NEEDS_DECISION = "needs_decision"
    ERROR = "error"
    FORBIDDEN = "forbidden"
    RATE_LIMITED = "rate_limited"
    TRANSPORT_FAILURE = "transport_failure"
    UNPARSEABLE = "unparseable"
    TRUNCATED = "truncated"
    WITHHELD = "withheld"
    NO_ADDRESS = "no_address"


@dataclass(frozen=True, slots=True)
class Answer:
    said: Said
    address: Address | None = None
    memory_ref: str | None = None
    memory_id: str | None = None


_STATUSES = {"forbidden": Said.FORBIDDEN, "rate_limited": Said.RATE_LIMITED, "rate-limited": Said.RATE_LIMITED}
_OUTCOMES = ("outcome", "result", "output", "outputs")


def read_answer(payload: Mapping[str, Any]) -> Answer:
    status = payload.get("status")
    if isinstance(status, str) and status in _STATUSES:
        return Answer(_STATUSES[status])
    if not is_empty(payload.get("error")):
        return Answer(Said.WITHHELD if is_withheld(payload["error"]) else _error(payload["error"]))
    outcome = next((payload[name] for name in _OUTCOMES if payload.get(name) is not None), None)
    is_cut = payload.get("truncated") is True
    answer = Answer(Said.WITHHELD) if is_withheld(outcome) else _read_outcome(outcome, is_cut=is_cut)
    is_error = status == "error" and answer.said is not Said.TRANSPORT_FAILURE
    return Answer(Said.ERROR) if is_error else answer


def _read_outcome(outcome: Any, *, is_cut: bool) -> Answer:
    result = _unwrapped(outcome)
    if isinstance(result, Said):
        return Answer(Said.TRUNCATED if is_cut and result is Said.UNPARSEABLE else result)
    entry = _entry(result)
    address = None if entry is None else read_address(entry)
    return Answer(
        _said(result, address, is_cut),
        address,
        _told(result, entry, ("memoryRef", "memory_ref")),
        _told(result, entry, ("memoryId", "memory_id", "id")),
    )


def _said(result: Mapping[str, Any], address: Address | None, is_cut: bool) -> Said:
    if not is_empty(result.get("error")):
        return _error(result["error"])
    if result.get("ok") is False or result.get("success") is False:
        return Said.ERROR
    if result.get("needsDecision") is True or result.get("needs_decision") is True:
        return Said.NEEDS_DECISION
    if is_cut or result.get("truncated") is True:
        return Said.TRUNCATED
    return Said.NO_ADDRESS if address is None or address.key is None else Said.ADDRESS


def _unwrapped(outcome: Any) -> Mapping[str, Any] | Said:
    """The object that the tool answered with, out of its JSON text and the envelopes of JSON-RPC and MCP."""
    if is_empty(outcome):
        return Said.NO_ADDRESS
    result = parse_json(outcome) if isinstance(outcome, str) else outcome
    for _ in range(4):
        if not isinstance(result, Mapping):
            return Said.UNPARSEABLE
        if result.get("isError") is True:
            return Said.ERROR
        if "jsonrpc" in result and is_empty(result.get("error")):
            result = result.get("result")
        elif isinstance(result.get("structuredContent"), Mapping):
            result = result["structuredContent"]
        elif isinstance(result.get("content"), list):
            result = _content(result["content"])
        else:
            return result
    return Said.UNPARSEABLE


def _content(parts: list[Any]) -> Any:
    """The JSON of an MCP result, which has it in its only text."""
    texts = [part.get("text") for part in parts if isinstance(part, Mapping) and part.get("type") == "text"]
    return parse_json(texts[0]) if len(texts) == 1 and isinstance(texts[0], str) else None


_HOLDERS = ("entry", "memory", "address", "stored")


def _entry(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    held = (result.get(name) for name in _HOLDERS)
    return next((entry for entry in held if isinstance(entry, Mapping)), result if "key" in result else None)


def _told(result: Mapping[str, Any], entry: Mapping[str, Any] | None, names: tuple[str, ...]) -> str | None:
    places = (result, entry or {})
    return next((found for place in places for name in names if (found := text_of(place.get(name)))), None)


_TRANSPORT = frozenset(
    (
        *("timeout", "timed_out", "request_timeout", "etimedout", "econnreset", "econnrefused", "econnaborted"),
        *("enotfound", "epipe", "network", "network_error", "transport", "transport_error", "connection_error"),
        *("connection_closed", "connection_reset", "service_unavailable", "bad_gateway", "gateway_timeout"),
        # JSON-RPC as MCP clients use it: connection closed, request timed out; and the gateway's HTTP statuses.
        *("-32000", "-32001", "502", "503", "504"),
    )
)


def _error(error: Any) -> Said:
    """Whether the tool said no, or nobody knows what it said because the connection failed."""
    told = [error.get(name) for name in ("code", "type", "kind", "name")] if isinstance(error, Mapping) else [error]
    codes = {str(code).strip().lower().replace("-", "_") if isinstance(code, str) else str(code) for code in told}
    return Said.ERROR if codes.isdisjoint(_TRANSPORT) else Said.TRANSPORT_FAILURE


def parse_json(text: str) -> Any:
    """None for what is no JSON. A name that comes twice says two things, and so nothing (RFC 8259 section 4)."""
    try:
        return json.loads(text, object_pairs_hook=_members, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError
    return members


def _refuse(literal: str) -> Any:
    raise ValueError


def text_of(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
