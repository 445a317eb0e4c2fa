"""Streams: queues whose consumers read side by side, each all of it, from where it wants; nothing is settled."""

from __future__ import annotations

import functools
import logging
from asyncio import Future
from collections import deque
from typing import TYPE_CHECKING, Literal, NamedTuple

from mainstem.broker.heavy_work import HeavyWork
from mainstem.broker.queues.delivery.consumers import Consumer
from mainstem.broker.queues.reading import Decoded, messages_or_work
from mainstem.model.errors import MainstemError, OffsetOutOfRange, UnknownLog
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Edge, Engine, Found, ReadHint, ReadResult, TimeAfter
from mainstem.wire.messages.message import Message

if TYPE_CHECKING:
    from mainstem.broker.queues.queue import Queue

log = logging.getLogger(__name__)

READ_BYTES = 256 << 10
"""What a reader reads in one call. The engine returns a first batch whole."""
BUFFERED_LOW = 256
"""A reader with fewer messages in memory reads on."""


class StreamStart(NamedTuple):
    """Where a consumer begins. `value` is an offset, or a time in ms; `last` is the batch written last."""

    kind: Literal["first", "last", "next", "offset", "time"] = "next"
    value: int = 0


class StreamReaders:
    """For all streams."""

    def __init__(self, engine: Engine, heavy_work: HeavyWork) -> None:
        self._engine = engine
        self._heavy_work = heavy_work

    def begin(self, queue: Queue, consumer: Consumer) -> StreamReader:
        """Begin to read a stream where the consumer wants."""
        return StreamReader(self._engine, queue, consumer, self._heavy_work)

    def count(self, queue: Queue) -> int:
        """The number of records that a stream holds; where the engine answers late, as it was at the last `know`."""
        lane = queue.lanes[0]
        start = self._engine.offset_at(lane.log, Edge.START)
        if start.done and start.error is None:
            lane.start = start.result().offset
        return lane.end - lane.start

    async def know(self, queue: Queue) -> None:
        """Until the count of a stream is right."""
        if queue.lanes:
            lane = queue.lanes[0]
            try:
                lane.start = (await self._engine.offset_at(lane.log, Edge.START)).offset
            except UnknownLog:
                return  # deleted meanwhile


class StreamReader:
    """One consumer's way through a stream."""

    __slots__ = (
        "_buffer", "_engine", "_heavy_work", "_is_last", "_is_reading", "_position", "_queue", "consumer", "is_gone",
    )  # fmt: skip

    def __init__(self, engine: Engine, queue: Queue, consumer: Consumer, heavy_work: HeavyWork) -> None:
        self._engine = engine
        self._heavy_work = heavy_work
        self._queue = queue
        self.consumer = consumer
        self._buffer: deque[Message] = deque()
        self._position = -1
        """What is read next; -1: not known yet."""
        self._is_reading = True
        self._is_last = False
        """Whether all of the first batch is meant."""
        self.is_gone = False
        self._find(getattr(consumer, "start", None) or StreamStart())

    def _find(self, start: StreamStart) -> None:
        place = Edge.START if start.kind in ("first", "offset") else Edge.STABLE
        self._engine.offset_at(self._queue.lanes[0].log, place).on_done(functools.partial(self._found, start))

    def _find_time(self, start: StreamStart, end: int) -> None:
        """The first record of that time; where there is none yet, what comes after `end`."""

        def found(answer: Answer[Found]) -> None:
            if answer.error is None and answer.result().offset < 0:
                answer = Answer.of(Found(end))
            self._found(StreamStart(), answer)

        self._engine.offset_at(self._queue.lanes[0].log, TimeAfter(start.value)).on_done(found)

    def _found(self, start: StreamStart, answer: Answer[Found]) -> None:
        self._is_reading = False
        error = answer.error
        if error is not None:
            log.warning("stream %s: no place to begin at: %s", self._queue.name, error)
            return
        offset = answer.result().offset
        if start.kind == "time":
            self._is_reading = True
            self._find_time(start, offset)
            return
        if start.kind == "offset":
            offset = max(offset, start.value)
        elif start.kind == "last":
            # Reading the last record finds its batch.
            offset = max(offset - 1, 0)
            self._is_last = True
        self._position = offset
        self._queue.wake()

    def feed(self) -> None:
        """Give out what there is room for, and read on."""
        if self.is_gone or self._position < 0:
            return
        consumer, buffer = self.consumer, self._buffer
        while buffer and consumer.room > 0 and not self.is_gone:
            count = min(consumer.room, len(buffer))
            consumer.deliver(self._queue, [buffer.popleft() for _ in range(count)])
        if not self._is_reading and len(buffer) < BUFFERED_LOW and self._position < self._queue.lanes[0].end:
            self._is_reading = True
            answer = self._engine.read(self._queue.lanes[0].log, self._position, READ_BYTES, ReadHint.TAIL)
            answer.on_done(self._read)

    def _read(self, answer: Answer[ReadResult]) -> None:
        self._is_reading = False
        if self.is_gone or self._queue.is_gone:
            return
        error = answer.error
        if isinstance(error, OffsetOutOfRange) and self._position < error.start:
            self._position = error.start
        elif isinstance(error, MainstemError):
            log.warning("stream %s cannot be read at %d: %s", self._queue.name, self._position, error)
            return
        elif error is not None:
            raise error
        else:
            decoded = messages_or_work(answer.result(), self._queue.lanes[0], self._heavy_work)
            if isinstance(decoded, Future):
                self._is_reading = True
                decoded.add_done_callback(self._opened)
                return
            self._take(decoded)
        self._queue.wake()

    def _opened(self, work: Future[Decoded]) -> None:
        """A thread has opened large batches."""
        self._is_reading = False
        if self.is_gone or self._queue.is_gone or work.cancelled():
            return
        self._take(work.result())
        self._queue.wake()

    def _take(self, decoded: Decoded) -> None:
        found, after = decoded
        first = found[0].offset if found and self._is_last else self._position
        self._is_last = False
        self._buffer.extend([message for message in found if message.offset >= first])
        self._position = max(self._position, after)
