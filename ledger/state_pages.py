"""What the page of a run's state shows, and the page of two runs side by side, as one frozen value each."""

from __future__ import annotations

from dataclasses import dataclass

from runs.domain.comparison import Determinism
from runs.domain.json_diff import Difference
from runs.pages import Page
from runs.queries import EventRow, IncidentRow, RunFacts
from runs.queries.comparison import HostsWord, Kinship, Offer
from runs.queries.state import ChannelRow, InterruptRow, NodeRow, Place, ValueText, VariableRow

from .domain.replay_verdict import Finding, MemoryVerdict
from .queries.memory_at import MemoryAt


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """A difference between two states. ``before`` and ``after`` are words or JSON texts; None where there is nothing.
    ``is_text`` tells JSON from words."""

    section: str
    op: str
    name: str
    before: str | None
    after: str | None
    is_text: bool
    from_sequence: int | None
    to_sequence: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePage(Page):
    """``listed`` names the one list that is shown, from ``cursor`` on; "" shows all, each from its beginning."""

    run: RunFacts
    at: int
    place: Place | None
    missing: int
    status: str
    status_sequence: int | None
    inputs: ValueText | None
    variables: tuple[VariableRow, ...]
    variables_total: int
    channels: tuple[ChannelRow, ...]
    channels_total: int
    nodes: tuple[NodeRow, ...]
    nodes_total: int
    node_counts: tuple[tuple[str, int], ...]
    interrupts: tuple[InterruptRow, ...]
    interrupts_total: int
    memory: MemoryAt | None
    listed: str
    older: str | None
    against: int | None
    changes: tuple[ChangeRow, ...]
    changes_total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferRow:
    """A run to compare with, and where that comparison is."""

    offer: Offer
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffersPage:
    run: RunFacts
    rows: tuple[OfferRow, ...]
    chooser: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRow:
    offer: Offer
    source_id: str
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRow:
    """A pair of the list: ``place`` is where it stands in the comparison."""

    place: int
    op: str
    a: EventRow | None
    b: EventRow | None
    a_sequence: int | None
    b_sequence: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairDetail:
    """The chosen pair: payloads as JSON texts, and what of them differs apart from what is volatile."""

    row: PairRow
    a_payload: str | None
    b_payload: str | None
    differences: tuple[Difference, ...]
    is_cut: bool
    previous: int | None
    next: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRow:
    """A verdict with the first of the facts that it rests on."""

    finding: Finding
    total: int

    @property
    def shown(self) -> int:
        return len(self.finding.pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparePage(Page):
    """``a`` and ``b`` are None while they are not chosen; then there are only ``offers`` and ``forks`` to choose from.
    ``source`` and ``fork`` are the sides by their letters, where one is a fork of the other."""

    a: RunFacts | None
    b: RunFacts | None
    a_ref: str
    b_ref: str
    turned: str
    offers: tuple[OfferRow, ...]
    forks: tuple[ForkRow, ...]
    kinship: Kinship | None = None
    source: str = "a"
    fork: str = "b"
    same: int = 0
    changed: int = 0
    removed: int = 0
    added: int = 0
    ignored: tuple[int, int] = (0, 0)
    is_cut: bool = False
    most: int = 0
    report: Determinism | None = None
    first_place: int | None = None
    verdict: MemoryVerdict | None = None
    findings: tuple[FindingRow, ...] = ()
    words: tuple[HostsWord, ...] = ()
    disagreement: str = ""
    incidents_a: tuple[IncidentRow, ...] = ()
    incidents_b: tuple[IncidentRow, ...] = ()
    may_ask_host: bool = False
    rows: tuple[PairRow, ...] = ()
    listed_total: int = 0
    show: str = ""
    at: int | None = None
    before: int | None = None
    after: int | None = None
    pair: PairDetail | None = None

    @property
    def pairs(self) -> int:
        return self.same + self.changed + self.removed + self.added

    @property
    def differing(self) -> int:
        return self.changed + self.removed + self.added


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDiffPage:
    """What the host's own ``:diff`` says. ``error`` says why there is nothing, "" where there is."""

    a: RunFacts
    b: RunFacts
    host: str
    error: str = ""
    diverged_at: int | None = None
    added: int = 0
    removed: int = 0
    changed: int = 0
    truncated: bool = False
    ours: int | None = None
    agrees: bool = True
