"""What each page of this app shows, as one frozen value a page. Templates read nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from runs.pages import Page
from runs.queries import Option

from .queries import EntryFacts, EntryRow, LineageRow, WriteRow


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
    writes: tuple[WriteRow, ...]
    writes_total: int
    older: str | None
    newer: str | None
    lineage_in: tuple[LineageRow, ...]
    lineage_out: tuple[LineageRow, ...]
