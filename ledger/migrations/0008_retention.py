"""Tombstones of what was taken away for good, and what the append-only tables let through for it.

In a transaction that says so (`openwop.retention` is `withhold`) a fact may lose its texts and nothing else: the columns
named here may become empty, or hold the mark of what was taken away. Facts are deleted only when their run or tenant
goes (`on`).
"""

from django.db import migrations, models

from openwop_ui.tenancy.rls import protect, unprotect

APPEND_ONLY = """
CREATE OR REPLACE FUNCTION runs_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('openwop.retention', true) = 'on' THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'UPDATE' AND current_setting('openwop.retention', true) = 'withhold'
        AND EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = TG_RELID AND t.tgname = 'withheld_only') THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;
"""
APPEND_ONLY_BEFORE = """
CREATE OR REPLACE FUNCTION runs_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('openwop.retention', true) = 'on' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;
"""
# Its arguments are columns; one with a ~ in front may change to anything that its foreign key allows.
WITHHELD_ONLY = r"""
CREATE FUNCTION runs_withheld_only() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    before jsonb := to_jsonb(OLD);
    after jsonb := to_jsonb(NEW);
    name text;
    said jsonb;
BEGIN
    FOREACH name IN ARRAY TG_ARGV LOOP
        said := after -> ltrim(name, '~');
        IF said IS DISTINCT FROM before -> ltrim(name, '~') AND NOT (name LIKE '~%'
            OR said IN ('null', '""', '[]', '{}', '"[]"', '"{}"')
            OR said::text ~ '\[erased\]|"erased:|\$withheld|\[withheld ') THEN
            RAISE EXCEPTION '% is append-only: %.% may only be taken away', TG_TABLE_NAME, TG_TABLE_NAME, name
                USING ERRCODE = 'restrict_violation';
        END IF;
        before := before - ltrim(name, '~');
        after := after - ltrim(name, '~');
    END LOOP;
    IF before <> after THEN
        RAISE EXCEPTION '% is append-only: more than texts would be taken away', TG_TABLE_NAME
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
"""
TEXTS = {
    "runs_event": ("body",),
    "runs_eventcopy": ("body",),
    "ledger_observation": ("content", "tags", "detail"),
    "ledger_ownput": ("tags",),
    "ledger_claimrow": ("value", "display", "normal", "problem", "content", "~subject_key_id"),
    "ledger_claimrevision": ("content", "reason"),
    "ledger_decision": ("reason", "evidence", "inputs", "~subject_key_id"),
}
SOURCES = ("payload", "~payload_redacted_at", "evidence", "subject")
# As before, a payload may go at any time; the rest of what an erasure takes only where that is said.
PAYLOAD_ONLY = """
CREATE OR REPLACE FUNCTION ledger_payload_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('openwop.retention', true) = 'on' THEN
        RETURN OLD;
    END IF;
    IF TG_OP = 'UPDATE' AND current_setting('openwop.retention', true) = 'withhold' THEN
        RETURN NEW;
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.payload IS NULL AND NEW.payload_redacted_at IS NOT NULL
        AND (to_jsonb(NEW) - 'payload' - 'payload_redacted_at') = (to_jsonb(OLD) - 'payload' - 'payload_redacted_at')
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;
"""
PAYLOAD_ONLY_BEFORE = PAYLOAD_ONLY.replace(
    """    IF TG_OP = 'DELETE' AND current_setting('openwop.retention', true) = 'on' THEN
        RETURN OLD;
    END IF;
    IF TG_OP = 'UPDATE' AND current_setting('openwop.retention', true) = 'withhold' THEN
        RETURN NEW;
    END IF;
""",
    """    IF current_setting('openwop.retention', true) = 'on' THEN
        RETURN coalesce(NEW, OLD);
    END IF;
""",
)
# What retention takes away in one day adds up in one row.
TOMBSTONES = """
CREATE FUNCTION ledger_tombstones_stay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('openwop.retention', true) = 'on' THEN
        RETURN OLD;
    END IF;
    IF TG_OP = 'UPDATE' AND OLD.kind IN ('payloads', 'events')
        AND (to_jsonb(NEW) - 'at' - 'counts') = (to_jsonb(OLD) - 'at' - 'counts') THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON ledger_erasure
    FOR EACH ROW EXECUTE FUNCTION ledger_tombstones_stay();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON ledger_eraseditem
    FOR EACH STATEMENT EXECUTE FUNCTION runs_append_only();
"""
TOMBSTONES_OFF = """
DROP TRIGGER append_only ON ledger_eraseditem;
DROP TRIGGER append_only ON ledger_erasure;
DROP FUNCTION ledger_tombstones_stay();
"""
KEYS = {
    # name: (table, columns, referenced table, referenced columns)
    "eraseditem_erasure_fk": ("ledger_eraseditem", "tenant_id, erasure_id", "ledger_erasure", "tenant_id, id"),
    "withheldrun_run_fk": ("ledger_withheldrun", "tenant_id, run_id", "runs_run", "tenant_id, id"),
}
TABLES = ("ledger_erasure", "ledger_eraseditem", "ledger_withheldrun")


def foreign_key(name: str) -> migrations.RunSQL:
    table, columns, target, target_columns = KEYS[name]
    cascade = " ON DELETE CASCADE" if table == "ledger_withheldrun" else ""
    return migrations.RunSQL(
        f"ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY ({columns})"
        f" REFERENCES {target} ({target_columns}){cascade}",
        f"ALTER TABLE {table} DROP CONSTRAINT {name}",
    )


def texts_only(table: str, columns: tuple[str, ...]) -> migrations.RunSQL:
    named = ", ".join(f"'{column}'" for column in columns)
    return migrations.RunSQL(
        f"CREATE TRIGGER withheld_only BEFORE UPDATE ON {table}"
        f" FOR EACH ROW EXECUTE FUNCTION runs_withheld_only({named})",
        f"DROP TRIGGER withheld_only ON {table}",
    )


def composite(*columns: str) -> tuple[str, models.CompositePrimaryKey]:
    key = models.CompositePrimaryKey(*columns, blank=True, editable=False, primary_key=True, serialize=False)
    return "pk", key


class Migration(migrations.Migration):
    dependencies = [("ledger", "0007_receipts"), ("runs", "0008_state")]
    operations = [
        migrations.CreateModel(
            name="Erasure",
            fields=[
                composite("tenant_id", "id"),
                ("tenant_id", models.BigIntegerField()),
                ("id", models.UUIDField()),
                (
                    "kind",
                    models.TextField(
                        choices=[
                            ("entry", "An entry"),
                            ("subject", "A subject"),
                            ("payloads", "Payloads of source events"),
                            ("events", "Payloads of runs' events"),
                        ]
                    ),
                ),
                ("at", models.DateTimeField()),
                ("actor", models.TextField()),
                ("user_id", models.BigIntegerField(null=True)),
                ("key_id", models.BigIntegerField(null=True)),
                ("entry_id", models.UUIDField(null=True)),
                ("subject_hash", models.BinaryField(max_length=32, null=True)),
                ("counts", models.JSONField(default=dict)),
            ],
            options={"indexes": [models.Index(fields=["tenant_id", "-at", "-id"], name="erasure_by_time")]},
        ),
        migrations.CreateModel(
            name="ErasedItem",
            fields=[
                composite("tenant_id", "erasure_id", "kind", "item"),
                ("tenant_id", models.BigIntegerField()),
                ("erasure_id", models.UUIDField()),
                ("kind", models.TextField()),
                ("item", models.TextField()),
                ("digest", models.BinaryField(max_length=32, null=True)),
            ],
        ),
        migrations.CreateModel(
            name="WithheldRun",
            fields=[
                composite("tenant_id", "run_id"),
                ("tenant_id", models.BigIntegerField()),
                ("run_id", models.BigIntegerField()),
                ("through", models.BigIntegerField(default=-1)),
                ("event_count", models.BigIntegerField(default=0)),
                ("is_done", models.BooleanField(default=False)),
                ("withheld_at", models.DateTimeField()),
            ],
        ),
        *(foreign_key(name) for name in KEYS),
        *(migrations.RunSQL(protect(table), unprotect(table)) for table in TABLES),
        migrations.RunSQL(APPEND_ONLY, APPEND_ONLY_BEFORE),
        migrations.RunSQL(WITHHELD_ONLY, "DROP FUNCTION runs_withheld_only()"),
        *(texts_only(table, columns) for table, columns in TEXTS.items()),
        migrations.RunSQL(PAYLOAD_ONLY, PAYLOAD_ONLY_BEFORE),
        texts_only("ledger_sourceevent", SOURCES),
        migrations.RunSQL(TOMBSTONES, TOMBSTONES_OFF),
    ]
