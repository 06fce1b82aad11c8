"""Writers, source events, claims, conflicts and decisions.

Two active claims in one lane at one time can not be stored, facts are append-only, links between a tenant's rows
include the tenant, and row-level security is forced.
"""

import django.contrib.postgres.constraints
import django.contrib.postgres.fields
import django.contrib.postgres.fields.ranges
import django.core.validators
import django.db.models.deletion
from django.db import migrations, models

from openwop_ui.tenancy.rls import OPERATOR, protect, unprotect

LATER = " DEFERRABLE INITIALLY DEFERRED"
CLAIM = ("ledger_claimrow", "tenant_id, id")
SUBJECT_KEY = ("tenant_id, subject_key_id", "ledger_subjectkey", "tenant_id, id")
KEYS = {
    # name: (table, columns, referenced table, referenced columns, when)
    "job_source_fk": ("ledger_job", "tenant_id, source_event_id", "ledger_sourceevent", "tenant_id, id", ""),
    "answer_key_fk": ("ledger_idempotentanswer", "tenant_id, key_id", "tenancy_apikey", "tenant_id, id", ""),
    "claim_subject_key_fk": ("ledger_claimrow", *SUBJECT_KEY, ""),
    "claim_source_fk": ("ledger_claimrow", "tenant_id, source_event_id", "ledger_sourceevent", "tenant_id, id", ""),
    # A decision and the claim that it makes are written together.
    "claim_decision_fk": ("ledger_claimrow", "tenant_id, decision_id", "ledger_decision", "tenant_id, id", LATER),
    "claimrevision_claim_fk": ("ledger_claimrevision", "tenant_id, claim_id", *CLAIM, ""),
    "claimstate_claim_fk": ("ledger_claimstate", "tenant_id, claim_id", *CLAIM, ""),
    "holding_claim_fk": ("ledger_holding", "tenant_id, claim_id", *CLAIM, ""),
    "conflict_subject_key_fk": ("ledger_conflict", *SUBJECT_KEY, ""),
    "conflict_decision_fk": ("ledger_conflict", "tenant_id, decision_id", "ledger_decision", "tenant_id, id", LATER),
    "conflictclaim_conflict_fk": (
        "ledger_conflictclaim",
        "tenant_id, conflict_id",
        "ledger_conflict",
        "tenant_id, id",
        "",
    ),
    "conflictclaim_claim_fk": ("ledger_conflictclaim", "tenant_id, claim_id", *CLAIM, ""),
    "conflictchange_conflict_fk": (
        "ledger_conflictchange",
        "tenant_id, conflict_id",
        "ledger_conflict",
        "tenant_id, id",
        "",
    ),
    "decision_subject_key_fk": ("ledger_decision", *SUBJECT_KEY, ""),
    "decision_conflict_fk": ("ledger_decision", "tenant_id, conflict_id", "ledger_conflict", "tenant_id, id", ""),
}
TABLES = (
    "ledger_claimrevision",
    "ledger_claimrow",
    "ledger_claimstate",
    "ledger_conflict",
    "ledger_conflictchange",
    "ledger_conflictclaim",
    "ledger_decision",
    "ledger_holding",
    "ledger_idempotentanswer",
    "ledger_job",
    "ledger_sourceevent",
    "ledger_subjectkey",
    "ledger_unreadentry",
)
ADMINISTERED = ("ledger_claimkey", "ledger_servicewriter")
APPEND_ONLY = ("ledger_claimrevision", "ledger_claimrow", "ledger_conflictchange", "ledger_decision")
# What retention takes away is the payload and nothing else; erasure says so beforehand, as for the log.
PAYLOAD_ONLY = """
CREATE FUNCTION ledger_payload_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('openwop.retention', true) = 'on' THEN
        RETURN coalesce(NEW, OLD);
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.payload IS NULL AND NEW.payload_redacted_at IS NOT NULL
        AND (to_jsonb(NEW) - 'payload' - 'payload_redacted_at') = (to_jsonb(OLD) - 'payload' - 'payload_redacted_at')
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON ledger_sourceevent
    FOR EACH ROW EXECUTE FUNCTION ledger_payload_only();
"""
PAYLOAD_ONLY_OFF = "DROP TRIGGER append_only ON ledger_sourceevent; DROP FUNCTION ledger_payload_only();"
# Entries that were seen before there were claims. Whoever migrates owns the tables, but is in no tenant's scope.
READ_ALL = """
ALTER TABLE ledger_observation NO FORCE ROW LEVEL SECURITY;
INSERT INTO ledger_unreadentry (tenant_id, entry_id, number)
    SELECT tenant_id, entry_id, number FROM ledger_observation;
ALTER TABLE ledger_observation FORCE ROW LEVEL SECURITY;
"""


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


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0004_observations"),
        ("runs", "0004_doors_row_security"),
        ("tenancy", "0003_key_writer"),
    ]
    operations = [
        migrations.RunSQL("CREATE EXTENSION IF NOT EXISTS btree_gist", migrations.RunSQL.noop),
        migrations.CreateModel(
            name="ClaimRevision",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "claim_id",
                        "revision",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("claim_id", models.UUIDField()),
                ("revision", models.IntegerField()),
                ("scope", models.TextField()),
                ("content", models.TextField(blank=True)),
                ("valid_from", models.DateTimeField(null=True)),
                ("valid_to", models.DateTimeField(null=True)),
                ("confidence", models.FloatField(null=True)),
                ("withdrawn", models.BooleanField(default=False)),
                ("revised_by", models.TextField()),
                ("revised_by_kind", models.TextField()),
                ("reason", models.TextField(blank=True)),
                ("received_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="ConflictChange",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "conflict_id",
                        "revision",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("conflict_id", models.UUIDField()),
                ("revision", models.IntegerField()),
                ("at", models.DateTimeField()),
                (
                    "change",
                    models.TextField(
                        choices=[
                            ("opened", "Opened"),
                            ("decided", "Decided"),
                            ("extended", "Extended"),
                            ("reopened", "Reopened"),
                            ("dissolved", "Dissolved"),
                            ("weighed", "Weighed"),
                            ("suggested", "Suggested"),
                            ("dismissed", "Dismissed"),
                            ("check_failed", "Check Failed"),
                        ]
                    ),
                ),
                (
                    "state",
                    models.TextField(
                        choices=[
                            ("open", "Open"),
                            ("decided", "Decided"),
                            ("suggested", "Suggested"),
                            ("check_failed", "Check failed"),
                            ("dissolved", "Dissolved"),
                            ("dismissed", "Dismissed"),
                        ]
                    ),
                ),
                (
                    "added",
                    django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), default=list, size=None),
                ),
                (
                    "removed",
                    django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), default=list, size=None),
                ),
                ("decision_id", models.UUIDField(null=True)),
                ("actor", models.TextField(blank=True)),
                ("rule", models.TextField(blank=True)),
            ],
        ),
        migrations.CreateModel(
            name="UnreadEntry",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "entry_id", "number", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("entry_id", models.UUIDField()),
                ("number", models.IntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="ClaimRow",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("id", models.UUIDField()),
                ("subject_key_id", models.UUIDField()),
                ("scope", models.TextField()),
                ("value", models.TextField()),
                ("display", models.TextField()),
                ("normal", models.TextField(null=True)),
                ("normaliser", models.TextField()),
                ("problem", models.TextField(blank=True)),
                ("content", models.TextField(blank=True)),
                ("valid_from", models.DateTimeField(null=True)),
                ("valid_to", models.DateTimeField(null=True)),
                ("confidence", models.FloatField(null=True)),
                ("writer", models.TextField()),
                ("observed_at", models.DateTimeField()),
                ("received_at", models.DateTimeField()),
                ("ordinal", models.IntegerField(default=0)),
                ("extractor", models.TextField(blank=True)),
                ("source_event_id", models.UUIDField(null=True)),
                ("decision_id", models.UUIDField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["subject_key_id", "tenant_id"], name="claim_by_subject_key"),
                    models.Index(fields=["source_event_id", "tenant_id"], name="claim_by_source_event"),
                    models.Index(fields=["writer", "tenant_id", "subject_key_id"], name="claim_by_writer"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("decision_id__isnull", True), ("source_event_id__isnull", False)),
                            models.Q(("decision_id__isnull", False), ("source_event_id__isnull", True)),
                            _connector="OR",
                        ),
                        name="claim_has_one_origin",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ClaimState",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "claim_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("claim_id", models.UUIDField()),
                ("subject_key_id", models.UUIDField()),
                ("subject", models.TextField()),
                (
                    "status",
                    models.TextField(
                        choices=[
                            ("active", "active"),
                            ("contested", "contested"),
                            ("corroborates", "corroborates"),
                            ("superseded", "superseded"),
                            ("archived", "archived"),
                            ("withdrawn", "withdrawn"),
                            ("unchecked", "unchecked"),
                        ]
                    ),
                ),
                (
                    "rule",
                    models.TextField(
                        blank=True,
                        choices=[
                            ("unopposed", "unopposed"),
                            ("agreement", "agreement"),
                            ("same_writer", "same writer"),
                            ("authority", "authority"),
                            ("recency", "recency"),
                            ("confidence", "confidence"),
                            ("person", "person"),
                            ("taken_back", "taken back"),
                            ("equal_authority", "equal authority"),
                            ("exact_tie", "exact tie"),
                            ("after_decision", "after decision"),
                        ],
                    ),
                ),
                ("to_claim", models.UUIDField(null=True)),
                ("revision", models.IntegerField(default=1)),
                ("normal", models.TextField(null=True)),
                ("normaliser", models.TextField()),
                ("problem", models.TextField(blank=True)),
                ("observed_at", models.DateTimeField()),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["tenant_id", "subject", "status", "-observed_at", "-claim_id"],
                        name="claim_state_by_subject",
                    ),
                    models.Index(fields=["tenant_id", "-observed_at", "-claim_id"], name="claim_state_by_time"),
                    models.Index(fields=["tenant_id", "subject_key_id"], name="claim_state_by_subject_key"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Conflict",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("id", models.UUIDField()),
                (
                    "kind",
                    models.TextField(
                        choices=[("contest", "Contest"), ("suggestion", "Suggestion"), ("check", "Check")]
                    ),
                ),
                ("subject_key_id", models.UUIDField()),
                ("scope", models.TextField()),
                (
                    "state",
                    models.TextField(
                        choices=[
                            ("open", "Open"),
                            ("decided", "Decided"),
                            ("suggested", "Suggested"),
                            ("check_failed", "Check failed"),
                            ("dissolved", "Dissolved"),
                            ("dismissed", "Dismissed"),
                        ]
                    ),
                ),
                ("revision", models.IntegerField(default=1)),
                ("opened_at", models.DateTimeField()),
                ("changed_at", models.DateTimeField()),
                ("decided_at", models.DateTimeField(null=True)),
                ("follows", models.UUIDField(null=True)),
                ("decision_id", models.UUIDField(null=True)),
                ("merged_into", models.UUIDField(null=True)),
                ("rule", models.TextField(blank=True)),
                ("policy", models.TextField(blank=True)),
                ("explanation", models.JSONField(default=dict)),
                ("inputs", models.JSONField(default=list)),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["tenant_id", "state", "-opened_at", "-id"],
                        condition=models.Q(("tenant_id__gt", 0)),
                        name="conflict_by_state",
                    ),
                    models.Index(
                        fields=["tenant_id", "-opened_at", "-id"],
                        condition=models.Q(("tenant_id__gt", 0)),
                        name="conflict_by_time",
                    ),
                    models.Index(fields=["subject_key_id", "tenant_id"], name="conflict_by_subject_key"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ConflictClaim",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "conflict_id",
                        "claim_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("conflict_id", models.UUIDField()),
                ("claim_id", models.UUIDField()),
                ("side", models.SmallIntegerField(default=0)),
                ("is_contender", models.BooleanField(default=False)),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "claim_id"], name="conflict_by_claim")],
            },
        ),
        migrations.CreateModel(
            name="Decision",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("id", models.UUIDField()),
                ("subject_key_id", models.UUIDField()),
                ("ordinal", models.IntegerField()),
                ("conflict_id", models.UUIDField()),
                (
                    "verdict",
                    models.TextField(
                        choices=[
                            ("choose", "choose"),
                            ("both", "both"),
                            ("neither", "neither"),
                            ("correct", "correct"),
                            ("undo", "undo"),
                        ]
                    ),
                ),
                (
                    "considered",
                    django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), default=list, size=None),
                ),
                ("kept", models.UUIDField(null=True)),
                ("placements", models.JSONField(default=list)),
                ("undoes", models.UUIDField(null=True)),
                ("follows", models.UUIDField(null=True)),
                ("reason", models.TextField(blank=True)),
                ("evidence", models.TextField(blank=True)),
                ("revision", models.IntegerField()),
                ("actor", models.TextField()),
                ("actor_kind", models.TextField(choices=[("person", "Person"), ("key", "Key")])),
                ("user_id", models.BigIntegerField(null=True)),
                ("key_id", models.BigIntegerField(null=True)),
                ("decided_at", models.DateTimeField()),
                ("policy", models.TextField()),
                (
                    "rule",
                    models.TextField(
                        blank=True,
                        choices=[
                            ("unopposed", "unopposed"),
                            ("agreement", "agreement"),
                            ("same_writer", "same writer"),
                            ("authority", "authority"),
                            ("recency", "recency"),
                            ("confidence", "confidence"),
                            ("person", "person"),
                            ("taken_back", "taken back"),
                            ("equal_authority", "equal authority"),
                            ("exact_tie", "exact tie"),
                            ("after_decision", "after decision"),
                        ],
                    ),
                ),
                ("inputs", models.JSONField(default=list)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["conflict_id", "tenant_id"], name="decision_by_conflict"),
                    models.Index(
                        fields=["tenant_id", "-decided_at", "-id"],
                        condition=models.Q(("tenant_id__gt", 0)),
                        name="decision_by_time",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("subject_key_id", "ordinal", "tenant_id"), name="decision_ordinal"),
                    models.UniqueConstraint(fields=("undoes", "tenant_id"), name="decision_undone_once"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Holding",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "claim_id", "valid", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("claim_id", models.UUIDField()),
                ("valid", django.contrib.postgres.fields.ranges.DateTimeRangeField()),
                ("lane", models.UUIDField()),
                ("subject_key_id", models.UUIDField()),
                ("scope", models.TextField()),
                (
                    "rule",
                    models.TextField(
                        choices=[
                            ("unopposed", "unopposed"),
                            ("agreement", "agreement"),
                            ("same_writer", "same writer"),
                            ("authority", "authority"),
                            ("recency", "recency"),
                            ("confidence", "confidence"),
                            ("person", "person"),
                            ("taken_back", "taken back"),
                            ("equal_authority", "equal authority"),
                            ("exact_tie", "exact tie"),
                            ("after_decision", "after decision"),
                        ]
                    ),
                ),
                ("is_open", models.BooleanField(default=False)),
                ("decision_id", models.UUIDField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "subject_key_id"], name="holding_by_subject_key")],
                "constraints": [
                    django.contrib.postgres.constraints.ExclusionConstraint(
                        expressions=[("tenant_id", "="), ("lane", "="), ("valid", "&&")], name="one_holding_at_a_time"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="IdempotentAnswer",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id",
                        "key_id",
                        "idempotency_key",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("key_id", models.BigIntegerField()),
                ("idempotency_key", models.TextField()),
                ("request_hash", models.BinaryField(max_length=32)),
                ("status", models.IntegerField()),
                ("body", models.TextField()),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "indexes": [models.Index(fields=["tenant_id", "created_at"], name="idempotent_answer_by_age")],
            },
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("id", models.UUIDField()),
                ("source_event_id", models.UUIDField()),
                (
                    "status",
                    models.TextField(
                        choices=[("queued", "Queued"), ("running", "Running"), ("done", "Done"), ("failed", "Failed")]
                    ),
                ),
                ("extractor", models.TextField(blank=True)),
                ("result", models.JSONField(null=True)),
                ("error", models.TextField(blank=True)),
                ("attempts", models.IntegerField(default=0)),
                ("created_at", models.DateTimeField()),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("next_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("next_at__isnull", False)), fields=["tenant_id", "next_at"], name="job_due"
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("tenant_id", "source_event_id"), name="job_per_source_event")
                ],
            },
        ),
        migrations.CreateModel(
            name="SourceEvent",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("id", models.UUIDField()),
                ("kind", models.TextField(choices=[("add", "Add"), ("entry", "Entry")])),
                ("writer", models.TextField()),
                ("event_id", models.TextField()),
                ("subject", models.TextField()),
                ("scope", models.TextField()),
                ("observed_at", models.DateTimeField()),
                ("is_observed", models.BooleanField()),
                ("received_at", models.DateTimeField()),
                ("received_from", models.TextField()),
                ("payload_hash", models.BinaryField(max_length=32)),
                ("evidence", models.TextField()),
                ("payload", models.TextField(null=True)),
                ("payload_redacted_at", models.DateTimeField(null=True)),
                ("entry_id", models.UUIDField(null=True)),
                ("entry_number", models.IntegerField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["tenant_id", "-received_at", "-id"],
                        condition=models.Q(("tenant_id__gt", 0)),
                        name="source_by_time",
                    ),
                    models.Index(fields=["subject", "tenant_id", "-received_at", "-id"], name="source_by_subject"),
                    models.Index(
                        condition=models.Q(("entry_id__isnull", False)),
                        fields=["tenant_id", "entry_id", "entry_number"],
                        name="source_by_entry",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("writer", "event_id", "tenant_id"), name="source_event_identity")
                ],
            },
        ),
        migrations.CreateModel(
            name="SubjectKey",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("id", models.UUIDField()),
                ("subject", models.TextField()),
                ("category", models.TextField()),
                ("key", models.TextField()),
                ("revision", models.IntegerField(default=0)),
                ("decision_count", models.IntegerField(default=0)),
                ("reading", models.TextField(blank=True)),
                ("stale_since", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["subject", "tenant_id"], name="subject_key_by_subject"),
                    models.Index(
                        condition=models.Q(("stale_since__isnull", False)),
                        fields=["tenant_id", "stale_since", "id"],
                        name="subject_key_stale",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ClaimKey",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("category", models.CharField(max_length=256)),
                ("name", models.CharField(max_length=256)),
                (
                    "cardinality",
                    models.CharField(
                        choices=[("single", "One value at a time"), ("many", "Many values side by side")],
                        default="single",
                        max_length=8,
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("plain", "plain"),
                            ("text", "text"),
                            ("number", "number"),
                            ("date", "date"),
                            ("moment", "moment"),
                            ("truth", "truth"),
                            ("identifier", "identifier"),
                        ],
                        default="plain",
                        max_length=16,
                    ),
                ),
                ("unit", models.CharField(blank=True, help_text="What a bare number means.", max_length=64)),
                (
                    "recency_between_equals",
                    models.BooleanField(
                        default=False,
                        help_text="The newer of two writers of equal authority wins; otherwise a person is asked.",
                    ),
                ),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="claim_keys",
                        to="tenancy.tenant",
                    ),
                ),
            ],
            options={
                "verbose_name": "claim key",
                "ordering": ["category", "name"],
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "category", "name"), name="claim_key_per_tenant"),
                    models.UniqueConstraint(fields=("tenant", "id"), name="claim_key_tenant_id"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ServiceWriter",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("service_key", models.CharField(max_length=64)),
                ("display_name", models.CharField(blank=True, max_length=200)),
                (
                    "default_priority",
                    models.PositiveSmallIntegerField(
                        default=50,
                        validators=[
                            django.core.validators.MinValueValidator(0),
                            django.core.validators.MaxValueValidator(100),
                        ],
                    ),
                ),
                (
                    "categories",
                    models.JSONField(blank=True, default=dict, help_text='Priorities by category, e.g. {"fact": 80}.'),
                ),
                ("revision", models.IntegerField(default=1, editable=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                ("retired_at", models.DateTimeField(blank=True, null=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="writers",
                        to="tenancy.tenant",
                    ),
                ),
            ],
            options={
                "ordering": ["service_key"],
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "service_key"), name="writer_key_per_tenant"),
                    models.UniqueConstraint(fields=("tenant", "id"), name="writer_tenant_id"),
                ],
            },
        ),
        *(foreign_key(name) for name in KEYS),
        *(append_only(table) for table in APPEND_ONLY),
        migrations.RunSQL(PAYLOAD_ONLY, PAYLOAD_ONLY_OFF),
        migrations.RunSQL(READ_ALL, migrations.RunSQL.noop),
        *(migrations.RunSQL(protect(table), unprotect(table)) for table in TABLES),
        *(migrations.RunSQL(protect(table, also=(OPERATOR,)), unprotect(table)) for table in ADMINISTERED),
    ]
