"""Publishing to queues: into the draft of this turn, which becomes one commit (`committing`).

A draft is cut in two where one commit could not keep the order: a commit makes its references after its appends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from mainstem.broker.clock import Clock
from mainstem.broker.intake import Intake
from mainstem.broker.publication import Put
from mainstem.broker.queues.delivery.priority_lane import URGENT_FROM
from mainstem.broker.queues.publishing.committing import Committing
from mainstem.broker.queues.publishing.outcome import HOLD, REFUSED, TAKEN
from mainstem.coordination.commit_addition import CommitAddition
from mainstem.model.errors import CommitTooLarge, StorageFull
from mainstem.storage.contract import Engine
from mainstem.wire.messages.batch_underway import BatchUnderway, encode_content
from mainstem.wire.messages.message import Message, new_messages

if TYPE_CHECKING:
    from mainstem.broker.queues.limits import QueueLimits
    from mainstem.broker.queues.queue import Queue, QueueLane

T = TypeVar("T")

TRANSACTION_BYTES_MAX = 24 << 20
"""What one transaction publishes at most: it is one commit."""
REFER_BYTES_MIN = 2_048
"""Where copies for all queues but one are at least as many bytes, messages are stored once, with references."""
REFERENCE_BYTES = 1_024
"""What a reference counts for: it is a few dozen bytes on disk, and about as much work as this many bytes of messages."""
COPY_BYTES = 64
"""What a shared message counts for, besides its bytes, for each queue that has somebody to give it to."""
SHARED_BATCH_BYTES_MIN = 32 << 10
"""The least that a shared batch may grow to."""
NO_LIMIT = 1 << 62


def _nothing() -> None:
    pass


class Fan(NamedTuple):
    """A batch that several queues share."""

    batch: BatchUnderway
    queues: Sequence[Queue]
    kind: tuple[int, bytes | None]
    """Priority and key of its messages: they decide about lanes."""
    copies: int
    """Lanes that have somebody to give messages to."""


class Outbox(Committing):
    """All publishing to queues, and all settling."""

    def __init__(self, engine: Engine, clock: Clock, intake: Intake, limits: QueueLimits, **calls: Any) -> None:
        super().__init__(engine, clock, intake, limits, **calls)
        self._batch_bytes_max = limits.batch_bytes_max
        self._fan_lanes_max = limits.fan_lanes_max
        self._fan: Fan | None = None

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
            if batch is None or batch.size > self._batch_bytes_max or batch.is_shared:
                batch = self._begin_batch(lane, now_ms)
            before = batch.size
            end = batch.add_all(key, headers, values, first, self._batch_bytes_max + 1)
            if batch.messages is not None:
                if lane.has_room(len(batch.messages) + end - first - 1, queue.window_max) and lane.holds_less(
                    self.window_bytes_max
                ):
                    some = values if end - first == len(values) else values[first:end]
                    batch.messages += new_messages(lane, now_ms, key, headers, some, expires_ms)
                else:
                    batch.messages = None
            size = batch.size - before
            self.grow(size)
            first = end
        return HOLD if self.intake.is_pressed else TAKEN

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
        if len(queues) > 1 and (
            len(content) * (len(queues) - 1) >= REFER_BYTES_MIN
            or (self._fan is not None and self._fan.queues == queues)
        ):
            model = Message(None, -1, now_ms, key, headers, value, ttl_ms)
            outcome = self._put_to_all(queues, content, model, priority)
            return HOLD if not outcome and self.intake.is_pressed else outcome
        for queue in queues:
            if queue.is_limited and (verdict := queue.judge_publish(headers, value, key)):
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
            if batch is None or batch.size > self._batch_bytes_max or batch.is_shared:
                batch = self._begin_batch(lane, now_ms)
            batch.add(content)
            messages = batch.messages
            if messages is not None:
                if lane.has_room(len(messages), queue.window_max) and lane.holds_less(self.window_bytes_max):
                    expires_ms = queue.expiry(now_ms, ttl_ms) if ttl_ms >= 0 or queue.has_ttl else 0
                    messages.append(Message(lane, -1, now_ms, key, headers, value, expires_ms))
                else:
                    batch.messages = None
        self.grow(len(content) * len(queues))
        return HOLD if not outcome and self.intake.is_pressed else outcome

    def put_along(
        self, queues: Sequence[Queue], headers: bytes, value: bytes | memoryview, key: bytes | None, ttl_ms: int = -1
    ) -> int:
        """The same as `put`, in the commit of what was added last: the draft is not cut in between."""
        self._is_joining = True
        try:
            return self.put(queues, headers, value, key, ttl_ms)
        finally:
            self._is_joining = False

    def cut(self) -> None:
        """What is published from now on belongs into another commit."""
        self._cut_draft()

    def make_way(self, queues: Sequence[Queue]) -> None:
        """Cut the draft now, where the order in these queues would ask for it in the midst of what belongs together."""
        referred = self._draft.referred
        if referred and not (self._fan is not None and self._fan.queues == queues):
            if any(lane in referred for queue in queues for lane in queue.lanes):
                self._cut_draft()

    # To several queues

    def put_fan(
        self,
        queues: Sequence[Queue],
        headers: bytes,
        values: list[bytes],
        first: int,
        key: bytes | None = None,
        ttl_ms: int = -1,
        priority: int = 0,
    ) -> int:
        """Publish messages to several queues, from `first` on, as many as make one batch; answers how many.

        0, and nothing has happened, where each message is a question of its own, or copies are cheaper: then it is `put`'s.
        """
        if self.is_full or self.is_whole or not self._is_shareable(queues, headers, values, first):
            return 0
        now_ms = self._now_ms or self._begin()
        if ttl_ms >= 0:
            _note_expiry(queues)
        end = 0
        for some in self._parts(queues):
            fan = self._fan_of(some, None, (priority, key), now_ms)
            if fan is None:
                continue
            batch = fan.batch
            before = batch.size
            if not end:
                end = batch.add_all(key, headers, values, first, self._shared_batch_bytes + 1)
            else:
                batch.add_all(key, headers, values[:end], first, NO_LIMIT)
            assert batch.messages is not None
            batch.messages += new_messages(None, now_ms, key, headers, values[first:end], ttl_ms)
            self._grow_fan(fan, batch.size - before, end - first)
        return (end or len(values)) - first

    def _put_to_all(self, queues: Sequence[Queue], content: bytes, model: Message, priority: int) -> int:
        """Publish one message to several queues: write it once, refer to it from all other queues."""
        outcome = TAKEN
        if model.expires_ms >= 0:
            _note_expiry(queues)
        lanes: list[QueueLane] | None = None
        if any(queue.is_limited for queue in queues):
            lanes = []
            for queue in queues:
                verdict = queue.judge_publish(model.headers, model.value, model.key) if queue.is_limited else TAKEN
                outcome = verdict or outcome
                if verdict != REFUSED and not queue.is_gone:
                    lanes.append(queue.lane_of(priority, model.key))
        kind = (priority, model.key)
        if lanes is None:
            for some in self._parts(queues):
                self._add_to(self._fan_of(some, None, kind, model.timestamp_ms), content, model)
        else:
            for ours in self._parts(lanes):
                self._add_to(self._fan_of((), ours, kind, model.timestamp_ms), content, model)
        return outcome

    def _add_to(self, fan: Fan | None, content: bytes, model: Message) -> None:
        if fan is not None:
            assert fan.batch.messages is not None
            fan.batch.add(content)
            fan.batch.messages.append(model)
            self._grow_fan(fan, len(content), 1)

    def _is_shareable(self, queues: Sequence[Queue], headers: bytes, values: list[bytes], first: int) -> bool:
        fan = self._fan
        if fan is not None and fan.queues == queues:
            return True
        size = (len(values[first]) + len(headers)) * (len(values) - first)
        return size * (len(queues) - 1) >= REFER_BYTES_MIN and not any(queue.is_limited for queue in queues)

    def _fan_of(
        self, queues: Sequence[Queue], lanes: Sequence[QueueLane] | None, kind: tuple[int, bytes | None], now_ms: int
    ) -> Fan | None:
        """The batch that these queues share: that of the last message, as long as it may grow, else another.

        `lanes` instead of queues, where not every queue takes the message. None: nobody does.
        """
        fan = self._fan
        if (
            fan is not None
            and lanes is None
            and fan.kind == kind
            and fan.queues == queues
            and fan.batch.lane.batch is fan.batch
            and fan.batch.size <= self._shared_batch_bytes
        ):
            return fan
        if lanes is None:
            lanes = [queue.lane_of(*kind) for queue in queues if not queue.is_gone]
        if not lanes:
            return None
        batch = self._begin_batch(lanes[0], now_ms)
        batch.is_shared = True
        batch.refers = lanes[1:]
        self._draft.referred.update(batch.refers)
        for lane in batch.refers:
            lane.batch = None
        fan = self._fan = Fan(batch, queues, kind, sum([bool(lane.queue.consumers.all) for lane in lanes]))
        return fan

    def _grow_fan(self, fan: Fan, size: int, messages: int) -> None:
        if fan.batch.count == messages:  # the first ones
            size += REFERENCE_BYTES * len(fan.batch.refers)
        self.grow(size + messages * fan.copies * COPY_BYTES)

    def _parts(self, whole: Sequence[T]) -> Iterable[Sequence[T]]:
        """Queues or lanes in parts, each of which may share one stored batch."""
        most = self._fan_lanes_max
        if len(whole) <= most:
            return (whole,)
        return [whole[at : at + most] for at in range(0, len(whole), most)]

    @property
    def _shared_batch_bytes(self) -> int:
        """A lane reads a shared batch whole: it is no larger than a lane's share of memory."""
        return min(self._batch_bytes_max, max(self.window_bytes_max, SHARED_BATCH_BYTES_MIN))

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

    def together(self, puts: Sequence[Put], laid_off: Message, addition: CommitAddition | None = None) -> None:
        """Publish these, commit that along, and settle a message, in one commit or not at all."""
        size = sum((len(put.value) + len(put.headers)) * len(put.queues) for put in puts)
        lanes = [lane for put in puts for queue in put.queues for lane in queue.lanes]
        if self._draft.bytes + size > self._draft_bytes_max or not self._draft.referred.isdisjoint(lanes):
            self._cut_draft()
        before, self.is_whole = self.is_whole, True
        for put in puts:
            for queue in put.queues:
                self.put((queue,), put.headers, put.value, key=put.key, ttl_ms=put.ttl_ms, priority=put.priority)
        if addition is not None:
            self.add(addition)
        self.is_whole = before
        self._draft.laid_off.append(laid_off)
        self.dirty(laid_off.lane)

    def lay_off(self, messages: list[Message]) -> None:
        """They are settled with what is put, and are not if that is refused."""
        self._draft.laid_off += messages

    async def commit_transaction(
        self, puts: Sequence[Put], settle: Callable[[], None] = _nothing, addition: CommitAddition | None = None
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
            if addition is not None:
                self.add(addition)
            settle()
        finally:
            self.is_whole = False
        self._cut_draft()
        await self.wait_durable()
        return refused


def _note_expiry(queues: Sequence[Queue]) -> None:
    """They get a message that has a time to live, so their heads are looked at."""
    for queue in queues:
        queue.may_expire = True
