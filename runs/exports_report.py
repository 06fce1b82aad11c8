"""A run as one HTML file for a bug ticket: no script, no network, nothing that a host's text could start.

It holds what the run's page shows, with the payloads cut short; the log itself is in the other forms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.template.loader import render_to_string
from django.utils import timezone

from openwop_ui.tenancy.scope import tenant_scope

from .exports import Export, Source, register
from .queries import EventRow, IncidentRow, RunFacts, event_bodies, events_page, incidents
from .queries.event import payload_text
from .queries.lanes import LaneRow, lane_rows

MOST_EVENTS = 5_000
PART = 200
SHOWN = 2_000
"""Characters of a payload."""
MOST_LANES = 500
MOST_INCIDENTS = 200

TEMPLATE = "runs/report.html"


@dataclass(frozen=True, slots=True)
class ReportHead:
    run: RunFacts
    href: str
    made_at: datetime
    lanes: tuple[LaneRow, ...]
    lanes_total: int
    incidents: tuple[IncidentRow, ...]
    incidents_total: int


@dataclass(frozen=True, slots=True)
class ReportEvent:
    row: EventRow
    payload: str
    characters: int

    @property
    def is_cut(self) -> bool:
        return self.characters > len(self.payload)


@dataclass(frozen=True, slots=True)
class ReportPart:
    run: RunFacts
    events: tuple[ReportEvent, ...]


@dataclass(frozen=True, slots=True)
class ReportFoot:
    shown: int
    run: RunFacts


def _report(source: Source) -> Iterator[bytes]:
    with tenant_scope(source.tenant_id):
        found, incidents_total = incidents(source.tenant_id, run=source.run.pk, limit=MOST_INCIDENTS)
        lanes = lane_rows(source.tenant_id, source.run.pk, limit=MOST_LANES)
    head = ReportHead(source.run, source.href, timezone.now(), lanes, source.run.nodes, found, incidents_total)
    yield _rendered("head", head)
    shown = 0
    for part in _parts(source):
        shown += len(part)
        yield _rendered("events", ReportPart(source.run, part))
    yield _rendered("foot", ReportFoot(shown, source.run))


def _rendered(part: str, page: object) -> bytes:
    return render_to_string(f"{TEMPLATE}#{part}", {"page": page}).encode("utf-8", "replace")


def _parts(source: Source) -> Iterator[tuple[ReportEvent, ...]]:
    after, shown = -1, 0
    while shown < MOST_EVENTS:
        with tenant_scope(source.tenant_id):
            rows = events_page(source.tenant_id, source.run.pk, after=after, limit=PART).events
            bodies = dict(event_bodies(source.tenant_id, source.run.pk, after=after, limit=PART)[0])
        rows = tuple(row for row in rows if row.sequence <= source.through)[: MOST_EVENTS - shown]
        if not rows:
            return
        yield tuple(_event(row, bodies.get(row.sequence, "")) for row in rows)
        after, shown = rows[-1].sequence, shown + len(rows)


def _event(row: EventRow, body: str) -> ReportEvent:
    payload = (payload_text(body) if body else None) or ""
    return ReportEvent(row, payload[:SHOWN], len(payload))


register(Export("html", "Report", "one file for a ticket, without a network", "text/html", "html", _report))
