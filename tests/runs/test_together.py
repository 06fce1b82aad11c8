"""Work done together for pieces that threads bring at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event, Thread, get_ident
from time import monotonic, sleep

import pytest

from runs.together import Together


class Away(Exception):
    pass


class Work:
    """Doubles its pieces. The first work lasts until ``go_on`` is set; "bad" pieces fail, each time with "away"."""

    def __init__(self) -> None:
        self.done: list[list[int]] = []
        self.threads: list[int] = []
        self.began = Event()
        self.go_on = Event()
        self.bad: dict[int, Exception] = {}

    def __call__(self, key: str, pieces: Sequence[int]) -> list[int]:
        self.done.append(list(pieces))
        self.threads.append(get_ident())
        self.began.set()
        assert self.go_on.wait(10)
        for piece in pieces:
            if piece in self.bad:
                raise self.bad[piece]
        return [piece * 2 for piece in pieces]


def together(work: Callable[[str, Sequence[int]], Sequence[int]], *, most: int = 10) -> Together[str, int, int]:
    return Together(work, most=most, is_shared=lambda problem: isinstance(problem, Away))


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = monotonic() + 10
    while not is_so():
        assert monotonic() < deadline
        sleep(0.005)


def while_one_is_done(work: Work, gathered: Together[str, int, int], others: Sequence[int]) -> list[Future[int]]:
    """The results of 1 and of the others, which come in turn while 1 is done."""
    with ThreadPoolExecutor(1 + len(others)) as threads:
        results = [threads.submit(gathered.add, "a", 1)]
        assert work.began.wait(10)
        for waiting, piece in enumerate(others, 2):
            results.append(threads.submit(gathered.add, "a", piece))
            wait_until(lambda waiting=waiting: len(gathered._queues["a"]) == waiting - 1)  # type: ignore[misc]
        work.go_on.set()
        return results


def test_a_piece_that_comes_alone_is_done_at_once_and_in_its_own_thread() -> None:
    work = Work()
    work.go_on.set()
    gathered = together(work)
    assert [gathered.add("a", 1), gathered.add("a", 2), gathered.add("b", 3)] == [2, 4, 6]
    assert work.done == [[1], [2], [3]]
    assert set(work.threads) == {get_ident()}
    assert not gathered._queues


def test_what_comes_while_work_is_done_goes_along_the_next_time() -> None:
    work = Work()
    gathered = together(work)
    results = while_one_is_done(work, gathered, [2, 3, 4])
    assert [one.result() for one in results] == [2, 4, 6, 8]
    assert work.done == [[1], [2, 3, 4]]
    assert not gathered._queues


def test_no_more_than_so_many_go_together() -> None:
    work = Work()
    results = while_one_is_done(work, together(work, most=2), [2, 3, 4])
    assert [one.result() for one in results] == [2, 4, 6, 8]
    assert work.done == [[1], [2, 3], [4]]


def test_other_keys_do_not_wait() -> None:
    work = Work()
    gathered = together(work)
    threads = [Thread(target=gathered.add, args=(key, 1)) for key in ("a", "b")]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(work.done) == 2)
    work.go_on.set()
    for thread in threads:
        thread.join()


def test_one_piece_that_fails_does_not_hold_up_the_others() -> None:
    work = Work()
    work.bad = {3: ValueError("three")}
    results = while_one_is_done(work, together(work), [2, 3, 4])
    assert [results[place].result() for place in (0, 1, 3)] == [2, 4, 8]
    with pytest.raises(ValueError, match="three"):
        results[2].result()
    assert work.done == [[1], [2, 3, 4], [2], [3], [4]]


def test_what_fails_for_all_is_not_tried_for_each() -> None:
    work = Work()
    work.bad = {3: Away()}
    gathered = together(work)
    results = while_one_is_done(work, gathered, [2, 3, 4])
    assert [type(one.exception()) for one in results] == [type(None), Away, Away, Away]
    assert work.done == [[1], [2, 3, 4]]
    assert not gathered._queues


def test_whoever_waits_is_told_when_the_thread_that_worked_is_ended() -> None:
    work = Work()
    gathered = together(work)
    work.bad = {3: KeyboardInterrupt()}  # type: ignore[dict-item]
    results = while_one_is_done(work, gathered, [2, 3])
    assert [type(one.exception()) for one in results[1:]] == [KeyboardInterrupt, KeyboardInterrupt]
    assert not gathered._queues
