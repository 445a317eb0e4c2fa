"""One connection: hands requests to their handlers, and holds the client back while too much waits for the disk."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from mainstem.broker.broker import Broker
from mainstem.model.endpoints import Endpoints
from mainstem.model.errors import MainstemError
from mainstem.protocols.rocketmq.codec.remoting.commands import IS_ONE_WAY, Command
from mainstem.protocols.rocketmq.errors import RequestRefused, ResponseCode
from mainstem.protocols.rocketmq.handlers.remoting.calls import Call, Handler, Spawn
from mainstem.protocols.rocketmq.session.remoting import RemotingSession

log = logging.getLogger(__name__)

LOGIN_NEEDED = "a login is needed, and clients of RocketMQ cannot give one yet"
LOOPBACK = ipaddress.IPv4Address("127.0.0.1")


class RemotingConnection:
    """What the session of one connection calls."""

    def __init__(
        self,
        broker: Broker,
        handlers: Mapping[int, Handler],
        spawn: Spawn,
        session: RemotingSession,
        endpoints: Endpoints,
        may_enter: Callable[[], bool] = lambda: True,
    ) -> None:
        self.session = session
        self._may_enter = may_enter
        self.endpoints = endpoints
        self.host = host_bytes(endpoints.host, endpoints.port)
        """Our address, as messages show where they are stored."""
        self.on_pass: list[Callable[[], None]] = []
        """What is done once, when all requests that lay ready were handed on."""
        self.on_hurry: list[Callable[[RemotingConnection], None]] = []
        self.on_close: list[Callable[[RemotingConnection], None]] = []
        self.is_closed = False
        self._opaque = 0
        self._intake = broker.intake
        self._handlers = handlers
        self._spawn = spawn

    def handle(self, command: Command) -> None:
        """Answers, at once or later."""
        call = Call(self, command)
        if not self._may_enter():
            call.answer(code=ResponseCode.NO_PERMISSION, remark=LOGIN_NEEDED)
            return
        handler = self._handlers.get(command.code)
        if handler is None:
            call.answer(
                code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=f"request code {command.code} is not supported"
            )
            return
        try:
            later = handler(call)
        except (RequestRefused, MainstemError) as error:
            call.refuse(error)
            return
        if later is not None:
            self._spawn(_finish(call, later))

    def answered(self, command: Command) -> None:
        """Requests of ours are one-way: nobody waits."""

    def push(self, code: int, fields: Mapping[str, str], body: bytes = b"") -> None:
        """A request of ours that is not answered."""
        self._opaque += 1
        self.session.say(Command(code, self._opaque, fields, body, IS_ONE_WAY))

    def pass_ended(self) -> None:
        """Do what was kept for the end of the pass."""
        waiting, self.on_pass = self.on_pass, []
        for call in waiting:
            call()
        if waiting and self._intake.is_pressed and not self.is_closed:
            self.session.hold()
            self._intake.when_relieved(self._relieved)

    def _relieved(self) -> None:
        if not self.is_closed:
            self.session.release()

    def hurry(self) -> None:
        """Answer now what waits for messages."""
        for call in self.on_hurry:
            call(self)

    def closed(self) -> None:
        """Let go of all that it held."""
        self.is_closed = True
        for call in (*self.on_hurry, *self.on_close):
            call(self)


async def _finish(call: Call, work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except (RequestRefused, MainstemError) as error:
        call.refuse(error)
    except Exception:
        log.exception("request %d failed for a fault of the broker", call.command.code)
        call.answer(code=ResponseCode.SYSTEM_ERROR, remark="a fault of the broker; its log says more")


def host_bytes(host: str, port: int) -> bytes:
    """Four bytes of an address and four of a port; of IPv6, which these messages have no room for, the loopback."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = LOOPBACK
    if address.version == 6:
        address = address.ipv4_mapped or LOOPBACK
    return address.packed + port.to_bytes(4)
