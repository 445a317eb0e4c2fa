"""SUBSCRIBE and what ends or moves a subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from mainstem.broker.log import Edge, Place, TimeAfter
from mainstem.broker.queues import Queue, QueueProperties
from mainstem.broker.queues.delivery.sieve import Sieve
from mainstem.broker.queues.delivery.slot_dispatch import SlotDispatch
from mainstem.broker.queues.delivery.unit_dispatch import UnitDispatch
from mainstem.broker.subscriptions.topic_subscriptions import Subscription, SubscriptionWish
from mainstem.model.errors import MainstemError
from mainstem.protocols.pulsar.codec.schema import UINT64_MAX, Kind
from mainstem.protocols.pulsar.errors import CommandRefused, ServerError
from mainstem.protocols.pulsar.handlers.calls import Handler, Speaker
from mainstem.protocols.pulsar.handlers.consuming import (
    EXCLUSIVE,
    FAILOVER,
    KEY_SHARED,
    SHARED,
    PulsarConsumer,
)
from mainstem.protocols.pulsar.handlers.key_slots import KeySlots, slot_of
from mainstem.protocols.pulsar.handlers.schemas import schema_of
from mainstem.protocols.pulsar.handlers.topics import Log
from mainstem.protocols.pulsar.mapping.messages import due_ms_of, unit_of
from mainstem.protocols.pulsar.mapping.names import topic_name

if TYPE_CHECKING:
    from mainstem.protocols.pulsar.handlers.parts import PulsarParts

ORDERINGS = {EXCLUSIVE: "exclusive", SHARED: "shared", FAILOVER: "failover", KEY_SHARED: "key"}
EARLIEST_POSITION = 1
LATEST = 0x7FFF_FFFF_FFFF_FFFF
NAME_CHARACTERS_MAX = 1_024
KEPT_S = 60.0
"""How long the subscription of a reader that was moved waits for it."""


class Subscribing:
    """For all connections."""

    def __init__(self, parts: PulsarParts) -> None:
        self._parts = parts
        self._broker = parts.broker
        self._topics = parts.topics
        self._subscriptions = parts.broker.topic_subscriptions
        self.consumers: dict[Queue, list[PulsarConsumer]] = {}
        self._slots: dict[Queue, KeySlots] = {}

    def handlers(self) -> dict[int, Handler]:
        """By type."""
        return {
            Kind.SUBSCRIBE: self.subscribe,
            Kind.UNSUBSCRIBE: self.unsubscribe,
            Kind.CLOSE_CONSUMER: self.close,
            Kind.SEEK: self.seek,
            Kind.GET_LAST_MESSAGE_ID: self.last_message_id,
        }

    # Coming

    async def subscribe(self, connection: Speaker, said: Any) -> None:
        """A consumer of a topic, which may come with it."""
        number = said.consumer_id
        if number in connection.consumers or (Kind.SUBSCRIBE, number) in connection.reserved:
            raise CommandRefused(ServerError.SERVICE_NOT_READY, f"Consumer {number} is already present")
        if len(connection.consumers) >= self._parts.settings.producers_per_connection_max:
            raise CommandRefused(ServerError.TOO_MANY_REQUESTS, "the connection has too many consumers")
        if not 0 < len(said.subscription) <= NAME_CHARACTERS_MAX or said.subType not in ORDERINGS:
            raise CommandRefused(ServerError.METADATA, "the name or the type of the subscription is missing or unknown")
        name = topic_name(said.topic)
        connection.check(name, "read")
        connection.reserved.add((Kind.SUBSCRIBE, number))
        try:
            may_create = not said.HasField("force_topic_creation") or said.force_topic_creation
            log = await self._topics.open(name, may_create=may_create)
            if said.HasField("schema"):
                await self._parts.schemas.check(log.topic, schema_of(said.schema))
            queue = await self._open(log, said)
            consumer = PulsarConsumer(connection, said, name, log, queue)
            if connection.is_closed:
                return
            self._attach(consumer)
        finally:
            connection.reserved.discard((Kind.SUBSCRIBE, number))
        found = self._subscriptions.find(log.topic.namespace, log.topic.name, said.subscription, log.part)
        if found is not None:
            self._subscriptions.keep(found, is_kept=False)
        consumer.since_ms = self._broker.clock.now_ms()
        self.consumers.setdefault(queue, []).append(consumer)
        connection.consumers[number] = consumer
        connection.succeed(said)
        consumer.is_known = True
        if self._parts.producing.rules(log).is_terminated:
            consumer.watch_end()
        if consumer.is_active is not None or consumer.kind == FAILOVER:
            consumer.tell_active()

    async def _open(self, log: Log, said: Any) -> Queue:
        is_durable = not said.HasField("durable") or said.durable
        known = self._subscriptions.find(log.topic.namespace, log.topic.name, said.subscription, log.part)
        if known is not None and known.entry.properties.durable != is_durable and known.queue is not None:
            if known.queue.consumers.all:
                raise CommandRefused(ServerError.NOT_ALLOWED, "the subscription is of another durability")
        properties = said.subscription_properties
        arguments = b"" if known is None else known.entry.properties.arguments
        if known is None and properties:
            arguments = msgspec.msgpack.encode({one.key: one.value for one in properties})
        wish = SubscriptionWish(
            log.topic.namespace,
            log.topic.name,
            said.subscription,
            QueueProperties(durable=is_durable, ordering=ORDERINGS[said.subType], arguments=arguments),  # type: ignore[arg-type]
            log.part,
            EDGE_END if known is not None else await self._start(log, said),
            sieve=await self._sieve(log, said),
        )
        return await self.open(wish)

    async def _sieve(self, log: Log, said: Any) -> Sieve | None:
        """Delays are for shared subscriptions; a compacted view is for the others."""
        if said.subType in (SHARED, KEY_SHARED):
            if said.read_compacted:
                raise CommandRefused(ServerError.NOT_ALLOWED, "readCompacted only allowed on failover or exclusive")
            return Sieve(due_ms=due_ms_of)
        view = await self._parts.compaction.view(log.topic, log.part) if said.read_compacted else None
        return None if view is None else Sieve(selects=view.shows)

    async def open(self, wish: SubscriptionWish) -> Queue:
        """What gives the messages of a subscription out."""
        queue = await self._subscriptions.open(wish)
        if queue not in self._slots:
            slots = self._slots[queue] = KeySlots()
            is_keyed = wish.properties.ordering == "key"
            queue.dispatch_by(SlotDispatch(slot_of, unit_of, slots.owner_of) if is_keyed else UnitDispatch(unit_of))
            self._slots = {one: some for one, some in self._slots.items() if not one.is_gone}
        return queue

    def _attach(self, consumer: PulsarConsumer) -> None:
        """Begin to serve it. Raises QueueBusy, CommandRefused."""
        slots = self._slots[consumer.queue]
        if consumer.kind == KEY_SHARED:
            slots.add(consumer)
        try:
            consumer.queue.attach(consumer)
        except MainstemError:
            slots.remove(consumer)
            raise

    async def prepare(self, log: Log, name: str) -> None:
        """A subscription that a producer wants to be there, from the beginning of the topic."""
        if self._subscriptions.find(log.topic.namespace, log.topic.name, name, log.part) is None:
            properties = QueueProperties(ordering="exclusive")
            wish = SubscriptionWish(log.topic.namespace, log.topic.name, name, properties, log.part, Edge.START)
            await self.open(wish)

    async def _start(self, log: Log, said: Any) -> Place | int:
        """Where a new subscription begins."""
        if said.HasField("start_message_id"):
            return await self.place_after(log, said.start_message_id)
        if said.start_message_rollback_duration_sec:
            return TimeAfter(self._broker.clock.now_ms() - said.start_message_rollback_duration_sec * 1_000)
        return Edge.START if said.initialPosition == EARLIEST_POSITION else Edge.END

    async def place_after(self, log: Log, identity: Any) -> Place | int:
        """Behind an entry; an identity in a batch is at its entry, of which the client drops what it knows."""
        edge = edge_of(log, identity)
        if edge is not None:
            return edge
        unit = await self._topics.unit_at(log.number, identity.entryId)
        if identity.HasField("batch_index") and identity.batch_index >= 0:
            return identity.entryId if unit is None else unit.first
        return int(identity.entryId + 1 if unit is None else unit.last + 1)

    # Going

    def left(self, consumer: PulsarConsumer) -> None:
        """It is gone."""
        slots = self._slots.get(consumer.queue)
        if slots is not None:
            slots.remove(consumer)
        others = self.consumers.get(consumer.queue)
        if others is not None and consumer in others:
            others.remove(consumer)
            if not others:
                del self.consumers[consumer.queue]

    def tell_ends(self, log: int) -> None:
        """The topic of this log takes nothing more: consumers are told when they have been given all."""
        for consumers in list(self.consumers.values()):
            for consumer in consumers:
                if consumer.log.number == log:
                    consumer.watch_end()

    def close(self, connection: Speaker, said: Any) -> None:
        """The client has no use for it any more. Answered once all that it has acknowledged is durable."""
        consumer = connection.consumers.pop(said.consumer_id, None)
        if consumer is not None:
            consumer.leave()
        connection.session.owe()

        def done(_: object, error: BaseException | None) -> None:
            connection.succeed(said)
            connection.session.settle()

        self._broker.queues.outbox.when_durable(done, None)

    def subscription_of(self, consumer: PulsarConsumer) -> Subscription:
        """The one that a consumer has. Raises CommandRefused."""
        topic = consumer.log.topic
        found = self._subscriptions.find(topic.namespace, topic.name, consumer.subscription, consumer.log.part)
        if found is None:
            raise CommandRefused(ServerError.SUBSCRIPTION_NOT_FOUND, f"Subscription {consumer.subscription} not found")
        return found

    async def unsubscribe(self, connection: Speaker, said: Any) -> None:
        """Nothing is left of it. Only its last consumer may say so."""
        consumer = connection.consumer(said)
        others = len(consumer.queue.consumers.all) > 1
        if others and not said.force:
            raise CommandRefused(ServerError.METADATA, "Unconnected or shared consumer attempting to unsubscribe")
        subscription = self.subscription_of(consumer)
        connection.consumers.pop(said.consumer_id, None)
        consumer.leave()
        if subscription.entry.properties.durable:
            await self._subscriptions.remove(subscription)
        connection.succeed(said)

    # Moving

    async def seek(self, connection: Speaker, said: Any) -> None:
        """Go to a message or a time: consumers are closed, and come again."""
        consumer = connection.consumer(said)
        subscription = self.subscription_of(consumer)
        if said.HasField("message_id"):
            offset = await self.place_at(consumer.log, said.message_id)
            await self.move(subscription, offset=offset)
        elif said.HasField("message_publish_time"):
            await self.move(subscription, time_ms=min(said.message_publish_time, LATEST))
        else:
            raise CommandRefused(ServerError.METADATA, "neither a message nor a time is named")
        connection.succeed(said)

    async def place_at(self, log: Log, identity: Any) -> int:
        """The first offset of the entry that an identity is of."""
        start = (await self._broker.find(log.number, Edge.START)).offset
        end = (await self._broker.find(log.number, Edge.END)).offset
        edge = edge_of(log, identity)
        if edge is not None:
            return start if edge is Edge.START else end
        unit = await self._topics.unit_at(log.number, identity.entryId)
        return min(max(identity.entryId, start), end) if unit is None else unit.first

    async def move(self, subscription: Subscription, *, offset: int | None = None, time_ms: int | None = None) -> None:
        """Close its consumers, and go there. Durable when answered."""
        queue = subscription.queue
        self._subscriptions.keep(subscription, is_kept=True)
        try:
            for one in list(self.consumers.get(queue, ())) if queue is not None else ():
                one.close()
            await self._subscriptions.seek(subscription, offset=offset, time_ms=time_ms)
        finally:
            self._broker.clock.call_later(KEPT_S, lambda: self._subscriptions.keep(subscription, is_kept=False))

    async def last_message_id(self, connection: Speaker, said: Any) -> None:
        """The last message of the topic, and how far the subscription is."""
        consumer = connection.consumer(said)
        log = consumer.log
        unit = await self._topics.last_unit(log.number)
        identity: dict[str, int] = {"ledgerId": UINT64_MAX, "entryId": UINT64_MAX, "partition": log.partition}
        if unit is not None:
            identity |= {"ledgerId": log.number, "entryId": unit.first}
            if unit.messages:
                identity["batch_index"] = unit.messages - 1
        connection.say(
            Kind.GET_LAST_MESSAGE_ID_RESPONSE,
            last_message_id=identity,
            request_id=said.request_id,
            consumer_mark_delete_position=await self._mark(consumer),
        )

    async def _mark(self, consumer: PulsarConsumer) -> dict[str, int]:
        floor = consumer.queue.lanes[0].cursor.floor if consumer.queue.lanes else 0
        unit = await self._topics.unit_at(consumer.log.number, floor)
        before = (floor if unit is None else unit.first) - 1
        return {"ledgerId": consumer.log.number, "entryId": before & UINT64_MAX}


EDGE_END = Edge.END


def edge_of(log: Log, identity: Any) -> Edge | None:
    """Of an identity that is no message of this log: before all, or behind all."""
    ledger, entry = identity.ledgerId, identity.entryId
    if ledger == log.number and entry < LATEST:
        return None
    if ledger == log.number:
        return Edge.START if entry > LATEST else Edge.END
    is_before = ledger > LATEST or ledger < log.number
    return Edge.START if is_before else Edge.END
