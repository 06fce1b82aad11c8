"""Lists to take away, as NDJSON or CSV, streamed: one part at a time, each read in a transaction of its own."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.http import Http404, StreamingHttpResponse

from openwop_ui.rest import dumps
from openwop_ui.tenancy.access import TenantRequest
from openwop_ui.tenancy.scope import tenant_scope

PART = 1_000
MEDIA_TYPES = {"ndjson": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}

Item = Mapping[str, Any]
Read = Callable[[str | None], tuple[Sequence[Item], str | None]]
"""A part of a list behind a cursor, and the cursor of the next one; None at the end."""

_FORMULA = ("=", "+", "-", "@", "|", "%", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a spreadsheet takes for the beginning of a formula; the last four are the same in full width."""


def exported(request: TenantRequest, name: str, columns: Sequence[str], read: Read) -> StreamingHttpResponse:
    """A download of the whole list in the form that the request names. ``columns`` are the members that a CSV has; what
    is nested is JSON there."""
    format = request.GET.get("format", "ndjson")
    if format not in MEDIA_TYPES:
        raise Http404("No such form of it.")
    parts = _parts(request.tenant.pk, read)
    told = _ndjson(parts) if format == "ndjson" else _csv(parts, columns)
    answer = StreamingHttpResponse(told, content_type=MEDIA_TYPES[format])
    answer["Content-Disposition"] = f'attachment; filename="{name}.{format}"'
    answer["Cache-Control"] = "no-store"
    answer["X-Content-Type-Options"] = "nosniff"
    return answer


def _parts(tenant_id: int, read: Read) -> Iterator[Sequence[Item]]:
    cursor: str | None = None
    while True:
        with tenant_scope(tenant_id):
            items, cursor = read(cursor)
        yield items
        if cursor is None:
            return


def _ndjson(parts: Iterator[Sequence[Item]]) -> Iterator[bytes]:
    for items in parts:
        yield b"".join(dumps(item) + b"\n" for item in items)


def _csv(parts: Iterator[Sequence[Item]], columns: Sequence[str]) -> Iterator[bytes]:
    # With a mark of its encoding, which spreadsheets need (RFC 4180 has none).
    yield b"\xef\xbb\xbf" + _lines([columns])
    for items in parts:
        yield _lines([[cell(item.get(column)) for column in columns] for item in items])


def _lines(rows: Sequence[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode("utf-8", "replace")


def cell(value: Any) -> str:
    """One value for a spreadsheet. A text that it would take for a formula gets an apostrophe before it."""
    if value is None:
        return ""
    if isinstance(value, str):
        text = value.replace("\0", "\ufffd")
        return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=cell)
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else str(value)
