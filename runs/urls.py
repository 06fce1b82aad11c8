from django.urls import path

from . import converters as _converters  # noqa: F401 - registers <projected:…>
from . import lens, upload, views

app_name = "runs"
urlpatterns = [
    path("runs", views.run_list, name="list"),
    path("runs/<slug:host>/<projected:run>", views.run, name="run"),
    path("runs/<slug:host>/<projected:run>/timeline", views.timeline, name="timeline"),
    path("runs/<slug:host>/<projected:run>/events/<int:seq>", views.event, name="event"),
    path("runs/<slug:host>/<projected:run>/events/<int:seq>.json", views.event_json, name="event_json"),
    path("hosts", views.host_list, name="hosts"),
    path("hosts/<slug:host>", views.host, name="host"),
    path("hosts/<slug:host>/claims", lens.host_lens, name="lens"),
    path("upload", upload.upload, name="upload"),
]
