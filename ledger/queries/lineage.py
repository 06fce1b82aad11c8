"""Where an entry comes from, and where it went: one step either way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runs.domain.storable import original, storable

from ..domain.reading import Address, compacted_from, entry_id
from .paging import Row, rows_of
from .rows import EntryFacts, EntryRef, Lineage, LineageRow

LINEAGE = 100
"""Merges listed each way, and entries listed of each."""

_MERGE = "m.run_id, m.sequence, m.occurred_at, m.kind, h.slug, r.run_id, m.trigger, m.source_count, m.output_count"
_TAGGED = "m.run_id, m.sequence, m.occurred_at, 'compaction', h.slug, r.run_id, '', NULL, NULL"
_OF_RUN = """
    JOIN runs_run r ON r.tenant_id = m.tenant_id AND r.id = m.run_id
    JOIN runs_host h ON h.tenant_id = r.tenant_id AND h.id = r.host_id
"""
_NEWEST = f"ORDER BY m.occurred_at DESC, m.run_id DESC, m.sequence DESC LIMIT {LINEAGE}"

_MERGES_INTO = f"""
SELECT {_MERGE}, ARRAY(
    SELECT ARRAY[o.memory_ref, o.memory_id] FROM ledger_mergesource s
    JOIN ledger_memoryentry o ON o.tenant_id = s.tenant_id AND o.id = s.entry_id
    WHERE s.tenant_id = m.tenant_id AND s.run_id = m.run_id AND s.sequence = m.sequence
    ORDER BY o.memory_id LIMIT {LINEAGE})
FROM ledger_merge m {_OF_RUN}
WHERE m.tenant_id = %s AND m.output_id = %s {_NEWEST}
"""  # noqa: S608 - constants
_TAGGED_INTO = f"""
SELECT {_TAGGED}, m.tags
FROM ledger_memorywrite m {_OF_RUN}
WHERE m.tenant_id = %s AND m.entry_id = %s AND EXISTS (
    SELECT FROM ledger_taggedsource t
    WHERE t.tenant_id = m.tenant_id AND t.run_id = m.run_id AND t.sequence = m.sequence)
{_NEWEST}
"""  # noqa: S608 - constants
_MERGES_OF = f"""
SELECT {_MERGE}, o.memory_ref, o.memory_id
FROM ledger_mergesource s
JOIN ledger_merge m ON m.tenant_id = s.tenant_id AND m.run_id = s.run_id AND m.sequence = s.sequence
{_OF_RUN}
LEFT JOIN ledger_memoryentry o ON o.tenant_id = m.tenant_id AND o.id = m.output_id
WHERE s.tenant_id = %s AND s.entry_id = %s {_NEWEST}
"""  # noqa: S608 - constants
_TAGGED_OF = f"""
SELECT {_TAGGED}, o.memory_ref, o.memory_id
FROM ledger_taggedsource t
JOIN ledger_memorywrite m ON m.tenant_id = t.tenant_id AND m.run_id = t.run_id AND m.sequence = t.sequence
JOIN ledger_memoryentry o ON o.tenant_id = m.tenant_id AND o.id = m.entry_id
{_OF_RUN}
WHERE t.tenant_id = %s AND t.entry_id = %s {_NEWEST}
"""  # noqa: S608 - constants


def lineage(tenant_id: int, entry: EntryFacts) -> Lineage:
    """The merges on either side of an entry, newest first.

    Where no event names the entries, tags may: within the run of a merge they tell of it, elsewhere they are a row of
    their own.
    """
    return Lineage(came_from=_came_from(tenant_id, entry), went_into=_went_into(tenant_id, entry))


def _came_from(tenant_id: int, entry: EntryFacts) -> tuple[LineageRow, ...]:
    merges = rows_of(_MERGES_INTO, [tenant_id, entry.pk])
    tagged = rows_of(_TAGGED_INTO, [tenant_id, entry.pk])
    hints = _tagged_sources(tenant_id, entry, tagged)
    of_run = {run: refs for (run, _), refs in reversed(hints.items())}
    told = []
    for row in merges:
        named = [_ref(entry, *pair) for pair in row[9]]
        hint = of_run.get(row[0], [])
        told.append((row, named or hint, "event" if named else "tag" if hint else "count only"))
    merged_in = {row[0] for row in merges}
    told += [(row, hints[row[0], row[1]], "tag") for row in tagged if row[0] not in merged_in]
    return _newest(told)


def _went_into(tenant_id: int, entry: EntryFacts) -> tuple[LineageRow, ...]:
    merges = rows_of(_MERGES_OF, [tenant_id, entry.pk])
    told = [
        (row, [_ref(entry, row[9], row[10])], "event") if row[10] is not None else (row, [], "count only")
        for row in merges
    ]
    said = {(row[0], row[9], row[10]) for row in merges}
    told += [
        (row, [_ref(entry, row[9], row[10])], "tag")
        for row in rows_of(_TAGGED_OF, [tenant_id, entry.pk])
        if (row[0], row[9], row[10]) not in said
    ]
    return _newest(told)


def _tagged_sources(tenant_id: int, entry: EntryFacts, tagged: Sequence[Row]) -> dict[tuple[int, int], list[EntryRef]]:
    """By run and sequence of the write, newest first."""
    named = {
        (row[0], row[1]): [
            Address(storable(entry.memory_ref), storable(memory_id))
            for memory_id in compacted_from(map(original, row[9]))[:LINEAGE]
        ]
        for row in tagged
    }
    ids = {address: entry_id(entry.host_pk, address) for addresses in named.values() for address in addresses}
    found = rows_of(
        "SELECT id FROM ledger_memoryentry WHERE tenant_id = %s AND id = ANY (%s::uuid[])",
        [tenant_id, list(ids.values())],
    )
    known = {row[0] for row in found}
    return {
        write: [_ref(entry, a.memory_ref, a.memory_id, is_entry=ids[a] in known) for a in addresses]
        for write, addresses in named.items()
    }


def _ref(entry: EntryFacts, memory_ref: str, memory_id: str, *, is_entry: bool = True) -> EntryRef:
    """Both ids in their stored form."""
    return EntryRef(entry.host, original(memory_ref), original(memory_id), known=is_entry)


def _newest(told: Iterable[tuple[Row, list[EntryRef], str]]) -> tuple[LineageRow, ...]:
    ordered = sorted(told, key=lambda one: (one[0][2], one[0][0], one[0][1]), reverse=True)
    return tuple(_lineage_row(*one) for one in ordered[:LINEAGE])


def _lineage_row(row: Row, entries: Sequence[EntryRef], named: str) -> LineageRow:
    _, sequence, at, kind, host, run_id, trigger, count, outputs = row[:9]
    return LineageRow(
        kind=kind,
        host=host,
        run_id=original(run_id),
        sequence=sequence,
        at=at,
        trigger=original(trigger) or None,
        count=count,
        outputs=outputs,
        entries=tuple(entries),
        named=named,
    )
