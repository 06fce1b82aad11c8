"""Takes payloads of events away for good, and makes what was derived from them anew.

The only way by which a fact of the log changes: its identity, its envelope and its digest stay, so that whoever has the
event can still show that it is this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from django.db import connection

from ..domain.event_types import canonical, is_about_memory
from ..domain.withheld import without_payload


@dataclass(frozen=True, slots=True)
class Bodies:
    """``taken`` of the bodies looked at had something to take away; the last one looked at is at ``through``."""

    looked_at: int
    taken: int
    through: int


def allow_withholding() -> None:
    """Facts may lose their texts, until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('openwop.retention', 'withhold', true)")


def withhold_payloads(tenant_id: int, run: int, *, after: int, most: int) -> Bodies:
    """One slice of a run's log, within the caller's transaction. Of memory events all stays that the ledger reads."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sequence, type, body FROM runs_event WHERE tenant_id = %s AND run_id = %s AND sequence > %s"
            " ORDER BY sequence LIMIT %s",
            [tenant_id, run, after, most],
        )
        rows: list[tuple[int, str, str]] = cursor.fetchall()
        if not rows:
            return Bodies(0, 0, after)
        through = rows[-1][0]
        cursor.execute(
            "SELECT c.sequence, e.type, c.body, c.digest FROM runs_eventcopy c JOIN runs_event e"
            " ON e.tenant_id = c.tenant_id AND e.run_id = c.run_id AND e.sequence = c.sequence"
            " WHERE c.tenant_id = %s AND c.run_id = %s AND c.sequence > %s AND c.sequence <= %s",
            [tenant_id, run, after, through],
        )
        copies: list[tuple[int, str, str, bytes]] = cursor.fetchall()
    changed = [(run, sequence, kept) for sequence, type_, body in rows if (kept := _without(type_, body)) != body]
    copied = [
        (run, sequence, bytes(digest), kept)
        for sequence, type_, body, digest in copies
        if (kept := _without(type_, body)) != body
    ]
    _store(tenant_id, changed, copied)
    return Bodies(len(rows), len(changed), through)


def _without(type_: str, body: str) -> str:
    return without_payload(body, keeps_tags=is_about_memory(canonical(type_)))


def rewrite_bodies(
    tenant_id: int, places: Iterable[tuple[int, int]], rewritten: Callable[[str], str]
) -> list[tuple[int, int]]:
    """Takes texts out of single events, named by run and sequence, and their copies. Returns those that had any."""
    wanted = sorted(set(places))
    if not wanted:
        return []
    named = [[run for run, _ in wanted], [sequence for _, sequence in wanted]]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT e.run_id, e.sequence, e.body FROM unnest(%s::bigint[], %s::bigint[]) AS n (run_id, sequence)"
            " JOIN runs_event e ON e.tenant_id = %s AND e.run_id = n.run_id AND e.sequence = n.sequence",
            [*named, tenant_id],
        )
        events: list[tuple[int, int, str]] = cursor.fetchall()
        cursor.execute(
            "SELECT e.run_id, e.sequence, e.digest, e.body"
            " FROM unnest(%s::bigint[], %s::bigint[]) AS n (run_id, sequence)"
            " JOIN runs_eventcopy e ON e.tenant_id = %s AND e.run_id = n.run_id AND e.sequence = n.sequence",
            [*named, tenant_id],
        )
        copies: list[tuple[int, int, bytes, str]] = cursor.fetchall()
    changed = [(run, sequence, kept) for run, sequence, body in events if (kept := rewritten(body)) != body]
    copied = [
        (run, sequence, bytes(digest), kept)
        for run, sequence, digest, body in copies
        if (kept := rewritten(body)) != body
    ]
    _store(tenant_id, changed, copied)
    return sorted({*((run, sequence) for run, sequence, _ in changed), *((one[0], one[1]) for one in copied)})


def _store(
    tenant_id: int, events: Sequence[tuple[int, int, str]], copies: Sequence[tuple[int, int, bytes, str]]
) -> None:
    allow_withholding()
    with connection.cursor() as cursor:
        if events:
            cursor.execute(
                "UPDATE runs_event e SET body = n.body"
                " FROM unnest(%s::bigint[], %s::bigint[], %s::text[]) AS n (run_id, sequence, body)"
                " WHERE e.tenant_id = %s AND e.run_id = n.run_id AND e.sequence = n.sequence",
                [*(list(column) for column in zip(*events, strict=True)), tenant_id],
            )
        if copies:
            cursor.execute(
                "UPDATE runs_eventcopy e SET body = n.body"
                " FROM unnest(%s::bigint[], %s::bigint[], %s::bytea[], %s::text[])"
                " AS n (run_id, sequence, digest, body)"
                " WHERE e.tenant_id = %s AND e.run_id = n.run_id AND e.sequence = n.sequence AND e.digest = n.digest",
                [*(list(column) for column in zip(*copies, strict=True)), tenant_id],
            )


def derive_anew(tenant_id: int, runs: Iterable[int]) -> None:
    """Takes away what is kept of these runs' payloads beside the log, and has all readers of the log read it again."""
    named = sorted(set(runs))
    if not named:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE runs_run SET revision = revision + 1, watch_state = '' WHERE tenant_id = %s AND id = ANY (%s)",
            [tenant_id, named],
        )
        for table in ("runs_statesnapshot", "runs_eventchunk"):
            cursor.execute(
                f"DELETE FROM {table} WHERE tenant_id = %s AND run_id = ANY (%s)",  # noqa: S608 - constants
                [tenant_id, named],
            )


def events_with(tenant_id: int, texts: Sequence[str], *, runs: Sequence[int] | None = None) -> list[tuple[int, int]]:
    """Run and sequence of the events whose body, or a copy of it, has one of the texts in it."""
    if not texts or runs == []:
        return []
    within = "" if runs is None else "AND e.run_id = ANY (%(runs)s)"
    with connection.cursor() as cursor:
        cursor.execute(
            " UNION ".join(
                f"SELECT e.run_id, e.sequence FROM {table} e WHERE e.tenant_id = %(tenant)s {within}"  # noqa: S608
                " AND EXISTS (SELECT FROM unnest(%(texts)s::text[]) AS t (part) WHERE position(t.part IN e.body) > 0)"
                for table in ("runs_event", "runs_eventcopy")
            ),
            {"tenant": tenant_id, "runs": list(runs or ()), "texts": list(texts)},
        )
        return sorted(cursor.fetchall())
