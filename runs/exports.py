"""A run to take away, streamed: one part of the log at a time, in the memory of that part.

The log is given back as the host sent it: ascending, every copy of an event behind the first one, so that taking an
export in again changes nothing, and taking it into an empty tenant gives the same log. Other apps add forms of their
own with ``register``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson
from django.db import connection
from django.http import StreamingHttpResponse

from openwop_ui import VERSION
from openwop_ui.tenancy.scope import tenant_scope

from .domain import exact_json
from .domain.bundle import with_run_id
from .domain.projection import project
from .queries import RunFacts, moment

PART_BYTES = 1024 * 1024
FIRST_STEP = 64
MOST_STEP = 2_000
"""A part of the log is as many events as are likely to fit into PART_BYTES, by the size of those before."""
LONGEST_NAME = 120

Write = Callable[["Source"], Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class Source:
    """The run that is exported, and up to which event: what comes while it is read stays out.

    ``href`` is where the run's page is, "" where that is not known.
    """

    tenant_id: int
    run: RunFacts
    href: str = ""

    @property
    def through(self) -> int:
        return -1 if self.run.last_sequence is None else self.run.last_sequence


@dataclass(frozen=True, slots=True)
class Export:
    """A form that a run can be had in. ``words`` say what it is for, ``write`` enters the tenant's scope by itself."""

    format: str
    name: str
    words: str
    media_type: str
    extension: str
    write: Write


_EXPORTS: dict[str, Export] = {}


def register(export: Export) -> None:
    _EXPORTS[export.format] = export


def exports() -> tuple[Export, ...]:
    return tuple(_EXPORTS.values())


def find_export(format: str) -> Export | None:
    return _EXPORTS.get(format)


def exported(export: Export, source: Source) -> StreamingHttpResponse:
    answer = StreamingHttpResponse(export.write(source), content_type=export.media_type)
    answer["Content-Disposition"] = f'attachment; filename="{file_name(source.run, export)}"'
    answer["Cache-Control"] = "no-store"
    # What is in it came from a host: should a browser show it all the same, it may do nothing.
    answer["Content-Security-Policy"] = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
    answer["X-Content-Type-Options"] = "nosniff"
    return answer


def file_name(run: RunFacts, export: Export) -> str:
    """Of the run's id in its projected spelling, which no file system takes offence at."""
    return f"{project(run.run_id)[:LONGEST_NAME]}.{export.extension}"


# --- the log ---


@dataclass(frozen=True, slots=True)
class Told:
    """One copy of an event, as JSON text. ``is_first``: the one that the log is made of."""

    sequence: int
    text: str
    is_first: bool


def log_of(source: Source) -> Iterator[list[Told]]:
    """The whole log in parts, ascending; the further copies of an event follow its first one, oldest first."""
    after, step = -1, FIRST_STEP
    while after < source.through:
        with tenant_scope(source.tenant_id):
            part = _part(source, after, step)
        if not part:
            return
        yield part
        after = part[-1].sequence
        average = sum(len(told.text) for told in part) // len(part) + 1
        step = max(1, min(MOST_STEP, PART_BYTES // average))


def _part(source: Source, after: int, limit: int) -> list[Told]:
    values: dict[str, Any] = {"tenant": source.tenant_id, "run": source.run.pk, "after": after}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sequence, body FROM runs_event WHERE tenant_id = %(tenant)s AND run_id = %(run)s"
            " AND sequence > %(after)s AND sequence <= %(through)s ORDER BY sequence LIMIT %(limit)s",
            values | {"through": source.through, "limit": limit},
        )
        first = cursor.fetchall()
        if not first:
            return []
        cursor.execute(
            "SELECT sequence, body FROM runs_eventcopy WHERE tenant_id = %(tenant)s AND run_id = %(run)s"
            " AND sequence > %(after)s AND sequence <= %(last)s ORDER BY sequence, received_at, digest",
            values | {"last": first[-1][0]},
        )
        further: dict[int, list[str]] = {}
        for sequence, body in cursor.fetchall():
            further.setdefault(sequence, []).append(body)
    return [
        Told(sequence, text, is_first)
        for sequence, body in first
        for text, is_first in ((body, True), *((copy, False) for copy in further.get(sequence, ())))
    ]


_BREAK = re.compile("[\r\n]+")


def one_line(told: Told, run_id: str) -> bytes:
    """Outside of its strings JSON may have line breaks, which mean nothing; inside of them it has none (RFC 8259,
    section 7)."""
    return with_run_id(_BREAK.sub(" ", told.text).encode(), run_id)


def _ndjson(source: Source) -> Iterator[bytes]:
    for part in log_of(source):
        yield b"".join(one_line(told, source.run.run_id) + b"\n" for told in part)


# --- the debug bundle ---


def _bundle(source: Source) -> Iterator[bytes]:
    """By the spec's shape, so that its last members can count what went before."""
    yield b'{"bundleVersion":"1","host":' + orjson.dumps({"name": source.run.host, "version": f"openwop-ui {VERSION}"})
    yield b',"run":' + _lossless(_snapshot(source.run)) + b',"events":['
    count, joint = 0, b""
    for part in log_of(source):
        yield joint + b",".join(one_line(told, source.run.run_id) for told in part)
        count, joint = count + len(part), b","
    yield b'],"spans":[],"metrics":' + orjson.dumps({"eventCount": count}) + b"," + _ending(source) + b"}\n"


def _ending(source: Source) -> bytes:
    """Whether something in it is not as the host sent it, and whether the log that we have is whole."""
    with tenant_scope(source.tenant_id):
        reason = _truncated(source)
    missing = source.run.expected - source.run.events
    if not reason and missing:
        reason = f"{missing} of {source.run.expected} events have not come"
    redacted = bool(source.run.leaks)
    told: dict[str, Any] = {"redactionApplied": redacted, "redactionMode": "hash" if redacted else "passthrough"}
    told |= {"truncated": bool(reason)} | ({"truncatedReason": reason} if reason else {})
    return orjson.dumps(told)[1:-1]


def _truncated(source: Source) -> str:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT truncated FROM runs_run WHERE tenant_id = %s AND id = %s", [source.tenant_id, source.run.pk]
        )
        row = cursor.fetchone()
    return row[0] if row else ""


def _snapshot(run: RunFacts) -> dict[str, Any]:
    """In the first major's words, with the lineage as the reference app spells it."""
    told: dict[str, Any] = {"runId": run.run_id, "workflowId": run.workflow or "", "status": run.status}
    told |= {"startedAt": moment(run.started_at)} if run.started_at else {}
    told |= {"endedAt": moment(run.ended_at)} if run.ended_at else {}
    if not run.parent_run_id:
        return told
    told |= {"parentRunId": run.parent_run_id}
    told |= {"parentSeq": run.parent_sequence} if run.parent_sequence is not None else {}
    return told | ({"forkMode": run.relation} if run.relation in ("replay", "branch") else {})


def _lossless(members: dict[str, Any]) -> bytes:
    """An id may hold a lone surrogate, which has no UTF-8 form: as an escape."""
    return exact_json.dumps(members)


register(
    Export(
        "ndjson", "Events", "ascending, one a line, as the host sent them", "application/x-ndjson", "ndjson", _ndjson
    )
)
register(
    Export(
        "bundle", "Debug bundle", "the events and what is known of the run", "application/json", "bundle.json", _bundle
    )
)
