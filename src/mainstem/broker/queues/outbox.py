"""Publishing to queues: into the draft of this turn, which becomes one commit (`committing`).

A draft is cut in two where one commit could not keep the order: a commit makes its references after its appends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mainstem.broker.clock import Clock
from mainstem.broker.queues.committing import DRAFT_BYTES_MAX, OUTBOX_BYTES_MAX, Committing
from mainstem.broker.queues.urgency import URGENT_FROM
from mainstem.coordination.extra import Extra
from mainstem.coordination.queue.batch_underway import BatchUnderway, encode_content
from mainstem.coordination.queue.message import Message, new_messages
from mainstem.model.errors import CommitTooLarge, StorageFull
from mainstem.storage.contract import Engine

if TYPE_CHECKING:
    from mainstem.broker.queues.queue import Queue, QueueLane

TAKEN, REFUSED, HOLD = 0, 1, 2
"""What becomes of a message that is published: taken; refused by a queue that is full; taken, but the publisher is to wait."""

BATCH_BYTES_MAX = 512 << 10
"""A batch that is larger takes no more records."""
TRANSACTION_BYTES_MAX = 24 << 20
"""What one transaction publishes at most: it is one commit."""
WINDOW_BYTES_MAX = 8 << 20
"""Ready messages of one lane that are in memory; what is published beyond is read when it is wanted."""
REFER_BYTES_MIN = 1024
"""From here on a record for several queues is stored once."""


def _nothing() -> None:
    pass


class Put(NamedTuple):
    """A message to be published, where it cannot be at once."""

    queues: Sequence[Queue]
    headers: bytes
    value: bytes | memoryview
    key: bytes | None = None
    ttl_ms: int = -1
    priority: int = 0


class Outbox(Committing):
    """All publishing to queues, and all settling."""

    def __init__(self, engine: Engine, clock: Clock, **calls: Any) -> None:
        super().__init__(engine, clock, **calls)
        self.window_bytes_max = WINDOW_BYTES_MAX
        """Of one lane, now: all have their share."""

    def put_all(
        self,
        queue: Queue,
        headers: bytes,
        values: list[bytes],
        key: bytes | None = None,
        ttl_ms: int = -1,
        priority: int = 0,
    ) -> int:
        """Publish messages to one queue that differ in their values only, all of them with the next commit.

        REFUSED, and nothing has happened, where each of them is a question of its own: then it is `put`'s.
        """
        if self.is_full or self.is_whole or queue.is_limited or queue.is_gone:
            return REFUSED
        if queue.is_plain and (priority < URGENT_FROM or not queue.has_levels):
            lane = queue.lanes[0]
        elif queue.has_levels or key is not None:
            lane = queue.lane_of(priority, key)
        else:
            return REFUSED
        now_ms = self._now_ms or self._begin()
        expires_ms = queue.expiry(now_ms, ttl_ms) if ttl_ms >= 0 or queue.has_ttl else 0
        first = 0
        while first < len(values):
            batch = lane.batch
            if batch is None or batch.size > BATCH_BYTES_MAX or batch.refers:
                batch = self._begin_batch(lane, now_ms)
            before = batch.size
            end = batch.add_all(key, headers, values, first, BATCH_BYTES_MAX + 1)
            if batch.messages is not None:
                if lane.has_room(len(batch.messages) + end - first - 1, queue.window_max) and (
                    lane.ready_bytes < self.window_bytes_max
                ):
                    some = values if end - first == len(values) else values[first:end]
                    batch.messages += new_messages(lane, now_ms, key, headers, some, expires_ms)
                else:
                    batch.messages = None
            size = batch.size - before
            self._bytes += size
            self._draft.bytes += size
            if self._draft.bytes > DRAFT_BYTES_MAX:
                self._cut_draft()
            first = end
        return HOLD if self._bytes > OUTBOX_BYTES_MAX else TAKEN

    def put(  # noqa: C901 - the hot path, in one piece
        self,
        queues: Sequence[Queue],
        headers: bytes,
        value: bytes | memoryview,
        key: bytes | None = None,
        ttl_ms: int = -1,
        priority: int = 0,
    ) -> int:
        """Publish to these queues, each once, with the next commit. `ttl_ms` repeats what the headers say in `mainstem-ttl`."""
        if self.is_full:
            return REFUSED
        if self.is_whole:
            # Nothing may be cut off, so nothing is referred to.
            assert len(queues) == 1
        now_ms = self._now_ms
        if not now_ms:
            now_ms = self._begin()
        content = encode_content(key, headers, value)
        outcome = TAKEN
        if len(queues) > 1 and len(content) >= REFER_BYTES_MIN:
            return self._put_fan(queues, content, Message(None, -1, now_ms, key, headers, value, 0), ttl_ms, priority)  # type: ignore[arg-type]
        for queue in queues:
            if queue.is_limited and (verdict := queue.admit(headers, value, key)):
                outcome = verdict
                if verdict == REFUSED:
                    continue
            if queue.is_plain and (priority < URGENT_FROM or not queue.has_levels):
                lane = queue.lanes[0]
            elif queue.is_gone:
                continue
            else:
                lane = queue.lane_of(priority, key)
            batch = lane.batch
            if batch is None or batch.size > BATCH_BYTES_MAX or batch.refers:
                batch = self._begin_batch(lane, now_ms)
            batch.add(content)
            messages = batch.messages
            if messages is not None:
                if lane.has_room(len(messages), queue.window_max) and lane.ready_bytes < self.window_bytes_max:
                    expires_ms = queue.expiry(now_ms, ttl_ms) if ttl_ms >= 0 or queue.has_ttl else 0
                    messages.append(Message(lane, -1, now_ms, key, headers, value, expires_ms))
                else:
                    batch.messages = None
        size = len(content) * len(queues)
        self._bytes += size
        self._draft.bytes += size
        if self._draft.bytes > DRAFT_BYTES_MAX:
            self._cut_draft()
        return HOLD if not outcome and self._bytes > OUTBOX_BYTES_MAX else outcome

    def _put_fan(self, queues: Sequence[Queue], content: bytes, model: Message, ttl_ms: int, priority: int) -> int:
        """Write once, refer to it from all other queues."""
        outcome = TAKEN
        lanes: list[QueueLane] = []
        for queue in queues:
            if queue.is_gone:
                continue
            if queue.is_limited:
                verdict = queue.admit(model.headers, model.value, model.key)
                outcome = verdict or outcome
                if verdict == REFUSED:
                    continue
            lanes.append(queue.lane_of(priority, model.key))
        if not lanes:
            return outcome
        source = lanes[0]
        fan = self._fan
        if (
            fan is None
            or fan.lane is not source
            or source.batch is not fan
            or fan.size > BATCH_BYTES_MAX
            or [lane for lane, _ in fan.refers] != lanes[1:]
        ):
            fan = self._fan = self._begin_batch(source, model.timestamp_ms)
            fan.refers = [(lane, []) for lane in lanes[1:]]
            self._draft.referred.update(lanes[1:])
            for lane in lanes[1:]:
                lane.batch = None
        fan.add(content)
        room = self.window_bytes_max
        fan.messages = _note(fan.lane, fan.messages, model, ttl_ms, room)
        fan.refers = [(lane, _note(lane, messages, model, ttl_ms, room)) for lane, messages in fan.refers]
        self._bytes += len(content)
        self._draft.bytes += len(content)
        if self._draft.bytes > DRAFT_BYTES_MAX:
            self._cut_draft()
        return HOLD if not outcome and self._bytes > OUTBOX_BYTES_MAX else outcome

    def _begin(self) -> int:
        self._now_ms = now_ms = self._clock.now_ms()
        self._schedule()
        return now_ms

    def _begin_batch(self, lane: QueueLane, now_ms: int) -> BatchUnderway:
        if lane in self._draft.referred:
            self._cut_draft()
        batch = lane.batch = BatchUnderway(lane, now_ms)
        self._draft.batches.append(batch)
        return batch

    # In one commit

    def together(self, puts: Sequence[Put], laid_off: Message) -> None:
        """Publish these and settle that one, in one commit or not at all."""
        size = sum((len(put.value) + len(put.headers)) * len(put.queues) for put in puts)
        lanes = [lane for put in puts for queue in put.queues for lane in queue.lanes]
        if self._draft.bytes + size > DRAFT_BYTES_MAX or not self._draft.referred.isdisjoint(lanes):
            self._cut_draft()
        before, self.is_whole = self.is_whole, True
        for put in puts:
            for queue in put.queues:
                self.put((queue,), put.headers, put.value, key=put.key, ttl_ms=put.ttl_ms, priority=put.priority)
        self.is_whole = before
        self._draft.laid_off.append(laid_off)
        self.dirty(laid_off.lane)

    def lay_off(self, messages: list[Message]) -> None:
        """They are settled with what is put, and are not if that is refused."""
        self._draft.laid_off += messages

    async def commit_transaction(
        self, puts: Sequence[Put], settle: Callable[[], None] = _nothing, extra: Extra | None = None
    ) -> list[int]:
        """All of it in one commit; what `settle` does, too. Answers which of the puts a full queue refused.

        Raises kinds of MainstemError: CommitTooLarge and StorageFull before anything is done.
        """
        size = sum((len(put.value) + len(put.headers)) * len(put.queues) for put in puts)
        if size > TRANSACTION_BYTES_MAX:
            raise CommitTooLarge(f"{size} bytes in one transaction; at most {TRANSACTION_BYTES_MAX}")
        if self.is_full and puts:
            raise StorageFull("disk use is above the hard mark")
        self._cut_draft()
        refused: list[int] = []
        self.is_whole = True
        try:
            for number, put in enumerate(puts):
                for queue in put.queues:
                    taken = self.put(
                        (queue,), put.headers, put.value, key=put.key, ttl_ms=put.ttl_ms, priority=put.priority
                    )
                    if taken == REFUSED and number not in refused[-1:]:
                        refused.append(number)
            if extra is not None:
                self.add(extra)
            settle()
        finally:
            self.is_whole = False
        self._cut_draft()
        await self.wait_durable()
        return refused


def _note(
    lane: QueueLane, messages: list[Message] | None, model: Message, ttl_ms: int, room: int
) -> list[Message] | None:
    """One more message for the window of a lane, as long as there is room."""
    queue = lane.queue
    if messages is None or lane.ready_bytes >= room or not lane.has_room(len(messages), queue.window_max):
        return None
    expires_ms = queue.expiry(model.timestamp_ms, ttl_ms) if ttl_ms >= 0 or queue.has_ttl else 0
    messages.append(Message(lane, -1, model.timestamp_ms, model.key, model.headers, model.value, expires_ms))
    return messages
