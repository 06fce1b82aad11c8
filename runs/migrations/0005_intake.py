"""The link from the log to its runs is checked once a statement instead of once an event.

A declared foreign key asks for the run of each event again, which takes as long as storing the event does. What holds
is the same: no event without its tenant's run, no run goes while it has events, and either waits for the other.
"""

from django.db import migrations

EVENTS = """
CREATE FUNCTION runs_event_has_run() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    told record;
BEGIN
    FOR told IN SELECT DISTINCT tenant_id, run_id FROM added LOOP
        PERFORM FROM runs_run WHERE tenant_id = told.tenant_id AND id = told.run_id FOR KEY SHARE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'an event of run (%, %), which there is not', told.tenant_id, told.run_id
                USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'event_run_fk', TABLE = 'runs_event';
        END IF;
    END LOOP;
    RETURN NULL;
END $$;
CREATE TRIGGER has_run_when_added AFTER INSERT ON runs_event
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION runs_event_has_run();
CREATE TRIGGER has_run_when_changed AFTER UPDATE ON runs_event
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION runs_event_has_run();
"""
EVENTS_OFF = """
DROP TRIGGER has_run_when_added ON runs_event;
DROP TRIGGER has_run_when_changed ON runs_event;
DROP FUNCTION runs_event_has_run();
"""
RUNS = """
CREATE FUNCTION runs_run_has_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM runs_event WHERE tenant_id = OLD.tenant_id AND run_id = OLD.id LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'run (%, %) has events', OLD.tenant_id, OLD.id
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'event_run_fk', TABLE = 'runs_run';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER has_events_when_removed AFTER DELETE ON runs_run
    FOR EACH ROW EXECUTE FUNCTION runs_run_has_events();
CREATE TRIGGER has_events_when_renamed AFTER UPDATE OF tenant_id, id ON runs_run
    FOR EACH ROW WHEN (OLD.tenant_id <> NEW.tenant_id OR OLD.id <> NEW.id) EXECUTE FUNCTION runs_run_has_events();
"""
RUNS_OFF = """
DROP TRIGGER has_events_when_removed ON runs_run;
DROP TRIGGER has_events_when_renamed ON runs_run;
DROP FUNCTION runs_run_has_events();
"""
DECLARED = "ALTER TABLE runs_event DROP CONSTRAINT event_run_fk"
DECLARED_AGAIN = (
    "ALTER TABLE runs_event ADD CONSTRAINT event_run_fk"
    " FOREIGN KEY (tenant_id, run_id) REFERENCES runs_run (tenant_id, id)"
)


class Migration(migrations.Migration):
    dependencies = [("runs", "0004_doors_row_security")]
    operations = [
        migrations.RunSQL(EVENTS, EVENTS_OFF),
        migrations.RunSQL(RUNS, RUNS_OFF),
        migrations.RunSQL(DECLARED, DECLARED_AGAIN),
    ]
