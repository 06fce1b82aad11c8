from django.db import migrations

from openwop_ui.tenancy.rls import KEY, OPERATOR, PRINCIPAL, protect, unprotect

# A migration may not change when the code does: what it imports from rls.py are only the words of the policies.
MEMBERSHIP = protect("tenancy_membership", also=(OPERATOR,), readable=(f"user_id = {PRINCIPAL}",))
API_KEY = protect("tenancy_apikey", also=(OPERATOR,), readable=(f"digest = {KEY}",))
TENANT = protect(
    "tenancy_tenant",
    own="id = NULLIF(current_setting('openwop.tenant', true), '')::bigint",
    also=(OPERATOR,),
    readable=(
        f"id IN (SELECT m.tenant_id FROM tenancy_membership m WHERE m.user_id = {PRINCIPAL})",
        f"id IN (SELECT k.tenant_id FROM tenancy_apikey k WHERE k.digest = {KEY})",
    ),
)


class Migration(migrations.Migration):
    dependencies = [("tenancy", "0001_tenants")]
    operations = [
        migrations.RunSQL(MEMBERSHIP, unprotect("tenancy_membership")),
        migrations.RunSQL(API_KEY, unprotect("tenancy_apikey")),
        migrations.RunSQL(TENANT, unprotect("tenancy_tenant")),
    ]
