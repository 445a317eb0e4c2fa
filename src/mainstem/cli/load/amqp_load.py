"""A client that publishes over AMQP 0-9-1 and waits for the confirms: as much of the protocol as that takes."""

from __future__ import annotations

import socket
import struct

from mainstem.cli.terminal.broker import Refused

HEADER = b"AMQP\x00\x00\x09\x01"
METHOD, CONTENT_HEADER, BODY, END = 1, 2, 3, 0xCE
START, START_OK, TUNE, TUNE_OK, OPEN, OPEN_OK = (10, 10), (10, 11), (10, 30), (10, 31), (10, 40), (10, 41)
CONNECTION_CLOSE, CHANNEL_CLOSE = (10, 50), (20, 40)
CHANNEL_OPEN, CHANNEL_OPEN_OK = (20, 10), (20, 11)
DECLARE, DECLARE_OK = (50, 10), (50, 11)
CONFIRM, CONFIRM_OK = (85, 10), (85, 11)
PUBLISH, ACK, NACK = (60, 40), (60, 80), (60, 120)
PASSIVE = 1
PERSISTENT = struct.pack(">HB", 0x1000, 2)
FRAME_BYTES_MAX = 128 << 10
TIMEOUT_S = 60.0
REFUSED = 500

_FRAME = struct.Struct(">BHI")


class AmqpLoad:
    """One connection with one channel."""

    def __init__(self, address: str, queue: str, batch: int, size: int, user: str, password: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()
        self._records = batch
        self._confirmed = self._published = 0
        self._open(user, password, queue)
        self._content = _message(queue, b"v" * size) * batch

    def work(self) -> int:
        """Publish a batch, and wait until all of it is confirmed."""
        self._socket.sendall(self._content)
        self._published += self._records
        while self._confirmed < self._published:
            method, arguments = self._method()
            if method == ACK:
                tag, multiple = struct.unpack_from(">QB", arguments)
                self._confirmed = tag if multiple & 1 else self._confirmed + 1
            elif method == NACK:
                raise Refused(REFUSED, "", "the queue takes no more messages")
        return self._records

    def close(self) -> None:
        """Leave the broker."""
        self._socket.close()

    def _open(self, user: str, password: str, queue: str) -> None:
        self._socket.sendall(HEADER)
        login = f"\0{user}\0{password}".encode()
        self._expect(START)
        self._send(0, START_OK, struct.pack(">I", 0) + _short("PLAIN") + _long(login) + _short("en_US"))
        self._expect(TUNE)
        self._send(0, TUNE_OK, struct.pack(">HIH", 1, FRAME_BYTES_MAX, 0))
        self._send(0, OPEN, _short("/") + _short("") + b"\0")
        self._expect(OPEN_OK)
        for method, arguments, answer in (
            (CHANNEL_OPEN, _short(""), CHANNEL_OPEN_OK),
            (DECLARE, b"\0\0" + _short(queue) + bytes([PASSIVE]) + struct.pack(">I", 0), DECLARE_OK),
            (CONFIRM, b"\0", CONFIRM_OK),
        ):
            self._send(1, method, arguments)
            self._expect(answer)

    def _send(self, channel: int, method: tuple[int, int], arguments: bytes) -> None:
        self._socket.sendall(_frame(METHOD, channel, struct.pack(">HH", *method) + arguments))

    def _expect(self, wanted: tuple[int, int]) -> bytes:
        while True:
            method, arguments = self._method()
            if method == wanted:
                return arguments

    def _method(self) -> tuple[tuple[int, int], bytes]:
        """The next method. Raises Refused for the end of the channel or the connection, OSError for a lost one."""
        while True:
            kind, _, size = _FRAME.unpack(self._exactly(_FRAME.size))
            payload = self._exactly(size + 1)[:-1]
            if kind != METHOD:
                continue
            method = struct.unpack_from(">HH", payload)
            if method in (CONNECTION_CLOSE, CHANNEL_CLOSE):
                length = payload[6]
                raise Refused(REFUSED, "", payload[7 : 7 + length].decode("utf-8", "replace"))
            return (method[0], method[1]), payload[4:]

    def _exactly(self, size: int) -> bytes:
        if size > FRAME_BYTES_MAX:
            raise OSError("the broker does not speak AMQP here")
        while len(self._received) < size:
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionResetError("the broker has closed the connection")
            self._received += data
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken


def _short(text: str) -> bytes:
    data = text.encode()
    return bytes([len(data)]) + data


def _long(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return _FRAME.pack(kind, channel, len(payload)) + payload + bytes([END])


def _message(queue: str, value: bytes) -> bytes:
    method = struct.pack(">HHH", *PUBLISH, 0) + _short("") + _short(queue) + b"\0"
    header = struct.pack(">HHQ", 60, 0, len(value)) + PERSISTENT
    step = FRAME_BYTES_MAX - _FRAME.size - 1
    bodies = [_frame(BODY, 1, value[at : at + step]) for at in range(0, len(value), step)]
    return b"".join([_frame(METHOD, 1, method), _frame(CONTENT_HEADER, 1, header), *bodies])
