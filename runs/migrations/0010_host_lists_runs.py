from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runs", "0009_saved_views")]

    operations = [
        migrations.AddField(
            model_name="host",
            name="lists_runs",
            field=models.BooleanField(blank=True, editable=False, null=True),
        ),
    ]
