"""The page of a run's state at one of its events, which the run's own page shows beside the event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from django.core.exceptions import BadRequest
from django.http import Http404, HttpResponse
from django.views.decorators.http import require_GET

from openwop_ui.live.fragments import render_page
from openwop_ui.tenancy.access import TenantRequest, tenant_page
from runs import queries as runs
from runs.domain.projection import project
from runs.domain.state import Channel, State, Value
from runs.domain.state_changes import StateChange, compare_states
from runs.domain.storable import original
from runs.queries import RunFacts
from runs.queries.state import (
    ChannelRow,
    NodeRow,
    RunState,
    ValueText,
    VariableRow,
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
from runs.views import may_upload, number

from .queries import BrokenCursor
from .queries.memory_at import MemoryAt, memory_at
from .state_pages import ChangeRow, StatePage

FRAGMENTS = ("state",)
LISTS = ("nodes", "variables", "channels", "written", "existing")
MEMORY_LISTS = ("written", "existing")
SHOWN = 50
"""Rows of each list while all of them are shown."""
LISTED = 500
"""Rows of a list that is shown alone."""
PARTS = 20
CHANGES = 200


@require_GET
@tenant_page()
def state(request: TenantRequest, host: str, run: str) -> HttpResponse:
    tenant = request.tenant.pk
    facts = runs.find_run(tenant, host, run)
    if facts is None:
        raise Http404("No such run.")
    found = run_state(tenant, facts, number(request, "at"))
    listed = request.GET.get("list", "")
    listed = listed if listed in LISTS else ""
    page = _page(request, facts, found, listed)
    return render_page(request, "runs/state.html", page, fragments=FRAGMENTS)


def _page(request: TenantRequest, facts: RunFacts, found: RunState, listed: str) -> StatePage:
    tenant, told = request.tenant.pk, found.state
    cursor = request.GET.get("cursor") or None
    nodes, more_nodes = _part(node_names(told), listed, "nodes", cursor)
    variables, more_variables = _part(sorted(told.variables), listed, "variables", cursor)
    channels, more_channels = _part(sorted(told.channels), listed, "channels", cursor)
    interrupts, interrupts_total = interrupt_rows(tenant, facts.pk, told, most=SHOWN)
    memory = _memory(request, facts, found, listed, cursor) if listed in ("", *MEMORY_LISTS) else None
    against = number(request, "against")
    changes = _changes(tenant, facts, told, against) if against is not None and not listed else ([], 0)
    written = memory.written.older if memory and listed == "written" else None
    existing = memory.existing.older if memory and listed == "existing" else None
    return StatePage(
        section="runs",
        topics=f"run:{facts.host}/{project(facts.run_id)}",
        may_upload=may_upload(request),
        run=facts,
        at=found.asked,
        place=found.place,
        missing=found.missing,
        status=told.status.status if told.status else "",
        status_sequence=told.status.sequence if told.status else None,
        inputs=value_text(told.inputs, long_texts(tenant, facts.pk, [told.inputs])),
        variables=_variable_rows(tenant, facts, told, variables),
        variables_total=len(told.variables),
        channels=_channel_rows(tenant, facts, told, channels),
        channels_total=len(told.channels),
        nodes=tuple(node_row(told, name) for name in nodes),
        nodes_total=len(node_names(told)),
        node_counts=_counts(told) if not listed else (),
        interrupts=interrupts,
        interrupts_total=interrupts_total,
        memory=memory,
        listed=listed,
        older=more_nodes or more_variables or more_channels or written or existing,
        against=against,
        changes=tuple(changes[0]),
        changes_total=changes[1],
    )


def _part(names: list[str], listed: str, own: str, cursor: str | None) -> tuple[list[str], str | None]:
    """The names that are shown of a list. The cursor is the last one before; one that is none begins at the beginning.
    What follows is asked for only where the list is shown alone."""
    if not listed:
        return names[:SHOWN], None
    if listed != own:
        return [], None
    start = names.index(cursor) + 1 if cursor in names else 0
    shown = names[start : start + LISTED]
    return shown, shown[-1] if start + LISTED < len(names) else None


def _variable_rows(tenant: int, facts: RunFacts, told: State, names: Collection[str]) -> tuple[VariableRow, ...]:
    texts = long_texts(tenant, facts.pk, [told.variables[name].value for name in names])
    return tuple(variable_row(name, told.variables[name], texts) for name in names)


def _channel_rows(tenant: int, facts: RunFacts, told: State, names: Collection[str]) -> tuple[ChannelRow, ...]:
    channels: list[tuple[str, Channel]] = [(name, told.channels[name]) for name in names]
    texts = long_texts(tenant, facts.pk, (value for _, one in channels for value in values_of(one, most=PARTS)))
    return tuple(channel_row(name, channel, texts, most=PARTS) for name, channel in channels)


def _counts(told: State) -> tuple[tuple[str, int], ...]:
    """How many nodes are in which status, the most first."""
    rows: list[NodeRow] = [node_row(told, name) for name in node_names(told)]
    return tuple(Counter(row.status for row in rows).most_common())


def _memory(request: TenantRequest, facts: RunFacts, found: RunState, listed: str, cursor: str | None) -> MemoryAt:
    try:
        return memory_at(
            request.tenant.pk,
            facts.pk,
            found.asked,
            moment_of_event=found.place.at if found.place else None,
            section=listed,
            cursor=cursor if listed else None,
            limit=LISTED if listed else SHOWN,
        )
    except BrokenCursor as exc:
        raise BadRequest(str(exc)) from exc


def _changes(tenant: int, facts: RunFacts, told: State, against: int) -> tuple[list[ChangeRow], int]:
    """What leads from the other event's state to this one's, and how many changes there are."""
    found = compare_states(run_state(tenant, facts, against).state, told)
    shown = found[:CHANGES]
    values = [side for change in shown for side in (change.before, change.after) if isinstance(side, Value)]
    texts = long_texts(tenant, facts.pk, values)
    return [_change_row(change, texts) for change in shown], len(found)


def _change_row(change: StateChange, texts: dict[str, str]) -> ChangeRow:
    return ChangeRow(
        section=change.section,
        op=change.op,
        name=original(change.name),
        before=_side(change.before, texts),
        after=_side(change.after, texts),
        is_text=isinstance(change.before, Value) or isinstance(change.after, Value),
        from_sequence=change.from_sequence,
        to_sequence=change.to_sequence,
    )


def _side(side: Value | str | None, texts: dict[str, str]) -> str | None:
    if not isinstance(side, Value):
        return side
    shown: ValueText | None = value_text(side, texts)
    return shown.text if shown and shown.text is not None else f"{side.size:,} characters, in event #{side.sequence}"
