from datetime import UTC, datetime
from uuid import UUID

from ledger.domain.chain import Kind, Link, Node, Read, Relation, Version, chain
from ledger.domain.chain_drawing import DEEPEST, INDENT, MARGIN, ROW, draw

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def version(number: int) -> Version:
    return Version(UUID(int=number), 0)


def link(predecessor: int, successor: int) -> Link:
    return Link(Node(version(predecessor), Kind.CLAIM, NOON), version(successor), Relation.SUPERSEDE, NOON)


def test_each_memory_has_a_row_and_is_indented_by_its_depth() -> None:
    drawn = draw(chain(Read(UUID(int=1), Kind.CLAIM, [link(2, 1), link(3, 2)])))

    assert [(dot.version.id.int, dot.x, dot.y) for dot in drawn.dots] == [
        (1, MARGIN, ROW // 2),
        (2, MARGIN + INDENT, ROW + ROW // 2),
        (3, MARGIN + 2 * INDENT, 2 * ROW + ROW // 2),
    ]
    assert (drawn.width, drawn.height) == (2 * MARGIN + 2 * INDENT, 3 * ROW)
    assert [line.path for line in drawn.lines] == ["M14 18V46Q14 54 22 54H34", "M34 54V82Q34 90 42 90H54"]


def test_a_long_chain_is_not_indented_off_the_screen() -> None:
    drawn = draw(chain(Read(UUID(int=1), Kind.CLAIM, [link(n + 1, n) for n in range(1, 21)])))

    assert max(dot.x for dot in drawn.dots) == MARGIN + DEEPEST * INDENT
    assert drawn.lines[-1].path == f"M134 {19 * ROW + 18}V{20 * ROW + 18}"


def test_a_memory_without_predecessors_stands_alone() -> None:
    drawn = draw(chain(Read(UUID(int=1), Kind.ENTRY)))

    assert (len(drawn.dots), drawn.lines, drawn.height) == (1, (), ROW)


def test_a_link_that_leads_back_goes_up_and_to_the_left() -> None:
    links = [link(2, 1), link(3, 2), link(1, 3)]
    drawn = draw(chain(Read(UUID(int=1), Kind.CLAIM, links)))

    assert [line.link for line in drawn.lines] == links
    assert drawn.lines[-1].path == "M54 90V26Q54 18 46 18H14"
