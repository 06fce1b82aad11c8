"""Reads what entries of hosts say for claims, once their content is known: in the background, through the same door as
all other claims.

The writer is the host, which nobody gave authority. What an entry no longer says, and what it said when it is gone, is
taken back in the host's name: the entry itself is where it was said.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db import connection
from django.utils import timezone

from openwop_ui.live.announce import announce
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.storable import original, storable

from ..domain.claims import MAX_SUBJECT_LENGTH, Claim, Slot
from ..domain.extraction import Message
from ..domain.periods import Period
from ..domain.redaction import redact
from ..domain.scopes import UNSCOPED
from ..domain.submissions import MAX_MESSAGE_LENGTH
from ..models import Observation, SourceEvent
from ..queries.paging import rows_of
from .actor import HOST, Actor, host_writer
from .facts import SourceRow, add_sources
from .intake import Heard, Reading, add_jobs, conclude, hear, store
from .revising import store_withdrawals
from .rules import TenantRules, share_rules

AT_ONCE = 200
LONGEST_SUBJECT_BYTES = 1500
"""As stored: an index takes no more."""
NOTHING = hashlib.sha256(b"").digest()
NO_LONGER_SAID = "the entry no longer says so"
_ENTRIES = 0x656E7472


class Seen(NamedTuple):
    """An observation of an entry that is to be read."""

    entry: UUID
    number: int
    slug: str
    memory_ref: str
    outcome: str
    content: str | None
    digest: bytes | None
    observed_at: datetime
    created_at: datetime | None
    expires_at: datetime | None


def read_entries(tenant_id: int, *, most: int = AT_ONCE, later: bool = False, now: datetime | None = None) -> bool:
    """One slice of what is to be read. True when there may be more. ``later`` leaves contents to queued jobs."""
    now = now or timezone.now()
    with tenant_scope(tenant_id, durable=True):
        if not _is_free(tenant_id):
            return False
        rules = share_rules(tenant_id)
        seen = _unread(tenant_id, most)
        if not seen:
            return False
        _read(tenant_id, seen, rules, later, now)
        _done(tenant_id, seen)
    return len(seen) >= most


def _is_free(tenant_id: int) -> bool:
    """One reads at a time, so that what an entry said first is read first."""
    return bool(rows_of("SELECT pg_try_advisory_xact_lock(%s, %s::int)", [_ENTRIES, tenant_id % 2**31])[0][0])


def _unread(tenant_id: int, most: int) -> list[Seen]:
    rows = rows_of(
        """
        SELECT u.entry_id, u.number, h.slug, o.memory_ref, o.outcome, o.content, o.digest, o.observed_at,
            o.created_at_reported, o.expires_at
        FROM (SELECT * FROM ledger_unreadentry WHERE tenant_id = %(tenant)s
            ORDER BY entry_id, number LIMIT %(most)s) AS u
        JOIN ledger_observation o ON o.tenant_id = u.tenant_id AND o.entry_id = u.entry_id AND o.number = u.number
        JOIN runs_host h ON h.tenant_id = o.tenant_id AND h.id = o.host_id
        ORDER BY u.entry_id, u.number
        """,
        {"tenant": tenant_id, "most": most},
    )
    return [Seen._make((*row[:6], None if row[6] is None else bytes(row[6]), *row[7:])) for row in rows]


def _done(tenant_id: int, seen: Sequence[Seen]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM ledger_unreadentry u USING unnest(%s::uuid[], %s::int[]) AS n (entry_id, number)"
            " WHERE u.tenant_id = %s AND u.entry_id = n.entry_id AND u.number = n.number",
            [[one.entry for one in seen], [one.number for one in seen], tenant_id],
        )


def _read(tenant_id: int, seen: Sequence[Seen], rules: TenantRules, later: bool, now: datetime) -> None:
    given = {one.source.id: (one, expires_at) for one, expires_at in _readings(seen, now)}
    new = add_sources(tenant_id, [reading.source for reading, _ in given.values()])
    queued = {source for source in new if later and given[source][0].messages}
    add_jobs(tenant_id, {source: source in queued for source in new}, now)
    told = [within(hear(given[source][0], rules.keys), given[source][1]) for source in new - queued]
    take_entries(tenant_id, told, rules, now)
    if new:
        announce(tenant_id, {"sources": None})


def _readings(seen: Sequence[Seen], now: datetime) -> Iterator[tuple[Reading, datetime | None]]:
    return ((reading_of_entry(one, now), one.expires_at) for one in seen)


def take_entries(tenant_id: int, told: Sequence[Heard], rules: TenantRules, now: datetime) -> None:
    """Stores what entries say, and takes back what they said before and say no longer."""
    newest: dict[UUID, SourceRow] = {}
    for one in sorted(told, key=lambda one: one.source.entry_number or 0):
        if one.source.entry_id is not None:
            newest[one.source.entry_id] = one.source
    earlier = _said_earlier(tenant_id, newest)
    ledgers = store(tenant_id, told, rules, also={key for key, _ in earlier.values()})
    of_entry = {claim: entry for claim, (_, entry) in earlier.items()}
    said: dict[UUID, set[Slot]] = {entry: set() for entry in newest}
    for one in told:
        entry = one.source.entry_id
        if entry is None:
            continue
        if one.source is newest[entry]:
            said[entry].update(new.claim.slot for new in one.claims)
        else:
            of_entry.update((new.claim.id, entry) for new in one.claims)
    by_writer: dict[str, list[Claim]] = {}
    for claim in (claim for ledger in ledgers.values() for claim in ledger.claims):
        entry = of_entry.get(claim.id)
        if entry is not None and not claim.withdrawn and claim.slot not in said[entry]:
            by_writer.setdefault(claim.writer, []).append(claim)
    for writer, claims in by_writer.items():
        store_withdrawals(tenant_id, ledgers.values(), claims, Actor(HOST, writer), now, reason=NO_LONGER_SAID)
    conclude(tenant_id, told, ledgers, rules, at=now)


def reading_of_entry(seen: Seen, now: datetime) -> Reading:
    """The first observation is as old as the entry says it is; a later one shows what has changed until it was made."""
    is_first = seen.number == 1 and seen.created_at is not None
    content = original(seen.content or "") if seen.outcome == Observation.Outcome.CONTENT else ""
    clean = redact(content[:MAX_MESSAGE_LENGTH], secrets={}).content
    source = SourceRow(
        kind=SourceEvent.Kind.ENTRY.value,
        writer=host_writer(seen.slug),
        event_id=f"{seen.entry}/{seen.number}",
        subject=subject_of_entry(seen.slug, original(seen.memory_ref)),
        scope=UNSCOPED,
        observed_at=seen.created_at if is_first and seen.created_at else seen.observed_at,
        is_observed=is_first,
        received_at=now,
        received_from=host_writer(seen.slug),
        payload_hash=seen.digest or NOTHING,
        evidence=(),
        payload=None,
        entry_id=seen.entry,
        entry_number=seen.number,
    )
    return Reading(source, (Message(clean),) if clean.strip() else (), ())


def subject_of_entry(slug: str, memory_ref: str) -> str:
    """A memory ref means something on its host only, so the host is part of whom its entries are about."""
    subject = f"{host_writer(slug)}/{memory_ref}"
    if len(subject) <= MAX_SUBJECT_LENGTH and len(storable(subject).encode()) <= LONGEST_SUBJECT_BYTES:
        return subject
    return f"{host_writer(slug)}/sha256:{hashlib.sha256(memory_ref.encode('utf-8', 'surrogatepass')).hexdigest()}"


def within(heard: Heard, expires_at: datetime | None) -> Heard:
    """What an entry says holds until it expires."""
    if expires_at is not None:
        end = Period(None, expires_at)
        heard.claims = [replace(new, claim=replace(new.claim, valid=end)) for new in heard.claims]
    return heard


def _said_earlier(tenant_id: int, newest: Mapping[UUID, SourceRow]) -> dict[UUID, tuple[UUID, UUID]]:
    """(key, entry) of each claim that an earlier observation of one of the entries made."""
    if not newest:
        return {}
    rows = rows_of(
        "SELECT c.id, c.subject_key_id, n.entry_id FROM unnest(%s::uuid[], %s::int[]) AS n (entry_id, number)"
        " JOIN ledger_sourceevent e ON e.tenant_id = %s AND e.entry_id = n.entry_id AND e.entry_number < n.number"
        " JOIN ledger_claimrow c ON c.tenant_id = e.tenant_id AND c.source_event_id = e.id",
        [list(newest), [source.entry_number for source in newest.values()], tenant_id],
    )
    return {claim: (key, entry) for claim, key, entry in rows}
