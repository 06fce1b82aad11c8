"""What a run is called besides, who asked for it, and whether following it rests.

One of the first major is bound to its tenant in the second. A run with a bound id has its bare one as another name
from the moment it is there. Where two have the same, neither does.
"""

import django.db.models.deletion
from django.db import migrations, models

from openwop_ui.tenancy.rls import protect, unprotect

KEYS = """
ALTER TABLE runs_runalias
    ADD CONSTRAINT runalias_host_fk FOREIGN KEY (tenant_id, host_id) REFERENCES runs_host (tenant_id, id),
    ADD CONSTRAINT runalias_run_fk FOREIGN KEY (tenant_id, run_id) REFERENCES runs_run (tenant_id, id)
        ON DELETE CASCADE
"""
KEYS_OFF = """
ALTER TABLE runs_runalias DROP CONSTRAINT runalias_run_fk, DROP CONSTRAINT runalias_host_fk
"""
BARE = """
CREATE FUNCTION runs_name_bare() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO runs_runalias AS a (tenant_id, host_id, alias, run_id)
    VALUES (NEW.tenant_id, NEW.host_id, split_part(NEW.run_id, '/', 2), NEW.id)
    ON CONFLICT (tenant_id, host_id, alias) DO UPDATE SET run_id = NULL;
    RETURN NULL;
END $$;
CREATE TRIGGER name_bare AFTER INSERT ON runs_run FOR EACH ROW
    WHEN (NEW.run_id ~ '^[^/]+/[^/]+$') EXECUTE FUNCTION runs_name_bare();
"""
BARE_OFF = "DROP TRIGGER name_bare ON runs_run; DROP FUNCTION runs_name_bare()"
NAMED = """
CREATE FUNCTION runs_run_named(tenant bigint, host bigint, name text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        (SELECT r.id FROM runs_run r WHERE r.tenant_id = tenant AND r.host_id = host AND r.run_id = name),
        (SELECT a.run_id FROM runs_runalias a WHERE a.tenant_id = tenant AND a.host_id = host AND a.alias = name))
$$
"""


class Migration(migrations.Migration):
    dependencies = [("runs", "0005_intake")]
    operations = [
        migrations.AddField("follow", "asked_here", models.BooleanField(db_default=False)),
        migrations.AddField("follow", "paused", models.BooleanField(db_default=False)),
        migrations.AddField("subscription", "dead_count", models.BigIntegerField(db_default=0)),
        migrations.AddField("subscription", "last_dead_at", models.DateTimeField(null=True)),
        migrations.CreateModel(
            name="RunAlias",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "host", "alias", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("alias", models.TextField()),
                ("run_id", models.BigIntegerField(null=True)),
                (
                    "host",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="run_aliases",
                        to="runs.host",
                    ),
                ),
            ],
        ),
        migrations.RunSQL(KEYS, KEYS_OFF),
        migrations.RunSQL(
            "CREATE INDEX runalias_by_run ON runs_runalias (tenant_id, run_id)", "DROP INDEX runalias_by_run"
        ),
        migrations.RunSQL(BARE, BARE_OFF),
        migrations.RunSQL(protect("runs_runalias"), unprotect("runs_runalias")),
        migrations.RunSQL(NAMED, "DROP FUNCTION runs_run_named(bigint, bigint, text)"),
    ]
