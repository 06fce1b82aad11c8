from django.apps import AppConfig


class LiveConfig(AppConfig):
    name = "openwop_ui.live"
    label = "live"
