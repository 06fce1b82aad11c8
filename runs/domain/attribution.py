"""How well a host tells who wrote its memory: nine classes, each from counted evidence and none from a guess.

Every verdict says how many observations it rests on. Where nothing was observed the class is "unproven", so that a
host which was never really looked at does not pass by silence.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Literal

from runs.domain.event import RunEvent
from runs.domain.event_types import is_about_memory
from runs.domain.memory_read import REDACTED
from runs.domain.summary import payload_of

AttributionClass = Literal[
    "attributed",
    "silent",
    "claims-but-silent",
    "unproven",
    "emits-without-claim",
    "leaky",
    "replay-suppressing",
    "replay-regenerating",
    "payload-redacted",
]

WRITTEN = "memory.written"
RECORDED_FACTS = frozenset((WRITTEN, "agent.memory.consolidated", "commitment.fired"))
"""Re-read from the log by a replay: neither made anew nor left out (RFC 0057 section D, RFC 0068)."""


@dataclass(frozen=True, slots=True)
class Writes:
    """Counts over memory.written events. valid + redacted + invalid + stubs = all of them.

    A valid one names a ref and an id; `with_node` and `with_agent` of these name a node and an agent. `redacted` ones
    have ids that are masked or left out of a payload that did come; `invalid` ones have ids of another kind than text.
    A stub came without its payload, which proves nothing. `leaks` counts values that were taken out of memory events.
    """

    valid: int = 0
    with_node: int = 0
    with_agent: int = 0
    redacted: int = 0
    invalid: int = 0
    stubs: int = 0
    leaks: int = 0

    def __add__(self, other: "Writes") -> "Writes":
        return Writes(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(Writes)))

    @property
    def events(self) -> int:
        return self.valid + self.redacted + self.invalid + self.stubs

    @property
    def node_coverage(self) -> float | None:
        """The share of valid writes that name their node, 0 to 1; None without any."""
        return self.with_node / self.valid if self.valid else None


@dataclass(frozen=True, slots=True)
class Evidence:
    """`claim` is what the discovery document says of `memory.attribution.emitsWriteEvents`; None while none was read.

    `runs_read` counts completed runs whose whole log was read in debug mode: other modes may hold memory events back.
    `independent` counts writes in these runs that something else than the event shows (an entry tagged with the run,
    a compaction's source, a vendor's own event, an entry that the run read back); `unannounced` those of them that no
    memory.written tells of.
    """

    claim: bool | None = None
    runs_read: int = 0
    writes: Writes = Writes()
    independent: int = 0
    unannounced: int = 0
    forks: tuple["ForkPair", ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One class, the rule in words, and the counts that it rests on by name."""

    name: AttributionClass
    rule: str
    counts: tuple[tuple[str, int], ...]

    @property
    def is_vacuous(self) -> bool:
        return not any(count for _, count in self.counts)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`node_coverage` is the share of valid writes that name their node; None where there is none."""

    findings: tuple[Finding, ...]
    node_coverage: float | None

    @property
    def classes(self) -> tuple[AttributionClass, ...]:
        return tuple(finding.name for finding in self.findings)


def classify(evidence: Evidence) -> Verdict:
    """One class about what the host claims and sends, and any of the others beside it."""
    findings = [_main(evidence), *_beside(evidence)]
    return Verdict(tuple(finding for finding in findings if finding is not None), evidence.writes.node_coverage)


def _main(evidence: Evidence) -> Finding | None:
    writes, runs = evidence.writes, ("completed runs read in debug mode", evidence.runs_read)
    events = ("memory.written events", writes.events)
    valid = ("valid memory.written events", writes.valid)
    if evidence.claim is None:
        return Finding("unproven", "no discovery document was read, so nothing is claimed or denied", (runs, events))
    if writes.events and not evidence.claim:
        return Finding("emits-without-claim", "events without the claim: taken in all the same", (events,))
    if writes.valid:
        return Finding("attributed", "the claim, and at least one valid memory.written", (valid,))
    if not evidence.claim and evidence.runs_read:
        return Finding("silent", "no claim and no event, which is legitimate", (runs, events))
    if _is_silent(evidence) or writes.redacted:
        return None  # said beside
    return Finding("unproven", _why_unproven(evidence), (runs, events))


def _why_unproven(evidence: Evidence) -> str:
    if not evidence.runs_read:
        return "no completed run has been read in debug mode yet"
    if evidence.writes.stubs:
        return "the claim, and only events whose payload has not come"
    if evidence.writes.invalid:
        return "the claim, and only events whose ids are no text"
    return "the claim, and nothing that shows that anything was written or not"


def _is_silent(evidence: Evidence) -> bool:
    return bool(evidence.claim and evidence.runs_read and evidence.unannounced)


def _beside(evidence: Evidence) -> Iterable[Finding]:
    writes = evidence.writes
    if _is_silent(evidence):
        yield Finding(
            "claims-but-silent",
            "the claim, and writes in completed runs that no memory.written tells of",
            (("writes shown otherwise", evidence.independent), ("of these unannounced", evidence.unannounced)),
        )
    if writes.leaks:
        yield Finding("leaky", "content or a secret in a memory event's payload", (("values taken out", writes.leaks),))
    if writes.redacted:
        yield Finding(
            "payload-redacted", "memory.written is there, its ids masked or left out", (("events", writes.redacted),)
        )
    yield from _about_forks(evidence.forks)


def _about_forks(forks: Sequence["ForkPair"]) -> Iterable[Finding]:
    compared = ("pairs compared", sum(pair.is_telling for pair in forks))
    suppressed = sum(pair.suppressed for pair in forks)
    regenerated = sum(pair.regenerated for pair in forks)
    if suppressed:
        rule = "a fork lacks memory events that its source has"
        yield Finding("replay-suppressing", rule, (compared, ("events lacking", suppressed)))
    if regenerated:
        rule = "a fork shows a memoryId that its source lacks, where it had to repeat the source"
        yield Finding("replay-regenerating", rule, (compared, ("ids made anew", regenerated)))


@dataclass(frozen=True, slots=True)
class Fact:
    """A memory event as far as comparing needs it. `memory_id` is None where the event names no entry."""

    sequence: int
    type: str
    node_id: str | None
    memory_ref: str | None
    memory_id: str | None


@dataclass(frozen=True, slots=True)
class ForkPair:
    """What a fork owed to its source and what became of it. `owed` counts the source's events that had to come again.

    `is_complete` says that both logs were read whole to their ends; before that, nothing is missing yet.
    """

    owed: int
    suppressed: int
    regenerated: int
    is_complete: bool

    @property
    def is_telling(self) -> bool:
        """A source without memory events proves nothing, whatever its fork does."""
        return bool(self.owed or self.regenerated)


def compare_fork(
    source: Iterable[Fact],
    fork: Iterable[Fact],
    *,
    mode: Literal["replay", "branch"],
    from_sequence: int,
    is_complete: bool,
) -> ForkPair:
    """A replay owes every recorded fact of its source, with the same ids; a branch those in front of `from_sequence`.

    What a branch writes from there on is its own. Events are told apart by type, node and ref, so that an event that
    is missing and one that came back under a new id are two things.
    """
    owed = [fact for fact in source if _is_owed(fact, mode, from_sequence)]
    shown = [fact for fact in fork if _is_owed(fact, mode, from_sequence)]
    missing = Counter(map(_place, owed))
    missing.subtract(map(_place, shown))
    known = {fact.memory_id for fact in owed}
    return ForkPair(
        owed=len(owed),
        suppressed=sum(count for count in missing.values() if count > 0) if is_complete else 0,
        regenerated=sum(1 for fact in shown if fact.memory_id is not None and fact.memory_id not in known),
        is_complete=is_complete,
    )


def _is_owed(fact: Fact, mode: str, from_sequence: int) -> bool:
    return fact.type in RECORDED_FACTS and (mode == "replay" or fact.sequence < from_sequence)


def _place(fact: Fact) -> tuple[str, str | None, str | None]:
    return fact.type, fact.node_id, fact.memory_ref


def read_fact(event: RunEvent) -> Fact | None:
    """None for an event that is no recorded fact."""
    if event.type not in RECORDED_FACTS:
        return None
    payload = _payload(event)
    return Fact(event.sequence, event.type, event.node_id, _id(payload, "memoryRef"), _id(payload, "memoryId"))


def count_writes(events: Iterable[RunEvent]) -> Writes:
    return sum((_count(event) for event in events if is_about_memory(event.type)), Writes())


def _count(event: RunEvent) -> Writes:
    leaks = len(event.leaks)
    if event.type != WRITTEN:
        return Writes(leaks=leaks)
    if not event.has_payload:
        return Writes(stubs=1, leaks=leaks)
    payload = _payload(event)
    ids = [payload.get(name) for name in ("memoryRef", "memoryId")]
    if any(_is_masked(value) for value in ids):
        return Writes(redacted=1, leaks=leaks)
    if not all(isinstance(value, str) for value in ids):
        return Writes(invalid=1, leaks=leaks)
    return Writes(valid=1, with_node=event.node_id is not None, with_agent=event.agent_id is not None, leaks=leaks)


def _payload(event: RunEvent) -> dict[str, object]:
    payload = payload_of(event.body)
    return payload if isinstance(payload, dict) else {}


def _is_masked(value: object) -> bool:
    """Left out, emptied, or replaced by a marker."""
    return value in (None, "") or (isinstance(value, str) and REDACTED.search(value) is not None)


def _id(payload: dict[str, object], name: str) -> str | None:
    value = payload.get(name)
    return value if isinstance(value, str) and value else None


EvidenceKind = Literal["tagged-entry", "compaction", "vendor-event", "read-back"]


@dataclass(frozen=True, slots=True)
class ShownWrite:
    """A write in a run, shown by something else than its memory.written. `memory_ref` is None where it is not told."""

    kind: EvidenceKind
    run_id: str
    memory_ref: str | None
    memory_id: str


def unannounced(shown: Iterable[ShownWrite], announced: Collection[tuple[str, str]]) -> list[ShownWrite]:
    """The writes whose (memoryRef, memoryId) no event names, each once. Without a ref, an event with the id will do."""
    ids = {memory_id for _, memory_id in announced}
    return [
        one
        for one in {(one.memory_ref, one.memory_id): one for one in shown}.values()
        if (one.memory_id not in ids if one.memory_ref is None else (one.memory_ref, one.memory_id) not in announced)
    ]
