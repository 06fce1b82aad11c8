"""Work done for many pieces together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from runs.gathering import Gathering


class Away(Exception):
    pass


@dataclass
class Worker:
    """Notes what it is given; pieces in ``poison`` make it fail, and everything does while ``is_away``."""

    poison: frozenset[int] = frozenset()
    is_away: bool = False
    given: list[tuple[str, list[int]]] = field(default_factory=list)

    async def work(self, key: str, pieces: Sequence[int]) -> None:
        self.given.append((key, list(pieces)))
        await asyncio.sleep(0)
        if self.is_away:
            raise Away
        if self.poison & set(pieces):
            raise ValueError("poisoned")

    def gathering(self, *, most: int = 10) -> Gathering[str, int]:
        return Gathering(self.work, every=0.02, most=most, is_shared=lambda problem: isinstance(problem, Away))


async def _add_all(gathering: Gathering[str, int], pieces: Sequence[int]) -> list[BaseException | None]:
    return await asyncio.gather(*(gathering.add("a", piece) for piece in pieces), return_exceptions=True)


def test_what_comes_while_work_is_done_goes_together_in_order() -> None:
    worker = Worker()

    async def add() -> None:
        gathering = worker.gathering()
        first = asyncio.create_task(gathering.add("a", 1))
        while not worker.given:
            await asyncio.sleep(0)
        await _add_all(gathering, [2, 3, 4])
        await first

    asyncio.run(add())
    assert worker.given == [("a", [1]), ("a", [2, 3, 4])]


def test_keys_are_not_mixed() -> None:
    worker = Worker()

    async def add() -> None:
        gathering = worker.gathering()
        await asyncio.gather(*(gathering.add(key, piece) for piece, key in enumerate("abab")))

    asyncio.run(add())
    assert sorted(worker.given) == [("a", [0, 2]), ("b", [1, 3])]


def test_no_more_than_the_most_go_together() -> None:
    worker = Worker()

    async def add() -> None:
        await _add_all(worker.gathering(most=2), [1, 2, 3, 4, 5])

    asyncio.run(add())
    assert [pieces for _, pieces in worker.given] == [[1, 2], [3, 4], [5]]


def test_a_piece_that_fails_holds_up_no_other() -> None:
    worker = Worker(poison=frozenset({2}))

    async def add() -> list[BaseException | None]:
        return await _add_all(worker.gathering(), [1, 2, 3])

    first, second, third = asyncio.run(add())
    assert (first, third) == (None, None)
    assert isinstance(second, ValueError)
    assert [pieces for _, pieces in worker.given] == [[1, 2, 3], [1], [2], [3]]


def test_what_fails_for_all_is_tried_once() -> None:
    worker = Worker(is_away=True)

    async def add() -> list[BaseException | None]:
        return await _add_all(worker.gathering(), [1, 2, 3])

    assert [type(problem) for problem in asyncio.run(add())] == [Away, Away, Away]
    assert worker.given == [("a", [1, 2, 3])]


def test_after_a_failure_it_goes_on() -> None:
    worker = Worker(is_away=True)

    async def add() -> None:
        gathering = worker.gathering()
        with pytest.raises(Away):
            await gathering.add("a", 1)
        worker.is_away = False
        await gathering.add("a", 1)

    asyncio.run(add())
    assert worker.given == [("a", [1]), ("a", [1])]


def test_for_whoever_went_before_its_turn_nothing_is_done() -> None:
    worker = Worker()

    async def add() -> None:
        gathering = worker.gathering()
        gone, stays = (asyncio.create_task(gathering.add("a", piece)) for piece in (1, 2))
        await asyncio.sleep(0)
        gone.cancel()
        await stays

    asyncio.run(add())
    assert worker.given == [("a", [2])]


def test_calls_that_follow_one_another_are_spaced() -> None:
    worker = Worker()

    async def add() -> float:
        gathering, clock = worker.gathering(), asyncio.get_running_loop().time
        began = clock()
        for piece in range(3):
            await gathering.add("a", piece)
        return clock() - began

    assert asyncio.run(add()) >= 0.04
