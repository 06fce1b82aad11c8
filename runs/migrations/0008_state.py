"""States of runs, kept every so often and derived from the log; and the runs that are forks, to be found by their
source."""

from django.db import migrations, models

from openwop_ui.tenancy.rls import protect, unprotect

KEY = """
ALTER TABLE runs_statesnapshot ADD CONSTRAINT statesnapshot_run_fk
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs_run (tenant_id, id) ON DELETE CASCADE
"""
FORKS = """
CREATE INDEX run_by_parent ON runs_run (tenant_id, host_id, parent_run_id, id) WHERE parent_run_id <> ''
"""


class Migration(migrations.Migration):
    dependencies = [("runs", "0007_timeline")]
    operations = [
        migrations.CreateModel(
            name="StateSnapshot",
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
                ("version", models.IntegerField()),
                ("revision", models.IntegerField()),
                ("event_count", models.BigIntegerField()),
                ("body", models.BinaryField()),
            ],
        ),
        migrations.RunSQL(KEY, "ALTER TABLE runs_statesnapshot DROP CONSTRAINT statesnapshot_run_fk"),
        migrations.RunSQL(protect("runs_statesnapshot"), unprotect("runs_statesnapshot")),
        migrations.RunSQL(FORKS, "DROP INDEX run_by_parent"),
    ]
