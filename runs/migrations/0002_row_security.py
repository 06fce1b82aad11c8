"""Links between a tenant's rows include the tenant; row-level security is forced; the log takes no change."""

from django.db import migrations

from openwop_ui.tenancy.rls import OPERATOR, protect, unprotect

KEYS = {
    # name: (table, columns, referenced table, referenced columns)
    "run_host_fk": ("runs_run", "tenant_id, host_id", "runs_host", "tenant_id, id"),
    "event_run_fk": ("runs_event", "tenant_id, run_id", "runs_run", "tenant_id, id"),
    "eventcopy_event_fk": (
        "runs_eventcopy",
        "tenant_id, run_id, sequence",
        "runs_event",
        "tenant_id, run_id, sequence",
    ),
    "runnode_run_fk": ("runs_runnode", "tenant_id, run_id", "runs_run", "tenant_id, id"),
    "attempt_node_fk": (
        "runs_attempt",
        "tenant_id, run_id, node_id",
        "runs_runnode",
        "tenant_id, run_id, node_id",
    ),
    "incident_host_fk": ("runs_incident", "tenant_id, host_id", "runs_host", "tenant_id, id"),
    "incident_run_fk": ("runs_incident", "tenant_id, run_id", "runs_run", "tenant_id, id"),
    "follow_host_fk": ("runs_follow", "tenant_id, host_id", "runs_host", "tenant_id, id"),
}
TENANTS_ONLY = (
    "runs_run",
    "runs_event",
    "runs_eventcopy",
    "runs_runnode",
    "runs_attempt",
    "runs_incident",
    "runs_follow",
)
APPEND_ONLY = """
CREATE FUNCTION runs_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('openwop.retention', true) = 'on' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON runs_event
    FOR EACH STATEMENT EXECUTE FUNCTION runs_append_only();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON runs_eventcopy
    FOR EACH STATEMENT EXECUTE FUNCTION runs_append_only();
"""
APPEND_ONLY_OFF = """
DROP TRIGGER append_only ON runs_event;
DROP TRIGGER append_only ON runs_eventcopy;
DROP FUNCTION runs_append_only();
"""
INDEXES = """
CREATE INDEX event_by_node ON runs_event (tenant_id, run_id, node_id, sequence) WHERE node_id IS NOT NULL;
CREATE INDEX event_of_memory ON runs_event (tenant_id, run_id, sequence)
    WHERE type IN ('memory.written', 'memory.compacted', 'agent.memory.consolidated');
CREATE INDEX event_partial ON runs_event (tenant_id, run_id, sequence) WHERE NOT has_payload;
"""
INDEXES_OFF = "DROP INDEX event_partial; DROP INDEX event_of_memory; DROP INDEX event_by_node;"
# Bodies above the page's share are compressed; lz4 costs the least, where the server has it.
COMPRESSION = """
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        ALTER TABLE runs_event ALTER COLUMN body SET COMPRESSION lz4;
    END IF;
END $$;
"""


def foreign_key(name: str) -> migrations.RunSQL:
    table, columns, target, target_columns = KEYS[name]
    return migrations.RunSQL(
        f"ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY ({columns}) REFERENCES {target} ({target_columns})",
        f"ALTER TABLE {table} DROP CONSTRAINT {name}",
    )


class Migration(migrations.Migration):
    dependencies = [("runs", "0001_log"), ("tenancy", "0002_row_security")]
    operations = [
        *(foreign_key(name) for name in KEYS),
        migrations.RunSQL(protect("runs_host", also=(OPERATOR,)), unprotect("runs_host")),
        *(migrations.RunSQL(protect(table), unprotect(table)) for table in TENANTS_ONLY),
        migrations.RunSQL(APPEND_ONLY, APPEND_ONLY_OFF),
        migrations.RunSQL(INDEXES, INDEXES_OFF),
        migrations.RunSQL(COMPRESSION, migrations.RunSQL.noop),
    ]
