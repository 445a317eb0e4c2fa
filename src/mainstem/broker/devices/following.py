"""Records that others write to topics of devices: Kafka's producers, AMQP's publishers, Spark. They reach subscribers, too.

What devices publish here is given to subscribers when its commit is durable, and passed over. All else is read and handed on,
a piece at a time; with it goes how far the log was read, in one commit with what is put into queues. So after a kill nothing
is left out.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from mainstem.broker.records.strands import open_committed
from mainstem.coordination.devices.entries import put_position
from mainstem.model.errors import MainstemError, OffsetOutOfRange
from mainstem.storage.contract import Edge, Engine, LogEnd, Mutation, ReadHint

if TYPE_CHECKING:
    from mainstem.broker.clock import Clock
    from mainstem.broker.queues.publishing.outbox import Outbox
    from mainstem.wire.record_batch import Record

log = logging.getLogger(__name__)

PIECE_BYTES = 256 << 10


class _Followed:
    """One log."""

    __slots__ = ("at", "end", "is_reading", "own", "stored", "topic", "until")

    def __init__(self, topic: str, at: int) -> None:
        self.topic = topic
        self.at = at
        """All below was given to subscribers, or is on its way to them."""
        self.end = at
        self.stored = -1
        self.own: deque[tuple[int, int]] = deque()
        """What devices published here, above `at`."""
        self.until = 0
        """Below this offset, records that devices published before the start are passed over: they were given out."""
        self.is_reading = False


class Following:
    """The logs of topics of one namespace."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        hand_on: Callable[[str, Sequence[Record], bool, list[Mutation]], None],
        is_wanted: Callable[[str], bool],
        spawn: Callable[..., object],
        outbox: Outbox,
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._hand_on = hand_on
        """Given a topic, records, whether those that devices published count as given out, and state to be stored along."""
        self._is_wanted = is_wanted
        """Whether anybody wants records of a topic."""
        self._spawn = spawn
        self._outbox = outbox
        self._logs: dict[int, _Followed] = {}
        self._grown: dict[int, int] = {}
        self._underway = self._ended = 0
        """Commits of devices since the start: those that were made, and those of which it is known what became of them."""
        self._later: deque[tuple[int, int, int]] = deque()
        """How many must have ended before a log may be read on, the log, and where it ends."""
        self._watch = engine.watch(self._moved)

    async def add(self, topic: str, number: int, stored: int | None) -> None:
        """Follow a log: from where it was left, else from its end."""
        if number in self._logs:
            return
        end = (await self._engine.offset_at(number, Edge.STABLE)).offset
        if number in self._logs:
            return
        followed = self._logs[number] = _Followed(topic, end if stored is None else min(stored, end))
        followed.until, followed.end = end, end
        if stored is not None:
            followed.stored = followed.at
        found = self._watch.add(number)
        if found is not None and found.stable > followed.end:
            followed.end = found.stable
        self._look(number)

    def follows(self, number: int) -> bool:
        """Whether a log is followed."""
        return number in self._logs

    def close(self) -> None:
        """Follow nothing any more."""
        self._watch.close()
        self._logs.clear()
        self._later.clear()

    def begun(self) -> None:
        """A commit of what devices publish is made."""
        self._underway += 1

    def ended(self) -> None:
        """It is known what became of it: what others have written meanwhile can be told from it."""
        self._ended += 1
        while self._later and self._later[0][0] <= self._ended:
            _, number, stable = self._later.popleft()
            self._grew(number, stable)

    def published(self, number: int, base: int, count: int) -> None:
        """These offsets are of messages that were given to subscribers here."""
        followed = self._logs.get(number)
        if followed is None:
            return
        if followed.at == base and not followed.is_reading:
            followed.at = base + count
        else:
            followed.own.append((base, base + count))

    def positions(self, *, all_of_them: bool = False) -> list[Mutation]:
        """Where the logs are now, as far as that is not stored."""
        changed: list[Mutation] = []
        for number, followed in self._logs.items():
            if followed.at != followed.stored and (all_of_them or not followed.is_reading):
                followed.stored = followed.at
                changed.append(put_position(number, followed.at))
        return changed

    def _moved(self, ends: Mapping[int, LogEnd]) -> None:
        for number, end in ends.items():
            followed = self._logs.get(number)
            if followed is None:
                continue
            if end.end < 0:
                del self._logs[number]
                continue
            if not self._grown:
                self._clock.call_soon(self._look_all)  # the answers to our own commits come before
            self._grown[number] = end.stable

    def _look_all(self) -> None:
        grown, self._grown = self._grown, {}
        for number, stable in grown.items():
            if self._ended < self._underway:  # it may be ours
                self._later.append((self._underway, number, stable))
            else:
                self._grew(number, stable)

    def _grew(self, number: int, stable: int) -> None:
        if (followed := self._logs.get(number)) is not None:
            followed.end = max(followed.end, stable)
            self._look(number)

    def _look(self, number: int) -> None:
        followed = self._logs.get(number)
        if followed is None or followed.is_reading:
            return
        self._pass_own(followed)
        if followed.at >= followed.end:
            return
        if not self._is_wanted(followed.topic):
            followed.at = followed.end
            followed.own.clear()
            return
        followed.is_reading = True
        self._spawn(self._read(number, followed))

    def _pass_own(self, followed: _Followed) -> None:
        while followed.own and followed.own[0][0] <= followed.at:
            followed.at = max(followed.at, followed.own.popleft()[1])

    async def _read(self, number: int, followed: _Followed) -> None:
        try:
            while followed.at < followed.end and self._logs.get(number) is followed:
                await self._read_piece(number, followed)
                self._pass_own(followed)
        except MainstemError as error:
            log.warning("records of topic %s are not read for subscribers: %s", followed.topic, error)
        finally:
            followed.is_reading = False

    async def _read_piece(self, number: int, followed: _Followed) -> None:
        first = followed.at
        end = min(followed.end, followed.own[0][0]) if followed.own else followed.end
        try:
            result = await self._engine.read(number, first, PIECE_BYTES, ReadHint.TAIL)
        except OffsetOutOfRange as error:
            followed.at = max(error.start, first + 1)
            return
        end = min(end, result.next_offset, result.stable)
        if followed.own:  # known only now
            end = min(end, max(followed.own[0][0], first))
        if end <= first:
            followed.end = first if not followed.own else followed.end
            return
        if self._outbox.is_pressed:
            relieved = asyncio.Event()
            self._outbox.when_relieved(relieved.set)
            await relieved.wait()
        records, unreadable = open_committed(result, first, end)
        if unreadable:
            log.warning("%d records of topic %s cannot be opened", unreadable, followed.topic)
        followed.at = followed.stored = end
        self._hand_on(followed.topic, records, first < followed.until, [put_position(number, end)])
        await asyncio.sleep(0)
