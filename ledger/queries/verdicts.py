"""The memory of two runs held against each other: what the fork owed to its source and what became of it."""

from __future__ import annotations

from collections.abc import Mapping

from runs.domain.exact_json import dumps
from runs.domain.storable import original
from runs.domain.summary import payload_of
from runs.queries import RunFacts
from runs.queries.comparison import Kinship, first_start

from ..domain.replay_verdict import FACT_TIMES, FACTS, MemoryFact, MemoryVerdict, Steps, judge
from .paging import rows_of

MOST_FACTS = 50_000
"""So many of a run's facts about memory are judged."""


def memory_verdict(tenant_id: int, a: RunFacts, b: RunFacts, kin: Kinship) -> MemoryVerdict:
    """Of the fork against its source, whichever of the two is which."""
    source, fork = (b, a) if kin.is_turned else (a, b)
    first = first_start(tenant_id, source.pk)
    behind = kin.from_sequence if kin.from_sequence else -1
    start = first_start(tenant_id, fork.pk, after=behind) if kin.mode == "branch" else None
    return judge(
        facts_of(tenant_id, source.pk),
        facts_of(tenant_id, fork.pk),
        mode=kin.mode,  # type: ignore[arg-type]  # kinship gives no other
        from_sequence=kin.from_sequence,
        is_complete=all(map(_is_complete, (source, fork))),
        steps=Steps(first[1] if first else None, (start,) if start else ()),
    )


def _is_complete(run: RunFacts) -> bool:
    return run.terminal and run.through is not None and run.through == run.last_sequence


def facts_of(tenant_id: int, run: int) -> list[MemoryFact]:
    """The facts that a run's log has about memory, in the order of sequence."""
    found = rows_of(
        """
        SELECT e.sequence, e.type, e.node_id, coalesce(c.occurred_at, e.occurred_at), coalesce(c.body, e.body)
        FROM runs_event e
        LEFT JOIN runs_eventcopy c ON c.tenant_id = e.tenant_id AND c.run_id = e.run_id
            AND c.sequence = e.sequence AND c.kind = 'completion'
        WHERE e.tenant_id = %s AND e.run_id = %s AND e.type = ANY (%s) ORDER BY e.sequence LIMIT %s
        """,
        [tenant_id, run, list(FACTS), MOST_FACTS],
    )
    return [
        _fact(sequence, type_, node and original(node), at, payload_of(body))
        for sequence, type_, node, at, body in found
    ]


def _fact(sequence: int, type_: str, node: str | None, at: object, payload: object) -> MemoryFact:
    told = payload if isinstance(payload, Mapping) else {}
    return MemoryFact(
        sequence=sequence,
        type=type_,
        node=node,
        memory_ref=_text(told.get("memoryRef")),
        memory_id=_text(told.get("commitmentId" if type_ == "commitment.fired" else "memoryId")),
        at=at,  # type: ignore[arg-type]  # a column of times
        times=tuple((name, dumps(told[name]).decode()) for name in FACT_TIMES if name in told),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
