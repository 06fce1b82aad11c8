"""Links between a tenant's rows include the tenant; row-level security is forced."""

from django.db import migrations

from openwop_ui.tenancy.rls import protect, unprotect

EVENT = ("tenant_id, run_id, sequence", "runs_event", "tenant_id, run_id, sequence")
ENTRY = ("ledger_memoryentry", "tenant_id, id")
KEYS = {
    # name: (table, columns, referenced table, referenced columns)
    "entry_host_fk": ("ledger_memoryentry", "tenant_id, host_id", "runs_host", "tenant_id, id"),
    "write_event_fk": ("ledger_memorywrite", *EVENT),
    "write_entry_fk": ("ledger_memorywrite", "tenant_id, entry_id", *ENTRY),
    "merge_event_fk": ("ledger_merge", *EVENT),
    "merge_output_fk": ("ledger_merge", "tenant_id, output_id", *ENTRY),
    "mergesource_merge_fk": (
        "ledger_mergesource",
        "tenant_id, run_id, sequence",
        "ledger_merge",
        "tenant_id, run_id, sequence",
    ),
    "mergesource_entry_fk": ("ledger_mergesource", "tenant_id, entry_id", *ENTRY),
    "cursor_run_fk": ("ledger_readingcursor", "tenant_id, run_id", "runs_run", "tenant_id, id"),
}
TABLES = (
    "ledger_memoryentry",
    "ledger_memorywrite",
    "ledger_merge",
    "ledger_mergesource",
    "ledger_readingcursor",
)


def foreign_key(name: str) -> migrations.RunSQL:
    table, columns, target, target_columns = KEYS[name]
    # An entry is written after the facts that it sums up, in the same transaction.
    when = " DEFERRABLE INITIALLY DEFERRED" if target == ENTRY[0] else ""
    return migrations.RunSQL(
        f"ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY ({columns})"
        f" REFERENCES {target} ({target_columns}){when}",
        f"ALTER TABLE {table} DROP CONSTRAINT {name}",
    )


class Migration(migrations.Migration):
    dependencies = [("ledger", "0001_ledger"), ("runs", "0002_row_security")]
    operations = [
        *(foreign_key(name) for name in KEYS),
        *(migrations.RunSQL(protect(table), unprotect(table)) for table in TABLES),
    ]
