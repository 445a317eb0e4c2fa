"""A client of the management API, over the pure session."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from mainstem.broker.broker import Broker
from mainstem.broker.clock import LoopClock
from mainstem.protocols.amqp.adapter import AmqpAdapter
from mainstem.protocols.amqp.session import AmqpSettings
from mainstem.protocols.management.adapter import ManagementAdapter
from mainstem.protocols.management.session import ManagementSettings
from mainstem.server.request_meters import RequestMeter
from mainstem.storage.memory.engine import MemoryEngine
from mainstem.transport.address import Address
from tests.support.clients.http_client import Reply, read_replies, request_bytes
from tests.support.clients.session_driver import Driver
from tests.support.worlds.brokers import with_engine


class FixedListener(NamedTuple):
    name: str
    address: Address
    connections: int = 0


class FixedOperations:
    def __init__(self, host: str = "127.0.0.1") -> None:
        self.meters: dict[tuple[str, str], RequestMeter] = {}
        self.listeners = [
            FixedListener("amqp", Address("127.0.0.1", 5672)),
            FixedListener("management", Address(host, 15672)),
        ]

    def version(self) -> str:
        return "0"

    def condition(self) -> str:
        return "ready"

    def request_meter(self, protocol: str, operation: str, untimed: int = 0) -> RequestMeter:
        return self.meters.setdefault((protocol, operation), RequestMeter(untimed))


class Admin:
    """Asks, one request at a time."""

    def __init__(self, broker: Broker, operations: FixedOperations | None = None) -> None:
        self.broker = broker
        self._later: list[Coroutine[Any, Any, None]] = []
        known = operations or FixedOperations()
        AmqpAdapter(AmqpSettings(), broker, known)
        self.adapter = ManagementAdapter(ManagementSettings(), broker, known, self._later.append)

    async def ask(
        self,
        method: str,
        path: str,
        content: Any = None,
        user: str | None = "guest:guest",
        host: str = "localhost",
        headers: Sequence[str] = ("Content-Type: application/json",),
    ) -> Reply:
        headers = [*headers]
        if user is not None:
            headers.append(f"Authorization: Basic {base64.b64encode(user.encode()).decode()}")
        body = content if isinstance(content, bytes) else b"" if content is None else json.dumps(content).encode()
        driver = Driver(self.adapter.open_session)
        driver.feed(request_bytes(f"/api{path}", *headers, method=method, body=body, host=host))
        while not driver.output:
            while self._later:
                await self._later.pop()
            driver.pump()
            await asyncio.sleep(0)  # a thread may be looking at the password
        (reply,) = read_replies(bytes(driver.output), [method])
        return reply

    async def get(self, path: str, user: str = "guest:guest") -> Any:
        reply = await self.ask("GET", path, user=user)
        assert reply.status == 200, reply.body
        return reply.json()

    async def put(self, path: str, content: Any, status: int = 201) -> None:
        reply = await self.ask("PUT", path, content)
        assert reply.status == status, reply.body

    async def post(self, path: str, content: Any, status: int = 200) -> Any:
        reply = await self.ask("POST", path, content)
        assert reply.status == status, reply.body
        return reply.json() if reply.body else None

    async def delete(self, path: str, status: int = 204) -> None:
        reply = await self.ask("DELETE", path)
        assert reply.status == status, reply.body


def with_admin(test: Callable[[Admin], Awaitable[None]]) -> Callable[[], None]:
    async def run(engine: MemoryEngine) -> None:
        await test(Admin(await Broker.open(engine, LoopClock())))

    run.__name__ = test.__name__
    return with_engine(run)
