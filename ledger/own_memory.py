"""Memory that is kept here (RFC 0004): puts and deletes, and the snapshots that runs read. The only writer of them.

An entry that is put gets an id of our making and never changes. It is listed with the entries of hosts, under a host of
the tenant's own. Times are the database's, taken when those who could still commit something earlier are known.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection
from django.utils import timezone

from openwop_ui.live.announce import announce
from openwop_ui.tenancy.keys import Caller
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.memory_read import REDACTED, count_redactions
from runs.domain.storable import original, storable
from runs.models import Host, Run

from .domain.memory_put import AskedPut
from .domain.observing import DELETED, Sight
from .domain.reading import Address, entry_id, scope_id
from .domain.redaction import SHORTEST_SECRET, Policy, Redacted, SecretLeakage, redact
from .domain.snapshot_rule import MAX_TAG_LENGTH, EntryRefused, check_entry, clean_tags
from .models import Observation, OwnDelete, OwnPut, RunSnapshot
from .observations import begin_observing, observe_in_scope
from .policies import LedgerPolicy, held_settings, policy_of
from .queries.own_memory import MemoryEntryRow, NamedRun, Visible
from .run_secrets import secrets_of
from .store import hold_keeping

OWN_HOST = "openwop-ui"
OWN_NAME = "This ledger"
DEEPEST = 64
"""Replays of replays are followed up to here."""
SAME_START = ("replay", "fork")
"""A fork of which nobody says whether it is a replay or a branch reads what a replay would."""


@dataclass(frozen=True, slots=True)
class Put:
    """What was stored, and the names of the secrets that were taken out of it."""

    entry: MemoryEntryRow
    redacted: tuple[str, ...]


class EntryTooLarge(EntryRefused):
    """More than the maxEntrySizeBytes of the tenant."""

    def __init__(self, message: str, limit: int) -> None:
        super().__init__(message, field="entry")
        self.limit = limit


def put(*, caller: Caller, asked: AskedPut, run: NamedRun | None = None) -> Put:
    """Takes an entry in, once its secrets are out of it: it is on disk when this returns.

    Raises EntryRefused, EntryTooLarge and SecretLeakage.
    """
    tenant_id = caller.tenant_id
    policy = policy_of(tenant_id)
    _check(asked, policy, timezone.now())
    kept = _without_secrets(tenant_id, asked, policy.secrets, run)
    host = policy.own_host or own_host(tenant_id)
    address = Address(storable(asked.memory_ref), f"mem_{secrets.token_hex(12)}")
    entry = entry_id(host, address)
    with tenant_scope(tenant_id, durable=True):
        begin_observing(tenant_id)
        at = clock()
        _check(asked, policy, at)
        sight = Sight(
            "content",
            kept.content,
            kept.tags,
            created_at=at,
            expires_at=asked.expires_at,
            redactions=count_redactions(kept.content),
        )
        observe_in_scope(tenant_id, host, {entry: (address, sight)}, Observation.Source.HERE, at)
        OwnPut.objects.create(
            tenant_id=tenant_id,
            entry_id=entry,
            scope_id=scope_id(host, address.memory_ref),
            host_id=host,
            memory_ref=address.memory_ref,
            memory_id=address.memory_id,
            tags=[storable(tag) for tag in kept.tags],
            created_at=at,
            expires_at=asked.expires_at,
            run_host_id=run.host_pk if run else None,
            run_id=storable(run.run_id) if run else "",
            key_id=caller.key_id,
            key_name=storable(caller.name),
            writer=caller.writer or "",
            redacted=list(kept.found),
        )
    shown = MemoryEntryRow(address.memory_id, kept.content, kept.tags, at, asked.expires_at)
    return Put(shown, kept.found)


def _check(asked: AskedPut, policy: LedgerPolicy, now: datetime) -> None:
    try:
        check_entry(asked.content, asked.tags, expires_at=asked.expires_at, now=now, max_bytes=policy.max_entry_bytes)
    except EntryRefused as refused:
        if refused.field == "content":
            raise EntryTooLarge(str(refused), policy.max_entry_bytes) from None
        raise EntryRefused(str(refused), field=f"entry.{refused.field}") from None


def _without_secrets(tenant_id: int, asked: AskedPut, policy: Policy, run: NamedRun | None) -> Redacted:
    """A ref can not be rewritten: it is an address. One with a secret in it is refused whatever the policy."""
    with tenant_scope(tenant_id):
        known = secrets_of(tenant_id, run.host_pk, run.run_id) if run else {}
    in_address = [name for name, value in known.items() if len(value) >= SHORTEST_SECRET and value in asked.memory_ref]
    if in_address:
        raise SecretLeakage(in_address)
    kept = redact(asked.content, asked.tags, secrets=known, policy=policy)
    return Redacted(kept.content, clean_tags(list(map(_fitting, kept.tags))), kept.found)


def _fitting(tag: str) -> str:
    """A tag that its marks made too long becomes its first mark."""
    mark = REDACTED.search(tag)
    return mark[0] if mark and len(tag) > MAX_TAG_LENGTH else tag


def delete(*, caller: Caller, memory_ref: str, memory_id: str) -> bool:
    """Takes an entry out of the memory that is read from now on. False for one that is not there, for whatever reason.

    A run that began before keeps reading it.
    """
    tenant_id = caller.tenant_id
    host = policy_of(tenant_id).own_host
    if host is None:
        return False
    address = Address(storable(memory_ref), storable(memory_id))
    entry = entry_id(host, address)
    with tenant_scope(tenant_id, durable=True):
        begin_observing(tenant_id)
        if not _held(tenant_id, entry):
            return False
        at = clock()
        stored = OwnPut.objects.get(tenant_id=tenant_id, entry_id=entry)
        if stored.expires_at is not None and stored.expires_at <= at:
            return False
        OwnDelete.objects.create(
            tenant_id=tenant_id,
            entry_id=entry,
            deleted_at=at,
            key_id=caller.key_id,
            key_name=storable(caller.name),
            writer=caller.writer or "",
        )
        observe_in_scope(tenant_id, host, {entry: (address, DELETED)}, Observation.Source.HERE, at)
    return True


def _held(tenant_id: int, entry: UUID) -> bool:
    """Whether there is something to delete, which nobody else deletes from here on."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT outcome FROM ledger_contentstate WHERE tenant_id = %s AND entry_id = %s FOR UPDATE",
            [tenant_id, entry],
        )
        row = cursor.fetchone()
    return row is not None and row[0] == "content"


def clock() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        row = cursor.fetchone()
        assert row is not None
        at: datetime = row[0]
        return at


def own_host(tenant_id: int) -> int:
    """The host under which entries that are put here are listed, made when there is none yet."""
    with tenant_scope(tenant_id):
        settings = held_settings(tenant_id)
        if settings.own_host_id is None:
            taken = set(Host.objects.filter(tenant_id=tenant_id).values_list("slug", flat=True))
            slug = next(slug for slug in _slugs() if slug not in taken)
            host = Host.objects.create(tenant_id=tenant_id, slug=slug, name=OWN_NAME, following=False)
            settings.own_host_id = host.pk
            settings.save(update_fields=["own_host_id"])
            announce(tenant_id, {"hosts": None})
    return settings.own_host_id


def _slugs() -> list[str]:
    return [OWN_HOST, *(f"{OWN_HOST}-{number}" for number in range(2, 1000))]


# --- Snapshots ---


def snapshot_of(*, tenant_id: int, run: int) -> Visible:
    """What a run sees: the memory as it was when it started, or when the run started that it replays.

    The moment is kept when it is first asked for. It is never later than the first word that was heard of the run, so
    that a host's clock can not put it into the future.
    """
    with tenant_scope(tenant_id):
        noted = RunSnapshot.objects.filter(tenant_id=tenant_id, run_id=run).first() or _note(tenant_id, run)
        of = Run.objects.get(tenant_id=tenant_id, id=noted.of_run_id)
        return Visible(noted.taken_at, of.host_id, original(of.run_id))


def _note(tenant_id: int, run: int) -> RunSnapshot:
    hold_keeping(tenant_id)
    replayed = Run.objects.get(tenant_id=tenant_id, id=run)
    for _ in range(DEEPEST):
        noted = RunSnapshot.objects.filter(tenant_id=tenant_id, run_id=replayed.pk).first()
        source = None if noted else _replayed_by(replayed)
        if source is None:
            break
        replayed = source
    of_run, taken_at = (noted.of_run_id, noted.taken_at) if noted else (replayed.pk, _start_of(replayed))
    # The source's own moment is kept with it, so that both stay the same whatever is learned later.
    for pk in {run, replayed.pk}:
        RunSnapshot.objects.get_or_create(
            tenant_id=tenant_id,
            run_id=pk,
            defaults={"of_run_id": of_run, "taken_at": taken_at, "noted_at": timezone.now()},
        )
    return RunSnapshot.objects.get(tenant_id=tenant_id, run_id=run)


def _replayed_by(run: Run) -> Run | None:
    if run.relation not in SAME_START or not run.parent_run_id:
        return None
    return Run.objects.filter(tenant_id=run.tenant_id, host_id=run.host_id, run_id=run.parent_run_id).first()


def _start_of(run: Run) -> datetime:
    return min(filter(None, (run.started_at, run.first_received_at)))
