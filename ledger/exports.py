"""The memory trail of a run as CSV: each write with its entry, its writer and its times. A form of ``runs.exports``."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.storable import original
from runs.exports import Export, Source, register

from .queries.paging import rows_of

COLUMNS = (
    *("sequence", "reported_at", "received_at", "host", "run", "memory_ref", "memory_id"),
    *("node", "agent", "tags", "event_id", "state"),
)
PART = 1_000

_WRITES = """
SELECT w.sequence, w.occurred_at, v.received_at, e.memory_ref, e.memory_id, w.node_id, w.agent_id, w.tags, v.event_id,
    CASE WHEN s.expires_at <= now() THEN 'expired' WHEN s.outcome = 'content' THEN 'stored'
        WHEN s.outcome = 'gone' THEN 'gone' ELSE 'announced' END
FROM ledger_memorywrite w
LEFT JOIN runs_event v ON v.tenant_id = w.tenant_id AND v.run_id = w.run_id AND v.sequence = w.sequence
LEFT JOIN ledger_memoryentry e ON e.tenant_id = w.tenant_id AND e.id = w.entry_id
LEFT JOIN ledger_contentstate s ON s.tenant_id = w.tenant_id AND s.entry_id = w.entry_id
WHERE w.tenant_id = %(tenant)s AND w.run_id = %(run)s AND w.sequence > %(after)s AND w.sequence <= %(through)s
ORDER BY w.sequence LIMIT %(limit)s
"""

# What a spreadsheet takes for the beginning of a formula or of a command (OWASP, CSV injection).
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")


def _trail(source: Source) -> Iterator[bytes]:
    # The mark tells spreadsheets that it is UTF-8.
    yield b"\xef\xbb\xbf" + _lines([COLUMNS])
    after = -1
    while True:
        with tenant_scope(source.tenant_id):
            values = {"tenant": source.tenant_id, "run": source.run.pk, "after": after, "through": source.through}
            found = rows_of(_WRITES, values | {"limit": PART})
        if not found:
            return
        yield _lines([_cells(source, row) for row in found])
        after = found[-1][0]


def _cells(source: Source, row: Sequence[Any]) -> list[str]:
    sequence, reported, received, ref, memory_id, node, agent, tags, event_id, state = row
    texts = (source.run.host, source.run.run_id, *(original(text or "") for text in (ref, memory_id, node, agent)))
    marked = " ".join(original(tag) for tag in tags)
    return [
        str(sequence),
        _moment(reported),
        _moment(received),
        *(inert(text) for text in (*texts, marked, original(event_id or ""))),
        state,
    ]


def inert(text: str) -> str:
    """A cell that no spreadsheet computes: an apostrophe before it says that it is text."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _moment(at: datetime | None) -> str:
    """Of one width, so that it sorts as text."""
    return "" if at is None else at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _lines(rows: Sequence[Sequence[str]]) -> bytes:
    """RFC 4180."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode("utf-8", "replace")


register(Export("csv", "Memory trail", "each write, by whom and when", "text/csv; charset=utf-8", "memory.csv", _trail))
