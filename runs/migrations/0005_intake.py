from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("runs", "0004_doors_row_security")]
    operations = []
