"""What one client is given: packet identifiers, the window of what it has not acknowledged, aliases, and what waits.

Identifiers of messages from the session's own queue follow from their offsets. So a message has the same one after a kill of
the broker, and a client that has seen it at QoS 2 knows it again. Others count down from the highest one.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from mainstem.broker.devices import DeviceMessage
from mainstem.broker.queues import Message, Queue
from mainstem.protocols.mqtt.codec.encoding import encode_ack, encode_publish_head
from mainstem.protocols.mqtt.codec.fields import encode_varint
from mainstem.protocols.mqtt.codec.packets import V5, Ack, PacketType
from mainstem.protocols.mqtt.codec.properties import encode_entries
from mainstem.protocols.mqtt.errors import Reason

if TYPE_CHECKING:
    from mainstem.broker.devices.sessions import Group
    from mainstem.protocols.mqtt.handlers.connection import MqttConnection

IDENTIFIERS = 65_535
JOINED_BYTES_MAX = 4_096
"""Packets up to this size are one piece for all their receivers."""


class Waiting(NamedTuple):
    """A message that the client is given when its window has room."""

    message: DeviceMessage
    qos: int
    retain: bool
    identifiers: tuple[int, ...]
    origin: Message | None = None
    """The message of a queue that it is."""
    is_own: bool = False
    """Whether that is the session's own queue."""


class Flight(NamedTuple):
    """A message that the client has not acknowledged."""

    qos: int
    origin: Message | None
    is_released: bool = False
    """Whether only PUBCOMP is awaited."""


class QueueConsumer:
    """Takes from one queue for the client."""

    __slots__ = (
        "_outgoing",
        "group",
        "queue",
    )

    priority, room_bytes, is_exclusive = 0, 1 << 20, False

    def __init__(self, outgoing: Outgoing, queue: Queue, group: Group | None) -> None:
        self._outgoing = outgoing
        self.queue = queue
        self.group = group

    @property
    def room(self) -> int:
        """Messages that it may take now."""
        return self._outgoing.room

    def deliver(self, queue: Queue, messages: list[Message]) -> None:
        """They are the client's now."""
        self._outgoing.take(messages, self.group)

    def cancelled(self) -> None:
        """The queue is gone."""
        self._outgoing.forget(self.queue)

    def activated(self, is_active: bool) -> None:
        """All members take turns."""


class Outgoing:
    """Of one connection."""

    __slots__ = (
        "_aliases",
        "_aliases_max",
        "_connection",
        "_consumers",
        "_flights",
        "_is_to_wake",
        "_mqtt",
        "_next",
        "_packet_bytes_max",
        "_releases",
        "_settled",
        "_waiting",
        "_waiting_bytes",
        "_window",
    )

    def __init__(self, connection: MqttConnection, window: int, aliases_max: int, packet_bytes_max: int) -> None:
        self._connection = connection
        self._mqtt = connection.mqtt
        self._window = window
        self._aliases_max = aliases_max
        self._packet_bytes_max = packet_bytes_max
        self._aliases: dict[str, int] = {}
        self._flights: dict[int, Flight] = {}
        self._waiting: deque[Waiting] | tuple[()] = ()  # most clients never have any
        self._waiting_bytes = 0
        """Of messages that wait and are in no queue."""
        self._next = IDENTIFIERS
        self._settled: list[Message] = []
        self._releases: list[int] = []
        self._consumers: dict[Queue, QueueConsumer] = {}
        self._is_to_wake = False

    # Queues

    @property
    def room(self) -> int:
        """Messages of queues that may be taken now."""
        if self._mqtt.is_paused or self._waiting or self._mqtt.output_bytes >= self._mqtt.settings.output_bytes_max:
            return 0
        return self._window - len(self._flights)

    def attach(self, queue: Queue, group: Group | None) -> None:
        """Messages of this queue are for the client."""
        if queue not in self._consumers:
            consumer = self._consumers[queue] = QueueConsumer(self, queue, group)
            queue.attach(consumer)

    def detach(self, queue: Queue) -> None:
        """No more of this one."""
        consumer = self._consumers.pop(queue, None)
        if consumer is not None:
            queue.detach(consumer)

    def forget(self, queue: Queue) -> None:
        """It is gone, with all that was not settled."""
        self._consumers.pop(queue, None)

    def take(self, messages: list[Message], group: Group | None) -> None:
        """From a queue: give them to the client as its subscriptions say now."""
        connection, space = self._connection, self._connection.space
        session = connection.device
        for message in messages:
            facts = space.facts.of(message.headers)
            name = facts.topic
            qos, retain = -1, False
            identifiers: tuple[int, ...] = ()
            if name is not None and group is not None:
                member = next((one for one in group.members if one.session is session), None)
                if member is not None:
                    qos, identifiers = member.entry.qos, member.identifiers
                    retain = facts.retain and member.entry.retain_as_published
            elif name is not None:
                target = space.audience_of(name).by_session.get(session)
                if target is not None:
                    qos, identifiers = target.qos, target.identifiers
                    retain = facts.is_replayed or (facts.retain and target.retain_as_published)
            if qos < 0 or name is None:  # unsubscribed meanwhile, or put into the queue by somebody else
                self._settled.append(message)
                space.counts["unaddressed"] += 1
                continue
            shown = DeviceMessage(name, message.value, facts.qos, facts.retain, message.headers, message.expires_ms)
            self._queue(Waiting(shown, min(qos, facts.qos), retain, identifiers, message, group is None))
        self.pump()
        self.settle()

    # Sending

    def push(self, message: DeviceMessage, qos: int, retain: bool, identifiers: tuple[int, ...]) -> None:
        """A message that no queue keeps."""
        mqtt = self._mqtt
        if not qos:
            if mqtt.is_paused or mqtt.output_bytes >= mqtt.settings.output_bytes_max:
                self._connection.space.counts["dropped"] += 1
                return
            self._send(message, 0, retain, identifiers, 0, dup=False)
            return
        limits = self._connection.space.limits
        if len(self._waiting) >= limits.waiting_messages_max or self._waiting_bytes >= limits.waiting_bytes_max:
            self._connection.space.counts["dropped"] += 1
            return
        self._waiting_bytes += len(message.payload)
        self._queue(Waiting(message, qos, retain, identifiers))
        self.pump()

    def _queue(self, waiting: Waiting) -> None:
        if isinstance(self._waiting, tuple):
            self._waiting = deque()
        self._waiting.append(waiting)

    def pump(self) -> None:
        """Send what waits, as far as the window has room."""
        waiting, flights, mqtt = self._waiting, self._flights, self._mqtt
        if isinstance(waiting, tuple):
            return
        while waiting and not mqtt.is_paused and mqtt.output_bytes < mqtt.settings.output_bytes_max:
            first = waiting[0]
            packet_id = 0
            if first.qos:
                if len(flights) >= self._window:
                    return
                packet_id = self._identifier(first)
                if not packet_id:
                    return
            waiting.popleft()
            origin = first.origin
            if origin is None:
                self._waiting_bytes -= len(first.message.payload)
            is_sent = self._send(
                first.message,
                first.qos,
                first.retain,
                first.identifiers,
                packet_id,
                dup=origin is not None and origin.deliveries > 0,
            )
            if packet_id and is_sent:
                flights[packet_id] = Flight(first.qos, origin)
            elif origin is not None:
                self._settled.append(origin)

    def _identifier(self, waiting: Waiting) -> int:
        """A free one; 0: the one that it must have is not."""
        if waiting.is_own and waiting.origin is not None:
            wanted = waiting.origin.offset % IDENTIFIERS + 1
            return 0 if wanted in self._flights else wanted
        while self._next in self._flights:
            self._next = self._next - 1 or IDENTIFIERS
        found = self._next
        self._next = found - 1 or IDENTIFIERS
        return found

    def _send(
        self,
        message: DeviceMessage,
        qos: int,
        retain: bool,
        identifiers: tuple[int, ...],
        packet_id: int,
        *,
        dup: bool,
    ) -> bool:
        """Answers whether it was sent: what the client would not take, or has expired, is not."""
        mqtt = self._mqtt
        first = qos << 1 | retain | (8 if dup and qos else 0)
        version = mqtt.version
        payload = message.payload
        if version != V5 or not (identifiers or message.expires_ms or self._aliases_max or packet_id):
            if not qos and len(payload) <= JOINED_BYTES_MAX:
                return self._send_joined(message, first, version)
            properties = b"" if version != V5 else self._properties(message, (), 0)
            head = encode_publish_head(message.topic, len(payload), first, packet_id, properties)
        else:
            expiry_s = 0
            if message.expires_ms:
                left_ms = message.expires_ms - self._connection.space.now_ms()
                if left_ms <= 0:
                    return False
                expiry_s = -(-left_ms // 1000)
            topic, alias = self._alias(message.topic)
            properties = self._properties(message, identifiers, expiry_s, alias)
            head = encode_publish_head(topic, len(payload), first, packet_id, properties)
        if self._packet_bytes_max and len(head) + len(payload) > self._packet_bytes_max:
            self._connection.space.counts["dropped"] += 1
            return False
        self._connection.space.counts["sent"] += 1
        if len(payload) <= JOINED_BYTES_MAX:
            mqtt.say(head + payload)
        else:
            mqtt.say_parts(head, payload)
        return True

    def _send_joined(self, message: DeviceMessage, first: int, version: int) -> bool:
        """The same bytes for all that get it in this way."""
        if message.expires_ms and message.expires_ms <= self._connection.space.now_ms():
            return False
        cached = message.cached
        if cached is None:
            cached = message.cached = {}
        is_v5 = version == V5
        packet = cached.get((first, is_v5))
        if packet is None:
            properties = self._properties(message, (), 0) if is_v5 else b""
            head = encode_publish_head(message.topic, len(message.payload), first, 0, properties)
            packet = cached[first, is_v5] = head + message.payload
        if self._packet_bytes_max and len(packet) > self._packet_bytes_max:
            self._connection.space.counts["dropped"] += 1
            return False
        self._connection.space.counts["sent"] += 1
        self._mqtt.say(packet)
        return True

    def _properties(self, message: DeviceMessage, identifiers: tuple[int, ...], expiry_s: int, alias: int = 0) -> bytes:
        """With their length before them."""
        headers = self._connection.space.facts.of(message.headers).headers
        entries = self._connection.book.entries_of(message.headers, headers)
        more = {}
        if expiry_s:
            more["message_expiry_interval"] = expiry_s
        if alias:
            more["topic_alias"] = alias
        if more or identifiers:
            entries += encode_entries({**more, "subscription_identifier": list(identifiers)})
        return encode_varint(len(entries)) + entries

    def _alias(self, topic: str) -> tuple[str, int]:
        """What stands for the topic: its name, its alias, or both when the client is to learn it."""
        if not self._aliases_max:
            return topic, 0
        known = self._aliases.get(topic)
        if known is not None:
            return "", known
        if len(self._aliases) >= self._aliases_max:
            return topic, 0
        number = self._aliases[topic] = len(self._aliases) + 1
        return topic, number

    # Acknowledgements

    def acknowledged(self, packet: Ack) -> None:
        """PUBACK, PUBREC or PUBCOMP."""
        flight = self._flights.get(packet.packet_id)
        if packet.type is PacketType.PUBACK:
            if flight is not None and flight.qos == 1:
                self._free(packet.packet_id, flight)
        elif packet.type is PacketType.PUBREC:
            self._received(packet, flight)
        elif flight is not None and flight.is_released:
            del self._flights[packet.packet_id]
            self._connection.store(self._connection.device.note_released(packet.packet_id, is_there=False))
            self._is_to_wake = True

    def _received(self, packet: Ack, flight: Flight | None) -> None:
        if flight is None or flight.qos != 2:
            reason = Reason.PACKET_IDENTIFIER_NOT_FOUND if self._mqtt.version == V5 else 0
            if packet.reason < Reason.UNSPECIFIED_ERROR:
                self._mqtt.say(encode_ack(PacketType.PUBREL, packet.packet_id, self._mqtt.version, reason))
            return
        if packet.reason >= Reason.UNSPECIFIED_ERROR:
            self._free(packet.packet_id, flight)
            return
        if flight.is_released:
            self._releases.append(packet.packet_id)
            return
        if flight.origin is not None:
            self._settled.append(flight.origin)
        self._flights[packet.packet_id] = Flight(2, None, is_released=True)
        self._connection.store(self._connection.device.note_released(packet.packet_id, is_there=True))
        self._releases.append(packet.packet_id)

    def _free(self, packet_id: int, flight: Flight) -> None:
        del self._flights[packet_id]
        if flight.origin is not None:
            self._settled.append(flight.origin)
        self._is_to_wake = True

    def pass_ended(self) -> None:
        """Settle, release and go on in one go."""
        self.settle()
        if self._releases:
            releases, self._releases = self._releases, []
            self._connection.when_durable(self._release, releases)
        if self._is_to_wake:
            self._is_to_wake = False
            self.pump()
            self.settle()
            for queue in self._consumers:
                queue.wake()

    def settle(self) -> None:
        """What the client has."""
        if self._settled:
            settled, self._settled = self._settled, []
            self._connection.settling.settle(settled)

    def _release(self, identifiers: list[int], error: BaseException | None) -> None:
        """That the client has them is durable: their identifiers may be freed."""
        if error is None:
            for packet_id in identifiers:
                self._mqtt.say(encode_ack(PacketType.PUBREL, packet_id, self._mqtt.version))

    def resume_releases(self) -> None:
        """The client may not have heard that it can free these."""
        for packet_id in sorted(self._connection.device.released):
            self._flights[packet_id] = Flight(2, None, is_released=True)
            self._mqtt.say(encode_ack(PacketType.PUBREL, packet_id, self._mqtt.version))

    def resumed(self) -> None:
        """The client reads again."""
        self.pump()
        self.settle()
        for queue in self._consumers:
            queue.wake()

    def closed(self) -> None:
        """Give back what the client has not acknowledged."""
        consumers, self._consumers = self._consumers, {}
        self.settle()
        held = [flight.origin for flight in self._flights.values() if flight.origin is not None]
        held += [waiting.origin for waiting in self._waiting if waiting.origin is not None]
        self._flights.clear()
        self._waiting = ()
        for queue, consumer in consumers.items():
            queue.detach(consumer)
        there = [message for message in held if not message.lane.is_gone]
        if there:
            self._connection.settling.requeue(there, failed=False)
