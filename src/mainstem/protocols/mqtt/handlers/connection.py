"""The broker's side of one MQTT connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mainstem.broker.devices import (
    NEVER,
    DeviceMessage,
    DeviceSession,
    DeviceSpace,
    InvalidFilter,
    InvalidTopicLevels,
    SubscriptionEntry,
    TooManySessions,
    WillEntry,
    check_filter,
    check_name,
)
from mainstem.broker.queues import Queue
from mainstem.broker.users.callers import Caller
from mainstem.model.endpoints import Endpoints
from mainstem.model.errors import MainstemError
from mainstem.model.peer import TEXT_CHARACTERS_MAX
from mainstem.protocols.mqtt.codec.encoding import encode_auth, encode_connack, encode_suback, encode_unsuback
from mainstem.protocols.mqtt.codec.packets import (
    V3_1,
    V5,
    Ack,
    Auth,
    Connect,
    Disconnect,
    PacketType,
    Publish,
    Subscribe,
    Unsubscribe,
    Wish,
)
from mainstem.protocols.mqtt.errors import MqttError, Reason, protocol_error
from mainstem.protocols.mqtt.handlers.authentication import Authentication
from mainstem.protocols.mqtt.handlers.incoming import EXCHANGE, Incoming
from mainstem.protocols.mqtt.handlers.outgoing import Outgoing
from mainstem.protocols.mqtt.handlers.system_topics import SYSTEM_PREFIX, system_messages
from mainstem.protocols.mqtt.mapping.messages import headers_of
from mainstem.protocols.mqtt.mapping.routing_keys import routing_key_of
from mainstem.protocols.mqtt.session.machine import MqttSession

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mainstem.broker.devices.sessions import Group
    from mainstem.protocols.mqtt.handlers.node import Node

FAILURE = 0x80
"""What SUBACK says before version 5."""
WINDOW_MAX = 65_535
BRIDGE_STATES = "$SYS/broker/connection/"


class MqttConnection:
    """The handlers of one session of the protocol; a Receiver of one session of a device."""

    __slots__ = (
        "_authentication",
        "_caller",
        "_client_id",
        "_connect",
        "_expiry_s",
        "_has_session",
        "_incoming",
        "_is_assigned",
        "_is_lost",
        "_is_waiting",
        "_namespace",
        "_outbox",
        "_outgoing",
        "_proof",
        "book",
        "device",
        "endpoints",
        "mqtt",
        "node",
        "queues",
        "settling",
        "space",
    )

    def __init__(self, node: Node, mqtt: MqttSession, endpoints: Endpoints) -> None:
        self.node = node
        self.mqtt = mqtt
        self.endpoints = endpoints
        self.book = node.book
        self.queues = node.broker.queues
        self.settling = node.broker.queues.settling
        self.space: DeviceSpace
        self.device: DeviceSession
        self._outbox = node.broker.queues.outbox
        self._caller: Caller | None = None
        self._connect: Connect
        self._authentication = Authentication(node, mqtt, endpoints, self._admitted)
        self._proof: dict[str, Any] = {}
        self._client_id = ""
        self._is_assigned = False
        self._expiry_s = 0
        self._incoming: Incoming
        self._outgoing: Outgoing
        self._has_session = self._is_lost = self._is_waiting = False

    # Connecting

    def connect(self, packet: Connect) -> None:
        """Who is it, and what does it wish. Raises MqttError."""
        self._connect = packet
        mqtt = self.mqtt
        mqtt.tells_problems = bool(packet.properties.get("request_problem_information", 1))
        self._client_id = packet.client_id
        if not packet.client_id:
            if packet.version == V3_1 or (packet.version != V5 and not packet.clean_start):
                raise MqttError(Reason.CLIENT_IDENTIFIER_NOT_VALID, "a client identifier is needed")
            self._client_id, self._is_assigned = self.node.new_client_id(), True
        if packet.version == V5:
            self._expiry_s = packet.properties.get("session_expiry_interval", 0)
        else:
            self._expiry_s = 0 if packet.clean_start else NEVER
        self._namespace, user = self.node.split_user(packet.user)
        self._authentication.begin(packet, user)

    def _admitted(self, caller: Caller, said: bytes) -> None:
        if self._is_lost:
            return
        facts = {"authentication_method": self._authentication.method, "authentication_data": said}
        if self._caller is not None:
            if caller.name != self._caller.name:
                self.mqtt.fail(Reason.NOT_AUTHORIZED, "another user has proven to be here")
            else:
                self.mqtt.say(encode_auth(Reason.SUCCESS, facts))
            return
        if self._authentication.method:
            self._proof = facts
        if not caller.may_enter(self._namespace):
            self.mqtt.refuse(Reason.NOT_AUTHORIZED, "this namespace is not permitted")
            return
        self._caller = caller
        caller.namespace = self._namespace
        caller.hold(self._force_closed)
        peer = self.mqtt.peer
        peer.name, peer.user, peer.namespace = self._client_id[:TEXT_CHARACTERS_MAX], caller.name, self._namespace
        peer.introduce("MQTT", {3: "3.1", 4: "3.1.1", 5: "5.0"}[self.mqtt.version])
        try:
            will = self._will()
        except MqttError as error:
            self.mqtt.refuse(error.reason, str(error))
            return
        self.node.spawn(self._begin(caller, will))

    def _will(self) -> WillEntry | None:
        """Raises MqttError."""
        will = self._connect.will
        if will is None:
            return None
        try:
            check_name(will.topic)
        except InvalidTopicLevels as error:
            raise MqttError(Reason.TOPIC_NAME_INVALID, str(error)) from None
        if not self.may_publish(will.topic):
            raise MqttError(Reason.NOT_AUTHORIZED, "the topic of the will is not permitted")
        properties = will.properties
        headers = headers_of(will.topic, will.qos, will.retain, self._client_id, properties)
        return WillEntry(
            self._namespace,
            self._client_id,
            will.topic,
            will.payload,
            will.qos,
            will.retain,
            tuple(headers),
            properties.get("message_expiry_interval", -1),
            properties.get("will_delay_interval", 0),
            0,
        )

    async def _begin(self, caller: Caller, will: WillEntry | None) -> None:
        try:
            self.space = await self.node.broker.devices.open(self._namespace)
            device, is_present = await self.space.begin(
                self._client_id,
                self,
                caller.name,
                clean=self._connect.clean_start,
                expiry_s=self._expiry_s,
                will=will,
            )
        except TooManySessions as error:
            self.mqtt.refuse(Reason.QUOTA_EXCEEDED, str(error))
            return
        except MainstemError:
            self.mqtt.refuse(Reason.SERVER_UNAVAILABLE, "the session could not be stored")
            return
        self.device = device
        self._has_session = True
        if self._is_lost or device.receiver is not self:
            self._leave()
            self.mqtt.end()
            return
        self._run(is_present)

    def _run(self, is_present: bool) -> None:
        connect, mqtt, settings = self._connect, self.mqtt, self.node.settings
        wishes = connect.properties
        window = min(wishes.get("receive_maximum", WINDOW_MAX), settings.in_flight_max)
        aliases = min(wishes.get("topic_alias_maximum", 0), settings.topic_alias_maximum)
        self._outgoing = Outgoing(self, window, aliases, wishes.get("maximum_packet_size", 0))
        self._incoming = Incoming(
            self, settings.topic_alias_maximum if mqtt.version == V5 else 0, settings.receive_maximum
        )
        mqtt.keep_alive_s = connect.keep_alive_s
        said: dict[str, Any] = {}
        if mqtt.version == V5:
            if settings.keep_alive_s_max and not 0 < connect.keep_alive_s <= settings.keep_alive_s_max:
                mqtt.keep_alive_s = said["server_keep_alive"] = settings.keep_alive_s_max
            said["receive_maximum"] = settings.receive_maximum
            said["maximum_packet_size"] = settings.packet_bytes_max
            if settings.topic_alias_maximum:
                said["topic_alias_maximum"] = settings.topic_alias_maximum
            said |= self._proof
            if self._is_assigned:
                said["assigned_client_identifier"] = self._client_id
            most = self.space.limits.session_expiry_s_max
            if self._expiry_s > most:
                said["session_expiry_interval"] = most
        # 3.1 has no flag for a session that was there [MQTT 3.1, CONNACK].
        mqtt.connected(encode_connack(mqtt.version, is_present and mqtt.version != V3_1, 0, said))
        mqtt.is_subscribed = bool(self.device.subscriptions)
        self._outgoing.resume_releases()
        self.space.resume(self.device)

    def authenticate(self, packet: Auth) -> None:
        """The next step of a proof. Raises MqttError."""
        self._authentication.go_on(packet)

    # Packets

    def publish(self, packet: Publish) -> None:
        """A message."""
        self._incoming.publish(packet)

    def acknowledge(self, packet: Ack) -> None:
        """About a message, in either direction."""
        if packet.type is PacketType.PUBREL:
            self._incoming.released(packet)
        else:
            self._outgoing.acknowledged(packet)

    def subscribe(self, packet: Subscribe) -> None:
        """Check each filter, take those that may be, and answer."""
        identifier = packet.properties.get("subscription_identifier", 0)
        # A bridge before version 5 has no words for these two; it says by its bit that it wants them.
        is_bridge = self._connect.is_bridge
        codes: list[int] = []
        entries: list[SubscriptionEntry] = []
        for wish in packet.wishes:
            code = self._check_wish(wish)
            codes.append(code)
            if code < FAILURE:
                entries.append(
                    SubscriptionEntry(
                        wish.filter,
                        wish.qos,
                        wish.no_local or (is_bridge and not wish.filter.startswith("$share")),
                        wish.retain_as_published or is_bridge,
                        identifier,
                    )
                )
        self.mqtt.hold()
        self.mqtt.owe()
        self.node.spawn(self._subscribe(packet, codes, entries))

    def _check_wish(self, wish: Wish) -> int:
        try:
            shared = check_filter(wish.filter)
        except InvalidFilter:
            return self._failure(Reason.TOPIC_FILTER_INVALID)
        if shared.group and wish.no_local:
            raise protocol_error("a shared subscription takes messages of its own client, too")
        caller = self._caller
        if caller is None or not (
            caller.may(self._namespace, "read", EXCHANGE)
            and caller.may_use_key(self._namespace, EXCHANGE, "read", routing_key_of(shared.filter), self._namespace)
        ):
            return self._failure(Reason.NOT_AUTHORIZED)
        return wish.qos

    def _failure(self, reason: Reason) -> int:
        return reason if self.mqtt.version == V5 else FAILURE

    async def _subscribe(self, packet: Subscribe, codes: list[int], entries: list[SubscriptionEntry]) -> None:
        new: Sequence[bool] = ()
        try:
            new = await self.space.subscribe(self.device, entries)
        except TooManySessions:
            codes = [self._failure(Reason.QUOTA_EXCEEDED)] * len(codes)
        except MainstemError:
            codes = [self._failure(Reason.UNSPECIFIED_ERROR)] * len(codes)
        if not self._is_lost:
            self.mqtt.is_subscribed = bool(self.device.subscriptions)
            self.mqtt.say(encode_suback(packet.packet_id, self.mqtt.version, codes))
            taken = [wish for wish, code in zip(packet.wishes, codes, strict=True) if code < FAILURE]
            for wish, entry, is_new in zip(taken, entries, new, strict=True) if new else ():
                if wish.retain_handling == 0 or (wish.retain_handling == 1 and is_new):
                    self._send_retained(entry)
        self.mqtt.release()
        self.mqtt.paid()

    def _send_retained(self, entry: SubscriptionEntry) -> None:
        shared = check_filter(entry.filter)
        if shared.group:
            return  # [MQTT-3.8.3-4]: shared subscriptions are given none
        device, identifiers = self.device, (entry.identifier,) if entry.identifier else ()
        found = self.space.retained.match(shared.filter, self.space.now_ms())
        if shared.filter.startswith(SYSTEM_PREFIX):
            found = [*found, *system_messages(self.node, self.space, shared.filter)]
        for message in found:
            qos = min(message.qos, entry.qos)
            if qos and device.is_kept and device.queue is not None:
                self.space.publishing.replay(device.queue, message)
            else:
                self._outgoing.push(message, qos, True, identifiers)

    def unsubscribe(self, packet: Unsubscribe) -> None:
        """Filters less."""
        self.mqtt.hold()
        self.mqtt.owe()
        self.node.spawn(self._unsubscribe(packet))

    async def _unsubscribe(self, packet: Unsubscribe) -> None:
        try:
            found = await self.space.unsubscribe(self.device, packet.filters)
            codes = [Reason.SUCCESS if one else Reason.NO_SUBSCRIPTION_EXISTED for one in found]
        except MainstemError:
            codes = [Reason.UNSPECIFIED_ERROR] * len(packet.filters)
        self.mqtt.is_subscribed = bool(self.device.subscriptions)
        self.mqtt.say(encode_unsuback(packet.packet_id, self.mqtt.version, codes))
        self.mqtt.release()
        self.mqtt.paid()

    def disconnect(self, packet: Disconnect) -> None:
        """The client goes: its will is not published, unless it says so. Raises MqttError."""
        expiry_s = packet.properties.get("session_expiry_interval")
        if expiry_s is not None:
            if expiry_s and not self._expiry_s:
                raise protocol_error("a session that was to end with its connection cannot be kept")
            self._expiry_s = expiry_s
            if self._has_session:
                self.device.expiry_s = expiry_s
        self._leave(with_will=packet.reason != Reason.SUCCESS)

    def pass_ended(self) -> None:
        """All that had come was dealt with."""
        if self._has_session and self.mqtt.is_running:
            self._outgoing.pass_ended()
            self._incoming.pass_ended()

    # Permissions

    def may_publish(self, topic: str) -> bool:
        """Whether the client may. `$` begins topics of the broker, but for those in which bridges say that they are there."""
        caller = self._caller
        return (
            caller is not None
            and (not topic.startswith("$") or topic.startswith(BRIDGE_STATES))
            and caller.may(self._namespace, "write", EXCHANGE)
            and caller.may_use_key(self._namespace, EXCHANGE, "write", routing_key_of(topic), self._namespace)
        )

    # The disk

    def store(self, state: Sequence[Any]) -> None:
        """With the next commit."""
        if state:
            self._outbox.mutate(state)

    def when_durable(self, callback: Callable[[Any, BaseException | None], None], token: Any) -> None:
        """Call back when all that was published and stored so far is durable."""

        def call(value: Any, error: BaseException | None) -> None:
            callback(value, error)
            self.mqtt.paid()

        self.mqtt.owe()
        self._outbox.when_durable(call, token)

    def wait_for_relief(self) -> None:
        """The broker cannot take more: read nothing until it can."""
        if not self._is_waiting:
            self._is_waiting = True
            self.mqtt.hold()
            self._outbox.when_relieved(self._relieved)

    def _relieved(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            if not self._is_lost:
                try:
                    self._incoming.publish_rest()
                    self._incoming.pass_ended()
                except MqttError as error:
                    self.mqtt.fail(error.reason, str(error))
            self.mqtt.release()

    # Receiver

    def push(self, message: DeviceMessage, qos: int, retain: bool, identifiers: tuple[int, ...]) -> None:
        """A message that no queue keeps."""
        if self.mqtt.is_running:
            self._outgoing.push(message, qos, retain, identifiers)

    def attach(self, queue: Queue, group: Group | None) -> None:
        """Messages of this queue are for the client."""
        if self.mqtt.is_running:
            self._outgoing.attach(queue, group)

    def detach(self, queue: Queue) -> None:
        """No more of this one."""
        if self.mqtt.is_running:
            self._outgoing.detach(queue)

    def taken_over(self) -> None:
        """Another connection of the same client has come."""
        self._leave()
        self.mqtt.fail(Reason.SESSION_TAKEN_OVER, "another connection has taken the session over")

    def ended_by_administrator(self) -> None:
        """Close the connection."""
        self._force_closed("an administrator has closed the connection")

    def _force_closed(self, reason: str) -> None:
        self.mqtt.fail(Reason.ADMINISTRATIVE_ACTION, reason)

    # The peer

    def pause(self) -> None:
        """The peer does not read: the room of its consumers is none."""

    def resume(self) -> None:
        """It reads again."""
        if self._has_session and self.mqtt.is_running:
            self._outgoing.resumed()

    def closed(self) -> None:
        """The connection is gone."""
        if self._is_lost:
            return
        self._is_lost = True
        if self._caller is not None:
            self._caller.leave()
        if self._has_session:
            self._leave()

    def _leave(self, *, with_will: bool = True) -> None:
        if not self._has_session:
            return
        if hasattr(self, "_outgoing"):
            self._outgoing.closed()
        self.space.leave(self.device, self, with_will=with_will)
