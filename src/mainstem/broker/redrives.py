"""Sending dead letters back to where they died, at a set rate.

A letter is published to its target and settled where it was, in one commit. One that has come back too often stays: else a
message that cannot be processed would go in circles for ever. A redrive is a wish of the moment: it ends with the broker, and
what it has moved is moved.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from mainstem.broker.clock import Clock
from mainstem.broker.letters import HELD_MAX, REDRIVEN_HEADER, origin_of, redriven_count, take
from mainstem.broker.queues import Message, Put, Queue, Queues, decode_headers, encode_headers
from mainstem.broker.queues.dead_lettering import priority_of
from mainstem.model.errors import EngineClosed, MainstemError

log = logging.getLogger(__name__)

REDRIVES_MAX = 100
"""At a time, and remembered afterwards."""


class RedriveWish(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be sent back, and how."""

    to_queue: str | None = None
    """None: the queue in which each one died."""
    rate: float = 100.0
    """Messages in a second, at most."""
    limit: int | None = None
    """Messages in all."""
    times_max: int = 3
    """One that was sent back so often stays."""


class Redrive:
    """One redrive, under way or ended."""

    def __init__(self, number: int, queue: Queue, wish: RedriveWish, wanted: Callable[[Message], bool]) -> None:
        self.number = number
        self.queue = queue
        self.wish = wish
        self.wanted = wanted
        self.state = "running"
        """running, done, cancelled, failed."""
        self.error = ""
        self.moved = 0
        self.left = 0
        """Passed over: not wanted, without a target, or sent back too often."""
        self.task: asyncio.Task[None] | None = None


class Redrives:
    """Those of a broker."""

    def __init__(self, clock: Clock, queues: Queues) -> None:
        self._clock = clock
        self._queues = queues
        self._by_number: dict[int, Redrive] = {}
        self._next = 1

    def all(self) -> list[Redrive]:
        """The newest last."""
        return list(self._by_number.values())

    def get(self, number: int) -> Redrive | None:
        """One of them."""
        return self._by_number.get(number)

    def start(
        self, queue: Queue, wish: RedriveWish, wanted: Callable[[Message], bool] = lambda message: True
    ) -> Redrive | None:
        """Begin; None when there are too many under way."""
        ended = [number for number, redrive in self._by_number.items() if redrive.state != "running"]
        if len(self._by_number) >= REDRIVES_MAX:
            if not ended:
                return None
            del self._by_number[ended[0]]
        redrive = self._by_number[self._next] = Redrive(self._next, queue, wish, wanted)
        self._next += 1
        redrive.task = asyncio.get_running_loop().create_task(self._run(redrive))
        return redrive

    def cancel(self, redrive: Redrive) -> None:
        """Move no more; what was moved stays moved."""
        if redrive.state == "running" and redrive.task is not None:
            redrive.state = "cancelled"
            redrive.task.cancel()

    async def _run(self, redrive: Redrive) -> None:
        held: list[Message] = []
        begun = self._clock.monotonic()
        try:
            while not redrive.queue.is_gone and redrive.moved != redrive.wish.limit:
                ahead_s = redrive.moved / redrive.wish.rate - (self._clock.monotonic() - begun)
                if ahead_s > 0:
                    await asyncio.sleep(ahead_s)
                message = await take(redrive.queue)
                if message is None:
                    break
                held.append(message)
                if await self._move(redrive, message):
                    held.pop()
                elif len(held) >= HELD_MAX:
                    redrive.error = f"{HELD_MAX} messages were passed over"
                    break
            redrive.state = "done"
        except MainstemError as error:
            redrive.state, redrive.error = "failed", str(error)
            if not isinstance(error, EngineClosed):
                log.warning("redrive %d of %s: %s", redrive.number, redrive.queue.name, error)
        finally:
            self._queues.requeue(held, failed=False)

    async def _move(self, redrive: Redrive, message: Message) -> bool:
        """Whether it was sent back."""
        times = redriven_count(message)
        target = self._target(redrive, message)
        if not redrive.wanted(message) or target is None or times >= redrive.wish.times_max:
            redrive.left += 1
            return False
        headers, priority = self._readdressed(message, target, times + 1), priority_of(message, self._queues.envelopes)
        put = Put([target], headers, message.value, message.key, priority=priority)
        refused = await self._queues.outbox.commit_transaction([put], settle=lambda: self._queues.settle([message]))
        assert not refused, "there was room a moment ago, and nothing has happened since"
        redrive.moved += 1
        return True

    def _target(self, redrive: Redrive, message: Message) -> Queue | None:
        name, namespace = redrive.wish.to_queue, redrive.queue.namespace
        if name is None:
            origin = origin_of(message)
            if origin is None:
                return None
            name, namespace = origin.queue, origin.namespace
        target = self._queues.find(namespace, name)
        if target is None or target is redrive.queue or self._queues.outbox.is_full:
            return None
        target.open()
        refuses = target.rules.overflow in ("reject-publish", "reject-publish-dlx")
        return None if target.is_limited and refuses and target.is_over(target.incoming, 1) else target

    def _readdressed(self, message: Message, target: Queue, times: int) -> bytes:
        block = self._queues.envelopes.re_routed(message, "", target.name)
        kept = [header for header in decode_headers(block) if header[0] != REDRIVEN_HEADER]
        return encode_headers([*kept, (REDRIVEN_HEADER, str(times).encode())])
