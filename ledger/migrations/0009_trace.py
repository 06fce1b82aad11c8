"""The way back from a claim to those that it took the place of."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ledger", "0008_retention")]
    operations = [
        migrations.AddIndex(
            "claimstate",
            models.Index(
                fields=["tenant_id", "to_claim"], condition=models.Q(to_claim__isnull=False), name="claim_state_by_to"
            ),
        ),
    ]
