"""What was seen of an entry: its content now, its contents then, and what was not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from runs.domain.memory_read import Inferred, infer
from runs.domain.storable import original, storable

from ..domain.observing import Part, compare_lines, parts_of
from .own_memory import Act, acts_of
from .paging import rows_of
from .rows import GONE, OVER, EntryFacts, originals

SHOWN = 100_000
"""Characters of an entry's content that its page shows."""
SHOWN_THEN = 20_000
"""The same for what it was before."""
OBSERVATIONS = 20
INFERRED = 10
"""Runs that tags name are looked for up to here."""


@dataclass(frozen=True, slots=True)
class ObservationRow:
    """An entry as it was found at ``observed_at``, and the same up to ``until`` at the least.

    ``content`` is None where the host gave none, for an entry that was gone, and where it ``is_hidden`` since its time
    is past; where it ``is_cut``, it is the beginning of ``characters``. ``changed`` says in words what differs from
    the observation before.
    """

    number: int
    outcome: str
    source: str
    observed_at: datetime
    until: datetime
    content: str | None
    characters: int | None
    is_cut: bool
    is_hidden: bool
    digest: str | None
    tags: tuple[str, ...]
    created_at: datetime | None
    expires_at: datetime | None
    redactions: int
    looks_secret: bool
    detail: str
    changed: tuple[str, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        return parts_of(self.content or "")


@dataclass(frozen=True, slots=True)
class EntryContent:
    """How an entry's content stands. ``shown`` is the newest observation that had it, ``rows`` are all of them, newest
    first, of ``total``; ``older`` asks for those before.

    ``gone_at`` is when it was first found gone, where it is. ``error`` is why the last attempt to read it failed; it
    says nothing about the entry. ``inferred`` is what its tags hint at, which is no more than that; ``known_runs`` are
    those of the runs named there that there are. ``acts`` are what was done with it here.
    """

    shown: ObservationRow | None
    rows: tuple[ObservationRow, ...]
    total: int
    older: int | None
    gone_at: datetime | None
    seen_at: datetime | None
    error: str
    error_at: datetime | None
    retry_at: datetime | None
    inferred: Inferred | None
    known_runs: frozenset[str]
    acts: tuple[Act, ...] = ()


@dataclass(frozen=True, slots=True)
class HostReading:
    """How far the memory of one host is read. ``failing`` entries could not be, the newest of them for ``error``."""

    entries: int
    seen: int
    gone: int
    failing: int
    seen_at: datetime | None
    error: str
    error_at: datetime | None
    retry_at: datetime | None


def entry_content(
    tenant_id: int, entry: EntryFacts, *, now: datetime, before: int | None = None, whole: bool = False
) -> EntryContent:
    """``before`` is the number of an observation; ``whole`` gives all of the newest content, however long."""
    looks = entry.looks
    found, ended = _page(tenant_id, entry, before)
    until = [ended, *(row[_UNCHANGED_UNTIL] for row in found)]
    is_over = entry.state in OVER
    rows = tuple(
        _row(row, older, end, now, is_over=is_over)
        for row, older, end in zip(found, [*found[1:], None], until, strict=False)
    )
    shown = _shown(tenant_id, entry, rows, now, is_over=is_over, whole=whole)
    listed = rows[:OBSERVATIONS]
    inferred = infer(shown.tags) if shown is not None and not shown.is_hidden else None
    return EntryContent(
        shown=shown,
        rows=listed,
        total=looks.total,
        older=listed[-1].number if len(rows) > OBSERVATIONS else None,
        gone_at=_found_at(tenant_id, entry.pk, looks.total) if entry.state == GONE else None,
        seen_at=looks.seen_at,
        error=looks.error,
        error_at=looks.error_at,
        retry_at=looks.next_at if looks.error and entry.is_read else None,
        inferred=inferred,
        known_runs=_known_runs(tenant_id, entry.host_pk, inferred.run_ids) if inferred else frozenset(),
        acts=acts_of(tenant_id, entry.pk) if looks.total else (),
    )


def _found_at(tenant_id: int, entry: UUID, number: int) -> datetime | None:
    found = rows_of(
        "SELECT observed_at FROM ledger_observation WHERE tenant_id = %s AND entry_id = %s AND number = %s",
        [tenant_id, entry, number],
    )
    return found[0][0] if found else None


def _known_runs(tenant_id: int, host: int, run_ids: Sequence[str]) -> frozenset[str]:
    found = rows_of(
        "SELECT run_id FROM runs_run WHERE tenant_id = %s AND host_id = %s AND run_id = ANY (%s)",
        [tenant_id, host, [storable(run_id) for run_id in run_ids[:INFERRED]]],
    )
    return frozenset(original(run_id) for (run_id,) in found)


_COLUMNS = """o.number, o.outcome, o.source, o.observed_at, o.unchanged_until, left(o.content, %s),
    char_length(o.content), o.digest, o.tags, o.created_at_reported, o.expires_at, o.redactions, o.looks_secret,
    o.detail
"""
_UNCHANGED_UNTIL = 4


def _page(tenant_id: int, entry: EntryFacts, before: int | None) -> tuple[list[tuple[Any, ...]], datetime | None]:
    """The observations of a page and one older, from which the last one differs; and until when the first one held."""
    if before is None or not entry.looks.total:
        return _rows(tenant_id, entry, entry.looks.total, OBSERVATIONS + 1), entry.looks.seen_at
    found = _rows(tenant_id, entry, before, OBSERVATIONS + 2)
    return found[1:], found[0][_UNCHANGED_UNTIL] if found else None


def _rows(tenant_id: int, entry: EntryFacts, newest: int, limit: int) -> list[tuple[Any, ...]]:
    if not entry.looks.total:
        return []
    return rows_of(
        f"SELECT {_COLUMNS} FROM ledger_observation o"  # noqa: S608 - constants
        " WHERE o.tenant_id = %s AND o.entry_id = %s AND o.number <= %s ORDER BY o.number DESC LIMIT %s",
        [SHOWN_THEN, tenant_id, entry.pk, newest, limit],
    )


def _shown(
    tenant_id: int,
    entry: EntryFacts,
    rows: Sequence[ObservationRow],
    now: datetime,
    *,
    is_over: bool,
    whole: bool,
) -> ObservationRow | None:
    """The newest observation with content, with more of it than the list of all of them has."""
    newest = rows[0] if rows and rows[0].number == entry.looks.total else None
    if not entry.looks.total or (newest and newest.outcome == "content" and not newest.is_cut):
        return newest
    found = rows_of(
        f"SELECT {_COLUMNS} FROM ledger_observation o"  # noqa: S608 - constants
        " WHERE o.tenant_id = %s AND o.entry_id = %s AND o.outcome = 'content' ORDER BY o.number DESC LIMIT 1",
        [2**31 - 1 if whole else SHOWN, tenant_id, entry.pk],
    )
    if not found:
        return None
    known = next((row.until for row in rows if row.number == found[0][0]), None)
    return _row(found[0], None, known, now, is_over=is_over)


def _row(
    row: Sequence[Any], older: Sequence[Any] | None, until: datetime | None, now: datetime, *, is_over: bool
) -> ObservationRow:
    number, outcome, source, observed_at, _, content, characters, digest, tags, created_at, expires_at = row[:11]
    redactions, looks_secret, detail = row[11:]
    is_hidden = outcome == "content" and (is_over or (expires_at is not None and expires_at <= now))
    return ObservationRow(
        number=number,
        outcome=outcome,
        source=source,
        observed_at=observed_at,
        until=until or observed_at,
        content=None if content is None or is_hidden else original(content),
        characters=characters,
        is_cut=content is not None and len(content) < characters,
        is_hidden=is_hidden,
        digest=None if digest is None else bytes(digest).hex(),
        tags=originals(tags),
        created_at=created_at,
        expires_at=expires_at,
        redactions=redactions,
        looks_secret=looks_secret,
        detail=original(detail),
        changed=tuple(_changes(row, older)) if older is not None else (),
    )


_ENDS = {"gone": "no longer readable", "deleted": "deleted", "erased": "erased"}


def _changes(row: Sequence[Any], older: Sequence[Any]) -> list[str]:
    if row[1] != "content":
        return [_ENDS[row[1]]]
    if older[1] == "gone":
        return ["readable again"]
    told = [_text_change(row, older)] if bytes(row[7] or b"") != bytes(older[7] or b"") else []
    told += [name for name, at in (("tags", 8), ("time of creation", 9), ("expiry", 10)) if row[at] != older[at]]
    return told


def _text_change(row: Sequence[Any], older: Sequence[Any]) -> str:
    after, before = row[5], older[5]
    if after is None or before is None:
        return "no text any more" if after is None else "a text, where there was none"
    lines = compare_lines(before, after)
    is_cut = len(after) < row[6] or len(before) < older[6]
    where = f" in the first {SHOWN_THEN:,} characters" if is_cut else ""
    if not lines.added and not lines.removed:
        return f"text: the same lines{where or ' in another order'}"
    return f"text: {lines.added:,} line{'s' * (lines.added != 1)} added, {lines.removed:,} removed{where}"


def host_reading(tenant_id: int, host: int) -> HostReading:
    ((entries, seen, gone, failing, seen_at),) = rows_of(
        """
        SELECT (SELECT coalesce(sum(m.entry_count), 0)::bigint FROM ledger_memoryscope m
                WHERE m.tenant_id = %(tenant)s AND m.host_id = %(host)s),
            count(*) FILTER (WHERE s.outcome IS NOT NULL), count(*) FILTER (WHERE s.outcome = 'gone'),
            count(*) FILTER (WHERE s.failures > 0), max(s.seen_at)
        FROM ledger_contentstate s WHERE s.tenant_id = %(tenant)s AND s.host_id = %(host)s
        """,
        {"tenant": tenant_id, "host": host},
    )
    newest = rows_of(
        "SELECT error, error_at, next_at FROM ledger_contentstate"
        " WHERE tenant_id = %s AND host_id = %s AND failures > 0 ORDER BY error_at DESC, entry_id LIMIT 1",
        [tenant_id, host],
    )
    error, error_at, retry_at = newest[0] if newest else ("", None, None)
    return HostReading(entries, seen, gone, failing, seen_at, original(error), error_at, retry_at)
