"""What devices publish: one commit for each turn, with what waits for sessions, and with what must be stored with it.

a message --> the topic that its rule names
          --> queues of sessions and shared subscriptions, by reference where that is cheaper
          --> queues that AMQP has bound to `amq.topic`
          --> `mqtt.retained`
          --> the identifier of a message of QoS 2
once durable --> subscribers that are connected
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mainstem.broker.devices.messages import REPLAYED, DeviceMessage, Publication
from mainstem.broker.devices.retained import TOPIC as RETAINED_TOPIC
from mainstem.broker.queues.publishing.outcome import HOLD, REFUSED, TAKEN
from mainstem.coordination.catalog.partitioning import partition_of
from mainstem.coordination.commit_addition import SealedAddition
from mainstem.coordination.devices.errors import RetainedFull
from mainstem.coordination.routes.errors import UnknownExchange
from mainstem.model.errors import BatchTooLarge, MainstemError, UnknownLog
from mainstem.storage.contract import Append, Mutation
from mainstem.wire.messages.batch_underway import BatchUnderway, encode_content
from mainstem.wire.messages.header_block import add_header
from mainstem.wire.record_batch import recompress_batch, stamp_log_append_time

if TYPE_CHECKING:
    from mainstem.broker.devices.sessions import Audience
    from mainstem.broker.devices.space import DeviceSpace
    from mainstem.broker.queues.queue import Queue
    from mainstem.coordination.catalog.catalog import Topic

EXCHANGE = "amq.topic"
PLACES_MAX = 50_000
RECORD_OVERHEAD_BYTES = 64
_TO_AMQP = str.maketrans({"/": ".", ".": "/", "+": "*"})


def routing_key_of(name: str) -> str:
    """A topic in levels as RabbitMQ translates it."""
    return name.translate(_TO_AMQP)


class PlaceOfRecord(NamedTuple):
    """Where messages of one name go."""

    topic: Topic | None
    log: int
    key: bytes | None


class Turn:
    """What devices of one namespace publish until the commit is made: a CommitAddition."""

    def __init__(self, now_ms: int, on_sealed: Callable[[], None], on_end: Callable[[Turn], None]) -> None:
        self._now_ms = now_ms
        self._on_sealed = on_sealed
        self._on_end = on_end
        self.batches: dict[int, tuple[Topic, BatchUnderway]] = {}
        self.retained: list[DeviceMessage] = []
        self.messages: list[DeviceMessage] = []
        self.bases: list[tuple[int, int, int]] = []
        """Log, first offset and number of records of each batch, once it is durable."""

    def add(self, topic: Topic, log: int, content: bytes) -> None:
        """One record."""
        found = self.batches.get(log)
        if found is None:
            found = self.batches[log] = (topic, BatchUnderway(None, self._now_ms))
        found[1].add(content)

    def size_of(self, log: int) -> int:
        """Bytes that a log gets so far."""
        found = self.batches.get(log)
        return 0 if found is None else found[1].size

    def seal(self) -> SealedAddition:
        """Called once, when the commit is made."""
        self._on_sealed()
        appends = []
        for log, (topic, underway) in self.batches.items():
            batch = underway.seal()
            if topic.codec:
                batch = recompress_batch(batch, topic.codec, topic.compression_level)
            if topic.is_stamped:
                stamp_log_append_time(batch, self._now_ms)
            appends.append(Append(log, batch, is_keyed=True))
        return SealedAddition(appends)

    def resolved(self, outcome: Sequence[int] | MainstemError) -> None:
        """Called once, when it is durable, or is not."""
        if isinstance(outcome, MainstemError):
            self.messages, self.retained = [], []
            outcome = ()
        for base, (log, (_, underway)) in zip(outcome, self.batches.items(), strict=bool(outcome)):
            self.bases.append((log, base, underway.count))
        self._on_end(self)


class Publishing:
    """Of one namespace."""

    def __init__(self, space: DeviceSpace) -> None:
        self._space = space
        self._outbox = space.queues.outbox
        self._turn: Turn | None = None
        self._places: dict[str, PlaceOfRecord] = {}
        self._places_of: object = None
        self._exchange_queues: dict[str, tuple[Queue, ...]] = {}
        self._exchange_generation = -1

    def forget_places(self) -> None:
        """Rules or topics have changed."""
        self._places.clear()

    def publish(self, publication: Publication) -> int:
        """With the commit of this turn: TAKEN, HOLD or REFUSED.

        `outbox.when_durable` calls back when it is stored. Raises RetainedFull, BatchTooLarge, UnknownLog.
        """
        space, outbox = self._space, self._outbox
        if outbox.is_full:
            return REFUSED
        name, payload, qos, retain, headers, expiry_s, publisher, state = publication
        place = self._place_of(name)
        size = len(payload) + len(headers) + RECORD_OVERHEAD_BYTES
        if place.topic is not None and size + len(place.key or b"") > place.topic.batch_bytes_max:
            raise BatchTooLarge(
                f"a record of {size} bytes; topic {place.topic.name} takes {place.topic.batch_bytes_max}"
            )
        if retain and not space.retained.has_room_for(name, payload):
            raise RetainedFull("there are as many retained messages as may be")
        now_ms = space.now_ms()
        ttl_ms = expiry_s * 1000 if expiry_s >= 0 else -1
        message = DeviceMessage(name, payload, qos, retain, headers, now_ms + ttl_ms if ttl_ms >= 0 else 0, publisher)
        queues = self._queues_for(message)
        if place.topic is None and not queues and not retain and not state:
            space.give_out(message)
            return TAKEN
        if queues:
            outbox.make_way(queues)
        turn = self._turn_for(place.log, size)
        if place.topic is not None:
            turn.add(place.topic, place.log, encode_content(place.key, headers, payload))
        if retain:
            self._retain(turn, message)
        if state:
            outbox.mutate(state)  # into the same draft, behind what was stored before
        turn.messages.append(message)
        outcome = TAKEN
        if queues:
            outcome = outbox.put_along(queues, headers, payload, None, ttl_ms)
        outbox.grow(size)
        return HOLD if outcome == HOLD or outbox.intake.is_pressed else TAKEN

    def replay(self, queue: Queue, message: DeviceMessage) -> None:
        """Put a retained message into the queue of a session that has a new subscription."""
        headers = add_header(message.headers, REPLAYED, b"1")
        ttl_ms = max(message.expires_ms - self._space.now_ms(), 1) if message.expires_ms else -1
        self._outbox.put((queue,), headers, message.payload, None, ttl_ms)

    def from_records(self, messages: Sequence[tuple[DeviceMessage, int]], state: Sequence[Mutation]) -> None:
        """Messages that others have written to topics, with how long each lives yet: to queues and subscribers."""
        self._outbox.cut()  # the draft is not cut again before all of these are in it
        turn = self._turn_for(-1, 0)
        self._outbox.mutate(state)
        for message, ttl_ms in messages:
            if message.retain and self._space.retained.has_room_for(message.topic, bytes(message.payload)):
                self._retain(turn, message)
            turn.messages.append(message)
            queues = self._queues_for(message, through_exchange=False)
            if queues:
                self._outbox.put_along(queues, message.headers, message.payload, None, ttl_ms)

    def _queues_for(self, message: DeviceMessage, *, through_exchange: bool = True) -> tuple[Queue, ...]:
        space = self._space
        queues: tuple[Queue, ...] = ()
        if message.qos:
            audience = space.audience_of(message.topic)
            queues = audience.queues()
            if queues:
                if message.publisher is not None and any(target.has_no_local for target in audience.targets):
                    queues = self._without_publisher(audience, message)
                queues = space.with_room(queues)
        if through_exchange and (bound := self._bound_to_exchange(message)):
            queues = (*queues, *bound)
        return queues

    def _without_publisher(self, audience: Audience, message: DeviceMessage) -> tuple[Queue, ...]:
        kept: list[Queue] = []
        for target in audience.targets:
            narrowed = target.for_publisher(message.publisher)
            if (
                narrowed is not None
                and narrowed.qos
                and narrowed.session.is_kept
                and narrowed.session.queue is not None
            ):
                kept.append(narrowed.session.queue)
        kept += [group.queue for group in audience.groups if group.queue is not None]
        return tuple(kept)

    def _bound_to_exchange(self, message: DeviceMessage) -> tuple[Queue, ...]:
        space = self._space
        generation = space.queues.generation + space.router.generation
        if generation != self._exchange_generation or len(self._exchange_queues) > PLACES_MAX:
            self._exchange_generation = generation
            self._exchange_queues.clear()
        known = self._exchange_queues.get(message.topic)
        if known is None:
            try:
                names = space.router.route(EXCHANGE, routing_key_of(message.topic)).queues
            except UnknownExchange:
                names = ()
            found = [space.queues.find(space.namespace, name) for name in names]
            known = self._exchange_queues[message.topic] = tuple([queue for queue in found if queue is not None])
        return known

    def _retain(self, turn: Turn, message: DeviceMessage) -> None:
        topic = self._space.topics.get(RETAINED_TOPIC)
        if topic is None:
            raise UnknownLog(f"topic {RETAINED_TOPIC} is gone")
        kept = DeviceMessage(
            message.topic, bytes(message.payload), message.qos, True, message.headers, message.expires_ms
        )
        turn.retained.append(kept)
        key = message.topic.encode()
        turn.add(topic, topic.logs[0], encode_content(key, message.headers, message.payload or None))

    def _place_of(self, name: str) -> PlaceOfRecord:
        space = self._space
        if self._places_of != (changes := space.catalog_version()):
            self._places_of = changes
            self._places.clear()
        known = self._places.get(name)
        if known is None:
            place = space.rules.place_of(name)
            if place.topic is None:
                known = PlaceOfRecord(None, -1, None)
            else:
                topic = space.topics.get(place.topic)
                if topic is None:
                    space.make_topics_soon()
                    raise UnknownLog(f"topic {place.topic} is gone")
                key = place.key.encode()
                known = PlaceOfRecord(topic, topic.logs[partition_of(key, len(topic.logs))], key)
            if len(self._places) >= PLACES_MAX:
                self._places.clear()
            self._places[name] = known
        return known

    def _turn_for(self, log: int, size: int) -> Turn:
        turn = self._turn
        if turn is not None and turn.size_of(log) + size > self._space.limits.message_bytes_max // 2 and turn.batches:
            self._outbox.cut()
            turn = self._turn
        if turn is None:
            turn = self._turn = Turn(self._space.now_ms(), self._sealed, self._ended)
            self._outbox.add(turn)
        return turn

    def _sealed(self) -> None:
        self._turn = None
        self._space.following.begun()

    def _ended(self, turn: Turn) -> None:
        space = self._space
        for log, base, count in turn.bases:
            space.following.published(log, base, count)
        space.following.ended()
        for message in turn.retained:
            space.retained.put(message)
        for message in turn.messages:
            space.give_out(message)
