from django.urls import path

from runs import converters as _converters  # noqa: F401 - registers <projected:…>

from . import (
    claim_views,
    compare_views,
    conflict_views,
    coverage_views,
    memory_route,
    receipt_views,
    retention_views,
    source_views,
    state_views,
    views,
    writer_views,
)

app_name = "ledger"
urlpatterns = [
    path("ledger", views.ledger, name="ledger"),
    path("claims", claim_views.claims, name="claims"),
    path("claims/export", claim_views.claims_export, name="claims_export"),
    path("claims/subjects", claim_views.subject_list, name="subjects"),
    path("claims/<uuid:id>", claim_views.claim, name="claim"),
    path("claims/<uuid:id>/revise", claim_views.revise, name="revise"),
    path("conflicts", conflict_views.conflict_queue, name="conflicts"),
    path("conflicts/count", conflict_views.open_conflicts, name="open_conflicts"),
    path("conflicts/<uuid:id>", conflict_views.conflict_page, name="conflict"),
    path("conflicts/<uuid:id>/decide", conflict_views.decide, name="decide"),
    path("decisions/<uuid:decision>/undo", conflict_views.undo, name="undo"),
    path("writers", writer_views.writers, name="writers"),
    path("export/writers", writer_views.writers_export, name="writers_export"),
    path("writers/<str:key>", writer_views.writer, name="writer"),
    path("sources", source_views.sources, name="sources"),
    path("sources/export", source_views.sources_export, name="sources_export"),
    path("sources/<uuid:id>", source_views.source, name="source"),
    path("coverage", coverage_views.coverage_page, name="coverage"),
    path("coverage/export", coverage_views.gaps_export, name="gaps_export"),
    path("receipts", receipt_views.receipts, name="receipts"),
    path("receipts/export", receipt_views.receipts_export, name="receipts_export"),
    path("receipts/tools", receipt_views.change_memory_tools, name="memory_tools"),
    path("runs/<slug:host>/<projected:run>/receipts", receipt_views.run_receipts, name="run_receipts"),
    path("runs/<slug:host>/<projected:run>/receipts/panel", receipt_views.run_receipts_panel, name="receipts_panel"),
    path("runs/<slug:host>/<projected:run>/state", state_views.state, name="state"),
    path("runs/<slug:host>/<projected:run>/compare", compare_views.compare_offers, name="compare_offers"),
    path("compare", compare_views.compare, name="compare"),
    path("compare/strip", compare_views.strip, name="compare_strip"),
    path("compare/host", compare_views.compare_host, name="compare_host"),
    path("retention", retention_views.retention, name="retention"),
    path("retention/erase", retention_views.erase, name="erase"),
    path("hosts/<slug:host>/memory", memory_route.host_memory, name="host_memory"),
    path("ledger/<slug:host>/<projected:memory_ref>/<projected:memory_id>", views.entry, name="entry"),
]
