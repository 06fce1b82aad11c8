"""Where in the whole database a text stands: every column of every table that can hold one is searched."""

from __future__ import annotations

from django.db import connection

from openwop_ui.tenancy.models import Tenant
from openwop_ui.tenancy.scope import tenant_scope

_COLUMNS = """
SELECT c.relname, a.attname FROM pg_attribute a
JOIN pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'p', 'm')
JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'public'
JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attnum > 0 AND NOT a.attisdropped
    AND (t.typname IN ('text', 'varchar', 'bpchar', 'json', 'jsonb', 'bytea', 'xml', 'tsvector')
        OR (t.typcategory = 'A' AND t.typelem IN ('text'::regtype, 'varchar'::regtype, 'bytea'::regtype)))
ORDER BY 1, 2
"""


def places_of(tenant: Tenant, needle: str) -> set[str]:
    """``table.column`` of each, in the tenant's rows and in those of no tenant."""
    found = set()
    with tenant_scope(tenant.pk), connection.cursor() as cursor:
        cursor.execute(_COLUMNS)
        for table, column in cursor.fetchall():
            # A bytea shows as hex, so its own bytes are looked for as well.
            cursor.execute(
                f"SELECT EXISTS (SELECT FROM {table} AS t WHERE position(%s in t.{column}::text) > 0"  # noqa: S608
                f" OR position(%s in t.{column}::text) > 0)",
                [needle, needle.encode().hex()],
            )
            if cursor.fetchone() == (True,):
                found.add(f"{table}.{column}")
    return found
