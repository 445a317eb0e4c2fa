"""The queues of a broker: declared, found, deleted; and what they have in common.

A change is decided and committed in one step, and shown when it is durable. All runs on the event loop's thread.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from mainstem.broker.clock import Clock
from mainstem.broker.heavy_work import HeavyWork
from mainstem.broker.intake import Intake
from mainstem.broker.queues.declaration import Declaring
from mainstem.broker.queues.deletion import Ending
from mainstem.broker.queues.delivery.consumers import Consumer
from mainstem.broker.queues.delivery.priority_lane import UrgentLanes
from mainstem.broker.queues.delivery.streams import StreamReader
from mainstem.broker.queues.publishing.committing import WINDOW_BYTES_MAX
from mainstem.broker.queues.publishing.outbox import Outbox
from mainstem.broker.queues.queue import Queue, QueueLane
from mainstem.broker.queues.reading import Reader
from mainstem.broker.queues.settings import QueueSettings
from mainstem.broker.queues.settling.dead_lettering import DeadLettering, Envelopes
from mainstem.broker.queues.settling.rewinding import Rewinding
from mainstem.broker.queues.settling.settling import Settling
from mainstem.broker.queues.stored import StoredQueues
from mainstem.broker.queues.timers import Upkeep
from mainstem.broker.queues.warm_up import awaken
from mainstem.coordination.queues.entries import SCOPE, put_attempts, put_given, put_paused, put_rest
from mainstem.coordination.queues.lane import Lane
from mainstem.coordination.queues.properties import QueueProperties
from mainstem.coordination.subscriptions.cursor import Cursor
from mainstem.storage.answer import Answer
from mainstem.storage.contract import ConfigureLog, Edge, Engine, LogChange, LogConfig, LogEnd, MoveFloor, Mutation
from mainstem.wire.messages.message import Message

if TYPE_CHECKING:
    from mainstem.broker.catalog.topics import Topics
    from mainstem.broker.routes import Routes
    from mainstem.coordination.catalog.catalog import Topic

log = logging.getLogger(__name__)

RESERVED_OFFSETS = 16_384
"""How many offsets are called given out at once."""
UNRESERVED = 1 << 62
FLOORS_AT_ONCE = 10_000
"""Floors of one commit, at the start."""
FLOOR_DELAY_MS = 1_000
"""How long what is settled may wait before retention hears of it."""


def _as_declared(_namespace: str, _name: str, properties: QueueProperties) -> QueueProperties:
    return properties


class Queues:
    """All of them."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        topics: Topics,
        routes: Routes,
        settings: QueueSettings = QueueSettings(),  # noqa: B008
        intake: Intake | None = None,
        heavy_work: HeavyWork | None = None,
    ) -> None:
        self.clock = clock
        self.settings = settings
        self.now_ms = clock.now_ms
        self.generation = 0
        """Grows when a queue comes or goes."""
        self.rules_for: Callable[[str, str, QueueProperties], QueueProperties] = _as_declared
        """What is in force for a queue of this namespace and name; policies set it."""
        self._engine = engine
        self._named: dict[str, dict[str, Queue]] = {}
        self._lanes: dict[int, QueueLane] = {}
        """Open lanes, by log."""
        self._watch = engine.watch(self._moved)
        self._grown: dict[int, LogEnd] = {}
        self._woken: dict[Queue, None] = {}
        self._is_scheduled = False
        self.upkeep = Upkeep(clock)
        self.outbox = Outbox(
            engine,
            clock,
            intake or Intake(engine),
            take_state=self._take_state,
            on_arrival=self._came,
            on_return=self._came_back,
        )
        self.heavy_work = heavy_work or HeavyWork()
        self.reader = Reader(engine, self._read, self.outbox.dirty, self._rest, self.heavy_work)
        self._dead = DeadLettering(self, routes)
        self._settling = Settling(self, self.outbox, self.upkeep, self._dead)
        self._stored = StoredQueues(self)
        self._declaring = Declaring(self, engine, topics, self._stored)
        self._ending = Ending(self, engine, topics, routes, self._stored)
        self._rewinding = Rewinding(self, engine)
        self._urgent = UrgentLanes(self, engine, topics)
        self.make_urgent_lane = self._urgent.make
        self.settle = self._settling.settle
        self.requeue = self._settling.requeue
        self.reject: Callable[..., None] = self._settling.reject
        self.letters_of = self._dead.letters
        self.declare = self._declaring.declare
        self.delete = self._ending.delete
        self.purge = self._ending.purge
        self.seek = self._rewinding.seek
        self.redeliver = self._rewinding.redeliver

    async def load(self) -> None:
        """Take in what is stored; let go of what was not to outlast the last run."""
        entries = (await self._engine.load(SCOPE)).entries
        gone = self._stored.load(entries)
        await self._ending.let_go(gone)
        await self._tell_floors()
        self._declaring.keep_up()
        await self._urgent.show(queue for queues in self._named.values() for queue in queues.values())

    async def _tell_floors(self) -> None:
        """Tell retention what is settled. It hears of that a second late, which a kill may have come before.

        Nobody else would tell it: a queue that is empty settles nothing more, and on a full disk nobody can publish to it.
        """
        changes: list[LogChange] = []
        for queue in [queue for queues in self._named.values() for queue in queues.values() if not queue.is_borrowed]:
            for number in queue.logs:
                floor = self._stored.floor(number)
                if floor:
                    changes.append(MoveFloor(number, floor))
        for at in range(0, len(changes), FLOORS_AT_ONCE):
            await self._engine.alter(changes[at : at + FLOORS_AT_ONCE])

    def awaken(self) -> None:
        """After a start, once it is known how messages were addressed: time goes on in queues that nobody uses, too."""
        awaken([queue for queues in self._named.values() for queue in queues.values()], self.clock)

    async def close(self) -> None:
        """Store what is settled, and exactly what was given out."""
        self.upkeep.close()
        for lane in self._lanes.values():
            if not lane.is_gone and max(lane.given, lane.given_out) < lane.reserved < UNRESERVED:
                self.outbox.mutate([put_given(lane.log, max(lane.given, lane.given_out))])
        await self.outbox.drain()

    # Questions

    def find(self, namespace: str, name: str) -> Queue | None:
        """The queue of this name."""
        queues = self._named.get(namespace)
        return None if queues is None else queues.get(name)

    def all(self, namespace: str) -> Iterable[Queue]:
        """The queues of a namespace."""
        return list(self._named.get(namespace, {}).values())

    def namespaces(self) -> Iterable[str]:
        """Those that have queues."""
        return list(self._named)

    def of_topic(self, topic: Topic) -> Queue | None:
        """The queue that is seen as this topic."""
        return next((queue for queue in self.all(topic.namespace) if queue.topic_name == topic.name), None)

    def of_log(self, number: int) -> Queue | None:
        """The queue that has this log open."""
        lane = self._lanes.get(number)
        return None if lane is None else lane.queue

    @property
    def envelopes(self) -> Envelopes:
        """How messages were addressed; the adapter that knows sets it."""
        return self._dead.envelopes

    @envelopes.setter
    def envelopes(self, envelopes: Envelopes) -> None:
        self._dead.envelopes = envelopes

    def log_config(self, queue: Queue, *, held: bool) -> LogConfig:
        """What the logs of a queue promise now; held: nothing is taken by age or size."""
        config = self._declaring.log_config(queue)
        return msgspec.structs.replace(config, delete=False) if held else config

    # What queues need

    def add(self, queue: Queue) -> None:
        """There is a new one."""
        self._named.setdefault(queue.namespace, {})[queue.name] = queue
        self.generation += 1
        self.watch_idle(queue)

    def remove(self, queue: Queue) -> None:
        """It is gone: whoever consumed it is told."""
        if self._named.get(queue.namespace, {}).pop(queue.name, None) is None:
            return
        self.generation += 1
        queue.is_gone = True
        queue.is_plain = False
        for lane in queue.lanes:
            lane.is_gone = True
            self._lanes.pop(lane.log, None)
            self._watch.remove(lane.log)
            for offset in lane.rests:
                self.upkeep.forget((lane, offset))
        self.outbox.not_full(queue)
        self.upkeep.forget((queue, "idle"))
        self.upkeep.forget((queue, "head"))
        self.upkeep.forget((queue, "lease"))
        for reader in (queue.readers or {}).values():
            reader.is_gone = True
        for consumer in list(queue.consumers.all):
            consumer.cancelled()
        queue.consumers.all.clear()
        queue.end_getters()

    def open_lanes(self, queue: Queue) -> list[QueueLane]:
        """The lanes of a queue that is used for the first time since the start."""
        return [self.open_lane(queue, number, log_number) for number, log_number in enumerate(queue.logs)]

    def open_lane(self, queue: Queue, number: int, log_number: int) -> QueueLane:
        """One lane, as it was stored."""
        stored = self._stored.take(log_number)
        self._pass_over(queue, stored.cursor)
        lane = self._add_lane(queue, number, stored.cursor, self._watch.add(log_number).stable)
        lane.given, lane.rewound = min(stored.given, lane.end), stored.rewound
        if queue.properties.is_lasting or queue.is_borrowed:
            lane.reserved = lane.reserve_at = stored.given
        floor = lane.cursor.floor
        lane.rests = {offset: (due_ms, None) for offset, due_ms in stored.rests.items() if offset >= floor}
        lane.rests_changed = {offset for offset in stored.rests if offset < floor}
        lane.attempts = stored.attempts
        return lane

    def _pass_over(self, queue: Queue, cursor: Cursor) -> None:
        """What retention took meanwhile."""
        start = self._engine.offset_at(cursor.log, Edge.START)
        if start.done and start.error is None and start.result().offset > cursor.floor:
            first, after = cursor.floor, start.result().offset
            queue.lost += after - first - cursor.settled.count(first, after)
            cursor.raise_floor(after)

    def new_lane(self, queue: Queue, number: int, log_number: int) -> QueueLane:
        """One whose log is being made; `follow` it when it is."""
        lane = self._add_lane(queue, number, Cursor(log_number, 0), 0)
        lane.reserved = lane.reserve_at = 0
        return lane

    def follow(self, lane: QueueLane) -> None:
        """Be told of what others write to a lane that was made just now."""
        lane.extend(self._watch.add(lane.log).stable)

    def drop_lane(self, lane: QueueLane) -> None:
        """Its log could not be made."""
        lane.is_gone = True
        lane.queue.lanes.remove(lane)
        del self._lanes[lane.log]

    def _add_lane(self, queue: Queue, number: int, cursor: Cursor, end: int) -> QueueLane:
        lane: QueueLane = Lane(queue, number, cursor, end)
        self._lanes[lane.log] = lane
        share = min(WINDOW_BYTES_MAX, self.settings.window_bytes_max // len(self._lanes))
        self.outbox.window_bytes_max = self.reader.window_bytes_max = share
        return lane

    def count_unopened(self, queue: Queue) -> int | None:
        """Messages of a queue whose lanes are not made; None: that cannot be said."""
        count = 0
        for number in queue.logs:
            start, end = (self._engine.offset_at(number, edge) for edge in (Edge.START, Edge.END))
            if not (start.done and end.done) or start.error is not None or end.error is not None:
                return None
            count += max(end.result().offset - self._stored.settled(number, start.result().offset), 0)
        return count

    def read_stream(self, queue: Queue, consumer: Consumer) -> StreamReader:
        """Begin to read a stream where the consumer wants."""
        return StreamReader(self._engine, queue, consumer, self.heavy_work)

    def stream_count(self, queue: Queue) -> int:
        """How many records a stream holds."""
        lane = queue.lanes[0]
        start = self._engine.offset_at(lane.log, Edge.START)
        return lane.end - (start.result().offset if start.done and start.error is None else 0)

    def reserve(self, lane: QueueLane) -> None:
        """Store that some more messages may be given out; they are when it is durable.

        After a crash nobody knows which of them were. So all of them are called redeliveries then: some wrongly, never the
        other way round.
        """
        if lane.is_reserving:
            return
        lane.is_reserving = True
        until = max(lane.ready[-1].offset + 1, lane.tail) + RESERVED_OFFSETS

        def done(answer: Answer[None]) -> None:
            lane.is_reserving = False
            if answer.error is None and not lane.is_gone:
                lane.reserved, lane.reserve_at = until, until - RESERVED_OFFSETS // 2
                lane.queue.wake()

        # By itself: with what is published it would be refused by a disk that is full.
        self._engine.alter((), [put_given(lane.log, until)]).on_done(done)

    def rules_changed(self, queue: Queue) -> None:
        """Other limits and times: look at what they say of what is there."""
        if queue.may_expire:
            queue.open()
        if queue.properties.kind == "stream" and not queue.is_borrowed:
            config = self._declaring.log_config(queue)
            for number in queue.logs:
                self.outbox.change(ConfigureLog(number, config))
        self.watch_idle(queue)
        self.wake(queue)

    def wake(self, queue: Queue) -> None:
        """Look after this queue at the end of the turn."""
        self._woken[queue] = None
        self._schedule()

    def arrived(self, queue: Queue, *, just_now: bool = False) -> None:
        """There are more messages than before: keep the limits, and give them out."""
        try:
            if just_now and queue.may_expire:
                queue.dispatch_arrivals()
            self._look_after(queue)
        except Exception:
            # A consumer's bug must not keep other queues from theirs.
            log.exception("queue %s: giving out failed", queue.name)

    def _look_after(self, queue: Queue) -> None:
        if queue.is_limited and queue.rules.overflow == "drop-head" and queue.is_over():
            queue.drop_head()
        if queue.may_expire:
            self.look_at_head(queue)
        queue.dispatch()
        if queue in self.outbox.full_queues and not queue.is_over(queue.incoming):
            self.outbox.not_full(queue)

    def look_at_head(self, queue: Queue) -> None:
        """Let go of what has expired, now and when the next is due."""
        if not queue.is_gone:
            due_ms = queue.look_at_head()
            if due_ms:
                self.upkeep.at(due_ms, (queue, "head"), functools.partial(self.look_at_head, queue))

    def unused(self, queue: Queue) -> None:
        """The last consumer has gone."""
        if queue.properties.auto_delete and queue.had_consumers and not queue.is_gone:
            self._ending.delete_unused(queue)
        self.watch_idle(queue)

    def watch_idle(self, queue: Queue) -> None:
        """Let a queue go that nobody uses for too long, if it says so."""
        idle_ms = queue.rules.expires_ms
        if idle_ms is None or queue.is_gone:
            return
        due_ms = queue.used_ms + idle_ms
        if queue.consumers.all:
            return
        if due_ms <= self.now_ms():
            self._ending.delete_unused(queue)
        else:
            self.upkeep.at(due_ms, (queue, "idle"), functools.partial(self.watch_idle, queue))

    async def pause(self, queue: Queue, *, is_paused: bool) -> None:
        """Give nothing out, or give out again; a restart changes nothing in that. Raises kinds of MainstemError."""
        if queue.properties.is_lasting or queue.is_borrowed:
            await self._engine.alter((), [put_paused(queue.namespace, queue.name, is_paused=is_paused)])
        if is_paused:
            queue.pause()
        else:
            queue.resume()

    def bury_refused(self, queue: Queue, headers: bytes, value: bytes | memoryview, key: bytes | None) -> None:
        """A message that a full queue did not take goes where its dead letters go."""
        message = Message(queue.lane_of(0), -1, self.now_ms(), key, headers, value, 0)
        for put in self._dead.letters(message, "maxlen"):
            self.outbox.put(put.queues, put.headers, put.value, key=put.key, priority=put.priority)

    # -----------------------------------------------------------------------------------------------------------------

    def _take_state(self, lane: QueueLane) -> tuple[list[Mutation], list[LogChange]]:
        """What of a lane is to be stored with this commit."""
        queue = lane.queue
        state: list[Mutation] = []
        changes: list[LogChange] = []
        if queue.properties.is_lasting or queue.is_borrowed:
            state = lane.cursor.take_changes(SCOPE)
            if lane.rests_changed:
                state += [
                    put_rest(lane.log, o, lane.rests[o][0] if o in lane.rests else None) for o in lane.rests_changed
                ]
                lane.rests_changed.clear()
            if lane.attempts_changed:
                state += [put_attempts(lane.log, o, lane.attempts.get(o)) for o in lane.attempts_changed]
                lane.attempts_changed.clear()
        if lane.floor_moved < lane.cursor.floor and not queue.is_borrowed:
            self.upkeep.at(self.now_ms() + FLOOR_DELAY_MS, (lane, "floor"), functools.partial(self._move_floor, lane))
        if lane.rewound and lane.cursor.floor >= lane.rewound:
            more_state, more_changes = self._rewinding.decide_caught_up(lane)
            state += more_state
            changes += more_changes
        return state, changes

    def _move_floor(self, lane: QueueLane) -> None:
        floor = lane.cursor.floor
        if not lane.is_gone and floor > lane.floor_moved:
            lane.floor_moved = floor
            self.outbox.change(MoveFloor(lane.log, floor))

    def _came(self, lanes: Iterable[QueueLane]) -> None:
        for queue in dict.fromkeys([lane.queue for lane in lanes]):
            if not queue.is_gone:
                self.arrived(queue, just_now=True)

    def _came_back(self, messages: Sequence[Message]) -> None:
        self._settling.returned(messages)

    def _read(self, lane: QueueLane) -> None:
        self.arrived(lane.queue)

    def _rest(self, message: Message, due_ms: int) -> None:
        self._settling.rest(message, due_ms)

    def _moved(self, ends: Mapping[int, LogEnd]) -> None:
        """Logs have grown. What we published ourselves is known when the answers of this group are through."""
        for number, end in ends.items():
            if end.end < 0:
                lane = self._lanes.get(number)
                if lane is not None:
                    lane.is_gone = True
            self._grown[number] = end
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self.clock.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._is_scheduled = False
        grown, self._grown = self._grown, {}
        for number, end in grown.items():
            lane = self._lanes.get(number)
            if lane is not None and not lane.is_gone and end.stable > lane.end:
                lane.extend(end.stable)
                self._woken[lane.queue] = None
        woken, self._woken = self._woken, {}
        for queue in woken:
            if not queue.is_gone:
                self.arrived(queue)
