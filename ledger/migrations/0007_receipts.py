"""What became of attempted memory writes; indexes for what has no provenance; row-level security is forced."""

import django.contrib.postgres.fields
from django.db import migrations, models

from openwop_ui.tenancy.rls import protect, unprotect

KEYS = {
    # name: (table, columns, referenced table, referenced columns)
    "receipt_run_fk": ("ledger_receipt", "tenant_id, run_id", "runs_run", "tenant_id, id"),
    "receipt_host_fk": ("ledger_receipt", "tenant_id, host_id", "runs_host", "tenant_id, id"),
    "receiptreading_run_fk": ("ledger_receiptreading", "tenant_id, run_id", "runs_run", "tenant_id, id"),
    "memorytools_tenant_fk": ("ledger_memorytools", "tenant_id", "tenancy_tenant", "id"),
}
TABLES = ("ledger_receipt", "ledger_receiptreading", "ledger_memorytools")
# Whether a stretch of a log has tool calls is asked with every reading of it.
TOOLS = """
CREATE INDEX event_of_tool ON runs_event (tenant_id, run_id, sequence)
    WHERE type IN ('agent.toolCalled', 'agent.toolReturned');
"""


def foreign_key(name: str) -> migrations.RunSQL:
    table, columns, target, target_columns = KEYS[name]
    return migrations.RunSQL(
        f"ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY ({columns}) REFERENCES {target} ({target_columns})",
        f"ALTER TABLE {table} DROP CONSTRAINT {name}",
    )


class Migration(migrations.Migration):
    dependencies = [("ledger", "0006_own_memory"), ("runs", "0008_state"), ("tenancy", "0002_row_security")]
    operations = [
        migrations.CreateModel(
            name="MemoryTools",
            fields=[
                ("tenant_id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("writes", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                ("reads", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                ("changed_at", models.DateTimeField()),
                ("changed_by", models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name="Receipt",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "run_id", "sequence", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("run_id", models.BigIntegerField()),
                ("sequence", models.BigIntegerField()),
                ("host_id", models.BigIntegerField()),
                ("occurred_at", models.DateTimeField()),
                ("tool", models.TextField()),
                ("state", models.TextField()),
                ("reasons", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                ("evidence", models.JSONField()),
                ("call_id", models.TextField(null=True)),
                ("node_id", models.TextField(null=True)),
                ("agent_id", models.TextField(null=True)),
                ("digest", models.BinaryField(max_length=32, null=True)),
                ("asked_key", models.TextField(null=True)),
                ("asked_scope", models.TextField(null=True)),
                ("asked_identity", models.TextField(null=True)),
                ("returned_key", models.TextField(null=True)),
                ("returned_scope", models.TextField(null=True)),
                ("returned_identity", models.TextField(null=True)),
                ("memory_ref", models.TextField(null=True)),
                ("memory_id", models.TextField(null=True)),
                ("entry_id", models.UUIDField(null=True)),
                ("write_sequence", models.BigIntegerField(null=True)),
                ("repeat", models.TextField()),
                ("repeats", models.BigIntegerField(null=True)),
                ("attempt", models.IntegerField()),
                ("claimed_only", models.BooleanField()),
            ],
        ),
        migrations.CreateModel(
            name="ReceiptReading",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "run_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("run_id", models.BigIntegerField()),
                ("is_stale", models.BooleanField()),
                ("rest_until", models.DateTimeField(null=True)),
            ],
        ),
        migrations.AddIndex(
            model_name="memoryentry",
            index=models.Index(
                condition=models.Q(("write_count", 0)),
                fields=["tenant_id", "-last_at", "-id"],
                name="entry_without_write",
            ),
        ),
        migrations.AddIndex(
            model_name="memorywrite",
            index=models.Index(
                condition=models.Q(("node_id__isnull", True)),
                fields=["tenant_id", "-occurred_at", "-run_id", "-sequence"],
                name="write_without_node",
            ),
        ),
        migrations.AddIndex(
            model_name="merge",
            index=models.Index(
                condition=models.Q(("sources_named", False)),
                fields=["tenant_id", "-occurred_at", "-run_id", "-sequence"],
                name="merge_without_sources",
            ),
        ),
        migrations.AddIndex(
            model_name="receipt",
            index=models.Index(fields=["tenant_id", "-occurred_at", "-run_id", "-sequence"], name="receipt_by_time"),
        ),
        migrations.AddIndex(
            model_name="receipt",
            index=models.Index(
                fields=["tenant_id", "state", "-occurred_at", "-run_id", "-sequence"], name="receipt_by_state"
            ),
        ),
        migrations.AddIndex(
            model_name="receipt",
            index=models.Index(
                condition=models.Q(("entry_id__isnull", False)),
                fields=["tenant_id", "entry_id", "-occurred_at"],
                name="receipt_by_entry",
            ),
        ),
        migrations.AddIndex(
            model_name="receipt",
            index=models.Index(
                condition=models.Q(("write_sequence__isnull", False)),
                fields=["tenant_id", "run_id", "write_sequence"],
                name="receipt_by_write",
            ),
        ),
        migrations.AddIndex(
            model_name="receipt",
            index=models.Index(
                condition=models.Q(("claimed_only", True)),
                fields=["tenant_id", "-occurred_at", "-run_id", "-sequence"],
                name="receipt_claimed_only",
            ),
        ),
        migrations.AddIndex(
            model_name="receiptreading",
            index=models.Index(
                condition=models.Q(("is_stale", True)), fields=["tenant_id", "rest_until"], name="receipt_reading_stale"
            ),
        ),
        *(foreign_key(name) for name in KEYS),
        *(migrations.RunSQL(protect(table), unprotect(table)) for table in TABLES),
        migrations.RunSQL(TOOLS, "DROP INDEX event_of_tool"),
    ]
