"""What one turn of the event loop publishes and settles becomes one commit.

    put, settle ... --(end of the turn)--> draft --> engine.commit --> durable: into the windows, confirmed, delivered

While the engine has enough to do, drafts grow instead of multiplying: the same batching that group commit does, one level up. A
draft is cut in two where one commit could not keep the order: a commit makes its references after its appends.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from mainstem.broker.clock import Clock, Timer
from mainstem.coordination.extra import Extra, Share
from mainstem.coordination.queue.batch_underway import BatchUnderway, encode_content
from mainstem.coordination.queue.message import Message, new_messages
from mainstem.model.errors import CommitTooLarge, DiskError, EngineClosed, MainstemError, StorageFull, UnknownLog
from mainstem.storage.answer import Answer
from mainstem.storage.contract import Append, Commit, CommitResult, Committed, Engine, LogChange, Mutation, Refer

if TYPE_CHECKING:
    from mainstem.broker.queues.queue import Queue, QueueLane

log = logging.getLogger(__name__)

TAKEN, REFUSED, HOLD = 0, 1, 2
"""What becomes of a message that is published: taken; refused by a queue that is full; taken, but the publisher is to wait."""

BATCH_BYTES_MAX = 512 << 10
"""A batch that is larger takes no more records."""
DRAFT_BYTES_MAX = 4 << 20
"""A draft that is larger is committed at once."""
TRANSACTION_BYTES_MAX = 24 << 20
"""What one transaction publishes at most: it is one commit."""
OUTBOX_BYTES_MAX = 64 << 20
"""When so much waits to be durable, publishers are to wait."""
FLIGHTS_MAX = 2
"""Commits under way: one that the disk is at, one behind it."""
WINDOW_BYTES_MAX = 4 << 20
"""Ready messages of one lane that are in memory; what is published beyond is read when it is wanted."""
REFER_BYTES_MIN = 1024
"""From here on a record for several queues is stored once."""
SETTLE_DELAY_S = 0.05
"""How long settled messages wait for a commit to ride on."""
FULL_PAUSE_S = 1.0
"""How long a full disk is not asked again."""

Done: TypeAlias = Callable[[Any, BaseException | None], None]
"""Called with the token, and with the reason if it did not happen."""
TakeState: TypeAlias = "Callable[[QueueLane], tuple[list[Mutation], list[LogChange]]]"


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


class Draft:
    """What will be one commit."""

    __slots__ = ("batches", "bytes", "changes", "dirty", "extras", "laid_off", "referred", "sealed", "shares", "state")

    def __init__(self) -> None:
        self.batches: list[BatchUnderway] = []
        self.sealed: list[bytearray] = []
        """The batches, once the draft is complete."""
        self.referred: set[QueueLane] = set()
        """Lanes that get references: what is appended to them later belongs into another commit."""
        self.dirty: set[QueueLane] = set()
        """Lanes whose cursors are to be stored."""
        self.laid_off: list[Message] = []
        """Settled together with what is appended here, as dead letters are: not settled if this fails."""
        self.extras: list[Extra] = []
        """Of others, to be committed along."""
        self.shares: list[Share] = []
        self.state: list[Mutation] = []
        self.changes: list[LogChange] = []
        self.bytes = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.batches or self.dirty or self.extras or self.state or self.changes)

    def seal(self, take_state: TakeState) -> None:
        """It is complete: what the cursors have to say by now belongs to it, and nothing that is settled later."""
        for batch in self.batches:
            if batch.lane.batch is batch:
                batch.lane.batch = None
            self.sealed.append(batch.seal())
        self.shares = [extra.seal() for extra in self.extras]
        self._take_state(take_state)

    def without_gone(self, take_state: TakeState) -> bool:
        """Leave out what was for queues that are gone; answers whether there was any."""
        kept = [(batch, data) for batch, data in zip(self.batches, self.sealed, strict=True) if not batch.lane.is_gone]
        gone = len(self.batches) - len(kept)
        self.batches, self.sealed = [batch for batch, _ in kept], [data for _, data in kept]
        for batch in self.batches:
            refers = [(lane, messages) for lane, messages in batch.refers if not lane.is_gone]
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
        refers = [Refer(lane.log, n) for n, batch in enumerate(self.batches) for lane, _ in batch.refers]
        state, changes = self.state, self.changes
        for share in self.shares:
            appends += share.appends
            state = [*state, *share.state]
            changes = [*changes, *share.changes]
        return Commit(appends=appends, refers=refers, state=state, changes=changes)

    def accept(self, bases: Sequence[int], arrived: dict[QueueLane, None]) -> None:
        """It happened, at these offsets."""
        batches = self.batches
        for batch, base in zip(batches, bases, strict=False):
            batch.lane.accept(base, batch.count, batch.messages)
            batch.lane.queue.came(batch.count)
            arrived[batch.lane] = None
        at = len(batches)
        for extra, share in zip(self.extras, self.shares, strict=True):
            extra.resolved(bases[at : at + len(share.appends)])
            at += len(share.appends)
        for batch in batches:
            for lane, messages in batch.refers:
                lane.accept(bases[at], batch.count, messages)
                lane.queue.came(batch.count)
                arrived[lane] = None
                at += 1


class _Flight(NamedTuple):
    """A commit under way."""

    drafts: list[Draft]
    callbacks: list[tuple[Done, Any]]


class Outbox:
    """All publishing to queues, and all settling."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        *,
        take_state: TakeState,
        on_arrival: Callable[[Iterable[QueueLane]], None],
        on_return: Callable[[Sequence[Message]], None],
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._take_state = take_state
        self._on_arrival = on_arrival
        self._on_return = on_return
        self._draft = Draft()
        self._cut: list[Draft] = []
        """Drafts of this turn that are complete."""
        self._callbacks: list[tuple[Done, Any]] = []
        self._flights: list[_Flight] = []
        self._fan: BatchUnderway | None = None
        self._now_ms = 0
        """Of this turn; 0: not asked yet."""
        self._is_scheduled = False
        self._timer: Timer | None = None
        self._bytes = 0
        self._is_whole = False
        """Whether what is put belongs into one commit, whatever its size."""
        self._relieved: list[Callable[[], None]] = []
        self.is_full = False
        """Whether the disk is."""
        self.window_bytes_max = WINDOW_BYTES_MAX
        """Of one lane, now: all have their share."""
        self.full_queues: set[Queue] = set()
        """Those whose publishers were told to wait."""

    # Publishing

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
        if self.is_full or self._is_whole or queue.is_limited or queue.is_gone:
            return REFUSED
        if queue.is_plain:
            lane = queue.lanes[0]
        elif queue.properties.priority_max or key is not None:
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
        if self._is_whole:
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
            if queue.is_plain:
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

    def _cut_draft(self) -> None:
        """What follows belongs into another commit."""
        if not self._draft.is_empty and not self._is_whole:
            self._draft.seal(self._take_state)
            self._cut.append(self._draft)
            self._draft = Draft()
            self._fan = None
            self._schedule()

    # Settling, and what goes along

    def dirty(self, lane: QueueLane) -> None:
        """The lane's cursor has changed."""
        self._draft.dirty.add(lane)
        if not self._is_scheduled and self._timer is None:
            self._timer = self._clock.call_later(SETTLE_DELAY_S, self._flush_late)

    def together(self, puts: Sequence[Put], laid_off: Message) -> None:
        """Publish these and settle that one, in one commit or not at all."""
        size = sum((len(put.value) + len(put.headers)) * len(put.queues) for put in puts)
        lanes = [lane for put in puts for queue in put.queues for lane in queue.lanes]
        if self._draft.bytes + size > DRAFT_BYTES_MAX or not self._draft.referred.isdisjoint(lanes):
            self._cut_draft()
        before, self._is_whole = self._is_whole, True
        for put in puts:
            for queue in put.queues:
                self.put((queue,), put.headers, put.value, key=put.key, ttl_ms=put.ttl_ms, priority=put.priority)
        self._is_whole = before
        self._draft.laid_off.append(laid_off)
        self.dirty(laid_off.lane)

    def add(self, extra: Extra) -> None:
        """Commit this along with what was put so far. It may grow until it is sealed."""
        self._draft.extras.append(extra)
        self._schedule()

    def grow(self, size: int) -> None:
        """What was added has grown by so many bytes; it may be sealed by that."""
        self._bytes += size
        self._draft.bytes += size
        if self._draft.bytes > DRAFT_BYTES_MAX:
            self._cut_draft()

    def change(self, change: LogChange) -> None:
        """Commit a change of a log along."""
        self._draft.changes.append(change)
        self._schedule()

    def mutate(self, state: Sequence[Mutation]) -> None:
        """Commit a change of state along."""
        self._draft.state += state
        self._schedule()

    async def wait_durable(self) -> None:
        """Until all that was put and settled so far is durable. Raises kinds of MainstemError."""
        answer: Answer[None] = Answer()
        self.when_durable(functools.partial(_finish, answer), None)
        await answer

    async def drain(self) -> None:
        """Commit all there is, and wait for it."""
        self.flush()
        if self._flights:
            await self.wait_durable()

    def when_durable(self, callback: Done, token: Any) -> None:
        """Call back, in order, when all that was put and settled so far is durable; not before the end of the turn."""
        if self._draft.is_empty and not self._cut and self._flights:
            self._flights[-1].callbacks.append((callback, token))
            return
        self._callbacks.append((callback, token))
        self._schedule()

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
        self._is_whole = True
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
            self._is_whole = False
        self._cut_draft()
        await self.wait_durable()
        return refused

    # Committing

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._clock.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._is_scheduled = False
        self._now_ms = 0
        if len(self._flights) < FLIGHTS_MAX:
            self.flush()

    def _flush_late(self) -> None:
        self._timer = None
        self._end_turn()

    def flush(self) -> None:
        """Commit what there is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._draft.is_empty:
            self._draft.seal(self._take_state)
            self._cut.append(self._draft)
            self._draft = Draft()
            self._fan = None
        drafts, self._cut = self._cut, []
        callbacks, self._callbacks = self._callbacks, []
        if drafts:
            self._commit(_Flight(drafts, callbacks))
        elif self._flights:
            self._flights[-1].callbacks.extend(callbacks)
        else:
            _call(callbacks, None)

    def _commit(self, flight: _Flight) -> None:
        self._flights.append(flight)
        commits = [draft.commit() for draft in flight.drafts]
        self._engine.commit(commits).on_done(functools.partial(self._done, flight))

    def _done(self, flight: _Flight, answer: Answer[list[CommitResult]]) -> None:
        self._flights.remove(flight)
        failure = answer.error
        results: Sequence[Any] = [failure] * len(flight.drafts) if failure is not None else answer.result()
        arrived: dict[QueueLane, None] = {}
        again: list[Draft] = []
        error: BaseException | None = None
        for draft, result in zip(flight.drafts, results, strict=True):
            if isinstance(result, Committed):
                self._bytes -= draft.bytes
                draft.accept(result.bases, arrived)
            elif isinstance(result, UnknownLog) and draft.without_gone(self._take_state):
                again.append(draft)
            else:
                self._bytes -= draft.bytes
                error = result
                self._refused(draft, result)
        if again:
            self._commit(_Flight(again, flight.callbacks))
        else:
            _call(flight.callbacks, error)
        if not self._draft.is_empty or self._cut or self._callbacks:
            self._schedule()
        if arrived:
            self._on_arrival(arrived)
        self._relieve()

    def _refused(self, draft: Draft, error: BaseException) -> None:
        log.warning("a commit of %d batches to queues is refused: %s", len(draft.batches), error)
        for extra in draft.extras:
            extra.resolved(error if isinstance(error, MainstemError) else EngineClosed(str(error)))
        for batch in draft.batches:
            for lane in (batch.lane, *(lane for lane, _ in batch.refers)):
                lane.queue.came(batch.count)
        there = [lane for lane in draft.dirty if not lane.is_gone]
        for lane in there:
            lane.cursor.change_all()
        if draft.laid_off:
            self._on_return([message for message in draft.laid_off if not message.lane.is_gone])
        if isinstance(error, StorageFull):
            self.is_full = True
            self._clock.call_later(FULL_PAUSE_S, self._try_again)
        if not isinstance(error, EngineClosed | DiskError):
            for lane in there:
                self.dirty(lane)

    def _try_again(self) -> None:
        self.is_full = False
        self._relieve()

    # Back-pressure

    @property
    def is_pressed(self) -> bool:
        """Whether publishers are to wait: the disk is full, or too much waits for it."""
        return self.is_full or self._bytes > OUTBOX_BYTES_MAX

    def not_full(self, queue: Queue) -> None:
        """A queue has room again, or is gone."""
        if queue in self.full_queues:
            self.full_queues.discard(queue)
            self._relieve()

    def when_relieved(self, callback: Callable[[], None]) -> None:
        """Call back once, when publishers may go on."""
        self._relieved.append(callback)

    def _relieve(self) -> None:
        if not self._relieved or self.full_queues or self.is_full or self._bytes > OUTBOX_BYTES_MAX // 2:
            return
        relieved, self._relieved = self._relieved, []
        for callback in relieved:
            callback()


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


def _finish(answer: Answer[None], _: Any, error: BaseException | None) -> None:
    if error is None:
        answer.resolve(None)
    else:
        answer.fail(error)


def _call(callbacks: Iterable[tuple[Done, Any]], error: BaseException | None) -> None:
    for callback, token in callbacks:
        try:
            callback(token, error)
        except Exception:
            # One caller's bug must not keep the others from their answers.
            log.exception("a callback failed")
