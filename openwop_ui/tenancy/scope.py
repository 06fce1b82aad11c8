"""Who the database believes is asking.

Every table that a tenant owns has forced row-level security whose policies read the settings named here. They are
set with ``is_local``, so PostgreSQL itself takes them back at the end of the transaction or savepoint: a pooled
connection can never carry one caller's scope to the next. Outside of a scope nothing is visible.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from django.db import connection, transaction

TENANT = "openwop.tenant"
"""The tenant whose rows are visible and may be written."""

PRINCIPAL = "openwop.principal"
"""The user whose memberships, and the tenants they lead to, are visible: login, home and the tenant switcher."""

KEY = "openwop.key"
"""The digest of a presented API key: shows that one key, before its tenant is known."""

HOOK = "openwop.hook"
"""The id in a webhook's address: shows that one subscription, before its tenant is known."""

OPERATOR = "openwop.operator"
"""Shows tenancy tables, hosts and what tenants laid down, never events or memory: admin site, commands, discovery."""


@contextmanager
def _setting(name: str, value: str, *, durable: bool = False) -> Iterator[None]:
    is_inside = connection.in_atomic_block
    with transaction.atomic(durable=durable), connection.cursor() as cursor:
        # One round trip: the value before, for a scope inside another one, and the new one.
        cursor.execute("SELECT current_setting(%s, true) AS before, set_config(%s, %s, true)", [name, name, value])
        row = cursor.fetchone()
        before = (row[0] if row else None) or ""
        yield
        if is_inside:  # otherwise the transaction ends here, and the setting with it
            cursor.execute("SELECT set_config(%s, %s, true)", [name, before])


@contextmanager
def tenant_scope(tenant_id: int, *, durable: bool = False) -> Iterator[None]:
    """One transaction in which exactly one tenant's rows exist.

    ``durable`` refuses to run inside another transaction: what it wrote is committed when the block ends.
    """
    with _setting(TENANT, str(int(tenant_id)), durable=durable):
        yield


@contextmanager
def principal_scope(user_id: int) -> Iterator[None]:
    """One transaction in which a user's own memberships and their tenants are visible."""
    with _setting(PRINCIPAL, str(int(user_id))):
        yield


@contextmanager
def key_scope(digest: str) -> Iterator[None]:
    """One transaction in which the API key with this digest is visible, and its tenant."""
    with _setting(KEY, digest):
        yield


@contextmanager
def hook_scope(hook: UUID) -> Iterator[None]:
    """One transaction in which the webhook subscription with this id is visible."""
    with _setting(HOOK, str(hook)):
        yield


@contextmanager
def operator_scope() -> Iterator[None]:
    """One transaction in which tenancy tables and hosts of all tenants are visible."""
    with _setting(OPERATOR, "on"):
        yield
