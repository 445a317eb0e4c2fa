"""Messages of a queue, looked at where they are: dead letters above all.

Looking takes nothing out. Who changes or moves a message takes it first, as a consumer would, so that nobody else has it; what
happens to it then is one commit.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from mainstem.broker.dead_letters.facts import origin_of
from mainstem.broker.publication import Put
from mainstem.coordination.errors import QueueBusy
from mainstem.coordination.subscriptions.selector import compile_expression
from mainstem.model.errors import OffsetOutOfRange
from mainstem.storage.contract import Engine, ReadHint, ReadResult
from mainstem.wire.errors import DecompressedTooLarge
from mainstem.wire.messages.compressed_batches import decode_compressed
from mainstem.wire.messages.header_block import decode_headers
from mainstem.wire.messages.message import Message
from mainstem.wire.messages.stored_messages import decode_messages
from mainstem.wire.record_batch import CONTROL, TRANSACTIONAL, batches_in, read_header
from mainstem.wire.record_batch.survey import APART

if TYPE_CHECKING:
    from mainstem.broker.queues import Queue, Queues
    from mainstem.broker.queues.queue import QueueLane

T = TypeVar("T")

SCAN_BYTES = 256 << 10
SCAN_MESSAGES_MAX = 20_000
"""Looked at for one page."""
HELD_MAX = 10_000
"""Messages taken and given back while one is looked for."""


class FoundMessage(NamedTuple):
    """A message of a queue."""

    message: Message
    is_given_out: bool
    """Whether a consumer has it."""


class Where(NamedTuple):
    """A place in a queue."""

    lane: int = 0
    offset: int = -1


class FoundPage(NamedTuple):
    """Some messages, and where to go on."""

    found: list[FoundMessage]
    after: Where | None


class Letters:
    """Of any queue."""

    def __init__(self, engine: Engine, queues: Queues) -> None:
        self._engine = engine
        self._queues = queues

    async def browse(
        self, queue: Queue, after: Where, limit: int, wanted: Callable[[Message], bool] = lambda message: True
    ) -> FoundPage:
        """Messages that are not settled, in the order of their lanes and offsets, behind a place."""
        await self._queues.open(queue)
        found: list[FoundMessage] = []
        looked_at = 0
        for lane in queue.lanes[after.lane :]:
            position = max(lane.cursor.floor, after.offset + 1 if lane.number == after.lane else 0)
            while position < lane.end:
                try:
                    result = await self._engine.read(lane.log, position, SCAN_BYTES, ReadHint.CATCH_UP)
                except OffsetOutOfRange as error:
                    if position >= error.start:
                        break
                    position = error.start  # retention was faster than the queue
                    continue
                messages, next_offset = await self._decode(result, lane)
                for message in messages:
                    if message.offset < position or lane.cursor.is_settled(message.offset):
                        continue
                    looked_at += 1
                    if wanted(message):
                        is_out = message.offset in lane.unsettled or message.offset in lane.cursor.acquired
                        found.append(FoundMessage(message, is_out))
                        if len(found) == limit:
                            return FoundPage(found, Where(lane.number, message.offset))
                position = max(position + 1, next_offset)
                if looked_at >= SCAN_MESSAGES_MAX:
                    return FoundPage(found, Where(lane.number, position - 1))
        return FoundPage(found, None)

    async def _decode(self, result: ReadResult, lane: QueueLane) -> tuple[list[Message], int]:
        """What was read, and where to go on. A compressed batch may be far larger than it looks: a thread opens it."""
        decode = functools.partial(_messages, result, lane)
        is_compressed = any(
            read_header(buffer, at).compression for buffer in result.batches for at, _ in batches_in(buffer)
        )
        return await self._queues.heavy_work.run(decode) if is_compressed else decode()

    async def with_message(self, queue: Queue, where: Where, change: Callable[[Message], Awaitable[T]]) -> T | None:
        """Take the message at this place and do something with it; None when it is not there to be taken.

        Those before it are taken for a moment, too, and put back where they were.
        """
        held: list[Message] = []
        try:
            while len(held) < HELD_MAX:
                message = await take(queue)
                if message is None:
                    return None
                if message.lane.number == where.lane and message.offset == where.offset:
                    try:
                        return await change(message)
                    finally:
                        self._queues.settling.requeue([message], failed=False)
                held.append(message)
        finally:
            self._queues.settling.requeue(held, failed=False)
        raise QueueBusy(f"more than {HELD_MAX} messages are before it")

    async def replace(self, queue: Queue, message: Message, put: Put) -> None:
        """Another message at the end of the queue, in place of this one, which was taken; in one commit."""
        await self._queues.outbox.commit_transaction([put], settle=lambda: self._queues.settling.settle([message]))


def _messages(result: ReadResult, lane: QueueLane) -> tuple[list[Message], int]:
    """What was read, without what ends transactions and what they gave up, and where to go on.

    Of compressed batches, as many as have room in memory, but one at least.
    """
    found: list[Message] = []
    room = APART.bytes_max
    for buffer in result.batches:
        view = memoryview(buffer)
        for at, size in batches_in(view):
            header = read_header(view, at)
            is_aborted = header.attributes & TRANSACTIONAL and any(
                gone.producer == header.producer_id and gone.first <= header.base_offset <= gone.last
                for gone in result.aborted
            )
            if is_aborted or header.attributes & CONTROL:
                continue
            if not header.compression:
                found += decode_messages(view[at : at + size], lane)
                continue
            try:
                messages, content_bytes = decode_compressed(view[at : at + size], lane, room)
            except DecompressedTooLarge:
                if room == APART.bytes_max:
                    raise
                return found, header.base_offset
            room -= content_bytes
            found += messages
    return found, result.next_offset


async def take(queue: Queue) -> Message | None:
    """The first message that waits."""
    taken: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()

    def got(message: Message | None) -> None:
        if not taken.done():
            taken.set_result(message)
        elif message is not None:
            queue.give_back([message])  # The caller has gone.

    queue.get_one(got)
    return await taken


def letter_filter(reason: str | None, origin: str | None, where: str | None) -> Callable[[Message], bool]:
    """Whether a message died of this, in this queue, and has headers that fit this expression. Raises InvalidSelector."""
    matches = None if where is None else compile_expression(where)

    def wanted(message: Message) -> bool:
        if reason is not None or origin is not None:
            facts = origin_of(message)
            if facts is None or reason not in (None, facts.reason) or origin not in (None, facts.queue):
                return False
        return matches is None or matches(_texts(message))

    return wanted


def _texts(message: Message) -> dict[str, str]:
    texts = {}
    for name, content in decode_headers(message.headers):
        if content is not None:
            try:
                texts[name] = content.decode()
            except UnicodeDecodeError:
                continue
    return texts
