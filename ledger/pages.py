"""What each page of this app shows, as one frozen value a page. Templates read nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from runs.pages import Page
from runs.queries import Option

from .chain_view import ChainView
from .queries import EntryContent, EntryFacts, EntryRow, HostReading, LineageRow, WriteRow
from .queries.receipts import ReceiptRow
from .queries.resting import EntryThen, Resting


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPage(Page):
    rows: tuple[EntryRow, ...]
    total: int
    total_is_estimate: bool
    all_total: int
    writes_total: int
    attributed: int | None
    q: str
    host: str
    ref: str
    node: str
    agent: str
    tag: str
    state: str
    hosts: tuple[Option, ...]
    refs: tuple[Option, ...]
    states: tuple[Option, ...]
    newer: str | None
    older: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPage(Page):
    entry: EntryFacts
    content: EntryContent
    writes: tuple[WriteRow, ...]
    writes_total: int
    older: str | None
    newer: str | None
    lineage_in: tuple[LineageRow, ...]
    lineage_out: tuple[LineageRow, ...]
    receipts: tuple[ReceiptRow, ...]
    chain: ChainView | None
    resting: Resting | None
    then: EntryThen | None
    as_of: str
    as_of_error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteForm:
    """How a host's memory is read, as a form says it. ``way`` is "", a preset or "custom", which has the rest."""

    way: str
    list_path: str
    entry_path: str
    major: int
    ref: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMemoryPage(Page):
    """``suggested`` is the preset for what the host calls itself, "" where there is none."""

    slug: str
    name: str
    origin: str
    following: bool
    form: RouteForm
    may_change: bool
    presets: tuple[Option, ...]
    suggested: str
    implementation: str
    reading: HostReading
