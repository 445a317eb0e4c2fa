"""A connection with one channel that sends frames as they are: nothing in Python's clients is fast enough to measure with."""

from __future__ import annotations

import socket

from benchmarks.kafka.brokers import Running
from mainstem.protocols.amqp.codec.framing import METHOD, encode_frame
from mainstem.protocols.amqp.codec.methods import encode_method

RECEIVED_AT_ONCE = 1 << 16


class RawClient:
    """Logged in, channel 1 open. Reads answers, one at a time, and looks into none."""

    def __init__(self, broker: Running) -> None:
        self._socket = socket.create_connection((broker.host, broker.port))
        self.send(b"AMQP\0\0\x09\x01")
        self.wait()
        self._say(0, "connection.start-ok", mechanism="PLAIN", response=b"\0guest\0guest", locale="en_US")
        self.wait()
        self._say(0, "connection.tune-ok", channel_max=10, frame_max=131_072)
        self._say(0, "connection.open", virtual_host="/")
        self.wait()
        self.call("channel.open")

    def send(self, frames: bytes) -> None:
        """Any frames."""
        self._socket.sendall(frames)

    def call(self, name: str, **arguments: object) -> None:
        """A method on the channel; comes back when it is answered."""
        self._say(1, name, **arguments)
        self.wait()

    def wait(self) -> None:
        """Until something comes."""
        if not self._socket.recv(RECEIVED_AT_ONCE):
            raise ConnectionError("the broker has closed the connection")

    def _say(self, channel: int, name: str, **arguments: object) -> None:
        self.send(encode_frame(METHOD, channel, encode_method(name, **arguments)))
