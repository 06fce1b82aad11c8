"""Keeps the receipts of attempted memory writes at what was read of the log. The only writer of ``ledger_receipt``.

A run's receipts rest on all of its events, so they are made anew when the run has news: late events count like any
other. What is the same stays as it is. A run that takes long is left alone for a while after it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any

import orjson
from django.db import connection
from django.utils import timezone

from openwop_ui.live.announce import announce
from runs.domain.storable import original, storable

from .domain import tool_calls
from .domain.attempts import TYPES, LogEvent
from .domain.reading import LONGEST_ADDRESS, LONGEST_NAME, Address, entry_id
from .domain.receipts import Receipt, classify_in_order
from .domain.tool_calls import MemoryTools
from .models import MemoryTools as MemoryToolNames

if TYPE_CHECKING:
    from .store import Stretch

TOOL_EVENTS = ("agent.toolCalled", "agent.toolReturned")
RUNS_AT_ONCE = 50
ROWS_AT_ONCE = 2_000
SLOW = 0.1
"""Seconds that a run may take before it has to pay for them."""
REST = 20
"""So many times as long it is left alone then."""


def memory_tools(tenant_id: int) -> MemoryTools:
    """The names of the tenant's memory tools."""
    told = MemoryToolNames.objects.filter(tenant_id=tenant_id).first()
    if told is None:
        return MemoryTools()
    return MemoryTools(frozenset(map(original, told.writes)), frozenset(map(original, told.reads)))


def name_memory_tools(tenant_id: int, tools: MemoryTools, *, by: str, at: datetime | None = None) -> None:
    """From now on. The receipts of all runs that have tool calls are made anew, by and by."""
    MemoryToolNames.objects.update_or_create(
        tenant_id=tenant_id,
        defaults={
            "writes": sorted(map(storable, tools.writes)),
            "reads": sorted(map(storable, tools.reads)),
            "changed_at": at or timezone.now(),
            "changed_by": by,
        },
    )
    _make_stale(tenant_id, _runs_with_tools(tenant_id))
    announce(tenant_id, {"ledger": None})


_LITERALS = ", ".join(f"'{type_}'" for type_ in TOOL_EVENTS)  # literals, so that the partial index applies


def _runs_with_tools(tenant_id: int) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT r.id FROM runs_run r WHERE r.tenant_id = %s AND EXISTS (
                SELECT FROM runs_event e
                WHERE e.tenant_id = r.tenant_id AND e.run_id = r.id AND e.type IN ({_LITERALS}))
            """,  # noqa: S608 - constants
            [tenant_id],
        )
        return [run for (run,) in cursor.fetchall()]


# --- What has news ---


def note_news(tenant_id: int, stretches: Sequence[Stretch]) -> None:
    """Notes the runs whose receipts may not be what they were, now that these stretches are read: those that have
    receipts, and those in which a memory tool is spoken of."""
    news = _with_news(tenant_id, stretches)
    if not news:
        return
    stale = [run for run, has_receipts, *_ in news if has_receipts]
    unsure = [(run, start, end) for run, has_receipts, start, end in news if not has_receipts]
    if unsure:
        stale += _that_write(tenant_id, unsure)
    if stale:
        _make_stale(tenant_id, stale)


def _with_news(tenant_id: int, stretches: Sequence[Stretch]) -> list[tuple[int, bool, int, int]]:
    if not stretches:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            SELECT * FROM (
                SELECT s.run_id, EXISTS (SELECT FROM ledger_receipt r
                    WHERE r.tenant_id = %(tenant)s AND r.run_id = s.run_id) AS has_receipts, s.start, s.end_
                FROM unnest(%(runs)s::bigint[], %(starts)s::bigint[], %(ends)s::bigint[]) AS s (run_id, start, end_)
            ) AS s
            WHERE s.has_receipts OR EXISTS (SELECT FROM runs_event e
                WHERE e.tenant_id = %(tenant)s AND e.run_id = s.run_id
                    AND e.sequence > s.start AND e.sequence <= s.end_ AND e.type IN ({_LITERALS}))
            """,  # noqa: S608 - constants
            {
                "tenant": tenant_id,
                "runs": [stretch.run for stretch in stretches],
                "starts": [stretch.start for stretch in stretches],
                "ends": [stretch.end for stretch in stretches],
            },
        )
        found: list[tuple[int, bool, int, int]] = cursor.fetchall()
        return found


def _that_write(tenant_id: int, stretches: Sequence[tuple[int, int, int]]) -> list[int]:
    """The runs in whose stretches a tool that writes memory is called or answers."""
    tools = memory_tools(tenant_id)
    writing: dict[int, None] = {}
    with connection.chunked_cursor() as cursor:
        cursor.execute(
            f"""
            SELECT s.run_id, coalesce(c.body, e.body)
            FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS s (run_id, start, end_)
            JOIN runs_event e ON e.tenant_id = %s AND e.run_id = s.run_id
                AND e.sequence > s.start AND e.sequence <= s.end_ AND e.type IN ({_LITERALS})
            LEFT JOIN runs_eventcopy c ON c.tenant_id = e.tenant_id AND c.run_id = e.run_id
                AND c.sequence = e.sequence AND c.kind = 'completion'
            """,  # noqa: S608 - constants
            [*(list(column) for column in zip(*stretches, strict=True)), tenant_id],
        )
        for run, body in _each(cursor):
            if run not in writing and tools.is_write(_quickly(body).get("toolName")):
                writing[run] = None
    return list(writing)


def _make_stale(tenant_id: int, runs: Iterable[int]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO ledger_receiptreading (tenant_id, run_id, is_stale)"
            " SELECT %s, run_id, true FROM unnest(%s::bigint[]) AS n (run_id) ORDER BY run_id"
            " ON CONFLICT (tenant_id, run_id) DO UPDATE SET is_stale = true",
            [tenant_id, list(runs)],
        )


# --- Reading ---


@dataclass(frozen=True, slots=True)
class _Due:
    run: int
    host: int
    run_id: str
    through: int


def read_due(tenant_id: int, now: datetime) -> bool:
    """Makes the receipts anew of runs that have news and do not rest. True when there may be more to do at once.

    The caller holds the reading of the tenant's log.
    """
    due = _due(tenant_id, until=now, most=RUNS_AT_ONCE)
    _read(tenant_id, due, now)
    return len(due) >= RUNS_AT_ONCE


def read_all(tenant_id: int) -> None:
    """The same for all that have news, whether they rest or not."""
    while due := _due(tenant_id, until=None, most=RUNS_AT_ONCE):
        _read(tenant_id, due, timezone.now())


def has_due(tenant_id: int, now: datetime) -> bool:
    return bool(_due(tenant_id, until=now, most=1))


def _read(tenant_id: int, due: Sequence[_Due], now: datetime) -> None:
    if not due:
        return
    tools = memory_tools(tenant_id)
    has_changed = False
    for run in due:
        begun = monotonic()
        has_changed |= _read_run(tenant_id, run, tools)
        _is_read(tenant_id, run.run, now, monotonic() - begun)
    if has_changed:
        announce(tenant_id, {"ledger": None})


def _due(tenant_id: int, *, until: datetime | None, most: int) -> list[_Due]:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT q.run_id, r.host_id, r.run_id, c.read_beyond
            FROM ledger_receiptreading q
            JOIN runs_run r ON r.tenant_id = q.tenant_id AND r.id = q.run_id
            JOIN ledger_readingcursor c ON c.tenant_id = q.tenant_id AND c.run_id = q.run_id
            WHERE q.tenant_id = %s AND q.is_stale AND (%s::timestamptz IS NULL OR coalesce(q.rest_until <= %s, true))
            ORDER BY q.rest_until NULLS FIRST, q.run_id LIMIT %s
            """,
            [tenant_id, until, until, most],
        )
        return [_Due(run, host, original(run_id), through) for run, host, run_id, through in cursor.fetchall()]


def _is_read(tenant_id: int, run: int, now: datetime, took: float) -> None:
    rest_until = now + timedelta(seconds=took * REST) if took > SLOW else None
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE ledger_receiptreading SET is_stale = false, rest_until = %s WHERE tenant_id = %s AND run_id = %s",
            [rest_until, tenant_id, run],
        )


def _read_run(tenant_id: int, due: _Due, tools: MemoryTools) -> bool:
    """Whether that changed anything."""
    log = _Log(tenant_id, due)
    read = classify_in_order(log.events(), run=due.run_id, tools=tools)
    claimed_only = frozenset(read.claimed_only)
    rows = [
        _row(receipt, due.host, log.address_of(receipt), log.times[receipt.sequence], receipt.sequence in claimed_only)
        for receipt in read.receipts
    ]
    return _keep(tenant_id, due, rows)


class _Log:
    """The events of a run that receipts rest on, as far as the log has been read."""

    def __init__(self, tenant_id: int, due: _Due) -> None:
        self._values: list[Any] = [tenant_id, due.run, due.through, list(TYPES)]
        self.times: dict[int, datetime] = {}
        self._written: dict[int, Address] = {}

    def events(self) -> Iterator[LogEvent]:
        with connection.chunked_cursor() as cursor:
            cursor.execute(
                """
                SELECT e.sequence, e.type, e.node_id, e.event_id, e.causation_id,
                    coalesce(c.occurred_at, e.occurred_at),
                    CASE WHEN e.has_payload OR c.body IS NOT NULL THEN coalesce(c.body, e.body) END
                FROM runs_event e
                LEFT JOIN runs_eventcopy c ON c.tenant_id = e.tenant_id AND c.run_id = e.run_id
                    AND c.sequence = e.sequence AND c.kind = 'completion'
                WHERE e.tenant_id = %s AND e.run_id = %s AND e.sequence <= %s AND e.type = ANY (%s)
                ORDER BY e.sequence
                """,
                self._values,
            )
            for row in _each(cursor):
                yield self._event(*row)

    def _event(
        self,
        sequence: int,
        type_: str,
        node: str | None,
        event_id: str | None,
        causation_id: str | None,
        at: datetime,
        body: str | None,
    ) -> LogEvent:
        payload = _payload(body)
        if type_ in TOOL_EVENTS:
            self.times[sequence] = at
        elif type_ == "memory.written" and isinstance(payload, dict):
            address = _address(payload.get("memoryRef"), payload.get("memoryId"))
            if address is not None:
                self._written[sequence] = address
        return LogEvent(sequence, type_, payload, _maybe(node), _maybe(event_id), _maybe(causation_id))

    def address_of(self, receipt: Receipt) -> Address | None:
        """The entry that it is about: the one that was written, or else the one that the answer names."""
        written = self._written.get(receipt.write) if receipt.write is not None else None
        return written or _address(receipt.memory_ref, receipt.memory_id)


def _each(cursor: Any) -> Iterator[tuple[Any, ...]]:
    while rows := cursor.fetchmany(200):
        yield from rows


def _maybe(text: str | None) -> str | None:
    return None if text is None else original(text)


def _address(ref: Any, memory_id: Any) -> Address | None:
    told = (ref, memory_id)
    if all(isinstance(text, str) and 0 < len(text) <= LONGEST_ADDRESS for text in told):
        return Address(ref, memory_id)
    return None


def _payload(body: str | None) -> Any:
    """With its numbers as they are: what an agent asked for is compared by its digest."""
    if body is None:
        return None
    try:
        event = json.loads(body)
    except (ValueError, RecursionError):
        # A number with more digits than Python takes. The log has it, and nothing that counts here is one.
        return None
    return _said(event)


def _quickly(body: str) -> dict[str, Any]:
    """Enough of it for a name."""
    try:
        said = _said(orjson.loads(body))
    except orjson.JSONDecodeError:
        said = _payload(body)
    return said if isinstance(said, dict) else {}


def _said(event: Any) -> Any:
    if not isinstance(event, dict):
        return None
    payload = event.get("payload")
    return payload if payload is not None else event.get("data")


# --- Rows ---

_TYPES = {
    "sequence": "bigint",
    "host_id": "bigint",
    "occurred_at": "timestamptz",
    "tool": "text",
    "state": "text",
    "reasons": "text[]",
    "evidence": "jsonb",
    "call_id": "text",
    "node_id": "text",
    "agent_id": "text",
    "digest": "bytea",
    "asked_key": "text",
    "asked_scope": "text",
    "asked_identity": "text",
    "returned_key": "text",
    "returned_scope": "text",
    "returned_identity": "text",
    "memory_ref": "text",
    "memory_id": "text",
    "entry_id": "uuid",
    "write_sequence": "bigint",
    "repeat": "text",
    "repeats": "bigint",
    "attempt": "int",
    "claimed_only": "boolean",
}
_COLUMNS = ", ".join(_TYPES)
_DECLARED = ", ".join(f"{name} {type_}" for name, type_ in _TYPES.items())
_REST = [name for name in _TYPES if name != "sequence"]
_ADD = f"""
    INSERT INTO ledger_receipt AS r (tenant_id, run_id, {_COLUMNS})
    SELECT %s, %s, n.* FROM jsonb_to_recordset(%s::jsonb) AS n ({_DECLARED})
    ON CONFLICT (tenant_id, run_id, sequence) DO UPDATE
        SET ({", ".join(_REST)}) = ROW ({", ".join(f"excluded.{name}" for name in _REST)})
        WHERE ({", ".join(f"r.{name}" for name in _REST)})
            IS DISTINCT FROM ({", ".join(f"excluded.{name}" for name in _REST)})
"""  # noqa: S608 - constants


def _row(receipt: Receipt, host: int, entry: Address | None, at: datetime, is_claimed_only: bool) -> dict[str, Any]:
    asked, returned = receipt.asked, receipt.returned
    return {
        "sequence": receipt.sequence,
        "host_id": host,
        "occurred_at": at.isoformat(),
        "tool": _cut(receipt.tool, LONGEST_NAME),
        "state": receipt.state.value,
        "reasons": [reason.value for reason in receipt.reasons],
        "evidence": [[one.trace.value, one.sequence, one.is_inferred] for one in receipt.evidence],
        "call_id": _cut(receipt.call_id, LONGEST_NAME),
        "node_id": _cut(receipt.node_id, LONGEST_NAME),
        "agent_id": _cut(receipt.agent_id, LONGEST_NAME),
        "digest": f"\\x{receipt.digest}" if receipt.digest else None,
        **_told("asked", asked),
        **_told("returned", returned),
        "memory_ref": _cut(entry.memory_ref if entry else receipt.memory_ref, LONGEST_ADDRESS),
        "memory_id": _cut(entry.memory_id if entry else receipt.memory_id, LONGEST_ADDRESS),
        "entry_id": str(entry_id(host, _stored(entry))) if entry else None,
        "write_sequence": receipt.write,
        "repeat": receipt.repeat.value,
        "repeats": receipt.repeats,
        "attempt": receipt.attempt,
        "claimed_only": is_claimed_only,
    }


def _told(name: str, address: tool_calls.Address | None) -> dict[str, str | None]:
    return {
        f"{name}_key": _cut(address.key, LONGEST_ADDRESS) if address else None,
        f"{name}_scope": _cut(address.scope_type, LONGEST_ADDRESS) if address else None,
        f"{name}_identity": _cut(address.identity, LONGEST_ADDRESS) if address else None,
    }


def _stored(address: Address) -> Address:
    return Address(storable(address.memory_ref), storable(address.memory_id))


def _cut(text: str | None, longest: int) -> str | None:
    """The event has the whole of it."""
    if text is None:
        return None
    return storable(text if len(text) <= longest else f"{text[: longest - 1]}…")


def _keep(tenant_id: int, due: _Due, rows: Sequence[dict[str, Any]]) -> bool:
    changed: int
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM ledger_receipt WHERE tenant_id = %s AND run_id = %s AND sequence <> ALL (%s::bigint[])",
            [tenant_id, due.run, [row["sequence"] for row in rows]],
        )
        changed = cursor.rowcount
        for start in range(0, len(rows), ROWS_AT_ONCE):
            cursor.execute(_ADD, [tenant_id, due.run, json.dumps(rows[start : start + ROWS_AT_ONCE])])
            changed += cursor.rowcount
    return changed > 0
