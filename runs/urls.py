from django.urls import path

from . import converters as _converters  # noqa: F401 - registers <projected:…>
from . import (
    event_pages,
    exports_doors,
    find,
    host_pages,
    incident_views,
    lens,
    replay,
    saved_views,
    upload,
    views,
    webhook_pages,
)

app_name = "runs"
urlpatterns = [
    path("runs", views.run_list, name="list"),
    path("runs/<slug:host>/<projected:run>", views.run, name="run"),
    path("runs/<slug:host>/<projected:run>/timeline", views.timeline, name="timeline"),
    path("runs/<slug:host>/<projected:run>/events/<int:seq>/links", views.event_links, name="event_links"),
    path("runs/<slug:host>/<projected:run>/events/<int:seq>", views.event, name="event"),
    path("runs/<slug:host>/<projected:run>/events/<int:seq>.json", views.event_json, name="event_json"),
    path("runs/<slug:host>/<projected:run>/events/<int:seq>/diff", event_pages.event_diff, name="event_diff"),
    path("runs/<slug:host>/<projected:run>/events/<int:seq>/replay", replay.replay, name="replay"),
    path("runs/<slug:host>/<projected:run>/export", exports_doors.export_page, name="export"),
    path("hosts", views.host_list, name="hosts"),
    path("hosts/<slug:host>", views.host, name="host"),
    path("hosts/<slug:host>/claims", lens.host_lens, name="lens"),
    path("hosts/<slug:host>/following", host_pages.follow_host, name="follow_host"),
    path("hosts/<slug:host>/credential", host_pages.change_credential, name="change_credential"),
    path("hosts/<slug:host>/webhooks/register", webhook_pages.register_webhook, name="register_webhook"),
    path("hosts/<slug:host>/webhooks/adopt", webhook_pages.adopt_webhook, name="adopt_webhook"),
    path("hosts/<slug:host>/webhooks/secret", webhook_pages.paste_secret, name="paste_secret"),
    path("hosts/<slug:host>/webhooks/rotate", webhook_pages.rotate_secret, name="rotate_secret"),
    path("hosts/<slug:host>/webhooks/forget", webhook_pages.forget_secret, name="forget_secret"),
    path("hosts/<slug:host>/webhooks/end", webhook_pages.end_webhook, name="end_webhook"),
    path("incidents", incident_views.incident_list, name="incidents"),
    path("upload", upload.upload, name="upload"),
    path("views", saved_views.views_page, name="saved_views"),
    path("find", find.find_page, name="find"),
]
