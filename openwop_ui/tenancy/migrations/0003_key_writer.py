from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("tenancy", "0002_row_security")]
    operations = []
