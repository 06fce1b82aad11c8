"""Memory that is kept here: puts and deletes are facts and append-only, snapshots of runs too; settings of a tenant.

An observation says when its row was made, so that what a run could see at its start can be told for ever after.
"""

from __future__ import annotations

import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
from django.db import migrations, models

from openwop_ui.tenancy.rls import OPERATOR, protect, unprotect

ENTRY = ("tenant_id, entry_id", "ledger_memoryentry", "tenant_id, id", " DEFERRABLE INITIALLY DEFERRED")
KEYS = {
    # name: (table, columns, referenced table, referenced columns, when)
    "ownput_host_fk": ("ledger_ownput", "tenant_id, host_id", "runs_host", "tenant_id, id", ""),
    "ownput_runhost_fk": ("ledger_ownput", "tenant_id, run_host_id", "runs_host", "tenant_id, id", ""),
    # Entries are derived: they may go and come back within a transaction, but have to be there at its end.
    "ownput_entry_fk": ("ledger_ownput", *ENTRY),
    "owndelete_put_fk": ("ledger_owndelete", "tenant_id, entry_id", "ledger_ownput", "tenant_id, entry_id", ""),
    "runsnapshot_run_fk": ("ledger_runsnapshot", "tenant_id, run_id", "runs_run", "tenant_id, id", ""),
    "runsnapshot_ofrun_fk": ("ledger_runsnapshot", "tenant_id, of_run_id", "runs_run", "tenant_id, id", ""),
    "runsecret_host_fk": ("ledger_runsecret", "tenant_id, host_id", "runs_host", "tenant_id, id", ""),
    "ledgersettings_host_fk": ("ledger_ledgersettings", "tenant_id, own_host_id", "runs_host", "tenant_id, id", ""),
}
TABLES = ("ledger_ownput", "ledger_owndelete", "ledger_runsnapshot", "ledger_runsecret")
APPEND_ONLY = ("ledger_ownput", "ledger_owndelete", "ledger_runsnapshot")
# The collation makes the order of ids that of their bytes, as the rule has it.
BY_SCOPE = """
CREATE INDEX own_put_by_scope ON ledger_ownput (tenant_id, scope_id, created_at DESC, memory_id COLLATE "C" DESC);
"""
# The rows that are there keep null: when they were made is not known.
RECORDED = """
ALTER TABLE ledger_observation ADD COLUMN recorded_at timestamptz NULL;
ALTER TABLE ledger_observation ALTER COLUMN recorded_at SET DEFAULT clock_timestamp();
"""
OUTCOMES = [("content", "Content"), ("gone", "Gone"), ("deleted", "Deleted"), ("erased", "Erased")]
SOURCES = [("read", "Read"), ("push", "Push"), ("import", "Import"), ("here", "Here")]


def foreign_key(name: str) -> migrations.RunSQL:
    table, columns, target, target_columns, when = KEYS[name]
    return migrations.RunSQL(
        f"ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY ({columns})"
        f" REFERENCES {target} ({target_columns}){when}",
        f"ALTER TABLE {table} DROP CONSTRAINT {name}",
    )


def append_only(table: str) -> migrations.RunSQL:
    return migrations.RunSQL(
        f"CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON {table}"
        " FOR EACH STATEMENT EXECUTE FUNCTION runs_append_only()",
        f"DROP TRIGGER append_only ON {table}",
    )


def composite(*columns: str) -> tuple[str, models.CompositePrimaryKey]:
    key = models.CompositePrimaryKey(*columns, blank=True, editable=False, primary_key=True, serialize=False)
    return "pk", key


def texts() -> django.contrib.postgres.fields.ArrayField[list[str], list[str]]:
    return django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), default=list, size=None)


def days(name: str, words: str) -> models.PositiveIntegerField[int | None, int | None]:
    between = [django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(36500)]
    return models.PositiveIntegerField(
        blank=True,
        help_text=f"Days after which the payloads of {words} are taken away. Empty: never.",
        null=True,
        validators=between,
        verbose_name=name,
    )


class Migration(migrations.Migration):
    dependencies = [("ledger", "0005_claims"), ("tenancy", "0002_row_security")]
    operations = [
        migrations.CreateModel(
            name="OwnPut",
            fields=[
                composite("tenant_id", "entry_id"),
                ("tenant_id", models.BigIntegerField()),
                ("entry_id", models.UUIDField()),
                ("scope_id", models.UUIDField()),
                ("host_id", models.BigIntegerField()),
                ("memory_ref", models.TextField()),
                ("memory_id", models.TextField()),
                ("tags", texts()),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(null=True)),
                ("run_host_id", models.BigIntegerField(null=True)),
                ("run_id", models.TextField(blank=True)),
                ("key_id", models.BigIntegerField()),
                ("key_name", models.TextField()),
                ("writer", models.TextField(blank=True)),
                ("redacted", texts()),
            ],
        ),
        migrations.CreateModel(
            name="OwnDelete",
            fields=[
                composite("tenant_id", "entry_id"),
                ("tenant_id", models.BigIntegerField()),
                ("entry_id", models.UUIDField()),
                ("deleted_at", models.DateTimeField()),
                ("key_id", models.BigIntegerField()),
                ("key_name", models.TextField()),
                ("writer", models.TextField(blank=True)),
            ],
        ),
        migrations.CreateModel(
            name="RunSnapshot",
            fields=[
                composite("tenant_id", "run_id"),
                ("tenant_id", models.BigIntegerField()),
                ("run_id", models.BigIntegerField()),
                ("of_run_id", models.BigIntegerField()),
                ("taken_at", models.DateTimeField()),
                ("noted_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="RunSecret",
            fields=[
                composite("tenant_id", "run_key", "secret_id"),
                ("tenant_id", models.BigIntegerField()),
                ("run_key", models.UUIDField()),
                ("secret_id", models.CharField(max_length=128)),
                ("host_id", models.BigIntegerField()),
                ("run_id", models.TextField()),
                ("sealed", models.TextField()),
                ("registered_at", models.DateTimeField()),
            ],
            options={
                "indexes": [
                    models.Index(fields=["tenant_id", "host_id", "registered_at"], name="run_secret_by_age"),
                ],
            },
        ),
        migrations.CreateModel(
            name="LedgerSettings",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "secret_policy",
                    models.CharField(
                        choices=[("rewrite", "Replace them with a mark"), ("refuse", "Refuse the entry")],
                        default="rewrite",
                        help_text="What becomes of an entry with secrets in it.",
                        max_length=8,
                    ),
                ),
                (
                    "max_entry_bytes",
                    models.PositiveIntegerField(
                        default=65536,
                        help_text="In bytes: content and tags of one entry, in UTF-8. Advertised as maxEntrySizeBytes.",
                        validators=[
                            django.core.validators.MinValueValidator(256),
                            django.core.validators.MaxValueValidator(1048576),
                        ],
                        verbose_name="largest entry",
                    ),
                ),
                ("payload_days", days("payload retention", "source events")),
                ("event_days", days("event retention", "runs' events")),
                ("own_host_id", models.BigIntegerField(editable=False, null=True)),
                ("changed_at", models.DateTimeField(auto_now=True)),
                (
                    "tenant",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="ledger_settings",
                        to="tenancy.tenant",
                    ),
                ),
            ],
            options={"verbose_name": "ledger settings", "verbose_name_plural": "ledger settings"},
        ),
        migrations.AddConstraint(
            model_name="ledgersettings",
            constraint=models.UniqueConstraint(fields=("tenant", "id"), name="ledger_settings_tenant_id"),
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(RECORDED, "ALTER TABLE ledger_observation DROP COLUMN recorded_at")],
            state_operations=[
                migrations.AddField(
                    model_name="observation",
                    name="recorded_at",
                    field=models.DateTimeField(
                        db_default=models.Func(function="clock_timestamp", output_field=models.DateTimeField()),
                        null=True,
                    ),
                ),
            ],
        ),
        migrations.AlterField("observation", "outcome", models.TextField(choices=OUTCOMES)),
        migrations.AlterField("observation", "source", models.TextField(choices=SOURCES)),
        migrations.AlterField("contentstate", "outcome", models.TextField(choices=OUTCOMES, null=True)),
        *(foreign_key(name) for name in KEYS),
        *(migrations.RunSQL(protect(table), unprotect(table)) for table in TABLES),
        migrations.RunSQL(
            protect("ledger_ledgersettings", also=(OPERATOR,)),
            unprotect("ledger_ledgersettings"),
        ),
        *(append_only(table) for table in APPEND_ONLY),
        migrations.RunSQL(BY_SCOPE, "DROP INDEX own_put_by_scope"),
    ]
