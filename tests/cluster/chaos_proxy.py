"""A proxy that does to connections what networks do: cuts, black holes, lost replies, slowness."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Literal

Mode = Literal["pass", "black", "lose replies", "slow"]
SLOW_S = 0.2
CHUNK = 64 << 10

Connect = Callable[[], Coroutine[Any, Any, tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class ChaosProxy:
    """One port in front of one server, in a thread of its own."""

    def __init__(self, connect: Connect) -> None:
        self.mode: Mode = "pass"
        self.port = 0
        self._connect = connect
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        started = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(started),), daemon=True)
        self._thread.start()
        assert started.wait(10)

    async def _serve(self, started: threading.Event) -> None:
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await self._stop.wait()
        server.close()
        self._cut()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await self._connect()
        except OSError:
            writer.close()
            return
        self._writers |= {writer, far_writer}
        asks = asyncio.create_task(self._copy(reader, far_writer, is_reply=False))
        replies = asyncio.create_task(self._copy(far_reader, writer, is_reply=True))
        await asyncio.wait([asks, replies], return_when=asyncio.FIRST_COMPLETED)
        for task in (asks, replies):
            task.cancel()
        for one in (writer, far_writer):
            self._writers.discard(one)
            one.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_reply: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                while self.mode == "black":  # noqa: ASYNC110 - it is set by another thread
                    await asyncio.sleep(0.05)
                if self.mode == "slow":
                    await asyncio.sleep(SLOW_S)
                if self.mode == "lose replies" and is_reply:
                    return  # what was asked has been done, and nobody hears of it
                writer.write(data)
                await writer.drain()

    def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    def cut(self) -> None:
        """End every connection at once."""
        self._loop.call_soon_threadsafe(self._cut)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(5)


def to_port(port: int) -> Connect:
    return lambda: asyncio.open_connection("127.0.0.1", port)


def to_path(path: str) -> Connect:
    return lambda: asyncio.open_unix_connection(path)
