"""Keeps what was seen of entries, and says which of them are to be looked at. The only writer of both.

An observation is added and never changed; one that says what the last one says is only noted in the entry's state.
Entries that no event names come to be here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from django.utils import timezone

from openwop_ui.live.announce import announce
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.storable import original, storable
from runs.store import HostRef

from .domain.memory_batch import Batch
from .domain.observing import Said, Sight, next_look
from .domain.reading import Address, entry_id
from .models import ContentState, Observation
from .store import Observed, add_observed, share_keeping, share_observing

Source = Observation.Source
Urgency = ContentState.Urgency

PATIENCE = "20s"
"""How long adding observations waits for rows that somebody else holds: while a ledger is rebuilt, mostly."""

CLAIM = timedelta(minutes=2)
"""For so long nobody else is given an entry that somebody went to read."""

LEDGER: dict[str, int | None] = {"ledger": None}


@dataclass(frozen=True, slots=True)
class Look:
    """An entry of one host and what was found at its address."""

    memory_ref: str
    memory_id: str
    sight: Sight


@dataclass(frozen=True, slots=True)
class Kept:
    """``changed`` looks found something new, ``same`` what was known, and ``late`` ones were begun before the last."""

    changed: int = 0
    same: int = 0
    late: int = 0


@dataclass(frozen=True, slots=True)
class Due:
    """An entry that is to be read. ``failures`` are the attempts in a row that brought nothing."""

    entry: UUID
    memory_ref: str
    memory_id: str
    failures: int


@dataclass(slots=True)
class _Known:
    number: int
    said: Said | None
    expires_at: datetime | None
    seen_at: datetime | None
    unchanged: int
    had_error: bool

    def is_settled_after(self, at: datetime) -> bool:
        """A look that was begun at ``at`` says nothing any more: it was overtaken, or the entry was erased here."""
        is_erased = self.said is not None and self.said.outcome == "erased"
        return is_erased or (self.seen_at is not None and at < self.seen_at)


def observe(*, tenant_id: int, host_id: int, looks: Sequence[Look], source: Source, at: datetime | None = None) -> Kept:
    """Takes over what was found, all of it or nothing. Of an address that comes twice the first look counts.

    ``at`` is when the looking began: one that was overtaken by another says nothing about now, and is left aside.
    """
    at = at or timezone.now()
    found: dict[UUID, tuple[Address, Sight]] = {}
    for look in looks:
        address = Address(storable(look.memory_ref), storable(look.memory_id))
        found.setdefault(entry_id(host_id, address), (address, look.sight))
    if not found:
        return Kept()
    with tenant_scope(tenant_id, durable=True):
        return observe_in_scope(tenant_id, host_id, dict(sorted(found.items())), source, at)


def take_batch(host: HostRef, batch: Batch, *, source: Source, at: datetime | None = None) -> Kept:
    """The same for entries that somebody hands in."""
    looks = [Look(batch.memory_ref, entry.id, Sight.of(entry)) for entry in batch.entries]
    return observe(tenant_id=host.tenant_id, host_id=host.id, looks=looks, source=source, at=at)


def begin_observing(tenant_id: int) -> None:
    """To be called before rows are locked, and before the time is taken that they are going to have."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [PATIENCE])
    share_observing(tenant_id)
    share_keeping(tenant_id)


def observe_in_scope(
    tenant_id: int, host_id: int, found: dict[UUID, tuple[Address, Sight]], source: Source, at: datetime
) -> Kept:
    """The same within the caller's transaction. The addresses are in their stored form, the entries in order."""
    begin_observing(tenant_id)
    add_observed(tenant_id, [Observed(host_id, address, sight.created_at or at) for address, sight in found.values()])
    known = _known(tenant_id, host_id, list(found))
    timely = {entry: sight for entry, (_, sight) in found.items() if not known[entry].is_settled_after(at)}
    changed = {entry: sight for entry, sight in timely.items() if known[entry].said != _storable(sight.said)}
    _add(tenant_id, host_id, {entry: (found[entry][0], sight) for entry, sight in changed.items()}, known, source, at)
    _note(tenant_id, timely, set(changed), known, at)
    if changed or any(known[entry].had_error for entry in timely):
        announce(tenant_id, LEDGER)
    return Kept(changed=len(changed), same=len(timely) - len(changed), late=len(found) - len(timely))


def _storable(said: Said) -> Said:
    return Said(said.outcome, said.digest, tuple(map(storable, said.tags)), said.created_at, said.expires_at)


def _known(tenant_id: int, host_id: int, entries: list[UUID]) -> dict[UUID, _Known]:
    """How the entries stand, which nobody else changes from here on."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO ledger_contentstate (tenant_id, entry_id, host_id, number, unchanged, urgency, failures, error)
            SELECT %s, n, %s, 0, 0, %s, 0, '' FROM unnest(%s::uuid[]) n ON CONFLICT (tenant_id, entry_id) DO NOTHING
            """,
            [tenant_id, host_id, Urgency.BACKLOG, entries],
        )
        cursor.execute(
            """
            SELECT s.entry_id, s.number, s.expires_at, s.seen_at, s.unchanged, s.failures > 0,
                o.outcome, o.digest, o.tags, o.created_at_reported, o.expires_at
            FROM ledger_contentstate s
            LEFT JOIN ledger_observation o
                ON o.tenant_id = s.tenant_id AND o.entry_id = s.entry_id AND o.number = s.number
            WHERE s.tenant_id = %s AND s.entry_id = ANY (%s::uuid[])
            ORDER BY s.entry_id FOR UPDATE OF s
            """,
            [tenant_id, entries],
        )
        return {row[0]: _known_row(*row[1:]) for row in cursor.fetchall()}


def _known_row(
    number: int,
    expires_at: datetime | None,
    seen_at: datetime | None,
    unchanged: int,
    had_error: bool,
    outcome: str | None,
    digest: memoryview | bytes | None,
    tags: list[str] | None,
    created_at: datetime | None,
    expires_at_said: datetime | None,
) -> _Known:
    said = None
    if outcome is not None:
        known_digest = None if digest is None else bytes(digest)
        said = Said(outcome, known_digest, tuple(tags or ()), created_at, expires_at_said)
    return _Known(number, said, expires_at, seen_at, unchanged, had_error)


def _add(
    tenant_id: int,
    host_id: int,
    changed: dict[UUID, tuple[Address, Sight]],
    known: dict[UUID, _Known],
    source: Source,
    at: datetime,
) -> None:
    # Django's own, since the rows are few and wide. None of it ends up in a message: there is nothing to violate.
    Observation.objects.bulk_create(
        [
            Observation(
                tenant_id=tenant_id,
                entry_id=entry,
                number=known[entry].number + 1,
                host_id=host_id,
                memory_ref=address.memory_ref,
                memory_id=address.memory_id,
                outcome=sight.outcome,
                source=source,
                observed_at=at,
                unchanged_until=known[entry].seen_at,
                content=None if sight.content is None else storable(sight.content),
                digest=sight.digest,
                tags=[storable(tag) for tag in sight.tags],
                created_at_reported=sight.created_at,
                expires_at=sight.expires_at,
                redactions=sight.redactions,
                looks_secret=sight.looks_secret,
                detail=storable(sight.detail),
            )
            for entry, (address, sight) in changed.items()
        ],
        batch_size=500,
    )
    _have_read(tenant_id, [(entry, known[entry].number + 1) for entry in changed])


def _have_read(tenant_id: int, added: Sequence[tuple[UUID, int]]) -> None:
    """What an entry says now is read for claims, in the background."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO ledger_unreadentry (tenant_id, entry_id, number)"
            " SELECT %s, n.* FROM unnest(%s::uuid[], %s::int[]) AS n ON CONFLICT DO NOTHING",
            [tenant_id, [entry for entry, _ in added], [number for _, number in added]],
        )


def _note(
    tenant_id: int, sights: dict[UUID, Sight], changed: set[UUID], known: dict[UUID, _Known], at: datetime
) -> None:
    """Brings the states up to the newest observation."""
    rows = [_state_row(entry, sight, entry in changed, known[entry], at) for entry, sight in sights.items()]
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE ledger_contentstate s SET number = n.number, outcome = n.outcome,
                -- What was seen of an entry that is gone stays, unless it had a time after which to hide it.
                excerpt = CASE WHEN n.outcome = 'content' THEN n.excerpt
                    WHEN n.outcome = 'gone' AND s.expires_at IS NULL THEN s.excerpt END,
                expires_at = n.expires_at, seen_at = %s, unchanged = n.unchanged, urgency = %s, next_at = n.next_at,
                failures = 0, error = '', error_at = NULL
            FROM unnest(%s::uuid[], %s::int[], %s::text[], %s::text[], %s::timestamptz[], %s::int[],
                %s::timestamptz[]) AS n (entry_id, number, outcome, excerpt, expires_at, unchanged, next_at)
            WHERE s.tenant_id = %s AND s.entry_id = n.entry_id
            """,
            [at, Urgency.AGAIN, *([list(column) for column in zip(*rows, strict=True)] or [[]] * 7), tenant_id],
        )


def _state_row(entry: UUID, sight: Sight, is_new: bool, known: _Known, at: datetime) -> tuple[Any, ...]:
    # What is taken away before its time has not expired: the time is forgotten.
    kept = known.expires_at if known.expires_at is not None and known.expires_at <= at else None
    expires_at = sight.expires_at if sight.outcome == "content" else kept
    unchanged = 0 if is_new else known.unchanged + 1
    return (
        entry,
        known.number + is_new,
        sight.outcome,
        None if sight.excerpt is None else storable(sight.excerpt),
        expires_at,
        unchanged,
        next_look(unchanged, now=at, expires_at=expires_at) if sight.outcome in ("content", "gone") else None,
    )


# --- Which entries are to be read ---


def claim(*, tenant_id: int, host_id: int, most: int, now: datetime) -> list[Due]:
    """The entries of a host that are to be read now: those just written first, and unread ones before known ones.

    They are given to nobody else for a while; whoever took them says what became of each.
    """
    claimed: list[Due] = []
    with tenant_scope(tenant_id, durable=True):
        for urgency in Urgency:
            if len(claimed) < most:
                claimed += _claim(tenant_id, host_id, urgency, most - len(claimed), now)
    return claimed


def _claim(tenant_id: int, host_id: int, urgency: Urgency, most: int, now: datetime) -> list[Due]:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            -- Apart, so that it is worked out once: within a join it may be for each row, and its limit is none then.
            WITH due AS MATERIALIZED (
                SELECT d.entry_id, d.next_at, e.memory_ref, e.memory_id
                FROM ledger_contentstate d
                JOIN ledger_memoryentry e ON e.tenant_id = d.tenant_id AND e.id = d.entry_id
                WHERE d.tenant_id = %(tenant)s AND d.host_id = %(host)s AND d.urgency = %(urgency)s
                    AND d.next_at <= %(now)s
                    -- What was taken away here is not looked for, whatever events say of it.
                    AND (d.outcome IS NULL OR d.outcome IN ('content', 'gone'))
                ORDER BY d.next_at LIMIT %(most)s FOR UPDATE OF d SKIP LOCKED)
            UPDATE ledger_contentstate s SET next_at = %(until)s FROM due
            WHERE s.tenant_id = %(tenant)s AND s.entry_id = due.entry_id
            RETURNING due.next_at, s.entry_id, due.memory_ref, due.memory_id, s.failures
            """,
            {
                "tenant": tenant_id,
                "host": host_id,
                "urgency": urgency,
                "now": now,
                "until": now + CLAIM,
                "most": most,
            },
        )
        found = sorted(cursor.fetchall())
    return [Due(entry, original(ref), original(memory_id), failures) for _, entry, ref, memory_id, failures in found]


def failed(*, tenant_id: int, due: Due, error: str, at: datetime, retry_at: datetime) -> None:
    """Keeps why an entry could not be read, in words."""
    with tenant_scope(tenant_id, durable=True), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE ledger_contentstate SET failures = %s, error = %s, error_at = %s, next_at = %s"
            " WHERE tenant_id = %s AND entry_id = %s",
            [due.failures + 1, storable(error), at, retry_at, tenant_id, due.entry],
        )
        announce(tenant_id, LEDGER)


def put_back(*, tenant_id: int, entries: Iterable[UUID], until: datetime) -> None:
    """Gives back claimed entries that nobody tried to read."""
    with tenant_scope(tenant_id, durable=True), connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE ledger_contentstate s SET next_at = %(until)s
            FROM (SELECT entry_id FROM ledger_contentstate
                WHERE tenant_id = %(tenant)s AND entry_id = ANY (%(entries)s::uuid[])
                ORDER BY entry_id FOR UPDATE) AS held
            WHERE s.tenant_id = %(tenant)s AND s.entry_id = held.entry_id
            """,
            {"tenant": tenant_id, "entries": list(entries), "until": until},
        )


def retry_failed(*, tenant_id: int, host_id: int, now: datetime) -> None:
    """What could not be read so far is tried again at once: the host or the way to its memory is another one now."""
    with tenant_scope(tenant_id, durable=True), connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE ledger_contentstate s SET next_at = %(now)s
            FROM (SELECT entry_id FROM ledger_contentstate
                WHERE tenant_id = %(tenant)s AND host_id = %(host)s AND failures > 0
                ORDER BY entry_id FOR UPDATE) AS held
            WHERE s.tenant_id = %(tenant)s AND s.entry_id = held.entry_id
            """,
            {"tenant": tenant_id, "host": host_id, "now": now},
        )


def ask_for_backlog(
    *, tenant_id: int, host_id: int, after: UUID | None, now: datetime, most: int = 2000
) -> UUID | None:
    """Has the entries of a host that nobody has asked for read, in slices: ``after`` is the last entry of the slice
    before. None when there are no more."""
    with tenant_scope(tenant_id, durable=True), connection.cursor() as cursor:
        cursor.execute(
            """
            WITH slice AS (
                SELECT e.id, e.host_id FROM ledger_memoryentry e
                WHERE e.tenant_id = %(tenant)s AND e.id > %(after)s ORDER BY e.id LIMIT %(most)s),
            asked AS (
                INSERT INTO ledger_contentstate (tenant_id, entry_id, host_id, number, unchanged, urgency, next_at,
                    failures, error)
                SELECT %(tenant)s, id, host_id, 0, 0, %(backlog)s, %(now)s, 0, '' FROM slice
                WHERE host_id = %(host)s ORDER BY id
                ON CONFLICT (tenant_id, entry_id) DO UPDATE SET next_at = excluded.next_at
                    WHERE ledger_contentstate.outcome IS NULL AND ledger_contentstate.next_at IS NULL)
            SELECT count(*), (SELECT id FROM slice ORDER BY id DESC LIMIT 1) FROM slice
            """,
            {
                "tenant": tenant_id,
                "host": host_id,
                "after": after or UUID(int=0),
                "now": now,
                "backlog": Urgency.BACKLOG,
                "most": most,
            },
        )
        count, last = cursor.fetchone() or (0, None)
    return last if count == most else None
