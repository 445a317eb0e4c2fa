"""Producers whose batches are stored once: their identities, and what a log knows of them."""

from __future__ import annotations

import asyncio

from mainstem.coordination.transactions.producer_ids import ProducerIds
from mainstem.storage.contract import Engine
from mainstem.storage.sequencer import engine_scopes as scopes
from mainstem.storage.sequencer.producers import ActiveProducer, decode_active_producer


class Producers:
    """Gives out producer ids, and tells which producers wrote to a log recently."""

    def __init__(self, engine: Engine, ids: ProducerIds) -> None:
        self._engine = engine
        self._ids = ids
        self._changes_lock = asyncio.Lock()

    async def new_id(self) -> int:
        """One that was never given before."""
        taken = self._ids.take()
        while taken is None:
            async with self._changes_lock:
                taken = self._ids.take()
                if taken is None:
                    claim = self._ids.decide_block()
                    await self._engine.alter((), (claim,))
                    self._ids.replay(claim.key, claim.value)
                    self._ids.open_block()
                    taken = self._ids.take()
        return taken

    async def active_in(self, log: int) -> dict[int, ActiveProducer]:
        """Those that a log still knows, by id: silent ones are forgotten in time, unless a transaction is open."""
        found = await self._engine.load(f"{scopes.ACTIVE_PRODUCERS}{log}")
        return {scopes.decode_number(key): decode_active_producer(value) for key, value in found.entries.items()}
