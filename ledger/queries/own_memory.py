"""What `list` and `get` of the memory contract answer: entries that are kept here, and those seen of a host's.

The rules are `domain.snapshot_rule`'s, here in the database's words: newest first, visible as of one moment. Nothing is
done to what is read: secrets were taken out when it was put.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from runs.domain.projection import unproject
from runs.domain.storable import original, storable
from runs.models import Host

from ..domain.reading import Address, entry_id, scope_id
from ..domain.snapshot_rule import MAX_PAGE
from .paging import Keyset, Order, Row, moment, page_of, rows_of


@dataclass(frozen=True, slots=True)
class MemoryEntryRow:
    """An entry as the protocol gives one."""

    id: str
    content: str
    tags: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class MemoryList:
    rows: tuple[MemoryEntryRow, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class NamedRun:
    """``pk`` is None for a run of a known host that nothing has been heard of yet."""

    pk: int | None
    host_pk: int
    run_id: str


@dataclass(frozen=True, slots=True)
class Visible:
    """As of which moment entries are seen, None for now; a run does not see what it wrote itself."""

    at: datetime | None = None
    host_pk: int | None = None
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class Act:
    """What was done with an entry here, when, and by whom: the name of a key or of a person, with the writer that a key
    speaks for."""

    what: str
    at: datetime
    by: str
    writer: str
    run: str
    redacted: tuple[str, ...]


class ManyRuns(ValueError):
    """Runs of several hosts have this id: it has to be said as host/run."""


def named_run(tenant_id: int, name: str) -> NamedRun | None:
    """``name`` is a run's id, or its host's slug, a slash and its id. Raises ManyRuns."""
    found = rows_of(
        "SELECT r.id, h.id FROM runs_host h"
        " JOIN runs_run r ON r.tenant_id = h.tenant_id AND r.host_id = h.id AND r.run_id = %s"
        " WHERE h.tenant_id = %s ORDER BY h.id LIMIT 2",
        [storable(name), tenant_id],
    )
    if len(found) > 1:
        raise ManyRuns(name)
    if found:
        return NamedRun(found[0][0], found[0][1], name)
    slug, _, rest = name.partition("/")
    host = Host.objects.filter(tenant_id=tenant_id, slug=slug).first() if rest and slug.isascii() else None
    return None if host is None else _of_host(tenant_id, host.pk, rest)


def _of_host(tenant_id: int, host: int, segment: str) -> NamedRun:
    """A run's id as it is, or as its address has it."""
    ids = [segment]
    with suppress(ValueError):
        ids.append(unproject(segment))
    found = rows_of(
        "SELECT id, run_id FROM runs_run WHERE tenant_id = %s AND host_id = %s AND run_id = ANY (%s) ORDER BY id",
        [tenant_id, host, [storable(one) for one in ids]],
    )
    return NamedRun(found[0][0], host, original(found[0][1])) if found else NamedRun(None, host, ids[-1])


_BY_AGE = Order(
    columns=(("f.created_at", "timestamptz"), ('f.memory_id COLLATE "C"', "text")),
    write=lambda row: [row[3].isoformat(), row[0]],
    read=lambda place: (moment(place[0]), _text(place[1])),
)


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError("no id")
    return value


_KEPT = """
    SELECT p.memory_id, o.content, p.tags, p.created_at, p.expires_at
    FROM ledger_ownput p
    JOIN ledger_observation o ON o.tenant_id = p.tenant_id AND o.entry_id = p.entry_id AND o.number = 1
    LEFT JOIN ledger_owndelete d ON d.tenant_id = p.tenant_id AND d.entry_id = p.entry_id
    WHERE p.tenant_id = %(tenant)s AND {which}
        AND p.created_at <= {at} AND (p.expires_at IS NULL OR p.expires_at > {at})
        AND (d.deleted_at IS NULL OR d.deleted_at > {at})
        AND o.content IS NOT NULL -- else it was erased
        AND (%(run)s = '' OR p.run_host_id IS DISTINCT FROM %(run_host)s::bigint OR p.run_id <> %(run)s)
"""
# The newest look that there was at that moment says what the entry held then.
_SEEN = """
    SELECT e.memory_id, o.content, o.tags, coalesce(o.created_at_reported, first.observed_at) AS created_at,
        o.expires_at
    FROM ledger_memoryentry e
    JOIN ledger_observation first ON first.tenant_id = e.tenant_id AND first.entry_id = e.id AND first.number = 1
    CROSS JOIN LATERAL (
        SELECT l.* FROM ledger_observation l
        WHERE l.tenant_id = e.tenant_id AND l.entry_id = e.id AND coalesce(l.recorded_at, l.observed_at) <= {at}
        ORDER BY l.number DESC LIMIT 1) o
    WHERE e.tenant_id = %(tenant)s AND {which} AND o.content IS NOT NULL
        AND (o.expires_at IS NULL OR o.expires_at > {at})
"""
_NOW = "coalesce(%(at)s::timestamptz, statement_timestamp())"


def memory_list(
    tenant_id: int,
    host: int,
    memory_ref: str,
    *,
    is_own: bool,
    visible: Visible = Visible(),  # noqa: B008 - frozen
    tag: str | None = None,
    limit: int = 0,
    cursor: str | None = None,
) -> MemoryList:
    """``limit`` 0 asks for no limit: a page is as long as one may be, and the cursor leads on. Raises BrokenCursor."""
    which = "p.scope_id = %(scope)s" if is_own else "e.scope_id = %(scope)s"
    values = {
        **_values(tenant_id, visible),
        "scope": scope_id(host, storable(memory_ref)),
        "tag": None if tag is None else storable(tag),
    }

    def read(page: Keyset) -> list[Row]:
        return rows_of(
            f"SELECT f.* FROM ({_source(which, is_own=is_own)}) AS f"  # noqa: S608 - constants
            f" WHERE (%(tag)s::text IS NULL OR %(tag)s = ANY (f.tags)) {page.condition} {page.order} LIMIT %(most)s",
            {**values, **page.values},
        )

    page, found = page_of(read, _BY_AGE, min(limit or MAX_PAGE, MAX_PAGE), before=cursor, after=None)
    shown, _, older = page.cut(found)
    return MemoryList(tuple(map(_row, shown)), older)


def memory_entry(
    tenant_id: int,
    host: int,
    memory_ref: str,
    memory_id: str,
    *,
    is_own: bool,
    visible: Visible = Visible(),  # noqa: B008 - frozen
) -> MemoryEntryRow | None:
    """None for what is unknown, expired or deleted alike."""
    entry: UUID = entry_id(host, Address(storable(memory_ref), storable(memory_id)))
    which = "p.entry_id = %(entry)s" if is_own else "e.id = %(entry)s"
    found = rows_of(_source(which, is_own=is_own), {**_values(tenant_id, visible), "entry": entry})
    return _row(found[0]) if found else None


def acts_of(tenant_id: int, entry: UUID) -> tuple[Act, ...]:
    """The last one first; none for an entry of a host."""
    found = rows_of(
        """
        SELECT 'deleted', deleted_at AS at, key_name, writer, '', '{}'::text[] FROM ledger_owndelete
        WHERE tenant_id = %(tenant)s AND entry_id = %(entry)s
        UNION ALL
        SELECT 'put', created_at, key_name, writer, run_id, redacted FROM ledger_ownput
        WHERE tenant_id = %(tenant)s AND entry_id = %(entry)s
        ORDER BY at DESC
        """,
        {"tenant": tenant_id, "entry": entry},
    )
    return tuple(
        Act(what, at, original(by), writer, original(run), tuple(redacted))
        for what, at, by, writer, run, redacted in found
    )


def _source(which: str, *, is_own: bool) -> str:
    return (_KEPT if is_own else _SEEN).format(which=which, at=_NOW)


def _values(tenant_id: int, visible: Visible) -> dict[str, Any]:
    return {
        "tenant": tenant_id,
        "at": visible.at,
        "run_host": visible.host_pk,
        "run": storable(visible.run_id),
    }


def _row(row: Row) -> MemoryEntryRow:
    memory_id, content, tags, created_at, expires_at = row
    return MemoryEntryRow(original(memory_id), original(content), tuple(map(original, tags)), created_at, expires_at)
