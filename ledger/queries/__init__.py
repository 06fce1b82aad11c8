"""Reads of the ledger. Every one names its tenant; row-level security is the second layer.

Text leaves in its original form and enters in its storable one.
"""

from .entries import EntryFilter, Totals, entry_list, host_options, ref_options, state_options, totals
from .lineage import lineage
from .observations import EntryContent, HostReading, ObservationRow, entry_content, host_reading
from .paging import PAGE, BrokenCursor
from .rows import (
    ANNOUNCED,
    DELETED,
    ERASED,
    EXPIRED,
    GONE,
    STATES,
    STORED,
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
    "DELETED",
    "ERASED",
    "EXPIRED",
    "GONE",
    "PAGE",
    "STATES",
    "STORED",
    "BrokenCursor",
    "EntryContent",
    "EntryFacts",
    "EntryFilter",
    "EntryList",
    "EntryRef",
    "EntryRow",
    "HostReading",
    "Lineage",
    "LineageRow",
    "ObservationRow",
    "Totals",
    "WriteList",
    "WriteRow",
    "entry_content",
    "entry_list",
    "entry_writes",
    "find_entry",
    "host_options",
    "host_reading",
    "latest_writes",
    "lineage",
    "ref_options",
    "state_options",
    "totals",
]
