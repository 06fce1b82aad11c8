"""Saved views of a run's page: of one tenant, and of one of its members.

The second policy narrows the first: where it is known who asks, nobody else's views are there.
"""

from django.db import migrations, models

from openwop_ui.tenancy.rls import PRINCIPAL, protect, unprotect

MEMBER = """
ALTER TABLE runs_savedview ADD CONSTRAINT savedview_member_fk FOREIGN KEY (tenant_id, user_id)
    REFERENCES tenancy_membership (tenant_id, user_id) ON DELETE CASCADE
"""
PERSON = f"""
CREATE POLICY person ON runs_savedview AS RESTRICTIVE
    USING ({PRINCIPAL} IS NULL OR user_id = {PRINCIPAL})
    WITH CHECK ({PRINCIPAL} IS NULL OR user_id = {PRINCIPAL})
"""


class Migration(migrations.Migration):
    dependencies = [("runs", "0008_state"), ("tenancy", "0002_row_security")]
    operations = [
        migrations.CreateModel(
            name="SavedView",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant_id", models.BigIntegerField()),
                ("id", models.UUIDField()),
                ("user_id", models.BigIntegerField()),
                ("name", models.TextField()),
                ("query", models.TextField()),
                ("created_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tenant_id", "user_id", "name"), name="savedview_name_per_person")
                ],
            },
        ),
        migrations.RunSQL(MEMBER, "ALTER TABLE runs_savedview DROP CONSTRAINT savedview_member_fk"),
        migrations.RunSQL(protect("runs_savedview"), unprotect("runs_savedview")),
        migrations.RunSQL(PERSON, "DROP POLICY person ON runs_savedview"),
    ]
