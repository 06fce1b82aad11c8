"""Reads of the ledger. Every one names its tenant; row-level security is the second layer.

Text leaves in its original form and enters in its storable one.
"""

from .entries import EntryFilter, Totals, entry_list, host_options, ref_options, totals
from .lineage import lineage
from .paging import PAGE, BrokenCursor
from .rows import (
    ANNOUNCED,
    STATES,
    EntryFacts,
    EntryList,
    EntryRef,
    EntryRow,
    Lineage,
    LineageRow,
    WriteList,
    WriteRow,
)
from .writes import entry_writes, find_entry, latest_writes

__all__ = [
    "ANNOUNCED",
    "PAGE",
    "STATES",
    "BrokenCursor",
    "EntryFacts",
    "EntryFilter",
    "EntryList",
    "EntryRef",
    "EntryRow",
    "Lineage",
    "LineageRow",
    "Totals",
    "WriteList",
    "WriteRow",
    "entry_list",
    "entry_writes",
    "find_entry",
    "host_options",
    "latest_writes",
    "lineage",
    "ref_options",
    "totals",
]
