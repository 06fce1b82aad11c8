"""What happened: hosts, runs, and the append-only log of their events.

``store`` is the only writer. Text that came from a host is kept in the form ``domain.storable`` gives it.
"""

from .hosts import Delivery, Follow, Host, HostDocument, Subscription
from .lanes import Attempt, EventChunk, RunNode
from .log import Event, EventCopy, Incident, Run, RunAlias
from .saved_views import SavedView
from .states import StateSnapshot

__all__ = [
    "Attempt",
    "Delivery",
    "Event",
    "EventChunk",
    "EventCopy",
    "Follow",
    "Host",
    "HostDocument",
    "Incident",
    "Run",
    "RunAlias",
    "RunNode",
    "SavedView",
    "StateSnapshot",
    "Subscription",
]
