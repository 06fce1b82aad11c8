from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenancy", "0002_row_security")]
    operations = [
        migrations.AddField(
            "apikey",
            "writer",
            models.CharField(
                blank=True,
                help_text="The service key of the writer that this key speaks for, and for no other. Empty: none.",
                max_length=64,
                null=True,
            ),
        ),
    ]
