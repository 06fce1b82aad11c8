from django.urls import path

from runs import converters as _converters  # noqa: F401 - registers <projected:…>

from . import views

app_name = "ledger"
urlpatterns = [
    path("ledger", views.ledger, name="ledger"),
    path("ledger/<slug:host>/<projected:memory_ref>/<projected:memory_id>", views.entry, name="entry"),
]
