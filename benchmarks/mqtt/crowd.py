"""Many raw connections of MQTT 3.1.1 in one thread: they subscribe, publish and count, and cost little themselves."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable

from benchmarks.kafka.brokers import Running
from mainstem.protocols.mqtt.codec.encoding import encode_packet, encode_publish_head
from mainstem.protocols.mqtt.codec.fields import encode_text

PATIENCE_S = 120
READ_BYTES = 1 << 18
PUBLISH, PUBACK = 3, 4
ACK = b"\x40\x02"


class Member:
    """One connection."""

    __slots__ = ("count", "rest", "socket")

    def __init__(self, broker: Running, client_id: str) -> None:
        self.socket = socket.create_connection((broker.host, broker.port), PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(encode_packet(0x10, encode_text("MQTT") + b"\x04\x02\x00\x00" + encode_text(client_id)))
        self.rest = b""
        self.count = 0

    def connected(self) -> None:
        """Wait for CONNACK."""
        assert self.socket.recv(4) == b"\x20\x02\x00\x00"

    def subscribe(self, text: str, qos: int) -> None:
        """Ask for messages."""
        self.socket.sendall(encode_packet(0x82, b"\x00\x01" + encode_text(text) + bytes((qos,))))
        assert self.socket.recv(5) == bytes((0x90, 3, 0, 1, qos))

    def publish(self, topic: str, payload: bytes, qos: int, packet_id: int = 0) -> None:
        """One message."""
        head = encode_publish_head(topic, len(payload), qos << 1, packet_id, b"")
        self.socket.sendall(head + payload)

    def packets(self) -> list[tuple[int, bytes]]:
        """What has come: first bytes, and bodies, which are shorter than 16 KiB."""
        data = self.rest + self.socket.recv(READ_BYTES)
        found, at, end = [], 0, len(data)
        while end - at >= 2:
            size, body = data[at + 1], at + 2
            if size > 0x7F:
                if end - at < 3:
                    break
                size, body = size & 0x7F | data[at + 2] << 7, at + 3
            if body + size > end:
                break
            found.append((data[at], data[body : body + size]))
            at = body + size
        self.rest = data[at:]
        return found


class Crowd:
    """All of them."""

    def __init__(self, broker: Running, count: int, prefix: str = "c") -> None:
        self.members = [Member(broker, f"{prefix}{number}") for number in range(count)]
        self._selector = selectors.DefaultSelector()
        for member in self.members:
            member.connected()
            self._selector.register(member.socket, selectors.EVENT_READ, member)

    def subscribe(self, text: str, qos: int) -> None:
        """Each of them."""
        for member in self.members:
            member.subscribe(text, qos)

    def hear(self, count: int) -> None:
        """Until all of them together have been given `count` messages; those of QoS 1 are acknowledged."""
        self._until(count, PUBLISH)

    def run(self, count: int, on_ack: Callable[[Member], None]) -> None:
        """Until `count` messages of theirs were acknowledged."""
        self._until(count, PUBACK, on_ack)

    def _until(self, count: int, kind: int, on_ack: Callable[[Member], None] | None = None) -> None:
        end = time.monotonic() + PATIENCE_S
        while count > 0:
            assert time.monotonic() < end, f"{count} messages are missing"
            for key, _ in self._selector.select(1):
                member: Member = key.data
                acknowledgements = bytearray()
                for first, body in member.packets():
                    if first >> 4 != kind:
                        continue
                    count -= 1
                    if on_ack is not None:
                        on_ack(member)
                    elif first & 6:
                        at = 2 + int.from_bytes(body[:2], "big")
                        acknowledgements += ACK + body[at : at + 2]
                if acknowledgements:
                    member.socket.sendall(acknowledgements)

    def close(self) -> None:
        """End them."""
        self._selector.close()
        for member in self.members:
            member.socket.close()
