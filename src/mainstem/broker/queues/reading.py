"""Filling the windows of queues from their logs: what was published by others, or does not fit into memory."""

from __future__ import annotations

import functools
import logging
from asyncio import Future
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from mainstem.broker.heavy_work import HeavyWork
from mainstem.model.errors import InvalidBatch, MainstemError, OffsetOutOfRange, UnknownLog
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Aborted, Engine, ReadHint, ReadResult
from mainstem.wire.errors import DecompressedTooLarge
from mainstem.wire.messages.compressed_batches import decode_compressed
from mainstem.wire.messages.header_block import ttl_of
from mainstem.wire.messages.message import Message
from mainstem.wire.messages.stored_messages import decode_messages
from mainstem.wire.record_batch import BatchHeader, batches_in, read_header
from mainstem.wire.record_batch.survey import APART, AT_ONCE

if TYPE_CHECKING:
    from mainstem.broker.queues.delivery.dispatcher import Dispatcher
    from mainstem.broker.queues.delivery.sieve import Sieve
    from mainstem.broker.queues.limits import QueueLimits
    from mainstem.broker.queues.publishing.outbox import Outbox
    from mainstem.broker.queues.queue import QueueLane
    from mainstem.broker.queues.settling.settling import Settling

log = logging.getLogger(__name__)

Decoded: TypeAlias = tuple[list[Message], int]
"""Messages, and the offset behind what was decoded; -1: nothing was."""

READ_BYTES_MAX = 1 << 20
RESTING_MESSAGES_MAX = 1_024
"""Messages at rest of one lane that are kept in memory when they are read; others are read again when they may be given out."""
READ_MESSAGES = 1_024
"""Of larger ones this number, if that is not too much: a read costs the same for one message as for a thousand."""


class WindowReader:
    """Reads for all queues."""

    def __init__(
        self,
        engine: Engine,
        dispatcher: Dispatcher,
        outbox: Outbox,
        settling: Settling,
        heavy_work: HeavyWork,
        limits: QueueLimits,
    ) -> None:
        self._engine = engine
        self._dispatcher = dispatcher
        self._outbox = outbox
        self._settling = settling
        self._missing: dict[QueueLane, list[int]] = {}
        """Messages that have rested and are not in memory, by lane; lowest offset first."""
        self._read_bytes = limits.read_bytes
        self.window_bytes_max = READ_BYTES_MAX
        """What one lane may have in memory, now: all have their share."""
        self._heavy_work = heavy_work

    def read(self, lane: QueueLane) -> None:
        """Read on from the lane's tail, if nobody does."""
        if not lane.is_reading and not lane.is_gone:
            lane.is_reading = True
            lane.tail = lane.cursor.first_open(lane.tail)
            if lane.tail >= lane.end:
                lane.is_reading = False
                lane.queue.wake()  # There was nothing to read after all: tell those who wait.
                return
            size = min(max(self._read_bytes, lane.bytes_average * READ_MESSAGES), READ_BYTES_MAX, self.window_bytes_max)
            answer = self._engine.read(lane.log, lane.tail, size, ReadHint.CATCH_UP)
            answer.on_done(functools.partial(self._read, lane, lane.tail))

    def _read(self, lane: QueueLane, offset: int, answer: Answer[ReadResult]) -> None:
        lane.is_reading = False
        if lane.is_gone:
            return
        if lane.tail == offset:  # else it was moved meanwhile, and is to be read anew
            error = answer.error
            if error is None:
                result = answer.result()
                lane.extend(result.stable)
                found = messages_or_work(result, lane, self._heavy_work)
                if isinstance(found, Future):
                    lane.is_reading = True
                    found.add_done_callback(functools.partial(self._opened, lane, offset))
                    return
                self._fill(lane, found)
            elif isinstance(error, OffsetOutOfRange) and lane.tail < error.start:
                self.lose(lane, error.start)
            elif isinstance(error, UnknownLog):
                return
            elif isinstance(error, MainstemError):
                log.error("queue %s cannot be read at %d: %s", lane.queue.name, offset, error)
                lane.queue.end_getters()  # what they wait for does not come
                return
            else:
                raise error
        self._dispatcher.arrived(lane.queue)

    def lose(self, lane: QueueLane, start: int) -> None:
        """Retention was faster than the queue: a borrowed one's topic decides what stays."""
        lane.cursor.work_in()
        first = lane.tail
        gone = start - first - lane.cursor.settled.count(first, start) - lane.cursor.acquired.count(first, start)
        gone -= sum(first <= offset < start for offset in lane.unsettled)
        for offset in [offset for offset in lane.cursor.rests if first <= offset < start]:
            gone -= not _forget_rest(lane, offset)
        lane.queue.lost += gone
        lane.count -= gone
        lane.cursor.raise_floor(start)
        lane.tail = start
        lane.end = max(lane.end, start)
        self._outbox.dirty(lane)

    def _opened(self, lane: QueueLane, offset: int, work: Future[Decoded]) -> None:
        """A thread has opened large batches."""
        lane.is_reading = False
        if lane.is_gone or work.cancelled():
            return
        if lane.tail == offset:
            self._fill(lane, work.result())
        self._dispatcher.arrived(lane.queue)

    def _fill(self, lane: QueueLane, decoded: Decoded) -> None:
        found, tail = decoded
        self._take_in(lane, found, max(lane.tail, tail))

    def _take_in(self, lane: QueueLane, found: Sequence[Message], tail: int) -> None:
        first = lane.tail
        cursor, unsettled, queue = lane.cursor, lane.unsettled, lane.queue
        cursor.work_in()
        held = cursor.acquired
        is_broken = (
            cursor.settled.has_any(first, tail)
            or held.has_any(first, tail)
            or (bool(unsettled) and max(unsettled) >= first)
        )
        wanted = [message for message in found if first <= message.offset < tail]
        passed = tail - first - len(wanted)
        if passed:
            self._skip(lane, {message.offset for message in wanted}, first, tail)
        if is_broken:
            wanted = [
                message
                for message in wanted
                if not (message.offset in unsettled or message.offset in cursor.settled or message.offset in held)
            ]
        if queue.sieve is not None:
            wanted = self._sift(lane, queue.sieve, wanted)
        if cursor.rests:
            wanted = self._set_to_rest(lane, wanted)
        size = self._prepare(lane, wanted)
        lane.note_heads(wanted)
        lane.ready.extend(wanted)
        lane.ready_bytes += size
        if wanted:
            lane.bytes_average = size // len(wanted)
        lane.tail = tail
        lane.catch_up()

    def _prepare(self, lane: QueueLane, found: Sequence[Message]) -> int:
        """Say when messages that were read expire, and how often they were tried; answers their size."""
        size = 0
        queue, given, counts = lane.queue, lane.given, lane.cursor.counts
        headers, ttl_ms = b"", -1
        for message in found:
            size += len(message.value)
            if message.headers is not headers:  # often all of them share one block
                headers = message.headers
                ttl_ms = ttl_of(headers)
            if queue.has_ttl or ttl_ms >= 0:
                message.expires_ms = queue.expiry(message.timestamp_ms, ttl_ms)
            if counts and message.offset in counts:
                message.deliveries, message.failures = counts[message.offset]
            elif message.offset < given:
                message.deliveries = 1
        return size

    def _sift(self, lane: QueueLane, sieve: Sieve, found: list[Message]) -> list[Message]:
        """Settle what is not for this subscription, and note until when the rest is to rest."""
        if sieve.selects is not None:
            refused = [message.offset for message in found if not sieve.selects(message)]
            if refused:
                lane.cursor.settle(refused)
                lane.count -= len(refused)
                self._outbox.dirty(lane)
                others = set(refused)
                found = [message for message in found if message.offset not in others]
        if sieve.due_ms is not None:
            self._settling.rest_until(lane, [(message.offset, sieve.due_ms(message)) for message in found])
        return found

    def _set_to_rest(self, lane: QueueLane, found: list[Message]) -> list[Message]:
        """Of what was read, what does not rest. Of what does, some is kept in memory; the rest is read again in its time."""
        awake = []
        for message in found:
            if message.offset not in lane.cursor.rests:
                awake.append(message)
            elif len(lane.resting) < RESTING_MESSAGES_MAX and message.offset not in lane.resting:
                self._prepare(lane, [message])
                lane.resting[message.offset] = message
        return awake

    def fetch(self, lane: QueueLane, offsets: Iterable[int]) -> None:
        """Read single messages that have rested, and are below the tail and not in memory."""
        is_busy = lane in self._missing
        missing = self._missing.setdefault(lane, [])
        missing += offsets
        missing.sort()
        if not is_busy:
            self._fetch_next(lane)

    def _fetch_next(self, lane: QueueLane) -> None:
        missing = self._missing[lane]
        if not missing or lane.is_gone:
            del self._missing[lane]
            return
        answer = self._engine.read(lane.log, missing[0], self._read_bytes, ReadHint.CATCH_UP)
        answer.on_done(functools.partial(self._fetched, lane, missing[0]))

    def _fetched(self, lane: QueueLane, offset: int, answer: Answer[ReadResult]) -> None:
        if answer.error is not None:
            if not isinstance(answer.error, MainstemError):
                raise answer.error
            log.warning("queue %s cannot be read at %d: %s", lane.queue.name, offset, answer.error)
            self._found_again(lane, offset, ([], offset + 1))
            return
        found = messages_or_work(answer.result(), lane, self._heavy_work)
        if isinstance(found, Future):
            found.add_done_callback(lambda work: self._found_again(lane, offset, work.result()))
        else:
            self._found_again(lane, offset, found)

    def _found_again(self, lane: QueueLane, offset: int, decoded: Decoded) -> None:
        found, after = decoded
        missing, after = self._missing[lane], max(after, offset + 1)
        wanted, self._missing[lane] = [o for o in missing if o < after], [o for o in missing if o >= after]
        cursor = lane.cursor
        free = {o for o in wanted if not (cursor.is_settled(o) or o in lane.unsettled or o in cursor.rests)}
        messages = [message for message in found if message.offset in free]
        if messages and not lane.is_gone:
            self._prepare(lane, messages)
            lane.take_back(messages)
            self._dispatcher.arrived(lane.queue)
        self._fetch_next(lane)

    def _skip(self, lane: QueueLane, present: set[int], first: int, tail: int) -> None:
        """Offsets without a message: markers, what was aborted, what key compaction took, what cannot be read."""
        cursor = lane.cursor
        void = [
            offset
            for offset in range(first, tail)
            if offset not in present
            and not cursor.is_settled(offset)
            and offset not in lane.unsettled
            and offset not in cursor.acquired
            and (offset not in cursor.rests or _forget_rest(lane, offset))
        ]
        if void:
            cursor.settle(void)
            lane.count -= len(void)
            self._outbox.dirty(lane)


def _forget_rest(lane: QueueLane, offset: int) -> bool:
    """What rests has gone from the log: not, where it is in memory; else it will never be read."""
    return offset not in lane.resting and lane.cursor.end_rest(offset)


def messages_or_work(result: ReadResult, lane: QueueLane, heavy_work: HeavyWork) -> Decoded | Future[Decoded]:
    """The messages in what was read; where they take long, the work of a thread that finds them."""
    try:
        return messages_in(result, lane, AT_ONCE.bytes_max)
    except DecompressedTooLarge:
        return heavy_work.run(functools.partial(messages_in, result, lane, APART.bytes_max))


def messages_in(result: ReadResult, lane: QueueLane, content_bytes_max: int) -> Decoded:
    """The messages in what was read, and the offset behind all that was decoded.

    The content of compressed batches together may be as large as is given. Raises DecompressedTooLarge where it is larger and
    a thread may do more; a thread stops before the batch that is too much, and passes one over that is too large by itself.
    """
    found: list[Message] = []
    after = -1
    room = content_bytes_max
    for buffer in result.batches:
        view = memoryview(buffer)
        for position, size in batches_in(buffer):
            header = read_header(buffer, position)
            if header.base_offset >= result.stable:
                return found, after
            if not _is_void(header, result.aborted):
                try:
                    if header.compression:
                        messages, content_bytes = decode_compressed(view[position : position + size], lane, room)
                        room -= content_bytes
                        found += messages
                    else:
                        found += decode_messages(view[position : position + size], lane)
                except InvalidBatch as error:
                    if isinstance(error, DecompressedTooLarge):
                        if content_bytes_max < APART.bytes_max:
                            raise
                        if room < content_bytes_max:
                            return found, after
                    name = lane.queue.name
                    log.warning("queue %s: a batch at %d is set aside: %s", name, header.base_offset, error)
            after = header.next_offset
    if result.next_offset < result.stable and not result.batches:
        after = result.next_offset  # a gap that key compaction left
    return found, after


def _is_void(header: BatchHeader, aborted: Sequence[Aborted]) -> bool:
    if header.is_control or not header.record_count:
        return True
    if not header.is_transactional:
        return False
    return any(one.producer == header.producer_id and one.first <= header.base_offset <= one.last for one in aborted)
