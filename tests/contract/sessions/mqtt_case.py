"""MQTT for the contract suite: a session over a stub that answers at once, or later."""

from collections.abc import Callable

from mainstem.protocols.mqtt.codec.encoding import encode_ack, encode_connack, encode_suback, encode_unsuback
from mainstem.protocols.mqtt.codec.packets import (
    V5,
    Ack,
    Auth,
    Connect,
    Disconnect,
    PacketType,
    Publish,
    Subscribe,
    Unsubscribe,
)
from mainstem.protocols.mqtt.session.machine import MqttSession
from mainstem.protocols.mqtt.session.settings import MqttSettings
from mainstem.transport.session import Wake

SETTINGS = MqttSettings(packet_bytes_max=400)
OPENING = bytes.fromhex("10 12 00 04 4d515454 05 02 003c 00 0005 6d71747431".replace(" ", ""))
OPENING = OPENING[:1] + bytes((len(OPENING) - 2,)) + OPENING[2:]
CONVERSATION = b"".join(
    (
        b"\x82\x08\x00\x01\x00\x00\x02a/\x01",
        b"\x30\x08\x00\x03a/b\x00hi",
        b"\x32\x0a\x00\x03a/b\x00\x05\x00hi",
        b"\x34\x0a\x00\x03a/b\x00\x06\x00hi",
        b"\x62\x02\x00\x06",
        b"\x32\xc8\x01\x00\x03a/b\x00\x07\x00" + b"x" * 192,
        b"\x40\x02\x00\x09",
        b"\xa2\x07\x00\x02\x00\x00\x02a/",
    )
)
OVERSIZE = (
    b"\x10\xff\xff\xff\x7f",
    b"\x30\x91\x03",
    b"\x10\xff\xff\xff\xff\x01",
    b"\x10\x80\x00",
)


class Stub:
    """Handlers that say yes to everything."""

    def __init__(self, session: MqttSession, later: list[Callable[[], None]] | None) -> None:
        self._session = session
        self._later = later

    def _say(self, packet: bytes) -> None:
        if self._later is None:
            self._session.say(packet)
            return
        self._session.owe()

        def answer() -> None:
            self._session.say(packet)
            self._session.paid()

        self._later.append(answer)

    def connect(self, packet: Connect) -> None:
        def answer() -> None:
            self._session.connected(encode_connack(V5, False, 0))

        if self._later is None:
            answer()
        else:
            self._later.append(answer)

    def authenticate(self, packet: Auth) -> None: ...

    def publish(self, packet: Publish) -> None:
        if packet.qos:
            kind = PacketType.PUBACK if packet.qos == 1 else PacketType.PUBREC
            self._say(encode_ack(kind, packet.packet_id, V5))

    def acknowledge(self, packet: Ack) -> None:
        if packet.type is PacketType.PUBREL:
            self._say(encode_ack(PacketType.PUBCOMP, packet.packet_id, V5))

    def subscribe(self, packet: Subscribe) -> None:
        self._say(encode_suback(packet.packet_id, V5, [wish.qos for wish in packet.wishes]))

    def unsubscribe(self, packet: Unsubscribe) -> None:
        self._say(encode_unsuback(packet.packet_id, V5, [0 for _ in packet.filters]))

    def disconnect(self, packet: Disconnect) -> None: ...

    def pass_ended(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def closed(self) -> None: ...


class StubBroker:
    """Opens sessions."""

    def __init__(self, *, is_late: bool) -> None:
        self._later: list[Callable[[], None]] | None = [] if is_late else None

    def open(self, wake: Wake) -> MqttSession:
        return MqttSession(wake, SETTINGS, lambda session: Stub(session, self._later))

    def settle(self) -> None:
        if self._later:
            waiting = self._later[:]
            self._later.clear()
            for call in waiting:
                call()
