"""What one turn publishes and settles, becoming one commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from mainstem.coordination.commit_addition import CommitAddition, SealedAddition
from mainstem.storage.contract import Append, Commit, LogChange, Mutation, Refer
from mainstem.wire.messages.batch_underway import BatchUnderway
from mainstem.wire.messages.message import Message, copy_messages

if TYPE_CHECKING:
    from mainstem.broker.queues.queue import QueueLane

TakeState: TypeAlias = "Callable[[QueueLane], tuple[list[Mutation], list[LogChange]]]"


class Draft:
    """What will be one commit."""

    __slots__ = (
        "additions",
        "batches",
        "bytes",
        "callbacks",
        "changes",
        "dirty",
        "laid_off",
        "referred",
        "sealed",
        "sealed_additions",
        "state",
    )

    def __init__(self) -> None:
        self.batches: list[BatchUnderway] = []
        self.sealed: list[bytearray] = []
        """The batches, once the draft is complete."""
        self.referred: set[QueueLane] = set()
        """Lanes that get references: what is appended to them later belongs into another commit."""
        self.dirty: set[QueueLane] = set()
        """Lanes whose cursors are to be stored."""
        self.laid_off: list[Message] = []
        """Settled together with what is appended here, as in a transaction, or by dead letters: not settled if this fails."""
        self.additions: list[CommitAddition] = []
        """Of others, to be committed along."""
        self.sealed_additions: list[SealedAddition] = []
        self.state: list[Mutation] = []
        self.changes: list[LogChange] = []
        self.bytes = 0
        self.callbacks: list[tuple[Callable[[Any, BaseException | None], None], Any]] = []
        """To be called when this is durable: each with its token, and the reason if it is not."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.batches or self.dirty or self.additions or self.state or self.changes)

    def seal(self, take_state: TakeState) -> None:
        """It is complete: what the cursors have to say by now belongs to it, and nothing that is settled later."""
        for batch in self.batches:
            if batch.lane.batch is batch:
                batch.lane.batch = None
            self.sealed.append(batch.seal())
        self.sealed_additions = [addition.seal() for addition in self.additions]
        self._take_state(take_state)

    def without_gone(self, take_state: TakeState) -> bool:
        """Leave out what was for queues that are gone; answers whether there was any."""
        gone = _hand_on(self.batches)
        kept = [(batch, data) for batch, data in zip(self.batches, self.sealed, strict=True) if not batch.lane.is_gone]
        gone += len(self.batches) - len(kept)
        self.batches, self.sealed = [batch for batch, _ in kept], [data for _, data in kept]
        for batch in self.batches:
            refers = [lane for lane in batch.refers if not lane.is_gone]
            gone += len(batch.refers) - len(refers)
            batch.refers = refers
        self.dirty = {lane for lane in self.dirty if not lane.is_gone}
        for lane in self.dirty:
            lane.cursor.change_all()
        self._take_state(take_state)
        return gone > 0

    def _take_state(self, take_state: TakeState) -> None:
        for lane in self.dirty:
            state, changes = take_state(lane)
            self.state += state
            self.changes += changes

    def commit(self) -> Commit:
        """As storage takes it."""
        appends = [Append(batch.lane.log, data) for batch, data in zip(self.batches, self.sealed, strict=True)]
        refers = [Refer(lane.log, n) for n, batch in enumerate(self.batches) for lane in batch.refers]
        state, changes = self.state, self.changes
        for sealed in self.sealed_additions:
            appends += sealed.appends
            state = [*state, *sealed.state]
            changes = [*changes, *sealed.changes]
        return Commit(appends=appends, refers=refers, state=state, changes=changes)

    def accept(self, bases: Sequence[int], arrived: dict[QueueLane, None], window_bytes_max: int) -> None:
        """It happened, at these offsets."""
        batches = self.batches
        for batch, base in zip(batches, bases, strict=False):
            messages = _copies(batch, batch.lane, window_bytes_max) if batch.is_shared else batch.messages
            batch.lane.accept(base, batch.count, messages)
            batch.lane.queue.came(batch.count)
            arrived[batch.lane] = None
        at = len(batches)
        for addition, sealed in zip(self.additions, self.sealed_additions, strict=True):
            addition.resolved(bases[at : at + len(sealed.appends)])
            at += len(sealed.appends)
        for batch in batches:
            for lane in batch.refers:
                lane.accept(bases[at], batch.count, _copies(batch, lane, window_bytes_max))
                lane.queue.came(batch.count)
                arrived[lane] = None
                at += 1


def _hand_on(batches: Sequence[BatchUnderway]) -> int:
    """Where the lane is gone that stores what others refer to, the next one stores it; answers how often that was."""
    count = 0
    for batch in batches:
        if batch.lane.is_gone and (there := [lane for lane in batch.refers if not lane.is_gone]):
            batch.lane, batch.refers = there[0], there[1:]
            count += 1
    return count


def _copies(batch: BatchUnderway, lane: QueueLane, window_bytes_max: int) -> list[Message] | None:
    """Messages of a shared batch for the window of a lane: where there is room, and somebody to give them to.

    A queue that nobody reads holds none: of a thousand of those, memory would have a thousand copies for nothing.
    """
    queue = lane.queue
    if not (queue.consumers.all or queue.is_limited or queue.may_expire):
        return None
    if not (lane.has_room(batch.count - 1, queue.window_max) and lane.holds_less(window_bytes_max)):
        return None
    models = batch.messages
    assert models is not None
    messages = copy_messages(lane, models)
    for message, model in zip(messages, models, strict=True):
        ttl_ms = model.expires_ms
        if ttl_ms >= 0 or queue.has_ttl:
            message.expires_ms = queue.expiry(message.timestamp_ms, ttl_ms)
    return messages
