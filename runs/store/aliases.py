"""The two spellings of one run: what one major calls `<id>` is `<tenant>/<id>` in the second (identity, section 5).

Which one comes first is the run's name; the other is kept beside it, and leads to it through every door. An id that
more than one bound one ends with leads to none of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from django.db import connection

from ..domain.storable import original, storable
from .hosts import HostRef

_BOUND = re.compile(r"[^/]+/([^/]+)", re.DOTALL)


def bare_id(run_id: str) -> str | None:
    """The first major's id in one of the second; None for one that is not bound to a tenant."""
    bound = _BOUND.fullmatch(run_id)
    return bound[1] if bound else None


def known_names(host: HostRef, run_ids: Iterable[str]) -> Mapping[str, str]:
    """By what names the runs are known that are spelled otherwise here. To be called within the tenant's scope.

    A bound id whose bare one is known becomes another name of that run, unless the run has such a name already.
    """
    ids = list(run_ids)
    names = _aliases(host, ids)
    bound = {run_id: bare for run_id in ids if run_id not in names and (bare := bare_id(run_id)) is not None}
    if bound:
        names |= _adopted(host, bound)
        # Both in one batch: the bound one says more.
        names |= {bare: run_id for run_id, bare in bound.items() if bare in ids and run_id not in names}
    return names


def run_named(tenant_id: int, host_id: int, run_id: str) -> int | None:
    """The primary key of the run with this name or other name. To be called within the tenant's scope."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT runs_run_named(%s, %s, %s)", [tenant_id, host_id, storable(run_id)])
        row = cursor.fetchone()
    return row[0] if row else None


def _aliases(host: HostRef, run_ids: list[str]) -> dict[str, str]:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT a.alias, r.run_id FROM runs_runalias a
            JOIN runs_run r ON r.tenant_id = a.tenant_id AND r.id = a.run_id
            WHERE a.tenant_id = %(tenant)s AND a.host_id = %(host)s AND a.alias = ANY (%(keys)s::text[])
                AND NOT EXISTS (SELECT FROM runs_run e
                    WHERE e.tenant_id = a.tenant_id AND e.host_id = a.host_id AND e.run_id = a.alias)
            """,
            {"tenant": host.tenant_id, "host": host.id, "keys": [storable(run_id) for run_id in run_ids]},
        )
        return {original(alias): original(run_id) for alias, run_id in cursor.fetchall()}


def _adopted(host: HostRef, bound: Mapping[str, str]) -> dict[str, str]:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO runs_runalias (tenant_id, host_id, alias, run_id)
            SELECT r.tenant_id, r.host_id, min(k.alias), r.id
            FROM unnest(%(bound)s::text[], %(bare)s::text[]) AS k (alias, bare)
            JOIN runs_run r ON r.tenant_id = %(tenant)s AND r.host_id = %(host)s AND r.run_id = k.bare
            WHERE NOT EXISTS (SELECT FROM runs_run e
                    WHERE e.tenant_id = r.tenant_id AND e.host_id = r.host_id AND e.run_id = k.alias)
                AND NOT EXISTS (SELECT FROM runs_runalias a WHERE a.tenant_id = r.tenant_id AND a.run_id = r.id)
            GROUP BY r.tenant_id, r.host_id, r.id HAVING count(*) = 1
            ON CONFLICT DO NOTHING RETURNING alias
            """,
            {
                "tenant": host.tenant_id,
                "host": host.id,
                "bound": [storable(run_id) for run_id in bound],
                "bare": [storable(bare) for bare in bound.values()],
            },
        )
        return {run_id: bound[run_id] for (alias,) in cursor.fetchall() if (run_id := original(alias)) in bound}
