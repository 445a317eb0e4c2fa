"""A connection with one channel that sends frames as they are: nothing in Python's clients is fast enough to measure with."""

from __future__ import annotations

import socket

from benchmarks.kafka.brokers import Running
from mainstem.protocols.amqp.codec.framing import METHOD, encode_frame
from mainstem.protocols.amqp.codec.methods import Method, decode_method, encode_method

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

    def ask(self, name: str, **arguments: object) -> Method:
        """A method on the channel, answered by one method."""
        self._say(1, name, **arguments)
        return decode_method(self.wait()[7:-1])

    def wait(self) -> bytes:
        """Until something comes; answers it."""
        received = self._socket.recv(RECEIVED_AT_ONCE)
        if not received:
            raise ConnectionError("the broker has closed the connection")
        return received

    def close(self) -> None:
        """End the connection in good order."""
        self._say(0, "connection.close", reply_code=200, reply_text="", class_id=0, method_id=0)
        self.wait()
        self._socket.close()

    def cut(self) -> None:
        """End it without a word."""
        self._socket.close()

    def _say(self, channel: int, name: str, **arguments: object) -> None:
        self.send(encode_frame(METHOD, channel, encode_method(name, **arguments)))
