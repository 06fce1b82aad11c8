"""Writes that forks only tell again: facts of their sources, which count once (RFC 0057, section D)."""

from __future__ import annotations

from .paging import rows_of

COUNTED = 20_000
"""So many of the newest writes of forks are looked at for the tenant's totals; an entry's own are all counted."""

_FORK = """f.parent_run_id <> '' AND f.relation IN ('replay', 'branch', 'fork')"""
_TOLD_BY_SOURCE = """EXISTS (
    SELECT FROM runs_run s
    JOIN ledger_memorywrite o ON o.tenant_id = s.tenant_id AND o.run_id = s.id AND o.entry_id = w.entry_id
    WHERE s.tenant_id = f.tenant_id AND s.host_id = f.host_id AND s.run_id = f.parent_run_id)
    AND (f.relation <> 'branch' OR f.parent_sequence IS NULL OR w.sequence <= f.parent_sequence)
"""

IS_REPEAT = f"""EXISTS (
    SELECT FROM runs_run f
    WHERE f.tenant_id = w.tenant_id AND f.id = w.run_id AND {_FORK} AND {_TOLD_BY_SOURCE})
"""  # noqa: S608 - constants
"""Whether the write ``w`` names an entry that the source of its run, which is a fork, wrote too. What a branch writes
behind its fork point is its own, even under an id that its source has."""

OF_ENTRY = f"""
    SELECT count(*) AS repeats, count(*) FILTER (WHERE w.node_id IS NULL) AS unattributed
    FROM ledger_memorywrite w
    WHERE e.write_count > 1 AND w.tenant_id = e.tenant_id AND w.entry_id = e.id AND {IS_REPEAT}
"""  # noqa: S608 - constants
"""To be joined laterally to an entry ``e``."""


def repeated_writes(tenant_id: int) -> tuple[int, int]:
    """How many of a tenant's writes are repeats, and how many of these name their node."""
    ((repeats, attributed),) = rows_of(
        f"""
        SELECT count(*), count(*) FILTER (WHERE w.node_id IS NOT NULL)
        FROM (SELECT f.tenant_id, f.host_id, f.relation, f.parent_run_id, f.parent_sequence, w.entry_id, w.sequence,
                w.node_id
            FROM runs_run f JOIN ledger_memorywrite w ON w.tenant_id = f.tenant_id AND w.run_id = f.id
            WHERE f.tenant_id = %(tenant)s AND {_FORK} ORDER BY f.id DESC LIMIT %(most)s) AS f
        CROSS JOIN LATERAL (SELECT f.entry_id, f.sequence, f.node_id) AS w
        WHERE {_TOLD_BY_SOURCE}
        """,  # noqa: S608 - constants
        {"tenant": tenant_id, "most": COUNTED},
    )
    return int(repeats), int(attributed)
