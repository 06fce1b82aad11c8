"""Memory refs with their counts, so that no list counts entries one by one; sources that only tags name."""

from django.db import migrations, models

from openwop_ui.tenancy.rls import protect, unprotect

KEYS = {
    # name: (table, columns, referenced table, referenced columns, when)
    "scope_host_fk": ("ledger_memoryscope", "tenant_id, host_id", "runs_host", "tenant_id, id", ""),
    # A scope is written after the entries that it counts, in the same transaction.
    "entry_scope_fk": (
        "ledger_memoryentry",
        "tenant_id, scope_id",
        "ledger_memoryscope",
        "tenant_id, id",
        " DEFERRABLE INITIALLY DEFERRED",
    ),
    "taggedsource_write_fk": (
        "ledger_taggedsource",
        "tenant_id, run_id, sequence",
        "ledger_memorywrite",
        "tenant_id, run_id, sequence",
        "",
    ),
}
TABLES = ("ledger_memoryscope", "ledger_taggedsource")
# All of it is derived: the worker reads the log again and fills the new columns.
FORGET = "TRUNCATE ledger_mergesource, ledger_merge, ledger_memorywrite, ledger_memoryentry, ledger_readingcursor"


def foreign_key(name: str) -> migrations.RunSQL:
    table, columns, target, target_columns, when = KEYS[name]
    return migrations.RunSQL(
        f"ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY ({columns})"
        f" REFERENCES {target} ({target_columns}){when}",
        f"ALTER TABLE {table} DROP CONSTRAINT {name}",
    )


class Migration(migrations.Migration):
    dependencies = [("ledger", "0002_row_security")]
    operations = [
        migrations.RunSQL(FORGET, migrations.RunSQL.noop),
        migrations.CreateModel(
            name="MemoryScope",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("id", models.UUIDField()),
                ("host_id", models.BigIntegerField()),
                ("memory_ref", models.TextField()),
                ("entry_count", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="TaggedSource",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "run_id",
                        "sequence",
                        "entry_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("run_id", models.BigIntegerField()),
                ("sequence", models.BigIntegerField()),
                ("entry_id", models.UUIDField()),
            ],
        ),
        migrations.AddField(model_name="memoryentry", name="scope_id", field=models.UUIDField(), preserve_default=True),
        migrations.AddIndex(
            model_name="memoryentry",
            index=models.Index(fields=["tenant_id", "scope_id", "-last_at", "-id"], name="entry_by_scope"),
        ),
        migrations.AddIndex(
            model_name="taggedsource",
            index=models.Index(fields=["tenant_id", "entry_id"], name="tagged_source_by_entry"),
        ),
        *(foreign_key(name) for name in KEYS),
        *(migrations.RunSQL(protect(table), unprotect(table)) for table in TABLES),
    ]
