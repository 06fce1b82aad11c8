"""What the pages of claims show, as one frozen value each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from runs.pages import Page
from runs.queries import Option

from .chain_view import ChainView
from .queries.claims import ClaimDetail, MemoryRow, SubjectRow
from .queries.review import Written


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimListPage(Page):
    """Claims of all subjects, or of one, which ``about`` tells of. ``statuses`` are what can be chosen."""

    tab: str = "claims"
    rows: tuple[MemoryRow, ...]
    q: str
    subject: str
    key: str
    category: str
    writer: str
    status: str
    valid_at: str
    valid_at_error: str
    statuses: tuple[Option, ...]
    about: SubjectRow | None
    newer: str | None
    older: str | None

    @property
    def is_narrowed(self) -> bool:
        return bool(self.q or self.subject or self.key or self.category or self.writer or self.valid_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectListPage(Page):
    tab: str = "claims"
    rows: tuple[SubjectRow, ...]
    q: str
    newer: str | None
    older: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionForm:
    """How a claim is to be revised, as a form says it."""

    content: str
    confidence: str
    start: str
    end: str
    reason: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPage(Page):
    """``stands_for`` is the claim that stands in its place, ``rivals`` the others of its key, latest first."""

    tab: str = "claims"
    detail: ClaimDetail
    evidence: tuple[str, ...]
    written: Written | None
    in_place: MemoryRow | None
    rivals: tuple[MemoryRow, ...]
    chain: ChainView
    may_revise: bool
    form: RevisionForm
    now: datetime
