"""A STOMP client without sockets: one session with its real handlers, over a broker in memory."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from mainstem.broker.broker import Broker
from mainstem.protocols.amqp.adapter import introduce
from mainstem.protocols.stomp.adapter import StompAdapter
from mainstem.protocols.stomp.codec.frames import decode_head, encode_frame
from mainstem.protocols.stomp.session.settings import StompSettings
from mainstem.server.request_meters import RequestMeter
from tests.support.clients.session_client import SessionClient
from tests.support.worlds.brokers import PATIENCE_S, with_broker


class Operations:
    def advertised(self) -> Mapping[str, list[str]]:
        return {"stomp": ["broker.example:61613"]}

    def version(self) -> str:
        return "1.2.3"

    def request_meter(self, protocol: str, operation: str, untimed: int = 0) -> RequestMeter:
        return RequestMeter(untimed)


class Frame(NamedTuple):
    command: str
    headers: Mapping[str, str]
    body: bytes


class Client(SessionClient):
    """One connection."""

    def __init__(self, adapter: StompAdapter, peer: str = "127.0.0.1") -> None:
        super().__init__(adapter.open_session, peer)
        self.frames: list[Frame] = []
        self.version = "1.2"
        self.heartbeats = 0

    def send(self, command: str, body: bytes = b"", **headers: str) -> None:
        """A frame; `_` in the name of a header stands for `-`."""
        lines = [(name.replace("_", "-"), value) for name, value in headers.items()]
        self.send_bytes(encode_frame(command, lines, body, self.version))

    def take(self) -> None:
        """Take what the session says, as frames."""
        super().take()
        while self.output:
            if self.output[:1] == b"\n":
                self.heartbeats += 1
                del self.output[:1]
                continue
            end = self.output.index(b"\n\n")
            head = decode_head(bytes(self.output[:end]), self.version, 1_000)
            size = max(head.length, 0)
            body = bytes(self.output[end + 2 : end + 2 + size])
            assert self.output[end + 2 + size : end + 4 + size] == b"\0\n"
            del self.output[: end + 4 + size]
            self.frames.append(Frame(head.command, head.headers, body))

    async def wait_any(self) -> Frame:
        """The next frame."""
        if self._woken.is_set():
            self.pump()
        while not self.frames:
            assert not self.session.finished, "closed"
            await self.wait_woken()
        return self.frames.pop(0)

    async def wait(self, command: str) -> Frame:
        """The next frame, which must be this one."""
        frame = await self.wait_any()
        assert frame.command == command, frame
        return frame

    async def receipt(self) -> None:
        """All that was sent is done."""
        self.send("BEGIN", transaction="receipt", receipt="r")
        self.send("ABORT", transaction="receipt")
        frame = await self.wait("RECEIPT")
        assert frame.headers["receipt-id"] == "r"

    async def turns(self, count: int = 20) -> None:
        """Let the broker work, and take what it says."""
        for _ in range(count):
            await asyncio.sleep(0)
            self.pump()

    async def open(self, version: str = "1.2", **headers: str) -> Frame:
        """CONNECT."""
        self.send("CONNECT", accept_version=version, login="guest", passcode="guest", host="/", **headers)
        self.version = version
        return await self.wait("CONNECTED")


Connect = Callable[..., Client]


def with_stomp(test: Callable[[Connect, Broker], Awaitable[None]] | None = None, **settings: Any) -> Callable[..., Any]:
    """An asynchronous test that is given something to connect with, and the broker behind it."""
    if test is None:
        return functools.partial(with_stomp, **settings)

    async def run(broker: Broker) -> None:
        introduce(broker)
        adapter = StompAdapter(StompSettings(**settings), broker, Operations())
        async with asyncio.timeout(PATIENCE_S):
            await test(functools.partial(Client, adapter), broker)

    run.__name__ = test.__name__
    return with_broker(run)
