from django.apps import AppConfig


class LedgerConfig(AppConfig):
    name = "ledger"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # What the ledger adds to pages of the app below it, which does not know of the ledger.
        from . import bundle_memory as _bundle_memory  # noqa: F401
        from . import exports as _exports  # noqa: F401
        from . import find as _find  # noqa: F401
