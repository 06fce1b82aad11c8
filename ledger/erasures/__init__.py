"""Takes things away for good: entries and subjects, with what was made of them. Hashes and a tombstone stay."""

from .doing import Erased, erase_entry, erase_subject
from .planning import Plan, Reason, Target, plan_entry, plan_subject

__all__ = [
    "Erased",
    "Plan",
    "Reason",
    "Target",
    "erase_entry",
    "erase_subject",
    "plan_entry",
    "plan_subject",
]
