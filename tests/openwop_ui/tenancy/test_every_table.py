"""Every table there is, by the database's own catalogue, so that none can be forgotten: a table belongs to a tenant,
with all that comes with it, or it is one of the few that are of nobody."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection

pytestmark = pytest.mark.django_db

OF_NOBODY = re.compile(r"django_(?:migrations|content_type|admin_log|session)|auth_\w+|tenancy_tenant")
"""Users and what Django keeps; a tenant itself, which is protected by its own id."""

# Surrogate keys are for what the admin site edits or an address names; (tenant_id, id) is unique beside them.
PROTECTED = """
SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity,
    EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'scope' AND p.polcmd = '*'
        AND pg_get_expr(p.polqual, c.oid) LIKE '%%tenant_id = %%openwop.tenant%%'
        AND pg_get_expr(p.polwithcheck, c.oid) LIKE '%%tenant_id = %%openwop.tenant%%'),
    (SELECT a.attnotnull FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id'),
    EXISTS (SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
        WHERE i.indrelid = c.oid AND i.indisunique AND i.indpred IS NULL AND i.indkey[0] = a.attnum)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p')
    AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id')
ORDER BY c.relname
"""
LINKS = """
SELECT c.conname, c.conrelid::regclass::text, c.confrelid::regclass::text,
    array(SELECT a.attname::text FROM unnest(c.conkey) WITH ORDINALITY AS k (number, place)
        JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.number ORDER BY place),
    array(SELECT a.attname::text FROM unnest(c.confkey) WITH ORDINALITY AS k (number, place)
        JOIN pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.number ORDER BY place)
FROM pg_constraint c JOIN pg_namespace n ON n.oid = c.connamespace WHERE c.contype = 'f' AND n.nspname = 'public'
"""


def asked(sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found


def test_a_table_is_of_a_tenant_or_of_nobody() -> None:
    owned = {name for name, *_ in asked(PROTECTED)}
    others = {name for (name,) in asked("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")} - owned
    assert sorted(name for name in others if not OF_NOBODY.fullmatch(name)) == []
    assert len(owned) >= 20, "the catalogue was read"


def test_every_tenants_table_is_protected_and_keyed_by_its_tenant() -> None:
    lacking = [
        (table, what)
        for table, *answers in asked(PROTECTED)
        for what, holds in zip(
            ("forced row security", "a policy by tenant", "tenant_id NOT NULL", "a key that begins with tenant_id"),
            answers,
            strict=True,
        )
        if not holds
    ]
    assert lacking == []


def test_every_link_between_tenants_tables_is_within_the_tenant() -> None:
    owned = {name for name, *_ in asked(PROTECTED)}
    links = [link for link in asked(LINKS) if link[1] in owned and link[2] in owned]
    assert len(links) >= 20, "the catalogue was read"
    assert [
        name for name, _, _, here, there in links if ("tenant_id", "tenant_id") not in zip(here, there, strict=True)
    ] == []
