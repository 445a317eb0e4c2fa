"""Whose turn it is: no connection, and no number of them, keeps the event loop from the others.

A connection works while the present turn lasts. When it is over, those that have more to do wait in line, first come, first
served, until the loop has looked at sockets and timers again. Without load there is never a line, and asking costs one look at
the clock.

It also measures what the loop's callbacks cost others: how late a timer is called while connections work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

TURN_SECONDS = 0.008
"""How long connections may work before sockets and timers are looked at."""
PROBE_SECONDS = 0.01
"""How often the delay of the loop is measured while connections work."""
DELAY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


class Worker(Protocol):
    """Somebody who has work for the loop."""

    def take_turn(self) -> None:
        """Go on."""


class Delays:
    """How late the loop was with its timers."""

    def __init__(self) -> None:
        self.counts = [0] * (len(DELAY_BUCKETS_S) + 1)
        """By bucket; the last one for all that is longer."""
        self.sum_s = 0.0
        self.max_s = 0.0

    def note(self, seconds: float) -> None:
        """One more."""
        bucket = 0
        while bucket < len(DELAY_BUCKETS_S) and seconds > DELAY_BUCKETS_S[bucket]:
            bucket += 1
        self.counts[bucket] += 1
        self.sum_s += seconds
        self.max_s = max(self.max_s, seconds)


class Turns:
    """The line of all connections of a server."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.delays = Delays()
        self._now = now
        self._ends = 0.0
        self._line: dict[Worker, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_scheduled = False
        self._probe_due = 0.0

    def may_work(self, worker: Worker) -> bool:
        """Whether it is its turn; if not, `take_turn` is called when it is."""
        now = self._now()
        if not self._line:
            if now < self._ends:
                return True
            if now > self._ends + TURN_SECONDS:  # the loop was free meanwhile
                self._begin(now)
                return True
        self.wait(worker)
        return False

    def is_over(self) -> bool:
        """Whether others have their turn before anybody goes on."""
        return self._now() >= self._ends

    def wait(self, worker: Worker) -> None:
        """Stand in line."""
        self._line[worker] = None
        if not self._is_scheduled:
            self._is_scheduled = True
            self._running_loop().call_soon(self._go_on)

    def leave(self, worker: Worker) -> None:
        """Wait no longer."""
        self._line.pop(worker, None)

    def _go_on(self) -> None:
        self._is_scheduled = False
        self._begin(self._now())
        waiting = len(self._line)
        while self._line and waiting and not self.is_over():
            worker = next(iter(self._line))
            del self._line[worker]
            waiting -= 1
            worker.take_turn()
        if self._line and not self._is_scheduled:
            self._is_scheduled = True
            self._running_loop().call_soon(self._go_on)

    def _begin(self, now: float) -> None:
        self._ends = now + TURN_SECONDS
        if not self._probe_due:
            self._probe_due = now + PROBE_SECONDS
            self._running_loop().call_later(PROBE_SECONDS, self._probe)

    def _probe(self) -> None:
        self.delays.note(max(self._now() - self._probe_due, 0.0))
        self._probe_due = 0.0

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop
