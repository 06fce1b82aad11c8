from django.apps import AppConfig


class LaunchConfig(AppConfig):
    name = "openwop_ui.launch"
    label = "launch"
