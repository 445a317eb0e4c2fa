"""Sending dead letters back to where they died, at a set rate.

A letter is published to its target and settled where it was, in one commit, which also notes how far the redrive is: so it
goes on after a restart where it was, and none is sent twice. One that has come back too often stays: else a message that
cannot be processed would go in circles for ever.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from mainstem.broker.clock import Clock
from mainstem.broker.dead_letters.browsing import HELD_MAX, letter_filter, take
from mainstem.broker.dead_letters.facts import origin_of, redriven_count
from mainstem.broker.envelopes import priority_of
from mainstem.broker.publication import Put
from mainstem.coordination.dead_letters.redrive import (
    SCOPE,
    RedriveEntry,
    RedriveState,
    RedriveWish,
    decode_number,
    decode_redrive,
    put_redrive,
)
from mainstem.model.errors import EngineClosed, MainstemError
from mainstem.model.header_names import REDRIVEN_HEADER
from mainstem.storage.contract import Engine, Mutation
from mainstem.wire.messages.header_block import decode_headers
from mainstem.wire.messages.message import Message
from mainstem.wire.record_batch import encode_headers

if TYPE_CHECKING:
    from mainstem.broker.queues import Queue, Queues

__all__ = ["Redrive", "RedriveWish", "Redrives"]

log = logging.getLogger(__name__)

REDRIVES_MAX = 100
"""At a time, and remembered afterwards."""


class Redrive:
    """One redrive, under way or ended."""

    def __init__(self, number: int, namespace: str, queue_name: str, wish: RedriveWish) -> None:
        self.number = number
        self.namespace = namespace
        self.queue_name = queue_name
        self.wish = wish
        self.wanted = letter_filter(wish.reason, wish.origin, wish.where)
        self.state: RedriveState = "running"
        self.error = ""
        self.moved = 0
        self.left = 0
        """Passed over: not wanted, without a target, or sent back too often."""
        self.task: asyncio.Task[None] | None = None

    def put(self, state: RedriveState | None = None) -> Mutation:
        """The stored form: in its present state, or in the one given."""
        state = state or self.state
        entry = RedriveEntry(self.namespace, self.queue_name, self.wish, state, self.moved, self.left, self.error)
        return put_redrive(self.number, entry)


class Redrives:
    """Those of a broker."""

    def __init__(self, engine: Engine, clock: Clock, queues: Queues) -> None:
        self._engine = engine
        self._clock = clock
        self._queues = queues
        self._by_number: dict[int, Redrive] = {}
        self._next = 1

    async def load(self) -> None:
        """Take in what is stored, and go on with what was under way, after the caller's turn has ended."""
        stored = (await self._engine.load(SCOPE)).entries
        for key, value in sorted(stored.items()):
            number, entry = decode_number(key), decode_redrive(value)
            redrive = self._by_number[number] = Redrive(number, entry.namespace, entry.queue, entry.wish)
            redrive.state, redrive.error = entry.state, entry.error
            redrive.moved, redrive.left = entry.moved, entry.left
            self._next = number + 1
        for redrive in self._by_number.values():
            if redrive.state == "running":
                self._begin(redrive)

    def stop(self) -> None:
        """Move nothing more in this run; the next one goes on."""
        for redrive in self._by_number.values():
            if redrive.task is not None:
                redrive.task.cancel()

    def all(self) -> list[Redrive]:
        """The newest last."""
        return list(self._by_number.values())

    def get(self, number: int) -> Redrive | None:
        """One of them."""
        return self._by_number.get(number)

    async def start(self, queue: Queue, wish: RedriveWish) -> Redrive | None:
        """Begin; None when there are too many under way. Raises InvalidSelector and kinds of MainstemError."""
        redrive = Redrive(self._next, queue.namespace, queue.name, wish)
        state = [redrive.put()]
        if len(self._by_number) >= REDRIVES_MAX:
            ended = next((number for number, one in self._by_number.items() if one.state != "running"), None)
            if ended is None:
                return None
            del self._by_number[ended]
            state.append(put_redrive(ended, None))
        self._by_number[redrive.number] = redrive
        self._next += 1
        try:
            await self._engine.alter((), state)
        except MainstemError:
            del self._by_number[redrive.number]
            raise
        self._begin(redrive)
        return redrive

    async def cancel(self, redrive: Redrive) -> None:
        """Move no more; what was moved stays moved. Raises kinds of MainstemError."""
        if redrive.state == "running":
            redrive.state = "cancelled"
            if redrive.task is not None:
                redrive.task.cancel()
            await self._engine.alter((), [redrive.put()])

    def _begin(self, redrive: Redrive) -> None:
        redrive.left = 0
        redrive.task = asyncio.get_running_loop().create_task(self._run(redrive))

    async def _run(self, redrive: Redrive) -> None:
        held: list[Message] = []
        try:
            await self._move_all(redrive, held)
            self._give_back(held)
            # Shown when it is durable, and when what was passed over is in its queue again.
            await self._engine.alter((), [redrive.put("done")])
            redrive.state = "done"
        except EngineClosed:
            pass  # It goes on with the next start.
        except MainstemError as error:
            redrive.state, redrive.error = "failed", str(error)
            log.warning("redrive %d of %s: %s", redrive.number, redrive.queue_name, error)
            self._queues.outbox.mutate([redrive.put()])
        finally:
            redrive.task = None
            self._give_back(held)

    def _give_back(self, held: list[Message]) -> None:
        # Cleared: once they are back, they may be given to others.
        messages = held.copy()
        held.clear()
        self._queues.settling.requeue(messages, failed=False)

    async def _move_all(self, redrive: Redrive, held: list[Message]) -> None:
        queue = self._queues.find(redrive.namespace, redrive.queue_name)
        begun, before = self._clock.monotonic(), redrive.moved
        while queue is not None and not queue.is_gone and redrive.moved != redrive.wish.limit:
            ahead_s = (redrive.moved - before) / redrive.wish.rate - (self._clock.monotonic() - begun)
            if ahead_s > 0:
                await asyncio.sleep(ahead_s)
            message = await take(queue)
            if message is None:
                break
            held.append(message)
            if await self._move(redrive, queue, message):
                held.pop()
            elif len(held) >= HELD_MAX:
                redrive.error = f"{HELD_MAX} messages were passed over"
                break

    async def _move(self, redrive: Redrive, queue: Queue, message: Message) -> bool:
        """Whether it was sent back."""
        times = redriven_count(message)
        target = await self._target(redrive, queue, message)
        if not redrive.wanted(message) or target is None or times >= redrive.wish.times_max:
            redrive.left += 1
            return False
        headers, priority = (
            self._readdressed(message, target, times + 1),
            priority_of(message, self._queues.dead_letters.envelopes),
        )
        put = Put([target], headers, message.value, message.key, priority=priority)

        def settle() -> None:
            redrive.moved += 1
            self._queues.settling.settle([message])
            self._queues.outbox.mutate([redrive.put()])

        moved = redrive.moved
        try:
            refused = await self._queues.outbox.commit_transaction([put], settle)
        except MainstemError:
            redrive.moved = moved
            raise
        assert not refused, "there was room a moment ago, and nothing has happened since"
        return True

    async def _target(self, redrive: Redrive, queue: Queue, message: Message) -> Queue | None:
        name, namespace = redrive.wish.to_queue, queue.namespace
        if name is None:
            origin = origin_of(message)
            if origin is None:
                return None
            name, namespace = origin.queue, origin.namespace
        target = self._queues.find(namespace, name)
        if target is None or target is queue or self._queues.outbox.is_full:
            return None
        await self._queues.open(target)
        return None if target.refuses() else target

    def _readdressed(self, message: Message, target: Queue, times: int) -> bytes:
        block = self._queues.dead_letters.envelopes.readdressed(message, "", target.name)
        kept = [header for header in decode_headers(block) if header[0] != REDRIVEN_HEADER]
        return encode_headers([*kept, (REDRIVEN_HEADER, str(times).encode())])
