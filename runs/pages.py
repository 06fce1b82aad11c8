"""What each page of this app shows, as one frozen value a page. Templates read nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from .queries import EventDetail, EventRow, HostRow, IncidentRow, Option, RunFacts, RunRow
from .queries.subscriptions import SubscriptionRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """``topics`` are what the page's socket listens to, separated by spaces."""

    section: str
    topics: str
    may_upload: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunListPage(Page):
    rows: tuple[RunRow, ...]
    total: int
    total_is_estimate: bool
    all_total: int
    status: str
    host: str
    q: str
    statuses: tuple[Option, ...]
    hosts: tuple[Option, ...]
    newer: str | None
    older: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage(Page):
    run: RunFacts
    incidents: tuple[IncidentRow, ...]
    incidents_total: int
    events: tuple[EventRow, ...]
    matching: int
    stored: int
    first_place: int
    before: int | None
    after: int | None
    node: str
    type: str
    kind: str
    q: str
    show: str
    nodes: tuple[Option, ...]
    types: tuple[Option, ...]
    kinds: tuple[Option, ...]
    event: EventDetail | None
    missing: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """The detail of one event, for the pane beside the list."""

    run: RunFacts
    event: EventDetail | None
    missing: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostListPage(Page):
    rows: tuple[HostRow, ...]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRow:
    """How one run of a followed host is read."""

    run_id: str
    phase: str
    connected_since: datetime | None
    last_event_at: datetime | None
    last_error: str
    retry_at: datetime | None
    paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HostForm:
    """What an admin may change. ``fingerprint`` is the credential's, "" without one, None for one that can not be
    opened."""

    has_origin: bool
    following: bool
    fingerprint: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookForm:
    """What a new webhook begins with. A host without an origin can only be told of it by hand."""

    may_register: bool
    dialects: tuple[Option, ...]
    dialect: str
    events: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPage(Page):
    host: HostRow
    created_at: datetime
    leaking_since: datetime | None
    listed_at: datetime | None
    follows: tuple[FollowRow, ...]
    follows_total: int
    subscriptions: tuple[SubscriptionRow, ...]
    subscriptions_total: int
    webhook_form: WebhookForm | None
    host_form: HostForm | None
    incidents: tuple[IncidentRow, ...]
    incidents_total: int
    runs: tuple[RunRow, ...]
    runs_total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRow:
    index: int
    line: int | None
    reason: str
    field: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptRun:
    host: str
    run_id: str
    through: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptView:
    """A receipt for a person. ``error`` says why nothing could be read at all."""

    name: str
    host: str
    bytes: int
    accepted: int = 0
    repeated: int = 0
    refused: tuple[RefusedRow, ...] = ()
    refused_total: int = 0
    incidents: tuple[IncidentRow, ...] = ()
    incidents_total: int = 0
    runs: tuple[ReceiptRun, ...] = ()
    runs_total: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadPage(Page):
    hosts: tuple[Option, ...]
    host: str
    max_bytes: int
    receipt: ReceiptView | None
