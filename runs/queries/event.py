"""One event in full: its envelope and payload, its times, and what was noticed about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec
from django.db import connection

from ..domain import exact_json
from ..domain.copies import labels_of
from ..domain.describe import Kind, kind_of, outcome_of
from ..domain.json_diff import Differences, differences
from ..domain.storable import original, storable
from ..domain.summary import payload_of
from .bodies import WHOLE
from .connections import CAUSED_BY, Asked, EventLink, connections
from .events import noticed_at
from .incidents import incidents_at
from .rows import IncidentRow
from .runs import RunFacts

SHOWN = 256 * 1024
CUT = 64 * 1024
COMPARED = 1024 * 1024
"""Payloads up to so many characters are held against each other."""
KIND_WITHIN = 10_000
"""The previous event of a kind is looked for among so many before it."""


@dataclass(frozen=True, slots=True)
class Leak:
    path: str
    sha256: str
    length: int


@dataclass(frozen=True, slots=True)
class EntryLink:
    """The entry that a memory event speaks of."""

    host: str
    memory_ref: str
    memory_id: str


@dataclass(frozen=True, slots=True)
class FurtherCopy:
    """Another copy of the same event that said more (completion) or something else (contradiction)."""

    kind: str
    received_at: datetime
    payload: str


@dataclass(frozen=True, slots=True)
class EventDetail:
    """One event in full. ``payload`` is its JSON text as it came, cut where it is very long; None if none came.

    ``envelope`` is the rest of the event, as JSON text. ``alike`` is the event before it of the same type and node.
    """

    sequence: int
    type: str
    reported_type: str
    kind: Kind
    status: str
    node: str | None
    agent: str | None
    event_id: str | None
    causation_id: str | None
    timestamp: datetime
    reported_timestamp: str
    received_at: datetime
    bytes: int
    envelope: str
    payload: str | None
    payload_bytes: int
    payload_cut: bool
    leaks: tuple[Leak, ...]
    incidents: tuple[IncidentRow, ...]
    copies: tuple[FurtherCopy, ...]
    backwards: bool
    entry: EntryLink | None
    links: tuple[EventLink, ...]
    alike: int | None
    previous: int | None
    next: int | None
    raw_href: str = ""
    door: str = ""

    @property
    def skew(self) -> timedelta:
        """From the reported time until it was received: below zero where the host's clock is ahead of ours."""
        return self.received_at - self.timestamp

    @property
    def links_by_word(self) -> dict[str, tuple[EventLink, ...]]:
        words = dict.fromkeys(link.word for link in self.links)
        return {word: tuple(link for link in self.links if link.word == word) for word in words}

    @property
    def cause_is_elsewhere(self) -> bool:
        """It names a cause that is no event near it."""
        return self.causation_id is not None and not any(link.word == CAUSED_BY for link in self.links)


_DETAIL = """
SELECT e.type, e.reported_type, e.node_id, e.agent_id, e.event_id, e.causation_id, e.occurred_at, e.received_at,
    e.body, e.has_payload,
    (SELECT p.sequence FROM runs_event p WHERE p.tenant_id = e.tenant_id AND p.run_id = e.run_id
        AND p.sequence < e.sequence ORDER BY p.sequence DESC LIMIT 1),
    (SELECT n.sequence FROM runs_event n WHERE n.tenant_id = e.tenant_id AND n.run_id = e.run_id
        AND n.sequence > e.sequence ORDER BY n.sequence LIMIT 1),
    (SELECT p.occurred_at > e.occurred_at FROM runs_event p WHERE p.tenant_id = e.tenant_id
        AND p.run_id = e.run_id AND p.sequence < e.sequence ORDER BY p.sequence DESC LIMIT 1),
    (SELECT k.sequence FROM runs_event k WHERE k.tenant_id = e.tenant_id AND k.run_id = e.run_id
        AND k.sequence < e.sequence AND k.sequence >= e.sequence - %(within)s AND k.type = e.type
        AND k.node_id IS NOT DISTINCT FROM e.node_id ORDER BY k.sequence DESC LIMIT 1)
FROM runs_event e WHERE e.tenant_id = %(tenant)s AND e.run_id = %(run)s AND e.sequence = %(sequence)s
"""


def find_event(tenant_id: int, run: RunFacts, sequence: int, *, raw_href: str = "") -> EventDetail | None:
    """One event of a run; None when that sequence is not stored.

    ``raw_href`` is where the stored text can be had; it is passed through.
    """
    with connection.cursor() as cursor:
        cursor.execute(_DETAIL, {"tenant": tenant_id, "run": run.pk, "sequence": sequence, "within": KIND_WITHIN})
        row = cursor.fetchone()
    if row is None:
        return None
    copies = _copies(tenant_id, run.pk, sequence)
    noticed = noticed_at(tenant_id, run.pk, [sequence]).get(sequence, [])
    completion = next((text for kind, _, text in copies if kind == "completion"), None)
    row = _with_labels(row, completion)
    type_, _, node, _, event_id, causation = row[:6]
    links = connections(
        Asked(
            tenant_id=tenant_id,
            run=run,
            sequence=sequence,
            type=type_,
            node=node,
            event_id=event_id,
            causation_id=causation,
            payload=payload_of(completion or row[8]),
        )
    )
    return _detail(
        run.host, sequence, row, copies, noticed, links, incidents_at(tenant_id, run.pk, sequence), raw_href=raw_href
    )


def _with_labels(row: Sequence[Any], completion: str | None) -> Sequence[Any]:
    """A channel may have left out the node, the event's id or its cause, and another one told it."""
    if completion is None:
        return row
    type_, reported, node, agent, event_id, causation, *rest = row
    told_id, told_cause, told_node = (told and storable(told) for told in labels_of(completion))
    return (type_, reported, node or told_node, agent, event_id or told_id, causation or told_cause, *rest)


def _copies(tenant_id: int, run: int, sequence: int) -> list[tuple[str, datetime, str]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT kind, received_at, body FROM runs_eventcopy WHERE tenant_id = %s AND run_id = %s"
            " AND sequence = %s ORDER BY received_at, digest",
            [tenant_id, run, sequence],
        )
        found: list[tuple[str, datetime, str]] = cursor.fetchall()
        return found


def _detail(
    host: str,
    sequence: int,
    row: Sequence[Any],
    copies: Sequence[tuple[str, datetime, str]],
    noticed: Sequence[tuple[str, Mapping[str, Any]]],
    links: tuple[EventLink, ...],
    incidents: tuple[IncidentRow, ...],
    *,
    raw_href: str,
) -> EventDetail:
    type_, reported, node, agent, event_id, causation, at, received, body, has_payload = row[:10]
    previous, next_, backwards, alike = row[10:]
    completion = next((text for kind, _, text in copies if kind == "completion"), None)
    payload = payload_text(completion or body) if has_payload or completion else None
    return EventDetail(
        sequence=sequence,
        type=original(type_),
        reported_type=original(reported or type_),
        kind=kind_of(type_),
        status=outcome_of(type_),
        node=node and original(node),
        agent=agent and original(agent),
        event_id=event_id and original(event_id),
        causation_id=causation and original(causation),
        timestamp=at,
        reported_timestamp=_reported_timestamp(body),
        received_at=received,
        bytes=len(body.encode()),
        envelope=envelope_text(completion or body),
        payload=payload if payload is None or len(payload) <= SHOWN else payload[:CUT],
        payload_bytes=0 if payload is None else len(payload.encode()),
        payload_cut=payload is not None and len(payload) > SHOWN,
        leaks=tuple(
            Leak(detail.get("path", ""), detail.get("sha256", ""), detail.get("bytes", 0))
            for kind, detail in noticed
            if kind.endswith("_leak")
        ),
        incidents=incidents,
        copies=tuple(FurtherCopy(kind, when, payload_text(text) or "null") for kind, when, text in copies),
        backwards=bool(backwards),
        entry=_entry(host, type_, completion or body),
        links=links,
        alike=alike,
        previous=previous,
        next=next_,
        raw_href=raw_href,
    )


class _Envelope(msgspec.Struct):
    payload: msgspec.Raw = msgspec.Raw(b"")
    data: msgspec.Raw = msgspec.Raw(b"")
    timestamp: str = ""


def _envelope(body: str) -> tuple[str, str, str]:
    """(payload, data, timestamp) of a stored event: the first two as JSON text, "" where there is none."""
    try:
        envelope = msgspec.json.decode(body, type=_Envelope)
    except msgspec.DecodeError:
        # It takes no lone surrogates. The exact reader does, and only forgets the white space.
        members = exact_json.loads(body)
        assert isinstance(members, dict)  # everything that is stored is an event
        texts = (exact_json.dumps(members[name]).decode() if name in members else "" for name in ("payload", "data"))
        return *texts, str(members.get("timestamp", ""))  # type: ignore[return-value]  # two texts and one more
    return bytes(envelope.payload).decode(), bytes(envelope.data).decode(), envelope.timestamp


def payload_text(body: str) -> str | None:
    """The JSON text of a stored event's payload, character for character; None where it has none."""
    payload, data, _ = _envelope(body)
    return data if data and payload in ("", "null") else payload or None


def envelope_text(body: str) -> str:
    """The JSON text of a stored event without its payload: the members as they came, and nothing else."""
    try:
        members: dict[str, msgspec.Raw] = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        told = {name: bytes(value).decode() for name, value in members.items()}
    except msgspec.DecodeError:
        read = exact_json.loads(body)
        assert isinstance(read, dict)  # everything that is stored is an event
        told = {name: exact_json.dumps(value).decode() for name, value in read.items()}
    kept = (f"{exact_json.dumps(n).decode()}:{text}" for n, text in told.items() if n not in ("payload", "data"))
    return "{" + ",".join(kept) + "}"


def _reported_timestamp(body: str) -> str:
    return _envelope(body)[2]


def _entry(host: str, type_: str, body: str) -> EntryLink | None:
    if type_ not in ("memory.written", "memory.compacted"):
        return None
    payload = payload_of(body)
    if not isinstance(payload, dict):
        return None
    ref, memory_id = (
        payload.get("memoryRef"),
        payload.get("memoryId" if type_ == "memory.written" else "outputId"),
    )
    if not (isinstance(ref, str) and isinstance(memory_id, str) and ref and memory_id):
        return None
    return EntryLink(host, ref, memory_id)


# --- against another one ---


@dataclass(frozen=True, slots=True)
class EventDifferences:
    """The payload of an event held against an earlier one's. ``differences`` is None where a payload is too large, or
    is not there; ``problem`` says so."""

    sequence: int
    against: int
    type: str
    differences: Differences | None
    problem: str = ""


_LIKE = """
SELECT type, node_id FROM runs_event WHERE tenant_id = %s AND run_id = %s AND sequence = %s
"""
_ALIKE = """
SELECT sequence FROM runs_event WHERE tenant_id = %(tenant)s AND run_id = %(run)s AND sequence < %(sequence)s
    AND sequence >= %(sequence)s - %(within)s AND type = %(type)s AND node_id IS NOT DISTINCT FROM %(node)s
ORDER BY sequence DESC LIMIT 1
"""


def event_differences(tenant_id: int, run: int, sequence: int, against: int | None) -> EventDifferences | None:
    """Against the previous event of its type and node, unless another one is named. None where one is not stored."""
    with connection.cursor() as cursor:
        cursor.execute(_LIKE, [tenant_id, run, sequence])
        row = cursor.fetchone()
        if row is None:
            return None
        type_, node = row
        if against is None:
            values = {"tenant": tenant_id, "run": run, "sequence": sequence, "type": type_, "node": node}
            cursor.execute(_ALIKE, values | {"within": KIND_WITHIN})
            (against,) = cursor.fetchone() or (None,)
    if against is None:
        return None
    before, after = _body_at(tenant_id, run, against), _body_at(tenant_id, run, sequence)
    if before is None or after is None:
        return None
    return _differences(sequence, against, original(type_), payload_text(before), payload_text(after))


def _differences(sequence: int, against: int, type: str, before: str | None, after: str | None) -> EventDifferences:
    if before is None or after is None:
        return EventDifferences(sequence, against, type, None, "One of the two came without its payload.")
    if max(len(before), len(after)) > COMPARED:
        return EventDifferences(sequence, against, type, None, "The payloads are too large to be compared here.")
    if before == after:
        return EventDifferences(sequence, against, type, Differences((), False))
    found = differences(exact_json.loads(before), exact_json.loads(after))
    return EventDifferences(sequence, against, type, found)


def _body_at(tenant_id: int, run: int, sequence: int) -> str | None:
    """The text of an event, the fuller copy where there is one."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {WHOLE} FROM runs_event e WHERE e.tenant_id = %s AND e.run_id = %s AND e.sequence = %s",  # noqa: S608
            [tenant_id, run, sequence],
        )
        row = cursor.fetchone()
    return row[0] if row else None
