"""An AMQP client without sockets: one session with its real handlers, over a broker in memory."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.protocols.amqp.adapter import AmqpAdapter
from mainstem.protocols.amqp.codec.framing import BODY, HEADER, METHOD, encode_content, encode_frame
from mainstem.protocols.amqp.codec.methods import Method, decode_method, encode_method
from mainstem.protocols.amqp.codec.properties import decode_properties, encode_properties
from mainstem.protocols.amqp.handlers import connection as connections
from mainstem.protocols.amqp.session import AmqpSettings
from mainstem.server.request_meters import RequestMeter
from tests.support.clients.session_client import SessionClient
from tests.support.worlds.brokers import PATIENCE_S, with_broker

FRAME_MAX = 131_072
GUEST = b"\0guest\0guest"


class Operations:
    def __init__(self) -> None:
        self.meters: dict[str, RequestMeter] = {}

    def version(self) -> str:
        return "1.2.3"

    def request_meter(self, protocol: str, operation: str, untimed: int = 0) -> RequestMeter:
        return self.meters.setdefault(operation, RequestMeter(untimed))


class Frame:
    """What came: a method with its content, if it has one."""

    def __init__(self, channel: int, method: Method) -> None:
        self.channel = channel
        self.method = method
        self.name = method.name
        self.properties: dict[str, Any] = {}
        self.body = b""

    def __getitem__(self, argument: str) -> Any:
        return self.method[argument]

    def __repr__(self) -> str:
        return f"<{self.name} {self.method.arguments}>"


class Client(SessionClient):
    """One connection."""

    def __init__(self, adapter: AmqpAdapter, peer: str = "127.0.0.1") -> None:
        super().__init__(adapter.open_session, peer)
        self.frames: list[Frame] = []
        self.heartbeats = 0

    # Sending

    def send(self, name: str, channel: int = 1, **arguments: Any) -> None:
        self.send_bytes(encode_frame(METHOD, channel, encode_method(name, **arguments)))

    def publish(self, key: str, body: bytes, *, exchange: str = "", mandatory: bool = False, **properties: Any) -> None:
        method = encode_method("basic.publish", exchange=exchange, routing_key=key, mandatory=mandatory)
        content = encode_content(1, encode_properties(properties), body, FRAME_MAX - 8)
        self.send_bytes(encode_frame(METHOD, 1, method) + content)

    # Receiving

    def take(self) -> None:
        """Take what the session says, as frames."""
        super().take()
        self._parse()

    def _parse(self) -> None:
        while len(self.output) >= 8 and not self.output.startswith(b"AMQP"):
            length = int.from_bytes(self.output[3:7], "big")
            if len(self.output) < length + 8:
                return
            kind, channel = self.output[0], int.from_bytes(self.output[1:3], "big")
            payload = bytes(self.output[7 : 7 + length])
            assert self.output[7 + length] == 0xCE
            del self.output[: length + 8]
            if kind == METHOD:
                self.frames.append(Frame(channel, decode_method(payload)))
            elif kind == HEADER:
                self.frames[-1].properties = decode_properties(payload[12:])
            elif kind == BODY:
                self.frames[-1].body += payload
            else:
                self.heartbeats += 1

    async def wait(self, name: str) -> Frame:
        """The next frame, which must be this one."""
        if self._woken.is_set():
            self.pump()
        while not self.frames:
            assert not self.session.finished, f"closed before {name}"
            await self.wait_woken()
        frame = self.frames.pop(0)
        assert frame.name == name, frame
        return frame

    async def ask(self, name: str, channel: int = 1, **arguments: Any) -> Frame:
        self.send(name, channel, **arguments)
        return await self.wait(f"{name}-ok")

    async def turns(self, count: int = 20) -> None:
        """Let the broker work, and take what it says."""
        for _ in range(count):
            await asyncio.sleep(0)
            self.pump()

    # Opening

    async def greet(self, **tuning: int) -> Frame:
        self.send_bytes(b"AMQP\x00\x00\x09\x01")
        start = await self.wait("connection.start")
        capabilities = dict.fromkeys(
            ("connection.blocked", "consumer_cancel_notify", "authentication_failure_close"), ("bool", True)
        )
        properties = {"capabilities": ("table", capabilities)}
        self.send(
            "connection.start-ok", 0, client_properties=properties, mechanism="PLAIN", response=GUEST, locale="en_US"
        )
        await self.wait("connection.tune")
        self.send("connection.tune-ok", 0, **({"channel_max": 10, "frame_max": FRAME_MAX, "heartbeat": 10} | tuning))
        return start

    async def open(self, **tuning: int) -> "Client":
        await self.greet(**tuning)
        await self.ask("connection.open", 0, virtual_host="/")
        await self.ask("channel.open")
        return self


Connect = Callable[..., Client]


def with_adapter(
    test: Callable[[Connect, Broker], Awaitable[None]] | None = None, **settings: Any
) -> Callable[..., Any]:
    """An asynchronous test that is given something to connect with, and the broker behind it."""
    if test is None:
        return functools.partial(with_adapter, **settings)

    async def run(broker: Broker) -> None:
        adapter = AmqpAdapter(AmqpSettings(**settings), broker, Operations())
        # A busy machine would cut passes at any message; what a cut does has tests of its own.
        before, connections.PASS_SECONDS = connections.PASS_SECONDS, PATIENCE_S
        try:
            await test(functools.partial(Client, adapter), broker)
        finally:
            connections.PASS_SECONDS = before

    run.__name__ = test.__name__
    return with_broker(run)
