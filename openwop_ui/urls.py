"""Every address of the site."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.urls import include, path

import ledger.urls
import ledger.well_known
import runs.hooks
import runs.urls
from openwop_ui import home, operations, schemas
from openwop_ui.api import api
from openwop_ui.tenancy.login import Login

urlpatterns = [
    path("", home.start, name="start"),
    path("login", Login.as_view(), name="login"),
    path("logout", LogoutView.as_view(), name="logout"),
    path("admin/", admin.site.urls),
    path("t/<slug:tenant>/", home.home, name="home"),
    path("t/<slug:tenant>/", include((runs.urls.urlpatterns, "runs"))),
    path("t/<slug:tenant>/", include((ledger.urls.urlpatterns, "ledger"))),
    path("hooks/<uuid:id>", runs.hooks.receive, name="hook"),
    path("v1/", api.urls),
    path(".well-known/openwop", ledger.well_known.well_known, name="well_known"),
    path("schemas/", schemas.index, name="schemas"),
    path("schemas/<slug:name>.json", schemas.schema, name="schema"),
    path("healthz", operations.healthz, name="healthz"),
    path("readyz", operations.readyz, name="readyz"),
    path("metrics", operations.metrics, name="metrics"),
]

handler400 = "openwop_ui.api.bad_request"
handler403 = "openwop_ui.api.permission_denied"
handler404 = "openwop_ui.api.page_not_found"
handler500 = "openwop_ui.api.server_error"
