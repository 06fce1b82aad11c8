"""Reads of hosts, runs and the log. Every one names its tenant; row-level security is the second layer."""

from .event import EventDetail, find_event
from .events import (
    NO_OPTIONS,
    EventFilter,
    EventRow,
    EventsPage,
    event_bodies,
    event_body,
    events_page,
)
from .hosts import host_options, host_rows
from .incidents import (
    IncidentFilter,
    IncidentsPage,
    incident_options,
    incidents,
    incidents_page,
    pressing_incidents,
)
from .links import event_links
from .listed import NOTHING_LISTED, Listed, listed
from .rows import HostRow, IncidentRow, Option, RunRow, percent
from .runs import (
    RunFacts,
    RunFilter,
    RunPageOfList,
    ended_runs,
    find_run,
    like,
    live_runs,
    place_of,
    run_list,
    runs_where,
    status_options,
)
from .timeline import View, moment, timeline

__all__ = [
    "NOTHING_LISTED",
    "NO_OPTIONS",
    "EventDetail",
    "EventFilter",
    "EventRow",
    "EventsPage",
    "HostRow",
    "IncidentFilter",
    "IncidentRow",
    "IncidentsPage",
    "Listed",
    "Option",
    "RunFacts",
    "RunFilter",
    "RunPageOfList",
    "RunRow",
    "View",
    "ended_runs",
    "event_bodies",
    "event_body",
    "event_links",
    "events_page",
    "find_event",
    "find_run",
    "host_options",
    "host_rows",
    "incident_options",
    "incidents",
    "incidents_page",
    "like",
    "listed",
    "live_runs",
    "moment",
    "percent",
    "place_of",
    "pressing_incidents",
    "run_list",
    "runs_where",
    "status_options",
    "timeline",
]
