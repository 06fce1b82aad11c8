"""Answers that stay whole JSON under a size cap, so that whoever reads them can tell a cut from a failure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

SMALLEST_CAP = 256
TRUNCATED = "truncated"
_ELLIPSIS = "…"


def size_of(value: Any) -> int:
    """Bytes of its JSON in UTF-8, without needless space."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))


def capped(answer: Mapping[str, Any], max_bytes: int) -> dict[str, Any]:
    """`answer` when it fits, else as much of it as fits, and `truncated: true`.

    The error comes first, then what is short, then lists up to their first elements and texts up to an ellipsis.
    `max_bytes` is at least SMALLEST_CAP.
    """
    if max_bytes < SMALLEST_CAP:
        raise ValueError(f"a cap of {max_bytes} bytes is under the smallest one ({SMALLEST_CAP})")
    if size_of(answer) <= max_bytes:
        return dict(answer)
    kept: dict[str, Any] = {TRUNCATED: True}
    for name in sorted((name for name in answer if name != TRUNCATED), key=lambda name: _rank(name, answer[name])):
        _keep(kept, name, answer[name], max_bytes)
    return {name: kept[name] for name in (*(name for name in answer if name in kept), TRUNCATED)}


def _rank(name: str, member: Any) -> tuple[bool, bool]:
    return name != "error", isinstance(member, str | list | Mapping) and size_of(member) > SMALLEST_CAP // 4


def _keep(kept: dict[str, Any], name: str, member: Any, max_bytes: int) -> None:
    def fits(part: Any) -> bool:
        return size_of({**kept, name: part}) <= max_bytes

    part = _part(member, fits)
    if part is not None and fits(part):
        kept[name] = part


def _part(member: Any, fits: Callable[[Any], bool]) -> Any:
    """As much of a member as fits; None when nothing of it does."""
    if fits(member):
        return member
    if isinstance(member, list):
        return member[: _most(len(member), lambda count: fits(member[:count]))]
    if isinstance(member, str):
        return member[: _most(len(member), lambda count: fits(member[:count] + _ELLIPSIS))] + _ELLIPSIS
    if isinstance(member, Mapping):
        whole: dict[str, Any] = {}
        for name, inner in member.items():
            part = _part(inner, lambda part, name=name: fits({**whole, name: part}))  # type: ignore[misc]
            if part is not None and fits({**whole, name: part}):
                whole[name] = part
        return whole
    return None


def _most(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest count up to `limit` that fits, where every smaller one does too; 0 when none does."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
