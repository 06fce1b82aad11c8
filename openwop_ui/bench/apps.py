from django.apps import AppConfig


class BenchConfig(AppConfig):
    name = "openwop_ui.bench"
    label = "bench"
