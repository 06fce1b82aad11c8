"""Two runs of a tenant laid side by side, and the runs that it makes sense to lay beside one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any

from django.db import connection

from ..domain.comparison import ABSENT, SAME, Comparison, Side, compare, is_compared
from ..domain.describe import outcome_of
from ..domain.member_texts import payload_bytes
from ..domain.storable import original, storable
from ..domain.summary import payload_of
from ..store.snapshots import LogEnd, log_end
from .bodies import WHOLE
from .runs import RunFacts

MOST_EVENTS = 200_000
"""So many of the first events of either run are compared."""
KEPT = 8
"""Comparisons that a process remembers, for the pages and pieces of pages that ask for the same one."""
OFFERED = 20

FORKS = ("replay", "branch", "fork")

MEMORY, FAILED = "memory", "fail"


@dataclass(frozen=True, slots=True)
class Mark:
    """An event of either side that stands out: a memory event or a failure."""

    place: int
    side: str
    sequence: int
    kind: str


@dataclass(frozen=True, slots=True)
class Compared:
    """``is_cut`` says that one of the runs is longer than what is compared of it."""

    comparison: Comparison
    marks: tuple[Mark, ...]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class Kinship:
    """What the second run is to the first one. ``mode`` is replay, branch, or fork where nobody says which; "" where
    neither is known to be a fork of the other. With ``is_turned`` the first one is the fork."""

    mode: str
    from_sequence: int | None
    is_turned: bool = False


def kinship(a: RunFacts, b: RunFacts) -> Kinship:
    for source, fork, is_turned in ((a, b, False), (b, a, True)):
        if fork.relation in FORKS and source.host == fork.host and fork.parent_run_id == source.run_id:
            return Kinship(fork.relation, fork.parent_sequence, is_turned)
    return Kinship("", None)


def compared(tenant_id: int, a: RunFacts, b: RunFacts) -> Compared:
    """Remembered for as long as neither log has another event."""
    ends = [log_end(tenant_id, run.pk) for run in (a, b)]
    return _compared(tenant_id, ends[0], ends[1], a.run_id, b.run_id)


@lru_cache(KEPT)
def _compared(tenant_id: int, a: LogEnd | None, b: LogEnd | None, run_a: str, run_b: str) -> Compared:
    (mine, marked_a), (theirs, marked_b) = _sides(tenant_id, a), _sides(tenant_id, b)
    comparison = compare(mine, theirs, run_a=run_a, run_b=run_b)
    is_cut = any(end is not None and end.event_count > MOST_EVENTS for end in (a, b))
    return Compared(comparison, tuple(_marks(comparison, marked_a, marked_b)), is_cut)


def _sides(tenant_id: int, end: LogEnd | None) -> tuple[list[Side], dict[int, str]]:
    """The events, and those that stand out."""
    # Plain tuples: of two hundred thousand named ones the garbage collector would look at each again and again.
    sides: list[Any] = []
    marks: dict[int, str] = {}
    if end is None:
        return sides, marks
    kinds: dict[str, str] = {}
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT e.sequence, e.type, e.node_id,
                CASE WHEN e.type LIKE 'log.%%' OR e.type LIKE 'lease.%%' THEN '' ELSE coalesce(c.body, e.body) END
            FROM runs_event e
            LEFT JOIN runs_eventcopy c ON c.tenant_id = e.tenant_id AND c.run_id = e.run_id
                AND c.sequence = e.sequence AND c.kind = 'completion'
            WHERE e.tenant_id = %s AND e.run_id = %s AND e.sequence <= %s
            """,
            [tenant_id, end.run, _last_compared(tenant_id, end)],
        )
        found = cursor.fetchall()
    # Sorted here: the database would sort the bodies along, on disk.
    found.sort(key=itemgetter(0))
    for sequence, type_, node, body in found:
        kind = kinds.get(type_)
        if kind is None:
            kind = kinds[type_] = _kind(type_)
        if kind:
            marks[sequence] = kind
        sides.append((sequence, type_, node, payload_bytes(body) if body else b""))
    return sides, marks


def _last_compared(tenant_id: int, end: LogEnd) -> int:
    if end.event_count <= MOST_EVENTS:
        return end.last
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sequence FROM runs_event WHERE tenant_id = %s AND run_id = %s ORDER BY sequence OFFSET %s LIMIT 1",
            [tenant_id, end.run, MOST_EVENTS - 1],
        )
        row = cursor.fetchone()
    return row[0] if row else end.last


def _kind(type_: str) -> str:
    if not is_compared(type_):
        return ""
    if type_.startswith(("memory.", "agent.memory.")):
        return MEMORY
    return FAILED if outcome_of(type_) == "fail" else ""


def _marks(comparison: Comparison, mine: Mapping[int, str], theirs: Mapping[int, str]) -> Iterator[Mark]:
    if not mine and not theirs:
        return
    for place, (a, b) in enumerate(zip(comparison.a, comparison.b, strict=True)):
        if a in mine:
            yield Mark(place, "a", a, mine[a])
        if b in theirs:
            yield Mark(place, "b", b, theirs[b])


# --- what a picture of it needs ---


@dataclass(frozen=True, slots=True)
class Bucket:
    """Pairs from ``start`` up to ``end``, that one not included, with how many of them are what. ``a`` and ``b`` are
    the first sequences of either run among them."""

    start: int
    end: int
    same: int
    changed: int
    removed: int
    added: int
    a: int | None
    b: int | None


def buckets(comparison: Comparison, start: int, end: int, most: int) -> list[Bucket]:
    """The pairs of a stretch in ``most`` parts of one size, give or take one."""
    start, end = max(0, start), min(end, len(comparison))
    count = max(0, min(most, end - start))
    edges = [start + (end - start) * place // count for place in range(count + 1)] if count else []
    found = []
    for low, high in zip(edges, edges[1:], strict=False):
        part = comparison.ops[low:high]
        firsts = (
            next((sequence for sequence in side[low:high] if sequence != ABSENT), None)
            for side in (comparison.a, comparison.b)
        )
        found.append(Bucket(low, high, *(part.count(op) for op in range(4)), *firsts))
    return found


def places(comparison: Comparison, *, only_differences: bool, after: int, most: int) -> list[int]:
    """The next ones behind ``after``, which is not among them."""
    found: list[int] = []
    place: int | None = after
    while len(found) < most and place is not None:
        place = comparison.next_difference(place) if only_differences else place + 1
        if place is None or place >= len(comparison):
            break
        found.append(place)
    return found


def places_before(comparison: Comparison, *, only_differences: bool, before: int, most: int) -> list[int]:
    """The last ones in front of ``before``, which is not among them; ascending."""
    found: list[int] = []
    place: int | None = min(before, len(comparison))
    while len(found) < most and place is not None:
        place = comparison.previous_difference(place) if only_differences else place - 1
        if place is None or place < 0:
            break
        found.append(place)
    return found[::-1]


def differing_pairs(comparison: Comparison, *, most: int) -> list[tuple[int, int, int]]:
    """(op, sequence of a, sequence of b) by the earlier sequence of each."""
    found = [tuple(pair) for pair in comparison.pairs() if pair.op != SAME]
    found.sort(key=lambda pair: min(one for one in pair[1:] if one != ABSENT))
    return found[:most]  # type: ignore[return-value]  # pairs have three members


# --- what of a fork stands out ---


def first_start(tenant_id: int, run: int, *, after: int = -1) -> tuple[int, str] | None:
    """(sequence, node) of the first node that starts behind a sequence."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sequence, node_id FROM runs_event WHERE tenant_id = %s AND run_id = %s AND sequence > %s"
            " AND type = 'node.started' AND node_id IS NOT NULL ORDER BY sequence LIMIT 1",
            [tenant_id, run, after],
        )
        row = cursor.fetchone()
    return (row[0], original(row[1])) if row else None


@dataclass(frozen=True, slots=True)
class HostsWord:
    """A ``replay.diverged`` event: what the host itself says of a fork. ``at`` is the sequence it names, if any."""

    sequence: int
    type: str
    at: int | None
    kind: str


def hosts_words(tenant_id: int, run: int, source_run_id: str, *, most: int = 20) -> list[HostsWord]:
    """Where the host says that a run diverged from the other one."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT e.sequence, e.type, {WHOLE} FROM runs_event e WHERE e.tenant_id = %s AND e.run_id = %s"  # noqa: S608
            " AND type IN ('replay.diverged', 'replay.divergedAtRefusal') ORDER BY sequence LIMIT %s",
            [tenant_id, run, most],
        )
        found = cursor.fetchall()
    return [word for row in found if (word := _hosts_word(row, source_run_id)) is not None]


def _hosts_word(row: Sequence[Any], source_run_id: str) -> HostsWord | None:
    sequence, type_, body = row
    told = payload_of(body)
    told = told if isinstance(told, dict) else {}
    if told.get("sourceRunId") not in (None, source_run_id):
        return None
    at, point, kind = told.get("atSequence"), told.get("divergencePoint"), told.get("divergenceKind")
    # One host writes the place as a number where the schema has the type of an event.
    place = next((one for one in (at, point) if type(one) is int), None)
    return HostsWord(sequence, type_, place, kind if isinstance(kind, str) else "")


# --- what to compare with ---


@dataclass(frozen=True, slots=True)
class Offer:
    """A run that a given one may be compared with. ``relation`` is source, replay, branch, fork or same workflow."""

    host: str
    run_id: str
    relation: str
    from_sequence: int | None
    status: str
    events: int


_OFFERS = """
SELECT h.slug, r.run_id, {relation}, r.parent_sequence, r.status, r.event_count
FROM runs_run r JOIN runs_host h ON h.tenant_id = r.tenant_id AND h.id = r.host_id
WHERE r.tenant_id = %(tenant)s AND h.slug = %(host)s AND {condition}
ORDER BY r.id DESC LIMIT %(most)s
"""


def offers(tenant_id: int, run: RunFacts, *, also_alike: bool = False) -> list[Offer]:
    """Its source and its forks; with ``also_alike`` the other runs of its workflow behind them."""
    found: list[Offer] = []
    if run.parent_run_id and run.relation in FORKS:
        found += _offered(tenant_id, run, "'source'", "r.run_id = %(parent)s")
    found += _offered(
        tenant_id,
        run,
        "r.relation",
        "r.parent_run_id = %(run)s AND r.parent_run_id <> '' AND r.relation IN ('replay', 'branch', 'fork')",
    )
    if also_alike and run.workflow:
        known = {one.run_id for one in found}
        alike = _offered(tenant_id, run, "'same workflow'", "r.workflow_id = %(workflow)s AND r.run_id <> %(run)s")
        found += [one for one in alike if one.run_id not in known]
    return found


def _offered(tenant_id: int, run: RunFacts, relation: str, condition: str) -> list[Offer]:
    with connection.cursor() as cursor:
        cursor.execute(
            _OFFERS.format(relation=relation, condition=condition),
            {
                "tenant": tenant_id,
                "host": run.host,
                "run": storable(run.run_id),
                "parent": storable(run.parent_run_id or ""),
                "workflow": storable(run.workflow or ""),
                "most": OFFERED,
            },
        )
        return [Offer(host, original(run_id), *rest) for host, run_id, *rest in cursor.fetchall()]


def recent_forks(tenant_id: int) -> list[tuple[Offer, str]]:
    """The newest forks whose source is here, each with its source's id."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT h.slug, r.run_id, r.relation, r.parent_sequence, r.status, r.event_count, s.run_id
            FROM runs_run r
            JOIN runs_host h ON h.tenant_id = r.tenant_id AND h.id = r.host_id
            JOIN runs_run s ON s.tenant_id = r.tenant_id AND s.host_id = r.host_id AND s.run_id = r.parent_run_id
            WHERE r.tenant_id = %s AND r.parent_run_id <> '' AND r.relation IN ('replay', 'branch', 'fork')
            ORDER BY r.id DESC LIMIT %s
            """,
            [tenant_id, OFFERED],
        )
        return [
            (Offer(host, original(run_id), *rest), original(source))
            for host, run_id, *rest, source in cursor.fetchall()
        ]
