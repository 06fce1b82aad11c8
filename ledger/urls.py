from django.urls import path

from runs import converters as _converters  # noqa: F401 - registers <projected:…>

from . import memory_route, views

app_name = "ledger"
urlpatterns = [
    path("ledger", views.ledger, name="ledger"),
    path("hosts/<slug:host>/memory", memory_route.host_memory, name="host_memory"),
    path("ledger/<slug:host>/<projected:memory_ref>/<projected:memory_id>", views.entry, name="entry"),
]
