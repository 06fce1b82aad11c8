"""A run's log as columns, in chunks, derived from the log. Attempts are asked for by lane and place."""

from django.db import migrations, models

from openwop_ui.tenancy.rls import protect, unprotect

KEY = """
ALTER TABLE runs_eventchunk ADD CONSTRAINT eventchunk_run_fk
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs_run (tenant_id, id) ON DELETE CASCADE
"""
# A chunk is some 75 KB that hardly get smaller; read as it is, it costs no decompression.
STORAGE = "ALTER TABLE runs_eventchunk ALTER COLUMN body SET STORAGE EXTERNAL"


class Migration(migrations.Migration):
    dependencies = [("runs", "0006_hosts")]
    operations = [
        migrations.CreateModel(
            name="EventChunk",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "run_id", "number", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("run_id", models.BigIntegerField()),
                ("number", models.BigIntegerField()),
                ("events", models.IntegerField()),
                ("body", models.BinaryField()),
            ],
        ),
        migrations.RunSQL(KEY, "ALTER TABLE runs_eventchunk DROP CONSTRAINT eventchunk_run_fk"),
        migrations.RunSQL(STORAGE, migrations.RunSQL.noop),
        migrations.RunSQL(protect("runs_eventchunk"), unprotect("runs_eventchunk")),
        migrations.RemoveIndex(model_name="attempt", name="attempt_by_start"),
        migrations.AddIndex(
            model_name="attempt",
            index=models.Index(fields=["tenant_id", "run_id", "node_id", "from_sequence"], name="attempt_of_lane"),
        ),
    ]
