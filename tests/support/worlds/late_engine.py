"""An engine whose answers come late, by a seed: what local disk answers at once, object storage cannot.

It stays inside the contract. Every answer comes some turns of the loop after the engine below has it: `offset_at` and reads in
any order, commits in theirs. A watch does not know where a log ends when the log is added; it tells that later. A commit that is
refused is refused when its answer is due, and not before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from mainstem.model.errors import MainstemError, Overloaded, UnknownLog
from mainstem.storage.answer import Answer
from mainstem.storage.contract import (
    Commit,
    CommitResult,
    Engine,
    Fence,
    Found,
    Lease,
    LogChange,
    LogEnd,
    Mutation,
    Place,
    ReadHint,
    ReadResult,
    StateSnapshot,
    WatchCallback,
)

T = TypeVar("T")
TURNS_MAX = 4
DELETED = LogEnd(-1, -1)


class _Line:
    """Calls that are due some turns later, none before the one ahead of it."""

    def __init__(self, late: LateEngine) -> None:
        self._late = late
        self._waiting: deque[list[Any]] = deque()

    def put(self, call: Callable[[], None]) -> None:
        place: list[Any] = [call, False]
        self._waiting.append(place)

        def due() -> None:
            place[1] = True
            while self._waiting and self._waiting[0][1]:
                self._waiting.popleft()[0]()

        self._late.after_turns(due)


class LateWatch:
    """Tells where a log ends some turns after it was added, and of its growth some turns after that."""

    def __init__(self, late: LateEngine, inner: Any, callback: WatchCallback) -> None:
        self._callback: WatchCallback | None = callback
        self._logs: set[int] = set()
        self._line = _Line(late)
        self._watch = inner.watch(self._moved)

    def add(self, log: int) -> LogEnd | None:
        """Take a log in; its end is told later."""
        self._logs.add(log)
        try:
            end = self._watch.add(log)
        except UnknownLog:
            end = DELETED
        self._line.put(lambda: self._tell({log: end}))
        return None

    def _moved(self, ends: Mapping[int, LogEnd]) -> None:
        self._line.put(lambda: self._tell(ends))

    def _tell(self, ends: Mapping[int, LogEnd]) -> None:
        known = {log: end for log, end in ends.items() if log in self._logs}
        if known and self._callback is not None:
            self._callback(known)

    def remove(self, log: int) -> None:
        """Let a log go."""
        self._logs.discard(log)
        self._watch.remove(log)

    def close(self) -> None:
        """Let all go."""
        self._callback = None
        self._watch.close()


class LateEngine:
    """Any engine, with late answers. What is not written here is the other's own."""

    def __init__(self, inner: Engine, call_soon: Callable[[Callable[[], None]], object], seed: int = 1) -> None:
        self._inner: Any = inner
        self._call_soon = call_soon
        self._random = Random(seed)
        self._commits = _Line(self)
        self.refused_share = 0.0
        """Of the commits, how many are refused: by chance, when their answer is due."""
        self.refused = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def begin_anew(self, seed: int) -> None:
        """Another seed from now on."""
        self._random.seed(seed)

    def after_turns(self, call: Callable[[], None]) -> None:
        """Call back a seeded number of turns later, at the earliest in the next."""
        self._count_down(self._random.randint(1, TURNS_MAX), call)

    def _count_down(self, turns: int, call: Callable[[], None]) -> None:
        self._call_soon(call if turns <= 1 else lambda: self._count_down(turns - 1, call))

    def _late(self, answer: Answer[T], put: Callable[[Callable[[], None]], None] | None = None) -> Answer[T]:
        later: Answer[T] = Answer()

        def tell() -> None:
            if answer.error is not None:
                later.fail(answer.error)
            else:
                later.resolve(answer.result())

        answer.on_done(lambda _: (put or self.after_turns)(tell))
        return later

    # Commits, in order

    def commit(self, commits: Sequence[Commit], patient: bool = False) -> Answer[list[CommitResult]]:
        """Do each Commit, or refuse all of them when that is due."""
        if self._random.random() < self.refused_share:
            self.refused += 1
            refusal: CommitResult = Overloaded("refused late")
            return self._late(Answer.of([refusal for _ in commits]), self._commits.put)
        return self._late(self._inner.commit(commits, patient), self._commits.put)

    def alter(
        self, changes: Sequence[LogChange], state: Sequence[Mutation] = (), fences: Sequence[Fence] = ()
    ) -> Answer[None]:
        """Create, configure, delete logs."""
        if self._random.random() < self.refused_share:
            self.refused += 1
            refusal: MainstemError = Overloaded("refused late")
            return self._late(Answer.failed(refusal), self._commits.put)
        return self._late(self._inner.alter(changes, state, fences), self._commits.put)

    def trim(self, log: int, before: int) -> Answer[int]:
        """Move the start of a log."""
        return self._late(self._inner.trim(log, before), self._commits.put)

    def load(self, scope: str) -> Answer[StateSnapshot]:
        """The state of a scope."""
        return self._late(self._inner.load(scope))

    def lease(self, role: str, ttl_ms: int, renew: Lease | None = None) -> Answer[Lease | None]:
        """Take or prolong a role."""
        return self._late(self._inner.lease(role, ttl_ms, renew))

    # Questions, in any order

    def read(self, log: int, offset: int, max_bytes: int, hint: ReadHint = ReadHint.TAIL) -> Answer[ReadResult]:
        """Batches."""
        return self._late(self._inner.read(log, offset, max_bytes, hint))

    def offset_at(self, log: int, place: Place) -> Answer[Found]:
        """Find a position."""
        return self._late(self._inner.offset_at(log, place))

    def watch(self, callback: WatchCallback) -> LateWatch:
        """Be told when logs grow."""
        return LateWatch(self, self._inner, callback)
