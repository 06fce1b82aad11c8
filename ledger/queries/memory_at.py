"""Memory as it was at one event of a run: what the run had written, what there was when it started, what had expired.

Times are those that hosts report. What was there then is told from what is known now: an entry counts from the first
word of it, and as gone from when it was found so. Content that may not be shown now is not shown as it was then either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone

from runs.domain.storable import original

from .paging import Keyset, Order, Row, moment, page_of, rows_of, uuid, whole_number
from .repeats import IS_REPEAT
from .rows import OVER, TAGS, maybe, originals

PAGE = 50
COUNTED = 10_000
"""Entries that were there are counted up to here."""
EXCERPT = 300
DEEPEST = 64
"""Replays of replays are followed up to here."""
SAME_START = ("replay", "fork")
"""A replay reads what its source read; so does a fork of which nobody says what it is."""
OWN_HOST = "openwop-ui"


@dataclass(frozen=True, slots=True)
class Beginning:
    """The moment whose memory a run reads. ``of_run_id`` is the run that started then, where it is another one."""

    at: datetime
    run: int
    host: int
    of_run_id: str | None


@dataclass(frozen=True, slots=True)
class WrittenRow:
    """One write of the run. ``memory_ref`` and ``memory_id`` are empty where the host masked or dropped them."""

    sequence: int
    at: datetime
    node: str | None
    agent: str | None
    host: str
    memory_ref: str
    memory_id: str
    tags: tuple[str, ...]
    expired_at: datetime | None
    is_repeat: bool


@dataclass(frozen=True, slots=True)
class EntryThen:
    """An entry as it was. The last write of it then was by ``node`` at ``sequence`` of ``run_id``, where an event told
    of one. ``hidden`` says why its content is not shown, "" where it is or where none was known then."""

    host: str
    memory_ref: str
    memory_id: str
    since: datetime
    run_host: str | None
    run_id: str | None
    sequence: int | None
    node: str | None
    agent: str | None
    tags: tuple[str, ...]
    excerpt: str | None
    is_cut: bool
    seen_at: datetime | None
    hidden: str
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Listed:
    """``total`` is at least that where ``is_more``. ``older`` asks for those after."""

    written: tuple[WrittenRow, ...] = ()
    entries: tuple[EntryThen, ...] = ()
    total: int = 0
    is_more: bool = False
    older: str | None = None


@dataclass(frozen=True, slots=True)
class MemoryAt:
    """``behind`` is how far the ledger has read this run's log, where that is not as far as the event."""

    beginning: Beginning | None
    moment: datetime | None
    written: Listed
    existing: Listed
    expired: Listed
    behind: int | None


NOTHING = Listed()


def memory_at(
    tenant_id: int,
    run: int,
    at: int,
    *,
    moment_of_event: datetime | None,
    section: str = "",
    cursor: str | None = None,
    limit: int = PAGE,
) -> MemoryAt:
    """Of all three parts, or of the one that ``section`` names (written, existing, expired). Raises BrokenCursor."""
    beginning = _beginning(tenant_id, run)
    asked: dict[str, Any] = {"tenant": tenant_id, "run": run, "at": at, "own": OWN_HOST, "then": moment_of_event}
    if beginning is not None:
        asked |= {"start": beginning.at, "host": beginning.host, "reader": beginning.run}

    def wanted(name: str) -> bool:
        return section in ("", name)

    def place(name: str) -> str | None:
        return cursor if section == name else None

    return MemoryAt(
        beginning=beginning,
        moment=moment_of_event,
        written=_written(asked, place("written"), limit) if wanted("written") else NOTHING,
        existing=_existing(asked, place("existing"), limit) if beginning and wanted("existing") else NOTHING,
        expired=_expired(asked, limit) if beginning and moment_of_event and wanted("expired") else NOTHING,
        behind=_behind(tenant_id, run, at),
    )


def _beginning(tenant_id: int, run: int) -> Beginning | None:
    """Noted where a run has asked for its snapshot; else the start of the run, or of the one that it replays."""
    noted = rows_of(
        "SELECT s.taken_at, s.of_run_id, r.host_id, r.run_id FROM ledger_runsnapshot s"
        " JOIN runs_run r ON r.tenant_id = s.tenant_id AND r.id = s.of_run_id"
        " WHERE s.tenant_id = %s AND s.run_id = %s",
        [tenant_id, run],
    )
    if noted:
        at, of_run, host, run_id = noted[0]
        return Beginning(at, of_run, host, None if of_run == run else original(run_id))
    found = rows_of(
        """
        WITH RECURSIVE line AS (
            SELECT r.*, 0 AS depth FROM runs_run r WHERE r.tenant_id = %(tenant)s AND r.id = %(run)s
            UNION ALL
            SELECT s.*, l.depth + 1 FROM line l JOIN runs_run s ON s.tenant_id = l.tenant_id
                AND s.host_id = l.host_id AND s.run_id = l.parent_run_id
            WHERE l.relation = ANY (%(same)s) AND l.parent_run_id <> '' AND l.depth < %(deepest)s)
        SELECT least(started_at, first_received_at), id, host_id, run_id FROM line ORDER BY depth DESC LIMIT 1
        """,
        {"tenant": tenant_id, "run": run, "same": list(SAME_START), "deepest": DEEPEST},
    )
    if not found or found[0][0] is None:
        return None
    at, of_run, host, run_id = found[0]
    return Beginning(at, of_run, host, None if of_run == run else original(run_id))


def _behind(tenant_id: int, run: int, at: int) -> int | None:
    found = rows_of(
        "SELECT read_beyond FROM ledger_readingcursor WHERE tenant_id = %s AND run_id = %s", [tenant_id, run]
    )
    read = found[0][0] if found else -1
    return None if read >= at else read


# --- what the run had written ---

_BY_SEQUENCE = Order(
    columns=(("w.sequence", "bigint"),),
    write=lambda row: [row[0]],
    read=lambda place: (whole_number(place[0]),),
)


def _written(asked: dict[str, Any], cursor: str | None, limit: int) -> Listed:
    page, found = page_of(lambda page: _write_rows(asked, page), _BY_SEQUENCE, limit, before=cursor, after=None)
    shown, _, older = page.cut(found)
    ((total,),) = rows_of(
        "SELECT count(*) FROM ledger_memorywrite WHERE tenant_id = %(tenant)s AND run_id = %(run)s"
        " AND sequence <= %(at)s",
        asked,
    )
    return Listed(written=tuple(_written_row(row) for row in shown), total=total, older=older)


def _write_rows(asked: dict[str, Any], page: Keyset) -> list[Row]:
    return rows_of(
        f"""
        SELECT w.sequence, w.occurred_at, w.node_id, w.agent_id, coalesce(h.slug, ''), e.memory_ref, e.memory_id,
            w.tags[1:{TAGS}], CASE WHEN s.expires_at <= %(then)s THEN s.expires_at END, {IS_REPEAT}
        FROM (SELECT w.* FROM ledger_memorywrite w
            WHERE w.tenant_id = %(tenant)s AND w.run_id = %(run)s AND w.sequence <= %(at)s {page.condition}
            {page.order} LIMIT %(most)s) AS w
        LEFT JOIN ledger_memoryentry e ON e.tenant_id = w.tenant_id AND e.id = w.entry_id
        LEFT JOIN runs_host h ON h.tenant_id = e.tenant_id AND h.id = e.host_id
        LEFT JOIN ledger_contentstate s ON s.tenant_id = w.tenant_id AND s.entry_id = w.entry_id
        {page.order}
        """,  # noqa: S608 - constants
        {**asked, **page.values},
    )


def _written_row(row: Sequence[Any]) -> WrittenRow:
    sequence, at, node, agent, host, ref, memory_id, tags, expired_at, is_repeat = row
    return WrittenRow(
        sequence=sequence,
        at=at,
        node=maybe(node),
        agent=maybe(agent),
        host=host,
        memory_ref=original(ref or ""),
        memory_id=original(memory_id or ""),
        tags=originals(tags),
        expired_at=expired_at,
        is_repeat=is_repeat,
    )


# --- what there was when the run started, and what had expired ---

# On the run's host, and what is kept here for whoever asks. What the run alone has written it had not seen.
_THERE = """
    e.tenant_id = %(tenant)s AND e.first_at <= %(start)s
    AND (e.host_id = %(host)s OR e.host_id = (
        SELECT h.id FROM runs_host h WHERE h.tenant_id = %(tenant)s AND h.slug = %(own)s))
    AND (e.last_run_id IS NULL OR e.last_run_id <> %(reader)s OR EXISTS (
        SELECT FROM ledger_memorywrite w WHERE w.tenant_id = e.tenant_id AND w.entry_id = e.id
            AND w.run_id <> %(reader)s AND w.occurred_at <= %(start)s))
    AND NOT EXISTS (
        SELECT FROM ledger_contentstate s WHERE s.tenant_id = e.tenant_id AND s.entry_id = e.id
            AND s.expires_at <= %(start)s AND s.outcome IN ('content', 'gone'))
    AND coalesce((
        SELECT o.outcome FROM ledger_observation o WHERE o.tenant_id = e.tenant_id AND o.entry_id = e.id
            AND o.observed_at <= %(start)s ORDER BY o.number DESC LIMIT 1), 'content') = 'content'
"""
_BY_FIRST = Order(
    columns=(("e.first_at", "timestamptz"), ("e.id", "uuid")),
    write=lambda row: [row[1].isoformat(), str(row[0])],
    read=lambda place: (moment(place[0]), uuid(place[1])),
)


def _existing(asked: dict[str, Any], cursor: str | None, limit: int) -> Listed:
    page, found = page_of(
        lambda page: _then_rows(f"{_THERE} {page.condition} {page.order} LIMIT %(most)s", {**asked, **page.values}),
        _BY_FIRST,
        limit,
        before=cursor,
        after=None,
    )
    shown, _, older = page.cut(found)
    total = len(shown) if cursor is None and older is None else _count(_THERE, asked)
    return Listed(
        entries=tuple(_entry_then(row) for row in shown),
        total=min(total, COUNTED),
        is_more=total > COUNTED,
        older=older,
    )


_OVER = """
    e.tenant_id = %(tenant)s AND EXISTS (
        SELECT FROM ledger_contentstate s WHERE s.tenant_id = e.tenant_id AND s.entry_id = e.id
            AND s.expires_at > %(start)s AND s.expires_at <= %(then)s AND s.outcome IN ('content', 'gone'))
    AND (e.host_id = %(host)s OR e.host_id = (
        SELECT h.id FROM runs_host h WHERE h.tenant_id = %(tenant)s AND h.slug = %(own)s))
    AND (e.first_at <= %(start)s OR EXISTS (
        SELECT FROM ledger_memorywrite w WHERE w.tenant_id = e.tenant_id AND w.entry_id = e.id
            AND w.run_id = %(run)s AND w.sequence <= %(at)s))
"""


def _expired(asked: dict[str, Any], limit: int) -> Listed:
    """Between the start and the event: of what there was and what the run had written."""
    found = _then_rows(f"{_OVER} ORDER BY e.first_at DESC, e.id DESC LIMIT %(most)s", {**asked, "most": limit})
    total = len(found) if len(found) < limit else _count(_OVER, asked)
    return Listed(entries=tuple(_entry_then(row) for row in found), total=min(total, COUNTED), is_more=total > COUNTED)


def _count(condition: str, asked: dict[str, Any]) -> int:
    ((count,),) = rows_of(
        f"SELECT count(*) FROM (SELECT FROM ledger_memoryentry e WHERE {condition} LIMIT %(counted)s) AS counted",
        {**asked, "counted": COUNTED + 1},
    )
    return int(count)


def _then_rows(chosen: str, values: dict[str, Any]) -> list[Row]:
    """Entries with their last write and what was seen of them, as of the start."""
    return rows_of(
        f"""
        SELECT e.id, e.first_at, h.slug, e.memory_ref, e.memory_id, l.slug, l.run, l.sequence, l.node_id, l.agent_id,
            l.tags, o.excerpt, o.characters, o.observed_at, o.looks_secret, o.tags, s.outcome, s.expires_at
        FROM (SELECT e.* FROM ledger_memoryentry e WHERE {chosen}) AS e
        JOIN runs_host h ON h.tenant_id = e.tenant_id AND h.id = e.host_id
        LEFT JOIN LATERAL (
            SELECT w.sequence, w.node_id, w.agent_id, w.tags[1:{TAGS}] AS tags, r.run_id AS run, wh.slug
            FROM ledger_memorywrite w
            JOIN runs_run r ON r.tenant_id = w.tenant_id AND r.id = w.run_id
            JOIN runs_host wh ON wh.tenant_id = r.tenant_id AND wh.id = r.host_id
            WHERE w.tenant_id = e.tenant_id AND w.entry_id = e.id AND w.occurred_at <= %(start)s
            ORDER BY w.occurred_at DESC, w.run_id DESC, w.sequence DESC LIMIT 1) l ON true
        LEFT JOIN LATERAL (
            SELECT left(o.content, {EXCERPT}) AS excerpt, char_length(o.content) AS characters, o.observed_at,
                o.looks_secret, o.tags
            FROM ledger_observation o
            WHERE o.tenant_id = e.tenant_id AND o.entry_id = e.id AND o.observed_at <= %(start)s
                AND o.outcome = 'content'
            ORDER BY o.number DESC LIMIT 1) o ON true
        LEFT JOIN ledger_contentstate s ON s.tenant_id = e.tenant_id AND s.entry_id = e.id
        ORDER BY e.first_at DESC, e.id DESC
        """,  # noqa: S608 - constants
        values,
    )


def _entry_then(row: Sequence[Any]) -> EntryThen:
    _, since, host, ref, memory_id, run_host, run_id, sequence, node, agent, tags = row[:11]
    excerpt, characters, seen_at, looks_secret, seen_tags, outcome, expires_at = row[11:]
    hidden = _why_hidden(outcome, expires_at, looks_secret=bool(looks_secret)) if seen_at else ""
    return EntryThen(
        host=host,
        memory_ref=original(ref),
        memory_id=original(memory_id),
        since=since,
        run_host=run_host,
        run_id=maybe(run_id),
        sequence=sequence,
        node=maybe(node),
        agent=maybe(agent),
        tags=originals(tags if tags is not None else seen_tags),
        excerpt=None if hidden or excerpt is None else original(excerpt),
        is_cut=characters is not None and characters > EXCERPT,
        seen_at=seen_at,
        hidden=hidden,
        expires_at=expires_at,
    )


def _why_hidden(outcome: str | None, expires_at: datetime | None, *, looks_secret: bool) -> str:
    if outcome in OVER:
        return f"{outcome} since"
    if expires_at is not None and expires_at <= timezone.now():
        return "its time is past"
    return "it looks like a key" if looks_secret else ""
