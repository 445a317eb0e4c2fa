"""TLS alone: the processor time of our layer for each byte, and the memory of its connections.

The layer runs with a session that takes all it is given, in a process of its own: figures are the server's alone.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import socket
import ssl
import tempfile
import time
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import uvloop

from benchmarks.idle_memory import resident_bytes
from benchmarks.report import Figure
from mainstem.model.endpoints import Endpoints
from mainstem.server.certificate_authority import LOCAL_NAMES, issue_server, make_authority
from mainstem.transport.address import Address
from mainstem.transport.entrance import Encryption
from mainstem.transport.listener import Listener, ListenerLimits, Security
from mainstem.transport.receive_buffer import ChunkPool
from mainstem.transport.session import Wake
from mainstem.transport.tls_credentials import Credentials, TlsSettings

PIECE_BYTES = 1 << 20
ASK = b"more"
"""A request of this is answered with a piece; everything else is dropped."""


class Sink:
    """Takes everything; answers what asks with a piece."""

    finished = busy = False
    input_wanted: int | None = 1

    def __init__(self, wake: Wake, endpoints: Endpoints) -> None:
        self._output: list[bytes] = []

    def data_received(self, data: memoryview) -> int:
        if len(data) == len(ASK) and bytes(data) == ASK:
            self._output.append(PIECE)
        return len(data)

    def take_output(self) -> list[bytes]:
        output, self._output = self._output, []
        return output

    def input_ended(self) -> None:
        self.finished = True

    def output_paused(self) -> None: ...

    def output_resumed(self) -> None: ...

    def time_passed(self, now: float) -> None: ...

    def drain(self) -> None:
        self.finished = True

    def closed(self) -> None: ...


PIECE = bytes(PIECE_BYTES)


def _serve(directory: str, pipe: Pipe) -> None:
    async def main() -> None:
        settings = TlsSettings(certificate_file=f"{directory}/server.crt", key_file=f"{directory}/server.key")
        limits = ListenerLimits(connections_max=20_000, idle_timeout_ms=600_000, write_buffer_bytes_max=4 << 20)
        security = Security(Encryption.ALWAYS, Credentials(settings))
        listener = Listener("bench", Address("127.0.0.1", 0), Sink, limits, ChunkPool(), security=security)
        listener.bind()
        await listener.start()
        pipe.send(listener.address.port)
        loop, asked = asyncio.get_running_loop(), asyncio.Event()

        def answer() -> None:
            if pipe.recv() is None:
                asked.set()
            else:
                used = resource.getrusage(resource.RUSAGE_SELF)
                pipe.send((used.ru_utime + used.ru_stime, resident_bytes()))

        loop.add_reader(pipe.fileno(), answer)
        await asked.wait()
        listener.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


async def tls(mebibytes: int, connections: int) -> list[Figure]:
    """Bulk each way on one connection, then many that say nothing, then the same after a mebibyte each."""
    authority = make_authority("bench")
    with tempfile.TemporaryDirectory() as directory:
        issue_server(authority, "localhost", LOCAL_NAMES).write(Path(directory), "server")
        pipe, other = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        server = context.Process(target=_serve, args=(directory, other))
        server.start()
        try:
            return _measure(pipe, pipe.recv(), authority.certificate_pem().decode(), mebibytes, connections)
        finally:
            pipe.send(None)
            server.join(10)


def _measure(pipe: Pipe, port: int, ca: str, mebibytes: int, connections: int) -> list[Figure]:
    context = ssl.create_default_context(cadata=ca)

    def connect() -> ssl.SSLSocket:
        return context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="localhost")

    def asked() -> tuple[float, int]:
        time.sleep(1.5)  # what is under way has arrived, and chunks are given back with the next beat
        pipe.send(True)
        cpu, memory = pipe.recv()
        return cpu, memory

    client = connect()
    before = asked()[0]
    for _ in range(mebibytes):
        client.sendall(PIECE)
    received = asked()[0]
    buffer = bytearray(PIECE_BYTES)
    for _ in range(mebibytes):
        client.sendall(ASK)
        left = PIECE_BYTES
        while left:
            left -= client.recv_into(buffer, left)
    sent = asked()[0]
    client.close()
    start = asked()
    many = [connect() for _ in range(connections)]
    idle = asked()
    for one in many:
        one.sendall(PIECE)
    full = asked()
    for one in many:
        one.close()
    gib = mebibytes / 1024
    each = 1024 * connections
    return [
        Figure("TLS, received by the layer, GiB per CPU second", gib / (received - before), 1.0, at_least=0.7),
        Figure("TLS, sent by the layer, GiB per CPU second", gib / (sent - received), 1.0, at_least=0.7),
        Figure("TLS, handshake, ms of CPU", (idle[0] - start[0]) * 1000 / connections),
        Figure("TLS, memory of an idle connection, KiB", (idle[1] - start[1]) / each, at_most=30),
        Figure("TLS, the same after a mebibyte was received, KiB", (full[1] - start[1]) / each, at_most=64),
    ]
