"""Reads of hosts, runs and the log. Every one names its tenant; row-level security is the second layer."""

from .events import (
    EventDetail,
    EventFilter,
    EventRow,
    EventsPage,
    count_matching,
    event_bodies,
    event_body,
    events_page,
    filter_options,
    find_event,
)
from .hosts import host_options, host_rows
from .incidents import incidents
from .rows import HostRow, IncidentRow, Option, RunRow, percent
from .runs import (
    RunFacts,
    RunFilter,
    RunPageOfList,
    ended_runs,
    find_run,
    like,
    live_runs,
    run_list,
    runs_where,
    status_options,
)
from .timeline import moment, timeline

__all__ = [
    "EventDetail",
    "EventFilter",
    "EventRow",
    "EventsPage",
    "HostRow",
    "IncidentRow",
    "Option",
    "RunFacts",
    "RunFilter",
    "RunPageOfList",
    "RunRow",
    "count_matching",
    "ended_runs",
    "event_bodies",
    "event_body",
    "events_page",
    "filter_options",
    "find_event",
    "find_run",
    "host_options",
    "host_rows",
    "incidents",
    "like",
    "live_runs",
    "moment",
    "percent",
    "run_list",
    "runs_where",
    "status_options",
    "timeline",
]
