"""Two JSON values side by side: what was added, removed and changed, by JSON pointer (RFC 6901), digit for digit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Literal

from .exact_json import Path, dumps, pointer

Op = Literal["added", "removed", "changed"]

MOST = 200


@dataclass(frozen=True, slots=True)
class Difference:
    """``before`` and ``after`` are JSON texts; None on the side where there is nothing. ``path`` "" is the whole."""

    op: Op
    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Differences:
    """At most MOST of them; ``is_cut`` says that there are more."""

    shown: tuple[Difference, ...]
    is_cut: bool


def differences(before: object, after: object) -> Differences:
    """Of values as ``exact_json.loads`` reads them."""
    found = tuple(islice(_compared(before, after, ()), MOST + 1))
    return Differences(found[:MOST], len(found) > MOST)


def _compared(before: object, after: object, path: Path) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys((*before, *after)):
            if name not in after:
                yield _removed(before[name], (*path, name))
            elif name not in before:
                yield _added(after[name], (*path, name))
            else:
                yield from _compared(before[name], after[name], (*path, name))
    elif isinstance(before, list) and isinstance(after, list):
        yield from _of_lists(before, after, path)
    elif not _is_same(before, after):
        yield Difference("changed", pointer(path), _text(before), _text(after))


def _of_lists(before: list[object], after: list[object], path: Path) -> Iterator[Difference]:
    """What both begin and end with stays; of the rest one is held against the other, place by place. Lists of one
    length are held against each other from the first place on."""
    head, tail = 0, 0
    if len(before) != len(after):
        head = sum(1 for _ in takewhile(lambda pair: _is_same(*pair), zip(before, after, strict=False)))
        ends = zip(reversed(before[head:]), reversed(after[head:]), strict=False)
        tail = sum(1 for _ in takewhile(lambda pair: _is_same(*pair), ends))
    mine, theirs = before[head : len(before) - tail], after[head : len(after) - tail]
    for place, (one, other) in enumerate(zip(mine, theirs, strict=False)):
        yield from _compared(one, other, (*path, head + place))
    for place in range(len(theirs), len(mine)):
        yield _removed(mine[place], (*path, head + place))
    for place in range(len(mine), len(theirs)):
        yield _added(theirs[place], (*path, head + place))


def _is_same(one: object, other: object) -> bool:
    # By their text: for Python 1 and True are equal.
    return one is other or dumps(one, sort_keys=True) == dumps(other, sort_keys=True)


def _removed(value: object, path: Path) -> Difference:
    return Difference("removed", pointer(path), _text(value), None)


def _added(value: object, path: Path) -> Difference:
    return Difference("added", pointer(path), None, _text(value))


def _text(value: object) -> str:
    return dumps(value).decode()
