"""A schedule over an engine in memory, with a clock that is moved by hand, and a note of what was delivered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from mainstem.broker.schedules import Letter, Schedules, Target
from mainstem.broker.schedules.delivery import Again
from mainstem.broker.schedules.window import DueWindow
from mainstem.coordination.commit_addition import CommitAddition
from mainstem.model.errors import MainstemError
from mainstem.storage.contract import Commit
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.testing.clock import SimulatedClock


class HandClock(SimulatedClock):
    """Timers ring when the time is moved past them."""

    __slots__ = ("_timers",)

    def __init__(self) -> None:
        super().__init__()
        self._timers: list[HandTimer] = []

    def call_later(self, seconds: float, function: Callable[[], None]) -> HandTimer:
        timer = HandTimer(self.monotonic() + seconds, function)
        self._timers.append(timer)
        return timer

    def call_soon(self, function: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(function)

    async def pass_ms(self, milliseconds: int, schedules: Schedules) -> None:
        """Step from timer to timer, letting all work end in between."""
        end = self.monotonic() + milliseconds / 1000
        while True:
            await quiet(schedules)
            due = [timer for timer in self._timers if not timer.is_cancelled and timer.at <= end]
            if not due:
                break
            first = min(due, key=lambda timer: timer.at)
            self._timers.remove(first)
            self.advance(max(0.0, (first.at - self.monotonic()) * 1000) + 0.01)
            first.function()
        self.advance(max(0.0, (end - self.monotonic()) * 1000))
        schedules.mover.look()
        await quiet(schedules)


class HandTimer:
    def __init__(self, at: float, function: Callable[[], None]) -> None:
        self.at = at
        self.function = function
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


async def quiet(schedules: Schedules) -> None:
    """Until nothing is being moved."""
    for _ in range(3):
        await asyncio.sleep(0)
    while schedules.mover._task is not None:
        await asyncio.wait([schedules.mover._task])


class Noted:
    """Delivers into a list. Refuses when told to."""

    def __init__(self, engine: MemoryEngine, clock: HandClock) -> None:
        self._engine = engine
        self._clock = clock
        self.delivered: list[tuple[int, Letter]] = []
        self.commits = 0
        self.refusal: MainstemError | None = None
        self.poison: bytes | None = None
        self._additions: list[CommitAddition] = []

    async def deliver(self, letters: Sequence[Letter], addition: CommitAddition, again: Again) -> None:
        refusal = self.refusal
        if self.poison is not None and any(letter.value == self.poison for letter in letters):
            from mainstem.model.errors import BatchTooLarge

            refusal = BatchTooLarge("poison")
        if refusal is not None:
            addition.seal()
            addition.resolved(refusal)
            raise refusal
        self.commits += bool(letters)
        await self._commit(addition, letters)

    async def _commit(self, addition: CommitAddition, letters: Sequence[Letter] = ()) -> None:
        share = addition.seal()
        answer = self._engine.commit([Commit(appends=share.appends, state=share.state)])
        # Part of the commit: it happens with it, also when the caller is gone before the answer.
        self.delivered += [(self._clock.now_ms(), letter) for letter in letters]
        (outcome,) = await answer
        if isinstance(outcome, MainstemError):
            addition.resolved(outcome)
            raise outcome
        addition.resolved(outcome.bases)

    # As the outbox of a turn

    def add(self, addition: CommitAddition) -> None:
        self._additions.append(addition)

    def grow(self, size: int) -> None:
        pass

    async def end_turn(self) -> None:
        additions, self._additions = self._additions, []
        for addition in additions:
            await self._commit(addition)

    @property
    def values(self) -> list[bytes | None]:
        return [letter.value for _, letter in self.delivered]


class Bench:
    """All of it together."""

    def __init__(self, engine: MemoryEngine, clock: HandClock | None = None, window: DueWindow | None = None) -> None:
        self.engine = engine
        self.clock = clock or HandClock()
        self.noted = Noted(engine, self.clock)
        self.schedules = Schedules(engine, self.clock, self.noted, self.noted, window=window)  # type: ignore[arg-type]

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    async def put(self, value: bytes, delay_ms: int, headers: bytes = b"\0", topic: str = "topic") -> bytes:
        letter = Letter(Target("default", topic=topic), self.now_ms, headers, value)
        return await self.schedules.schedule_now(letter, self.now_ms + delay_ms)

    async def pass_ms(self, milliseconds: int) -> None:
        await self.clock.pass_ms(milliseconds, self.schedules)

    async def restart(self, window: DueWindow | None = None) -> Bench:
        """The process ends without a word; another one takes over. What was delivered stays delivered."""
        self.schedules.stop()
        after = Bench(self.engine, self.clock, window)
        self.clock._timers.clear()
        after.noted.delivered = self.noted.delivered
        await after.schedules.load()
        return after
