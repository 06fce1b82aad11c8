"""Proves that the ledger is a reading of the log: takes it away, reads the log again, and compares row by row.

Observations are facts: they stay, and bring back the entries that no event names. So are claims and decisions: what
holds is worked out from them again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.utils import timezone

from openwop_ui.live.announce import announce
from openwop_ui.tenancy.scope import tenant_scope

from . import receipt_store
from .claims_rebuild import check_claims
from .store import (
    DERIVED,
    RUNS_AT_ONCE,
    Stretch,
    bring_back_observed,
    hold_observing,
    hold_reading,
    read_on,
    read_stretches,
)

TABLES = tuple(reversed(DERIVED))
SAMPLES = 5


@dataclass(frozen=True, slots=True)
class Difference:
    """Rows of one table that only the ledger before (``lost``) or only the one read again (``gained``) has."""

    table: str
    rows: int
    lost: int
    gained: int
    samples: tuple[str, ...]


class _TakeBack(Exception):
    pass


def rebuild(tenant_id: int, *, check: bool = False, now: datetime | None = None) -> list[Difference]:
    """Reads a tenant's log again, and returns what differs from the ledger before.

    What nobody has read yet is read first, so that it is no difference. With ``check`` nothing is changed. Readers
    of the log leave while it works, and new observations wait; pages keep seeing the ledger before.
    """
    differences: list[Difference] = []
    try:
        with tenant_scope(tenant_id, durable=True):
            hold_reading(tenant_id)
            hold_observing(tenant_id)
            while read_on(tenant_id, now or timezone.now()):
                pass
            receipt_store.read_all(tenant_id)
            _set_aside(tenant_id)
            _read_again(tenant_id)
            receipt_store.read_all(tenant_id)
            bring_back_observed(tenant_id)
            differences = [_difference(tenant_id, table) for table in TABLES]
            if check:
                raise _TakeBack
            announce(tenant_id, {"ledger": None})
    except _TakeBack:
        pass
    claims = check_claims(tenant_id, mend=not check)
    return differences + [Difference(one.table, one.rows, one.lost, one.gained, tuple(one.samples)) for one in claims]


def _set_aside(tenant_id: int) -> None:
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(
                f"CREATE TEMPORARY TABLE before_{table} ON COMMIT DROP AS"  # noqa: S608 - constant names
                f" SELECT * FROM {table} WHERE tenant_id = %s",
                [tenant_id],
            )
        for table in DERIVED:
            cursor.execute(f"DELETE FROM {table} WHERE tenant_id = %s", [tenant_id])  # noqa: S608


def _read_again(tenant_id: int) -> None:
    """Reads as far as the cursors say, and leaves them where they are."""
    waiting = _all_that_was_read(tenant_id)
    while waiting:
        part, waiting = waiting[:RUNS_AT_ONCE], waiting[RUNS_AT_ONCE:]
        waiting = [*read_stretches(tenant_id, part).left, *waiting]


def _all_that_was_read(tenant_id: int) -> list[Stretch]:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT c.run_id, r.host_id, -1, 0, c.read_beyond, c.event_count, c.read_through, c.revision
            FROM ledger_readingcursor c
            JOIN runs_run r ON r.tenant_id = c.tenant_id AND r.id = c.run_id
            WHERE c.tenant_id = %s ORDER BY c.run_id
            """,
            [tenant_id],
        )
        return [Stretch(*row) for row in cursor.fetchall()]


def _difference(tenant_id: int, table: str) -> Difference:
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            WITH before AS (SELECT * FROM before_{table}),
                after AS (SELECT * FROM {table} WHERE tenant_id = %s),
                lost AS (SELECT * FROM before EXCEPT ALL SELECT * FROM after),
                gained AS (SELECT * FROM after EXCEPT ALL SELECT * FROM before)
            SELECT (SELECT count(*) FROM after), (SELECT count(*) FROM lost), (SELECT count(*) FROM gained),
                ARRAY(SELECT 'lost ' || lost::text FROM lost LIMIT %s)
                    || ARRAY(SELECT 'gained ' || gained::text FROM gained LIMIT %s)
            """,  # noqa: S608 - constant names
            [tenant_id, SAMPLES, SAMPLES],
        )
        row = cursor.fetchone()
        assert row is not None
        return Difference(table, row[0], row[1], row[2], tuple(row[3]))
