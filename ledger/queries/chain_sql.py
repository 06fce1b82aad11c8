"""The statements of a provenance chain.

Each takes a tenant, the ids of entries and of claims that are traced, and limits for each of them, and names the tenant
on every hop, the recursive ones included.
"""

from __future__ import annotations

# What an entry was compacted or consolidated from, the oldest first.
_MERGED_INTO = """
    SELECT here.id AS successor, s.entry_id AS predecessor, m.kind AS relation, m.occurred_at AS at, e.first_at AS made
    FROM ledger_merge m
    JOIN ledger_mergesource s ON s.tenant_id = m.tenant_id AND s.run_id = m.run_id AND s.sequence = m.sequence
    JOIN ledger_memoryentry e ON e.tenant_id = s.tenant_id AND e.id = s.entry_id
    WHERE m.tenant_id = %(tenant)s AND m.output_id = here.id
    ORDER BY e.first_at, e.id LIMIT %(hop)s
"""

# The claims that a claim took the place of.
_REPLACED_BY = """
    SELECT here.id AS successor, s.claim_id AS predecessor,
        CASE s.rule WHEN 'same_writer' THEN 'revise' ELSE 'supersede' END AS relation,
        greatest(c.received_at, own.received_at, d.decided_at) AS at, c.received_at AS made
    FROM ledger_claimstate s
    JOIN ledger_claimrow c ON c.tenant_id = s.tenant_id AND c.id = s.claim_id
    JOIN ledger_claimrow own ON own.tenant_id = s.tenant_id AND own.id = here.id
    LEFT JOIN ledger_decision d ON d.tenant_id = own.tenant_id AND d.id = own.decision_id
    WHERE s.tenant_id = %(tenant)s AND s.to_claim = here.id AND s.status IN ('superseded', 'archived')
    ORDER BY c.received_at, c.id LIMIT %(hop)s
"""


def _lineage(roots: str, hop: str) -> str:
    """Links between whatever is met, depth by depth, until more has been met than is told.

    A depth is one row of the recursion. Of its memories no more are gone on from than could still be told; they are met
    in the order in which they are told.
    """
    return f"""
SELECT root.id, found.successor, found.predecessor, found.relation, found.at
FROM unnest(%({roots})s::uuid[]) AS root (id)
CROSS JOIN LATERAL (
    WITH RECURSIVE level AS (
        SELECT 0 AS depth, ARRAY[root.id] AS met, ARRAY[root.id] AS seen
        UNION ALL
        SELECT level.depth + 1, next.met, level.seen || next.met
        FROM level CROSS JOIN LATERAL (
            SELECT array_agg(first.predecessor) AS met FROM (
                SELECT hop.predecessor FROM unnest(level.met) AS here (id) CROSS JOIN LATERAL ({hop}) AS hop
                WHERE hop.predecessor <> ALL (level.seen)
                GROUP BY hop.predecessor ORDER BY min(hop.made), hop.predecessor LIMIT %(nodes)s
            ) AS first
        ) AS next
        WHERE next.met IS NOT NULL AND cardinality(level.seen) <= %(nodes)s
    )
    SELECT hop.successor, hop.predecessor, hop.relation, hop.at
    FROM level CROSS JOIN LATERAL unnest(level.met) AS here (id) CROSS JOIN LATERAL ({hop}) AS hop
    WHERE hop.predecessor = ANY ((SELECT seen FROM level ORDER BY depth DESC LIMIT 1)::uuid[])
    ORDER BY level.depth LIMIT %(links)s + 1
) AS found
"""  # noqa: S608 - constants


MERGED = _lineage("entries", _MERGED_INTO)
REPLACED = _lineage("claims", _REPLACED_BY)

# The run that created an entry is the one of its first write, or the one that it was put for as the caller said. A
# claim has none of its own, and takes over none of what it was read from or took the place of.
NODES = """
SELECT e.id, 'entry', coalesce(p.created_at, e.first_at), h.slug, e.memory_ref, e.memory_id, p.writer,
    coalesce(made.host, put_for.host), coalesce(made.run, p.run_id), made.sequence, made.node_id, made.agent_id,
    coalesce(made.run, put_for.run) IS NOT NULL
FROM ledger_memoryentry e
JOIN runs_host h ON h.tenant_id = e.tenant_id AND h.id = e.host_id
LEFT JOIN LATERAL (
    SELECT h.slug AS host, r.run_id AS run, w.sequence, w.node_id, w.agent_id FROM ledger_memorywrite w
    JOIN runs_run r ON r.tenant_id = w.tenant_id AND r.id = w.run_id
    WHERE w.tenant_id = e.tenant_id AND w.entry_id = e.id
    ORDER BY w.occurred_at, w.run_id, w.sequence LIMIT 1
) AS made ON true
LEFT JOIN LATERAL (
    SELECT o.created_at, nullif(o.run_id, '') AS run_id, o.run_host_id, nullif(o.writer, '') AS writer
    FROM ledger_ownput o WHERE o.tenant_id = e.tenant_id AND o.entry_id = e.id
) AS p ON true
LEFT JOIN LATERAL (
    SELECT g.slug AS host, r.run_id AS run FROM runs_host g
    LEFT JOIN runs_run r ON r.tenant_id = g.tenant_id AND r.host_id = g.id AND r.run_id = p.run_id
    WHERE g.tenant_id = e.tenant_id AND g.id = p.run_host_id
) AS put_for ON true
WHERE e.tenant_id = %(tenant)s AND e.id = ANY (%(ids)s)
UNION ALL
SELECT c.id, 'claim', c.received_at, NULL, NULL, NULL, c.writer, NULL, NULL, NULL, NULL, NULL, false
FROM ledger_claimrow c WHERE c.tenant_id = %(tenant)s AND c.id = ANY (%(ids)s)
"""

EARLIER = """
-- A claim's revisions: the last one is the claim as such, which is version 0.
(
    SELECT root.id, v.number, v.of, 'revise', v.at, v.created_at,
        NULL::text, NULL::text, NULL::bigint, NULL::text, NULL::text, false
    FROM unnest(%(claims)s::uuid[]) AS root (id)
    CROSS JOIN LATERAL (
        SELECT r.revision - 1 AS number, r.received_at AS at,
            CASE WHEN r.revision = last_value(r.revision) OVER by_number THEN 0 ELSE r.revision END AS of,
            coalesce(lag(r.received_at) OVER by_number, c.received_at) AS created_at
        FROM ledger_claimrow c
        JOIN ledger_claimrevision r ON r.tenant_id = c.tenant_id AND r.claim_id = c.id
        WHERE c.tenant_id = %(tenant)s AND c.id = root.id
        WINDOW by_number AS (ORDER BY r.revision ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
        ORDER BY r.revision DESC LIMIT %(hop)s
    ) AS v
)
UNION ALL
-- An entry that was written again in a fork: as the runs it was forked from wrote it, the nearest first.
(
    SELECT root.id, v.depth, v.depth - 1, 'fork', v.forked_at, v.occurred_at,
        h.slug, v.run, v.sequence, v.node_id, v.agent_id, true
    FROM unnest(%(entries)s::uuid[]) AS root (id)
    JOIN ledger_memoryentry e ON e.tenant_id = %(tenant)s AND e.id = root.id
    JOIN runs_host h ON h.tenant_id = e.tenant_id AND h.id = e.host_id
    CROSS JOIN LATERAL (
        WITH RECURSIVE source AS (
            SELECT p.id, p.run_id AS run, p.parent_run_id, p.relation, r.started_at AS forked_at, 1 AS depth
            FROM runs_run r
            JOIN runs_run p ON p.tenant_id = r.tenant_id AND p.host_id = r.host_id AND p.run_id = r.parent_run_id
            WHERE r.tenant_id = %(tenant)s AND r.id = e.last_run_id AND r.relation IN ('replay', 'branch', 'fork')
            UNION ALL
            SELECT p.id, p.run_id, p.parent_run_id, p.relation, r.started_at, s.depth + 1
            FROM source s
            JOIN runs_run r ON r.tenant_id = %(tenant)s AND r.id = s.id
            JOIN runs_run p ON p.tenant_id = r.tenant_id AND p.host_id = r.host_id AND p.run_id = s.parent_run_id
            WHERE s.depth < %(hop)s AND s.relation IN ('replay', 'branch', 'fork')
        )
        SELECT s.depth, s.run, s.forked_at, w.*
        FROM source s
        CROSS JOIN LATERAL (
            SELECT w.sequence, w.node_id, w.agent_id, w.occurred_at FROM ledger_memorywrite w
            WHERE w.tenant_id = %(tenant)s AND w.entry_id = root.id AND w.run_id = s.id
            ORDER BY w.sequence DESC LIMIT 1
        ) AS w
    ) AS v
)
"""

# The event of a row, by its key. With a limit it is looked up row by row: it is never read through for them all.
_TOLD_IN = """
            SELECT e.received_at, e.event_id, e.node_id, e.agent_id, h.slug AS host, r.run_id AS run
            FROM runs_event e
            JOIN runs_run r ON r.tenant_id = e.tenant_id AND r.id = e.run_id
            JOIN runs_host h ON h.tenant_id = r.tenant_id AND h.id = r.host_id
            WHERE e.tenant_id = {of}.tenant_id AND e.run_id = {of}.run_id AND e.sequence = {of}.sequence LIMIT 1
        """

EVENTS = f"""
SELECT root.id, e.* FROM unnest(%(entries)s::uuid[]) AS root (id)
CROSS JOIN LATERAL (
    (
        SELECT 'w' || w.run_id || '.' || w.sequence AS key, 'memory.written' AS kind, w.occurred_at AS at,
            v.received_at, v.event_id, NULL::uuid AS source, NULL::text AS writer, NULL::text AS actor,
            NULL::bytea AS digest, v.host, v.run, w.sequence, w.node_id, w.agent_id, true AS is_known
        FROM (
            SELECT * FROM ledger_memorywrite w WHERE w.tenant_id = %(tenant)s AND w.entry_id = root.id
            ORDER BY w.occurred_at DESC, w.run_id DESC, w.sequence DESC LIMIT %(events)s
        ) AS w
        CROSS JOIN LATERAL ({_TOLD_IN.format(of="w")}) AS v
    )
    UNION ALL
    (
        SELECT 'm' || m.run_id || '.' || m.sequence,
            CASE m.kind WHEN 'compaction' THEN 'memory.compacted' ELSE 'agent.memory-consolidated' END,
            m.occurred_at, v.received_at, v.event_id, NULL, NULL, NULL, NULL,
            v.host, v.run, m.sequence, v.node_id, v.agent_id, true
        FROM (
            SELECT * FROM ledger_merge m WHERE m.tenant_id = %(tenant)s AND m.output_id = root.id
            ORDER BY m.occurred_at DESC, m.run_id DESC, m.sequence DESC LIMIT %(events)s
        ) AS m
        CROSS JOIN LATERAL ({_TOLD_IN.format(of="m")}) AS v
    )
    UNION ALL
    (
        -- What was put and deleted here is told below, with who did it.
        SELECT 'o' || o.number,
            CASE o.outcome WHEN 'content' THEN 'observed' WHEN 'gone' THEN 'seen_gone' ELSE o.outcome END,
            o.observed_at, o.recorded_at, NULL, NULL, NULL, NULL, o.digest, NULL, NULL, NULL::bigint, NULL, NULL, false
        FROM ledger_observation o
        WHERE o.tenant_id = %(tenant)s AND o.entry_id = root.id
            AND NOT (o.source = 'here' AND o.outcome IN ('content', 'deleted'))
        ORDER BY o.number DESC LIMIT %(events)s
    )
    UNION ALL
    SELECT 'put', 'put', p.created_at, p.created_at, NULL, NULL, nullif(p.writer, ''), 'key:' || p.key_name, NULL,
        g.slug, nullif(p.run_id, ''), NULL, NULL, NULL, r.id IS NOT NULL
    FROM ledger_ownput p
    LEFT JOIN runs_host g ON g.tenant_id = p.tenant_id AND g.id = p.run_host_id
    LEFT JOIN runs_run r ON r.tenant_id = g.tenant_id AND r.host_id = g.id AND r.run_id = p.run_id
    WHERE p.tenant_id = %(tenant)s AND p.entry_id = root.id
    UNION ALL
    SELECT 'deleted', 'deleted', d.deleted_at, d.deleted_at, NULL, NULL, nullif(d.writer, ''), 'key:' || d.key_name,
        NULL, NULL, NULL, NULL, NULL, NULL, false
    FROM ledger_owndelete d WHERE d.tenant_id = %(tenant)s AND d.entry_id = root.id
) AS e
UNION ALL
SELECT root.id, e.* FROM unnest(%(claims)s::uuid[]) AS root (id)
CROSS JOIN LATERAL (
    (
        -- The source event of the claim, and those of claims that stand for its value beside it.
        SELECT 's' || s.id, 'source_event', s.observed_at, s.received_at, s.event_id, s.id, s.writer,
            s.received_from, s.payload_hash, NULL::text, NULL::text, NULL::bigint, NULL::text, NULL::text, false
        FROM (
            SELECT c.source_event_id FROM ledger_claimrow c
            WHERE c.tenant_id = %(tenant)s AND c.id = root.id
            UNION
            (
                SELECT c.source_event_id FROM ledger_claimstate x
                JOIN ledger_claimrow c ON c.tenant_id = x.tenant_id AND c.id = x.claim_id
                WHERE x.tenant_id = %(tenant)s AND x.to_claim = root.id AND x.status = 'corroborates'
                ORDER BY x.observed_at DESC, x.claim_id DESC LIMIT %(events)s
            )
        ) AS said
        JOIN ledger_sourceevent s ON s.tenant_id = %(tenant)s AND s.id = said.source_event_id
    )
    UNION ALL
    (
        SELECT 'v' || r.revision, 'revised', r.received_at, r.received_at, NULL, NULL, NULL,
            r.revised_by, NULL, NULL, NULL, NULL, NULL, NULL, false
        FROM ledger_claimrevision r
        WHERE r.tenant_id = %(tenant)s AND r.claim_id = root.id
        ORDER BY r.revision DESC LIMIT %(events)s
    )
) AS e
"""  # noqa: S608 - constants

_OF_CONFLICT = """
SELECT c.id, c.state, c.opened_at, c.rule, c.policy, c.follows, d.id AS decision_id, d.verdict, d.actor, d.decided_at,
    EXISTS (SELECT FROM ledger_decision u WHERE u.tenant_id = d.tenant_id AND u.undoes = d.id) AS is_undone
FROM ledger_conflict c
LEFT JOIN ledger_decision d ON d.tenant_id = c.tenant_id AND d.conflict_id = c.id
WHERE c.tenant_id = %(tenant)s AND c.id = named.conflict_id
"""

PROPOSALS = f"""
SELECT root.id, p.* FROM unnest(%(claims)s::uuid[]) AS root (id)
CROSS JOIN LATERAL (
    SELECT of_conflict.* FROM (
        SELECT n.conflict_id FROM ledger_conflictclaim n WHERE n.tenant_id = %(tenant)s AND n.claim_id = root.id
    ) AS named
    CROSS JOIN LATERAL ({_OF_CONFLICT}) AS of_conflict
    ORDER BY of_conflict.opened_at DESC, of_conflict.id DESC, of_conflict.decision_id DESC LIMIT %(proposals)s
) AS p
UNION ALL
SELECT root.id, p.* FROM unnest(%(entries)s::uuid[]) AS root (id)
CROSS JOIN LATERAL (
    SELECT of_conflict.* FROM (
        SELECT DISTINCT n.conflict_id FROM ledger_sourceevent s
        JOIN ledger_claimrow c ON c.tenant_id = s.tenant_id AND c.source_event_id = s.id
        JOIN ledger_conflictclaim n ON n.tenant_id = c.tenant_id AND n.claim_id = c.id
        WHERE s.tenant_id = %(tenant)s AND s.entry_id = root.id
    ) AS named
    CROSS JOIN LATERAL ({_OF_CONFLICT}) AS of_conflict
    ORDER BY of_conflict.opened_at DESC, of_conflict.id DESC, of_conflict.decision_id DESC LIMIT %(proposals)s
) AS p
"""  # noqa: S608 - constants

FACTS = """
SELECT root.id, f.* FROM unnest(%(entries)s::uuid[]) AS root (id)
CROSS JOIN LATERAL (
    SELECT c.id, x.status, c.writer, c.observed_at FROM ledger_sourceevent s
    JOIN ledger_claimrow c ON c.tenant_id = s.tenant_id AND c.source_event_id = s.id
    JOIN ledger_claimstate x ON x.tenant_id = c.tenant_id AND x.claim_id = c.id
    WHERE s.tenant_id = %(tenant)s AND s.entry_id = root.id
    ORDER BY c.observed_at DESC, c.id DESC LIMIT %(facts)s
) AS f
"""
