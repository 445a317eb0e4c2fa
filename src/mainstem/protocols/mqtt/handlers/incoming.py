"""What one client publishes: aliases, permissions, QoS 2, and when it is acknowledged: once it is durable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from mainstem.broker.devices import InvalidTopicLevels, Publication, RetainedFull, check_name
from mainstem.broker.queues import HOLD, REFUSED
from mainstem.model.errors import MainstemError, StorageFull
from mainstem.protocols.mqtt.codec.encoding import encode_ack
from mainstem.protocols.mqtt.codec.packets import V5, Ack, PacketType, Publish
from mainstem.protocols.mqtt.errors import MqttError, Reason, protocol_error

if TYPE_CHECKING:
    from mainstem.protocols.mqtt.handlers.connection import MqttConnection

EXCHANGE = "amq.topic"
"""Whose permissions hold for topics in levels, as in RabbitMQ."""


class Owed(NamedTuple):
    """An acknowledgement that waits for the disk."""

    type: PacketType
    packet_id: int
    reason: int = 0


class Incoming:
    """Of one connection."""

    __slots__ = (
        "_aliases",
        "_aliases_max",
        "_connection",
        "_in_flight_max",
        "_mqtt",
        "_owed",
        "_rest",
        "_unacknowledged",
    )

    def __init__(self, connection: MqttConnection, aliases_max: int, in_flight_max: int) -> None:
        self._connection = connection
        self._mqtt = connection.mqtt
        self._aliases_max = aliases_max
        self._in_flight_max = in_flight_max
        self._aliases: dict[int, str] = {}
        self._owed: list[Owed] = []
        self._unacknowledged: set[int] = set()
        """Identifiers of QoS 1 that wait for the disk."""
        self._rest: Publish | None = None
        """A message that a full disk did not take."""

    def publish(self, packet: Publish) -> None:
        """Take a message. Raises MqttError."""
        connection = self._connection
        topic = self._topic_of(packet)
        qos, packet_id = packet.qos, packet.packet_id
        device = connection.device
        if qos == 2 and packet_id in device.received:
            self._owed.append(Owed(PacketType.PUBREC, packet_id))
            return
        if qos:
            if self._mqtt.version == V5 and len(self._unacknowledged) + len(device.received) >= self._in_flight_max:
                raise MqttError(Reason.RECEIVE_MAXIMUM_EXCEEDED, f"more than {self._in_flight_max} messages in flight")
            if qos == 1:
                self._unacknowledged.add(packet_id)
        reason = self._refusal(topic, packet)
        if reason:
            self._refuse(packet, reason)
            return
        self._take(topic, packet)

    def _take(self, topic: str, packet: Publish) -> None:
        connection = self._connection
        qos, packet_id = packet.qos, packet.packet_id
        properties: Mapping[str, Any] = packet.properties
        state = connection.device.note_received(packet_id, is_there=True) if qos == 2 else ()
        publication = Publication(
            topic,
            packet.payload,
            qos,
            packet.retain,
            connection.book.block_of(topic, qos, packet.retain, connection.device.client_id, properties),
            properties.get("message_expiry_interval", -1),
            connection.device,
            state,
        )
        try:
            outcome = connection.space.publish(publication)
        except RetainedFull:
            self._forget(packet)
            if qos and self._mqtt.version == V5:
                self._refuse(packet, Reason.QUOTA_EXCEEDED)
            else:
                self._take(topic, packet._replace(retain=False))
            return
        except MainstemError:
            self._forget(packet)
            self._refuse(packet, Reason.IMPLEMENTATION_SPECIFIC_ERROR)
            return
        if outcome == REFUSED:
            self._forget(packet)
            self._rest = packet._replace(topic=topic, properties=_without_alias(properties))
            connection.wait_for_relief()
            return
        if qos:
            self._owed.append(Owed(PacketType.PUBACK if qos == 1 else PacketType.PUBREC, packet_id))
        if outcome == HOLD:
            connection.wait_for_relief()

    def _forget(self, packet: Publish) -> None:
        if packet.qos == 2:
            self._connection.device.received.discard(packet.packet_id)

    def publish_rest(self) -> None:
        """The disk has room again."""
        rest, self._rest = self._rest, None
        if rest is not None:
            self._take(rest.topic, rest)

    def _topic_of(self, packet: Publish) -> str:
        topic = packet.topic
        alias = packet.properties.get("topic_alias")
        if alias is not None:
            if not 1 <= alias <= self._aliases_max:
                raise MqttError(Reason.TOPIC_ALIAS_INVALID, f"topic alias {alias}; at most {self._aliases_max}")
            if topic:
                self._aliases[alias] = topic
            else:
                known = self._aliases.get(alias)
                if known is None:
                    raise protocol_error(f"topic alias {alias} stands for nothing")
                topic = known
        elif not topic:
            if self._mqtt.version == V5:
                raise protocol_error("neither a topic nor an alias")
            raise MqttError(Reason.TOPIC_NAME_INVALID, "a topic without characters")
        if "subscription_identifier" in packet.properties:
            raise protocol_error("clients do not send subscription identifiers")
        return topic

    def _refusal(self, topic: str, packet: Publish) -> int:
        """Why a message is not taken; 0: it is."""
        try:
            check_name(topic)
        except InvalidTopicLevels:
            return Reason.TOPIC_NAME_INVALID
        if not self._connection.may_publish(topic):
            return Reason.NOT_AUTHORIZED
        properties = packet.properties
        if properties:
            if properties.get("payload_format_indicator"):
                try:
                    packet.payload.decode()
                except UnicodeDecodeError:
                    return Reason.PAYLOAD_FORMAT_INVALID
            response = properties.get("response_topic")
            if response is not None and ("+" in response or "#" in response or not response):
                raise protocol_error("a response topic has wildcards, or no characters")
        return 0

    def _refuse(self, packet: Publish, reason: int) -> None:
        """Earlier versions have no words for it: the connection ends, but for what is not permitted, which is dropped."""
        self._connection.space.counts["refused"] += 1
        if self._mqtt.version == V5:
            if packet.qos:
                self._owed.append(
                    Owed(PacketType.PUBACK if packet.qos == 1 else PacketType.PUBREC, packet.packet_id, reason)
                )
            elif reason != Reason.NOT_AUTHORIZED:
                raise MqttError(Reason(reason), "a message of QoS 0 cannot be taken")
            return
        if reason != Reason.NOT_AUTHORIZED:
            raise MqttError(Reason(reason), "a message cannot be taken")
        if packet.qos:  # as the standard says (3.1.1, 3.3.5): acknowledged, and not taken
            self._owed.append(Owed(PacketType.PUBACK if packet.qos == 1 else PacketType.PUBREC, packet.packet_id))

    def released(self, packet: Ack) -> None:
        """PUBREL: the identifier is free, once that is durable."""
        device = self._connection.device
        is_known = packet.packet_id in device.received
        if is_known:
            self._connection.store(device.note_received(packet.packet_id, is_there=False))
        unknown = Reason.PACKET_IDENTIFIER_NOT_FOUND if self._mqtt.version == V5 and not is_known else 0
        self._owed.append(Owed(PacketType.PUBCOMP, packet.packet_id, unknown))

    def pass_ended(self) -> None:
        """Answer all of this pass when it is durable."""
        if self._owed:
            owed, self._owed = self._owed, []
            self._connection.when_durable(self._stored, owed)

    def _stored(self, owed: list[Owed], error: BaseException | None) -> None:
        version, mqtt = self._mqtt.version, self._mqtt
        if error is not None:
            mqtt.fail(
                Reason.QUOTA_EXCEEDED if isinstance(error, StorageFull) else Reason.UNSPECIFIED_ERROR,
                "messages could not be stored",
            )
            return
        out = bytearray()
        for kind, packet_id, reason in owed:
            if kind is PacketType.PUBACK:
                self._unacknowledged.discard(packet_id)
            out += encode_ack(kind, packet_id, version, reason)
        mqtt.say(out)


def _without_alias(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in properties.items() if name != "topic_alias"}
