"""What a tenant laid down: its writers' authority and its keys. A change has what it touches settled again.

Whoever takes in claims shares the rules, whoever changes them holds them: nothing is settled by half of a change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection
from django.utils import timezone

from openwop_ui.live.announce import announce
from openwop_ui.tenancy.scope import tenant_scope
from runs.domain.storable import original, storable

from ..domain.key_registry import Key, KeyRegistry, KeyRule
from ..domain.normalisers import Kind
from ..domain.settlement import Rules
from ..domain.writers import Authorities, AuthorityRules
from ..models import ClaimKey, ServiceWriter

_RULES = 0x636C6D72  # first half of the advisory lock, the tenant is the second


class WriterExists(ValueError):
    """The service key is taken."""


class StaleWriter(ValueError):
    """The writer was changed since it was looked at."""

    def __init__(self, seen: int, latest: int) -> None:
        super().__init__(f"revision {seen} is not the latest, which is {latest}")
        self.latest = latest


@dataclass(frozen=True, slots=True)
class TenantRules:
    """``registered`` are the writers that may say something new."""

    rules: Rules
    registered: frozenset[str]

    @property
    def keys(self) -> KeyRegistry:
        return self.rules.keys


def share_rules(tenant_id: int) -> TenantRules:
    """The rules, which nobody changes until the transaction ends."""
    _lock("pg_advisory_xact_lock_shared", tenant_id)
    return rules_of(tenant_id)


def hold_rules(tenant_id: int) -> None:
    _lock("pg_advisory_xact_lock", tenant_id)


def _lock(function: str, tenant_id: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}(%s, %s::int)", [_RULES, tenant_id % 2**31])


def rules_of(tenant_id: int) -> TenantRules:
    writers = ServiceWriter.objects.filter(tenant_id=tenant_id).values_list(
        "service_key", "default_priority", "categories", "retired_at"
    )
    authorities: dict[str, AuthorityRules] = {}
    registered: set[str] = set()
    for key, default, categories, retired_at in writers:
        authorities[key] = AuthorityRules(default, categories)
        if retired_at is None:
            registered.add(key)
    return TenantRules(Rules(KeyRegistry(_key_rules(tenant_id)), Authorities(authorities)), frozenset(registered))


def _key_rules(tenant_id: int) -> dict[Key, KeyRule]:
    rows = ClaimKey.objects.filter(tenant_id=tenant_id)
    return {Key(original(row.category), original(row.name)): rule_of(row) for row in rows}


def rule_of(row: ClaimKey) -> KeyRule:
    return KeyRule(
        cardinality="many" if row.cardinality == ClaimKey.Cardinality.MANY else "single",
        kind=Kind(row.kind),
        unit=row.unit or None,
        recency_between_equals=row.recency_between_equals,
    )


def reading_of(rule: KeyRule) -> str:
    """Names how values of a key are read: with another name, they are read again."""
    return f"{rule.kind.value}:{rule.unit or ''}"


# --- writers ---


def register_writer(
    *, tenant_id: int, service_key: str, display_name: str = "", authority: AuthorityRules | None = None
) -> ServiceWriter:
    """What a writer without rules, such as a host of the same name, said before gets the new authority."""
    authority = authority or AuthorityRules()
    with tenant_scope(tenant_id):
        hold_rules(tenant_id)
        if ServiceWriter.objects.filter(tenant_id=tenant_id, service_key=service_key).exists():
            raise WriterExists(f"there is a writer {service_key} already")
        writer = ServiceWriter.objects.create(
            tenant_id=tenant_id,
            service_key=service_key,
            display_name=storable(display_name),
            default_priority=authority.default_priority,
            categories=dict(authority.categories),
        )
        mark_writer_stale(tenant_id, service_key)
        announce(tenant_id, {"writers": None})
        return writer


def change_writer(
    *,
    tenant_id: int,
    service_key: str,
    based_on: int | None = None,
    display_name: str | None = None,
    authority: AuthorityRules | None = None,
    retired: bool | None = None,
) -> ServiceWriter | None:
    """What is None stays. None when there is no such writer; StaleWriter when it was changed since ``based_on``."""
    with tenant_scope(tenant_id):
        hold_rules(tenant_id)
        writer = ServiceWriter.objects.filter(tenant_id=tenant_id, service_key=service_key).first()
        if writer is None:
            return None
        if based_on is not None and based_on != writer.revision:
            raise StaleWriter(based_on, writer.revision)
        if display_name is not None:
            writer.display_name = storable(display_name)
        if retired is not None:
            writer.retired_at = (writer.retired_at or timezone.now()) if retired else None
        if authority is not None:
            writer.default_priority, writer.categories = authority.default_priority, dict(authority.categories)
            mark_writer_stale(tenant_id, service_key)
        writer.revision += 1
        writer.save()
        announce(tenant_id, {"writers": None})
        return writer


def mark_writer_stale(tenant_id: int, writer: str) -> None:
    """Its authority changed: keys that it spoke of, and that are disputed, are settled again."""
    _mark(
        """
        UPDATE ledger_subjectkey k SET stale_since = %(now)s
        FROM (SELECT DISTINCT c.subject_key_id FROM ledger_claimrow c
            WHERE c.tenant_id = %(tenant)s AND c.writer = %(writer)s AND EXISTS (
                SELECT FROM ledger_claimrow o WHERE o.tenant_id = c.tenant_id
                    AND o.subject_key_id = c.subject_key_id AND o.writer <> c.writer)) AS said
        WHERE k.tenant_id = %(tenant)s AND k.id = said.subject_key_id
        """,
        {"tenant": tenant_id, "writer": writer, "now": timezone.now()},
    )


# --- keys ---


def set_key_rule(*, tenant_id: int, key: Key, rule: KeyRule) -> ClaimKey:
    with tenant_scope(tenant_id):
        hold_rules(tenant_id)
        row, _ = ClaimKey.objects.update_or_create(
            tenant_id=tenant_id,
            category=storable(key.category),
            name=storable(key.name),
            defaults={
                "cardinality": rule.cardinality,
                "kind": rule.kind.value,
                "unit": rule.unit or "",
                "recency_between_equals": rule.recency_between_equals,
            },
        )
        mark_key_stale(tenant_id, row.category, row.name)
        announce(tenant_id, {"claims": None})
        return row


def set_key_rules(*, tenant_id: int, rules: Mapping[Key, KeyRule]) -> None:
    """Exactly these, all of them or nothing: a rule that is not among them gives way to the built-in one."""
    with tenant_scope(tenant_id):
        hold_rules(tenant_id)
        known = _key_rules(tenant_id)
        for key in known.keys() - rules.keys():
            row = ClaimKey.objects.filter(tenant_id=tenant_id, category=storable(key.category), name=storable(key.name))
            row.delete()
            mark_key_stale(tenant_id, storable(key.category), storable(key.name))
        for key, rule in rules.items():
            if known.get(key) != rule:
                set_key_rule(tenant_id=tenant_id, key=key, rule=rule)


def mark_key_stale(tenant_id: int, category: str, name: str) -> None:
    _mark(
        "UPDATE ledger_subjectkey SET stale_since = %(now)s"
        " WHERE tenant_id = %(tenant)s AND category = %(category)s AND key = %(name)s",
        {"tenant": tenant_id, "category": category, "name": name, "now": timezone.now()},
    )


def _mark(sql: str, values: Mapping[str, Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)


def key_rows(tenant_id: int) -> Sequence[ClaimKey]:
    return list(ClaimKey.objects.filter(tenant_id=tenant_id))


def stale_keys(tenant_id: int, *, most: int, until: datetime | None = None) -> list[Any]:
    """The ids of subjects' keys that wait to be settled again, longest first."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM ledger_subjectkey WHERE tenant_id = %s AND stale_since <= %s"
            " ORDER BY stale_since, id LIMIT %s",
            [tenant_id, until or timezone.now(), most],
        )
        return [key for (key,) in cursor.fetchall()]
