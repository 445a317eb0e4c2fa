"""A listener of echo sessions on a loop of its own thread, for clients that block."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator

import uvloop

from mainstem.model.endpoints import Endpoints
from mainstem.transport.address import Address
from mainstem.transport.listener import Listener, ListenerLimits, Security
from mainstem.transport.receive_buffer import ChunkPool
from mainstem.transport.session import Wake
from tests.unit.transport.echo_session import EchoSession

PATIENCE_S = 10


class TlsHost:
    """Runs until its block ends."""

    def __init__(self, security: Security, limits: dict[str, int]) -> None:
        chosen = {"connections_max": 1000, "idle_timeout_ms": 60_000, "write_buffer_bytes_max": 1 << 16, **limits}
        self.sessions: list[EchoSession] = []
        self.log: list[str] = []
        self.listener = Listener(
            "echo+tls",
            Address("127.0.0.1", 0),
            self._open,
            ListenerLimits(**chosen),
            ChunkPool(),
            security=security,
            protocol="echo",
        )
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def _open(self, wake: Wake, endpoints: Endpoints) -> EchoSession:
        self.sessions.append(EchoSession(wake, endpoints, self.log))
        return self.sessions[-1]

    def start(self) -> None:
        self.listener.bind()
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.listener.start(), self.loop).result(PATIENCE_S)

    def call(self, what: Callable[[], object]) -> None:
        """On the loop's thread."""

        async def run() -> None:
            what()

        asyncio.run_coroutine_threadsafe(run(), self.loop).result(PATIENCE_S)

    def until(self, condition: Callable[[], bool]) -> None:
        """The loop has gone so far; it has no event for it."""
        ends = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < ends, "it never is so"
            time.sleep(0.001)

    def end(self) -> None:
        self.call(self.listener.close)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE_S)
        self.loop.close()


@contextlib.contextmanager
def tls_hosting(security: Security, **limits: int) -> Iterator[TlsHost]:
    host = TlsHost(security, limits)
    host.start()
    try:
        yield host
    finally:
        host.end()
