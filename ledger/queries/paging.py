"""Pages of an ordered set by key: no page costs more than the first, and rows that arrive shift none."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

PAGE = 50

Row = tuple[Any, ...]


class BrokenCursor(ValueError):
    """A cursor that none of these reads has given out."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a set is ordered by: columns with the types of their values, and how a cursor says them.

    The newest come first; with ``ascending`` the oldest do, and "newer" is what stands before them.
    """

    columns: tuple[tuple[str, str], ...]
    write: Callable[[Row], list[Any]]
    read: Callable[[list[Any]], Row]
    ascending: bool = False


@dataclass(frozen=True, slots=True)
class Keyset:
    """Which part of an ordered set is read: the newest, or what lies on one side of a place in it."""

    by: Order
    limit: int
    edge: Row | None = None
    upwards: bool = False
    cursor: str | None = None

    @classmethod
    def reading(cls, by: Order, limit: int, *, before: str | None, after: str | None) -> Keyset:
        """``after`` is asked for newer ones. Raises BrokenCursor."""
        cursor = after if after is not None else before
        edge = None if cursor is None else _place(cursor, by)
        return cls(by, limit, edge=edge, upwards=after is not None, cursor=cursor)

    @property
    def _goes_up(self) -> bool:
        return self.upwards != self.by.ascending

    @property
    def order(self) -> str:
        way = "ASC" if self._goes_up else "DESC"
        return "ORDER BY " + ", ".join(f"{column} {way}" for column, _ in self.by.columns)

    @property
    def condition(self) -> str:
        """To go behind other conditions; takes ``values``."""
        if self.edge is None:
            return ""
        columns = ", ".join(column for column, _ in self.by.columns)
        edge = ", ".join(f"%(edge{place})s::{kind}" for place, (_, kind) in enumerate(self.by.columns))
        return f"AND ({columns}) {'>' if self._goes_up else '<'} ({edge})"

    @property
    def values(self) -> dict[str, Any]:
        """``most`` is one row more than a page holds: it says whether there is another page."""
        edge = {f"edge{place}": value for place, value in enumerate(self.edge or ())}
        return {**edge, "most": self.limit + 1}

    def meets_the_newest(self, found: Sequence[Row]) -> bool:
        """Going up has come to the top: the first page shows it, and as much as fits below."""
        return self.upwards and len(found) <= self.limit

    def cut(self, found: Sequence[Row]) -> tuple[list[Row], str | None, str | None]:
        """(rows newest first, cursor to newer ones, cursor to older ones)."""
        more, shown = len(found) > self.limit, list(found[: self.limit])
        if self.upwards:
            shown.reverse()
        if not shown:
            return shown, self.cursor, None
        has_newer = more if self.upwards else self.edge is not None
        has_older = self.upwards or more
        return (
            shown,
            cursor_of(self.by.write(shown[0])) if has_newer else None,
            cursor_of(self.by.write(shown[-1])) if has_older else None,
        )


def page_of(
    find: Callable[[Keyset], list[Row]], by: Order, limit: int, *, before: str | None, after: str | None
) -> tuple[Keyset, list[Row]]:
    """The rows on the asked side of a cursor, and one more if there is one. Raises BrokenCursor."""
    page = Keyset.reading(by, limit, before=before, after=after)
    found = find(page)
    if page.meets_the_newest(found):
        page = Keyset(by, limit)
        found = find(page)
    return page, found


def cursor_of(place: list[Any]) -> str:
    text = json.dumps(place, separators=(",", ":")).encode()
    return urlsafe_b64encode(text).decode().rstrip("=")


def _place(cursor: str, by: Order) -> Row:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        place = json.loads(urlsafe_b64decode(padded))
        if not isinstance(place, list) or len(place) != len(by.columns):
            raise ValueError("not a place in this order")
        return by.read(place)
    except (ValueError, TypeError, AttributeError, RecursionError) as exc:
        raise BrokenCursor(f"{cursor[:40]!r} is not a cursor of this list") from exc


def moment(value: Any) -> datetime:
    found = datetime.fromisoformat(value)
    if found.tzinfo is None:
        raise ValueError("a time without its zone")
    return found


def uuid(value: Any) -> UUID:
    return UUID(value)


def whole_number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError("not a number of a row")
    return value


def rows_of(sql: str, values: Mapping[str, Any] | Sequence[Any]) -> list[Row]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        found: list[Row] = cursor.fetchall()
        return found
