"""Work that costs about the same for many pieces as for one, brought by threads: what comes while it is done goes along
the next time. `gathering` is the same for tasks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Piece = TypeVar("Piece")
Result = TypeVar("Result")


@dataclass(slots=True, eq=False)
class _Waiting(Generic[Piece, Result]):
    """A piece; its thread goes on when ``turn`` is set: the work is done, or the next work is this thread's to do."""

    piece: Piece
    turn: Event = field(default_factory=Event)
    results: list[Result] = field(default_factory=list)
    problem: BaseException | None = None

    @property
    def is_done(self) -> bool:
        return bool(self.results) or self.problem is not None

    def result(self) -> Result:
        if self.problem is not None:
            raise self.problem
        return self.results[0]


class Together(Generic[Key, Piece, Result]):
    """Does ``work`` for the pieces of one key together, at most ``most`` of them, in the thread that brought the first.

    A piece that comes alone waits for nothing. When the work for several fails with an error that ``is_shared`` does
    not claim, it is done for each of them alone, so that one piece can not hold up the others.
    """

    def __init__(
        self,
        work: Callable[[Key, Sequence[Piece]], Sequence[Result]],
        *,
        most: int,
        is_shared: Callable[[Exception], bool],
    ) -> None:
        self._work = work
        self._most = most
        self._is_shared = is_shared
        self._lock = Lock()
        self._queues: dict[Key, list[_Waiting[Piece, Result]]] = {}
        """A key is here as long as a thread is at work on it."""

    def add(self, key: Key, piece: Piece) -> Result:
        """What came of the piece, once it is done. Raises what the work raised."""
        own: _Waiting[Piece, Result] = _Waiting(piece)
        with self._lock:
            queue = self._queues.get(key)
            if queue is not None:
                queue.append(own)
            else:
                self._queues[key] = [own]
        if queue is not None:
            own.turn.wait()
        if not own.is_done:
            self._do_next(key, own)
        return own.result()

    def _do_next(self, key: Key, own: _Waiting[Piece, Result]) -> None:
        with self._lock:
            queue = self._queues[key]
            taken, queue[:] = queue[: self._most], queue[self._most :]
        try:
            self._do(key, taken)
        except BaseException as problem:
            for one in taken:
                one.problem = one.problem or (None if one.results else problem)
            raise
        finally:
            with self._lock:
                if queue:
                    queue[0].turn.set()
                else:
                    del self._queues[key]
            for one in taken:
                if one is not own:
                    one.turn.set()

    def _do(self, key: Key, pieces: Sequence[_Waiting[Piece, Result]]) -> None:
        try:
            results = self._work(key, [one.piece for one in pieces])
        except Exception as problem:
            if len(pieces) > 1 and not self._is_shared(problem):
                for one in pieces:
                    self._do(key, [one])
                return
            for one in pieces:
                one.problem = problem
            return
        for one, result in zip(pieces, results, strict=True):
            one.results.append(result)
