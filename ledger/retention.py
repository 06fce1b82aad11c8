"""Takes away what a tenant keeps no longer: payloads of source events and of runs' events, in small batches.

What is taken away keeps its hash and its place. How much it was stands in a tombstone for each day.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid5

from django.db import connection
from django.utils import timezone

from openwop_ui.live.announce import announce
from openwop_ui.tenancy.scope import tenant_scope
from runs.store.retention import derive_anew, withhold_payloads

from .models import Erasure, WithheldRun
from .policies import policy_of
from .queries.paging import rows_of
from .queries.retention import payloads_due, runs_due

SOURCES_AT_ONCE = 500
EVENTS_AT_ONCE = 1000

ACTOR = "retention"
_DAYS = UUID("0d4e5b8e-52a8-4a51-8f0e-9b8e4f3f6a10")


@dataclass(frozen=True, slots=True)
class Retained:
    """What was taken away, or would be."""

    payloads: int = 0
    events: int = 0
    is_all: bool = True


def retain(tenant_id: int, *, now: datetime | None = None, dry_run: bool = False) -> Retained:
    """All that is due. Commits batch by batch, so that nothing waits long for it."""
    now = now or timezone.now()
    if dry_run:
        return _due(tenant_id, now)
    payloads = events = 0
    while not (batch := retain_batch(tenant_id, now=now)).is_all:
        payloads, events = payloads + batch.payloads, events + batch.events
    return Retained(payloads + batch.payloads, events + batch.events)


def retain_batch(tenant_id: int, *, now: datetime | None = None) -> Retained:
    """One batch of each kind."""
    now = now or timezone.now()
    policy = policy_of(tenant_id)
    payloads, events, is_all = 0, 0, True
    if policy.payload_days is not None:
        payloads = _redact_payloads(tenant_id, now - timedelta(days=policy.payload_days), now)
        is_all = payloads < SOURCES_AT_ONCE
    if policy.event_days is not None:
        events, has_more = _withhold_events(tenant_id, now - timedelta(days=policy.event_days), now)
        is_all = is_all and not has_more
    return Retained(payloads, events, is_all)


def _due(tenant_id: int, now: datetime) -> Retained:
    policy = policy_of(tenant_id)
    with tenant_scope(tenant_id):
        return Retained(
            payloads_due(tenant_id, policy, now=now),
            sum(run.events for run in runs_due(tenant_id, policy, now=now, most=None)),
        )


def _redact_payloads(tenant_id: int, before: datetime, now: datetime) -> int:
    with tenant_scope(tenant_id, durable=True), connection.cursor() as cursor:
        cursor.execute(
            """
            -- Apart, so that it is worked out once: within a join it may be for each row, and its limit is none then.
            WITH due AS MATERIALIZED (
                SELECT e.id FROM ledger_sourceevent e
                JOIN ledger_job j ON j.tenant_id = e.tenant_id AND j.source_event_id = e.id
                WHERE e.tenant_id = %(tenant)s AND e.payload IS NOT NULL AND e.received_at < %(before)s
                    AND j.status IN ('done', 'failed')
                ORDER BY e.received_at LIMIT %(most)s FOR UPDATE OF e SKIP LOCKED)
            UPDATE ledger_sourceevent s SET payload = NULL, payload_redacted_at = %(now)s FROM due
            WHERE s.tenant_id = %(tenant)s AND s.id = due.id
            """,
            {"tenant": tenant_id, "before": before, "now": now, "most": SOURCES_AT_ONCE},
        )
        count = int(cursor.rowcount)
        if count:
            _tell(tenant_id, Erasure.Kind.PAYLOADS, count, before, now)
    return count


def _withhold_events(tenant_id: int, before: datetime, now: datetime) -> tuple[int, bool]:
    """(events, whether there is more to do)."""
    with tenant_scope(tenant_id, durable=True):
        due = rows_of(
            """
            SELECT r.id, r.event_count, coalesce(w.through, -1), w.event_count FROM runs_run r
            LEFT JOIN ledger_withheldrun w ON w.tenant_id = r.tenant_id AND w.run_id = r.id
            WHERE r.tenant_id = %(tenant)s AND r.last_received_at < %(before)s AND r.event_count > 0
                AND (w.run_id IS NULL OR NOT w.is_done OR w.event_count <> r.event_count)
            ORDER BY r.last_received_at, r.id LIMIT 1 FOR UPDATE OF r SKIP LOCKED
            """,
            {"tenant": tenant_id, "before": before},
        )
        if not due:
            return 0, False
        run, events, through, known = due[0]
        # A late event may have come before what was gone through.
        bodies = withhold_payloads(
            tenant_id, run, after=through if known in (None, events) else -1, most=EVENTS_AT_ONCE
        )
        is_done = bodies.looked_at < EVENTS_AT_ONCE
        WithheldRun.objects.update_or_create(
            tenant_id=tenant_id,
            run_id=run,
            defaults={"through": bodies.through, "event_count": events, "is_done": is_done, "withheld_at": now},
        )
        if bodies.taken:
            derive_anew(tenant_id, [run])
            _tell(tenant_id, Erasure.Kind.EVENTS, bodies.taken, before, now)
        return bodies.taken, True


def _tell(tenant_id: int, kind: Erasure.Kind, count: int, before: datetime, now: datetime) -> None:
    """Adds to the tombstone of the day."""
    name = "sourceEvents" if kind is Erasure.Kind.PAYLOADS else "events"
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO ledger_erasure AS e (tenant_id, id, kind, at, actor, counts)
            VALUES (%(tenant)s, %(id)s, %(kind)s, %(now)s, %(actor)s, %(counts)s)
            ON CONFLICT (tenant_id, id) DO UPDATE SET at = excluded.at, counts = excluded.counts || jsonb_build_object(
                %(name)s::text, coalesce((e.counts ->> %(name)s)::bigint, 0) + %(count)s)
            """,
            {
                "tenant": tenant_id,
                "id": uuid5(_DAYS, f"{tenant_id}/{kind.value}/{now.date().isoformat()}"),
                "kind": kind.value,
                "now": now,
                "actor": ACTOR,
                "counts": json.dumps({name: count, "before": before.isoformat()}),
                "name": name,
                "count": count,
            },
        )
    announce(tenant_id, {"retention": None, "sources": None})
