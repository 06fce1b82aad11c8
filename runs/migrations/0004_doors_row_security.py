"""The new tables under forced row-level security. A hook's address shows its subscription before its tenant is known."""

from django.db import migrations

from openwop_ui.tenancy.rls import protect, unprotect

HOOK = "id = NULLIF(current_setting('openwop.hook', true), '')::uuid"
PAUSES = """
CREATE INDEX event_pause ON runs_event (tenant_id, run_id, sequence) WHERE type IN ('run.paused', 'run.resumed')
"""
KEYS = {
    "hostdocument_host_fk": ("runs_hostdocument", "tenant_id, host_id", "runs_host", "tenant_id, id"),
    "subscription_host_fk": ("runs_subscription", "tenant_id, host_id", "runs_host", "tenant_id, id"),
    "delivery_subscription_fk": ("runs_delivery", "tenant_id, subscription_id", "runs_subscription", "tenant_id, id"),
}


def foreign_key(name: str) -> migrations.RunSQL:
    table, columns, target, target_columns = KEYS[name]
    return migrations.RunSQL(
        f"ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY ({columns}) REFERENCES {target} ({target_columns})",
        f"ALTER TABLE {table} DROP CONSTRAINT {name}",
    )


class Migration(migrations.Migration):
    dependencies = [("runs", "0003_doors")]
    operations = [
        *(foreign_key(name) for name in KEYS),
        migrations.RunSQL(PAUSES, "DROP INDEX event_pause"),
        migrations.RunSQL(protect("runs_hostdocument"), unprotect("runs_hostdocument")),
        migrations.RunSQL(protect("runs_subscription", readable=(HOOK,)), unprotect("runs_subscription")),
        migrations.RunSQL(protect("runs_delivery"), unprotect("runs_delivery")),
    ]
