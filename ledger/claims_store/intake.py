"""The door for what writers say: source event, job, claims and what follows from them, in one transaction.

Locks are taken in one order: the tenant's rules, source events, subjects' keys. A batch takes a constant number of
statements, however many events and claims are in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from openwop_ui.live.announce import announce

from ..domain.assertions import Observation, claims_of
from ..domain.claims import Claim
from ..domain.extraction import Extracted, Extractor, Message, PlainStatements
from ..domain.key_registry import KeyRegistry
from ..domain.sources import ProvenanceError
from ..domain.submissions import Submission, require_same
from ..models import Job, SourceEvent
from ..queries.paging import rows_of
from .conflict_rows import Cause
from .facts import JOB_COLUMNS, NewClaim, SourceRow, add_claims, add_sources, job_id
from .loading import KeyLedger, load, lock_keys, subject_key_id
from .rows import insert, update
from .rules import TenantRules, share_rules
from .settling import Settled, settle
from .suggesting import suggest

Status = Job.Status
PLAIN = PlainStatements()


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of one submission. ``refused`` says why nothing did."""

    source_event: UUID
    job: UUID
    status: str
    is_repeat: bool = False
    refused: ProvenanceError | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """A source event with what is to be read in it."""

    source: SourceRow
    messages: tuple[Message, ...]
    explicit: tuple[Extracted, ...]


@dataclass(slots=True)
class Heard:
    """What one source event says, and what of it nothing was read in."""

    source: SourceRow
    claims: list[NewClaim]
    extractor: str
    unread: list[tuple[int, str]] = field(default_factory=list)


def add(
    tenant_id: int,
    submissions: Sequence[Submission],
    *,
    received_from: str,
    received_at: datetime,
    later: bool = False,
) -> list[Taken]:
    """Takes in submissions, whose writers were found to be permitted, within the caller's transaction.

    ``later`` leaves messages to be read by whoever works on queued jobs. A known event with another payload is refused
    by itself.
    """
    rules = share_rules(tenant_id)
    readings = [_reading(one, received_from, received_at) for one in submissions]
    sources: dict[UUID, SourceRow] = {}
    for reading in readings:
        sources.setdefault(reading.source.id, reading.source)
    new = add_sources(tenant_id, sources.values())
    known = _known(tenant_id, [source for source in sources if source not in new])
    taken = [
        _taken(one, reading.source.id, sources, new, known) for one, reading in zip(submissions, readings, strict=True)
    ]
    # Of an event that comes twice in a batch the first one is it.
    first: dict[UUID, Reading] = {}
    for reading, became in zip(readings, taken, strict=True):
        if reading.source.id in new and became.refused is None:
            first.setdefault(reading.source.id, reading)
    queued = {source for source, reading in first.items() if later and reading.messages}
    add_jobs(tenant_id, {source: source in queued for source in first}, received_at)
    told = [hear(_now(reading) if source in queued else reading, rules.keys) for source, reading in first.items()]
    take(tenant_id, told, rules, at=received_at, unfinished=queued)
    if new:
        announce(tenant_id, {"sources": None})
    waiting = Status.QUEUED.value
    return [
        Taken(one.source_event, one.job, waiting) if one.source_event in queued and not one.refused else one
        for one in taken
    ]


def _reading(submission: Submission, received_from: str, received_at: datetime) -> Reading:
    source = submission.source
    return Reading(
        SourceRow(
            kind=SourceEvent.Kind.ADD.value,
            writer=source.service,
            event_id=source.event_id,
            subject=submission.subject,
            scope=source.scope,
            observed_at=source.observed_at,
            is_observed=source.is_observed,
            received_at=received_at,
            received_from=received_from,
            payload_hash=submission.payload_hash,
            evidence=source.evidence,
            payload=submission.payload,
        ),
        submission.messages,
        submission.explicit,
    )


def _known(tenant_id: int, sources: Sequence[UUID]) -> dict[UUID, tuple[bytes, str]]:
    """Hash and the job's status of events that are known already."""
    if not sources:
        return {}
    rows = rows_of(
        "SELECT s.id, s.payload_hash, j.status FROM ledger_sourceevent s"
        " JOIN ledger_job j ON j.tenant_id = s.tenant_id AND j.source_event_id = s.id"
        " WHERE s.tenant_id = %s AND s.id = ANY (%s::uuid[])",
        [tenant_id, list(sources)],
    )
    return {source: (bytes(digest), status) for source, digest, status in rows}


def _taken(
    submission: Submission,
    source: UUID,
    sources: Mapping[UUID, SourceRow],
    new: set[UUID],
    known: Mapping[UUID, tuple[bytes, str]],
) -> Taken:
    job = job_id(source)
    digest, status = known.get(source, (sources[source].payload_hash, Status.DONE.value))
    try:
        require_same(digest, submission)
    except ProvenanceError as refused:
        return Taken(source, job, status, refused=refused)
    return Taken(source, job, status, is_repeat=source not in new)


def _now(reading: Reading) -> Reading:
    """What of it needs no extractor."""
    return replace(reading, messages=())


def add_jobs(tenant_id: int, sources: Mapping[UUID, bool], at: datetime) -> None:
    """One for each source event, with whether it is left to whoever works on queued ones."""
    rows = [
        (
            job_id(source),
            source,
            (Status.QUEUED if is_queued else Status.RUNNING).value,
            "",
            None,
            "",
            0 if is_queued else 1,
            at,
            None if is_queued else at,
            None,
            at if is_queued else None,
        )
        for source, is_queued in sources.items()
    ]
    insert("ledger_job", JOB_COLUMNS, rows, tenant_id=tenant_id, then="ON CONFLICT DO NOTHING")


def hear(reading: Reading, keys: KeyRegistry, extractor: Extractor = PLAIN) -> Heard:
    extracted = extractor.extract(reading.messages) if reading.messages else ()
    return heard(reading, extracted, keys, extractor.version)


def heard(reading: Reading, extracted: Sequence[Extracted], keys: KeyRegistry, version: str) -> Heard:
    source = reading.source
    observation = Observation(
        source_event=source.id,
        subject=source.subject,
        writer=source.writer,
        observed_at=source.observed_at,
        received_at=source.received_at,
        scope=source.scope,
    )
    claims: dict[UUID, NewClaim] = {}
    for said in (*reading.explicit, *extracted):
        for claim in claims_of([said], observation, keys):
            claims[claim.id] = NewClaim(claim, json.dumps(said.value), said.extractor)
    spoken = {said.span.message for said in extracted if said.span}
    unread = [(index, one.content) for index, one in enumerate(reading.messages) if index not in spoken]
    return Heard(source, list(claims.values()), version if reading.messages else _explicit_version(reading), unread)


def _explicit_version(reading: Reading) -> str:
    return reading.explicit[0].extractor if reading.explicit else ""


def take(
    tenant_id: int, told: Sequence[Heard], rules: TenantRules, *, at: datetime, unfinished: Set[UUID] = frozenset()
) -> Settled:
    """Stores claims, settles their keys and finishes the jobs, but for those of ``unfinished`` source events."""
    return conclude(tenant_id, told, store(tenant_id, told, rules), rules, at=at, unfinished=unfinished)


def store(
    tenant_id: int, told: Sequence[Heard], rules: TenantRules, *, also: Iterable[UUID] = ()
) -> dict[UUID, KeyLedger]:
    """Stores the claims, and returns their keys and ``also`` those, locked and loaded."""
    keyed = [(_key_of(new.claim), new) for one in told for new in one.claims]
    wanted = {key_id: (new.claim.subject, new.claim.key) for key_id, new in keyed}
    ledgers = lock_keys(tenant_id, wanted, rules.keys, also=also)
    add_claims(tenant_id, ledgers, keyed)
    load(tenant_id, ledgers, rules.keys)
    return ledgers


def conclude(
    tenant_id: int,
    told: Sequence[Heard],
    ledgers: Mapping[UUID, KeyLedger],
    rules: TenantRules,
    *,
    at: datetime,
    unfinished: Set[UUID] = frozenset(),
    actor: str = "",
) -> Settled:
    """The one way by which claims come to hold: settles the keys, looks for what resembles, and finishes the jobs."""
    settled = settle(tenant_id, ledgers.values(), rules.rules, Cause(at, actor))
    suggested = suggest(tenant_id, told, at)
    _finish(tenant_id, [one for one in told if one.source.id not in unfinished], settled, suggested, at)
    return settled


def _key_of(claim: Claim) -> UUID:
    return subject_key_id(claim.subject, claim.key)


def _finish(
    tenant_id: int, told: Sequence[Heard], settled: Settled, suggested: Mapping[UUID, list[UUID]], at: datetime
) -> None:
    """What came of each source event; its conflicts are those that changed with its claims."""
    of_claim: dict[UUID, set[UUID]] = {}
    for row in settled.writes.rows:
        for claim in row.claims:
            of_claim.setdefault(claim, set()).add(row.id)
    rows = []
    for one in told:
        claims = [new.claim.id for new in one.claims]
        conflicts = {conflict for claim in claims for conflict in of_claim.get(claim, ())}
        result: dict[str, Any] = {
            "claims": [str(claim) for claim in claims],
            "conflicts": sorted(str(one) for one in conflicts | set(suggested.get(one.source.id, ()))),
            "nothing_to_extract": not claims,
        }
        rows.append((job_id(one.source.id), Status.DONE.value, one.extractor, result, "", at, None))
    columns = ("id", "status", "extractor", "result", "error", "finished_at", "next_at")
    update("ledger_job", {name: JOB_COLUMNS[name] for name in columns}, rows, tenant_id=tenant_id, keys=("id",))
