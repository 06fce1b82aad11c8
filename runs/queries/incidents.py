"""Contradictions in what hosts told us, in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from django.db import connection

from ..domain.storable import original, storable
from ..models import Incident
from ..store.incidents import CLOSED
from .rows import IncidentRow, Option

PAGE = 50

_FROM = """
    runs_incident i
    JOIN runs_host h ON h.tenant_id = i.tenant_id AND h.id = i.host_id
    LEFT JOIN runs_run r ON r.tenant_id = i.tenant_id AND r.id = i.run_id
"""
_ROW = "i.id, i.kind, i.detail, h.slug, r.run_id, i.sequence, i.noticed_at"


def incidents(
    tenant_id: int, *, host: str | None = None, run: int | None = None, limit: int = 50
) -> tuple[tuple[IncidentRow, ...], int]:
    """The newest incidents of a tenant, one of its hosts or one run (primary key), and how many there are.

    Those that are closed come last.
    """
    where, values = (
        ["i.tenant_id = %(tenant)s"],
        {"tenant": tenant_id, "host": host, "run": run, "limit": limit, "closed": CLOSED},
    )
    if host is not None:
        where.append("h.slug = %(host)s")
    if run is not None:
        where.append("i.run_id = %(run)s")
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT {_ROW}, count(*) OVER () FROM {_FROM} WHERE {" AND ".join(where)}
            ORDER BY jsonb_exists(i.detail, %(closed)s), i.id DESC LIMIT %(limit)s
            """,  # noqa: S608 - constants
            values,
        )
        found = cursor.fetchall()
    return tuple(_row(row) for row in found), found[0][-1] if found else 0


def incidents_at(tenant_id: int, run: int, sequence: int, *, limit: int = 20) -> tuple[IncidentRow, ...]:
    """Those of one event, oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {_ROW} FROM {_FROM} WHERE i.tenant_id = %s AND i.run_id = %s AND i.sequence = %s"  # noqa: S608
            " ORDER BY i.id LIMIT %s",
            [tenant_id, run, sequence, limit],
        )
        return tuple(_row(row) for row in cursor.fetchall())


# A gap is shown from the run itself for as long as it stands; the others ask nothing of anybody.
_CALM = (Incident.Kind.GAP, Incident.Kind.TIME_REVERSAL, Incident.Kind.TWIN_EVENT)


def pressing_incidents(tenant_id: int, *, since: datetime, limit: int) -> tuple[tuple[IncidentRow, ...], int]:
    """The newest incidents that were noticed lately and call for a look, and how many there are. Of several of a kind
    in one run the newest stands for all."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT {_ROW}, count(*) OVER () FROM {_FROM}
            WHERE i.tenant_id = %(tenant)s AND i.id IN (
                SELECT max(one.id) FROM runs_incident one
                WHERE one.tenant_id = %(tenant)s AND one.noticed_at > %(since)s AND NOT one.kind = ANY (%(calm)s)
                    AND NOT jsonb_exists(one.detail, %(closed)s)
                GROUP BY one.kind, coalesce(one.run_id, -one.id))
            ORDER BY i.id DESC LIMIT %(limit)s
            """,  # noqa: S608 - constants
            {"tenant": tenant_id, "since": since, "calm": [*_CALM], "closed": CLOSED, "limit": limit},
        )
        found = cursor.fetchall()
    return tuple(_row(row) for row in found), found[0][-1] if found else 0


@dataclass(frozen=True, slots=True)
class IncidentFilter:
    """What a list of incidents is narrowed to; "" means any."""

    kind: str = ""
    host: str = ""

    def where(self, tenant_id: int) -> tuple[str, dict[str, Any]]:
        conditions = ["i.tenant_id = %(tenant)s"]
        if self.kind:
            conditions.append("i.kind = %(kind)s")
        if self.host:
            conditions.append("h.slug = %(host)s")
        values = {"tenant": tenant_id, "kind": storable(self.kind), "host": storable(self.host)}
        return " AND ".join(conditions), values


@dataclass(frozen=True, slots=True)
class IncidentsPage:
    """Newest first. The cursors are None where there is nothing further that way."""

    rows: tuple[IncidentRow, ...]
    total: int
    newer: str | None
    older: str | None


def incidents_page(
    tenant_id: int, filter: IncidentFilter, *, before: int | None = None, after: int | None = None, limit: int = PAGE
) -> IncidentsPage:
    """A page of incidents: older than ``before``, or newer than ``after``, or the newest."""
    where, values = filter.where(tenant_id)
    values |= {"edge": after if after is not None else before, "limit": limit + 1}
    edge, order = "", "DESC"
    if after is not None:
        edge, order = "AND i.id > %(edge)s", "ASC"
    elif before is not None:
        edge = "AND i.id < %(edge)s"
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {_ROW} FROM {_FROM} WHERE {where} {edge} ORDER BY i.id {order} LIMIT %(limit)s",  # noqa: S608
            values,
        )
        found = cursor.fetchall()
        cursor.execute(f"SELECT count(*) FROM {_FROM} WHERE {where}", values)  # noqa: S608
        counted = cursor.fetchone()
    more, found = len(found) > limit, found[:limit]
    if after is not None:
        found.reverse()
    has_newer = more if after is not None else before is not None
    has_older = True if after is not None else more
    return IncidentsPage(
        rows=tuple(_row(row) for row in found),
        total=counted[0] if counted else 0,
        newer=str(found[0][0]) if found and has_newer else None,
        older=str(found[-1][0]) if found and has_older else None,
    )


def incident_options(tenant_id: int) -> tuple[tuple[Option, ...], tuple[Option, ...]]:
    """The kinds and the hosts of a tenant's incidents, most first, with how many there are of each."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT kind, count(*) FROM runs_incident WHERE tenant_id = %s GROUP BY kind ORDER BY 2 DESC, 1",
            [tenant_id],
        )
        kinds = tuple(Option(kind, kind.replace("_", " "), count) for kind, count in cursor.fetchall())
        cursor.execute(
            """
            SELECT h.slug, coalesce(nullif(h.name, ''), h.slug), count(*)
            FROM runs_incident i JOIN runs_host h ON h.tenant_id = i.tenant_id AND h.id = i.host_id
            WHERE i.tenant_id = %s GROUP BY h.slug, h.name ORDER BY 3 DESC, 1
            """,
            [tenant_id],
        )
        return kinds, tuple(Option(*row) for row in cursor.fetchall())


def _row(row: Sequence[Any]) -> IncidentRow:
    key, kind, detail, host, run_id, sequence, at, *_ = row
    told = json.loads(detail)
    seen, done = in_words(kind, told, sequence)
    closed = told.get(CLOSED)
    return IncidentRow(
        kind=kind.replace("_", "-"),
        text=seen,
        host=host,
        run_id=None if run_id is None else original(run_id),
        sequence=sequence,
        at=at,
        key=str(key),
        done=done,
        closed_at=datetime.fromisoformat(closed) if closed else None,
    )


class _Told:
    """What an incident says of itself, for putting into words. What it does not say reads as nothing."""

    def __init__(self, detail: Mapping[str, Any], sequence: int | None) -> None:
        self._detail = detail
        self.at = "an unknown place" if sequence is None else f"#{sequence}"
        self.sequence = sequence

    def number(self, name: str) -> int:
        value = self._detail.get(name)
        return value if type(value) is int else 0

    def text(self, name: str) -> str:
        value = self._detail.get(name)
        return original(value) if isinstance(value, str) else ""

    def has(self, name: str) -> bool:
        return bool(self._detail.get(name))

    @property
    def other(self) -> str:
        """The place that the incident is measured against."""
        return f"#{self._detail.get('other')}"

    @property
    def seconds(self) -> str:
        return f"{self._detail.get('seconds', 0):g} s"


def in_words(kind: str, detail: Mapping[str, Any], sequence: int | None = None) -> tuple[str, str]:
    """What was seen, and what was done about it."""
    told = _Told(detail, sequence)
    words = _WORDS.get(kind)
    if words is None:
        return f"{kind.replace('_', ' ').capitalize()}.", ""
    seen, done = words(told)
    more = told.number("more")
    return f"{seen} {more:,} more like it in this run are counted and not listed." if more else seen, done


_WITHHELD = "It was withheld: only its digest and length were stored."
_BOTH_KEPT = "The first is shown, the second is kept beside it."


def _changed(told: _Told) -> tuple[str, str]:
    seen = "A known event came again with other content"
    if told.has("masked"):
        return f"{seen}, in a bundle whose values the host has masked: this need be no contradiction.", _BOTH_KEPT
    return f"{seen}.", _BOTH_KEPT


def _content_leak(told: _Told) -> tuple[str, str]:
    return f"Memory content in {told.text('path') or 'an event'} ({told.number('bytes'):,} bytes).", _WITHHELD


def _credential_leak(told: _Told) -> tuple[str, str]:
    return f"A bearer credential in {told.text('path') or 'an event'}.", _WITHHELD


def _conflicting(told: _Told) -> tuple[str, str]:
    match told.text("note"):
        case "seq_conflict":
            return "sequence and seq disagree.", "The protocol's own spelling, sequence, was taken."
        case "data_conflict":
            return "payload and data disagree.", "The protocol's own spelling, payload, was taken."
        case "node_conflict":
            return "The payload names another node than the event does.", "The event's own nodeId was taken."
        case "label_dropped":
            return "eventId, causationId or agentId is no usable text.", "It is kept in the event and read as unknown."
        case "event_count":
            counts = f"The bundle counts {told.number('told'):,} events and has {told.number('events'):,}."
            return counts, "Those that it has were taken in."
        case "malformed_redaction":
            seen = "The bundle says that it redacted values and that it passed them through: one of the two is false."
            return seen, "Its events were taken in as they came."
    return "Two spellings of one member disagree.", "The protocol's own spelling was taken."


def _foreign_run(told: _Told) -> tuple[str, str]:
    if told.text("place") == "bundle":
        events = told.number("events")
        return f"{events:,} event{'s' if events > 1 else ''} of another run in this run's bundle.", "Refused."
    return "An event of another run came in this run's stream.", "It was refused."


def _unstarted(told: _Told) -> tuple[str, str]:
    source = told.text("source")
    if source:
        seen = f"A fork of {source} that was not asked for here. Hosts are known that let another tenant fork a run."
    else:
        seen = "A run of another tenant than the host's other runs are of."
    return seen, "It was taken in like any other, and what it writes to memory with it."


def _gap(told: _Told) -> tuple[str, str]:
    count = told.number("count") or 1
    seen = f"{told.at} is missing." if count == 1 else f"{count:,} events are missing, {told.at} to {told.other}."
    return seen, "What lies behind was read on. Should they come, this is closed."


def _late(told: _Told) -> tuple[str, str]:
    count = told.number("count") or 1
    events = "An event came" if count == 1 else f"{count:,} events came"
    return (
        f"{events} behind the run's end at {told.other}, from {told.at} on.",
        "Kept and shown. The run's status is the one that it ended with.",
    )


def _memory_behind(told: _Told) -> tuple[str, str]:
    about = told.text("about")
    memory = f"Memory {about}" if about else "Memory without an id"
    return (
        f"{memory} was written at {told.at}, behind the run's end at {told.other}.",
        "The write is in the ledger like any other.",
    )


def _truncated(told: _Told) -> tuple[str, str]:
    events, of, missing = told.number("events"), told.number("told"), told.number("missing")
    parts = [f"{events:,} of {of:,} events" if of else f"{events:,} events"]
    if told.text("reason"):
        parts.insert(0, f"the host cut it ({told.text('reason')})")
    if missing:
        span = f"#{told.number('first')} to #{told.number('last')}" if missing > 1 else f"#{told.number('first')}"
        further = " and further on" if told.number("holes") > 1 else ""
        parts.append(f"{missing:,} missing between others, {span}{further}")
    return f"A bundle is not whole: {', '.join(parts)}.", "What it has was taken in, and the run is marked."


_WORDS: Mapping[str, Callable[[_Told], tuple[str, str]]] = MappingProxyType(
    {
        Incident.Kind.CHANGED_EVENT: _changed,
        Incident.Kind.CONTENT_LEAK: _content_leak,
        Incident.Kind.CREDENTIAL_LEAK: _credential_leak,
        Incident.Kind.CONFLICTING_MEMBERS: _conflicting,
        Incident.Kind.FOREIGN_RUN: _foreign_run,
        Incident.Kind.GAP: _gap,
        Incident.Kind.LATE_EVENTS: _late,
        Incident.Kind.MEMORY_AFTER_TERMINAL: _memory_behind,
        Incident.Kind.SECOND_TERMINAL: lambda told: (
            f"{told.text('about')} at {told.at}; the run had ended at {told.other}.",
            "Both are in the log. The first one counts for the run's status.",
        ),
        Incident.Kind.SECOND_START: lambda told: (
            f"run.started again at {told.at}; the run had started at {told.other}.",
            "Both are in the log. The run's time counts from the first.",
        ),
        Incident.Kind.TIME_REVERSAL: lambda told: (
            f"{told.at} is timed {told.seconds} before {told.other}, which it follows.",
            "The order is that of the sequence; the times are shown as the host gave them.",
        ),
        Incident.Kind.TWIN_EVENT: lambda told: (
            f"{told.at} and {told.other} announce one write, of {told.text('about')}.",
            "Both are in the log; the ledger counts one write.",
        ),
        Incident.Kind.EARLY_STATUS: lambda told: (
            "The host says that the run has ended; its log has no event that says so.",
            "The run is shown as its log has it, until that event comes.",
        ),
        Incident.Kind.TRUNCATED: _truncated,
        Incident.Kind.FOREIGN_TENANT: lambda told: (
            "A webhook delivered an event of another tenant of the host.",
            "It was refused.",
        ),
        Incident.Kind.UNSTARTED_RUN: _unstarted,
    }
)
