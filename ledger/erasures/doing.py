"""The one transaction of an erasure: what was planned goes, what was made of it is made anew, and a tombstone stays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from django.db import connection
from django.utils import timezone

from openwop_ui.live.announce import announce
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.storable import storable
from runs.domain.withheld import without_tags, without_texts
from runs.store.retention import allow_withholding, derive_anew, rewrite_bodies

from .. import receipt_store
from ..claims_store.actor import Actor
from ..claims_store.rules import hold_rules
from ..domain.observing import ERASED as ERASED_SIGHT
from ..domain.reading import COMPACTED_FROM, Address, Written, read_fact
from ..models import ErasedItem, Erasure, Observation
from ..observations import begin_observing, observe_in_scope
from ..queries.paging import rows_of
from ..store import hold_reading, read_on
from .claims import erase_claims, erase_sources, forget_answers, rename_subject
from .planning import Plan, Target, plan_entry, plan_subject

TOPICS: dict[str, int | None] = dict.fromkeys(("ledger", "claims", "conflicts", "sources", "retention"))


@dataclass(frozen=True, slots=True)
class Erased:
    id: UUID
    at: datetime
    counts: dict[str, int]


def erase_entry(*, tenant_id: int, entry: UUID, actor: Actor) -> Erased | None:
    """None when there is no such entry. Raises TooMuch."""
    return _erase(tenant_id, Erasure.Kind.ENTRY, actor, lambda: plan_entry(tenant_id, entry), entry=entry)


def erase_subject(*, tenant_id: int, subject: str, actor: Actor) -> Erased | None:
    """None when nothing is known of it. Raises TooMuch."""
    return _erase(tenant_id, Erasure.Kind.SUBJECT, actor, lambda: plan_subject(tenant_id, subject))


def _erase(
    tenant_id: int, kind: str, actor: Actor, plan_of: Callable[[], Plan | None], *, entry: UUID | None = None
) -> Erased | None:
    with tenant_scope(tenant_id, durable=True):
        # In this order everybody takes them: nothing is added to what goes while it goes.
        hold_reading(tenant_id)
        begin_observing(tenant_id)
        hold_rules(tenant_id)
        plan = plan_of()
        if plan is None:
            return None
        at, erasure = timezone.now(), uuid4()
        allow_withholding()
        items = [*_items(tenant_id, plan)]
        erase_claims(tenant_id, plan.all_claims, plan.quotes, actor, at)
        erase_sources(tenant_id, plan.sources, at)
        forget_answers(tenant_id, plan.quotes)
        if plan.subject:
            rename_subject(tenant_id, storable(plan.subject), f"erased:{erasure}")
        _erase_entries(tenant_id, plan.targets, at)
        changed = _erase_from_log(tenant_id, plan)
        items += [("event", f"{run}/{sequence}", None) for run, sequence in changed]
        _derive_anew(tenant_id, {run for run, _ in changed}, at)
        counts = plan.counts | {"events": len(changed)}
        Erasure.objects.create(
            tenant_id=tenant_id,
            id=erasure,
            kind=kind,
            at=at,
            actor=storable(actor.label),
            user_id=actor.user_id,
            key_id=actor.key_id,
            entry_id=entry,
            subject_hash=hashlib.sha256(plan.subject.encode("utf-8", "surrogatepass")).digest()
            if plan.subject
            else None,
            counts=counts,
        )
        _keep_items(tenant_id, erasure, items)
        announce(tenant_id, TOPICS)
    return Erased(erasure, at, counts)


Item = tuple[str, str, bytes | None]


def _items(tenant_id: int, plan: Plan) -> Iterable[Item]:
    """What goes, by its hash. What is hashed already keeps that hash."""
    for entry, number, digest in rows_of(
        "SELECT entry_id, number, digest FROM ledger_observation"
        " WHERE tenant_id = %s AND entry_id = ANY (%s::uuid[]) AND outcome = 'content'",
        [tenant_id, plan.entries],
    ):
        yield "content", f"{entry}/{number}", None if digest is None else bytes(digest)
    for claim, value in rows_of(
        "SELECT id, value FROM ledger_claimrow WHERE tenant_id = %s AND id = ANY (%s::uuid[])",
        [tenant_id, plan.all_claims],
    ):
        yield "claim", str(claim), hashlib.sha256(value.encode("utf-8", "surrogatepass")).digest()
    for source, digest in rows_of(
        "SELECT id, payload_hash FROM ledger_sourceevent WHERE tenant_id = %s AND id = ANY (%s::uuid[])",
        [tenant_id, list(plan.sources)],
    ):
        yield "payload", str(source), bytes(digest)


def _keep_items(tenant_id: int, erasure: UUID, items: Sequence[Item]) -> None:
    ErasedItem.objects.bulk_create(
        [
            ErasedItem(tenant_id=tenant_id, erasure_id=erasure, kind=kind, item=item, digest=digest)
            for kind, item, digest in items
        ],
        batch_size=1000,
    )


def _erase_entries(tenant_id: int, targets: Sequence[Target], at: datetime) -> None:
    entries = [target.id for target in targets]
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE ledger_observation SET content = NULL, tags = '{}', detail = ''"
            " WHERE tenant_id = %s AND entry_id = ANY (%s::uuid[])",
            [tenant_id, entries],
        )
        cursor.execute(
            "UPDATE ledger_ownput SET tags = '{}' WHERE tenant_id = %s AND entry_id = ANY (%s::uuid[])",
            [tenant_id, entries],
        )
        cursor.execute(
            "DELETE FROM ledger_unreadentry WHERE tenant_id = %s AND entry_id = ANY (%s::uuid[])",
            [tenant_id, entries],
        )
    by_host: dict[int, list[Target]] = {}
    for target in targets:
        by_host.setdefault(target.host_id, []).append(target)
    for host, ended in sorted(by_host.items()):
        found = {
            target.id: (Address(storable(target.memory_ref), storable(target.memory_id)), ERASED_SIGHT)
            for target in sorted(ended, key=lambda one: one.id)
        }
        observe_in_scope(tenant_id, host, found, Observation.Source.HERE, max(at, timezone.now()))


def _erase_from_log(tenant_id: int, plan: Plan) -> list[tuple[int, int]]:
    """Tags of the writes, and texts in whatever event repeats them. Returns what was changed."""
    quotes, runs = plan.quotes, set(plan.runs)
    near = [place for place in plan.events if place[0] in runs]
    far = [place for place in plan.events if place[0] not in runs]
    writes = rewrite_bodies(tenant_id, plan.writes, lambda body: without_tags(body, keep=COMPACTED_FROM))
    _read_tags(tenant_id, writes)
    changed = {
        *writes,
        *rewrite_bodies(tenant_id, near, lambda body: without_texts(body, quotes.may_be_in)),
        *rewrite_bodies(tenant_id, far, lambda body: without_texts(body, quotes.are_in)),
    }
    return sorted(changed)


def _read_tags(tenant_id: int, writes: Sequence[tuple[int, int]]) -> None:
    """What was read of these writes before is not read again: of what it says now only the tags differ."""
    found = rows_of(
        "SELECT e.run_id, e.sequence, e.type, coalesce(c.body, e.body)"
        " FROM unnest(%s::bigint[], %s::bigint[]) AS n (run_id, sequence)"
        " JOIN runs_event e ON e.tenant_id = %s AND e.run_id = n.run_id AND e.sequence = n.sequence"
        " LEFT JOIN runs_eventcopy c ON c.tenant_id = e.tenant_id AND c.run_id = e.run_id"
        " AND c.sequence = e.sequence AND c.kind = 'completion'",
        [[run for run, _ in writes], [sequence for _, sequence in writes], tenant_id],
    )
    with connection.cursor() as cursor:
        for run, sequence, type_, body in found:
            fact = read_fact(type_, body)
            tags = [storable(tag) for tag in fact.tags] if isinstance(fact, Written) else []
            cursor.execute(
                "UPDATE ledger_memorywrite SET tags = %s WHERE tenant_id = %s AND run_id = %s AND sequence = %s",
                [tags, tenant_id, run, sequence],
            )


def _derive_anew(tenant_id: int, runs: set[int], at: datetime) -> None:
    """The ledger is a reading of the log: it is read again where the log is another one now."""
    derive_anew(tenant_id, runs)
    while runs and read_on(tenant_id, at):
        pass
    receipt_store.read_all(tenant_id)
