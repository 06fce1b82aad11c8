"""The only writer of hosts, runs and the log."""

from .hosts import HostRef, ref, register_host
from .imports import keep_import, keep_parents
from .incidents import Found, keep_incidents, notice
from .intake import take_in
from .receipt import Noticed, Receipt

__all__ = [
    "Found",
    "HostRef",
    "Noticed",
    "Receipt",
    "keep_import",
    "keep_incidents",
    "keep_parents",
    "notice",
    "ref",
    "register_host",
    "take_in",
]
