"""Long work in short slices: the event loop is everybody's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mainstem.broker.clock import Clock

SLICE_S = 0.001
"""How long work may hold the loop before others get their turn."""


class Pace:
    """Counts the time of one piece of work."""

    def __init__(self, clock: Clock, give_way: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0)) -> None:
        self._monotonic = clock.monotonic
        self._give_way = give_way
        self._until = self._monotonic() + SLICE_S

    async def step(self) -> None:
        """Between two items: go on, or let others have their turn first."""
        if self._monotonic() >= self._until:
            await self._give_way()
            self._until = self._monotonic() + SLICE_S
