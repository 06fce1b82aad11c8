"""Rows in and out in sets: one statement for any number of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from django.db import connection

Columns = Mapping[str, str]


def insert(
    table: str, columns: Columns, rows: Sequence[tuple[Any, ...]], *, tenant_id: int, then: str = ""
) -> list[tuple[Any, ...]]:
    """Inserts the rows in the order of their first column, and returns what ``then`` says to.

    As one JSON parameter: for a few rows it costs less than a copy, and for many hardly more.
    """
    if not rows:
        return []
    names = ", ".join(columns)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} (tenant_id, {names}) SELECT %s, {names} FROM {recordset(columns)}"  # noqa: S608
            f" ORDER BY n.{next(iter(columns))} {then}",
            [tenant_id, as_json(columns, rows)],
        )
        return cursor.fetchall() if "RETURNING" in then else []


def update(
    table: str, columns: Columns, rows: Sequence[tuple[Any, ...]], *, tenant_id: int, keys: Sequence[str]
) -> None:
    """Sets all columns but ``keys``, which name the row."""
    if not rows:
        return
    told = ", ".join(f"{name} = n.{name}" for name in columns if name not in keys)
    same = " AND ".join(f"t.{name} = n.{name}" for name in keys)
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {table} t SET {told} FROM {recordset(columns)} WHERE t.tenant_id = %s AND {same}",  # noqa: S608
            [as_json(columns, rows), tenant_id],
        )


def upsert_columns(columns: Columns, *, keys: Sequence[str]) -> str:
    told = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in keys)
    return f"ON CONFLICT (tenant_id, {', '.join(keys)}) DO UPDATE SET {told}"


def recordset(columns: Columns) -> str:
    declared = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    return f"json_to_recordset(%s::json) AS n ({declared})"


def as_json(columns: Columns, rows: Sequence[tuple[Any, ...]]) -> str:
    names = tuple(columns)
    return orjson.dumps([dict(zip(names, row, strict=True)) for row in rows]).decode()
