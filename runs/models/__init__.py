"""What happened: hosts, runs, and the append-only log of their events.

``store`` is the only writer. Text that came from a host is kept in the form ``domain.storable`` gives it.
"""

from .hosts import Delivery, Follow, Host, HostDocument, Subscription
from .lanes import Attempt, RunNode
from .log import Event, EventCopy, Incident, Run

__all__ = [
    "Attempt",
    "Delivery",
    "Event",
    "EventCopy",
    "Follow",
    "Host",
    "HostDocument",
    "Incident",
    "Run",
    "RunNode",
    "Subscription",
]
