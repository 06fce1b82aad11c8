"""What agents may ask for over MCP. Each tool is a door: it maps its arguments to the same reads and writes as REST."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

import msgspec
from django.utils import timezone

from openwop_ui.rest import ApiError, Invalid
from openwop_ui.tenancy.keys import Caller
from openwop_ui.tenancy.models import Scope
from openwop_ui.tenancy.scope import tenant_scope

from .claims_api import add_submission, found_memories
from .conflict_items import conflict_item
from .domain.canonical import NotCanonical, canonical_bytes
from .domain.claims import MAX_SUBJECT_LENGTH
from .domain.scopes import ScopeError, read_scope
from .domain.sources import Provenance
from .memory_items import memory_item
from .queries.claims import ClaimFilter, memories_by_id
from .queries.conflicts import ConflictFilter, conflict_list
from .queries.paging import BrokenCursor
from .queries.sources import find_job
from .recall import MAX_PLAIN, MAX_TRACED, recall
from .request_bodies import moment_of

Subject = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_SUBJECT_LENGTH, description="Whom it is about")]
Words = Annotated[str, msgspec.Meta(max_length=1000)]
Moment = Annotated[str, msgspec.Meta(max_length=64, description="RFC 3339, with its zone")]


@dataclass(frozen=True)
class Tool:
    """``arguments`` is a struct that says what may be given; a call gets the caller and one of it."""

    name: str
    title: str
    description: str
    scope: Scope
    arguments: type[msgspec.Struct]
    output_schema: dict[str, Any]
    call: Callable[[Caller, Any], dict[str, Any]]
    writes: bool = False

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        (schema,), components = msgspec.json.schema_components([self.arguments], ref_template="#/$defs/{name}")
        name = schema["$ref"].rpartition("/")[2]
        return {**components.pop(name), **({"$defs": components} if components else {})}


def _answers(**members: Any) -> dict[str, Any]:
    """An answer's schema. What did not fit is left out, so nothing but ``truncated`` has to be there."""
    return {
        "type": "object",
        "properties": {**members, "truncated": {"type": "boolean", "description": "It was cut to the size cap"}},
        "required": ["truncated"],
    }


_ITEMS = {"type": "array", "items": {"type": "object"}}
_CURSOR = {"type": ["string", "null"], "description": "For the next page; null at the end"}


class GetMemories(msgspec.Struct, forbid_unknown_fields=True):
    ids: Annotated[
        list[Annotated[str, msgspec.Meta(max_length=64)]],
        msgspec.Meta(
            min_length=1,
            max_length=MAX_PLAIN,
            description=f"Ids of memories. At most {MAX_TRACED} where provenance is included",
        ),
    ]
    include: list[Literal["provenance"]] = []


def get_memories(caller: Caller, asked: GetMemories) -> dict[str, Any]:
    most = MAX_TRACED if asked.include else MAX_PLAIN
    if len(asked.ids) > most:
        raise Invalid("body", "ids", f"has {len(asked.ids)} ids, more than {most}")
    return recall(caller.tenant_id, asked.ids, provenance=bool(asked.include))


class SearchMemories(msgspec.Struct, forbid_unknown_fields=True):
    external_user_id: Subject | None = None
    query: Annotated[Words, msgspec.Meta(description="Part of a value, a wording or a key")] = ""
    category: Words = ""
    key: Words = ""
    include_superseded: Annotated[bool, msgspec.Meta(description="Also what no longer holds")] = False
    as_of: Annotated[Moment | None, msgspec.Meta(description="As far as was known then; needs external_user_id")] = None
    valid_at: Annotated[Moment | None, msgspec.Meta(description="What is true at that time")] = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20
    cursor: Annotated[str, msgspec.Meta(max_length=1000)] | None = None


def search_memories(caller: Caller, asked: SearchMemories) -> dict[str, Any]:
    wanted = ClaimFilter(
        subject=asked.external_user_id or "",
        query=asked.query,
        category=asked.category,
        key=asked.key,
        every=asked.include_superseded,
    )
    with tenant_scope(caller.tenant_id):
        try:
            found = found_memories(
                caller.tenant_id,
                wanted,
                valid_at=None if asked.valid_at is None else moment_of("body", "valid_at", asked.valid_at),
                as_of=None if asked.as_of is None else moment_of("body", "as_of", asked.as_of),
                cursor=asked.cursor,
                limit=asked.limit,
                place="body",
            )
        except BrokenCursor:
            raise Invalid("body", "cursor", "is not the nextCursor of a page") from None
    return {"memories": [memory_item(row) for row in found.rows], "nextCursor": found.older}


class ListConflicts(msgspec.Struct, forbid_unknown_fields=True):
    state: Literal["open", "decided", "suggested", "check_failed", "dissolved", "dismissed"] = "open"
    external_user_id: Subject | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20
    cursor: Annotated[str, msgspec.Meta(max_length=1000)] | None = None


def list_conflicts(caller: Caller, asked: ListConflicts) -> dict[str, Any]:
    wanted = ConflictFilter(state=asked.state, subject=asked.external_user_id or "")
    with tenant_scope(caller.tenant_id):
        try:
            found = conflict_list(caller.tenant_id, wanted, before=asked.cursor, limit=asked.limit)
        except BrokenCursor:
            raise Invalid("body", "cursor", "is not the nextCursor of a page") from None
    return {"items": [conflict_item(row) for row in found.rows], "nextCursor": found.older}


class Remember(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    external_user_id: Subject
    content: Annotated[Words, msgspec.Meta(description="What to remember, as a plain statement")] = ""
    key: Annotated[Words, msgspec.Meta(description="What it is about, e.g. subscription.plan; with `value`")] = ""
    value: Any = None
    category: Annotated[Words, msgspec.Meta(description="fact, preference, …; fact where it is left out")] = ""
    scope: dict[str, Any] | str | None = None
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    observed_at: Moment | None = None
    evidence: list[Any] = []
    event_id: Annotated[
        str, msgspec.Meta(max_length=256, description="Your own id of this; a repeat changes nothing")
    ] = ""


def remember(caller: Caller, asked: Remember) -> dict[str, Any]:
    """The one write path, signed by the writer that the key is bound to."""
    if caller.writer is None:
        raise ApiError(
            Provenance.UNKNOWN_WRITER.status,
            Provenance.UNKNOWN_WRITER.value,
            "This key speaks for no writer. An admin binds it to one: create_api_key --writer, or the admin site.",
        )
    if not asked.content and not asked.key:
        raise Invalid("body", "content", "is missing, and so are key and value")
    accepted = add_submission(caller, _submission(caller.writer, asked), timezone.now())
    with tenant_scope(caller.tenant_id):
        job = find_job(caller.tenant_id, accepted["job_id"])
        result = (job.result if job else None) or {}
        made = memories_by_id(caller.tenant_id, result.get("claims", ()))
    return {
        **accepted,
        "memory": _address(asked, next(iter(made), None)),
        "memories": [memory_item(row) for row in made.values()],
        "conflicts": list(result.get("conflicts", ())),
        "needsDecision": bool(result.get("conflicts")),
        "nothing_to_extract": bool(result.get("nothing_to_extract")),
    }


def _submission(writer: str, asked: Remember) -> dict[str, Any]:
    source: dict[str, Any] = {"service": writer, "event_id": asked.event_id or _own_id(asked)}
    if asked.observed_at is not None:
        source["observed_at"] = asked.observed_at
    if asked.scope is not None:
        source["scope"] = asked.scope
    if asked.evidence:
        source["evidence"] = asked.evidence
    body: dict[str, Any] = {"external_user_id": asked.external_user_id, "source": source}
    if not asked.key:
        return {**body, "messages": [{"role": "user", "content": asked.content}]}
    claim = {"category": asked.category, "content": asked.content, "confidence": asked.confidence}
    given = {name: value for name, value in claim.items() if value not in ("", None)}
    return {**body, "claims": [{"key": asked.key, "value": asked.value, **given}]}


def _own_id(asked: Remember) -> str:
    """The same memory sent twice, as a client does that got no answer, is one event."""
    try:
        said = canonical_bytes(msgspec.to_builtins(asked))
    except NotCanonical as problem:
        raise Invalid("body", "value", str(problem)) from None
    return f"mcp-{hashlib.sha256(said).hexdigest()[:32]}"


def _address(asked: Remember, id: Any) -> dict[str, Any]:
    """Where it is kept, as it was asked for: whoever checks the receipt compares the two."""
    try:
        scope = read_scope(asked.scope)
    except ScopeError as problem:
        raise Invalid("body", problem.field or "scope", str(problem)) from None
    return {"id": id, "key": asked.key or None, "scope": scope.members, "agent_identity": scope.identity}


TOOLS: tuple[Tool, ...] = (
    Tool(
        name="search_memories",
        title="Search memories",
        description=(
            "Find what is remembered, of one subject or of all. Use it first, when you do not have ids yet. By default"
            " only what holds now is found; each memory says who said it, when, and whether it is disputed."
        ),
        scope=Scope.READ,
        arguments=SearchMemories,
        output_schema=_answers(memories=_ITEMS, nextCursor=_CURSOR),
        call=search_memories,
    ),
    Tool(
        name="get_memories",
        title="Get memories by id",
        description=(
            'Get memories whose ids you have, of claims or of memory entries. Use `include: ["provenance"]` to answer'
            " why you suggested something: each memory then has its `chain` of predecessors, recorded events, conflicts"
            " and decisions, facts, and the run that created it, as ids and times. To go further back, ask for a"
            " predecessor's id. Unknown ids come back in `notFound`."
        ),
        scope=Scope.READ,
        arguments=GetMemories,
        output_schema=_answers(found=_ITEMS, notFound={"type": "array", "items": {"type": "string"}}),
        call=get_memories,
    ),
    Tool(
        name="list_conflicts",
        title="List conflicts",
        description=(
            "List claims that contradict each other. Use it before relying on a memory that is `disputed`, or to see"
            " what waits for a person. Deciding is left to people."
        ),
        scope=Scope.READ,
        arguments=ListConflicts,
        output_schema=_answers(items=_ITEMS, nextCursor=_CURSOR),
        call=list_conflicts,
    ),
    Tool(
        name="remember",
        title="Remember",
        description=(
            "Keep something about a subject for later: a plain statement in `content`, or a `key` with its `value`."
            " Use it for what should outlast this run. The same call again changes nothing. `needsDecision` says that"
            " it contradicts what another writer said and a person decides; then it is stored, and not yet active."
        ),
        scope=Scope.WRITE,
        arguments=Remember,
        output_schema=_answers(
            memory={"type": "object"},
            memories=_ITEMS,
            conflicts={"type": "array", "items": {"type": "string"}},
            needsDecision={"type": "boolean"},
            nothing_to_extract={"type": "boolean"},
            status={"type": "string"},
            job_id={"type": "string"},
            source_event_id={"type": "string"},
        ),
        call=remember,
        writes=True,
    ),
)
