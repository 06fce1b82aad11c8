from django.apps import AppConfig


class DemoConfig(AppConfig):
    name = "openwop_ui.demo"
    label = "demo"
