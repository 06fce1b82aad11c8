"""Settles again what a change of authority or of a key's rule touches. What people decided stands: it is a fact."""

from __future__ import annotations

from django.utils import timezone

from openwop_ui.tenancy.scope import tenant_scope

from .conflict_rows import Cause
from .loading import load, lock_known
from .rules import share_rules, stale_keys
from .settling import settle

AT_ONCE = 500


def settle_stale(tenant_id: int, *, most: int = AT_ONCE) -> bool:
    """One slice, those that have waited longest first. True when there may be more."""
    now = timezone.now()
    with tenant_scope(tenant_id, durable=True):
        waiting = stale_keys(tenant_id, most=most, until=now)
        if not waiting:
            return False
        rules = share_rules(tenant_id)
        ledgers = lock_known(tenant_id, waiting)
        load(tenant_id, ledgers, rules.keys)
        settle(tenant_id, ledgers.values(), rules.rules, Cause(now))
    return len(waiting) >= most
