"""Where the parts of a provenance chain stand in its drawing: a row for each memory, indented by its depth, and a line
for each link. Lengths are in CSS pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ledger.domain.chain import Chain, Link, Version

ROW = 36
INDENT = 20
MARGIN = 14
DEEPEST = 6
"""Deeper rows are not indented further, so that a long chain keeps its words on the screen."""
_CORNER = 8


@dataclass(frozen=True, slots=True)
class Dot:
    version: Version
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Line:
    """`path` is an SVG path from the successor down to the predecessor, or back up where links lead in a circle."""

    link: Link
    path: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """The first dot is what is traced; the others follow in the order of the chain's nodes."""

    width: int
    height: int
    dots: tuple[Dot, ...]
    lines: tuple[Line, ...]


def draw(chain: Chain) -> Drawing:
    depths = [(Version(chain.id, 0), 0), *((one.node.version, one.depth) for one in chain.lineage.nodes.items)]
    dots = [_dot(version, depth, row) for row, (version, depth) in enumerate(depths)]
    return Drawing(
        width=max(dot.x for dot in dots) + MARGIN,
        height=len(dots) * ROW,
        dots=tuple(dots),
        lines=tuple(_lines(chain.lineage.edges.items, dots)),
    )


def _dot(version: Version, depth: int, row: int) -> Dot:
    return Dot(version, MARGIN + INDENT * min(depth, DEEPEST), row * ROW + ROW // 2)


def _lines(links: Sequence[Link], dots: Sequence[Dot]) -> list[Line]:
    at = {dot.version: dot for dot in dots}
    return [Line(link, _path(at[link.successor], at[link.predecessor.version])) for link in links]


def _path(start: Dot, end: Dot) -> str:
    if start.x == end.x:
        return f"M{start.x} {start.y}V{end.y}"
    down, right = (1 if end.y > start.y else -1), (1 if end.x > start.x else -1)
    turn = end.y - down * _CORNER
    return f"M{start.x} {start.y}V{turn}Q{start.x} {end.y} {start.x + right * _CORNER} {end.y}H{end.x}"
