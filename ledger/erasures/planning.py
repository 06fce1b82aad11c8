"""What goes with an entry or a subject: found by links, and by the texts themselves. Nothing is changed here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from runs.domain.storable import original, storable
from runs.store.retention import events_with

from ..domain.erasing import RARE, Quotes, quotes_of, spellings
from ..domain.reading import COMPACTED_FROM
from ..queries.paging import rows_of

MOST_ENTRIES = 10_000


class TooMuch(ValueError):
    """More entries hang together than are erased at once."""


class Reason(StrEnum):
    """Why an entry goes."""

    ASKED = "asked"
    DERIVED = "derived"
    QUOTES = "quotes"


@dataclass(frozen=True, slots=True)
class Target:
    """An entry that goes, with its address for who has to confirm that."""

    id: UUID
    host_id: int
    host: str
    memory_ref: str
    memory_id: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Plan:
    """``runs`` wrote the entries: their events are gone through for single words, too. ``events`` are run and sequence.

    Claims ``quoting`` came otherwise, and go since they repeat what goes.
    """

    targets: tuple[Target, ...] = ()
    quotes: Quotes = field(default_factory=Quotes)
    claims: tuple[UUID, ...] = ()
    quoting: tuple[UUID, ...] = ()
    sources: tuple[UUID, ...] = ()
    writes: tuple[tuple[int, int], ...] = ()
    events: tuple[tuple[int, int], ...] = ()
    runs: tuple[int, ...] = ()
    subject: str = ""

    @property
    def entries(self) -> list[UUID]:
        return [target.id for target in self.targets]

    @property
    def all_claims(self) -> list[UUID]:
        return list(dict.fromkeys((*self.claims, *self.quoting)))

    @property
    def counts(self) -> dict[str, int]:
        return {
            "entries": len(self.targets),
            "claims": len(self.all_claims),
            "sourceEvents": len(self.sources),
            "events": len(set(self.events) | set(self.writes)),
        }


def plan_entry(tenant_id: int, entry: UUID) -> Plan | None:
    """None when there is no such entry. Raises TooMuch."""
    asked = _targets(tenant_id, [entry], Reason.ASKED)
    if not asked:
        return None
    quotes = quotes_of(_contents(tenant_id, [entry]))
    quotes = Quotes(quotes.texts, _rare(tenant_id, asked[0], quotes.words))
    targets = {target.id: target for target in asked}
    found = _quoting(tenant_id, asked[0], quotes) - targets.keys()
    targets |= {one.id: one for one in _targets(tenant_id, found, Reason.QUOTES)}
    return _with_what_follows(tenant_id, targets, quotes)


def plan_subject(tenant_id: int, subject: str) -> Plan | None:
    """None when nothing is known of it. A memory ref of a host is the subject of its entries: they go with it."""
    stored = storable(subject)
    claims = _ids(
        "SELECT c.id FROM ledger_claimrow c JOIN ledger_subjectkey k"
        " ON k.tenant_id = c.tenant_id AND k.id = c.subject_key_id WHERE c.tenant_id = %s AND k.subject = %s",
        [tenant_id, stored],
    )
    told = rows_of(
        "SELECT id, entry_id FROM ledger_sourceevent WHERE tenant_id = %s AND subject = %s", [tenant_id, stored]
    )
    if not claims and not told:
        return None
    entries = {entry for _, entry in told if entry is not None}
    targets = {one.id: one for one in _targets(tenant_id, entries, Reason.ASKED)}
    plan = _with_what_follows(tenant_id, targets, quotes_of(_contents(tenant_id, list(entries))))
    return Plan(
        targets=plan.targets,
        quotes=plan.quotes | quotes_of(_said(tenant_id, claims)),
        claims=tuple(dict.fromkeys((*claims, *plan.claims))),
        quoting=plan.quoting,
        sources=tuple(dict.fromkeys((*(source for source, _ in told), *plan.sources))),
        writes=plan.writes,
        events=plan.events,
        runs=plan.runs,
        subject=subject,
    )


def _with_what_follows(tenant_id: int, targets: dict[UUID, Target], quotes: Quotes) -> Plan:
    frontier = set(targets)
    while frontier:
        found = _derived(tenant_id, frontier) - targets.keys()
        targets |= {one.id: one for one in _targets(tenant_id, found, Reason.DERIVED)}
        frontier = found & targets.keys()
        if len(targets) > MOST_ENTRIES:
            raise TooMuch(f"more than {MOST_ENTRIES} entries hang together")
    entries = list(targets)
    writes = rows_of(
        "SELECT run_id, sequence FROM ledger_memorywrite WHERE tenant_id = %s AND entry_id = ANY (%s::uuid[])",
        [tenant_id, entries],
    )
    runs = sorted({run for run, _ in writes})
    linked = _sources_of(tenant_id, entries)
    quoting_sources = _sources_with(tenant_id, quotes)
    claims = _ids(
        "SELECT id FROM ledger_claimrow WHERE tenant_id = %s AND source_event_id = ANY (%s::uuid[])",
        [tenant_id, linked],
    )
    everywhere = [spelling for text in quotes.texts for spelling in spellings(storable(text))]
    in_runs = [spelling for word in quotes.words for spelling in spellings(storable(word))]
    return Plan(
        targets=tuple(sorted(targets.values(), key=lambda one: (one.reason, one.host, one.memory_ref, one.memory_id))),
        quotes=quotes,
        claims=tuple(claims),
        quoting=tuple(_claims_quoting(tenant_id, quotes, claims, quoting_sources)),
        sources=tuple(dict.fromkeys((*linked, *quoting_sources))),
        writes=tuple(writes),
        events=tuple(sorted({*events_with(tenant_id, everywhere), *events_with(tenant_id, in_runs, runs=runs)})),
        runs=tuple(runs),
    )


def _targets(tenant_id: int, entries: Iterable[UUID], reason: Reason) -> list[Target]:
    found = rows_of(
        "SELECT e.id, e.host_id, h.slug, e.memory_ref, e.memory_id FROM ledger_memoryentry e"
        " JOIN runs_host h ON h.tenant_id = e.tenant_id AND h.id = e.host_id"
        " WHERE e.tenant_id = %s AND e.id = ANY (%s::uuid[])",
        [tenant_id, list(entries)],
    )
    return [Target(pk, host, slug, original(ref), original(name), reason) for pk, host, slug, ref, name in found]


def _contents(tenant_id: int, entries: Sequence[UUID]) -> list[str]:
    found = rows_of(
        "SELECT content FROM ledger_observation WHERE tenant_id = %s AND entry_id = ANY (%s::uuid[])"
        " AND content IS NOT NULL ORDER BY entry_id, number",
        [tenant_id, list(entries)],
    )
    return [original(content) for (content,) in found]


def _rare(tenant_id: int, target: Target, words: Sequence[str]) -> tuple[str, ...]:
    """Those of the words that hardly another entry of the same scope has."""
    found = rows_of(
        """
        SELECT w.word FROM unnest(%(words)s::text[]) WITH ORDINALITY AS w (word, place)
        WHERE (SELECT count(*) FROM (SELECT FROM ledger_memoryentry e
            JOIN ledger_observation o ON o.tenant_id = e.tenant_id AND o.entry_id = e.id
            WHERE e.tenant_id = %(tenant)s AND e.host_id = %(host)s AND e.memory_ref = %(ref)s AND e.id <> %(entry)s
                AND position(w.word IN o.content) > 0 GROUP BY e.id LIMIT %(most)s) AS having_it) < %(most)s
        ORDER BY w.place
        """,
        {
            "words": [storable(word) for word in words],
            "tenant": tenant_id,
            "host": target.host_id,
            "ref": storable(target.memory_ref),
            "entry": target.id,
            "most": RARE + 1,
        },
    )
    return tuple(original(word) for (word,) in found)


def _quoting(tenant_id: int, target: Target, quotes: Quotes) -> set[UUID]:
    """Entries that repeat a text of it, wherever they are, and those of its scope that have a rare word of it."""
    found = rows_of(
        """
        SELECT DISTINCT o.entry_id FROM ledger_observation o
        WHERE o.tenant_id = %(tenant)s AND (
            EXISTS (SELECT FROM unnest(%(texts)s::text[]) AS t (part) WHERE position(t.part IN o.content) > 0)
            OR (o.host_id = %(host)s AND o.memory_ref = %(ref)s
                AND EXISTS (SELECT FROM unnest(%(words)s::text[]) AS t (part) WHERE position(t.part IN o.content) > 0)))
        """,
        {
            "tenant": tenant_id,
            "texts": list(map(storable, quotes.texts)),
            "words": list(map(storable, quotes.words)),
            "host": target.host_id,
            "ref": storable(target.memory_ref),
        },
    )
    return {entry for (entry,) in found}


def _derived(tenant_id: int, entries: Iterable[UUID]) -> set[UUID]:
    """Entries that came out of these, by what events and tags say: one step."""
    found = rows_of(
        """
        WITH source AS (SELECT e.* FROM ledger_memoryentry e
            WHERE e.tenant_id = %(tenant)s AND e.id = ANY (%(entries)s::uuid[]))
        SELECT m.output_id FROM source e
        JOIN ledger_mergesource s ON s.tenant_id = e.tenant_id AND s.entry_id = e.id
        JOIN ledger_merge m ON m.tenant_id = s.tenant_id AND m.run_id = s.run_id AND m.sequence = s.sequence
        WHERE m.output_id IS NOT NULL
        UNION
        SELECT w.entry_id FROM source e
        JOIN ledger_taggedsource t ON t.tenant_id = e.tenant_id AND t.entry_id = e.id
        JOIN ledger_memorywrite w ON w.tenant_id = t.tenant_id AND w.run_id = t.run_id AND w.sequence = t.sequence
        WHERE w.entry_id IS NOT NULL
        UNION
        SELECT o.entry_id FROM source e
        JOIN ledger_memoryentry made ON made.tenant_id = e.tenant_id AND made.scope_id = e.scope_id
        JOIN ledger_observation o ON o.tenant_id = made.tenant_id AND o.entry_id = made.id
        WHERE %(prefix)s || e.memory_id = ANY (o.tags)
        """,
        {"tenant": tenant_id, "entries": list(entries), "prefix": COMPACTED_FROM},
    )
    return {entry for (entry,) in found}


def _sources_of(tenant_id: int, entries: Sequence[UUID]) -> list[UUID]:
    return _ids(
        "SELECT id FROM ledger_sourceevent WHERE tenant_id = %s AND entry_id = ANY (%s::uuid[])",
        [tenant_id, list(entries)],
    )


def _sources_with(tenant_id: int, quotes: Quotes) -> list[UUID]:
    """Source events that were handed in with a text of it."""
    return _ids(
        "SELECT id FROM ledger_sourceevent s WHERE s.tenant_id = %s AND s.payload IS NOT NULL AND EXISTS ("
        "SELECT FROM unnest(%s::text[]) AS t (part) WHERE position(t.part IN s.payload) > 0"
        " OR position(t.part IN s.evidence) > 0)",
        [tenant_id, [spelling for text in quotes.texts for spelling in spellings(text)]],
    )


def _claims_quoting(tenant_id: int, quotes: Quotes, claims: Sequence[UUID], sources: Sequence[UUID]) -> list[UUID]:
    """Claims that repeat a text of it; and where the subject's key is the same, or the source event repeats one, those
    that have a rare word of it."""
    return _ids(
        """
        WITH near AS (SELECT DISTINCT subject_key_id FROM ledger_claimrow
            WHERE tenant_id = %(tenant)s AND id = ANY (%(claims)s::uuid[]))
        SELECT c.id FROM ledger_claimrow c
        CROSS JOIN LATERAL (SELECT concat_ws(chr(10), c.value, c.display, c.content, (
            SELECT string_agg(v.content, chr(10)) FROM ledger_claimrevision v
            WHERE v.tenant_id = c.tenant_id AND v.claim_id = c.id)) AS text) said
        WHERE c.tenant_id = %(tenant)s AND c.id <> ALL (%(claims)s::uuid[]) AND (
            EXISTS (SELECT FROM unnest(%(texts)s::text[]) AS t (part) WHERE position(t.part IN said.text) > 0)
            OR ((c.subject_key_id IN (SELECT subject_key_id FROM near)
                    OR c.source_event_id = ANY (%(sources)s::uuid[]))
                AND EXISTS (SELECT FROM unnest(%(words)s::text[]) AS t (part) WHERE position(t.part IN said.text) > 0)))
        """,
        {
            "tenant": tenant_id,
            "claims": list(claims),
            "sources": list(sources),
            "texts": [spelling for text in quotes.texts for spelling in spellings(storable(text))],
            "words": [spelling for word in quotes.words for spelling in spellings(storable(word))],
        },
    )


def _said(tenant_id: int, claims: Sequence[UUID]) -> list[str]:
    found = rows_of(
        "SELECT display, content FROM ledger_claimrow WHERE tenant_id = %s AND id = ANY (%s::uuid[]) ORDER BY id",
        [tenant_id, list(claims)],
    )
    return [original(text) for row in found for text in row]


def _ids(sql: str, values: Sequence[object] | dict[str, object]) -> list[UUID]:
    return [row[0] for row in rows_of(sql, values)]
