"""The queues of a broker: declared, found, deleted; and what they have in common.

A change is decided and committed in one step, and shown when it is durable. All runs on the event loop's thread.

Adapters publish through `outbox`, and say what becomes of delivered messages to `settling`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from mainstem.broker.clock import Clock
from mainstem.broker.dead_letters.routed_letters import RoutedLetters
from mainstem.broker.heavy_work import HeavyWork
from mainstem.broker.intake import Intake
from mainstem.broker.queues.declaration import QueueDeclaration
from mainstem.broker.queues.deletion import QueueDeletion
from mainstem.broker.queues.delivery.dispatcher import Dispatcher
from mainstem.broker.queues.delivery.priority_lane import PriorityLanes
from mainstem.broker.queues.delivery.streams import StreamReaders
from mainstem.broker.queues.lanes import OpenLanes
from mainstem.broker.queues.limits import QueueLimits
from mainstem.broker.queues.parts import QueueParts
from mainstem.broker.queues.publishing.outbox import Outbox
from mainstem.broker.queues.queue import Queue, QueueLane
from mainstem.broker.queues.reading import WindowReader
from mainstem.broker.queues.settings import QueueSettings
from mainstem.broker.queues.settling.rewinding import Rewinding
from mainstem.broker.queues.settling.settling import Settling
from mainstem.broker.queues.stored import StoredQueues
from mainstem.broker.queues.timers import Timers
from mainstem.broker.queues.warm_up import warm_up
from mainstem.broker.trace.chronicle import Chronicle
from mainstem.coordination.queues.entries import SCOPE, QueueEntry, put_paused
from mainstem.coordination.queues.properties import QueueProperties
from mainstem.storage.contract import ConfigureLog, Engine, LogChange, MoveFloor, Mutation
from mainstem.wire.messages.message import Message

if TYPE_CHECKING:
    from mainstem.broker.catalog.topics import Topics
    from mainstem.broker.routes import Routes
    from mainstem.coordination.catalog.catalog import Topic

FLOORS_AT_ONCE = 10_000
"""Floors of one commit, at the start."""
FLOOR_DELAY_MS = 1_000
"""How long retention may not know yet what is settled."""


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
        limits: QueueLimits = QueueLimits(),  # noqa: B008
        chronicle: Chronicle | None = None,
    ) -> None:
        self.clock = clock
        self.settings = settings
        self.now_ms = clock.now_ms
        self.generation = 0
        """Grows when a queue comes or goes."""
        self.rules_for: Callable[[str, str, QueueProperties], QueueProperties] = _as_declared
        """What is in force for a queue of this namespace and name; policies set it."""
        self.heavy_work = heavy_work or HeavyWork()
        self._engine = engine
        self._named: dict[str, dict[str, Queue]] = {}
        self.timers = Timers(clock)
        self.outbox = Outbox(
            engine,
            clock,
            intake or Intake(engine),
            limits,
            take_state=self._take_state,
            on_arrival=self._lanes_arrived,
            on_return=self._commit_refused,
        )
        self._dispatcher = Dispatcher(clock, self.timers, self.outbox)
        self.dead_letters = RoutedLetters(self, routes)
        self.settling = Settling(self.now_ms, self.outbox, self.timers, self.dead_letters)
        self.reader = WindowReader(engine, self._dispatcher, self.outbox, self.settling, self.heavy_work, limits)
        self.settling.fetch = self.reader.fetch
        self._stored = StoredQueues(self)
        self.lanes = OpenLanes(
            engine, self._dispatcher, self.outbox, self.reader, self.settling, settings.window_bytes_max
        )
        self._declaration = QueueDeclaration(self, engine, topics, self._stored)
        self._deletion = QueueDeletion(self, engine, topics, routes, self._stored)
        self._rewinding = Rewinding(self.outbox, self._declaration, engine)
        self._priority_lanes = PriorityLanes(self.lanes, self._declaration, engine, topics)
        self.parts = QueueParts(
            now_ms=self.now_ms,
            limits=limits,
            lanes=self.lanes,
            priority_lanes=self._priority_lanes,
            dispatcher=self._dispatcher,
            outbox=self.outbox,
            reader=self.reader,
            streams=StreamReaders(engine, self.heavy_work),
            settling=self.settling,
            deletion=self._deletion,
            timers=self.timers,
            chronicle=chronicle or Chronicle(engine, clock),
        )

    async def load(self) -> None:
        """Make the queues that are stored, and delete those that end with the run of a broker."""
        entries = (await self._engine.load(SCOPE)).entries
        gone = self._stored.load(entries)
        await self._deletion.delete_all(gone)
        await self._tell_floors()
        self._declaration.keep_up()
        await self._priority_lanes.show(self._every())

    async def _tell_floors(self) -> None:
        """Tell retention what is settled. It learns that a second late, and a kill may have come before.

        Nothing else would tell it: a queue that is empty settles nothing more, and on a full disk no producer can publish to it.
        """
        changes: list[LogChange] = []
        for queue in self._every():
            if queue.is_borrowed:
                continue
            for number in queue.logs:
                floor = self._stored.floor(number)
                if floor:
                    changes.append(MoveFloor(number, floor))
        for at in range(0, len(changes), FLOORS_AT_ONCE):
            await self._engine.alter(changes[at : at + FLOORS_AT_ONCE])

    def warm_up(self) -> None:
        """After a start, once adapters have said how messages are addressed: let messages expire in idle queues too."""
        warm_up(self._every(), self.clock)

    async def close(self) -> None:
        """Store what is settled, and exactly what was given out."""
        self.timers.close()
        self.lanes.store_given()
        await self.outbox.drain()

    # Questions

    async def know(self, queues: Iterable[Queue]) -> None:
        """Until the counts of these queues are right: an engine may say only later where a log begins and ends."""
        for queue in queues:
            if queue.readers is not None:
                queue.open()
            await self.lanes.know(queue)
            if queue.readers is not None:
                await self.parts.streams.know(queue)

    async def open(self, queue: Queue) -> None:
        """Make the lanes of a queue, and wait until it is known what is in them."""
        queue.open()
        await self.know((queue,))

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
        """The queue that clients see as this topic."""
        return next((queue for queue in self.all(topic.namespace) if queue.topic_name == topic.name), None)

    def of_log(self, number: int) -> Queue | None:
        """The queue that has this log open."""
        lane = self.lanes.of_log(number)
        return None if lane is None else lane.queue

    def _every(self) -> list[Queue]:
        return [queue for queues in self._named.values() for queue in queues.values()]

    # Administration

    async def declare(
        self, namespace: str, name: str, properties: QueueProperties, *, owner: object | None = None
    ) -> Queue:
        """The queue, there already or new; durable when answered.

        Raises PropertiesDiffer, QueueLocked, InvalidQueue, and other kinds of MainstemError.
        """
        return await self._declaration.declare(namespace, name, properties, owner=owner)

    async def alter(self, queue: Queue, properties: QueueProperties) -> None:
        """Other limits, leases and retries for a queue that is there. Raises InvalidQueue and other kinds of MainstemError."""
        await self._declaration.alter(queue, properties)

    async def delete(self, queue: Queue, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Remove a queue; answers its number of ready messages. Raises QueueInUse, QueueNotEmpty, UnknownQueue."""
        return await self._deletion.delete(queue, if_unused=if_unused, if_empty=if_empty)

    async def purge(self, queue: Queue) -> int:
        """Settle all ready messages; answers how many. Messages that consumers hold stay with them."""
        return await self._deletion.purge(queue)

    async def seek(self, queue: Queue, *, time_ms: int | None = None, offset: int | None = None) -> None:
        """Go to a time, or an offset of each lane: everything from there on is ready again, everything before is settled."""
        await self.open(queue)
        await self._rewinding.seek(queue, time_ms=time_ms, offset=offset)

    async def preview_seek(self, queue: Queue, *, time_ms: int | None = None, offset: int | None = None) -> int:
        """How many messages would be ready, or are with consumers, from there on."""
        await self.open(queue)
        return await self._rewinding.preview(queue, time_ms=time_ms, offset=offset)

    async def redeliver(self, queue: Queue, selection: Mapping[int, Iterable[int]]) -> int:
        """Make these messages ready again, by lane and offset; answers how many were settled and still exist."""
        await self.open(queue)
        return await self._rewinding.redeliver(queue, selection)

    async def pause(self, queue: Queue, *, is_paused: bool) -> None:
        """Stop deliveries, or go on; a restart changes nothing in that. Raises kinds of MainstemError."""
        if queue.properties.is_lasting or queue.is_borrowed:
            await self._engine.alter((), [put_paused(queue.namespace, queue.name, is_paused=is_paused)])
        if is_paused:
            queue.pause()
        else:
            queue.resume()

    def set_rules(self, queue: Queue, rules: QueueProperties) -> None:
        """Other rules are in force from now on, for the messages that wait too."""
        if not queue.apply_rules(rules):
            return
        if queue.may_expire:
            queue.open()
        if queue.properties.kind == "stream" and not queue.is_borrowed:
            config = self._declaration.log_config(queue)
            for number in queue.logs:
                self.outbox.change(ConfigureLog(number, config))
        self._deletion.watch_idle(queue)
        queue.wake()

    # Queues that come and go

    def add(self, entry: QueueEntry, owner: object | None = None) -> Queue:
        """Make the queue of an entry that is durable."""
        rules = self.rules_for(entry.namespace, entry.name, entry.properties)
        queue = Queue(self.parts, entry, rules, self._stored, owner)
        self._named.setdefault(queue.namespace, {})[queue.name] = queue
        self.generation += 1
        self._deletion.watch_idle(queue)
        return queue

    def remove(self, queue: Queue) -> None:
        """A queue is gone: tell its consumers, and forget it."""
        if self._named.get(queue.namespace, {}).pop(queue.name, None) is None:
            return
        self.generation += 1
        self.end(queue)

    def end(self, queue: Queue) -> None:
        """A queue, or a subscription of a topic, gives nothing out any more."""
        queue.is_gone = True
        queue.is_plain = False
        for lane in queue.lanes:
            self.lanes.close(lane)
            self.timers.forget((lane, "due"))
        self.outbox.not_full(queue)
        self.timers.forget((queue, "idle"))
        self.timers.forget((queue, "head"))
        for reader in (queue.readers or {}).values():
            reader.is_gone = True
        for consumer in list(queue.consumers.all):
            consumer.cancelled()
        queue.consumers.all.clear()
        queue.end_getters()

    # What the outbox asks and says

    def _take_state(self, lane: QueueLane) -> tuple[list[Mutation], list[LogChange]]:
        """What of a lane this commit stores."""
        queue = lane.queue
        state: list[Mutation] = []
        changes: list[LogChange] = []
        if queue.is_stored:
            state = lane.cursor.take_changes(queue.stored.scope)
        if lane.floor_moved < lane.cursor.floor and not queue.is_borrowed:
            self.timers.at(self.now_ms() + FLOOR_DELAY_MS, (lane, "floor"), functools.partial(self._move_floor, lane))
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

    def _lanes_arrived(self, lanes: Iterable[QueueLane]) -> None:
        self._dispatcher.lanes_arrived(lanes)

    def _commit_refused(self, messages: Sequence[Message]) -> None:
        self.settling.returned(messages)
