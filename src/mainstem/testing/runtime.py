"""Threads, timers and turn taking from a seed: any order that real ones could show, and the same one each time."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

from mainstem.storage.runtime.runtime import Done
from mainstem.testing.clock import SimulatedClock

T = TypeVar("T")

Completion = Callable[[], None]


class Stuck(AssertionError):
    """Nothing is left to do, or too much was done, and the condition does not hold."""


class SimulatedTimer:
    """A call that is due later."""

    __slots__ = ("cancelled", "due", "function", "order")

    def __init__(self, due: float, order: int, function: Callable[[], None]) -> None:
        self.due = due
        self.order = order
        self.function = function
        self.cancelled = False

    def cancel(self) -> None:
        """Never call it."""
        self.cancelled = True

    def __lt__(self, other: SimulatedTimer) -> bool:
        return (self.due, self.order) < (other.due, other.order)


class SimulatedRuntime:
    """One event at a time, chosen by seed among all that could be next.

    A job in a lane takes two events: it runs (as if in its thread), and later its completion is delivered. Between the
    two anything else may happen. The commit thread keeps its order, but may run the next job before the completion of the
    last.
    """

    loop = None

    def __init__(
        self, rng: Random, clock: SimulatedClock | None = None, run_merge: Callable[[bytes], bytes] | None = None
    ) -> None:
        self.clock = clock or SimulatedClock()
        self.steps = 0
        self._rng = rng
        self._run_merge = run_merge
        self._soon: deque[Callable[[], None]] = deque()
        self._writes: deque[tuple[Callable[[], Any], Done[Any]]] = deque()
        self._written: deque[Completion] = deque()
        self._reads: list[tuple[Callable[[], Any], Done[Any]]] = []
        self._read: list[Completion] = []
        self._merges: list[tuple[bytes, Done[bytes]]] = []
        self._merged: list[Completion] = []
        self._timers: list[SimulatedTimer] = []
        self._timers_made = 0
        # Each world has disks and threads of its own pace, so that rare orders are common in some of them.
        self._write_pace = rng.choice((1, 1, 2, 6))
        self._merge_pace = rng.choice((1, 1, 3))
        self._tick_ms_max = rng.choice((0.01, 0.1, 2.0))

    # Runtime

    def now_ms(self) -> int:
        """Of the simulated clock."""
        return self.clock.now_ms()

    def monotonic(self) -> float:
        """Of the simulated clock."""
        return self.clock.monotonic()

    def call_soon(self, function: Callable[[], None]) -> None:
        """Run as an event of its own, in order."""
        self._soon.append(function)

    def call_later(self, seconds: float, function: Callable[[], None]) -> SimulatedTimer:
        """Run when the clock has come so far."""
        self._timers_made += 1
        timer = SimulatedTimer(self.clock.monotonic() + max(0.0, seconds), self._timers_made, function)
        heapq.heappush(self._timers, timer)
        return timer

    def write(self, job: Callable[[], T], done: Done[T]) -> None:
        """The commit thread, in order."""
        self._writes.append((job, done))

    def read(self, job: Callable[[], T], done: Done[T]) -> None:
        """The reading threads, in any order."""
        self._reads.append((job, done))

    def read_ahead(self, job: Callable[[], T], done: Done[T]) -> None:
        """Among the others."""
        self._reads.append((job, done))

    def merge(self, job: bytes, done: Done[bytes]) -> None:
        """The merge worker, in any order."""
        assert self._run_merge is not None, "this runtime has no merge worker"
        self._merges.append((job, done))

    def abandon_merge(self) -> None:
        """Here it comes to its end: when that is, the seed decides."""

    # The simulation's side

    @property
    def merges_waiting(self) -> list[bytes]:
        """Jobs of the merge worker that have not run yet."""
        return [job for job, _ in self._merges]

    def outlive(self, jobs: list[bytes]) -> None:
        """Jobs of a merge process that has outlived the broker which started it: they run, and nobody hears of it."""
        self._merges += [(job, lambda value, error: None) for job in jobs]

    @property
    def idle(self) -> bool:
        """Whether only timers are left."""
        return not (
            self._soon or self._writes or self._written or self._reads or self._read or self._merges or self._merged
        )

    def step(self) -> bool:
        """Let one event happen; False when there is none but timers."""
        self.steps += 1
        rng = self._rng
        self.clock.advance(rng.random() * self._tick_ms_max)
        timers = self._timers
        if timers and timers[0].due <= self.clock.monotonic():
            timer = heapq.heappop(timers)
            if not timer.cancelled:
                timer.function()
            return True
        choices: list[Callable[[], None]] = []
        if self._soon:
            choices += (self._run_soon, self._run_soon)
        if self._writes and rng.randrange(self._write_pace) == 0:
            choices.append(self._run_write)
        if self._written and rng.randrange(self._write_pace) == 0:
            choices.append(self._complete_write)
        if self._reads:
            choices.append(self._start_read)
        if self._read:
            choices.append(self._complete_read)
        if self._merges and rng.randrange(self._merge_pace) == 0:
            choices.append(self._start_merge)
        if self._merged and rng.randrange(self._merge_pace) == 0:
            choices.append(self._complete_merge)
        if choices:
            rng.choice(choices)()
            return True
        return not self.idle

    def pass_time(self, milliseconds: float) -> None:
        """Let the clock go on, event by event, with the timers that become due."""
        until = self.clock.monotonic() + milliseconds / 1000
        while self._timers and self._timers[0].due <= until:
            timer = heapq.heappop(self._timers)
            self.clock.advance(max(0.0, (timer.due - self.clock.monotonic()) * 1000))
            if not timer.cancelled:
                timer.function()
        self.clock.advance(max(0.0, (until - self.clock.monotonic()) * 1000))

    def run(self, steps: int) -> None:
        """`count` events, fewer if there are no more."""
        for _ in range(steps):
            if not self.step():
                return

    def run_until(self, condition: Callable[[], bool], steps_max: int = 10_000) -> None:
        """Until the condition holds. When nothing else is left, the clock jumps to the next timer."""
        for _ in range(steps_max):
            if condition():
                return
            if not self.step():
                while self._timers and self._timers[0].cancelled:
                    heapq.heappop(self._timers)
                if not self._timers:
                    if condition():
                        return
                    raise Stuck("nothing is left to do")
                self.pass_time(max(0.0, (self._timers[0].due - self.clock.monotonic()) * 1000))
        if not condition():
            raise Stuck(f"not after {steps_max} steps")

    def _run_soon(self) -> None:
        self._soon.popleft()()

    def _run_write(self) -> None:
        job, done = self._writes.popleft()
        self._written.append(_attempt(job, done))

    def _complete_write(self) -> None:
        self._written.popleft()()

    def _start_read(self) -> None:
        job, done = self._reads.pop(self._rng.randrange(len(self._reads)))
        self._read.append(_attempt(job, done))

    def _complete_read(self) -> None:
        self._read.pop(self._rng.randrange(len(self._read)))()

    def _start_merge(self) -> None:
        job, done = self._merges.pop(self._rng.randrange(len(self._merges)))
        run_merge = self._run_merge
        assert run_merge is not None
        self._merged.append(_attempt(lambda: run_merge(job), done))

    def _complete_merge(self) -> None:
        self._merged.pop(self._rng.randrange(len(self._merged)))()


def _attempt(job: Callable[[], T], done: Done[T]) -> Completion:
    """Run a job in its lane; what goes wrong is delivered with the completion, as a thread would."""
    try:
        value = job()
    except Exception as error:  # noqa: BLE001  # the engine decides what to do about it; Interrupted goes through
        failure = error
        return lambda: done(None, failure)
    return lambda: done(value, None)
