from django.apps import AppConfig
from django.contrib.admin import apps as admin_apps


class TenancyConfig(AppConfig):
    name = "openwop_ui.tenancy"
    label = "tenancy"
    default = True
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from . import checks as _checks  # noqa: F401 - registers them


class ConsoleConfig(admin_apps.AdminConfig):
    default = False
    default_site = "openwop_ui.tenancy.console.ConsoleSite"
