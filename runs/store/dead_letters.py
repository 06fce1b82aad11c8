"""Deliveries that a host has given up: counted, and their runs read instead."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from django.db import connection

from openwop_ui.live.announce import announce
from openwop_ui.tenancy.scope import tenant_scope

from ..domain.dead_letters import DeadLetter
from ..domain.storable import storable
from ..domain.webhooks import tenant_in
from ..models import Subscription
from .aliases import run_named
from .hosts import HostRef
from .subscriptions import follow_delivered_run

_EVER = datetime.min.replace(tzinfo=UTC)


def keep_dead_letters(host: HostRef, remote_id: str, letters: Sequence[DeadLetter]) -> list[str]:
    """Counts those that are newer than what is known, and has the runs followed whose events are not here.

    A letter about a run of another tenant than the webhook's is left alone.
    """
    own = tenant_in(remote_id)
    with tenant_scope(host.tenant_id):
        subscription = (
            Subscription.objects.select_for_update()
            .filter(tenant_id=host.tenant_id, host_id=host.id, remote_id=storable(remote_id), state="active")
            .first()
        )
        if subscription is None:
            return []
        known = subscription.last_dead_at or _EVER
        new = [
            letter
            for letter in letters
            if letter.at is not None and letter.at > known and (own is None or tenant_in(letter.run_id) in (None, own))
        ]
        if not new:
            return []
        subscription.dead_count += len(new)
        subscription.last_dead_at = max(letter.at for letter in new if letter.at)
        subscription.save(update_fields=["dead_count", "last_dead_at"])
        wanted = list(dict.fromkeys(letter.run_id for letter in new if not _is_here(host, letter)))
        for run_id in wanted:
            follow_delivered_run(tenant_id=host.tenant_id, host_id=host.id, run_id=run_id)
        announce(host.tenant_id, {"hosts": None})
    return wanted


def _is_here(host: HostRef, letter: DeadLetter) -> bool:
    run = run_named(host.tenant_id, host.id, letter.run_id)
    if run is None or letter.event_id is None:
        return False
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM runs_event WHERE tenant_id = %s AND run_id = %s AND event_id = %s)",
            [host.tenant_id, run, storable(letter.event_id)],
        )
        row = cursor.fetchone()
    return bool(row and row[0])
