"""Identities for producers whose batches are stored once."""

from __future__ import annotations

import asyncio

from mainstem.coordination.producer_ids import ProducerIds
from mainstem.storage.contract import Engine


class Producers:
    """Gives out producer ids."""

    def __init__(self, engine: Engine, ids: ProducerIds) -> None:
        self._engine = engine
        self._ids = ids
        self._lane = asyncio.Lock()

    async def new_id(self) -> int:
        """One that was never given before."""
        taken = self._ids.take()
        while taken is None:
            async with self._lane:
                taken = self._ids.take()
                if taken is None:
                    claim = self._ids.decide_block()
                    await self._engine.alter((), (claim,))
                    self._ids.replay(claim.key, claim.value)
                    self._ids.open_block()
                    taken = self._ids.take()
        return taken
