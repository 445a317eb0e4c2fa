"""The state machine of one connection: packets in, packets out.

    state           what it means                                      goes on to
    OPENING         CONNECT is awaited                                 CONNECTING, ENDED
    CONNECTING      the broker looks at it; nothing is read            AUTHENTICATING, RUNNING, ENDED
    AUTHENTICATING  AUTH of the client is awaited                      CONNECTING, ENDED
    RUNNING         packets are taken as they come                     ENDED
    ENDED           nothing follows

A packet that cannot be read, or may not be sent, ends the connection: with the reason, where the version has words for it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from mainstem.model.peer import Peer
from mainstem.protocols.mqtt.codec.encoding import PINGRESP, encode_connack, encode_disconnect
from mainstem.protocols.mqtt.codec.packets import (
    V3_1_1,
    V5,
    Ack,
    Auth,
    Connect,
    Disconnect,
    PacketType,
    Ping,
    Publish,
    Subscribe,
    Unsubscribe,
    decode_connect,
    decode_packet,
    decode_publish,
)
from mainstem.protocols.mqtt.errors import RETURN_CODES, MqttError, Reason, malformed, protocol_error
from mainstem.protocols.mqtt.session.settings import MqttSettings

PATIENCE = 1.5
"""Keep-alives that a client may be silent [MQTT-3.1.2-22]."""
LENGTH_BYTES_MAX = 4
_PUBLISH = PacketType.PUBLISH << 4
Buffer = bytes | bytearray | memoryview


class State(Enum):
    """See the module's table."""

    OPENING = "opening"
    CONNECTING = "connecting"
    AUTHENTICATING = "authenticating"
    RUNNING = "running"
    ENDED = "ended"


class Handlers(Protocol):
    """What packets of one connection do. Each may raise MqttError."""

    def connect(self, packet: Connect) -> None:
        """Answered by `MqttSession.connected`, `refuse` or `challenge`, now or later."""

    def authenticate(self, packet: Auth) -> None:
        """The next step of the client's proof."""

    def publish(self, packet: Publish) -> None:
        """A message."""

    def acknowledge(self, packet: Ack) -> None:
        """About a message, in either direction."""

    def subscribe(self, packet: Subscribe) -> None:
        """Filters more."""

    def unsubscribe(self, packet: Unsubscribe) -> None:
        """Filters less."""

    def disconnect(self, packet: Disconnect) -> None:
        """The client goes."""

    def pass_ended(self) -> None:
        """All packets that lay ready were handed on."""

    def pause(self) -> None:
        """The peer does not read."""

    def resume(self) -> None:
        """The peer reads again, or output was taken."""

    def closed(self) -> None:
        """The connection is gone."""


class MqttSession:
    """One connection."""

    __slots__ = (
        "_goodbye",
        "_handlers",
        "_heard",
        "_holds",
        "_is_closed",
        "_is_ending",
        "_is_receiving",
        "_output",
        "_silent_since",
        "_state",
        "_wake",
        "_wanted",
        "input_wanted",
        "is_paused",
        "is_subscribed",
        "keep_alive_s",
        "output_bytes",
        "owed",
        "peer",
        "settings",
        "tells_problems",
        "version",
    )

    def __init__(
        self, wake: Callable[[], None], settings: MqttSettings, connect: Callable[[MqttSession], Handlers]
    ) -> None:
        self.input_wanted: int | None = 2
        self.peer = Peer()
        self.settings = settings
        self.version = V3_1_1
        self.output_bytes = 0
        """Said, and not taken by the transport yet."""
        self.owed = 0
        """Answers that wait for the disk; see `owe`."""
        self.is_subscribed = False
        self.is_paused = False
        self.keep_alive_s = 0
        self.tells_problems = True
        """Whether the client wants to know reasons in words."""
        self._wake = wake
        self._state = State.OPENING
        self._holds = 0
        self._wanted = 2
        self._is_receiving = self._is_closed = self._heard = False
        self._silent_since: float | None = None
        self._goodbye: Reason | None = None
        self._is_ending = False
        """Nothing more is read; what is owed is still said."""
        self._output: list[Buffer] = []
        self._handlers = connect(self)

    @property
    def finished(self) -> bool:
        """All was said."""
        return self._state is State.ENDED

    @property
    def busy(self) -> bool:
        """An answer is owed, or to a subscriber, a message."""
        return self.owed > 0 or self.is_subscribed

    @property
    def is_running(self) -> bool:
        """Whether the client is connected."""
        return self._state is State.RUNNING

    # What the transport calls

    def data_received(self, data: memoryview) -> int:
        """Hand complete packets on."""
        self._heard = True
        self._is_receiving = True
        used = len(data)
        try:
            used = self._take_packets(data)
            if self._state is not State.ENDED:
                self._handlers.pass_ended()
        except MqttError as error:
            self.fail(error.reason, str(error))
        finally:
            self._is_receiving = False
        if self._state is State.ENDED:
            return len(data)
        self._adjust()
        return used

    def _take_packets(self, data: memoryview) -> int:
        at, available = 0, len(data)
        self._wanted = 2
        while not (self._holds or self._is_ending or self._state is State.ENDED):
            left = available - at
            if left < 2:
                break
            size = shift = 0
            position = at + 1
            while True:
                byte = data[position]
                size |= (byte & 0x7F) << shift
                position += 1
                if byte < 0x80:
                    break
                shift += 7
                if shift > 21:
                    raise malformed("a length has more than four bytes")
                if position >= available:
                    self._wanted = left + 1
                    return at
            if shift and not byte:
                raise malformed("a length has more bytes than it needs")
            end = position + size
            if end - at > self.settings.packet_bytes_max:
                raise MqttError(Reason.PACKET_TOO_LARGE, f"a packet has at most {self.settings.packet_bytes_max} bytes")
            if end > available:
                self._wanted = end - at
                return at
            first, body = data[at], bytes(data[position:end])
            at = end
            self._hand_on(first, body)
        return at

    def _hand_on(self, first: int, body: bytes) -> None:
        state = self._state
        if state is State.RUNNING and first & 0xF0 == _PUBLISH:
            self._handlers.publish(decode_publish(first, body, self.version))
            return
        if state is State.OPENING:
            self._open(first, body)
            return
        packet = decode_packet(first, body, self.version)
        if isinstance(packet, Auth):
            if state is State.AUTHENTICATING:
                self._state = State.CONNECTING
                self.hold()
            self._handlers.authenticate(packet)
            return
        if isinstance(packet, Disconnect):
            self._handlers.disconnect(packet)
            self.end()
            return
        if state is not State.RUNNING:
            raise protocol_error("the client is not connected yet")
        if isinstance(packet, Ping):
            self.say(PINGRESP)
        elif isinstance(packet, Ack):
            self._handlers.acknowledge(packet)
        elif isinstance(packet, Subscribe):
            self._handlers.subscribe(packet)
        elif isinstance(packet, Unsubscribe):
            self._handlers.unsubscribe(packet)

    def _open(self, first: int, body: bytes) -> None:
        try:
            packet = decode_connect(first, body)
        except MqttError as error:
            if error.reason is Reason.UNSUPPORTED_PROTOCOL_VERSION:
                self.version = V5 if len(body) > 6 and body[6] > V5 and body[2:6] == b"MQTT" else V3_1_1
                self.refuse(error.reason, str(error))
                return
            raise
        self.version = packet.version
        self._state = State.CONNECTING
        self.hold()
        self._handlers.connect(packet)

    def take_output(self) -> list[Buffer]:
        """In the order in which it was said."""
        output, self._output = self._output, []
        self.output_bytes = 0
        return output

    def input_ended(self) -> None:
        """The peer says nothing more; what is owed is still answered."""
        self._end_when_paid()

    def output_paused(self) -> None:
        """The peer does not read."""
        self.is_paused = True
        self._handlers.pause()

    def output_resumed(self) -> None:
        """The peer reads again."""
        self.is_paused = False
        self._handlers.resume()

    def time_passed(self, now: float) -> None:
        """End the connection of a client that is silent for too long."""
        if self._silent_since is None or (self._heard and self._state is not State.OPENING):
            self._silent_since, self._heard = now, False
            return
        silent_s = now - self._silent_since
        if self._state is State.RUNNING:
            if self.keep_alive_s and silent_s > self.keep_alive_s * PATIENCE and not self._holds:
                self.fail(Reason.KEEP_ALIVE_TIMEOUT, "nothing was heard for one and a half keep-alives")
        elif self._state is not State.ENDED and silent_s >= self.settings.connect_timeout_s:
            self.end()

    def drain(self) -> None:
        """The broker is going."""
        self._goodbye = Reason.SERVER_SHUTTING_DOWN
        self._end_when_paid()

    def closed(self) -> None:
        """The connection is gone."""
        self._state = State.ENDED
        self._close_handlers()

    # What handlers call

    def owe(self) -> None:
        """An answer comes later."""
        self.owed += 1

    def paid(self) -> None:
        """It was said."""
        self.owed -= 1
        if self._is_ending and not self.owed:
            self._end_when_paid()

    def _end_when_paid(self) -> None:
        self._is_ending = True
        if self.owed and self._state is State.RUNNING:
            self._adjust()
        elif self._goodbye is not None:
            self.fail(self._goodbye, "the broker is shutting down")
        else:
            self.end()

    def say(self, packet: Buffer) -> None:
        """Send this."""
        if self._state is State.ENDED:
            return
        self._output.append(packet)
        self.output_bytes += len(packet)
        if not self._is_receiving:
            self._wake()

    def say_parts(self, head: bytes, payload: Buffer) -> None:
        """The same of a packet in two parts."""
        if self._state is State.ENDED:
            return
        self._output.append(head)
        self._output.append(payload)
        self.output_bytes += len(head) + len(payload)
        if not self._is_receiving:
            self._wake()

    def connected(self, packet: bytes) -> None:
        """The client is connected: this is its CONNACK."""
        if self._state is not State.CONNECTING:
            return
        self._state = State.RUNNING
        self.say(packet)
        self.release()

    def challenge(self, packet: bytes) -> None:
        """AUTH of ours: the client goes on with its proof."""
        if self._state is State.CONNECTING:
            self._state = State.AUTHENTICATING
            self.say(packet)
            self.release()

    def refuse(self, reason: Reason, text: str) -> None:
        """The client is not connected: say why, and end."""
        if self._state is State.ENDED:
            return
        if self.version == V5:
            self.say(encode_connack(V5, False, reason, {"reason_string": text} if self.tells_problems else {}))
        elif (code := RETURN_CODES.get(reason)) is not None:
            self.say(encode_connack(self.version, False, code))
        self.end()

    def fail(self, reason: Reason, text: str) -> None:
        """End the connection because of this."""
        if self._state is State.RUNNING:
            if self.version == V5:
                self.say(encode_disconnect(reason, {"reason_string": text} if self.tells_problems else {}))
            self.end()
        elif self._state in (State.CONNECTING, State.AUTHENTICATING):
            self.refuse(reason, text)
        else:
            self.end()

    def end(self) -> None:
        """Say nothing more."""
        if self._state is not State.ENDED:
            self._state = State.ENDED
            self.input_wanted = None
            self._close_handlers()
            if not self._is_receiving:
                self._wake()

    def hold(self) -> None:
        """Take no packets until released as often."""
        self._holds += 1
        self._adjust()

    def release(self) -> None:
        """Take packets again."""
        self._holds -= 1
        if not self._holds:
            self._wanted = 2
            self._adjust()
            if not self._is_receiving:
                self._wake()

    def _adjust(self) -> None:
        self.input_wanted = None if self._holds or self._is_ending or self._state is State.ENDED else self._wanted

    def _close_handlers(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._handlers.closed()
