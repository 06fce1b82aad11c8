"""The only writer of hosts, runs and the log."""

from .hosts import HostRef, ref, register_host
from .intake import take_in
from .receipt import Noticed, Receipt

__all__ = ["HostRef", "Noticed", "Receipt", "ref", "register_host", "take_in"]
