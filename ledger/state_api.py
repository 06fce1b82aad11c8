"""A run's state at any of its events, over REST."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from django.http import HttpResponse
from ninja import Query, Router

from openwop_ui.rest import LARGEST_PAGE, ApiRequest, Invalid, NotFound, requires
from openwop_ui.tenancy.models import Scope
from openwop_ui.tenancy.scope import tenant_scope
from runs import converters as _converters  # noqa: F401 - registers <projected:…>
from runs import queries as runs
from runs.domain.normalise import MAX_ID_LENGTH, MAX_SEQUENCE
from runs.domain.state import Channel, State, Value
from runs.domain.state_changes import StateChange, compare_states
from runs.domain.storable import original
from runs.queries import RunFacts, moment
from runs.queries.state import (
    ChannelRow,
    RunState,
    ValueText,
    channel_row,
    interrupt_rows,
    long_texts,
    node_names,
    node_row,
    run_state,
    value_text,
    values_of,
    variable_row,
)

from .exact_answers import exact_answer, literal
from .queries import BrokenCursor
from .queries.memory_at import EntryThen, MemoryAt, WrittenRow, memory_at

PARTS = 200
"""Parts of a channel's value that are told one by one; all of them are counted."""

Section = Literal["nodes", "variables", "channels", "interrupts", "written", "existing", "expired"]

router = Router(tags=["states"])


def _run(tenant: int, host: str, run_id: str) -> RunFacts:
    found = runs.find_run(tenant, host, run_id)
    if found is None:
        raise NotFound("run")
    return found


# --- state ---


@router.get("/hosts/{slug:host}/runs/{projected:run}/state", auth=requires(Scope.READ))
def get_state(
    request: ApiRequest,
    host: str,
    run: str,
    at: Annotated[int | None, Query(ge=0, le=MAX_SEQUENCE, description="A sequence; without it, the last one")] = None,
    against: Annotated[
        int | None, Query(ge=0, le=MAX_SEQUENCE, description="Another sequence: `changes` lead from there to `at`")
    ] = None,
    section: Annotated[Section | None, Query(description="Only this list, for its further pages")] = None,
    cursor: Annotated[str | None, Query(max_length=MAX_ID_LENGTH * 8)] = None,
    limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="The most items of each list")] = 100,
) -> HttpResponse:
    """What a run's state was behind one of its events: variables, channels, nodes, what was waited for, and memory:
    what the run had written, what there was when it started, what had expired since.

    It is folded from the log. `missing` counts sequences before `at` that are not stored: with any of them the state
    may lack something. Lists are pages; ask for the next one with `section` and its `nextCursor` as `cursor`. A `value`
    that is too long to be read along is null beside its `bytes` and the `sequence` of the event that has it.
    """
    if cursor is not None and section is None:
        raise Invalid("query", "cursor", "belongs to a section: name it")
    tenant = request.auth.tenant_id
    with tenant_scope(tenant):
        facts = _run(tenant, host, run)
        found = run_state(tenant, facts, at)
        said = _head(facts, found)
        said |= _lists(tenant, facts, found.state, section, cursor, limit)
        if section in (None, "written", "existing", "expired"):
            said |= _memory(tenant, facts, found, section, cursor, limit)
        if against is not None:
            other = run_state(tenant, facts, against)
            said |= {"against": against, "changes": _changes(other.state, found.state, limit)}
    return exact_answer(said)


def _head(facts: RunFacts, found: RunState) -> dict[str, Any]:
    state, place = found.state, found.place
    return {
        "host": facts.host,
        "runId": facts.run_id,
        "at": found.asked,
        "event": None
        if place is None
        else {"sequence": place.sequence, "type": place.type, "nodeId": place.node, "at": moment(place.at)},
        "missing": found.missing,
        "status": state.status.status if state.status else None,
        "statusSequence": state.status.sequence if state.status else None,
    }


def _lists(
    tenant: int, facts: RunFacts, state: State, section: str | None, cursor: str | None, limit: int
) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if section is None:
        texts = long_texts(tenant, facts.pk, [state.inputs])
        said["inputs"] = _value(value_text(state.inputs, texts))
    if section in (None, "variables"):
        said["variables"] = _variables(tenant, facts, state, cursor, limit)
    if section in (None, "channels"):
        said["channels"] = _channels(tenant, facts, state, cursor, limit)
    if section in (None, "nodes"):
        said["nodes"] = _nodes(state, cursor, limit)
    if section in (None, "interrupts"):
        rows, total = interrupt_rows(tenant, facts.pk, state, most=LARGEST_PAGE)
        said["interrupts"] = {
            "items": [
                {
                    "nodeId": row.node,
                    "kind": row.kind,
                    "interruptId": row.interrupt_id or None,
                    "sequence": row.sequence,
                    "since": moment(row.since),
                }
                for row in rows
            ],
            "total": total,
            "nextCursor": None,
        }
    return said


def _page(names: list[str], cursor: str | None, limit: int) -> tuple[list[str], str | None]:
    """The cursor is the name of the last one that was shown."""
    start = 0
    if cursor is not None:
        try:
            start = names.index(cursor) + 1
        except ValueError:
            raise Invalid("query", "cursor", "is not the nextCursor of a page") from None
    shown = names[start : start + limit]
    return shown, shown[-1] if start + limit < len(names) else None


def _variables(tenant: int, facts: RunFacts, state: State, cursor: str | None, limit: int) -> dict[str, Any]:
    names, after = _page(sorted(state.variables), cursor, limit)
    texts = long_texts(tenant, facts.pk, [state.variables[name].value for name in names])
    items = []
    for name in names:
        row = variable_row(name, state.variables[name], texts)
        items.append(
            {
                "name": row.name,
                **(_value(row.value) or {"value": None, "bytes": None}),
                "isSet": row.value is not None,
                "sequence": row.sequence,
                "nodeId": row.node,
                "changes": row.changes,
            }
        )
    return {"items": items, "total": len(state.variables), "nextCursor": after}


def _channels(tenant: int, facts: RunFacts, state: State, cursor: str | None, limit: int) -> dict[str, Any]:
    names, after = _page(sorted(state.channels), cursor, limit)
    channels: list[tuple[str, Channel]] = [(name, state.channels[name]) for name in names]
    texts = long_texts(tenant, facts.pk, (value for _, one in channels for value in values_of(one, most=PARTS)))
    items = [_channel(channel_row(name, channel, texts, most=PARTS)) for name, channel in channels]
    return {"items": items, "total": len(state.channels), "nextCursor": after}


def _channel(row: ChannelRow) -> dict[str, Any]:
    said: dict[str, Any] = {
        "name": row.name,
        "reducer": row.reducer,
        "reducerKnown": row.is_known,
        "writes": row.writes,
        "misfits": row.misfits,
        "sequence": row.sequence,
        "nodeId": row.node,
    }
    match row.shape:
        case "last":
            said |= {"count": row.count, "last": [_value(value) for value in row.last]}
        case "parts":
            said |= {"count": row.count, "parts": {part.name: _value(part.value) for part in row.parts}}
        case "total":
            said |= {"value": literal(row.total or "0"), "bytes": len(row.total or "0")}
        case _:
            said |= _value(row.value) or {"value": None, "bytes": None}
    return said


def _nodes(state: State, cursor: str | None, limit: int) -> dict[str, Any]:
    known = node_names(state)
    names, after = _page(known, cursor, limit)
    items = []
    for name in names:
        row = node_row(state, name)
        items.append(
            {
                "nodeId": row.name,
                "status": row.status,
                "attempt": row.attempt,
                "waitsFor": row.waits_for or None,
                "startedSequence": row.started_sequence,
                "startedAt": moment(row.started_at),
                "startSeen": row.start_seen,
                "since": row.since,
                "endedAt": moment(row.ended_at),
                "label": row.label or None,
            }
        )
    return {"items": items, "total": len(known), "nextCursor": after}


def _value(value: ValueText | None) -> dict[str, Any] | None:
    if value is None:
        return None
    text = None if value.text is None else literal(value.text)
    return {"value": text, "bytes": value.size, "sequence": value.sequence}


def _changes(before: State, after: State, limit: int) -> dict[str, Any]:
    found = compare_states(before, after)
    return {"items": [_change(one) for one in found[:limit]], "total": len(found), "nextCursor": None}


def _change(change: StateChange) -> dict[str, Any]:
    return {
        "section": change.section,
        "op": change.op,
        "name": original(change.name) or None,
        "before": _side(change.before),
        "after": _side(change.after),
        "fromSequence": change.from_sequence,
        "toSequence": change.to_sequence,
    }


def _side(side: Value | str | None) -> Any:
    if isinstance(side, Value):
        return _value(value_text(side, {}))
    return side


def _memory(
    tenant: int, facts: RunFacts, found: RunState, section: str | None, cursor: str | None, limit: int
) -> dict[str, Any]:
    try:
        memory = memory_at(
            tenant,
            facts.pk,
            found.asked,
            moment_of_event=found.place.at if found.place else None,
            section=section or "",
            cursor=cursor,
            limit=limit,
        )
    except BrokenCursor:
        raise Invalid("query", "cursor", "is not the nextCursor of a page") from None
    return {"memory": _memory_said(memory)}


def _memory_said(memory: MemoryAt) -> dict[str, Any]:
    begun = memory.beginning
    return {
        "moment": moment(memory.moment),
        "startedAt": moment(begun.at) if begun else None,
        "startOfRunId": begun.of_run_id if begun else None,
        "readThrough": memory.behind,
        "written": {
            "items": [_written(row) for row in memory.written.written],
            "total": memory.written.total,
            "nextCursor": memory.written.older,
        },
        "existing": _entries(memory.existing.entries, memory.existing.total, memory.existing.older),
        "expired": _entries(memory.expired.entries, memory.expired.total, memory.expired.older),
    }


def _written(row: WrittenRow) -> dict[str, Any]:
    return {
        "sequence": row.sequence,
        "at": moment(row.at),
        "nodeId": row.node,
        "agentId": row.agent,
        "memoryRef": row.memory_ref or None,
        "memoryId": row.memory_id or None,
        "tags": list(row.tags),
        "expiredAt": moment(row.expired_at),
        "isRepeat": row.is_repeat,
    }


def _entries(entries: Iterable[EntryThen], total: int, older: str | None) -> dict[str, Any]:
    return {"items": [_entry(entry) for entry in entries], "total": total, "nextCursor": older}


def _entry(entry: EntryThen) -> dict[str, Any]:
    return {
        "host": entry.host,
        "memoryRef": entry.memory_ref,
        "memoryId": entry.memory_id,
        "since": moment(entry.since),
        "lastWrite": None
        if entry.run_id is None
        else {
            "host": entry.run_host,
            "runId": entry.run_id,
            "sequence": entry.sequence,
            "nodeId": entry.node,
            "agentId": entry.agent,
        },
        "tags": list(entry.tags),
        "excerpt": entry.excerpt,
        "excerptIsCut": entry.is_cut,
        "seenAt": moment(entry.seen_at),
        "hidden": entry.hidden or None,
        "expiresAt": moment(entry.expires_at),
    }
