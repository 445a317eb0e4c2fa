"""Edges of the protocol, byte by byte, against the real program; and SCRAM, which few clients speak."""

import asyncio
import base64
import hashlib
import hmac
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiomqtt import Client as AioClient
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.subscribeoptions import SubscribeOptions

from mainstem.protocols.mqtt.codec.encoding import encode_packet
from mainstem.protocols.mqtt.codec.fields import Reader, encode_text
from mainstem.protocols.mqtt.codec.properties import Holder, decode_properties, encode_properties
from tests.clients.mqtt.devices import Devices, properties
from tests.support.serving.mqtt import MqttBroker, serving

pytestmark = [pytest.mark.conformance, pytest.mark.system, pytest.mark.slow]
PATIENCE_S = 20


class Wire:
    """A connection of bytes."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)

    def send(self, first: int, body: bytes) -> None:
        self.socket.sendall(encode_packet(first, body))

    def connect(
        self, client_id: str = "", flags: int = 2, facts: bytes = b"\0", keep_alive: int = 0
    ) -> tuple[int, bytes]:
        head = encode_text("MQTT") + bytes((5, flags)) + keep_alive.to_bytes(2, "big")
        self.send(0x10, head + facts + encode_text(client_id))
        return self.receive()

    def receive(self) -> tuple[int, bytes]:
        head = self._take(1)
        size = shift = 0
        while True:
            byte = self._take(1)[0]
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return head[0], self._take(size)

    def _take(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def wire(broker: MqttBroker) -> Iterator[Wire]:
    made = Wire(broker.mqtt_port)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("first", "body", "reason"),
    [
        (0x30, b"\x00\x01#\x00", 0x90),
        (0x30, b"\x00\x00\x00", 0x82),
        (0x30, b"\x00\x00\x03\x23\x00\x01", 0x82),
        (0x30, b"\x00\x01a\x03\x23\xff\xff", 0x94),
        (0x36, b"\x00\x01a\x00\x01\x00", 0x81),
        (0x82, b"\x00\x01\x00", 0x82),
        (0x82, b"\x00\x01\x00\x00\x0a$share/g/a\x04", 0x82),
        (0x10, b"", 0x82),
        (0xF0, b"\x18\x00", 0x82),
    ],
)
def test_what_may_not_be_said_ends_with_its_reason(wire: Wire, first: int, body: bytes, reason: int) -> None:
    assert wire.connect()[1][1] == 0
    wire.send(first, body)
    kind, said = wire.receive()
    assert (kind, said[0]) == (0xE0, reason)
    with pytest.raises((EOFError, ConnectionError)):
        wire.receive()


def test_versions_that_are_not_known_are_told(wire: Wire, broker: MqttBroker) -> None:
    wire.send(0x10, encode_text("MQTT") + b"\x06\x02\x00\x00\x00" + encode_text("a"))
    assert wire.receive()[1][1] == 0x84
    older = Wire(broker.mqtt_port)
    older.send(0x10, encode_text("MQIsdp") + b"\x02\x02\x00\x00" + encode_text("a"))
    assert older.receive() == (0x20, b"\x00\x01")
    older.close()
    bridge = Wire(broker.mqtt_port)
    bridge.send(0x10, encode_text("MQTT") + b"\x84\x02\x00\x00" + encode_text("bridge"))
    assert bridge.receive() == (0x20, b"\x00\x00")
    bridge.close()


def test_who_is_silent_for_too_long_is_let_go(wire: Wire) -> None:
    wire.connect(keep_alive=1)
    assert wire.receive() == (0xE0, wire_reason(0x8D))


def wire_reason(reason: int) -> bytes:
    text = "nothing was heard for one and a half keep-alives"
    return bytes((reason,)) + encode_properties({"reason_string": text})


def test_a_message_of_qos_2_is_taken_once(wire: Wire, devices: Devices, name: str) -> None:
    listener = devices.device()
    listener.subscribe(name, 2)
    wire.connect()
    publish = encode_text(name) + b"\x00\x07\x00once"
    for first in (0x34, 0x3C):
        wire.send(first, publish)
        assert wire.receive() == (0x50, b"\x00\x07")
    wire.send(0x62, b"\x00\x07")
    assert wire.receive() == (0x70, b"\x00\x07")
    wire.send(0x62, b"\x00\x07")
    assert wire.receive() == (0x70, b"\x00\x07\x92")
    wire.send(0x34, encode_text(name) + b"\x00\x07\x00again")
    assert wire.receive() == (0x50, b"\x00\x07")
    assert [message.payload for message in listener.hear(2)] == [b"once", b"again"]


def test_more_than_the_receive_maximum_is_refused(broker: MqttBroker, name: str) -> None:
    wire = Wire(broker.mqtt_port)
    wire.connect()
    for number in range(1, 1_002):
        wire.send(0x34, encode_text(name) + number.to_bytes(2, "big") + b"\x00x")
    while (packet := wire.receive())[0] == 0x50:
        pass
    assert (packet[0], packet[1][0]) == (0xE0, 0x93)
    wire.close()


def test_a_will_waits_for_its_delay_and_not_if_its_client_is_back(devices: Devices, name: str) -> None:
    listener = devices.device()
    listener.subscribe(f"{name}/#", 1)
    for place, delay_s in (("back", 60), ("late", 1)):
        device = devices.device(f"{name}-{place}", v5=True, connect=False)
        late = properties(PacketTypes.WILLMESSAGE, WillDelayInterval=delay_s)
        device.client.will_set(f"{name}/{place}", b"gone", 1, properties=late)
        kept = properties(PacketTypes.CONNECT, SessionExpiryInterval=100)
        device.connect(clean_start=True, properties=kept)
        device.vanish()
    back = devices.device(f"{name}-back", v5=True, connect=False)
    back.connect(clean_start=False, properties=properties(PacketTypes.CONNECT, SessionExpiryInterval=100))
    assert listener.hear()[0].topic == f"{name}/late"
    assert listener.heard.empty()


def test_a_subscriber_that_does_not_read_is_bounded(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--set", "mqtt.output_bytes_max=65536") as broker, Devices(broker) as devices:
        slow = Wire(broker.mqtt_port)
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        slow.connect("slow")
        slow.send(0x82, b"\x00\x01\x00" + encode_text("flood") + b"\x00")
        slow.receive()
        sender = devices.device()
        dropped = devices.device()
        for _ in range(30):
            for _ in range(200):
                sender.client.publish("flood", b"x" * 10_000, 0)
            sender.publish("other", b"", 1)
        dropped.subscribe("$SYS/broker/publish/messages/dropped", 0)
        assert int(dropped.hear()[0].payload) > 1_000
        slow.close()


def test_scram_lets_in_who_knows_the_password(broker: MqttBroker) -> None:
    """RFC 5802 in AUTH packets."""
    broker.administer("users/sensor", {"password": "secret", "tags": ""})
    broker.administer("permissions/%2F/sensor", {"configure": "", "write": ".*", "read": ".*"})
    wire = Wire(broker.mqtt_port)
    first = "n=sensor,r=abc"
    said = {"authentication_method": "SCRAM-SHA-256", "authentication_data": f"n,,{first}".encode()}
    kind, body = wire.connect("scram", facts=encode_properties(said))
    assert (kind, body[0]) == (0xF0, 0x18)
    challenge = decode_properties(Reader(body[1:]), Holder.AUTH)["authentication_data"].decode()
    parts = dict(part.split("=", 1) for part in challenge.split(","))
    salted = hashlib.pbkdf2_hmac("sha256", b"secret", base64.b64decode(parts["s"]), int(parts["i"]))
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    final = f"c=biws,r={parts['r']}"
    signature = hmac.digest(hashlib.sha256(client_key).digest(), f"{first},{challenge},{final}".encode(), "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    said["authentication_data"] = f"{final},p={proof}".encode()
    wire.send(0xF0, b"\x18" + encode_properties(said))
    kind, body = wire.receive()
    assert (kind, body[1]) == (0x20, 0)
    assert decode_properties(Reader(body[2:]), Holder.CONNACK)["authentication_data"].startswith(b"v=")
    wire.close()


def test_what_is_not_permitted_is_refused(broker: MqttBroker, devices: Devices, name: str) -> None:
    """Permissions are those of RabbitMQ's exchange `amq.topic`, of topics by their routing keys."""
    broker.administer("users/reader", {"password": "secret", "tags": ""})
    broker.administer("permissions/%2F/reader", {"configure": "", "write": ".*", "read": "^amq.topic$"})
    rule = {"exchange": "amq.topic", "write": f"^{name}", "read": f"^{name}.*(?<!nosubscribe)$"}
    broker.administer("topic-permissions/%2F/reader", rule)
    listener = devices.device()
    listener.subscribe([(f"{name}/#", 1), ("elsewhere", 1)])
    for v5, refused in ((True, 0x87), (False, 0x80)):
        device = devices.device(v5=v5, connect=False)
        device.client.username_pw_set("reader", "secret")
        device.connect()
        assert (
            device.subscribe(
                [(f"{name}/a", 1), (f"{name}/nosubscribe", 1)] if not v5 else f"{name}/nosubscribe",
                **({} if not v5 else {"options": SubscribeOptions(qos=1)}),
            )[-1]
            == refused
        )
        device.publish("elsewhere", b"not permitted", 1)
        device.publish(f"{name}/a", b"permitted", 1)
        assert listener.hear()[0].payload == b"permitted"
    nobody = devices.device(connect=False, reconnect_on_failure=False)
    broker.administer("users/nobody", {"password": "secret", "tags": ""})
    nobody.client.username_pw_set("nobody", "secret")
    assert nobody.connect().answer.value == 0x87


def test_a_wrong_password_and_a_wrong_proof_are_refused(broker: MqttBroker, devices: Devices) -> None:
    device = devices.device(v5=True, connect=False, reconnect_on_failure=False)
    device.client.username_pw_set("guest", "wrong")
    assert device.connect().answer.value == 0x86
    wire = Wire(broker.mqtt_port)
    said = {"authentication_method": "SCRAM-SHA-256", "authentication_data": b"n,,n=guest,r=abc"}
    wire.connect("scram", facts=encode_properties(said))
    said["authentication_data"] = b"c=biws,r=abc,p=AAAA"
    wire.send(0xF0, b"\x18" + encode_properties(said))
    kind, body = wire.receive()
    assert (kind, body[1]) == (0x20, 0x87)
    wire.close()


def test_aiomqtt_publishes_and_listens(broker: MqttBroker, name: str) -> None:
    async def talk() -> list[bytes]:
        async with asyncio.timeout(PATIENCE_S), AioClient("127.0.0.1", broker.mqtt_port) as client:
            await client.subscribe(f"{name}/#", qos=2)
            for number in range(50):
                await client.publish(f"{name}/x", b"%d" % number, qos=number % 3)
            heard: list[bytes] = []
            async for message in client.messages:
                assert isinstance(message.payload, bytes)
                heard.append(message.payload)
                if len(heard) == 50:
                    return heard
        raise AssertionError

    assert sorted(asyncio.run(talk())) == sorted(b"%d" % number for number in range(50))


def test_a_message_expires_before_it_is_given_out(devices: Devices, name: str) -> None:
    kept = devices.device(name, clean_session=False)
    kept.subscribe(f"{name}/#", 1)
    kept.leave()
    sender = devices.device(v5=True)
    sender.publish(f"{name}/x", b"short", 1, properties=properties(MessageExpiryInterval=1))
    sender.publish(f"{name}/x", b"long", 1, properties=properties(MessageExpiryInterval=100))
    deadline = time.monotonic() + 1.1
    while time.monotonic() < deadline:
        sender.publish(f"{name}/elsewhere-not", b"", 0)
    again = devices.device(name, clean_session=False)
    assert [message.payload for message in again.hear()] == [b"long"]
