"""The SQL that migrations use to put tables under forced row-level security."""

from __future__ import annotations

TENANT = "tenant_id = NULLIF(current_setting('openwop.tenant', true), '')::bigint"
OPERATOR = "current_setting('openwop.operator', true) = 'on'"
PRINCIPAL = "NULLIF(current_setting('openwop.principal', true), '')::bigint"
KEY = "current_setting('openwop.key', true)"


def protect(table: str, *, own: str = TENANT, also: tuple[str, ...] = (), readable: tuple[str, ...] = ()) -> str:
    """Rows of ``table`` can be read and written where ``own`` or one of ``also`` holds, read where ``readable`` does.

    Forced, so that it binds the tables' owner too, which is the role the application runs as.
    """
    condition = " OR ".join(f"({part})" for part in (own, *also))
    statements = [
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
        f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
        f"CREATE POLICY scope ON {table} USING ({condition}) WITH CHECK ({condition})",
    ]
    if readable:
        seen = " OR ".join(f"({part})" for part in readable)
        statements.append(f"CREATE POLICY seen ON {table} FOR SELECT USING ({seen})")
    return ";".join(statements) + ";"


def unprotect(table: str) -> str:
    return (
        f"DROP POLICY IF EXISTS scope ON {table};"
        f"DROP POLICY IF EXISTS seen ON {table};"
        f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY;"
        f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY;"
    )
