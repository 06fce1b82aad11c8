"""What was seen of entries: observations, which are facts and append-only, and how the content of each entry stands.

An entry may be known without any event that names it, so it may have no last run.
"""

import django.contrib.postgres.fields
from django.db import migrations, models

from openwop_ui.tenancy.rls import protect, unprotect

HOST = ("tenant_id, host_id", "runs_host", "tenant_id, id", "")
KEYS = {
    # name: (table, columns, referenced table, referenced columns, when)
    "observation_host_fk": ("ledger_observation", *HOST),
    # Entries are derived: they may go and come back within a transaction, but have to be there at its end.
    "observation_entry_fk": (
        "ledger_observation",
        "tenant_id, entry_id",
        "ledger_memoryentry",
        "tenant_id, id",
        " DEFERRABLE INITIALLY DEFERRED",
    ),
    # Not to the entry: until a log has been read again, entries may be missing.
    "contentstate_host_fk": ("ledger_contentstate", *HOST),
}
TABLES = ("ledger_observation", "ledger_contentstate")
APPEND_ONLY = """
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON ledger_observation
    FOR EACH STATEMENT EXECUTE FUNCTION runs_append_only()
"""
APPEND_ONLY_OFF = "DROP TRIGGER append_only ON ledger_observation"
# As the log's bodies: lz4 costs the least, where the server has it.
COMPRESSION = """
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        ALTER TABLE ledger_observation ALTER COLUMN content SET COMPRESSION lz4;
    END IF;
END $$;
"""


def foreign_key(name: str) -> migrations.RunSQL:
    table, columns, target, target_columns, when = KEYS[name]
    return migrations.RunSQL(
        f"ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY ({columns})"
        f" REFERENCES {target} ({target_columns}){when}",
        f"ALTER TABLE {table} DROP CONSTRAINT {name}",
    )


class Migration(migrations.Migration):
    dependencies = [("ledger", "0003_scopes_and_hints"), ("runs", "0004_doors_row_security")]
    operations = [
        migrations.AlterField("memoryentry", "last_run_id", models.BigIntegerField(null=True)),
        migrations.AlterField("memoryentry", "last_sequence", models.BigIntegerField(null=True)),
        migrations.CreateModel(
            name="Observation",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "entry_id",
                        "number",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("entry_id", models.UUIDField()),
                ("number", models.IntegerField()),
                ("host_id", models.BigIntegerField()),
                ("memory_ref", models.TextField()),
                ("memory_id", models.TextField()),
                ("outcome", models.TextField(choices=[("content", "Content"), ("gone", "Gone")])),
                ("source", models.TextField(choices=[("read", "Read"), ("push", "Push"), ("import", "Import")])),
                ("observed_at", models.DateTimeField()),
                ("unchanged_until", models.DateTimeField(null=True)),
                ("content", models.TextField(null=True)),
                ("digest", models.BinaryField(max_length=32, null=True)),
                (
                    "tags",
                    django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), default=list, size=None),
                ),
                ("created_at_reported", models.DateTimeField(null=True)),
                ("expires_at", models.DateTimeField(null=True)),
                ("redactions", models.IntegerField(default=0)),
                ("looks_secret", models.BooleanField(default=False)),
                ("detail", models.TextField(blank=True)),
            ],
        ),
        migrations.CreateModel(
            name="ContentState",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "entry_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("entry_id", models.UUIDField()),
                ("host_id", models.BigIntegerField()),
                ("number", models.IntegerField(default=0)),
                ("outcome", models.TextField(choices=[("content", "Content"), ("gone", "Gone")], null=True)),
                ("excerpt", models.TextField(null=True)),
                ("expires_at", models.DateTimeField(null=True)),
                ("seen_at", models.DateTimeField(null=True)),
                ("unchanged", models.IntegerField(default=0)),
                (
                    "urgency",
                    models.SmallIntegerField(choices=[(0, "Written"), (1, "Backlog"), (2, "Again")], default=1),
                ),
                ("next_at", models.DateTimeField(null=True)),
                ("failures", models.IntegerField(default=0)),
                ("error", models.TextField(blank=True)),
                ("error_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("next_at__isnull", False)),
                        fields=["tenant_id", "host_id", "urgency", "next_at"],
                        name="content_due",
                    ),
                    models.Index(
                        condition=models.Q(("outcome__isnull", False)),
                        fields=["tenant_id", "outcome", "expires_at"],
                        name="content_by_outcome",
                    ),
                    models.Index(
                        condition=models.Q(("failures__gt", 0)),
                        fields=["tenant_id", "host_id", "-error_at"],
                        name="content_failed",
                    ),
                ],
            },
        ),
        *(foreign_key(name) for name in KEYS),
        *(migrations.RunSQL(protect(table), unprotect(table)) for table in TABLES),
        migrations.RunSQL(APPEND_ONLY, APPEND_ONLY_OFF),
        migrations.RunSQL(COMPRESSION, migrations.RunSQL.noop),
    ]
